# SPDX-License-Identifier: Apache-2.0
"""The probe protocol, reading side: raw output of one invocation to a result.

The protocol is in docs/architecture.md: hello, one sample, end; or hello and
error. Everything else is a fault of the probe, and the one line that says so
names line and column of the output, because that output is kept in logs/.

Invariants:

- A result is taken only from output that is whole: hello first, end last, the
  count in `end` right. Half an output is no half a measurement.
- How the process ended outranks what it printed: a probe that was killed says
  nothing reliable.
"""

from __future__ import annotations

import signal
from typing import Any

import msgspec

from swtch.records import CarrierRecord, ThreadRecord, Trial

# Of what probes print; records on disk have a number of their own.
PROTOCOL = 1

_KINDS = ("hello", "sample", "end", "error")
# Of nanoseconds, a thousand times the age of the universe.
MOST = 1e30
# And what is nearer to zero, but not zero, is no measured difference from it.
LEAST = 1e-30
# What JSON of others, frames and charts can hold.
MOST_WHOLE = 1 << 64
_TOO_LARGE = f"a number beyond {MOST:.0e}, or a whole one beyond 64 bits"
_TOO_SMALL = f"a number nearer to zero than {LEAST:.0e}, and not zero"


class ProbeError(Exception):
    """Why an invocation has no result; ``str()`` is one clear line."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a whole output says. ``values`` are its numbers, ``detail`` the rest."""

    values: dict[str, float | int]
    threads: tuple[ThreadRecord, ...]
    carriers: tuple[CarrierRecord, ...]
    detail: dict[str, Any]


def how_it_ended(returncode: int) -> str:
    """One line for a process that neither succeeded nor explained itself."""
    if returncode < 0:
        try:
            name = signal.Signals(-returncode).name
        except ValueError:
            name = f"signal {-returncode}"
        return f"probe died of {name}"
    return f"probe ended with status {returncode} and no error record"


def read_result(stdout: bytes, returncode: int, trial: Trial) -> Result:
    """The result in `stdout`, or ProbeError."""
    if returncode < 0:
        raise ProbeError(how_it_ended(returncode))
    lines = _lines(stdout)
    for record in lines:
        if record["kind"] == "error":
            raise ProbeError(_error_text(record))
    if returncode != 0:
        raise ProbeError(how_it_ended(returncode))
    if not lines:
        raise ProbeError("probe printed nothing")
    if lines[0]["kind"] != "hello":
        raise ProbeError(f"probe output line 1: expected hello, got {lines[0]['kind']}")
    if lines[-1]["kind"] != "end":
        raise ProbeError(f"probe output was cut short after line {len(lines)}: it has no end")
    samples = [record for record in lines if record["kind"] == "sample"]
    if lines[-1].get("samples") != len(samples):
        raise ProbeError(
            f"probe output was cut short: it announces {lines[-1].get('samples')} samples"
            f" and holds {len(samples)}"
        )
    if len(samples) != 1:
        raise ProbeError(f"probe printed {len(samples)} samples where one was expected")
    return _result(samples[0], trial)


def beyond(value: Any) -> str:
    """Why a number in there measures nothing; empty where none does. It is so large, or so
    near to zero and not zero, that to compute with it would overflow."""
    if isinstance(value, int):
        return _TOO_LARGE if abs(value) >= MOST_WHOLE else ""
    if isinstance(value, float):
        # Not the other way round: what is no number is not within, either.
        if not abs(value) < MOST:
            return _TOO_LARGE
        return _TOO_SMALL if 0 < abs(value) <= LEAST else ""
    if not isinstance(value, (dict, list)):
        return ""
    within = value.values() if isinstance(value, dict) else value
    return next(filter(None, map(beyond, within)), "")


def _lines(stdout: bytes) -> list[dict[str, Any]]:
    records = []
    lines = stdout.split(b"\n")
    for number, line in enumerate(lines, start=1):
        if number == len(lines):
            if line:
                raise ProbeError(f"probe output was cut short in line {number}")
            break
        records.append(_record(line, number))
    return records


def _record(line: bytes, number: int) -> dict[str, Any]:
    try:
        record = msgspec.json.decode(line)
    except RecursionError:
        raise ProbeError(f"probe output line {number}: nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProbeError(
            f"probe output line {number}, column {_column(line, error)}: not JSON"
        ) from None
    if not isinstance(record, dict):
        raise ProbeError(f"probe output line {number}, column 1: not a JSON object")
    kind, schema = record.get("kind"), record.get("schema")
    if kind not in _KINDS:
        raise ProbeError(f"probe output line {number}: unknown kind {kind!r}")
    if schema != PROTOCOL:
        raise ProbeError(
            f"probe output line {number}: schema {schema!r}, this swtch speaks {PROTOCOL};"
            " probe and swtch are of different versions"
        )
    return record


def _column(line: bytes, error: Exception) -> int:
    """The column, from 1, at which `line` stops being JSON."""
    if isinstance(error, UnicodeDecodeError):
        return error.start + 1
    digits = str(error).rpartition("byte ")[2].rstrip(")")
    return int(digits) + 1 if digits.isdigit() else len(line) + 1


def _error_text(record: dict[str, Any]) -> str:
    what = " ".join(str(record.get("what", "no reason given")).split())
    where = record.get("where")
    return f"probe reports: {what}" + (f" (in {where})" if where else "")


def _result(sample: dict[str, Any], trial: Trial) -> Result:
    if sample.get("model") != trial.model:
        raise ProbeError(f"probe measured {sample.get('model')!r} where {trial.model} was asked")
    values: dict[str, float | int] = {}
    detail: dict[str, Any] = {}
    for key, value in sample.items():
        if key in ("kind", "schema", "model", "threads", "carriers"):
            continue
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            values[key] = value
        else:
            detail[key] = value
    if wrong := beyond(sample):
        raise ProbeError(f"probe sample has {wrong}, which measures nothing")
    if not isinstance(values.get("wall_ns"), int) or values["wall_ns"] <= 0:
        raise ProbeError(f"probe sample has no valid wall_ns: {sample.get('wall_ns')!r}")
    try:
        threads = msgspec.convert(sample.get("threads", []), tuple[ThreadRecord, ...])
        carriers = msgspec.convert(sample.get("carriers", []), tuple[CarrierRecord, ...])
    except msgspec.ValidationError as error:
        raise ProbeError(f"probe sample does not follow the schema: {error}") from None
    return Result(values=values, threads=threads, carriers=carriers, detail=detail)
