# SPDX-License-Identifier: Apache-2.0
"""The words of `swtch vm`, what it boots by them, and programs that a guest needs."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from vm_guests import subject_of

from swtch import cli
from swtch.commands import vm
from swtch.errors import CannotError, RequestError
from swtch.vm import build, guests, programs, qemu, session


class TestVmCommand:
    def test_help_names_every_command(self, swtch: Callable[..., Any]) -> None:
        done = swtch("vm", "--help")
        assert done.returncode == 0
        for name in ("list", "prepare", "boot", "shell"):
            assert name in done.stdout

    def test_list_shows_what_is_prepared(self, swtch: Callable[..., Any], tmp_path: Path) -> None:
        done = swtch("vm", "list", "--format", "json", XDG_CACHE_HOME=str(tmp_path))
        rows = msgspec.json.decode(done.stdout)["guests"]
        assert [row["guest"] for row in rows] == list(guests.GUESTS)
        assert not any(row["prepared"] for row in rows)

    @pytest.mark.parametrize(
        ("arguments", "code", "told"),
        [
            (("boot", "6.9-amd64"), 2, "there is no guest '6.9-amd64'"),
            (("boot", "--kernel", "x", "6.1-amd64"), 2, "leave the name out"),
            (("boot", "--headers", "x"), 2, "--headers belongs to --kernel"),
            (("boot", "--kernel", "/nowhere", "--", "6.1-amd64"), 3, "/nowhere is not a file"),
            (("boot", "--kernel", "/nowhere", "/bin/cat", "x"), 3, "/nowhere is not a file"),
            (("boot", "--pin", "x", "--", "/bin/cat"), 2, "--pin: 'x' names no CPUs"),
            (("boot", "/bin/cat"), 2, "there is no guest '/bin/cat'"),
            (("shell", "--accel", "x"), 2, "is not one of 'auto', 'kvm', 'tcg'"),
            *(
                (("boot", "--add", add), 2, "FILE:/PLACE")
                for add in ("nothing", "/etc/passwd:", "/etc/passwd:/", "/etc/passwd://", "x:/a/")
            ),
            (("boot", "--add", "/etc/passwd:/../x"), 2, "FILE:/PLACE"),
            (("boot", "--time-limit", "nan", "--", "/bin/cat"), 2, "nan is no number of seconds"),
            (("compare", "6.1-amd64", "6.12-amd64", "--experiments", ","), 2, "names none"),
            (("bisect", "tree", "a", "b", "--experiments", ""), 2, "--experiments names none"),
            (("prepare", "--all", "6.1-amd64"), 2, "--all takes no names"),
            (("boot", ""), 2, "--guest names no guest"),
            (("boot", "--console", ""), 2, "'--console': it is empty"),
            (("compare", "", "6.1-amd64"), 2, "it is empty; give a name"),
            (("bisect", "", "a", "b"), 2, "it is empty; give a name"),
            (("nonsense",), 2, "nonsense"),
        ],
    )
    def test_refusals(
        self,
        swtch: Callable[..., Any],
        one_line: Callable[[str], str],
        arguments: Sequence[str],
        code: int,
        told: str,
    ) -> None:
        done = swtch("vm", *arguments)
        assert done.returncode == code, done.stderr
        assert told in one_line(done.stderr)


class TestBootWords:
    @pytest.mark.parametrize(
        ("words", "after", "own", "name", "program"),
        [
            ((), (), False, None, ()),
            (("6.1-amd64",), (), False, "6.1-amd64", ()),
            (("6.1-amd64", "/bin/ls", "-l"), (), False, "6.1-amd64", ("/bin/ls", "-l")),
            ((), ("/bin/ls", "--", "-l"), False, None, ("/bin/ls", "--", "-l")),
            (("6.1-amd64",), ("6.1-amd64",), False, "6.1-amd64", ("6.1-amd64",)),
            (("/bin/ls", "-l"), (), True, None, ("/bin/ls", "-l")),
            (("/bin/ls",), ("-l",), True, None, ("/bin/ls", "-l")),
            ((), ("6.1-amd64",), True, None, ("6.1-amd64",)),
            (("6.1-amd64",), (), True, "6.1-amd64", ()),
        ],
    )
    def test_guest_and_program(
        self,
        words: tuple[str, ...],
        after: tuple[str, ...],
        own: bool,
        name: str | None,
        program: tuple[str, ...],
    ) -> None:
        assert vm._guest_and_program(words, after, own=own) == (name, program)

    def test_two_dashes_come_through_both_command_lines(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[Any] = []

        def split(*given: Any, own: bool) -> None:
            seen.append((*given, own))
            raise RequestError("seen")

        monkeypatch.setattr(vm, "_guest_and_program", split)
        for arguments in (
            ["boot", "--", "prog", "--cpus", "9"],
            ["boot", "--cpus", "2", "6.1-amd64", "prog", "-l", "--", "--pin"],
            ["boot", "--kernel", "x", "prog"],
        ):
            assert cli.main(["vm", *arguments]) == 2
        assert seen == [
            ((), ("prog", "--cpus", "9"), False),
            (("6.1-amd64", "prog", "-l"), ("--pin",), False),
            (("prog",), (), True),
        ]


@pytest.mark.parametrize(
    ("fate", "told"),
    [
        ({}, ""),
        ({"status": 7}, ""),
        ({"signal": 11}, "prog was ended by signal 11"),
        ({"signal": 9, "timed_out": True}, "prog ran longer than 2.5 s"),
        (
            {"signal": 9, "killed_why": "give the guest more with --memory"},
            "prog was ended by the guest's kernel; give the guest more with --memory",
        ),
        ({"status": 127, "failed": "execve"}, "prog could not be started (execve)"),
    ],
)
def test_what_became_of_a_program_is_told(fate: dict[str, Any], told: str) -> None:
    ran = session.ran_of({"status": 0, **fate}, {})
    assert ran is not None
    ran = dataclasses.replace(ran, killed_why=fate.get("killed_why", ""))
    assert vm._fate("prog", ran, 2.5) == told


class TestShell:
    def test_none_is_left_by_a_killed_command(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        subject = subject_of(tmp_path)
        machine = qemu.Machine(arch=subject.prepared.guest.arch, image=tmp_path, initramfs=tmp_path)
        note = tmp_path / "pid"
        emulator = ["sh", "-c", f"echo $$ >{note}.new; mv {note}.new {note}; exec sleep 600"]
        monkeypatch.setattr(vm._Asked, "prepared", lambda *_: (subject.prepared, machine))
        monkeypatch.setattr(qemu, "command", lambda *_args, **_more: emulator)
        fork = multiprocessing.get_context("fork")
        command = fork.Process(target=vm.run, args=(["shell"],))
        command.start()
        await_(note.exists)
        command.kill()
        command.join(30)
        await_(lambda: not _runs(note.read_text().strip()))


def _runs(pid: str) -> bool:
    """One that has ended may be nobody's to wait for."""
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def await_(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class TestPrograms:
    @pytest.fixture
    def nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))

    def test_all_missing_are_named_at_once(self, nothing: None) -> None:
        with pytest.raises(CannotError) as refusal:
            programs.ensure(list(guests.ARCHES.values()))
        line = str(refusal.value)
        for name in ("qemu-system-x86", "qemu-system-arm", "make", "apt-get install"):
            assert name in line
        assert refusal.value.exit_code == 3

    def test_nothing_is_installed_not_even_by_root(
        self, nothing: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program = tmp_path / "apt-get"
        program.write_text(f"#!/bin/sh\n: >{tmp_path}/called\n")
        program.chmod(0o755)
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        with pytest.raises(CannotError, match="as root run: apt-get install qemu-system-x86"):
            programs.ensure([guests.ARCHES["amd64"]])
        assert not (tmp_path / "called").exists()

    def test_compiler_is_named_with_its_packages(self, nothing: None) -> None:
        with pytest.raises(CannotError, match="install the packages"):
            build.compiler(guests.ARCHES["arm64"])

    def test_source_tree_that_is_none(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SWTCH_SOURCE", str(tmp_path))
        with pytest.raises(CannotError, match="SWTCH_SOURCE"):
            build.source_tree()
