# SPDX-License-Identifier: Apache-2.0
"""`swtch vm compare`: which guests are asked for, and each against the first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from vm_guests import FakeQemu, subject_of, use_fake_qemu

from swtch.commands import vm_compare
from swtch.commands.vm_compare import Terms, options_of, split_append
from swtch.engines import choice
from swtch.engines.vm import Subject, VmEngine
from swtch.errors import EXIT_OK, RequestError


class TestAppend:
    @pytest.mark.parametrize(
        ("texts", "words"),
        [
            ((), ()),
            (("preempt=none,preempt=full",), ("preempt=none", "preempt=full")),
            (("nosmt quiet,x.y=1",), ("nosmt quiet", "x.y=1")),
            (("console=ttyS0,115200",), ("console=ttyS0,115200",)),
            (("mitigations=auto,nosmt",), ("mitigations=auto,nosmt",)),
            (("", "preempt=full"), ("", "preempt=full")),
            (("a=1", "a=1,b=2"), ("a=1", "b=2")),
        ],
    )
    def test_parted_where_another_name_begins(
        self, texts: tuple[str, ...], words: tuple[str, ...]
    ) -> None:
        assert split_append(texts) == words


class TestOptions:
    def test_guests_and_kernels_in_one_line(self, tmp_path: Path) -> None:
        made = options_of(Terms(subjects=("6.1-amd64", str(tmp_path), "6.12-amd64")))
        assert (made.guests, made.kernels) == ("6.1-amd64,6.12-amd64", (tmp_path,))
        assert made.boots
        choice.check(made)

    def test_exact_boots_by_itself(self) -> None:
        made = options_of(Terms(subjects=("6.1-amd64", "6.12-amd64"), engine="exact"))
        assert not made.boots
        choice.check(made)

    def test_one_kernel_told_two_things_is_enough(self) -> None:
        made = options_of(Terms(subjects=("6.1-amd64",), append=("a=1,a=2",)))
        assert made.append == ("a=1", "a=2")

    @pytest.mark.parametrize("subjects", [("6.1-amd64",), ("6.1-amd64", "6.1-amd64")])
    def test_one_kernel_is_not(self, subjects: tuple[str, ...]) -> None:
        with pytest.raises(RequestError, match="needs two kernels"):
            options_of(Terms(subjects=subjects))

    def test_what_is_neither_guest_nor_file(self) -> None:
        with pytest.raises(RequestError, match=r"there is no guest '6\.9-amd64'"):
            options_of(Terms(subjects=("6.1-amd64", "6.9-amd64")))


@pytest.fixture
def fake_qemu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeQemu:
    return use_fake_qemu(tmp_path, monkeypatch)


class TestRun:
    def terms(self, tmp_path: Path, **changes: Any) -> Terms:
        given: dict[str, Any] = {
            "subjects": ("6.1-amd64", "6.12-amd64"),
            "models": "pthread",
            "experiments": ("scenarios",),
            "repeats": 2,
            "seed": 1,
            "out": tmp_path / "run",
            "quiet": True,
        }
        return Terms(**{**given, **changes})

    @pytest.fixture
    def guests(
        self, fake_qemu: FakeQemu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Callable[[str], None]:
        """Guests that answer at once, emulated or not."""

        def use(accel: str) -> None:
            def engine(options: choice.Options, say: object) -> VmEngine:
                names = (options.guests or "").split(",")
                subjects = [
                    told(subject_of(tmp_path, name, accel), words, len(options.append) > 1)
                    for name in names
                    for words in options.append or ("",)
                ]
                return VmEngine(subjects, boots=options.boots)

            monkeypatch.setattr(choice, "open_engine", engine)

        return use

    def test_each_against_the_first(
        self,
        guests: Callable[[str], None],
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        guests("kvm")
        terms = self.terms(tmp_path, append=("preempt=none,preempt=full",))
        html = tmp_path / "page.html"
        assert vm_compare.show(terms, html=html, fail_if_slower=None, every=True) == EXIT_OK
        out = capsys.readouterr().out
        first = "A: vm 6.1-amd64+preempt=none   B: vm "
        for other in ("6.1-amd64+preempt=full", "6.12-amd64+preempt=none", "6.12-amd64"):
            assert first + other in out
        assert "only counts" not in out
        pages = {"page.html", "page-2.html", "page-3.html"}
        assert {file.name for file in tmp_path.glob("page*")} == pages
        text = (tmp_path / "run/logs/guest-6.12-amd64+preempt=full.console").read_text()
        # A boot for each block.
        assert text.count("Linux version 0") == 2

    def test_emulated_processors_have_no_time(
        self,
        guests: Callable[[str], None],
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        guests("tcg")
        vm_compare.show(self.terms(tmp_path), html=None, fail_if_slower="5%", every=False)
        assert "--engine exact has instructions" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("subjects", "first"),
        [
            (("linux", "6.1-amd64", "other"), "own1-amd64"),
            (("6.1-amd64", "linux", "other"), "6.1-amd64"),
        ],
    )
    def test_the_first_is_the_one_that_is_named_first(
        self,
        fake_qemu: FakeQemu,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        subjects: tuple[str, ...],
        first: str,
    ) -> None:
        def engine(options: choice.Options, say: object) -> VmEngine:
            known = subject_of(tmp_path, "6.1-amd64", "kvm")
            mine = [renamed(known, f"own{number}-amd64") for number in (1, 2)]
            return VmEngine([known, *mine], boots=options.boots)

        monkeypatch.setattr(choice, "open_engine", engine)
        for name in ("linux", "other"):
            (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path)
        terms = self.terms(tmp_path, subjects=subjects)
        vm_compare.measure(terms)
        sides = vm_compare.against_first(tmp_path / "run", terms.subjects)
        assert {side.comparison.pairings[0].a.guest for side in sides} == {first}
        others = {side.comparison.pairings[0].b.guest for side in sides}
        assert others | {first} == {"6.1-amd64", "own1-amd64", "own2-amd64"}
        assert len(others) == 2

    def test_one_kernel_with_samples(self, guests: Callable[[str], None], tmp_path: Path) -> None:
        guests("kvm")
        terms = self.terms(tmp_path)
        vm_compare.measure(terms)
        whole = vm_compare.compare.read(tmp_path / "run")
        assert len(vm_compare.against_first(tmp_path / "run", terms.subjects)) == 1
        assert msgspec.json.encode(whole.manifest.environment["engine"]["guests"])


def told(subject: Subject, words: str, variant: bool) -> Subject:
    return replace(subject, words=(words,) if words else (), variant=variant)


def renamed(subject: Subject, name: str) -> Subject:
    guest = replace(subject.prepared.guest, name=name)
    return replace(subject, prepared=replace(subject.prepared, guest=guest))
