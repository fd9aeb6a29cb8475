# SPDX-License-Identifier: Apache-2.0
"""`swtch doctor`: the conditions of this machine, worst news not hidden."""

from __future__ import annotations

from collections import Counter

import msgspec

from swtch import doctor, environment
from swtch.commands import output
from swtch.errors import EXIT_OK, EXIT_SOME_FAILED

COLUMNS = {
    "name": "condition",
    "state": "state",
    "value": "here",
    "effect": "what it does to measurements",
    "mend": "how to mend",
}
STYLES = {"good": "green", "note": "cyan", "bad": "bold red", "absent": "dim"}
STEAL_WINDOW_S = 0.5
SEND = "Please send this line to the makers of swtch: nobody has seen all of these paths run."


def show(form: str) -> int:
    """Examines the machine and prints the result in format `form`."""
    environment.allowed_cpus()  # nothing else makes sense without one
    facts = environment.collect(steal_s=STEAL_WINDOW_S)
    conditions = doctor.examine(facts)
    if form == "json":
        output.print_json({"schema": 1, "conditions": conditions, "environment": facts})
        return 0
    output.print_table([msgspec.structs.asdict(c) for c in conditions], COLUMNS, STYLES)
    count = Counter(str(condition.state) for condition in conditions)
    print(", ".join(f"{count[state]} {state}" for state in STYLES))
    return 0


def self_check() -> int:
    """Tries the paths that are seldom seen; EXIT_SOME_FAILED when one that exists fails."""
    from swtch import self_check as check
    from swtch.progress import Progress

    environment.allowed_cpus()
    progress = Progress(quiet=False)
    paths = check.every(progress.say)
    print(check.line(paths))
    progress.say(SEND)
    return EXIT_SOME_FAILED if check.failed(paths) else EXIT_OK
