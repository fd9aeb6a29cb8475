# SPDX-License-Identifier: Apache-2.0
"""The chapter of `mitigation`: a hand-over with and without a prediction barrier."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence

from swtch.analysis.findings import Group, Place
from swtch.experiments.mitigation import NAME
from swtch.records import Finding
from swtch.report import shapes
from swtch.report.casework import (
    Cases,
    first_group,
    median_cell,
    median_of,
    phrase,
    ratio_between,
    switches_for,
    times,
)

_EACH = "each_{unit}"
_ASKED = {
    "none": "nobody asks",
    "one": "one of them asks",
    "all": "both ask",
}
# prctl(2): who decides, and what is in force.
_PRCTL, _ENABLE, _DISABLE, _FORCE = 1, 2, 4, 8


def state_of(state: int) -> str:
    """What PR_GET_SPECULATION_CTRL said, in words."""
    if state < 0:
        return errno.errorcode.get(-state, str(-state))
    if state == 0:
        return "not affected"
    way = "barrier" if state & (_DISABLE | _FORCE) else "no barrier"
    return f"{way}, {'by task' if state & _PRCTL else 'for all'}"


def _state(finding: Finding, _: Place) -> str:
    interval = finding.intervals.get("fence_state")
    return state_of(int(interval.estimate)) if interval else "–"


def _refusal(groups: Sequence[Group]) -> str | None:
    """Why nobody got what was asked for; None where it was given."""
    for group in groups:
        refused = median_of(group, "fence_errno", "errno")
        state = median_of(group, "fence_state", "state")
        if refused and refused.estimate and state:
            name = errno.errorcode.get(int(refused.estimate), str(refused.estimate))
            return f"{name}, its state is “{state_of(int(state.estimate))}”"
    return None


def _says(_: Place, groups: Sequence[Group]) -> Iterator[str]:
    refused = _refusal(groups)
    if refused:
        yield (
            f"Not measurable here: the kernel refuses the barrier to a task ({refused}). It needs"
            " x86-64 with the default spectre_v2_user=auto on a processor that is affected."
        )
        return
    without = first_group(groups, "process", barrier="none")
    own = median_of(without, _EACH)
    more = ratio_between(first_group(groups, "process", barrier="one"), without, _EACH)
    if own and more:
        yield (
            f"A switch between processes takes {phrase(own)}, and with a prediction barrier that"
            f" one of the two asks for, {times(more, 'as long')}."
        )
    same = ratio_between(
        first_group(groups, "pthread", barrier="one"),
        first_group(groups, "pthread", barrier="none"),
        _EACH,
    )
    if same:
        yield f"Between pthreads, which need none, asking for it makes it {times(same, 'as long')}."


_CASES = Cases(
    experiment=NAME,
    title="A hand-over with and without a prediction barrier",
    axis="{unit} from one to the other (less is better)",
    metric=_EACH,
    caption="Two on one CPU, by a futex. The barrier is due whenever the address space of who"
    " asked for it is switched to or from, so pthreads should not pay.",
    table="one hand-over on one CPU by a futex, medians with 95 % intervals; no time where the"
    " kernel refused what was to be measured",
    case=lambda trial: shapes.spoken(_ASKED, trial.factors["barrier"]),
    series=lambda trial: trial.model,
    labels=("model", "barrier"),
    columns={
        "{unit}": median_cell(_EACH),
        "the kernel says": _state,
        "switches": switches_for("handovers"),
    },
    says=_says,
    log=False,
)

figures = _CASES.figures
tables = _CASES.tables
terminal = _CASES.terminal
sentences = _CASES.sentences
