# SPDX-License-Identifier: Apache-2.0
"""python_ring.py THREADS TURNS: threads of Python in a ring, each woken by the one before.
For `uthread-run`; exit status 1: some turn was lost."""

import sys
import threading


def main(threads: int, turns: int) -> int:
    locks = [threading.Lock() for _ in range(threads)]
    taken = [0] * threads
    for lock in locks:
        lock.acquire()

    def run(me: int) -> None:
        for _ in range(turns):
            locks[me].acquire()
            taken[me] += 1
            locks[(me + 1) % threads].release()

    ring = [threading.Thread(target=run, args=(i,)) for i in range(threads)]
    for thread in ring:
        thread.start()
    locks[0].release()
    for thread in ring:
        thread.join()
    return taken != [turns] * threads


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
