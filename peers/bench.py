#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares libuthread with other libraries in one interleaved run, and judges the targets.

The unit of statistics is one process start. Each round starts every case once,
in a random order, so that what disturbs the machine disturbs all alike; a
ratio is taken within each round, and its interval over the rounds.

Invariants:

- A missing peer, a program that fails or a machine that is too small costs
  its own rows and one line that says so, never the run.
- A number is never left out because it looks bad; rounds with other work on
  the machine widen the interval, and the load is printed.
- A target that is missed is a result: exit status 0, unless --check asks.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench_cases import BOOST, CASES, GO, GROUPS, MANY_VERSUS, PTHREAD, TARGETS, UTHREAD, Case
from bench_stats import Estimate, Row, Verdict, estimate, judge, paired

ROOT = Path(__file__).resolve().parent.parent
PARKED = 1_000_000
HELP_RUNS = 20
TIMEOUT_S = 60.0
PARK_TIMEOUT_S = 180.0

PACKAGES = {
    UTHREAD: "run make bench",
    PTHREAD: "run make bench",
    GO: "it needs Go",
    BOOST: "it needs Boost.Fiber: libboost-fiber1.81-dev, libboost-context1.81-dev",
}


# ---- running ----


class FailedError(Exception):
    """An invocation that gave no number; its text is one line."""


def parse(output: str) -> dict[str, Any]:
    """The one JSON line of a program."""
    lines = [line for line in output.splitlines() if line.strip()]
    if len(lines) != 1:
        raise FailedError(f"printed {len(lines)} lines instead of one")
    try:
        record = json.loads(lines[0])
    except ValueError:
        raise FailedError(f"printed no JSON: {lines[0][:80]}") from None
    if not isinstance(record, dict) or not isinstance(record.get("ns"), int | float):
        raise FailedError(f"printed no time: {lines[0][:80]}")
    return record


