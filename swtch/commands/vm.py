# SPDX-License-Identifier: Apache-2.0
"""`swtch vm`: prepare guests, look at them, run something in one.

A group of its own that the command line imports only when it is used. Data
goes to standard output (what a program in the guest printed), the rest to
standard error.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

import click

from swtch.commands.parameters import Name, Place, Seconds
from swtch.errors import EXIT_OK, EXIT_SOME_FAILED, CannotError, RequestError

if TYPE_CHECKING:
    from swtch.vm.own import Own
    from swtch.vm.prepare import Prepared
    from swtch.vm.qemu import Machine
    from swtch.vm.session import Ran

FILE = Place()
_CPUS = click.IntRange(1, 64)
_MEMORY = click.IntRange(256, 65_536)
_KERNEL = "A kernel of your own instead, or its build folder."
_HEADERS = "What its modules are built with."
_AFTER = "swtch.commands.vm.after"
_BOOT_WORDS = "[GUEST] [[--] PROGRAM [ARGUMENT]...]"


def run(arguments: list[str]) -> int:
    """Runs one command of the group."""
    with group.make_context("swtch vm", arguments) as context:
        return int(group.invoke(context) or 0)


@click.group(no_args_is_help=False, invoke_without_command=True)
@click.pass_context
def group(context: click.Context) -> None:
    """Guests to measure in: other kernels, more CPUs, kernel threads without root."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@group.command("list")
@click.option(
    "--format", "form", type=click.Choice(["table", "json", "csv", "md"]), default="table"
)
def list_guests(form: str) -> int:
    """Show the guests, and which are prepared."""
    from swtch.commands import output
    from swtch.vm import guests, prepare

    rows = []
    for name, kernel in prepare.ready().items():
        guest = guests.GUESTS[name]
        rows.append(
            {
                "guest": name,
                "arch": guest.arch.name,
                "scheduler": guest.scheduler,
                "suite": guest.suite,
                "prepared": kernel.version if kernel else "",
            }
        )
    columns = {key: key for key in rows[0]}
    if form == "json":
        output.print_json({"schema": 1, "guests": rows})
    elif form == "csv":
        output.print_csv(rows)
    elif form == "md":
        output.print_markdown(rows, columns)
    else:
        output.print_table(rows, columns)
    return EXIT_OK


@group.command("prepare")
@click.argument("names", nargs=-1, metavar="[GUEST]...")
@click.option("--all", "everything", is_flag=True, help="All guests that 'swtch vm list' shows.")
@click.option("--refresh", is_flag=True, help="Take newer packages, if there are any.")
@click.option("--kernel", type=FILE, metavar="FILE", help=_KERNEL)
@click.option("--headers", type=FILE, metavar="DIR", help=_HEADERS)
def prepare_guests(
    names: tuple[str, ...],
    everything: bool,
    refresh: bool,
    kernel: Path | None,
    headers: Path | None,
) -> int:
    """Fetch kernels and build what runs in them. Needs no root, installs nothing."""
    from swtch.vm import guests, prepare, programs
    from swtch.vm import own as own_kernels

    if everything and (names or kernel):
        raise click.UsageError("--all takes no names and no --kernel.")
    own = _own(kernel, headers, names)
    if own is not None:
        wanted: tuple[guests.Guest, ...] = (own_kernels.guest(own),)
    elif everything:
        wanted = tuple(guests.GUESTS.values())
    else:
        wanted = guests.parse(",".join(names)) if names else (guests.default(),)
    programs.ensure([guest.arch for guest in wanted])
    for guest in wanted:
        begin = time.monotonic()
        prepared = prepare.prepare(guest, own=own, refresh=refresh, say=_say)
        module = "with kthread_perf" if prepared.has_module else "without a kernel module"
        _say(
            f"{guest.name}: ready, Linux {prepared.kernel.release} ({prepared.scheduler}),"
            f" {module}, {time.monotonic() - begin:.1f} s"
        )
    return EXIT_OK


