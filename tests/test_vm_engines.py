# SPDX-License-Identifier: Apache-2.0
"""Choosing an engine, and what is refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from vm_guests import options

from swtch.engines import PEERS, Outcome, choice
from swtch.engines.native import NativeEngine
from swtch.engines.several import SeveralEngines
from swtch.errors import CannotError, RequestError
from swtch.experiments import Setting, get
from swtch.plan import MODEL_NAMES, make_plan
from swtch.records import Engine as EngineName
from swtch.records import Invocation, Manifest, Model, Trial


class FakeEngine:
    """An engine that only knows what it can do, and what it was asked."""

    def __init__(
        self, name: EngineName, *, has_kthread: bool = False, peers: tuple[str, ...] = ()
    ) -> None:
        self.name = name
        self.has_kthread = has_kthread
        self.peers = peers
        self.said: list[str] = []

    def describe(self) -> dict[str, Any]:
        return {"engine": self.name, "sha256": f"of {self.name}", "has": self.name}

    def perform(self, trial: Trial, invocation: Invocation) -> Outcome:
        self.said.append(trial.id)
        raise NotImplementedError(self.name)

    def stop(self) -> None:
        self.said.append("stop")

    def close(self) -> None:
        self.said.append("close")


class TestShares:
    """Which engine of a run measures what."""

    def shares(
        self, *engines: FakeEngine, models: tuple[Model, ...] | None = None
    ) -> dict[str, tuple[set[str], list[str]]]:
        engine = SeveralEngines(engines) if len(engines) > 1 else engines[0]
        chosen = (get("scenarios"), get("coroutine-gantt"))
        made = choice.shares(engine, models, MODEL_NAMES, chosen)
        return {
            share.engine.name: (set(share.models), [e.name for e in share.experiments])
            for share in made
        }

    def test_native_alone_has_all_but_kthread(self) -> None:
        models, experiments = self.shares(FakeEngine("native"))["native"]
        assert models == set(MODEL_NAMES) - {"kthread", *PEERS}
        assert experiments == ["scenarios", "coroutine-gantt"]

    def test_guest_beside_native_has_what_native_lacks_and_its_company(self) -> None:
        shares = self.shares(FakeEngine("native"), FakeEngine("vm", has_kthread=True))
        assert shares["native"][1] == ["scenarios", "coroutine-gantt"]
        assert shares["vm"] == (set(MODEL_NAMES) - set(PEERS), ["scenarios"])

    def test_guest_alone_has_everything(self) -> None:
        shares = self.shares(FakeEngine("vm", has_kthread=True))
        assert shares == {"vm": (set(MODEL_NAMES) - set(PEERS), ["scenarios", "coroutine-gantt"])}

    def test_two_kinds_of_guest_each_have_everything(self) -> None:
        both = (FakeEngine("vm", has_kthread=True), FakeEngine("exact", has_kthread=True))
        assert {names[1][-1] for names in self.shares(*both).values()} == {"coroutine-gantt"}

    def test_only_kthread_leaves_native_without_work(self) -> None:
        engines = (FakeEngine("native"), FakeEngine("vm", has_kthread=True))
        assert list(self.shares(*engines, models=("kthread",))) == ["vm"]

    def test_engine_without_work_is_refused(self) -> None:
        engines = (FakeEngine("native"), FakeEngine("vm", has_kthread=True))
        with pytest.raises(RequestError, match="vm measures nothing that native does not"):
            self.shares(*engines, models=("pthread", "uthread"))

    def test_kthread_that_cannot_be_is_refused(self) -> None:
        with pytest.raises(CannotError, match="--engine vm"):
            self.shares(FakeEngine("native"), models=("kthread", "pthread"))
        with pytest.raises(CannotError, match="none could be built"):
            self.shares(FakeEngine("vm"), models=("kthread", "pthread"))

    def test_go_that_was_not_built_is_refused_or_left_out(self) -> None:
        chosen = (get("starvation"),)
        with pytest.raises(CannotError, match="golang-go"):
            choice.shares(FakeEngine("native"), ("go", "pthread"), MODEL_NAMES, chosen)
        for engine, lacks in (
            (FakeEngine("native"), True),
            (FakeEngine("native", peers=("go",)), False),
        ):
            made = choice.shares(engine, None, MODEL_NAMES, chosen)
            assert ("go" in made[0].models) != lacks
            assert ("golang-go" in choice.left_out(made, None)) == lacks

    def test_other_peers_say_how_they_are_built(self) -> None:
        chosen = (get("peers"),)
        with pytest.raises(CannotError, match=r"tokio needs .*tools/peers\.sh"):
            choice.shares(FakeEngine("native"), ("tokio", "pthread"), MODEL_NAMES, chosen)
        made = choice.shares(FakeEngine("native", peers=("tokio",)), None, MODEL_NAMES, chosen)
        assert "tokio" in made[0].models
        assert not {"boost", "java", "go"} & set(made[0].models)
        left = choice.left_out(made, None)
        assert "boost is not measured" in left and "tokio" not in left

    def test_what_is_left_out_is_said_unless_it_was_asked_so(self) -> None:
        def said(engine: FakeEngine, asked: tuple[Model, ...] | None = None) -> str:
            chosen = (get("scenarios"),)
            return choice.left_out(choice.shares(engine, asked, MODEL_NAMES, chosen), asked)

        assert "--engine native,vm" in said(FakeEngine("native"))
        assert "no kernel module" in said(FakeEngine("vm"))
        assert said(FakeEngine("vm", has_kthread=True)) == ""
        assert said(FakeEngine("native"), ("pthread",)) == ""


class TestSeveralEngines:
    def test_each_trial_goes_to_its_engine(self) -> None:
        native, vm = FakeEngine("native"), FakeEngine("vm")
        both = SeveralEngines([native, vm])
        for name in ("native", "vm"):
            trial = msgspec.structs.replace(pthread_trial(), id=f"on {name}", engine=name)
            with pytest.raises(NotImplementedError, match=name):
                both.perform(trial, Invocation(seq=0, block=0, trial_id=trial.id, seed=1))
        both.stop()
        both.close()
        assert native.said == ["on native", "stop", "close"]
        assert vm.said == ["on vm", "stop", "close"]

    def test_digest_changes_with_either(self) -> None:
        native, vm = FakeEngine("native"), FakeEngine("vm")
        facts = SeveralEngines([native, vm]).describe()
        assert [one["engine"] for one in facts["engines"]] == ["native", "vm"]
        assert facts["sha256"] != SeveralEngines([native, native]).describe()["sha256"]

    def test_guests_are_off_when_the_machine_is_measured_again(self) -> None:
        """The plan of a budget comes back to the first engine."""
        native, vm = FakeEngine("native"), FakeEngine("vm")
        rests: list[str] = []
        vm.rest = lambda: rests.append("vm")  # type: ignore[attr-defined]
        engine = SeveralEngines([native, vm])
        seen = []
        names: tuple[EngineName, ...] = ("native", "vm", "vm", "native", "native")
        for name in names:
            trial = msgspec.structs.replace(pthread_trial(), engine=name)
            with pytest.raises(NotImplementedError):
                engine.perform(trial, Invocation(seq=0, block=0, trial_id=trial.id, seed=1))
            seen.append(len(rests))
        assert seen == [0, 0, 0, 1, 1]

    def test_manifest_brings_them_back(
        self, make_manifest: Callable[..., Manifest], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[choice.Options] = []
        monkeypatch.setattr(choice, "open_engine", lambda given, say: asked.append(given))
        guest: dict[str, Any] = {"engine": "vm", "cpus": 3, "boots": True, "memory_mib": 512}
        guest["guests"] = [{"guest": "6.1-amd64", "append": ["preempt=full"]}]
        guest |= {"accel_asked": "tcg", "pin": [1]}
        native = {"engine": "native", "probe": "swtch-probe"}
        for facts, engines in (
            ({**native, "engines": [native, guest]}, ("native", "vm")),
            (guest, ("vm",)),
        ):
            manifest = msgspec.structs.replace(
                make_manifest(), engine=engines[0], environment={"engine": facts}
            )
            choice.reopen(manifest, say=print)
            assert asked.pop() == options(
                engines=engines,
                guests="6.1-amd64",
                boots=True,
                cpus=3,
                memory_mib=512,
                append=("preempt=full",),
                accel="tcg",
                pin=(1,),
            )

    def test_plan_finishes_one_engine_before_the_next(self) -> None:
        native = get("scenarios").trials(Setting(cpus=(0,), models=("pthread", "uthread")))
        vm = tuple(msgspec.structs.replace(t, id=f"{t.id}@x", engine="vm") for t in native)
        planned = make_plan((*native, *vm), 3, 7)
        guests_of_plan = [i.trial_id.endswith("@x") for i in planned]
        assert guests_of_plan == sorted(guests_of_plan)
        assert [i.seq for i in planned] == list(range(len(planned)))
        alone = make_plan(native, 3, 7)
        assert planned[: len(alone)] == alone


def pthread_trial() -> Trial:
    return get("scenarios").trials(Setting(cpus=(0,), models=("pthread",)))[0]


class TestOptions:
    @pytest.mark.parametrize(
        ("given", "told"),
        [
            ({"guests": "6.1-amd64"}, "--guest belongs to --engine vm"),
            ({"boots": True}, "--boots belongs to"),
            ({"cpus": 2}, "--cpus belongs to"),
            ({"engines": ("vm",), "native_kthread": True}, "--native-kthread belongs to"),
            ({"engines": ("exact",), "cpus": 2}, "one CPU"),
            ({"engines": ("vm", "exact"), "boots": True}, "one CPU"),
            ({"engines": ("exact",), "boots": True}, "boots for each trial"),
            ({"append": ("quiet",)}, "--append belongs to --engine vm"),
            ({"accel": "kvm"}, "--accel belongs to"),
            ({"engines": ("exact",), "pin": (0,)}, "leave --accel and --pin out"),
            ({"engines": ("exact",), "accel": "tcg"}, "leave --accel and --pin out"),
            ({"engines": ("vm",), "headers": (Path("x"),)}, "--headers belongs to --kernel"),
            ({"kernels": (Path("x"),)}, "--kernel belongs to --engine vm"),
            (
                {"engines": ("vm",), "kernels": (Path("x"),), "headers": (Path("y"),) * 2},
                "1 --kernel and 2 --headers",
            ),
        ],
    )
    def test_what_does_not_belong_together(self, given: dict[str, Any], told: str) -> None:
        with pytest.raises(RequestError, match=told):
            choice.check(options(**given))

    def test_words_for_the_kernel_and_cpus_to_run_on(self) -> None:
        assert choice.parse_append(' preempt=full dyndbg="a b" ') == ('preempt=full dyndbg="a b"',)
        assert choice.parse_append(None) == choice.parse_append(" ") == ()
        with pytest.raises(RequestError, match="one line"):
            choice.parse_append("a\nb")
        with pytest.raises(RequestError, match="leave rdinit= out"):
            choice.parse_append("quiet rdinit=/bin/sh")
        cpus = sorted(os.sched_getaffinity(0))
        assert choice.parse_pin(",".join(map(str, cpus))) == tuple(cpus)
        assert choice.parse_pin(None) == ()
        for text, told in (("", "names no CPUs"), ("0,x", "names no CPUs"), ("1023", "CPU 1023")):
            with pytest.raises(RequestError, match=told):
                choice.parse_pin(text)

    def test_beside_vm_the_cpus_are_those_of_its_guests(self) -> None:
        """A run of all engines is resumed with what its manifest says of vm."""
        choice.check(options(engines=("native", "vm", "exact"), cpus=4))

    def test_native_is_the_default(self, probe_dir: Path) -> None:
        engine = choice.open_engine(options(), say=print)
        assert isinstance(engine, NativeEngine)
        assert choice.cpus_of(engine, (3, 1)) == (3, 1)

    @pytest.mark.parametrize("given", [{"guests": "6.1-amd64"}, {"cpus": 2}, {"boots": True}])
    def test_guests_beside_native_take_their_options(self, given: dict[str, Any]) -> None:
        choice.check(options(engines=("native", "vm"), **given))

    def test_parse_engines(self) -> None:
        assert choice.parse_engines("native, vm,native") == ("native", "vm")
        with pytest.raises(RequestError, match="Did you mean exact"):
            choice.parse_engines("native,exakt")
        with pytest.raises(RequestError, match="names no engine"):
            choice.parse_engines(" ,")

    def test_command_line_refuses_in_one_line(
        self, swtch: Callable[..., Any], one_line: Callable[[str], str]
    ) -> None:
        done = swtch("run", "scenarios", "--guest", "6.1-amd64")
        assert done.returncode == 2
        assert "--engine vm" in one_line(done.stderr)
        done = swtch("run", "scenarios", "--engine", "vm", "--guest", "6.1-amd46")
        assert done.returncode == 2
        assert "Did you mean 6.1-amd64?" in one_line(done.stderr)
        done = swtch("run", "scenarios", "--engine", "vm", "--kernel", "/nowhere")
        assert done.returncode == 3
        assert "/nowhere is not a file" in one_line(done.stderr)
