# SPDX-License-Identifier: Apache-2.0
"""pipeline.py PROGRAM: examples/pipeline.cpp against the same sum, computed plainly."""

from __future__ import annotations

import subprocess
import sys

from server import LIMIT_S, check, refused, unprinted

PROGRAM = sys.argv[1]

for last, squarers in ((1, 1), (2, 1), (3, 7), (1000, 1), (3000, 40)):
    primes = [n for n in range(2, last + 1) if all(n % k for k in range(2, int(n**0.5) + 1))]
    want = f"{len(primes)} primes, squares' sum {sum(p * p for p in primes)}\n"
    done = subprocess.run(
        [PROGRAM, str(last), str(squarers)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    check(f"{last} {squarers}", (done.returncode, done.stderr, done.stdout), (0, "", want))
unprinted([PROGRAM, "10"])
refused([PROGRAM], "usage")
refused([PROGRAM, "10", "2", "3"], "usage")
for bad in ("", "x", "-1", "0", "3x", "99999999999999999999"):
    refused([PROGRAM, bad], "number from 1 to 1000000")
refused([PROGRAM, "10", "0"], "number from 1 to 1000")
