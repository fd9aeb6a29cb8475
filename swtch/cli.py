# SPDX-License-Identifier: Apache-2.0
"""The command line: what can be said, and how every failure leaves.

This file only declares commands and options; the work is in ``commands``,
imported when a command runs, because `swtch --help` must not wait for rich,
numpy or scipy.

Invariants:

- Data goes to standard output, everything for people to standard error.
- Every expected failure is one line on standard error and an exit code of the
  table in docs/architecture.md; nothing a user can do gives a traceback.

Rejected: click's standalone mode (prints a usage block around each error, and
turns a closed pipe into status 1).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import click

from swtch import __version__, ending, streams, threads
from swtch.commands.parameters import Place, Seconds
from swtch.errors import (
    EXIT_CANNOT,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_PIPE,
    EXIT_SOME_FAILED,
    LabError,
    os_error_text,
)

if TYPE_CHECKING:
    from swtch.records import Depth

# Set by the script that 'swtch completion' prints, when a shell asks what may come.
COMPLETE = "SWTCH_COMPLETE"
FOLDER = Place()
TABULAR = click.Choice(["table", "json", "csv", "md"])
VERBOSE = click.option(
    "-v", "--verbose", is_flag=True, help="Say why, claim by claim: tables instead of lines."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; gives its exit code and never raises for what users can do."""
    instruction = os.environ.get(COMPLETE)
    if instruction:
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, "swtch", COMPLETE, instruction)
    streams.mend()
    _forget()
    threads.spare_blas()
    try:
        with ending.as_interrupts():
            code = _run_command(sys.argv[1:] if argv is None else list(argv))
            sys.stdout.flush()
            return _outside(code)
    except LabError as error:
        return _fail(str(error), error.exit_code)
    except click.ClickException as error:
        return _fail(_one_line(error), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return _fail("interrupted.", EXIT_INTERRUPTED)
    except BrokenPipeError:
        # Python flushes once more at exit; give it a place where that works.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _fail(
            "standard output was closed before everything was written;"
            " runs and reports on disk are whole.",
            EXIT_PIPE,
        )
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{os_error_text(error)}.", EXIT_CANNOT)
    except MemoryError:
        return _fail(f"not enough memory{NO_ROOM}.", EXIT_CANNOT)
    except ImportError as error:
        if not _has_no_room(error):
            raise
        return _fail(f"not enough memory for a library of Python's{NO_ROOM}.", EXIT_CANNOT)


# Nothing that was measured is lost: each sample is on disk before the next begins.
NO_ROOM = "; see 'ulimit -v' and the limits of the control group. What was measured is kept"


def _has_no_room(error: BaseException | None) -> bool:
    """Whether a library could not be mapped; some tell of it in the words of another error."""
    words = ("failed to map segment", "cannot allocate memory", "cannot apply additional memory")
    while error is not None:
        if any(word in str(error).lower() for word in words):
            return True
        error = error.__cause__ or error.__context__
    return False


def _run_command(arguments: list[str]) -> int:
    try:
        with cli.make_context("swtch", arguments) as context:
            return int(cli.invoke(context) or 0)
    except click.exceptions.Exit as leave:
        return leave.exit_code


def _forget() -> None:
    """What an earlier command of this process had to say is not this one's."""
    if "swtch.own.guard" in sys.modules:
        from swtch.own import guard

        guard.clear()


def _outside(code: int) -> int:
    """What code from outside the package did wrong, said at the end; it changes a success."""
    if "swtch.own.guard" not in sys.modules:
        return code
    from swtch.own import guard

    for line in (*guard.notices(), *guard.faults()):
        print(f"swtch: {line}", file=sys.stderr)
    return EXIT_SOME_FAILED if guard.faults() and code == EXIT_OK else code


