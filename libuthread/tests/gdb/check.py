# SPDX-License-Identifier: Apache-2.0
"""check.py HOW GDB SUBJECT LIBRARY: what gdb says of the uthreads of subject.c.

HOW is live, live-frame (ticks stop a uthread in the other way), live-stripped (a library
without symbols and debug information) or core. A live one is let go on in the end, and has
to come to its own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# Name, what it waits for, and the function where it does.
WAITING = (
    ("first", "mutex 0x[0-9a-f]+", "wait_for_mutex"),
    ("second", "mutex 0x[0-9a-f]+", "wait_for_mutex"),
    ("listener", "cond 0x[0-9a-f]+", "wait_for_cond"),
    ("sleeper", "sem 0x[0-9a-f]+, timed", "wait_for_time"),
    ("reader", "descriptor [0-9]+", "wait_for_byte"),
)
BUSY = [f"busy {i}" for i in range(4)]
EACH = [name for name, _, _ in WAITING] + BUSY + ["main"]


def commands() -> list[str]:
    """Each answer between two lines of its own."""
    asked = ["info uthreads", "uthread apply all bt"]
    asked += [f'uthread "{name}" bt' for name in EACH]
    asked += [f"uthread {name} frame function wait_for_mutex" for name in ("first", "second")]
    lines = []
    for command in asked:
        lines += [f"echo \\n<{command}>\\n", command]
    for name in ("first", "second"):
        # Selected, then by gdb's own commands.
        lines += [f"echo \\n<{name} selected>\\n", f"uthread {name}", "bt"]
        lines += ["frame function wait_for_mutex", "print *number", "info uthreads"]
    lines += ["echo \\n<back>\\n", "uthread -", "bt"]
    # What is selected ends by itself when the program goes on.
    lines += ["uthread first", "echo \\n<end>\\n"]
    return lines


def run(gdb: list[str], script: list[str], environment: dict[str, str]) -> str:
    with tempfile.NamedTemporaryFile("w", suffix=".gdb") as file:
        file.write("\n".join(["set pagination off", "set width 0", *script, ""]))
        file.flush()
        done = subprocess.run(
            [*gdb, "-x", file.name],
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    return done.stdout


class Said:
    def __init__(self, everything: str) -> None:
        self.everything = everything
        self.failed = False

    def part(self, title: str) -> str:
        _, found, rest = self.everything.partition(f"\n<{title}>\n")
        self.check(bool(found), f"<{title}> was not reached")
        return rest.partition("\n<")[0]

    def check(self, condition: bool, what: str) -> None:
        if not condition:
            print(f"not so: {what}")
            self.failed = True

    def has(self, title: str, pattern: str) -> None:
        part = self.part(title)
        self.check(bool(re.search(pattern, part, re.M)), f"<{title}> has {pattern}")


def judge(said: Said, live: bool) -> None:
    table = "info uthreads"
    for name, on, function in WAITING:
        said.has(table, rf"^  \d+ +{name} +waiting for {on} +{function} \(\) at ")
        said.has(f'uthread "{name}" bt', rf"^#\d+ .* in {function} \(")
        # The frame of its function, too, and nothing behind its first.
        said.has(f'uthread "{name}" bt', r"^#\d+ .* in (locks|listens|sleeps|reads) \(arg=")
    for name in BUSY:
        said.has(table, rf"^  \d+ +{name} +(running on \w+ \d|ready) +compute \(\) at ")
        said.has(f'uthread "{name}" bt', r"^#\d+ .*\bcompute \(turn=")
        said.has(f'uthread "{name}" bt', r"^#\d+ .* in computes \(arg=")
    # They are bound to one worker.
    ready = re.findall(r"^  \d+ +busy \d +ready", said.part(table), re.M)
    said.check(len(ready) >= 2, f"two were stopped by ticks: {ready}")
    said.has(table, r"^\* \d+ +main +running on worker 0 +all_there \(\) at ")
    said.has('uthread "main" bt', r"^#0 .*\ball_there \(\)")
    for function in ("wait_for_mutex", "wait_for_cond", "wait_for_time", "wait_for_byte"):
        said.has("uthread apply all bt", rf"^#\d+ .* in {function} \(")
    for name in EACH:
        said.has("uthread apply all bt", rf"^Uthread \d+ '{name}': ")
    for i, name in enumerate(("first", "second"), start=1):
        title = f"{name} selected"
        said.has(title, rf"^\[Switching to Uthread \d+ '{name}': waiting for mutex")
        said.has(title, r"^#\d+ .* in wait_for_mutex \(number=")
        # By way of its stack, and a register that was kept on it.
        said.has(title, rf"^\$\d+ = {i}$")
        said.has(title, rf"^\* \d+ +{name} ")
        said.check("all_there" not in said.part(title).partition("$")[0], "the thread is left out")
    said.has("back", r"^#0 .*\ball_there \(\)")
    said.has("back", r"^#1 .* main \(\)")
    if live:
        said.has("end", r"^all ended$")
        said.has("end", r"exited normally\]$")


def main() -> int:
    how, gdb, subject, library = sys.argv[1], *sys.argv[2:5]
    with tempfile.TemporaryDirectory() as scratch:
        environment: dict[str, str] = {"LC_ALL": "C"}
        if how == "live-frame":
            environment["UTHREAD_PREEMPT"] = "frame"
        if how == "core":
            environment["UTHREAD_GUARD"] = "mprotect"  # gcore stops at the others
        folder = Path(library).parent
        start = ["break all_there"]
        if how == "live-stripped":
            folder = Path(scratch)
            stripped = folder / Path(library).name
            subprocess.run(["strip", "-o", stripped, library], check=True)
            shutil.copy(f"{library}-gdb.py", folder)
            start.append(f"set environment LD_PRELOAD {stripped}")
        command = [gdb, "-nx", "-batch", "-iex", f"set auto-load safe-path {folder}"]
        core = Path(scratch) / "core"
        if how == "core":
            made = run([*command, subject], [*start, "run", f"gcore {core}", "kill"], environment)
            if not core.exists():
                print(made)
                return 1
            said = Said(run([*command, subject, str(core)], commands(), environment))
        else:
            said = Said(
                run([*command, subject], [*start, "run", *commands(), "continue"], environment)
            )
        judge(said, how != "core")
    if said.failed:
        print(said.everything)
    return said.failed


sys.exit(main())
