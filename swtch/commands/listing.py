# SPDX-License-Identifier: Apache-2.0
"""`swtch list`: what there is to run, and what it costs in time here."""

from __future__ import annotations

from typing import Any

from swtch import environment, experiments, plan
from swtch.commands import output
from swtch.experiments import Setting
from swtch.progress import duration

COLUMNS = {
    "experiment": "experiment",
    "study": "study",
    "question": "question",
    "models": "models",
    "trials": "trials",
    "time": "time",
}


def show(form: str) -> int:
    """Prints all experiments in format `form`."""
    cpus = environment.allowed_cpus()
    rows: list[dict[str, Any]] = []
    for experiment in experiments.every():
        # Trials and time of a plain 'swtch run': kernel threads need a guest.
        native = tuple(model for model in experiment.models if model != "kthread")
        setting = Setting(cpus=cpus, models=native)
        repeats = plan.repeats_of(experiment, "normal", None)
        seconds = plan.estimate_seconds([experiment], setting, repeats)
        rows.append(
            {
                "experiment": experiment.name,
                "title": experiment.title,
                "study": experiment.study,
                "question": experiment.question,
                "models": list(experiment.models),
                "trials": len(experiment.trials(setting)),
                "repeats": repeats,
                "seconds": round(seconds, 1),
                "time": duration(seconds),
            }
        )
    if form == "json":
        output.print_json({"schema": 1, "experiments": rows})
    elif form == "csv":
        output.print_csv([{**row, "models": " ".join(row["models"])} for row in rows])
    elif form == "md":
        output.print_markdown(rows, COLUMNS)
    else:
        output.print_table(rows, COLUMNS)
    return 0
