# SPDX-License-Identifier: Apache-2.0
"""A trial for kthreads as the text that /proc/kthread_perf/control takes."""

from __future__ import annotations

from typing import Any


def control_text(probe: dict[str, Any]) -> str:
    """``key=value ... start``: the trial's own members, lists with commas."""
    words = []
    for key, value in probe.items():
        if key in ("schema", "model"):
            continue
        if isinstance(value, (list, tuple)):
            value = ",".join(map(str, value))
        words.append(f"{key}={value}")
    return " ".join([*words, "start"]) + "\n"
