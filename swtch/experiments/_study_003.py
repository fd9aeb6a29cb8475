# SPDX-License-Identifier: Apache-2.0
"""What study 003's experiments share: the policy, which the study does not name."""

from __future__ import annotations

from swtch.experiments import Policy, Setting


def policy_of(setting: Setting) -> Policy:
    """SCHED_OTHER, which a program has that asks for nothing.

    The lab's own default, SCHED_BATCH, lets nobody who wakes take a CPU from who computes,
    and that is not what the study's pthreads and workers had.
    """
    return "fifo" if setting.policy == "fifo" else "other"
