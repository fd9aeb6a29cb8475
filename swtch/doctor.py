# SPDX-License-Identifier: Apache-2.0
"""Judges the facts of `environment`: what can be measured here, and what disturbs it.

One function per condition, from facts to a ``Condition``; none reads the
machine, so each can be tested with invented facts. The states:

    good     nothing to do
    note     worth knowing when reading the numbers
    bad      disturbs or limits measurements; `mend` says how to change it
    absent   this machine or user does not have it, or hides it

Rejected: changing settings ourselves. A lab that tunes the machine measures a
machine nobody uses, and leaves it tuned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

Facts = dict[str, Any]
State = Literal["good", "note", "bad", "absent"]


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `swtch doctor`. ``mend`` is empty when there is nothing to do."""

    name: str
    state: State
    value: str
    effect: str
    mend: str = ""


def examine(facts: Facts) -> tuple[Condition, ...]:
    """All conditions, in the order in which a person wants to read them."""
    return tuple(check(facts) for check in CHECKS)


def _cpus(facts: Facts) -> Condition:
    allowed, online = facts["cpu"]["allowed"], facts["cpu"]["online"]
    value = f"{len(allowed)} allowed of {len(online) or 'unknown'} online"
    if len(allowed) >= 5:
        state: State = "good"
        effect = "four CPUs to measure on and one for the lab itself"
    elif len(allowed) > 1:
        state = "note"
        effect = f"what asks for more than {len(allowed)} CPUs runs on {len(allowed)} and says so"
    else:
        state, effect = "bad", "nothing that needs two CPUs can be measured"
    fewer = online and len(allowed) < len(online)
    mend = "taskset -c 0-$(($(nproc --all)-1)) swtch run; or widen the cpuset" if fewer else ""
    return Condition(name="CPUs", state=state, value=value, effect=effect, mend=mend)


def _topology(facts: Facts) -> Condition:
    topology = facts["cpu"]["topology"].values()
    cores = {(cpu["package"], cpu["core"]) for cpu in topology}
    packages = {cpu["package"] for cpu in topology}
    nodes = facts["memory"]["numa_nodes"] or 1
    return Condition(
        name="topology",
        state="good" if len(packages) <= 1 and nodes <= 1 else "note",
        value=f"{len(packages)} package(s), {len(cores)} core(s), {nodes} memory node(s)",
        effect="the farther two CPUs are apart, the more a shared cache line costs",
    )


def _smt(facts: Facts) -> Condition:
    shared = any(len(cpu["siblings"]) > 1 for cpu in facts["cpu"]["topology"].values())
    if not shared:
        return Condition(
            name="SMT", state="good", value="no siblings", effect="each CPU has its own core"
        )
    return Condition(
        name="SMT",
        state="bad",
        value="siblings share cores",
        effect="a busy sibling takes up to half of a core; the lab uses distinct cores first",
        mend="echo off | sudo tee /sys/devices/system/cpu/smt/control",
    )


def _caches(facts: Facts) -> Condition:
    caches = facts["cpu"]["caches"]
    if not caches:
        return Condition(
            name="caches",
            state="absent",
            value="not shown by this kernel",
            effect="working sets cannot be placed against cache sizes",
        )
    short = {"Data": "d", "Instruction": "i"}
    value = ", ".join(f"L{c['level']}{short.get(c['type'], '')} {c['size']}" for c in caches)
    last = max(caches, key=lambda cache: cache["level"] or 0)
    return Condition(
        name="caches",
        state="good",
        value=value,
        effect=f"the last level is shared by {len(last['shared_with']) or 'unknown'} CPU(s)",
    )


def _governor(facts: Facts) -> Condition:
    governor = facts["cpu"]["governor"]
    if governor is None:
        return Condition(
            name="frequency governor",
            state="absent",
            value="no cpufreq here",
            effect="the frequency is chosen elsewhere (firmware or hypervisor) and unseen",
        )
    good = governor == "performance"
    return Condition(
        name="frequency governor",
        state="good" if good else "bad",
        value=f"{governor} ({facts['cpu']['driver']})",
        effect="constant frequency" if good else "short work runs before the clock has risen",
        mend="" if good else "sudo cpupower frequency-set -g performance",
    )


