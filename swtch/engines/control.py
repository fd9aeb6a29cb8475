# SPDX-License-Identifier: Apache-2.0
"""A trial for kthreads as the text that /proc/kthread_perf/control takes.

The module knows the members of a trial by their own names, so a trial is
handed over word for word (kthread_perf/params.c has names and bounds).
"""

from __future__ import annotations

from typing import Any

_UNSAID = ("schema", "probe", "model")


def control_text(probe: dict[str, Any]) -> str:
    """``probe=NAME key=value ... start wait``.

    ``probe`` comes first because it sets everything back to how the module was
    loaded; lists have commas, truths are 0 and 1. ``wait``: the write returns when the run
    has ended, so that nobody has to look while it is measured.
    """
    words = [f"probe={probe['probe']}"] if "probe" in probe else []
    words += [f"{key}={_word(value)}" for key, value in probe.items() if key not in _UNSAID]
    return " ".join([*words, "start", "wait"]) + "\n"


def _word(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(map(_word, value))
    return str(int(value)) if isinstance(value, bool) else str(value)