class _Boot(click.Command):
    """Knows what comes after "--": a program, whatever it looks like."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[_AFTER] = tuple(args[at + 1 :])
        return super().parse_args(ctx, args[:at])


def _machine_options(command: Callable[..., int]) -> Callable[..., int]:
    """What `boot` and `shell` are both told of the guest."""
    for option in reversed(
        (
            click.option("--cpus", type=_CPUS, default=4, help="Virtual CPUs (4)."),
            click.option("--memory", type=_MEMORY, default=1024, metavar="MIB", help="(1024)."),
            click.option("--kernel", type=FILE, metavar="FILE", help=_KERNEL),
            click.option("--headers", type=FILE, metavar="DIR", help=_HEADERS),
            click.option("--append", metavar="WORDS", help="More of the kernel's command line."),
            click.option("--accel", type=click.Choice(["auto", "kvm", "tcg"]), default="auto"),
            click.option("--pin", metavar="CPUS", help="Where virtual CPUs run, e.g. 2-5."),
            click.option("--add", multiple=True, metavar="FILE:PLACE", help="A file more."),
        )
    ):
        command = option(command)
    return command


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """The guest that `boot` or `shell` is asked for, by its options."""

    cpus: int
    memory: int
    kernel: Path | None
    headers: Path | None
    append: str | None
    accel: Literal["auto", "kvm", "tcg"]
    pin: str | None
    add: tuple[str, ...]

    def prepared(self, name: str | None, words: tuple[str, ...] = ()) -> tuple[Prepared, Machine]:
        """The guest `name`, or that of the kernel, and what is booted."""
        from swtch.engines import choice
        from swtch.vm import kvm, qemu

        pin = choice.parse_pin(self.pin)
        words = (*choice.parse_append(self.append), *words)
        prepared = _prepare(name, self.kernel, self.headers, _more_files(self.add))
        chosen = kvm.choose(prepared, asked=self.accel, say=_say)
        if chosen.why and self.accel == "auto":
            _say(f"{prepared.guest.name}: emulated ({chosen.why})")
        return prepared, qemu.Machine(
            arch=prepared.guest.arch,
            image=Path(prepared.kernel.image),
            initramfs=prepared.initramfs,
            cpus=self.cpus,
            memory_mib=self.memory,
            accel=chosen.accel,
            words=words,
            pin=pin,
        )


@group.command("boot", cls=_Boot, context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar=_BOOT_WORDS)
@_machine_options
@click.option("--console", type=FILE, metavar="FILE", help="Keep the console's text.")
@click.option("--time-limit", type=Seconds(), default=60.0, metavar="SECONDS")
@click.pass_context
def boot_guest(
    context: click.Context,
    /,
    words: tuple[str, ...],
    console: Path | None,
    time_limit: float,
    **options: Any,
) -> int:
    """Boot a guest, run PROGRAM in it with our standard input, power it off."""
    from swtch.engines.vm import not_loaded
    from swtch.vm.session import GuestDiedError, boot

    begin = time.monotonic()
    asked = _Asked(**options)
    name, program = _guest_and_program(words, context.meta[_AFTER], own=asked.kernel is not None)
    prepared, machine = asked.prepared(name)
    stdin = b"" if not program or sys.stdin.isatty() else sys.stdin.buffer.read()
    status = 0
    booted = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        log = console or Path(folder) / "console"
        try:
            with boot(machine, log) as session:
                hello = session.hello
                _say(
                    f"{prepared.guest.name}: Linux {hello.get('release')}, {hello.get('cpus')}"
                    f" CPUs, {machine.accel}, module {hello.get('module')}; booted in"
                    f" {session.boot_s:.1f} s"
                )
                if program:
                    ran = session.run(program, stdin=stdin, timeout_s=time_limit)
                    sys.stdout.buffer.write(ran.stdout)
                    sys.stdout.flush()
                    sys.stderr.buffer.write(ran.stderr)
                    sys.stderr.flush()
                    status = ran.returncode
                    if told := _fate(program[0], ran, time_limit):
                        _say(told)
                complaints = session.complaints
        except GuestDiedError as death:
            print(death.console, file=sys.stderr)
            raise CannotError(f"{prepared.guest.name}: {death}.") from None
    if hello.get("module") not in ("loaded", "absent"):
        complaints = [not_loaded(hello), *complaints]
    for line in complaints:
        _say(f"the guest's kernel complained: {line}")
    now = time.monotonic()
    _say(f"{prepared.guest.name}: off after {now - booted:.1f} s ({now - begin:.1f} s in all)")
    return EXIT_SOME_FAILED if status or complaints else EXIT_OK


def _fate(program: str, ran: Ran, time_limit: float) -> str:
    """What a program did not say itself: why it did not end by itself."""
    if ran.failed:
        return f"{program} could not be started ({ran.failed})"
    if ran.timed_out:
        return f"{program} ran longer than {time_limit:g} s"
    if ran.killed_why:
        return f"{program} was ended by the guest's kernel; {ran.killed_why}"
    return f"{program} was ended by signal {ran.signal}" if ran.signal else ""


def _guest_and_program(
    words: tuple[str, ...], after: tuple[str, ...], *, own: bool
) -> tuple[str | None, tuple[str, ...]]:
    """What `words` before "--" and those `after` it say: a guest first, unless it is the
    user's own kernel, which has no name."""
    from swtch.vm import guests

    if own and words[:1] and words[0] not in guests.GUESTS:
        return None, (*words, *after)
    return (words[0] if words else None), (*words[1:], *after)


