#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs as they are, with glibc's threads and by uthread-run: the same work, in pairs.

Each is run PAIRS times in either way, one after the other, which of the two comes first
by chance, so that what disturbs the machine disturbs both alike. The figures are medians
and the ratio of them, in brackets the smallest and the largest of a pair.

Invariants:

- What a program does is checked: its output, or its answers to a client, are those
  that it has with glibc's threads, and its exit status is 0. What is wrong is said, and
  makes this program fail.
- A program that is not installed costs its own line, which says so.
- Nothing runs longer than LIMIT_S; what is slow is a result.

A server is measured by the time that a client needs, which has glibc's threads, and by
the server's own CPU time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "programs"
LIMIT_S = 120.0
DATA_MB = 8


class WrongError(Exception):
    """A run that is no measurement; its text is one line."""


@dataclass(frozen=True)
class Program:
    """What is run. In `command` and `client`: {dir} is a folder of this run's own, {bin} one with
    what was compiled, {port} a free port, {n} the number of CPUs."""

    name: str
    what: str
    command: str
    version: str = ""  # a command that says it; "": it is compiled here
    source: str = ""  # in programs/
    compiler: str = ""
    stdin: bool = False  # it reads the data
    client: str = ""  # of a server
    good: str = ""  # what the client's output has in it
    after: Callable[[int], None] | None = None  # asks the server, by its port
    timed: bool = True


# ---- asking servers ----


def talk(port: int, text: bytes, end: bytes) -> bytes:
    """One connection, until `end` has come."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(text)
        while not answer.endswith(end):
            part = connection.recv(65536)
            if not part:
                raise WrongError("the server hung up")
            answer += part
    return answer


def ask_memcached(port: int) -> None:
    count = 500
    sets = b"".join(b"set k%d 0 0 %d\r\n%d\r\n" % (i, len(str(i)), i) for i in range(count))
    talk(port, sets, b"STORED\r\n" * count)
    keys = b" ".join(b"k%d" % i for i in range(count))
    answer = talk(port, b"get %s\r\n" % keys, b"END\r\n")
    for i in range(count):
        if b"VALUE k%d 0 %d\r\n%d\r\n" % (i, len(str(i)), i) not in answer:
            raise WrongError(f"the value of k{i} is not what was set")


def ask_redis(port: int) -> None:
    answer = talk(port, b"GET counter:__rand_int__\r\n", b"\r\n")
    count = answer.splitlines()[-1] if answer.startswith(b"$") else b""
    if count != b"20000":
        raise WrongError(f"counted to {count.decode()}, not 20000")


# ---- the programs ----

HAPROXY = """global
    nbthread {n}
defaults
    mode http
    timeout client 30s
    timeout server 30s
    timeout connect 5s
frontend all
    bind 127.0.0.1:{port}
    http-request return status 200 content-type text/plain string hello
