# SPDX-License-Identifier: Apache-2.0
"""``python -m swtch``, and what the command ``swtch`` starts.

A program of its own for Ctrl-C alone: that may come while the command line is still being
imported, and is one line then, too.
"""

import sys


def main() -> int:
    """Runs the command line; gives its exit code."""
    try:
        from swtch import cli

        return cli.main()
    except KeyboardInterrupt:
        # As cli says it, of which there may be only half yet.
        print("swtch: interrupted.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