def _turbo(facts: Facts) -> Condition:
    no_turbo, boost = facts["cpu"]["no_turbo"], facts["cpu"]["boost"]
    if no_turbo is None and boost is None:
        return Condition(
            name="turbo",
            state="absent",
            value="not shown here",
            effect="cannot be told; compare only within one run",
        )
    off = no_turbo == 1 or boost == 0
    file = "intel_pstate/no_turbo" if no_turbo is not None else "cpufreq/boost"
    word = "1" if no_turbo is not None else "0"
    return Condition(
        name="turbo",
        state="good" if off else "note",
        value="off" if off else "on",
        effect="" if off else "the clock depends on heat and on how many cores are busy",
        mend="" if off else f"echo {word} | sudo tee /sys/devices/system/cpu/{file}",
    )


def _hypervisor(facts: Facts) -> Condition:
    virtual = facts["virtualisation"]
    name = virtual["product"] or virtual["type"] or virtual["device_tree"] or virtual["vendor"]
    if not virtual["hypervisor_flag"] and not virtual["type"] and not virtual["device_tree"]:
        return Condition(
            name="hypervisor",
            state="good",
            value="none seen",
            effect="interrupts and timers are the hardware's",
        )
    return Condition(
        name="hypervisor",
        state="note",
        value=f"virtual machine{f' ({name})' if name else ''}",
        effect="interrupts, timers and idle cost more than on hardware; vCPUs may be moved",
        mend="run on hardware for figures about interrupts and sleeps",
    )


def _steal(facts: Facts) -> Condition:
    percent = facts["steal"]["percent"]
    if percent is None:
        return Condition(
            name="steal", state="absent", value="not counted here", effect="cannot be told"
        )
    good = percent < 0.5
    return Condition(
        name="steal",
        state="good" if good else "bad",
        value=f"{percent:.2f} % over {facts['steal']['window_s']:.1f} s",
        effect="the host gave us all the time we asked for"
        if good
        else "the host runs others on our CPUs; samples with steal are marked",
        mend="" if good else "run at a quieter time, or on dedicated CPUs",
    )


def _load(facts: Facts) -> Condition:
    load = facts["host"]["load"]
    if not load:
        return Condition(
            name="load", state="absent", value="not shown here", effect="cannot be told"
        )
    good = load[0] < 0.5
    return Condition(
        name="load",
        state="good" if good else "bad",
        value=" ".join(f"{value:.2f}" for value in load),
        effect="the machine is idle" if good else "other work competes with what is measured",
        mend="" if good else "stop other work first: top -o %CPU",
    )


def _mitigations(facts: Facts) -> Condition:
    texts = facts["cpu"]["vulnerabilities"]
    if not texts:
        return Condition(
            name="mitigations",
            state="absent",
            value="not shown by this kernel",
            effect="cannot be told",
        )
    active = sorted(name for name, text in texts.items() if (text or "").startswith("Mitigation"))
    open_ = sorted(name for name, text in texts.items() if (text or "").startswith("Vulnerable"))
    value = f"active: {', '.join(active) or 'none'}"
    if open_:
        value += f"; vulnerable: {', '.join(open_)}"
    return Condition(
        name="mitigations",
        state="note" if active else "good",
        value=value,
        effect="they make each entry to the kernel, and some switches, dearer" if active else "",
        mend="compare only runs with the same mitigations" if active else "",
    )


def _cgroup(facts: Facts) -> Condition:
    cgroup = facts["cgroup"]
    words = []
    if cgroup["cpus"] is not None:
        words.append(f"{cgroup['cpus']:g} CPU(s)")
    if cgroup["pids"] is not None:
        words.append(f"{cgroup['pids']} tasks")
    if cgroup["memory_bytes"] is not None:
        words.append(f"{cgroup['memory_bytes'] >> 20} MiB")
    short = cgroup["cpus"] is not None and cgroup["cpus"] < len(facts["cpu"]["allowed"])
    return Condition(
        name="cgroup limits",
        state="bad" if short else "note" if words else "good",
        value=f"v{cgroup['version']}: {', '.join(words)}" if words else "none",
        effect="the group is stopped for the rest of each period once its quota is used"
        if short
        else "bounds how many threads can be made"
        if words
        else "",
        mend="raise cpu.max of the group, or run outside of it" if short else "",
    )


def _limits(facts: Facts) -> Condition:
    limits = facts["limits"]

    def show(name: str) -> str:
        soft = limits[name]["soft"]
        return f"{name} {'unlimited' if soft is None else soft}"

    nproc = limits["nproc"]["soft"]
    hard = limits["nproc"]["hard"]
    low = nproc is not None and nproc < 35_000
    mend = f"ulimit -u {hard or 'unlimited'}" if hard != nproc else "raise nproc in limits.conf"
    return Condition(
        name="ulimits",
        state="note" if low else "good",
        value=", ".join(show(name) for name in ("nproc", "stack", "memlock", "rtprio")),
        effect=f"at most {nproc} pthreads and processes" if low else "room for 30 000 pthreads",
        mend=mend if low else "",
    )


