# SPDX-License-Identifier: Apache-2.0
"""From what the user asks for to engines that are ready; also from a manifest.

Everything that an engine can be refused for is refused here, before a run
directory exists. A resumed run gets the engines that its manifest describes.
Which of them measures what is decided here too (``shares``).
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, cast, get_args

from swtch.engines import PEERS, TRAITS, Engine
from swtch.engines.several import SeveralEngines
from swtch.errors import CannotError, LabError, RequestError, did_you_mean
from swtch.experiments import Experiment
from swtch.records import Engine as EngineName
from swtch.records import Manifest, Model, Trial

Say = Callable[[str], None]

GO_PEER = "the machine itself and the Go peer, built where Go is (apt-get install golang-go; make)"

OTHER_PEERS = "make peers, or tools/peers.sh, builds what there are compilers for"

ENGINE_NAMES: tuple[EngineName, ...] = get_args(EngineName)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line says of the engines; None where it says nothing.

    ``further`` are guests beside those, each for some experiments only; one that
    cannot be had is left out. With several of ``append`` there is each guest with each.
    """

    engines: tuple[EngineName, ...] = ("native",)
    guests: str | None = None
    further: Mapping[str, frozenset[str]] = field(default_factory=dict)
    boots: bool = False
    cpus: int | None = None
    memory_mib: int | None = None
    kernels: tuple[Path, ...] = ()
    headers: tuple[Path, ...] = ()
    append: tuple[str, ...] = ()
    accel: Literal["auto", "kvm", "tcg"] = "auto"
    pin: tuple[int, ...] = ()
    native_kthread: bool = False


class Closable(Engine, Protocol):
    """An engine that has something to give back, and makes its own trials of a plan's."""

    def spread(self, trials: Sequence[Trial]) -> tuple[Trial, ...]:
        """The trials that this engine performs for those of the experiments."""

    def keep_logs(self, folder: Path) -> None:
        """Where its own logs go."""

    def close(self) -> None:
        """Gives everything back."""


@dataclass(frozen=True, kw_only=True)
class Share:
    """What one engine of a run measures."""

    engine: Engine
    models: tuple[Model, ...]
    experiments: tuple[Experiment, ...]


def parse_engines(text: str) -> tuple[EngineName, ...]:
    """`text` is comma-separated; they measure in its order."""
    asked = list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    known = ", ".join(ENGINE_NAMES)
    if not asked:
        raise RequestError(f"--engine names no engine; known are {known}.")
    for word in asked:
        if word not in ENGINE_NAMES:
            raise RequestError(
                f"--engine: there is no engine {word!r}.{did_you_mean(word, ENGINE_NAMES)}"
                f" Known are {known}."
            )
    return cast("tuple[EngineName, ...]", tuple(asked))


def parse_append(text: str | None) -> tuple[str, ...]:
    """`text` as words of a kernel's command line, as they are: the kernel knows quotes, too."""
    words = (text or "").strip()
    if any(character in words for character in "\n\r\0"):
        raise RequestError("--append: a kernel's command line is one line.")
    if re.search(r"(^|\s)rdinit=", words):
        raise RequestError("--append: the guest's first process is swtch's; leave rdinit= out.")
    return (words,) if words else ()


def parse_pin(text: str | None) -> tuple[int, ...]:
    """`text` is CPUs as 2-5,7: those that virtual CPUs run on, one after the other."""
    if text is None:
        return ()
    from swtch import environment

    allowed = environment.allowed_cpus()
    cpus = tuple(environment.parse_list(text))
    if not cpus or not re.fullmatch(r"[\d,\s-]+", text):
        raise RequestError(f"--pin: {text!r} names no CPUs; give them like 2-5 or 0,2.")
    if missing := [cpu for cpu in cpus if cpu not in allowed]:
        raise RequestError(
            f"--pin: CPU {missing[0]} is not one of those allowed here, which are"
            f" {', '.join(map(str, allowed))}."
        )
    return cpus