def _one_line(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "swtch"
    text = " ".join(error.format_message().split())
    if isinstance(error, click.UsageError):
        return f"{text} See '{command} --help'."
    return text


def _fail(line: str, code: int) -> int:
    print(f"swtch: {line}", file=sys.stderr)
    return code


@click.group(no_args_is_help=False, invoke_without_command=True)
@click.version_option(__version__, prog_name="swtch")
@click.pass_context
def cli(context: click.Context) -> None:
    """Measure what it costs to switch threads on this machine, and why.

    'swtch run' measures everything and writes a report; 'swtch doctor' says
    beforehand what this machine can measure and what disturbs it.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _experiments(_context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    from swtch import experiments

    return [name for name in experiments.names() if name.startswith(begun)]


@cli.command("list")
@click.option("--format", "form", type=TABULAR, default="table", help="How to print.")
def list_command(form: str) -> int:
    """Show every experiment: its study, models, question, trials and time."""
    from swtch.commands import listing

    return listing.show(form)


@cli.command("doctor")
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table")
@click.option(
    "--self-check",
    "self_check",
    is_flag=True,
    help="Try what the makers' machines do not have, and print one line to send them.",
)
def doctor_command(form: str, self_check: bool) -> int:
    """Show what this machine can measure, what disturbs it, and how to mend it."""
    from swtch.commands import examine

    return examine.self_check() if self_check else examine.show(form)


@cli.command("run")
@click.argument("experiments", nargs=-1, metavar="[EXPERIMENT]...", shell_complete=_experiments)
@click.option(
    "--depth",
    type=click.Choice(["quick", "normal", "paper"]),
    help="How thoroughly: quick, normal (the default), or as the studies did.",
)
@click.option("--quick", is_flag=True, help="The same as --depth quick.")
@click.option("--models", metavar="A,B", help="Only these models.")
@click.option(
    "--repeats",
    type=click.IntRange(1, 10_000),
    help="Invocations per trial (6, 10 or 20 by depth).",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), help="Seed of the order; drawn when not given."
)
@click.option(
    "--until",
    metavar="SHARE",
    help="Stop a trial when its interval is as narrow, e.g. 2%; --repeats (50) is the most.",
)
@click.option("--out", type=FOLDER, metavar="DIR", help="Run directory (new below swtch-runs).")
@click.option("--resume", type=FOLDER, metavar="DIR", help="Continue the interrupted run in DIR.")
@click.option(
    "--policy",
    type=click.Choice(["other", "batch", "fifo"]),
    help="Scheduling policy of what is measured (each experiment's own).",
)
@click.option(
    "--engine", metavar="A,B", help="Where trials run, one after the other: native, vm, exact."
)
@click.option("--guest", metavar="A,B", help="Guests of vm or exact; 'swtch vm list' has all.")
@click.option("--boots", is_flag=True, help="Boot the guests anew for each block.")
@click.option("--cpus", type=click.IntRange(1, 64), help="Virtual CPUs of a guest (4).")
@click.option(
    "--memory", type=click.IntRange(256, 65_536), metavar="MIB", help="Its memory (1024)."
)
@click.option(
    "--kernel",
    type=FOLDER,
    multiple=True,
    metavar="FILE",
    help="A kernel of your own as guest, or its build folder.",
)
@click.option(
    "--headers", type=FOLDER, multiple=True, metavar="DIR", help="What its modules are built with."
)
@click.option("--append", metavar="WORDS", help="More of the command line of guests' kernels.")
@click.option(
    "--accel",
    type=click.Choice(["auto", "kvm", "tcg"]),
    help="Who runs vm's guests: kvm, emulation, or kvm if it works (auto).",
)
@click.option("--pin", metavar="CPUS", help="Where their virtual CPUs run, e.g. 2-5.")
@click.option(
    "--native-kthread", is_flag=True, help="As root: kthreads in this kernel, by a module."
)
@click.option(
    "--time-limit",
    type=Seconds(),
    metavar="SECONDS",
    help="Longest time of one invocation (60).",
)
@click.option("--format", "form", type=TABULAR, default="table", help="How to print the result.")
@click.option("--no-report", is_flag=True, help="Measure only: no table, no report files.")
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
def run_command(
    experiments: tuple[str, ...],
    depth: str | None,
    quick: bool,
    models: str | None,
    repeats: int | None,
    seed: int | None,
    until: str | None,
    out: Path | None,
    resume: Path | None,
    policy: str | None,
    engine: str | None,
    guest: str | None,
    boots: bool,
    cpus: int | None,
    memory: int | None,
    kernel: tuple[Path, ...],
    headers: tuple[Path, ...],
    append: str | None,
    accel: Literal["auto", "kvm", "tcg"] | None,
    pin: str | None,
    native_kthread: bool,
    time_limit: float | None,
    form: str,
    no_report: bool,
    quiet: bool,
) -> int:
    """Measure: all experiments, or those named.

    Ctrl-C keeps what was measured and says how to continue.
    """
    from swtch.commands import campaign, output, run
    from swtch.engines import choice

    planning = (
        *(models, repeats, seed, until, out, policy, engine, time_limit, guest, cpus, memory),
        *(
            kernel or None,
            headers or None,
            append,
            accel,
            pin,
            boots or None,
            native_kthread or None,
        ),
        *(quick or None, depth),
    )
    if resume is not None:
        if experiments or any(option is not None for option in planning):
            raise click.UsageError(
                "--resume continues the plan as it was made; give only --format, --no-report"
                " or --quiet with it."
            )
        return run.resume(resume, form=form, report=not no_report, quiet=quiet)
    request = run.Request(
        experiments=experiments,
        models=models,
        out=out,
        form=form,
        report=not no_report,
        quiet=quiet,
        terms=campaign.Terms(
            depth=_depth(depth, quick),
            repeats=repeats,
            seed=seed,
            policy=policy,
            time_limit_s=time_limit or 60.0,
            target=None if until is None else output.parse_target("--until", until),
        ),
        engine=choice.Options(
            engines=choice.parse_engines(engine) if engine is not None else ("native",),
            guests=guest,
            boots=boots,
            cpus=cpus,
            memory_mib=memory,
            kernels=kernel,
            headers=headers,
            append=choice.parse_append(append),
            accel=accel or "auto",
            pin=choice.parse_pin(pin),
            native_kthread=native_kthread,
        ),
    )
    return run.start(request)


@cli.command("peers")
@click.argument("peers", nargs=-1, metavar="[PEER]...")
@click.option("--work", metavar="W,...", help="Only these pieces of work.")
@click.option("--quick", is_flag=True, help="Shorter batches, and at most 1 000 threads.")
@click.option("--repeats", type=click.IntRange(1, 10_000), help="Invocations of each row (10; 6).")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Seed of the order.")
@click.option("--out", type=FOLDER, metavar="DIR", help="Run directory (new below swtch-runs).")
@click.option("--format", "form", type=TABULAR, default="table", help="How to print the result.")
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
def peers_command(
    peers: tuple[str, ...],
    work: str | None,
    quick: bool,
    repeats: int | None,
    seed: int | None,
    out: Path | None,
    form: str,
    quiet: bool,
) -> int:
    """Compare thread libraries: the same work in each that 'make peers' built.

    Interrupted, it goes on by 'swtch run --resume DIR'.
    """
    from swtch.commands import campaign
    from swtch.commands import peers as command

    terms = campaign.Terms(depth="quick" if quick else "normal", repeats=repeats, seed=seed)
    return command.start(peers, work, terms, out=out, form=form, quiet=quiet)


@cli.command("replicate")
@click.option(
    "--depth",
    type=click.Choice(["quick", "normal", "paper"]),
    help="How thoroughly: quick, normal (the default), or as the studies did.",
)
@click.option("--quick", is_flag=True, help="The same as --depth quick.")
@click.option(
    "--repeats",
    type=click.IntRange(1, 10_000),
    help="Invocations per trial (6, 10 or 20 by depth).",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), help="Seed of the order; drawn when not given."
)
@click.option(
    "--until",
    metavar="SHARE",
    help="Stop a trial when its interval is as narrow, e.g. 2%; --repeats (50) is the most.",
)
@click.option(
    "--budget",
    metavar="TIME",
    help="Spend so long, e.g. 90s, 6min, 1h, where claims are undecided (quick: 6min, normal: 1h).",
)
@click.option("--out", type=FOLDER, metavar="DIR", help="Run directory (new below swtch-runs).")
@click.option("--resume", type=FOLDER, metavar="DIR", help="Continue the interrupted one in DIR.")
@click.option(
    "--policy",
    type=click.Choice(["other", "batch", "fifo"]),
    help="Scheduling policy of what is measured (each experiment's own).",
)
@click.option("--engine", metavar="A,B", help="Only these of native, vm, exact (all there are).")
@click.option("--guest", metavar="A,B", help="Guests of vm or exact; 'swtch vm list' has all.")
@click.option("--cpus", type=click.IntRange(1, 64), help="Virtual CPUs of a guest of vm (4).")
@click.option("--format", "form", type=TABULAR, default="table", help="How to print the verdicts.")
@VERBOSE
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
def replicate_command(
    depth: str | None,
    quick: bool,
    repeats: int | None,
    seed: int | None,
    until: str | None,
    budget: str | None,
    out: Path | None,
    resume: Path | None,
    policy: str | None,
    engine: str | None,
    guest: str | None,
    cpus: int | None,
    form: str,
    verbose: bool,
    quiet: bool,
) -> int:
    """Repeat all studies here, and say claim by claim what holds.

    Says first how long it will take. Ctrl-C keeps what was measured and says
    how to continue.
    """
    from swtch import spending
    from swtch.commands import campaign, output, replicate
    from swtch.engines import choice

    if resume is not None:
        planning = (
            *(depth, quick or None, repeats, seed, until, budget, out, policy, engine, guest),
            cpus,
        )
        if any(option is not None for option in planning):
            raise click.UsageError(
                "--resume continues the plan as it was made; give only --format, -v or --quiet"
                " with it."
            )
        return replicate.resume(resume, form=form, quiet=quiet, verbose=verbose)
    asked = _depth(depth, quick)
    budget_s = spending.parse_budget(budget) if budget is not None else None
    if budget is None and repeats is None and until is None:
        budget_s = spending.DEFAULT_S[asked]
    request = replicate.Request(
        out=out,
        form=form,
        verbose=verbose,
        quiet=quiet,
        terms=campaign.Terms(
            depth=asked,
            repeats=repeats,
            seed=seed,
            policy=policy,
            budget_s=budget_s,
            budget_asked=budget is not None,
            target=None if until is None else output.parse_target("--until", until),
        ),
        engines=choice.parse_engines(engine) if engine is not None else None,
        guests=guest,
        cpus=cpus,
    )
    return replicate.start(request)


def _depth(depth: str | None, quick: bool) -> Depth:
    if quick and depth not in (None, "quick"):
        raise click.UsageError(f"--quick is --depth quick, and --depth {depth} is given, too.")
    return cast("Depth", depth or ("quick" if quick else "normal"))


class Verbatim(click.Command):
    """Hands everything on as it was given, "--" included."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.params["arguments"] = tuple(args)
        return []


@cli.command("vm", cls=Verbatim, add_help_option=False)
def vm_command(arguments: tuple[str, ...]) -> int:
    """Prepare guests, boot one, compare kernels: list, prepare, boot, shell, compare,
    bisect.
    """
    from swtch.commands import vm

    return vm.run(list(arguments))


@cli.command("report")
@click.argument("run", type=FOLDER, metavar="RUN")
@click.option(
    "--format", "forms", default="html,md,json", metavar="A,B", help="Any of html, md, json."
)
@click.option(
    "--figures",
    type=click.Choice(["svg", "png", "pdf"]),
    help="Write each figure as a file into 'figures', for a paper; no report then.",
)
@click.option("-o", "--out", type=FOLDER, metavar="DIR", help="Where to write (the run itself).")
@VERBOSE
def report_command(
    run: Path, forms: str, figures: str | None, out: Path | None, verbose: bool
) -> int:
    """Write the report of the run directory RUN again.

    On a terminal, says of a replication what became of each claim.
    """
    from swtch.commands import results

    if figures is not None:
        return results.write_figures(run, figures, out)
    return results.write_report(run, forms, out, verbose=verbose)


@cli.command("trust")
@click.argument("run", type=FOLDER, metavar="RUN")
def trust_command(run: Path) -> int:
    """Have the code that came with the run directory RUN run.

    A run of an experiment from a file of its own keeps that file. What you ran yourself is
    known; what somebody sent is not run until this says so. Read it first.
    """
    from swtch.commands import results

    return results.trust(run)


@cli.command("show")
@click.argument("run", type=FOLDER, metavar="RUN")
@click.option("--format", "form", type=TABULAR, default="table", help="How to print.")
@VERBOSE
def show_command(run: Path, form: str, verbose: bool) -> int:
    """Print the tables and charts of the run directory RUN.

    Of a replication, a line a claim.
    """
    from swtch.commands import results

    return results.show(run, form, verbose=verbose)


@cli.command("compare")
@click.argument("a", type=FOLDER, metavar="A")
@click.argument("b", type=FOLDER, metavar="B")
@click.option("--format", "form", type=TABULAR, default="table", help="How to print.")
@click.option("--html", type=FOLDER, metavar="FILE", help="Write a page of it, too.")
@click.option("--all", "every", is_flag=True, help="List trials without a difference, too.")
@click.option(
    "--fail-if-slower",
    metavar="SHARE",
    help="Leave with status 1 when anything is called slower by more, e.g. 5%.",
)
@click.option("--a-place", metavar="PLACE", help="Of A, what was measured there, e.g. native.")
@click.option("--b-place", metavar="PLACE", help="The same of B, e.g. 6.12-amd64, a guest.")
def compare_command(
    a: Path,
    b: Path,
    form: str,
    html: Path | None,
    every: bool,
    fail_if_slower: str | None,
    a_place: str | None,
    b_place: str | None,
) -> int:
    """Compare the runs A and B: before and after an update, two kernels, guests or machines.

    Differences of the environments first, then ratios with intervals, and
    which of them are differences beyond the noise. Where A and B were measured
    in more than one place each, the same places are compared, or those named.
    """
    from swtch.commands import compare

    return compare.show(
        a,
        b,
        form=form,
        html=html,
        fail_if_slower=fail_if_slower,
        every=every,
        a_place=a_place,
        b_place=b_place,
    )


@cli.command("history")
@click.argument("folder", type=FOLDER, metavar="DIR")
@click.option("--format", "form", type=TABULAR, default="table", help="How to print.")
@click.option("--html", type=FOLDER, metavar="FILE", help="Write a page of it, too.")
def history_command(folder: Path, form: str, html: Path | None) -> int:
    """Show the runs in DIR over time, with the changes marked."""
    from swtch.commands import history

    return history.show(folder, form=form, html=html)


@cli.command("export")
@click.argument("run", type=FOLDER, metavar="RUN")
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "parquet", "google-benchmark"]),
    default="csv",
    help="csv, parquet (a file a frame) or google-benchmark (one JSON).",
)
@click.option(
    "-o", "--out", type=FOLDER, metavar="PATH", help="Folder (RUN/export), or the JSON's file."
)
def export_command(run: Path, form: str, out: Path | None) -> int:
    """Write the run directory RUN for other programs."""
    from swtch.commands import export

    return export.export(run, form, out)


@cli.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> int:
    """Print what makes SHELL complete commands, options and experiments.

    For bash, in ~/.bashrc: eval "$(swtch completion bash)".
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # click has all three
    click.echo(kind(cli, {}, "swtch", COMPLETE).source())
    return 0