def _pid_max(facts: Facts) -> Condition:
    kernel = facts["kernel"]
    bounds = [value for value in (kernel["pid_max"], kernel["threads_max"]) if value]
    if not bounds:
        return Condition(
            name="thread ids", state="absent", value="not shown here", effect="cannot be told"
        )
    low = min(bounds) < 110_000
    return Condition(
        name="thread ids",
        state="note" if low else "good",
        value=f"pid_max {kernel['pid_max']}, threads-max {kernel['threads_max']}",
        effect=f"fewer than {min(bounds)} pthreads at once" if low else "100 000 pthreads fit",
        mend="sudo sysctl kernel.pid_max=4194304 kernel.threads-max=500000" if low else "",
    )


def _maps(facts: Facts) -> Condition:
    count = facts["memory"]["max_map_count"]
    guards = facts["tried"]["guard_install"]
    if guards == "yes":
        return Condition(
            name="stack guards",
            state="good",
            value="MADV_GUARD_INSTALL works",
            effect="a guarded stack costs no mapping of its own; a million fit",
        )
    return Condition(
        name="stack guards",
        state="note",
        value=f"MADV_GUARD_INSTALL {guards}; max_map_count {count}",
        effect="each guarded stack takes two mappings, which bounds their number",
        mend="Linux 6.13 or newer; until then sudo sysctl vm.max_map_count=2000000",
    )


def _fsgsbase(facts: Facts) -> Condition:
    works = facts["tried"]["fsgsbase"] == "yes"
    return Condition(
        name="FSGSBASE",
        state="good" if works else "absent",
        value="user space may set its TLS base" if works else "not supported",
        effect="uthreads have a libc TLS of their own"
        if works
        else "uthreads share the TLS of their worker (UTHREAD_TLS_SHARED)",
        mend="" if works else "Linux 5.9 or newer, and no nofsgsbase on its command line",
    )


def _policy(facts: Facts) -> Condition:
    tried = facts["tried"]
    value = f"BATCH: {tried['policy_batch']}, FIFO: {tried['policy_fifo']}"
    if tried["policy_batch"] != "yes":
        return Condition(
            name="scheduling policies",
            state="bad",
            value=value,
            effect="only --policy other works; wake-up preemption then changes switch counts",
            mend="run outside of the sandbox that forbids sched_setscheduler",
        )
    fifo = tried["policy_fifo"] == "yes"
    return Condition(
        name="scheduling policies",
        state="good" if fifo else "note",
        value=value,
        effect="all of --policy other, batch, fifo work" if fifo else "--policy fifo is refused",
        mend="" if fifo else "sudo setcap cap_sys_nice+ep on the probe, or rtprio in limits.conf",
    )


def _perf(facts: Facts) -> Condition:
    answer = facts["tried"]["perf_hardware"]
    paranoid = facts["kernel"]["perf_event_paranoid"]
    outcomes: dict[str, tuple[State, str]] = {
        "yes": ("good", "cycles and cache misses can be counted"),
        "not permitted": ("bad", "the counters exist but this user may not open them"),
        "not supported": ("absent", "no counters here (most clouds): no cache miss figures"),
    }
    state, effect = outcomes[answer]
    return Condition(
        name="hardware counters",
        state=state,
        value=f"{answer if answer != 'yes' else 'open'}; perf_event_paranoid {paranoid}",
        effect=effect,
        mend="sudo sysctl kernel.perf_event_paranoid=1" if answer == "not permitted" else "",
    )


def _clocksource(facts: Facts) -> Condition:
    clock = facts["clock"]
    steady = clock["constant_tsc"] and clock["nonstop_tsc"]
    good = clock["source"] == "arch_sys_counter" or (clock["source"] == "tsc" and steady)
    tsc = f" (constant {clock['constant_tsc']}, nonstop {clock['nonstop_tsc']})".lower()
    offered = "tsc" in clock["available"] and clock["source"] != "tsc"
    return Condition(
        name="clock source",
        state="good" if good else "bad" if clock["source"] else "absent",
        value=f"{clock['source'] or 'not shown here'}{tsc if clock['source'] == 'tsc' else ''}",
        effect="reading the time is cheap" if good else "reading the time may need the kernel",
        mend="echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource"
        if offered
        else "",
    )