def check(options: Options) -> None:
    """Refuses options that do not belong together."""
    of_guests = {
        "--guest": options.guests,
        "--boots": options.boots or None,
        "--cpus": options.cpus,
        "--memory": options.memory_mib,
        "--kernel": options.kernels or None,
        "--headers": options.headers or None,
        "--append": options.append or None,
        "--accel": None if options.accel == "auto" else options.accel,
        "--pin": options.pin or None,
    }
    given = [name for name, value in of_guests.items() if value is not None]
    traits = [TRAITS[name] for name in options.engines]
    if given and not any(of.guest for of in traits):
        raise RequestError(f"{given[0]} belongs to --engine vm or --engine exact.")
    if options.native_kthread and all(of.guest for of in traits):
        raise RequestError("--native-kthread belongs to --engine native; guests need no root.")
    # Beside another guest, the number of CPUs is that one's.
    several = options.cpus not in (None, 1) and all(of.counting or not of.guest for of in traits)
    if (several or options.boots) and any(of.counting for of in traits):
        raise RequestError("--engine exact has one CPU and boots for each trial; leave that out.")
    if (options.accel != "auto" or options.pin) and all(
        of.counting or not of.guest for of in traits
    ):
        raise RequestError("--engine exact is emulated by one thread; leave --accel and --pin out.")
    if options.headers:
        from swtch.vm import own as own_kernels

        own_kernels.check_number(options.kernels, options.headers)


def open_engine(options: Options, *, say: Say) -> Engine:
    """The engine, or several as one; guests are prepared, nothing runs yet."""
    check(options)
    guests = any(TRAITS[name].guest for name in options.engines)
    subjects = _subjects(options, say) if guests else []
    opened = [_open(name, options, subjects) for name in options.engines]
    return opened[0] if len(opened) == 1 else SeveralEngines(opened)


def _open(name: EngineName, options: Options, subjects: list[Any]) -> Engine:
    module, _, function = TRAITS[name].opener.partition(":")
    opener = getattr(importlib.import_module(module), function)
    return cast(Engine, opener(options, subjects))


def members(engine: Engine) -> tuple[Engine, ...]:
    """The engines of a run, in the order they measure."""
    return engine.members if isinstance(engine, SeveralEngines) else (engine,)


def reopen(manifest: Manifest, *, say: Say) -> Engine:
    """The engine that `manifest` describes."""
    first: dict[str, Any] = manifest.environment.get("engine", {})
    all_of: list[dict[str, Any]] = first.get("engines") or [{"engine": manifest.engine, **first}]
    facts = {name: value for description in reversed(all_of) for name, value in description.items()}
    guests = list(dict.fromkeys(str(guest.get("guest")) for guest in facts.get("guests", ())))
    each = {str(guest.get("guest")): guest for guest in facts.get("guests", ())}
    own = [guest for name, guest in each.items() if name.startswith("own")]
    for guest in own:
        _check_own(guest)
    named = [name for name in guests if not name.startswith("own")]
    options = Options(
        engines=tuple(description["engine"] for description in all_of),
        guests=",".join(named) or None,
        kernels=tuple(Path(guest["given"][0]) for guest in own),
        headers=tuple(Path(guest["given"][-1]) for guest in own)
        if any(len(guest["given"]) > 1 for guest in own)
        else (),
        boots=bool(facts.get("boots", False)),
        cpus=facts.get("cpus"),
        memory_mib=facts.get("memory_mib"),
        append=_appended(facts.get("guests", ())),
        accel=facts.get("accel_asked", "auto"),
        pin=tuple(facts.get("pin", ())),
        native_kthread=bool(facts.get("native_kthread")),
    )
    return open_engine(options, say=say)