"""

STRESSORS = "pthread mutex sem futex sigq switch poll epoll nanosleep"
CPYTHON = (
    "test_thread test_threading test_threading_local test_threadsignals test_queue "
    "test_concurrent_futures test_socketserver test_signal test_faulthandler test_ssl "
    "test_subprocess test_asyncio test_httpservers test_logging test_poll test_select "
    "test_epoll test_fork1 test_wait3 test_wait4 test_multiprocessing_main_handling test_eintr"
)


def compress(name: str, command: str) -> Program:
    return Program(
        name, f"{DATA_MB} MB", command, version=f"{command.split()[0]} --version", stdin=True
    )


def compiled(name: str, what: str, source: str, compiler: str, arguments: str) -> Program:
    return Program(
        name, what, f"{{bin}}/{Path(source).stem} {arguments}", source=source, compiler=compiler
    )


C = "cc -O2 -pthread -o {out} {source}"
CXX = "c++ -std=c++17 -O2 -pthread -o {out} {source}"
PROGRAMS = [
    compress("pigz", "pigz -p {n}"),
    compress("pbzip2", "pbzip2 -p{n} -c"),
    compress("lbzip2", "lbzip2 -n {n} -c"),
    compress("zstd", "zstd -q -T{n} -9 -c"),
    compress("xz", "xz -T{n} -1 -c"),
    compiled("OpenMP", "loops, tasks, barriers", "openmp.c", C + " -fopenmp", ""),
    compiled("C++", "one pair of threads for each CPU", "cpp_threads.cpp", CXX, "{n}"),
    compiled(
        "Rust", "one thread for each CPU", "rust_threads.rs", "rustc -O -o {out} {source}", "{n}"
    ),
    compiled(
        "SQLite", "one thread for each CPU", "sqlite_threads.c", C + " -lsqlite3", "{n} 100000"
    ),
    compiled("SQLite, 200", "200 threads", "sqlite_threads.c", C + " -lsqlite3", "200 100000"),
    compiled("C++, 200", "200 pairs of threads", "cpp_threads.cpp", CXX, "200"),
    compiled("Rust, 200", "200 threads", "rust_threads.rs", "rustc -O -o {out} {source}", "200"),
    Program(
        "Python, 500",
        "500 threads in turn",
        "python3 {sources}/python_ring.py 500 60",
        version="python3 --version",
    ),
    Program(
        "memcached",
        "memcslap, 16 connections",
        "memcached -U 0 -l 127.0.0.1 -p {port} -t {n} -u nobody",
        version="memcached --version",
        client="memcslap --servers=127.0.0.1:{port} --concurrency=16 --execute-number=1500 "
        "--test=set --binary",
        after=ask_memcached,
    ),
    Program(
        "Redis",
        "redis-benchmark, 50 connections",
        "redis-server --port {port} --bind 127.0.0.1 --save '' --appendonly no --io-threads {n} "
        "--io-threads-do-reads yes --dir {dir}",
        version="redis-server --version",
        client="redis-benchmark -p {port} -c 50 -n 20000 -t incr -q",
        after=ask_redis,
    ),
    Program(
        "HAProxy",
        "ab, 50 connections",
        "haproxy -q -f {dir}/haproxy.cfg",
        version="haproxy -v",
        client="ab -q -k -c 50 -n 20000 http://127.0.0.1:{port}/",
        good=r"Failed requests: +0\n",
    ),
    *(
        Program(
            f"stress-ng {name}",
            "2000 operations, --verify",
            f"stress-ng --{name} 2 --{name}-ops 2000 --timeout 60 --verify",
            version="stress-ng --version",
            timed=False,
        )
        for name in STRESSORS.split()
    ),
    *(
        Program(
            f"CPython {name}",
            "its own test",
            f"python3 -m test -u network --timeout=300 {name}",
            version="python3 --version",
            timed=False,
        )
        for name in CPYTHON.split()
    ),
    compiled("100 000 threads", "all parked", "parked.c", C, "100000"),
]
NOT_WITH_GLIBC = {"100 000 threads"}


# ---- one run ----


@dataclass
class Run:
    wall: float
    cpu: float
    digest: str = ""


@dataclass
class Bench:
    launcher: str
    folder: Path
    cpus: int

    def fill(self, text: str, port: int = 0) -> list[str]:
        return shlex.split(
            text.format(dir=self.folder, bin=self.folder, sources=SOURCES, port=port, n=self.cpus)
        )

    def prefix(self, options: Sequence[str] | None) -> list[str]:
        return [] if options is None else [self.launcher, *options]

    def start(
        self, program: Program, options: Sequence[str] | None, port: int = 0
    ) -> subprocess.Popen[bytes]:
        with ExitStack() as files:
            opened = [
                files.enter_context((self.folder / name).open(mode))
                for name, mode in (("data", "rb"), ("out", "wb"), ("err", "wb"))
            ]
            return subprocess.Popen(
                self.prefix(options) + self.fill(program.command, port),
                stdin=opened[0] if program.stdin else subprocess.DEVNULL,
                stdout=opened[1],
                stderr=opened[2],
                start_new_session=True,
                cwd=self.folder,
            )

    def batch(self, program: Program, options: Sequence[str] | None) -> Run:
        begin = time.monotonic()
        status, cpu = wait_for(
            self.start(program, options), LIMIT_S if program.timed else 4 * LIMIT_S
        )
        wall = time.monotonic() - begin
        if status:
            last = (self.folder / "err").read_text(errors="replace").strip().splitlines()
            raise WrongError(f"{ended(status)}: {last[-1] if last else 'it said nothing'}")
        out = self.folder / "out"
        digest = hashlib.sha256(out.read_bytes()).hexdigest() if program.stdin else ""
        return Run(wall, cpu, digest)

    def served(self, program: Program, options: Sequence[str] | None) -> Run:
        port = free_port()
        (self.folder / "haproxy.cfg").write_text(HAPROXY.format(n=self.cpus, port=port))
        server = self.start(program, options, port)
        try:
            wait_until_open(server, port)
            begin = time.monotonic()
            client = subprocess.run(
                self.fill(program.client, port),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
            wall = time.monotonic() - begin
            if client.returncode or not re.search(program.good, client.stdout):
                raise WrongError(f"the client is not content: {client.stdout[-200:]!r}")
            if program.after:
                program.after(port)
        except (subprocess.TimeoutExpired, OSError) as error:
            raise WrongError(str(error).splitlines()[0]) from None
        finally:
            server.send_signal(signal.SIGTERM)
            status, cpu = wait_for(server, 20)
        if status not in (0, 128 + signal.SIGTERM):
            raise WrongError(f"the server: {ended(status)}")
        return Run(wall, cpu)

    def run(self, program: Program, options: Sequence[str] | None) -> Run:
        return (self.served if program.client else self.batch)(program, options)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def wait_until_open(server: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise WrongError("the server does not listen")


def ended(status: int) -> str:
    if status == -1:
        return "it did not end"
    return f"signal {status - 128}" if status > 128 else f"exit status {status}"


def wait_for(child: subprocess.Popen[bytes], limit: float) -> tuple[int, float]:
    """Exit status as a shell has it, -1: it had to be killed; CPU time with its children's."""
    end = time.monotonic() + limit
    pause = 0.001
    while True:
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > end:
            os.killpg(child.pid, signal.SIGKILL)
            os.wait4(child.pid, 0)
            child.returncode = -signal.SIGKILL
            return -1, 0.0
        time.sleep(pause)
        pause = min(0.01, pause * 1.5)
    code = os.waitstatus_to_exitcode(status)
    child.returncode = code
    return (code if code >= 0 else 128 - code), usage.ru_utime + usage.ru_stime