def _scheduler(facts: Facts) -> Condition:
    kernel = facts["kernel"]
    return Condition(
        name="kernel scheduler",
        state="note",
        value=f"{kernel['scheduler'] or 'unknown'} on Linux {kernel['release']}",
        effect="EEVDF (6.6 and newer) may keep running the thread that yields; CFS rarely does",
        mend="compare kernels, never figures across kernels",
    )


def _tick(facts: Facts) -> Condition:
    kernel = facts["kernel"]
    quiet = facts["cpu"]["nohz_full"]
    hertz = f"HZ {kernel['hz']}" if kernel["hz"] else "HZ unknown"
    return Condition(
        name="tick and preemption",
        state="note",
        value=f"{hertz}, preempt {kernel['preempt'] or 'unknown'},"
        f" nohz_full {','.join(map(str, quiet)) or 'none'}",
        effect="each tick interrupts a measured CPU and may end a slice",
        mend="" if quiet else "boot with nohz_full= and isolcpus= for the quietest CPUs",
    )


def _memory(facts: Facts) -> Condition:
    memory = facts["memory"]
    aslr = {0: "off", 1: "partial", 2: "full"}.get(memory["randomize_va_space"], "unknown")
    return Condition(
        name="memory layout",
        state="good" if memory["randomize_va_space"] == 2 else "note",
        value=f"huge pages {memory['transparent_hugepage'] or 'unknown'}, ASLR {aslr}",
        effect="layouts differ between invocations, so their bias averages out"
        if memory["randomize_va_space"] == 2
        else "every invocation has the same layout, and its bias stays in the result",
        mend=""
        if memory["randomize_va_space"] in (2, None)
        else "sudo sysctl kernel.randomize_va_space=2",
    )


def _modules(facts: Facts) -> Condition:
    kernel = facts["kernel"]
    lacks = []
    if not kernel["headers"]:
        lacks.append("no headers for the running kernel")
    if not kernel["can_load_modules"]:
        lacks.append("not permitted to load modules")
    if kernel["modules_disabled"] is None:
        lacks.append("kernel without modules")
    elif kernel["modules_disabled"]:
        lacks.append("loading modules is switched off until the next boot")
    return Condition(
        name="kernel threads",
        state="absent" if lacks else "good",
        value="; ".join(lacks) or "headers are there and modules may be loaded",
        effect="kthread needs a module: not measurable on this kernel" if lacks else "",
        mend="boot a kernel with loadable modules"
        if kernel["modules_disabled"] is None
        else "sudo apt install linux-headers-$(uname -r), and run as root"
        if lacks
        else "",
    )


def _vm(facts: Facts) -> Condition:
    engine = facts["vm_engine"]
    qemu = ", ".join(
        f"{name}: {text or 'version unknown'}" for name, text in engine["qemu"].items()
    )
    if not engine["kvm_present"]:
        kvm = "/dev/kvm absent"
    elif not engine["kvm_opens"]:
        kvm = "/dev/kvm present, not permitted"
    else:
        kvm = "/dev/kvm present, not proved: only a booted guest proves it, and none was booted"
    return Condition(
        name="virtual machines",
        state="note" if qemu else "absent",
        value=f"{qemu or 'no QEMU'}; {kvm}",
        effect="guests with other kernels or more CPUs are possible"
        if qemu
        else "no guests: other kernels and more CPUs cannot be had",
        mend="" if qemu else "sudo apt install qemu-system-x86 qemu-system-arm",
    )


def _tools(facts: Facts) -> Condition:
    tools = facts["tools"]
    name = next(iter(tools), None)
    return Condition(
        name="compiler and libc",
        state="good" if name else "absent",
        value=f"{tools[name] if name else 'no C compiler'}; {facts['host']['libc'] or 'unknown'}",
        effect="" if name else "the runtime and the probes cannot be built here",
        mend="" if name else "sudo apt install gcc",
    )


CHECKS: tuple[Callable[[Facts], Condition], ...] = (
    _cpus,
    _topology,
    _smt,
    _caches,
    _governor,
    _turbo,
    _hypervisor,
    _steal,
    _load,
    _mitigations,
    _cgroup,
    _limits,
    _pid_max,
    _maps,
    _fsgsbase,
    _policy,
    _perf,
    _clocksource,
    _scheduler,
    _tick,
    _memory,
    _modules,
    _vm,
    _tools,
)