def _appended(guests: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """What the kernels of the guests of a manifest were told; nothing where none was."""
    told = tuple(dict.fromkeys(" ".join(guest.get("append", ())) for guest in guests))
    return () if told == ("",) else told


def _check_own(guest: Mapping[str, Any]) -> None:
    """Refuses to go on with another kernel than a run began with."""
    from swtch.vm import cache
    from swtch.vm import own as own_kernels

    given = guest.get("given") or ()
    if not given:
        raise CannotError(
            "the run used a kernel of yours, and its manifest does not say where it is; start a"
            " new run."
        )
    try:
        same = [cache.sha256(own_kernels.found(Path(given[0])).kernel)] == guest.get("kernel")
    except (CannotError, OSError):
        same = False
    if not same:
        raise CannotError(
            f"the run used the kernel {given[0]}, which is not there any more or another one;"
            " put it back, or start a new run."
        )


def cpus_of(engine: Engine, allowed: tuple[int, ...]) -> tuple[int, ...]:
    """The CPUs that trials may use: a guest has its own, others share this machine's."""
    count = getattr(engine, "cpus", None)
    return tuple(range(count)) if isinstance(count, int) else allowed


def caches_of(engine: Engine, cpu: int) -> tuple[int, int]:
    """What the first cache of data and the last cache of its processor hold; 0: it has none,
    or does not say."""
    from swtch.engines import caches

    return (0, 0) if getattr(engine, "emulated", False) else caches.sizes(cpu)


def spread(engine: Engine, trials: tuple[Trial, ...]) -> tuple[Trial, ...]:
    """The trials of a plan as `engine` performs them."""
    return cast(Closable, engine).spread(trials) if hasattr(engine, "spread") else trials


def shares(
    engine: Engine,
    asked: tuple[Model, ...] | None,
    known: tuple[Model, ...],
    chosen: Sequence[Experiment],
) -> tuple[Share, ...]:
    """Who measures what: kthread and go only where there can be any.

    Beside native, a guest measures the experiments of which native cannot measure
    some model, and those whole: ratios need company from the same guest.
    """
    shares: list[Share] = []
    for member in members(engine):
        models = tuple(m for m in asked or known if _has(member, m))
        mine = [e for e in chosen if set(e.models) & set(models) and _takes(member, e)]
        if shares and not TRAITS[shares[0].engine.name].guest:
            more = set(models) - set(shares[0].models)
            mine = [e for e in mine if set(e.models) & more]
        if mine:
            shares.append(Share(engine=member, models=models, experiments=tuple(mine)))
        elif shares:
            raise RequestError(
                f"--engine {member.name} measures nothing that {shares[0].engine.name} does not;"
                " leave it out."
            )
    if not shares and (alone := [e.name for e in chosen if e.program]):
        raise RequestError(
            f"{alone[0]} has a probe program of its own, which runs on the machine itself:"
            " leave --engine out."
        )
    for peer in PEERS:
        if asked and peer in asked and not any(peer in share.models for share in shares):
            raise CannotError(f"{peer} needs {_needs(peer)}.")
    if asked and "kthread" in asked and not any("kthread" in share.models for share in shares):
        raise CannotError(
            "kthread needs the kernel module: use --engine vm, which needs no root, or as root"
            " --native-kthread, which loads it into this kernel."
            if not TRAITS[engine.name].guest
            else "kthread needs the kernel module, and none could be built for these guests."
        )
    return tuple(shares)


def left_out(shares: Sequence[Share], asked: tuple[Model, ...] | None) -> str:
    """One line for who did not ask: what these engines do not measure, and how to get it."""
    wanted = {model for share in shares for e in share.experiments for model in e.models}
    lacking = wanted - {m for s in shares for m in s.models}
    if asked is not None:
        return ""
    peers = [f"{p} is not measured: it needs {_needs(p)}" for p in PEERS if p in lacking]
    return "; ".join(line for line in (_without_kthread(shares, lacking), *peers) if line)


def _needs(peer: Model) -> str:
    return GO_PEER if peer == "go" else f"the machine itself and its program ({OTHER_PEERS})"


def _without_kthread(shares: Sequence[Share], lacking: Set[Model]) -> str:
    if "kthread" not in lacking:
        return ""
    if any(TRAITS[share.engine.name].guest for share in shares):
        return "kthread is not measured: no kernel module could be built for these guests"
    return "kthread is not measured: it needs a kernel module; --engine native,vm has it in a guest"


def _takes(engine: Engine, experiment: Experiment) -> bool:
    """A guest has no program of the user's."""
    return not (experiment.program and TRAITS[engine.name].guest)


def _has(engine: Engine, model: Model) -> bool:
    """Whether the engine has the model: some of them need something built."""
    if model in PEERS:
        return model in getattr(engine, "peers", ())
    return model != "kthread" or bool(getattr(engine, "has_kthread", False))


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
    from swtch.vm import own as own_kernels

    own = {
        own_kernels.guest(one): one for one in own_kernels.several(options.kernels, options.headers)
    }
    named = guests.parse(options.guests) if options.guests else ()
    wanted: tuple[guests.Guest, ...] = (*named, *own) or (guests.default(),)
    programs.ensure([guest.arch for guest in wanted])
    subjects = []
    further = guests.parse(",".join(options.further)) if options.further else ()
    for guest in dict.fromkeys((*wanted, *further)):
        only = None if guest in wanted else options.further[guest.name]
        try:
            prepared = prepare.prepare(guest, own=own.get(guest), say=say)
        except LabError as error:
            if only is None:
                raise
            say(f"{guest.name}: left out: {error}")
            continue
        if not prepared.has_module:
            say(f"{guest.name}: no kernel module, so no kthread there")
        accel = kvm.Choice("tcg", "the exact engine counts instructions")
        if any(TRAITS[name].guest and not TRAITS[name].counting for name in options.engines):
            accel = kvm.choose(prepared, asked=options.accel, say=say)
            if accel.why and options.accel == "auto":
                say(f"{guest.name}: emulated ({accel.why})")
        told = options.append or ("",)
        subjects += [
            Subject(
                prepared=prepared,
                accel=accel,
                only=only,
                words=(words,) if words else (),
                variant=len(told) > 1,
            )
            for words in told
        ]
    return subjects