# ---- what is there ----


def missing(bench: Bench, program: Program) -> str:
    """Why it cannot be run; "": it can."""
    if program.source:
        compiler = program.compiler.split()[0]
        if not shutil.which(compiler):
            return f"{compiler} is not installed"
        out = bench.folder / Path(program.source).stem
        if out.exists():
            return ""
        line = program.compiler.format(out=out, source=SOURCES / program.source)
        done = subprocess.run(shlex.split(line), capture_output=True, text=True, check=False)
        errors = done.stderr.strip().splitlines()
        return f"it does not compile: {errors[0]}" if done.returncode and errors else ""
    for command in (program.command, program.client):
        if command and not shutil.which(command.split()[0]):
            return f"{command.split()[0]} is not installed"
    if " -m test " in program.command:
        name = program.command.split()[-1]
        importing = ["python3", "-c", f"import test.{name}"]
        if subprocess.run(importing, capture_output=True, check=False).returncode:
            return f"python3 comes without test.{name} (libpython3-testsuite)"
    return ""


def version_of(program: Program) -> str:
    if not program.version:
        return ""
    done = subprocess.run(shlex.split(program.version), capture_output=True, text=True, check=False)
    found = re.search(r"\d+\.\d+(\.\d+)*", done.stdout + done.stderr)
    return found.group() if found else ""


def make_data(folder: Path) -> None:
    """Text that compresses as text does, the same each time."""
    chance = random.Random(12)
    words = [bytes(chance.choices(b"etaoinshrdlcum", k=chance.randint(2, 9))) for _ in range(3000)]
    text = b" ".join(chance.choices(words, k=DATA_MB << 17))
    (folder / "data").write_bytes(text[: DATA_MB << 20])


# ---- comparing ----


@dataclass
class Result:
    name: str
    version: str
    what: str
    wall: tuple[list[float], list[float]] = ((), ())  # type: ignore[assignment]
    cpu: tuple[list[float], list[float]] = ((), ())  # type: ignore[assignment]
    wrong: str = ""
    absent: str = ""


def ratio(values: tuple[list[float], list[float]]) -> str:
    ours, theirs = statistics.median(values[1]), statistics.median(values[0])
    pairs = [b / a for a, b in zip(*values, strict=True) if a]
    if not theirs or not pairs:
        return "-"
    return f"{ours / theirs:.2f} ({min(pairs):.2f} to {max(pairs):.2f})"


