# SPDX-License-Identifier: Apache-2.0
"""A run in the JSON of Google Benchmark, for the tools that read it.

Every trial is a benchmark, every invocation a repetition of it. ``real_time`` is the
trial's main cost in nanoseconds (of a rate: of one operation), ``cpu_time`` the CPU
time of its threads for as many operations where the kernel knows it, else the same.
What the exact engine counted is no time and is left out.

Source: google/benchmark, docs/user_guide.md and tools/compare.py, which read context,
name, run_type, repetition_index, real_time, cpu_time and time_unit.
"""

from __future__ import annotations

from typing import Any

from swtch.analysis import findings, gates, main_metric
from swtch.analysis.findings import Group, group_samples
from swtch.engines import TRAITS
from swtch.records import Sample
from swtch.store import Run

NANOSECONDS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}


def of(run: Run) -> dict[str, Any]:
    """The whole document."""
    benchmarks: list[dict[str, Any]] = []
    groups = (g for g in group_samples(run.manifest.trials, run.samples) if g.good)
    timed = (g for g in groups if not TRAITS[g.trial.engine].counting)
    for family, trial_group in enumerate(timed):
        benchmarks += _benchmark(trial_group, family)
    return {"context": _context(run), "benchmarks": benchmarks}


def _context(run: Run) -> dict[str, Any]:
    facts = run.manifest.environment
    cpu = facts.get("cpu", {})
    return {
        "date": run.manifest.created,
        "host_name": run.manifest.run_id,
        "executable": "swtch",
        "num_cpus": len(cpu.get("allowed") or ()) or 1,
        "mhz_per_cpu": 0,
        "cpu_scaling_enabled": cpu.get("governor") not in (None, "", "performance"),
        "aslr_enabled": facts.get("memory", {}).get("randomize_va_space") != 0,
        "caches": [],
        "load_avg": list(facts.get("host", {}).get("load") or ()),
        "library_build_type": "release",
        "swtch_version": run.manifest.swtch_version,
    }


def _benchmark(trial_group: Group, family: int) -> list[dict[str, Any]]:
    main = main_metric.within(trial_group)
    if main is None:
        return []
    metric, unit = main.name, main.unit
    threads = trial_group.trial.probe.get("threads", 1)
    rows = []
    for index, sample in enumerate(trial_group.good):
        value = findings.metrics(sample)[metric]
        real = _nanoseconds(value, unit)
        if real is None:
            return []
        rows.append(
            {
                "name": trial_group.trial.id,
                "family_index": family,
                "per_family_instance_index": 0,
                "run_name": trial_group.trial.id,
                "run_type": "iteration",
                "repetitions": len(trial_group.good),
                "repetition_index": index,
                "threads": threads if isinstance(threads, int) else 1,
                "iterations": int(sample.values.get("counter", 1)) or 1,
                "real_time": real,
                "cpu_time": _cpu(sample, unit, real),
                "time_unit": "ns",
                "metric": metric,
                "engine": sample.engine,
            }
        )
    return rows


def _nanoseconds(value: float, unit: str) -> float | None:
    """The cost of one: of a rate its inverse; None of what is no time."""
    if unit in NANOSECONDS:
        return value * NANOSECONDS[unit]
    rates = {"Mops/s": 1e3, "million a second": 1e3, "ops/s": 1e9, "1/s": 1e9}
    return rates[unit] / value if unit in rates else None


def _cpu(sample: Sample, unit: str, real: float) -> float:
    total = gates.total(sample, "cpu_ns")
    counter = sample.values.get("counter")
    return total / counter if total and counter and unit == "Mops/s" else real