def invoke(command: Sequence[str], timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    """Runs one program once. Its environment is padded at random: where the
    stack begins is not the same in every invocation."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("UTHREAD_")}
    environment["SWTCH_PAD"] = "x" * random.randrange(4096)
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        raise FailedError(f"did not end within {timeout_s:.0f} s") from None
    except OSError as error:
        raise FailedError(f"could not be started: {error.strerror}") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise FailedError(f"ended with status {done.returncode}: {last}")
    return parse(done.stdout)


Say = Callable[[str], None]


def missing_programs(folder: Path, cases: Iterable[Case], say: Say) -> set[str]:
    """Programs that were not built; each is said once."""
    missing = {c.program for c in cases if not os.access(folder / c.program, os.X_OK)}
    for program in sorted(missing):
        say(f"{program} is not built ({PACKAGES[program]}); its rows are left out")
    return missing


def run_rounds(
    cases: Sequence[Case], rounds: int, folder: Path, cpu: int, seed: int, say: Say
) -> dict[str, Row]:
    """Every case once a round, in a random order."""
    order = random.Random(seed)
    rows = {case.name: Row(case.name, case.what, "ns") for case in cases}
    failed: set[str] = set()
    for number in range(rounds):
        say(f"\rround {number + 1} of {rounds}")
        for case in order.sample(cases, len(cases)):
            row = rows[case.name]
            pin = ("--cpu", str(cpu)) if case.one_cpu else ()
            try:
                record = invoke([str(folder / case.program), *pin, *case.args])
            except FailedError as error:
                row.values.append(None)
                if case.name not in failed:
                    failed.add(case.name)
                    say(f"{case.name}: {error}")
                continue
            row.values.append(float(record.pop("ns")))
            record.pop("name", None)
            row.detail = record
    return rows


def _many_rows(count: int, mode: str) -> dict[str, Row]:
    """What very many parked uthreads are measured by; the names without the mode."""
    each = f"{count:,} parked uthreads, {mode} TLS"
    return {
        "park": Row(f"park-{mode}", each, "bytes"),
        "pages": Row(f"pages-{mode}", f"{each}: their pages and guards alone", "ns"),
        "make": Row(f"make-{mode}", f"{each}: created by a uthread", "ns"),
        "make-main": Row(f"make-{mode}-main", f"{each}: created by main", "ns"),
        "walk": Row(f"walk-{mode}", f"the cache lines of {count:,} yields, {mode} TLS", "ns"),
        "many": Row(f"yield-{mode}-many", f"uthread_yield, {count:,} uthreads, {mode} TLS", "ns"),
    }


def _park_once(
    rows: dict[str, Row], mode: str, count: int, folder: Path, cpu: int, say: Say
) -> None:
    """One round: each next to the floor it is compared with."""
    pinned = [str(folder / UTHREAD), "--cpu", str(cpu)]
    steps = {
        "pages": [*pinned, "pages", mode, str(count)],
        "park": [*pinned, "park", mode, str(count)],
        "make-main": [str(folder / UTHREAD), "park", mode, str(count), "main"],
        "many": [*pinned, "yield", mode, str(count)],
    }
    for name, command in steps.items():
        if rows[name].values and rows[name].values[-1] is None:
            continue
        try:
            record = invoke(command, PARK_TIMEOUT_S)
        except FailedError as error:
            say(f"{rows[name].name}: {error}")
            rows[name].values.append(None)
            continue
        row = rows[name]
        row.detail = record
        if name == "park":
            row.values.append(float(record["bytes"]))
            rows["make"].values.append(float(record["create_ns"]))
            if record["n"] < record["asked"]:
                row.what = f"{record['n']:,} parked uthreads, {mode} TLS"
                words = f"memory for {record['n']:,} of {record['asked']:,} uthreads only"
                say(f"{row.name}: {words}")
        elif name == "make-main":
            row.values.append(float(record["create_ns"]))
        else:
            row.values.append(float(record["ns"]))
        if name == "pages":
            rows["walk"].values.append(float(record["walk_ns"]))


def run_park(count: int, repeats: int, folder: Path, cpu: int, say: Say) -> dict[str, Row]:
    """Very many uthreads, in both TLS modes: bytes of each, time to create and to
    yield among them, and what their memory alone would take."""
    rows: dict[str, Row] = {}
    for mode in ("shared", "own"):
        here = _many_rows(count, mode)
        for number in range(repeats):
            say(f"\rparking {count:,} uthreads, {mode} TLS, {number + 1} of {repeats}")
            _park_once(here, mode, count, folder, cpu, say)
        rows |= {row.name: row for row in here.values()}
    return rows


def run_help(runs: int, say: Say) -> dict[str, Row]:
    """Wall time of `swtch --help`, in seconds."""
    command = [str(Path(sys.executable).parent / "swtch"), "--help"]
    if not os.access(command[0], os.X_OK):
        command = [sys.executable, "-m", "swtch", "--help"]
    row = Row("help", "swtch --help", "s")
    for number in range(runs + 1):
        begin = time.perf_counter()
        try:
            code = subprocess.run(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S
            ).returncode
        except (OSError, subprocess.TimeoutExpired):
            code = -1
        if code:
            say("swtch --help does not run here (is it installed?); its row is left out")
            return {}
        if number:  # the first one warms the file cache
            row.values.append(time.perf_counter() - begin)
    return {"help": row}


# ---- the machine ----


def _field(path: str, name: str) -> str:
    try:
        for line in Path(path).read_text().splitlines():
            if line.partition(":")[0].strip() == name:
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return ""


def _glibc() -> str:
    try:
        version = ctypes.CDLL(None).gnu_get_libc_version
    except (AttributeError, OSError):
        return "unknown"
    version.restype = ctypes.c_char_p
    return str(version().decode())


def machine() -> dict[str, Any]:
    """What a reader needs to compare these numbers with others."""
    return {
        "cpu": _field("/proc/cpuinfo", "model name") or platform.machine(),
        "cpu_family": _field("/proc/cpuinfo", "cpu family"),
        "cpu_model": _field("/proc/cpuinfo", "model"),
        "cpus": len(os.sched_getaffinity(0)),
        "virtual": "hypervisor" in _field("/proc/cpuinfo", "flags").split(),
        "kernel": platform.release(),
        "glibc": _glibc(),
        "memory_kb": _field("/proc/meminfo", "MemTotal").removesuffix(" kB"),
    }


def disturbance() -> dict[str, float]:
    """Load and stolen time so far: their change over the run says how quiet it was."""
    try:
        ticks = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    except OSError:
        ticks = []
    return {
        "load": os.getloadavg()[0],
        "steal_s": int(ticks[7]) / os.sysconf("SC_CLK_TCK") if len(ticks) > 7 else 0.0,
        "time_s": time.time(),
    }


# ---- showing ----


def number(value: float, unit: str) -> str:
    if unit == "s":
        return f"{value * 1000:.0f} ms"
    if unit == "bytes":
        return f"{value:,.0f} B"
    if unit == "x":
        return f"{value:.2f}" if value < 10 else f"{value:.1f}"
    return f"{value:.1f} ns" if value < 1000 else f"{value:,.0f} ns"


def interval(found: Estimate, unit: str) -> str:
    dash = " .. " if found.kind == "range" else " – "
    return number(found.low, unit).removesuffix(" " + unit) + dash + number(found.high, unit)


def tables(
    rows: dict[str, Row], verdicts: Sequence[Verdict]
) -> tuple[list[Sequence[str]], list[Sequence[str]]]:
    """The two tables as text: what was measured, and the targets."""
    versus = {case.name: case.versus for case in CASES} | MANY_VERSUS
    measured: list[Sequence[str]] = []
    for row in rows.values():
        found = estimate(row.values)
        if found is None:
            measured.append((row.name, row.what, "failed", "", ""))
            continue
        ratio, other = "", rows.get(versus.get(row.name, ""))
        if other is not None:
            times = estimate(paired(row.values, other.values))
            ratio = f"{number(times.median, 'x')} x {other.name}" if times else ""
        measured.append(
            (
                row.name,
                row.what,
                number(found.median, row.unit),
                interval(found, row.unit),
                ratio,
            )
        )
    judged: list[Sequence[str]] = []
    for verdict in verdicts:
        said = []
        for name, found, words in verdict.checks:
            if found is None:
                said.append("–")
                continue
            unit = "x" if name else _unit(verdict, rows)
            said.append(
                f"{number(found.median, unit)} ({interval(found, unit)}) {name} {words}".replace(
                    "  ", " "
                )
            )
        judged.append((verdict.name, "; ".join(said), verdict.verdict))
    return measured, judged


def _unit(verdict: Verdict, rows: dict[str, Row]) -> str:
    case = next(t for t in TARGETS if t.name == verdict.name).any_of[0].case
    return rows[case].unit if case in rows else "ns"


def show(title: str, head: Sequence[str], lines: Sequence[Sequence[str]], right: set[int]) -> None:
    """One table on standard output, by rich where it is installed."""
    try:
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]
        print(f"\n{title}")
        for line in [head, *lines]:
            print("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip())
        return
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for i, name in enumerate(head):
        table.add_column(name, justify="right" if i in right else "left")
    colours = {"met": "green", "missed": "red", "not measured": "yellow"}
    for line in lines:
        table.add_row(*(Text(cell, style=colours.get(cell, "")) for cell in line))
    console = Console()
    if not console.is_terminal:
        console = Console(width=140)
    console.print(table)


def park_lines(rows: dict[str, Row]) -> Iterable[str]:
    for name in ("park-shared", "park-own"):
        d = rows[name].detail if name in rows else {}
        if d:
            yield (
                f"{name}: create {d['create_ns'] / 1000:.1f} us each, wake + join"
                f" {d['wake_ns'] / 1000:.1f} us each; page tables {d['table_bytes']:.0f} B of it;"
                f" guards by {d['guard']}, {d['guards_held']} of {d['guards_tried']} tried held;"
                f" {d['vmas']} more VMAs"
            )


# ---- the command ----


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="bench.py", description=(__doc__ or "").splitlines()[0])
    p.add_argument("--rounds", type=int, help="process starts of each case (30; 5 with --quick)")
    p.add_argument("--quick", action="store_true", help="few rounds, and 100 000 parked threads")
    p.add_argument(
        "--only",
        metavar="NAME[,...]",
        default="",
        help=f"only these rows or groups; groups: {' '.join(GROUPS)}",
    )
    p.add_argument("--park", type=int, metavar="N", help="how many uthreads to park")
    p.add_argument("--cpu", type=int, help="the CPU of one-CPU rows (the last allowed one)")
    p.add_argument("--seed", type=int, default=1, help="of the order of the rounds")
    p.add_argument("--build-dir", type=Path, default=ROOT / "build-bench", help="where meson built")
    p.add_argument("--json", type=Path, help="where the results go (BUILD-DIR/bench.json)")
    p.add_argument("--check", action="store_true", help="exit with 1 when a target is missed")
    return p


def main(argv: Sequence[str] | None = None) -> int:
    p = parser()
    options = p.parse_args(argv)
    only = {word for word in options.only.split(",") if word}
    known = {case.name for case in CASES} | set(GROUPS)
    if only - known:
        p.error(f"--only: unknown {', '.join(sorted(only - known))}")
    rounds = options.rounds or (5 if options.quick else 30)
    if rounds < 1:
        p.error("--rounds: at least 1")

    transient = sys.stderr.isatty()

    def say(text: str) -> None:
        """A line for people; one that begins with \\r is overwritten by the next."""
        if text.startswith("\r") and transient:
            print(f"\r\033[K{text[1:]}", end="", file=sys.stderr, flush=True)
        elif not text.startswith("\r"):
            lead = "\r\033[K" if transient else ""
            print(f"{lead}bench: {text}", file=sys.stderr, flush=True)

    folder: Path = options.build_dir / "peers"
    cpu = options.cpu if options.cpu is not None else max(os.sched_getaffinity(0))
    wanted = [c for c in CASES if not only or {c.name, c.group} & only]
    missing = missing_programs(folder, wanted, say)
    before = disturbance()
    rows = run_rounds(
        [c for c in wanted if c.program not in missing], rounds, folder, cpu, options.seed, say
    )
    if (not only or "park" in only) and os.access(folder / UTHREAD, os.X_OK):
        count = options.park or (PARKED // 10 if options.quick else PARKED)
        rows |= run_park(count, 1 if options.quick else 3, folder, cpu, say)
    if not only or "help" in only:
        rows |= run_help(5 if options.quick else HELP_RUNS, say)
    say("\r")
    after = disturbance()

    verdicts = [judge(target, rows) for target in TARGETS]
    verdicts = [v for v in verdicts if not only or v.verdict != "not measured"]
    measured, judged = tables(rows, verdicts)
    here = machine()
    took = after["time_s"] - before["time_s"]
    stolen = after["steal_s"] - before["steal_s"]
    show(
        f"Measured: medians of {rounds} process starts, 95 % intervals (a .. b: all of too few)",
        ("name", "what", "median", "95 % interval", "ratio, by round"),
        measured,
        {2},
    )
    for line in park_lines(rows):
        print(line)
    show("Targets", ("target", "measured", "verdict"), judged, set())
    print(
        f"{here['cpu']} (family {here['cpu_family']}, model {here['cpu_model']}),"
        f" {here['cpus']} CPUs{', virtual' if here['virtual'] else ''};"
        f" Linux {here['kernel']}; glibc {here['glibc']}"
    )
    print(
        f"load {before['load']:.2f} before, {after['load']:.2f} after;"
        f" stolen {stolen:.1f} s of {took:.0f} s; CPU {cpu}; seed {options.seed}"
    )
    path: Path = options.json or options.build_dir / "bench.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    result = {
        "schema": 1,
        "seed": options.seed,
        "rounds": rounds,
        "cpu": cpu,
        "machine": here,
        "before": before,
        "after": after,
        "missing": sorted(missing),
        "rows": [{**asdict(r), "estimate": _plain(estimate(r.values))} for r in rows.values()],
        "targets": [asdict(v) for v in verdicts],
    }
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written to {path}")
    return 1 if options.check and any(v.verdict == "missed" for v in verdicts) else 0


def _plain(found: Estimate | None) -> dict[str, Any] | None:
    return asdict(found) if found else None


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
