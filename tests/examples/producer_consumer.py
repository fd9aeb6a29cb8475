# SPDX-License-Identifier: Apache-2.0
"""producer_consumer.py PROGRAM: examples/producer_consumer.c loses nothing, and switches no
less than it must. It checks its own sums."""

from __future__ import annotations

import subprocess
import sys

from server import LIMIT_S, check, refused, unprinted

PROGRAM = sys.argv[1]

done = subprocess.run(
    [PROGRAM, "5000"], capture_output=True, text=True, timeout=LIMIT_S, check=False
)
check("result", (done.returncode, done.stderr), (0, ""))
rows = [line.split() for line in done.stdout.splitlines()[1:]]
check(
    "rows",
    [(model, int(room)) for model, room, _, _ in rows],
    [(model, room) for room in (1, 16, 256) for model in ("pthread", "uthread")],
)
switches = {(model, int(room)): float(count) for model, room, _, count in rows}
# On one CPU with room for one they must take turns.
for model in ("pthread", "uthread"):
    check(f"{model}: {switches}", switches[model, 1] > 1.9, True)
    check(f"{model}: {switches}", switches[model, 256] < switches[model, 1], True)
unprinted([PROGRAM, "10"])
refused([PROGRAM, "1", "2"], "usage")
for bad in ("", "x", "-1", "0", "3x", "1000000001"):
    refused([PROGRAM, bad], "number of items")
