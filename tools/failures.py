#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""failures.py LOG: which tests of a run of meson's failed, and the end of what each said.

LOG is meson-logs/testlog-SETUP.json: an object a line, written as each test ends, so a run
that was killed has those that had ended. A run prints its failures in the midst of hundreds
of lines; of a long log often only the end is kept (by CI, by a terminal), and a test that
fails once in a hundred runs is worth having by name. Prints nothing when none failed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

# Results that are no failure, as meson names them.
FINE = {"OK", "SKIP", "EXPECTEDFAIL", "IGNORED"}
LINES = 12
WIDTH = 200


def tail(text: str) -> list[str]:
    """The last lines of `text` that say something, each cut to what a log's line holds."""
    said = [line.rstrip()[:WIDTH] for line in text.splitlines() if line.strip()]
    return said[-LINES:]


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: failures.py LOG")
    log = Path(sys.argv[1])
    if not log.exists():
        print(f"no test ended: there is no {log.name}")
        return
    for line in log.read_text(errors="replace").splitlines():
        try:
            test = json.loads(line)
        except ValueError:
            continue  # the run was killed while it wrote
        if test["result"] in FINE:
            continue
        name = test["name"].rpartition(":")[2]
        print(f"{name}: {test['result']} after {test['duration']:.1f} s")
        for said in tail(test["stdout"]) + tail(test.get("stderr", "")):
            print(f"  {said}")


if __name__ == "__main__":
    main()
