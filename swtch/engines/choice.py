# SPDX-License-Identifier: Apache-2.0
"""From what the user asks for to an engine that is ready; also from a manifest.

Everything that an engine can be refused for is refused here, before a run
directory exists. A resumed run gets the engine that its manifest describes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from swtch.engines import Engine
from swtch.errors import CannotError, RequestError
from swtch.records import Engine as EngineName
from swtch.records import Manifest, Model, Trial

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line says of the engine; None where it says nothing."""

    engine: EngineName = "native"
    guests: str | None = None
    boots: bool = False
    cpus: int | None = None
    memory_mib: int | None = None
    kernel: Path | None = None
    headers: Path | None = None
    native_kthread: bool = False


class Closable(Engine, Protocol):
    """An engine that has something to give back, and makes its own trials of a plan's."""

    def spread(self, trials: Sequence[Trial]) -> tuple[Trial, ...]:
        """The trials that this engine performs for those of the experiments."""

    def estimate_seconds(self, trials: Sequence[Trial], repeats: int) -> float:
        """About how long all of it takes."""

    def keep_logs(self, folder: Path) -> None:
        """Where its own logs go."""

    def close(self) -> None:
        """Gives everything back."""


def check(options: Options) -> None:
    """Refuses options that do not belong together."""
    of_guests = {
        "--guest": options.guests,
        "--boots": options.boots or None,
        "--cpus": options.cpus,
        "--memory": options.memory_mib,
        "--kernel": options.kernel,
        "--headers": options.headers,
    }
    given = [name for name, value in of_guests.items() if value is not None]
    if options.engine == "native" and given:
        raise RequestError(f"{given[0]} belongs to --engine vm or --engine exact.")
    if options.engine != "native" and options.native_kthread:
        raise RequestError("--native-kthread belongs to --engine native; guests need no root.")
    if options.engine == "exact" and (options.cpus not in (None, 1) or options.boots):
        raise RequestError("--engine exact has one CPU and boots for each trial; leave that out.")
    if options.headers is not None and options.kernel is None:
        raise RequestError("--headers belongs to --kernel.")
    if options.kernel is not None and options.guests is not None:
        raise RequestError("--kernel is a guest of its own; leave --guest out.")


def open_engine(options: Options, *, say: Say) -> Engine:
    """The engine, its guests prepared; nothing runs yet."""
    check(options)
    if options.engine == "native":
        if options.native_kthread:
            from swtch.engines.native_kthread import NativeKthreadEngine

            return NativeKthreadEngine(asked=True)
        from swtch.engines.native import NativeEngine

        return NativeEngine()
    from swtch.engines.exact import ExactEngine
    from swtch.engines.vm import VmEngine
    from swtch.vm import qemu

    subjects = _subjects(options, say)
    memory = options.memory_mib or qemu.MEMORY_MIB
    if options.engine == "exact":
        return ExactEngine(subjects, memory_mib=memory)
    return VmEngine(
        subjects, cpus=options.cpus or qemu.CPUS, memory_mib=memory, boots=options.boots
    )


def reopen(manifest: Manifest, *, say: Say) -> Engine:
    """The engine that `manifest` describes."""
    facts: dict[str, Any] = manifest.environment.get("engine", {})
    if manifest.engine == "native":
        asked = bool(facts.get("native_kthread"))
        return open_engine(Options(native_kthread=asked), say=say)
    guests = [str(guest.get("guest")) for guest in facts.get("guests", ())]
    if any(name.startswith("own-") for name in guests):
        raise CannotError(
            "the run used a kernel of yours, and its manifest does not hold it; start a new run."
        )
    options = Options(
        engine=manifest.engine,
        guests=",".join(guests),
        boots=bool(facts.get("boots", False)),
        cpus=facts.get("cpus"),
        memory_mib=facts.get("memory_mib"),
    )
    return open_engine(options, say=say)


def cpus_of(engine: Engine, allowed: tuple[int, ...]) -> tuple[int, ...]:
    """The CPUs that trials may use: a guest has its own, others share this machine's."""
    count = getattr(engine, "cpus", None)
    return tuple(range(count)) if isinstance(count, int) else allowed


def spread(engine: Engine, trials: tuple[Trial, ...]) -> tuple[Trial, ...]:
    """The trials of a plan as `engine` performs them."""
    return cast(Closable, engine).spread(trials) if hasattr(engine, "spread") else trials


def estimate_seconds(
    engine: Engine, trials: Sequence[Trial], repeats: int, native_s: float
) -> float:
    """About how long it takes; `native_s` is what the definitions guess for a process each."""
    if hasattr(engine, "estimate_seconds"):
        return cast(Closable, engine).estimate_seconds(trials, repeats)
    return native_s


def models_of(
    engine: Engine, asked: tuple[Model, ...] | None, known: tuple[Model, ...]
) -> tuple[Model, ...]:
    """The models to plan: kthread only where there can be any."""
    if getattr(engine, "has_kthread", False):
        return asked or known
    if asked and "kthread" in asked:
        raise CannotError(
            "kthread needs the kernel module: use --engine vm, which needs no root, or as root"
            " --native-kthread, which loads it into this kernel."
            if engine.name == "native"
            else "kthread needs the kernel module, and none could be built for these guests."
        )
    return tuple(model for model in asked or known if model != "kthread")


def keep_logs(engine: Engine, folder: Path) -> None:
    """Guests log their console into the run."""
    if hasattr(engine, "keep_logs"):
        cast(Closable, engine).keep_logs(folder)


def close(engine: Engine) -> None:
    """Gives back what the engine holds."""
    if hasattr(engine, "close"):
        cast(Closable, engine).close()


def _subjects(options: Options, say: Say) -> list[Any]:
    from swtch.engines.vm import Subject
    from swtch.vm import guests, kvm, prepare, programs

    own = None
    if options.kernel is not None:
        own = prepare.Own(kernel=options.kernel, headers=options.headers)
    if own is not None:
        wanted: tuple[guests.Guest, ...] = (prepare.own_guest(own),)
    else:
        wanted = guests.parse(options.guests) if options.guests else (guests.default(),)
    programs.ensure([guest.arch for guest in wanted], say=say)
    subjects = []
    for guest in wanted:
        prepared = prepare.prepare(guest, own=own, say=say)
        if not prepared.has_module:
            say(f"{guest.name}: no kernel module, so no kthread there")
        accel = kvm.Choice("tcg", "the exact engine counts instructions")
        if options.engine == "vm":
            accel = kvm.choose(prepared, say=say)
            if accel.why:
                say(f"{guest.name}: emulated ({accel.why})")
        subjects.append(Subject(prepared=prepared, accel=accel))
    return subjects
