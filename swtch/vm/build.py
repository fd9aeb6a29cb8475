# SPDX-License-Identifier: Apache-2.0
"""What is compiled for a guest: the agent, the kernel module, the probes.

All from the source tree, each kept in the cache under a key over everything it
was made from, so that a changed line builds exactly what it is part of.

Invariants:

- The tree is only read: every build happens in the cache.
- The agent is static: it must run before anything else is known to be right.
  The probes are dynamic and come with their libraries, because the runtime
  under test relies on a dynamic libc.
- For this machine's own architecture the probe is the one that the native
  engine runs, to the byte.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from swtch.errors import CannotError
from swtch.vm import cache, packages
from swtch.vm.guests import Arch, host_arch

SOURCE_ENV = "SWTCH_SOURCE"
AGENT = "swtch-guest"
MODULE = "kthread_perf"
_TIME_LIMIT_S = 600
_OF_HEADERS = ("Module.symvers", "include/config/auto.conf", "include/generated/utsrelease.h")
_TOLD = "swtch: error: "  # begins the line that tools/*.sh end with


def source_tree() -> Path:
    """The tree to build from: told, around this package, or around the current folder."""
    configured = os.environ.get(SOURCE_ENV)
    here = Path.cwd()
    around = [Path(__file__).parents[2], here, *here.parents]
    candidates = [Path(configured)] if configured else around
    for candidate in candidates:
        if (candidate / "probes/guest/swtch-guest.c").is_file():
            return candidate.resolve()
    raise CannotError(
        "guests are built from swtch's source tree, which is not here; run this in the tree"
        f" or set {SOURCE_ENV} to it."
    )


def compiler(arch: Arch) -> str:
    """The compiler for `arch`, or the line that says what to install."""
    native = arch.name == host_arch()
    wanted = os.environ.get("CC") or "gcc" if native else arch.compiler
    if shutil.which(wanted):
        return wanted
    names = ("gcc", "libc6-dev") if native else arch.compiler_packages
    raise CannotError(
        f"building for {arch.name} guests needs {wanted}; install the packages {' '.join(names)}."
    )


def folders_with_libraries(arch: Arch) -> list[Path]:
    """Where shared libraries for `arch` are, as its compiler finds them."""
    command = [compiler(arch), "-print-file-name=libc.so.6"]
    path = Path(_run(command, "asking for the C library").strip())
    folders = [path.resolve().parent]
    if arch.name == host_arch():
        folders += [Path(f"/usr/lib/{arch.triplet}"), Path("/usr/lib")]
    return folders


def agent(arch: Arch) -> Path:
    """The guest's first process."""
    sources = source_tree() / "probes/guest"
    program = compiler(arch)
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-static"]

    def make(draft: Path, _final: Path) -> None:
        files = sorted(map(str, sources.glob("*.c")))
        _run([program, *flags, "-o", str(draft / AGENT), *files], "building the guest's agent")

    key = cache.key_of([arch.name, _version(program), *flags, sources])
    return cache.entry("agent", key, make) / AGENT


def module(kernel: packages.Kernel, arch: Arch) -> Path | None:
    """kthread_perf.ko for `kernel`; None when the tree or the kernel's headers lack."""
    tree = source_tree()
    script = tree / "tools/kmod.sh"
    if not script.is_file() or not kernel.headers:
        return None
    sources = [tree / name for name in (MODULE, "workloads") if (tree / name).is_dir()]
    program = compiler(arch)

    def make(draft: Path, _final: Path) -> None:
        out = draft / "out"
        command = [str(script), "--headers", kernel.headers, "--arch", arch.name]
        _run([*command, "--out", str(out)], f"building {MODULE} for {kernel.release}")
        modules = sorted(out.rglob(f"{MODULE}.ko"))
        if not modules:
            raise CannotError(f"{script.name} made no {MODULE}.ko for {kernel.release}.")
        modules[0].rename(draft / f"{MODULE}.ko")
        shutil.rmtree(out)

    parts: list[str | bytes | Path] = [
        arch.name,
        _version(program),
        kernel.headers,
        kernel.version,
        kernel.sha256,
        script,
        *sources,
    ]
    if kernel.version == packages.OWN:
        # The same folder, and another kernel in it the next time.
        parts += [Path(kernel.headers) / place for place in _OF_HEADERS]
    return cache.entry("module", cache.key_of(parts), make) / f"{MODULE}.ko"


def probe(arch: Arch) -> Path:
    """swtch-probe for `arch`."""
    from swtch.engines.native import PROBE, find_probe

    if arch.name == host_arch():
        return find_probe()
    tree = source_tree()
    cross = tree / "tools" / f"{arch.machine}.cross"
    rooms = ("libuthread", "workloads", "probes", "meson.build", "meson.options")
    jansson = packages.files(
        "libjansson-dev",
        arch.name,
        [r"usr/include/.*", rf"usr/lib/{arch.triplet}/(libjansson\.a|pkgconfig/jansson\.pc)"],
    )

    def make(draft: Path, _final: Path) -> None:
        build = draft / "build"
        extra = draft / "extra.cross"
        extra.write_text(
            "[binaries]\npkg-config = 'pkg-config'\n[properties]\n"
            f"sys_root = '{jansson}'\n"
            f"pkg_config_libdir = '{jansson}/usr/lib/{arch.triplet}/pkgconfig'\n"
        )
        setup = [_meson(), "setup", str(build), str(tree), f"--cross-file={extra}"]
        setup.append(f"--cross-file={cross}")
        setup += ["-Dbuildtype=debugoptimized", "-Doptimization=2", "-Dtests=false"]
        setup += ["-Dman=disabled", "-Dpeers=false", "-Dprobes=true"]
        _run(setup, f"setting up the probes for {arch.name}")
        target = f"probes/{PROBE}"
        _run([_meson(), "compile", "-C", str(build), PROBE], f"building {target} for {arch.name}")
        (build / target).rename(draft / PROBE)
        shutil.rmtree(build)

    parts: list[str | bytes | Path] = [arch.name, _version(compiler(arch)), str(jansson), cross]
    key = cache.key_of(parts + [tree / room for room in rooms])
    return cache.entry("probe", key, make) / PROBE


def _meson() -> str:
    beside = Path(sys.executable).with_name("meson")
    meson = str(beside) if beside.is_file() else shutil.which("meson")
    if not meson:
        raise CannotError("building probes for another architecture needs meson; install it.")
    return meson


def _version(program: str) -> str:
    return _run([program, "--version"], f"asking {program} what it is")


def _run(command: Sequence[str], what: str) -> str:
    """Standard output of `command`; CannotError with its first error line otherwise."""
    path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '/usr/bin:/bin')}"
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIME_LIMIT_S,
            env={**os.environ, "PATH": path, "LC_ALL": "C"},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotError(f"{what} failed: {error}.") from None
    if done.returncode:
        log = cache.room("logs") / "build.log"
        log.write_text(f"$ {' '.join(command)}\n{done.stdout}\n{done.stderr}")
        told = [line for line in done.stderr.splitlines() if line.startswith(_TOLD)]
        if told:
            raise CannotError(told[-1].removeprefix(_TOLD))
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        errors = (
            [line for line in lines if "error" in line.lower()] or lines[-1:] or ["no reason given"]
        )
        raise CannotError(f"{what} failed: {errors[0].strip()} (all of it: {log})")
    return done.stdout
