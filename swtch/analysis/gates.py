# SPDX-License-Identifier: Apache-2.0
"""Validity gates: what makes a sample doubtful.

A gate marks a sample and never deletes it: the figures are of all good
samples, and the reader sees how many carried which mark. A gate that fires on
most samples says something about the machine or the claim, not about noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from swtch.records import Sample, Trial

STEAL_SHARE = 0.01
SKEW_SHARE = 0.10
SWITCH_SHARE = 0.10
INTERRUPTS_PER_MS = 10.0
DELAY_SHARE = 0.05
STARVED = "starved"
THROTTLED_SHARE = 0.01
THROTTLED = "throttled"
_PAIRED = ("pair-overhead", "interrupt-overhead")


@dataclass(frozen=True)
class Gate:
    """``fires`` is True when the sample is doubtful for this reason."""

    name: str
    meaning: str
    fires: Callable[[Trial, Sample], bool]


def interventions(trial: Trial) -> int:
    """How often a scenario's threads intervene in one invocation, in all."""
    probe = trial.probe
    # Study 001's kernel threads have the module's own word for what they do.
    mode = probe.get("work_mode")
    idle = probe.get("intervention") == "none" or mode == "normal"
    if probe.get("probe") != "scenario" or idle:
        return 0
    between = probe.get("between") or mode in ("yield", "sched_yield")
    per_thread = -(-int(probe["iterations"]) // int(probe["every"])) - bool(between)
    return int(probe["threads"]) * per_thread


def sleeps(trial: Trial) -> bool:
    """Whether the interventions are sleeps: one timer interrupt each."""
    probe = trial.probe
    return probe.get("intervention") == "sleep" or probe.get("work_mode") in ("yield", "sleep")


def total(sample: Sample, field: str) -> int | None:
    """Sum of a kernel counter over the threads; None where the kernel does not know them."""
    counts = [getattr(thread, field) for thread in sample.threads]
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def counted_switches(sample: Sample) -> int:
    """Switches between threads that were counted, by the kernel or in user space."""
    voluntary, involuntary = total(sample, "nvcsw"), total(sample, "nivcsw")
    if voluntary is None or involuntary is None:
        return int(sample.values.get("switches", 0))
    return voluntary + involuntary


def _counter(_: Trial, sample: Sample) -> bool:
    expected = sample.values.get("expected")
    lost = expected is not None and sample.values.get("counter") != expected
    return lost or sample.detail.get("correct") is False


def _switches(trial: Trial, sample: Sample) -> bool:
    wanted = interventions(trial) or sample.values.get("handovers", 0)
    return wanted > 0 and counted_switches(sample) < wanted * (1 - SWITCH_SHARE)


def _preempted(trial: Trial, sample: Sample) -> bool:
    """Only of study 002's real-time tasks, which never yield: one that lost its CPU while it
    could run lost it to somebody of a higher class, or to the limit on real-time time."""
    fifo = trial.probe.get("probe") in _PAIRED and trial.probe.get("policy") == "fifo"
    return fifo and (total(sample, "nivcsw") or 0) > 0


def _migrated(_: Trial, sample: Sample) -> bool:
    return any(t.cpu_end is not None and t.cpu_end != t.cpu for t in sample.threads)


def _faults(_: Trial, sample: Sample) -> bool:
    return sample.values.get("majflt", 0) > 0


def _steal(_: Trial, sample: Sample) -> bool:
    return (sample.steal_ns or 0) > sample.elapsed_ns * STEAL_SHARE


def _throttled(_: Trial, sample: Sample) -> bool:
    """The quota of the control group that the lab is in, or of one above it."""
    return (sample.throttled_ns or 0) > sample.elapsed_ns * THROTTLED_SHARE


def _skew(trial: Trial, sample: Sample) -> bool:
    """Only where every thread has a CPU of its own: otherwise they must take turns."""
    used = trial.factors.get("cpus_used")
    if not sample.threads or not isinstance(used, int) or used < len(sample.threads):
        return False
    starts = [thread.start_ns for thread in sample.threads]
    wall = sample.values.get("wall_ns") or sample.values.get("wall_instructions", 0)
    return max(starts) - min(starts) > wall * SKEW_SHARE


def _interrupts(trial: Trial, sample: Sample) -> bool:
    """On a measured CPU, beyond the one timer interrupt that each sleep asks for itself."""
    slept = interventions(trial) if sleeps(trial) else 0
    cpus = max(1, len(trial.probe.get("cpus", ())))
    allowed = max(1.0, sample.elapsed_ns / 1e6) * INTERRUPTS_PER_MS * cpus
    return (sample.interrupts or 0) - slept > allowed


def _starved(_: Trial, sample: Sample) -> bool:
    """Only of probes whose workers have a CPU each, and so never wait for one another."""
    values = sample.values
    delay = values.get("run_delay_ns") or values.get("run_delay_instructions", 0)
    wall = values.get("wall_ns") or values.get("wall_instructions", 0)
    return delay > wall * DELAY_SHARE


GATES = (
    Gate("counter", "the shared counter, or a task's result, is not exact", _counter),
    Gate(
        "switches",
        f"more than {SWITCH_SHARE:.0%} of the yields, sleeps or hand-overs did not switch",
        _switches,
    ),
    Gate("preempted", "a real-time task lost its CPU to somebody else", _preempted),
    Gate("migrated", "a thread ended on another CPU than it was bound to", _migrated),
    Gate("faults", "a page had to be read from disk meanwhile", _faults),
    Gate("steal", f"the hypervisor took more than {STEAL_SHARE:.0%} of the time", _steal),
    Gate(
        "skew",
        f"threads with a CPU each started more than {SKEW_SHARE:.0%} of the run apart",
        _skew,
    ),
    Gate(
        "interrupts",
        f"a measured CPU handled more than {INTERRUPTS_PER_MS:.0f} interrupts per millisecond",
        _interrupts,
    ),
    Gate(
        STARVED,
        f"workers waited for a CPU that others had, more than {DELAY_SHARE:.0%} of the time",
        _starved,
    ),
    Gate(
        THROTTLED,
        f"a limit on CPU time (cpu.max) stopped it for more than {THROTTLED_SHARE:.0%} of the time",
        _throttled,
    ),
)


def check(trial: Trial, sample: Sample) -> tuple[str, ...]:
    """The names of the gates that mark this sample."""
    if sample.status != "ok":
        return ()
    return tuple(gate.name for gate in GATES if gate.fires(trial, sample))