def compare(bench: Bench, program: Program, pairs: int) -> Result:
    result = Result(program.name, version_of(program), program.what, ([], []), ([], []))
    digest = ""
    for _ in range(pairs):
        for way in random.sample((0, 1), 2):
            try:
                run = bench.run(program, [] if way else None)
            except WrongError as error:
                result.wrong = f"{'uthread-run' if way else 'glibc'}: {error}"
                return result
            if digest not in ("", run.digest):
                result.wrong = "the output is not always the same"
                return result
            digest = run.digest
            result.wall[way].append(run.wall)
            result.cpu[way].append(run.cpu)
    return result


def check(bench: Bench, program: Program) -> Result:
    """Right or wrong, at the tick as it is and the shortest."""
    result = Result(program.name, version_of(program), program.what)
    digests = set()
    ways: list[list[str] | None] = [None, [], ["--tick", "100us"]]
    if program.name in NOT_WITH_GLIBC:
        ways = ways[1:]
    for options in ways:
        try:
            digests.add(bench.run(program, options).digest)
        except WrongError as error:
            way = "glibc" if options is None else " ".join(["uthread-run", *options])
            result.wrong = f"{way}: {error}"
            return result
    if len(digests) > 1:
        result.wrong = "the output is not always the same"
    return result


def show(result: Result, timed: bool) -> str:
    head = f"| {result.name} {result.version}".rstrip() + f" | {result.what} |"
    if result.absent:
        return f"{head} left out: {result.absent} |"
    if result.wrong:
        return f"{head} **wrong**: {result.wrong} |"
    if not timed:
        return f"{head} right |"
    theirs, ours = (statistics.median(values) for values in result.wall)
    cpu = [statistics.median(values) for values in result.cpu]
    return (
        f"{head} {theirs:.2f} s, {cpu[0]:.2f} | {ours:.2f} s, {cpu[1]:.2f} |"
        f" {ratio(result.wall)} | {ratio(result.cpu)} |"
    )


def means(results: Sequence[Result]) -> str:
    lines = []
    for what in ("wall", "cpu"):
        all_of = [
            statistics.median(getattr(r, what)[1]) / statistics.median(getattr(r, what)[0])
            for r in results
            if r.wall[0] and not r.wrong and statistics.median(getattr(r, what)[0])
        ]
        if all_of:
            lines.append(f"{statistics.geometric_mean(all_of):.3f} of {what}")
    return "geometric mean: " + ", ".join(lines) if lines else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="those whose names begin so; all")
    parser.add_argument("--launcher", default="uthread-run", help="uthread-run, or its path")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--minutes", type=float, default=20, help="begin nothing after that")
    parser.add_argument(
        "--check", action="store_true", help="right or wrong, at two ticks; no times"
    )
    parser.add_argument("--json", type=Path, help="all values into this file")
    options = parser.parse_args()
    launcher = shutil.which(options.launcher)
    if not launcher:
        parser.error(f"{options.launcher}: no such program")
    end = time.monotonic() + 60 * options.minutes
    results = []
    with tempfile.TemporaryDirectory(prefix="programs-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # servers give up their rights
        bench = Bench(str(Path(launcher).resolve()), folder, len(os.sched_getaffinity(0)))
        make_data(folder)
        print(f"load: {os.getloadavg()[0]:.1f}, CPUs: {bench.cpus}", flush=True)
        if not options.check:
            print("| program | what | glibc: time, CPU s | uthread-run | ratio | of CPU time |")
            print("|---|---|---|---|---|---|")
        for program in PROGRAMS:
            if options.names and not any(program.name.startswith(n) for n in options.names):
                continue
            timed = not options.check and program.timed and program.name not in NOT_WITH_GLIBC
            if not options.check and not timed:
                continue
            reason = "no time is left" if time.monotonic() > end else missing(bench, program)
            if reason:
                result = Result(program.name, "", program.what, absent=reason)
            elif timed:
                result = compare(bench, program, options.pairs)
            else:
                result = check(bench, program)
            results.append(result)
            print(show(result, timed), flush=True)
        print(f"{means(results)}; load: {os.getloadavg()[0]:.1f}".lstrip("; "))
    if options.json:
        options.json.write_text(json.dumps([vars(r) for r in results], indent=1) + "\n")
    return any(r.wrong for r in results)


if __name__ == "__main__":
    sys.exit(main())
