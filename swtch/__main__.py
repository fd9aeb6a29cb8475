# SPDX-License-Identifier: Apache-2.0
"""``python -m swtch``, and what the command ``swtch`` starts.

A program of its own for how it begins and ends: Ctrl-C may come while the command line is
still being imported, and is one line then, too; and Python waits at its end for threads that
code from outside may have left.
"""

import sys

# For so long threads of code from outside may end what they are at.
GRACE_S = 10.0


def main() -> int:
    """Runs the command line; gives its exit code."""
    try:
        from swtch import cli

        code = cli.main()
        _wait_for_threads(code)
        return code
    except KeyboardInterrupt:
        # As cli says it, of which there may be only half yet.
        print("swtch: interrupted.", file=sys.stderr)
        return 130


def _wait_for_threads(code: int) -> None:
    """Not for ever: one of the lab's own would have ended by now."""
    import threading

    left = [thread for thread in threading.enumerate() if not thread.daemon]
    left.remove(threading.main_thread())
    if not left:
        return

    def end() -> None:
        import os
        import time

        # Those of a pool end only when Python is about to.
        time.sleep(GRACE_S)
        names = ", ".join(ascii(thread.name) for thread in left if thread.is_alive())
        print(
            f"swtch: code from outside left a thread that does not end ({names});"
            " it is not waited for.",
            file=sys.stderr,
            flush=True,
        )
        os._exit(code)

    threading.Thread(target=end, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
