# SPDX-License-Identifier: Apache-2.0
"""The machine as facts: what the manifest stores and `swtch doctor` judges.

``collect()`` gives one dictionary of plain JSON values. It only reads; what
has to be tried (open a counter, set a policy) is in ``doctor_try``.

Invariants:

- Robust: a file that is missing, unreadable or of an unknown form gives None,
  never an exception. Containers hide half of /sys, and each hides another half.
- Facts only, no judgement: those are in ``doctor``, where they can be tested
  against invented facts.
- ``root`` stands for ``/`` everywhere, so that tests can bring their own.
"""

from __future__ import annotations

import gzip
import os
import platform
import re
import resource
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from swtch import doctor_try
from swtch.errors import CannotError

Facts = dict[str, Any]

ROOT = Path("/")
QEMU = ("qemu-system-x86_64", "qemu-system-aarch64")
COMPILERS = ("cc", "gcc", "clang")


def allowed_cpus() -> tuple[int, ...]:
    """The CPUs this process may use, distinct cores before their SMT siblings.

    Raises CannotError when there is none, which a broken cpuset can bring about.
    """
    allowed = sorted(os.sched_getaffinity(0))
    if not allowed:
        raise CannotError(
            "no CPU is allowed to this process; look at 'taskset -p $$' and at the cpuset"
            " of its cgroup (/sys/fs/cgroup/cpuset.cpus.effective)."
        )
    rank = {cpu: sibling_rank(cpu, ROOT) for cpu in allowed}
    return tuple(sorted(allowed, key=lambda cpu: (rank[cpu], cpu)))


def collect(*, root: Path = ROOT, steal_s: float = 0.3) -> Facts:
    """Everything about this machine that can explain a measurement."""
    before = steal_ticks(root)
    begin = time.monotonic()
    facts: Facts = {
        "host": _host(root),
        "cpu": _cpu(root),
        "kernel": _kernel(root),
        "virtualisation": _virtualisation(root),
        "cgroup": _cgroup(root),
        "limits": _limits(),
        "memory": _memory(root),
        "clock": _clock(root),
        "vm_engine": _vm_engine(root),
        "tools": _tools(),
        "tried": doctor_try.everything(),
    }
    # The rest of the window in which steal is counted; most of it has passed above.
    time.sleep(max(0.0, steal_s - (time.monotonic() - begin)))
    after = steal_ticks(root)
    facts["steal"] = _steal(before, after, time.monotonic() - begin)
    return facts


def read(root: Path, name: str) -> str | None:
    """The stripped text of one small file, or None."""
    try:
        return (root / name).read_text(errors="replace").strip()
    except OSError:
        return None


def read_int(root: Path, name: str) -> int | None:
    """The integer in one small file, or None."""
    text = read(root, name)
    try:
        return int(text) if text else None
    except ValueError:
        return None


def parse_list(text: str | None) -> list[int]:
    """``0-2,5`` as [0, 1, 2, 5]; what cannot be understood is left out."""
    cpus: list[int] = []
    for part in (text or "").split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if match:
            cpus.extend(range(int(match[1]), int(match[2] or match[1]) + 1))
    return cpus