@group.command("shell")
@click.argument("name", required=False, metavar="[GUEST]")
@_machine_options
def shell(name: str | None, **options: Any) -> int:
    """A shell in a guest, on this terminal. 'exit' powers the guest off."""
    import subprocess

    from swtch.vm import qemu

    prepared, machine = _Asked(**options).prepared(name, ("swtch.shell",))
    if machine.pin:
        raise RequestError("--pin is for what is measured; a shell runs anywhere.")
    if not prepared.has_shell:
        raise CannotError(f"{prepared.guest.name} has no shell: install busybox.")
    _say(f"{prepared.guest.name}: 'exit' powers it off")
    arguments = qemu.guarded(qemu.command(machine, console="stdio,signal=off", line="null"))
    return EXIT_OK if subprocess.run(arguments, check=False).returncode == 0 else EXIT_SOME_FAILED


@group.command("compare")
@click.argument("subjects", nargs=-1, required=True, type=Name(), metavar="GUEST|KERNEL...")
@click.option("--headers", type=FILE, multiple=True, metavar="DIR", help=_HEADERS)
@click.option("--append", multiple=True, metavar="WORDS,...", help="Each guest with each of these.")
@click.option("--experiments", metavar="A,B", default="syscall", help="What to measure (syscall).")
@click.option("--models", metavar="A,B", help="Only these models.")
@click.option("--engine", type=click.Choice(["vm", "exact"]), default="vm", help="(vm)")
@click.option("--accel", type=click.Choice(["auto", "kvm", "tcg"]), default="auto", help="(auto)")
@click.option("--pin", metavar="CPUS", help="Where virtual CPUs run, e.g. 2-5.")
@click.option("--cpus", type=_CPUS, help="Virtual CPUs (4).")
@click.option("--memory", "memory_mib", type=_MEMORY, metavar="MIB", help="(1024).")
@click.option("--once", is_flag=True, help="Boot each guest once, not anew for each block.")
@click.option("--depth", type=click.Choice(["quick", "normal", "paper"]), default="quick")
@click.option("--repeats", type=click.IntRange(1, 10_000), help="Blocks.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Of the order.")
@click.option("--out", type=FILE, metavar="DIR", help="Run directory.")
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
@click.option("--html", type=FILE, metavar="FILE", help="Write a page of it, too.")
@click.option("--fail-if-slower", metavar="SHARE", help="Status 1 if one is slower by more.")
@click.option("--all", "every", is_flag=True, help="List trials without a difference, too.")
def compare_guests(
    experiments: str,
    once: bool,
    html: Path | None,
    fail_if_slower: str | None,
    every: bool,
    **terms: Any,
) -> int:
    """Compare kernels: guests, images, build folders, and what they are told, with the first."""
    from swtch.commands import vm_compare

    asked = vm_compare.Terms(experiments=_words(experiments), boots=not once, **terms)
    return vm_compare.show(asked, html=html, fail_if_slower=fail_if_slower, every=every)


