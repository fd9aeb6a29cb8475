# SPDX-License-Identifier: Apache-2.0
"""What others had of the measured CPUs over a run: the hypervisor's guests, and this machine's
other programs.

A verdict is as good as the machine was quiet, so a run says it beside its verdicts: the
steal over all its invocations, the most in a long one, what other programs took, and how many
samples a gate marked.

- Steal is a share of the time of the CPUs that were measured (records.Sample says which). The
  kernel counts it in ticks of 10 ms, and late, so of a short invocation it is nothing or more
  than there was time; over the run it is right. Of a single one it is stated where a tick is
  at most a twentieth of its time, if there is such.
- What others took is what those CPUs worked for anybody without what the probe's processes had
  of it, interrupts and the lab itself included: over the run, for in one invocation the two are
  not counted at the same moments. Only probes on the machine itself have it.

Rejected: the window of a third of a second in the environment (before the run, not over it),
what is left over in each sample but never less than nothing (biased, the ticks are coarse).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from swtch.analysis import gates
from swtch.analysis.findings import Group

# Twenty ticks by which the kernel counts steal.
LONG_NS = 200_000_000


@dataclass(frozen=True)
class Neighbours:
    """Shares of the measured CPUs' time, None where nobody counted; samples by the gates.

    ``steal`` is over the whole run, ``steal_most`` of one sample of LONG_NS or more, None
    where there is none. ``throttled`` samples met the limit of the control group's CPU time.
    """

    steal: float | None
    steal_most: float | None
    others: float | None
    marked: int
    samples: int
    throttled: int = 0

    @property
    def marked_share(self) -> float:
        return self.marked / self.samples if self.samples else 0.0

    @property
    def sentence(self) -> str:
        """All of it in a sentence or two; empty without good samples."""
        if not self.samples:
            return ""
        parts = []
        if self.steal is None:
            parts.append("steal was not counted here")
        elif not self.steal:
            parts.append("the hypervisor took none of the measured CPUs' time")
        else:
            taken = f"the hypervisor took {percent(self.steal)} of the measured CPUs' time"
            if self.steal_most:
                taken += f" (of a sample of {LONG_NS / 1e9:g} s or more at most"
                taken += f" {percent(self.steal_most)})"
            parts.append(taken)
        if self.others is not None:
            parts.append(f"other programs and interrupts had {percent(self.others)} of it")
        if self.throttled:
            stopped = "the limit on CPU time (cpu.max of the control group) stopped"
            parts.append(f"{stopped} {self.throttled} of {self.samples} samples")
        marks = f"gates marked {self.marked} of {self.samples} samples"
        marks += f" ({percent(self.marked_share)})" if self.marked else ""
        text = ", ".join(parts)
        return f"While measuring, {text}; {marks}."


def neighbours(groups: Iterable[Group], online: int = 1) -> Neighbours:
    """Over all good samples of `groups`; `online` CPUs has the machine, where that counts."""
    stolen: list[tuple[int, int]] = []
    longer: list[float] = []
    worked: list[tuple[int, int]] = []
    marked = samples = throttled = 0
    for group in groups:
        # In a guest it was counted of the whole machine.
        cpus = max(1, len(group.trial.probe.get("cpus", ())) if group.place.home else online)
        for sample in group.good:
            samples += 1
            marks = gates.check(group.trial, sample)
            marked += bool(marks)
            throttled += gates.THROTTLED in marks
            time = sample.elapsed_ns * cpus
            if time > 0 and sample.steal_ns is not None:
                stolen.append((sample.steal_ns, time))
                if sample.elapsed_ns >= LONG_NS:
                    longer.append(sample.steal_ns / time)
            if time > 0 and sample.busy_ns is not None and sample.own_ns is not None:
                worked.append((sample.busy_ns - sample.own_ns, time))
    return Neighbours(
        steal=_share(stolen),
        steal_most=max(longer, default=None),
        others=_share(worked),
        marked=marked,
        samples=samples,
        throttled=throttled,
    )


def _share(parts: Sequence[tuple[int, int]]) -> float | None:
    """Of (counted, time) pairs, over all of them."""
    if not parts:
        return None
    return max(0, sum(counted for counted, _ in parts)) / sum(time for _, time in parts)


def percent(share: float) -> str:
    """To a tenth of a per cent; what is less, and not nothing, says so."""
    if 0 < share < 0.0005:
        return "< 0.1 %"
    return f"{share * 100:.1f} %" if share else "0 %"