def sibling_rank(cpu: int, root: Path) -> int:
    """0 for the first hardware thread of its core, 1 for the second, and so on."""
    siblings = parse_list(
        read(root, f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    )
    return siblings.index(cpu) if cpu in siblings else 0


def steal_ticks(root: Path) -> int | None:
    """Ticks a hypervisor kept from all CPUs since boot."""
    for line in (read(root, "proc/stat") or "").splitlines():
        words = line.split()
        if words[:1] == ["cpu"] and len(words) > 8 and words[8].isdigit():
            return int(words[8])
    return None


def _steal(before: int | None, after: int | None, seconds: float) -> Facts:
    if before is None or after is None:
        return {"percent": None, "window_s": round(seconds, 3)}
    available = seconds * os.sysconf("SC_CLK_TCK") * (os.cpu_count() or 1)
    return {
        "percent": round(100.0 * (after - before) / available, 2),
        "window_s": round(seconds, 3),
        "since_boot_ticks": after,
    }


def _host(root: Path) -> Facts:
    load = read(root, "proc/loadavg")
    release = dict(
        line.split("=", 1)
        for line in (read(root, "etc/os-release") or "").splitlines()
        if "=" in line
    )
    return {
        "machine": platform.machine(),
        "system": release.get("PRETTY_NAME", "").strip('"') or None,
        "libc": " ".join(platform.libc_ver()).strip() or None,
        "python": platform.python_version(),
        "page_bytes": os.sysconf("SC_PAGE_SIZE"),
        "load": [float(word) for word in load.split()[:3]] if load else None,
    }


def _cpu(root: Path) -> Facts:
    base = "sys/devices/system/cpu"
    allowed = sorted(os.sched_getaffinity(0))
    info = _cpuinfo(root)
    first = f"{base}/cpu{allowed[0] if allowed else 0}"
    return {
        "model": info.get("model name") or info.get("CPU part"),
        "family": info.get("cpu family"),
        "number": info.get("model"),
        "stepping": info.get("stepping"),
        "microcode": info.get("microcode"),
        "flags": sorted((info.get("flags") or info.get("Features") or "").split()),
        "allowed": allowed,
        "online": parse_list(read(root, f"{base}/online")),
        "possible": parse_list(read(root, f"{base}/possible")),
        "isolated": parse_list(read(root, f"{base}/isolated")),
        "nohz_full": parse_list(read(root, f"{base}/nohz_full")),
        "topology": {str(cpu): _topology(root, cpu) for cpu in allowed},
        "caches": _caches(root, first),
        "smt": read(root, f"{base}/smt/control"),
        "smt_active": read_int(root, f"{base}/smt/active"),
        "governor": read(root, f"{first}/cpufreq/scaling_governor"),
        "driver": read(root, f"{first}/cpufreq/scaling_driver"),
        "no_turbo": read_int(root, f"{base}/intel_pstate/no_turbo"),
        "boost": read_int(root, f"{base}/cpufreq/boost"),
        "idle_driver": read(root, f"{base}/cpuidle/current_driver"),
        "vulnerabilities": {
            file.name: read(root, str(file.relative_to(root)))
            for file in sorted(_entries(root, f"{base}/vulnerabilities"))
        },
    }


def _cpuinfo(root: Path) -> dict[str, str]:
    """The first processor's entries of /proc/cpuinfo."""
    info: dict[str, str] = {}
    for line in (read(root, "proc/cpuinfo") or "").splitlines():
        key, colon, value = line.partition(":")
        if colon:
            info.setdefault(key.strip(), value.strip())
    return info


def _topology(root: Path, cpu: int) -> Facts:
    base = f"sys/devices/system/cpu/cpu{cpu}/topology"
    return {
        "package": read_int(root, f"{base}/physical_package_id"),
        "core": read_int(root, f"{base}/core_id"),
        "siblings": parse_list(read(root, f"{base}/thread_siblings_list")),
    }


def _caches(root: Path, cpu: str) -> list[Facts]:
    caches = []
    for folder in sorted(_entries(root, f"{cpu}/cache")):
        if folder.name.startswith("index"):
            name = str(folder.relative_to(root))
            caches.append(
                {
                    "level": read_int(root, f"{name}/level"),
                    "type": read(root, f"{name}/type"),
                    "size": read(root, f"{name}/size"),
                    "line_bytes": read_int(root, f"{name}/coherency_line_size"),
                    "shared_with": parse_list(read(root, f"{name}/shared_cpu_list")),
                }
            )
    return caches


def _entries(root: Path, name: str) -> list[Path]:
    try:
        return list((root / name).iterdir())
    except OSError:
        return []


def _kernel(root: Path) -> Facts:
    release = platform.release()
    config = _kernel_config(root, release)
    hertz = config.get("CONFIG_HZ")
    return {
        "release": release,
        "version": platform.version(),
        "cmdline": read(root, "proc/cmdline"),
        "scheduler": _scheduler(root, release),
        "hz": int(hertz) if hertz and hertz.isdigit() else None,
        "preempt": _preempt(root, config),
        "config_known": bool(config),
        "tainted": read_int(root, "proc/sys/kernel/tainted"),
        "autogroup": read_int(root, "proc/sys/kernel/sched_autogroup_enabled"),
        "perf_event_paranoid": read_int(root, "proc/sys/kernel/perf_event_paranoid"),
        "pid_max": read_int(root, "proc/sys/kernel/pid_max"),
        "threads_max": read_int(root, "proc/sys/kernel/threads-max"),
        "rt_runtime_us": read_int(root, "proc/sys/kernel/sched_rt_runtime_us"),
        "headers": (root / f"lib/modules/{release}/build/Makefile").exists(),
        "modules_disabled": read_int(root, "proc/sys/kernel/modules_disabled"),
        "lockdown": read(root, "sys/kernel/security/lockdown"),
        "can_load_modules": _has_capability(root, 16),
    }


def _kernel_config(root: Path, release: str) -> dict[str, str]:
    text = ""
    try:
        text = gzip.decompress((root / "proc/config.gz").read_bytes()).decode(errors="replace")
    except (OSError, EOFError):
        text = read(root, f"boot/config-{release}") or ""
    return dict(re.findall(r"^(CONFIG_\w+)=(.*)$", text, re.MULTILINE))


def _scheduler(root: Path, release: str) -> str | None:
    if (read(root, "sys/kernel/sched_ext/state") or "disabled") != "disabled":
        return "sched_ext"
    match = re.match(r"(\d+)\.(\d+)", release)
    if not match:
        return None
    return "EEVDF" if (int(match[1]), int(match[2])) >= (6, 6) else "CFS"


def _preempt(root: Path, config: dict[str, str]) -> str | None:
    # The parenthesised word of e.g. "none voluntary (full)" is in force.
    live = re.search(r"\((\w+)\)", read(root, "sys/kernel/debug/sched/preempt") or "")
    if live:
        return live[1]
    parameter = re.search(r"\bpreempt=(\w+)", read(root, "proc/cmdline") or "")
    if parameter:
        return parameter[1]
    for key, word in (
        ("CONFIG_PREEMPT_RT", "rt"),
        ("CONFIG_PREEMPT_LAZY", "lazy"),
        ("CONFIG_PREEMPT_NONE", "none"),
        ("CONFIG_PREEMPT_VOLUNTARY", "voluntary"),
        ("CONFIG_PREEMPT", "full"),
    ):
        if config.get(key) == "y":
            return word
    return "dynamic, default unknown" if "PREEMPT_DYNAMIC" in platform.version() else None


def _has_capability(root: Path, number: int) -> bool | None:
    match = re.search(r"^CapEff:\s*([0-9a-fA-F]+)", read(root, "proc/self/status") or "", re.M)
    return bool(int(match[1], 16) >> number & 1) if match else None


def _virtualisation(root: Path) -> Facts:
    flags = _cpuinfo(root).get("flags", "").split()
    return {
        "hypervisor_flag": "hypervisor" in flags,
        "type": read(root, "sys/hypervisor/type"),
        "vendor": read(root, "sys/class/dmi/id/sys_vendor"),
        "product": read(root, "sys/class/dmi/id/product_name"),
        "device_tree": read(root, "proc/device-tree/hypervisor/compatible"),
        "container": (root / ".dockerenv").exists() or (root / "run/.containerenv").exists(),
    }


def _cgroup(root: Path) -> Facts:
    """The narrowest limit on the way from this process's group to the root, v1 and v2."""
    v1, v2 = _groups(root)
    limits: Facts = {"version": 1 if v1 else 2 if v2 is not None else None}
    base = "sys/fs/cgroup"
    cpus, pids, memory = [], [], []
    if v2 is not None:
        for folder in _upwards(v2):
            cpus.append(_quota_cpus(read(root, f"{base}{folder}/cpu.max")))
            pids.append(read_int(root, f"{base}{folder}/pids.max"))
            memory.append(read_int(root, f"{base}{folder}/memory.max"))
    for folder in _upwards(v1.get("cpu", "/")) if v1 else ():
        quota = read(root, f"{base}/cpu{folder}/cpu.cfs_quota_us")
        period = read(root, f"{base}/cpu{folder}/cpu.cfs_period_us")
        cpus.append(_quota_cpus(f"{quota} {period}"))
    for folder in _upwards(v1.get("pids", "/")) if v1 else ():
        pids.append(read_int(root, f"{base}/pids{folder}/pids.max"))
    for folder in _upwards(v1.get("memory", "/")) if v1 else ():
        memory.append(read_int(root, f"{base}/memory{folder}/memory.limit_in_bytes"))
    limits["cpus"] = min((value for value in cpus if value is not None), default=None)
    limits["pids"] = min((value for value in pids if value is not None), default=None)
    # v1 says "no limit" with a number near 2^63.
    limits["memory_bytes"] = min((v for v in memory if v is not None and v < 1 << 60), default=None)
    return limits


def throttled_ns(root: Path) -> int | None:
    """How long this process's groups, and those above, were stopped for their CPU quota since
    they were made, over all CPUs; None where the kernel does not say."""
    v1, v2 = _groups(root)
    folders = _upwards(v2) if v2 is not None else []
    folders += [f"/cpu{folder}" for folder in _upwards(v1.get("cpu", "/"))] if v1 else []
    stopped = []
    for folder in folders:
        for line in (read(root, f"sys/fs/cgroup{folder}/cpu.stat") or "").splitlines():
            name, _, value = line.partition(" ")
            if name in ("throttled_usec", "throttled_time") and value.isdecimal():
                stopped.append(int(value) * (1000 if name == "throttled_usec" else 1))
    return sum(stopped) if stopped else None


def _groups(root: Path) -> tuple[dict[str, str], str | None]:
    """The process's own: by controller of v1, and of v2."""
    v2: str | None = None
    v1: dict[str, str] = {}
    for line in (read(root, "proc/self/cgroup") or "").splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0":
            v2 = path
        else:
            v1.update(dict.fromkeys(controllers.split(","), path))
    return v1, v2


def _upwards(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part and part != ".."]
    return ["/" + "/".join(parts[:count]) if count else "" for count in range(len(parts), -1, -1)]


def _quota_cpus(text: str | None) -> float | None:
    match = re.fullmatch(r"(\d+) (\d+)", text or "")
    return int(match[1]) / int(match[2]) if match and int(match[2]) else None


def _limits() -> Facts:
    names = {
        "nproc": resource.RLIMIT_NPROC,
        "stack": resource.RLIMIT_STACK,
        "memlock": resource.RLIMIT_MEMLOCK,
        "rtprio": resource.RLIMIT_RTPRIO,
        "nofile": resource.RLIMIT_NOFILE,
        "as": resource.RLIMIT_AS,
    }
    limits: Facts = {}
    for name, number in names.items():
        soft, hard = resource.getrlimit(number)
        limits[name] = {
            "soft": None if soft == resource.RLIM_INFINITY else soft,
            "hard": None if hard == resource.RLIM_INFINITY else hard,
        }
    return limits


def _memory(root: Path) -> Facts:
    info = {}
    for line in (read(root, "proc/meminfo") or "").splitlines():
        match = re.match(r"(\w+):\s+(\d+) kB", line)
        if match:
            info[match[1]] = int(match[2]) * 1024
    huge = re.search(r"\[(\w+)\]", read(root, "sys/kernel/mm/transparent_hugepage/enabled") or "")
    return {
        "total_bytes": info.get("MemTotal"),
        "available_bytes": info.get("MemAvailable"),
        "swap_bytes": info.get("SwapTotal"),
        "overcommit": read_int(root, "proc/sys/vm/overcommit_memory"),
        "max_map_count": read_int(root, "proc/sys/vm/max_map_count"),
        "transparent_hugepage": huge[1] if huge else None,
        "randomize_va_space": read_int(root, "proc/sys/kernel/randomize_va_space"),
        "numa_nodes": len(parse_list(read(root, "sys/devices/system/node/online"))) or None,
        "numa_balancing": read_int(root, "proc/sys/kernel/numa_balancing"),
    }


def _clock(root: Path) -> Facts:
    base = "sys/devices/system/clocksource/clocksource0"
    flags = _cpuinfo(root).get("flags", "").split()
    return {
        "source": read(root, f"{base}/current_clocksource"),
        "available": (read(root, f"{base}/available_clocksource") or "").split(),
        "constant_tsc": "constant_tsc" in flags,
        "nonstop_tsc": "nonstop_tsc" in flags,
        "monotonic_resolution_ns": round(time.get_clock_info("monotonic").resolution * 1e9),
    }


def _vm_engine(root: Path) -> Facts:
    kvm = root / "dev/kvm"
    return {
        "kvm_present": kvm.exists(),
        "kvm_opens": kvm.exists() and os.access(kvm, os.R_OK | os.W_OK),
        "qemu": {name: _version(name) for name in QEMU if shutil.which(name)},
    }


def _tools() -> Facts:
    return {name: _version(name) for name in COMPILERS if shutil.which(name)}


def _version(program: str) -> str | None:
    try:
        done = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=5,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return (done.stdout.splitlines() or [""])[0].strip() or None