@group.command("bisect", cls=_Boot)
@click.argument("words", nargs=-1, type=Name(), metavar="TREE GOOD BAD [-- BUILD [ARGUMENT]...]")
@click.option("--experiments", metavar="A,B", default="syscall", help="What to measure (syscall).")
@click.option("--models", metavar="A,B", default="pthread", help="Only these (pthread).")
@click.option("--engine", type=click.Choice(["vm", "exact"]), default="vm", help="(vm)")
@click.option("--accel", type=click.Choice(["auto", "kvm", "tcg"]), default="auto", help="(auto)")
@click.option("--pin", metavar="CPUS", help="Where virtual CPUs run, e.g. 2-5.")
@click.option("--cpus", type=_CPUS, help="Virtual CPUs (4).")
@click.option("--repeats", type=click.IntRange(4, 1000), default=10, help="Blocks of a step (10).")
@click.option("--out", type=FILE, metavar="DIR", help="Where runs and git's log are kept.")
@click.option("--step", type=FILE, metavar="DIR", help="Judge one commit, for 'git bisect run'.")
@click.pass_context
def bisect(
    context: click.Context,
    /,
    words: tuple[str, ...],
    experiments: str,
    out: Path | None,
    step: Path | None,
    **terms: Any,
) -> int:
    """Find the commit of TREE that made its kernel slower, between GOOD and BAD."""
    from swtch.commands import vm_bisect

    if step is not None:
        if words or out is not None:
            raise click.UsageError("--step takes nothing else; its folder says all.")
        return vm_bisect.step(step)
    if len(words) != 3:
        raise click.UsageError("give TREE, GOOD and BAD, and after -- what builds the kernel.")
    tree, good, bad = words
    asked = vm_bisect.Terms(
        tree=str(Path(tree).resolve()),
        build=context.meta[_AFTER] or vm_bisect.default_build(Path(tree)),
        experiments=tuple(
            str(Path(word).resolve()) if Path(word).is_file() else word
            for word in _words(experiments)
        ),
        **terms,
    )
    folder = out or Path("swtch-runs") / f"bisect-{time.strftime('%Y%m%dT%H%M%S')}"
    return vm_bisect.start(asked, good, bad, folder)


def _words(experiments: str) -> tuple[str, ...]:
    """The names in --experiments. None are not all of them, as elsewhere: that takes hours."""
    names = tuple(word.strip() for word in experiments.split(",") if word.strip())
    if not names:
        raise RequestError("--experiments names none; leave it out, or see 'swtch list'.")
    return names


def _prepare(
    name: str | None, kernel: Path | None, headers: Path | None, extra: dict[str, Path]
) -> Prepared:
    from swtch.vm import guests, prepare, programs
    from swtch.vm import own as own_kernels

    own = _own(kernel, headers, (name,) if name is not None else ())
    if own is not None:
        guest = own_kernels.guest(own)
    elif name is not None:
        (guest, *others) = guests.parse(name)
        if others:
            raise RequestError("one guest at a time.")
    else:
        guest = guests.default()
    programs.ensure([guest.arch])
    return prepare.prepare(guest, own=own, extra=extra, say=_say)


def _own(kernel: Path | None, headers: Path | None, names: tuple[str, ...]) -> Own | None:
    from swtch.vm import own as own_kernels

    if kernel is None:
        if headers is not None:
            raise RequestError("--headers belongs to --kernel.")
        return None
    if names:
        raise RequestError("--kernel is a guest of its own; leave the name out.")
    return own_kernels.found(kernel, headers)


def _more_files(add: tuple[str, ...]) -> dict[str, Path]:
    files = {}
    for pair in add:
        source, colon, place = pair.rpartition(":")
        parts = PurePosixPath(place).parts
        is_place = place.startswith("/") and not place.endswith("/") and len(parts) > 1
        if not colon or not is_place or ".." in parts:
            raise RequestError(f"--add {pair}: give FILE:/PLACE/IN/THE/GUEST.")
        if not Path(source).is_file():
            raise RequestError(f"--add: {source} is not a file.")
        files[place] = Path(source)
    return files


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
