# SPDX-License-Identifier: Apache-2.0
"""`swtch list`: what there is to run, and what it costs in time here."""

from __future__ import annotations

from typing import Any

from swtch import environment, experiments, own, plan
from swtch.commands import output
from swtch.errors import RequestError
from swtch.experiments import Setting
from swtch.own import guard
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
    outside = own.packages()
    for extension in outside:
        own.register(extension)
    further = [experiment for extension in outside for experiment in extension.experiments.values()]
    named = (experiments.get(name) for name in experiments.names())
    by_name = tuple(experiment for experiment in named if experiment.by_name)
    for experiment in (*experiments.every(), *by_name, *further):
        # Trials and time of a plain 'swtch run': kernel threads need a guest.
        native = tuple(model for model in experiment.models if model != "kthread")
        setting = Setting(cpus=cpus, models=native)
        try:
            trials = len(experiment.trials(setting))
        except RequestError as error:  # of a package, whose code may be wrong
            guard.notice(str(error))
            continue
        repeats = plan.repeats_of(experiment, "normal", None)
        seconds = repeats * experiment.seconds * trials
        rows.append(
            {
                "experiment": experiment.name,
                "title": experiment.title,
                "study": experiment.study,
                "question": experiment.question,
                "models": list(experiment.models),
                "trials": trials,
                "repeats": repeats,
                "seconds": round(seconds, 1),
                "time": duration(seconds),
                "from": own.origin(experiment.name) or "swtch",
            }
        )
    columns = COLUMNS | ({"from": "from"} if further else {})
    if form == "json":
        output.print_json({"schema": 1, "experiments": rows})
    elif form == "csv":
        from swtch.data import worded

        output.print_csv(
            [
                {
                    **row,
                    "study": worded("study", row["study"]),
                    "models": " ".join(row["models"]),
                }
                for row in rows
            ]
        )
    elif form == "md":
        output.print_markdown(rows, columns)
    else:
        output.print_table(rows, columns)
    return 0
