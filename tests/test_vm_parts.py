# SPDX-License-Identifier: Apache-2.0
"""The parts a guest is made of: frames, archive, cache, apt's sources, libraries."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
import zlib
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swtch.errors import CannotError, RequestError
from swtch.vm import aptstate, cache, elf, guests, packages
from swtch.vm.initramfs import Archive
from swtch.vm.serial import MARK, Decoder, encode

BODIES = st.dictionaries(st.text(max_size=8), st.text(max_size=40) | st.integers(0, 2**53))


class TestFrames:
    def test_format_is_as_documented(self) -> None:
        body = b'{"op":"ping"}'
        crc = zlib.crc32(body, zlib.crc32(b"7 13 "))
        assert encode(7, {"op": "ping"}) == b"\n@@SWTCH 7 13 %08x %s\n" % (crc, body)

    @given(
        st.lists(st.tuples(BODIES, st.binary(max_size=60)), max_size=8),
        st.lists(st.integers(1, 50), min_size=1, max_size=50),
    )
    def test_round_trip_with_noise_between_frames(
        self, pairs: list[tuple[dict[str, str | int], bytes]], sizes: list[int]
    ) -> None:
        line = b"".join(noise + encode(n, body) for n, (body, noise) in enumerate(pairs))
        decoder = Decoder()
        frames, at = [], 0
        while at < len(line):
            size = sizes[at % len(sizes)]
            frames += decoder.feed(line[at : at + size])
            at += size
        frames += decoder.flush()
        assert [frame.body for frame in frames] == [body for body, _ in pairs]
        assert [frame.seq for frame in frames] == list(range(len(pairs)))

    @given(st.integers(0, 60), st.binary(min_size=1, max_size=40))
    def test_noise_inside_a_frame_costs_that_frame_only(self, at: int, noise: bytes) -> None:
        first, second = encode(1, {"op": "one", "x": "y" * 60}), encode(2, {"op": "two"})
        decoder = Decoder()
        found = decoder.feed(first[: at + 5] + noise + first[at + 5 :] + second)
        found += decoder.flush()
        assert found[-1].body == {"op": "two"}
        assert all(frame.body["op"] in ("one", "two") for frame in found)

    @given(st.integers(0, 10**9), st.integers(0, 7))
    def test_any_flipped_bit_is_noticed(self, where: int, bit: int) -> None:
        good = encode(3, {"op": "done", "id": 12})
        bad = bytearray(good)
        bad[1 + where % (len(good) - 2)] ^= 1 << bit
        decoder = Decoder()
        frames = decoder.feed(bytes(bad)) + decoder.flush()
        assert all(f.seq == 3 and f.body == {"op": "done", "id": 12} for f in frames)
        # Only a change of case of the checksum's own digits says the same.
        assert not frames or bytes(bad).lower() == good.lower()

    def test_mark_claiming_a_length_does_not_hide_the_frame_after_it(self) -> None:
        decoder = Decoder()
        assert decoder.feed(MARK + b"1 8000 00000000 " + encode(2, {"a": 1})) == []
        assert [frame.body for frame in decoder.flush()] == [{"a": 1}]

    def test_console_text_comes_back_as_noise(self) -> None:
        decoder = Decoder()
        decoder.feed(b"[ 1.0] hello\n" + encode(1, {}) + b"[ 2.0] world\n")
        decoder.flush()
        assert b"[ 1.0] hello\n" in decoder.noise()

    def test_too_long_a_body_is_refused(self) -> None:
        with pytest.raises(ValueError, match="bytes"):
            encode(1, {"x": "y" * 9000})


class TestArchive:
    def archive(self) -> bytes:
        archive = Archive()
        archive.add_device("dev/console", 5, 1)
        archive.add_link("init", "/swtch/agent")
        archive.add_file("/swtch/agent", b"program", 0o755)
        archive.add_file("etc/deep/er/file", b"x" * 5)
        archive.add_folder("proc")
        return archive.pack()

    @pytest.mark.skipif(shutil.which("cpio") is None, reason="cpio is not installed")
    def test_cpio_lists_it(self) -> None:
        done = subprocess.run(
            ["cpio", "-tv", "--quiet"], input=self.archive(), capture_output=True, check=True
        )
        lines = done.stdout.decode().splitlines()
        text = done.stdout.decode()
        assert "init -> /swtch/agent" in text
        assert any(line.startswith("crw-------") and "5,   1" in line for line in lines)
        assert any(line.startswith("-rwxr-xr-x") and "swtch/agent" in line for line in lines)
        assert len(lines) == 10
        assert text.index("etc/deep\n") < text.index("etc/deep/er\n") < text.index("er/file")

    def test_is_the_same_every_time_in_any_order(self) -> None:
        one, two = Archive(), Archive()
        for archive, order in ((one, "abc"), (two, "cab")):
            for name in order:
                archive.add_file(name, name.encode())
        assert one.pack() == two.pack()
        assert self.archive() == self.archive()

    def test_members_are_aligned(self) -> None:
        assert len(self.archive()) % 4 == 0

    @pytest.mark.parametrize("name", ["", "/", "../etc", "a/../../b"])
    def test_bad_names_are_refused(self, name: str) -> None:
        with pytest.raises(ValueError, match="no name"):
            Archive().add_file(name, b"")

    def test_no_file_is_in_a_file(self) -> None:
        archive = Archive()
        archive.add_file("a/b", b"")
        archive.add_file("a", b"")
        with pytest.raises(ValueError, match="/a is a file, and /a/b is to be in it"):
            archive.pack()
        archive.add_folder("a")
        assert archive.pack()


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "swtch"


def _slow_entry(folder: str) -> None:
    def make(draft: Path, _final: Path) -> None:
        import time

        time.sleep(0.2)
        with (Path(folder) / "made").open("a") as stream:
            stream.write("x")
        (draft / "file").write_text("whole")

    assert (cache.entry("room", "key", make) / "file").read_text() == "whole"


class TestCache:
    def test_makes_an_entry_once(self, own_cache: Path) -> None:
        made = []

        def make(draft: Path, final: Path) -> None:
            made.append(final)
            (draft / "file").write_text(str(final))

        first, second = (cache.entry("room", "key", make) for _ in range(2))
        assert first == second == own_cache / "room" / "key"
        assert made == [first]
        assert (first / "file").read_text() == str(first)

    def test_leaves_nothing_of_an_entry_that_failed(self, own_cache: Path) -> None:
        def make(draft: Path, _final: Path) -> None:
            (draft / "half").write_text("")
            raise CannotError("no")

        with pytest.raises(CannotError):
            cache.entry("room", "key", make)
        assert list((own_cache / "room").iterdir()) == []

    def test_full_disk_leaves_nothing_either(self, own_cache: Path) -> None:
        def make(draft: Path, _final: Path) -> None:
            (draft / "half").write_text("")
            with Path("/dev/full").open("wb", buffering=0) as stream:
                stream.write(b"x")

        with pytest.raises(CannotError, match=r"cannot write to .*key: no space left"):
            cache.entry("room", "key", make)
        assert list((own_cache / "room").iterdir()) == []

    def test_what_a_killed_one_left_goes_when_it_is_made(self, own_cache: Path) -> None:
        def make(draft: Path, _final: Path) -> None:
            (draft / "half").write_text("")
            os.kill(os.getpid(), signal.SIGKILL)

        fork = multiprocessing.get_context("fork")
        killed = fork.Process(target=cache.entry, args=("room", "key", make))
        killed.start()
        killed.join(30)
        assert killed.exitcode == -signal.SIGKILL
        (own_cache / "room" / ".key2-other").mkdir()
        assert len(list((own_cache / "room").iterdir())) == 2
        made = cache.entry("room", "key", lambda draft, _final: (draft / "whole").touch())
        assert [file.name for file in made.iterdir()] == ["whole"]
        left = {file.name for file in made.parent.iterdir()}
        assert left == {"key", ".key2-other"}

    def test_a_note_is_whole_or_as_it_was(self, own_cache: Path) -> None:
        note = cache.room("notes") / "note"
        cache.write(note, b"one")
        cache.write(note, b"two")
        assert note.read_bytes() == b"two"
        with pytest.raises(CannotError, match="cannot write to"):
            cache.write(note / "below", b"x")
        note.unlink()
        note.mkdir()
        with pytest.raises(CannotError, match="cannot write to"):
            cache.write(note, b"three")
        assert list(note.parent.iterdir()) == [note]

    def test_two_processes_make_it_once(self, own_cache: Path, tmp_path: Path) -> None:
        fork = multiprocessing.get_context("fork")
        workers = [fork.Process(target=_slow_entry, args=(str(tmp_path),)) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(30)
            assert worker.exitcode == 0
        assert (tmp_path / "made").read_text() == "x"

    def test_key_depends_on_names_and_contents(self, tmp_path: Path) -> None:
        folder = tmp_path / "src"
        folder.mkdir()
        (folder / "a.c").write_text("int a;")
        before = cache.key_of(["x", folder])
        assert cache.key_of(["x", folder]) == before
        (folder / "a.c").write_text("int b;")
        changed = cache.key_of(["x", folder])
        (folder / "a.c").rename(folder / "b.c")
        assert len({before, changed, cache.key_of(["x", folder]), cache.key_of([folder])}) == 4

    def test_texts_do_not_run_into_each_other(self) -> None:
        assert cache.key_of(["ab", "c"]) != cache.key_of(["a", "bc"])

    def test_says_which_folder_cannot_be_made(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "file").touch()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        with pytest.raises(CannotError, match="XDG_CACHE_HOME"):
            cache.root()

    def test_relative_cache_home_is_ignored(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", "relative")
        assert cache.root().is_absolute()


ONE_LINE = """
# deb mirror://commented/out bookworm main
deb [arch=amd64 signed-by=/usr/share/keyrings/k.gpg] mirror://archive/debian bookworm main contrib
deb-src mirror://archive/debian bookworm main
deb mirror://archive/security bookworm-security main # security
deb cdrom:[Debian]/ bookworm main
deb mirror://other/tool stable-tool main
"""

DEB822 = """\
Types: deb deb-src
# a comment
URIs: mirror://archive/debian
Suites: trixie trixie-updates
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc

Types: deb
URIs: mirror://archive/security
Suites: trixie-security
Components: main

Types: deb
Enabled: no
URIs: mirror://archive/off
Suites: trixie
Components: main
"""


class TestAptOnAFullDisk:
    @pytest.fixture
    def state(self, monkeypatch: pytest.MonkeyPatch) -> aptstate.AptState:
        monkeypatch.setattr(aptstate, "_LOOK_S", 0.05)
        monkeypatch.setattr(aptstate, "machine_sources", lambda: aptstate.parse_list(ONE_LINE))
        monkeypatch.setattr(shutil, "which", lambda name: name)
        return aptstate.AptState("amd64", ["amd64"])

    def test_what_waits_for_ever_is_ended(
        self, state: aptstate.AptState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(aptstate, "_free_bytes", lambda _folder: 4096)
        note = tmp_path / "pid"
        with pytest.raises(CannotError, match=f"no space is left for {tmp_path}; make room"):
            state._run(["sh", "-c", f"echo $$ >{note}; exec sleep 600"], tmp_path)
        assert not Path("/proc", note.read_text().strip()).exists()

    def test_what_finds_room_again_goes_on(
        self, state: aptstate.AptState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        looks: list[int] = []

        def free(_folder: Path) -> int:
            looks.append(0)
            if len(looks) == 8:
                (tmp_path / "go").touch()
            return 4096 if len(looks) % 3 else 1 << 30

        monkeypatch.setattr(aptstate, "_free_bytes", free)
        waits = "while [ ! -e go ]; do sleep 0.01; done; echo said"
        assert state._run(["sh", "-c", waits], tmp_path) == "said\n"

    def test_what_never_ends_is_ended(
        self, state: aptstate.AptState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(aptstate, "_TIME_LIMIT_S", 0.2)
        with pytest.raises(CannotError, match="sleep did not end within"):
            state._run(["sleep", "600"], tmp_path)


class TestAptSources:
    def test_one_line_form(self) -> None:
        sources = aptstate.parse_list(ONE_LINE)
        assert sources[0].uris == ("mirror://archive/debian",)
        assert sources[0].suites == ("bookworm",)
        assert sources[0].components == ("main", "contrib")
        assert sources[0].options["signed-by"] == "/usr/share/keyrings/k.gpg"
        assert len(sources) == 4

    def test_deb822_form(self) -> None:
        sources = aptstate.parse_deb822(DEB822)
        assert [source.uris[0].rpartition("/")[2] for source in sources] == ["debian", "security"]
        assert sources[0].suites == ("trixie", "trixie-updates")
        assert "BEGIN PGP" in sources[0].options["signed-by"]

    @pytest.mark.parametrize(
        "sources", [aptstate.parse_list(ONE_LINE), aptstate.parse_deb822(DEB822)]
    )
    def test_derived_sources_name_the_suites_of_the_guests(
        self, sources: list[aptstate.Source]
    ) -> None:
        text = aptstate.derive(sources)
        assert "URIs: mirror://archive/debian\nSuites: bookworm bookworm-backports\n" in text
        assert "URIs: mirror://archive/security\nSuites: bookworm-security\n" in text
        assert "other" not in text and "cdrom" not in text and "off" not in text

    def test_derived_sources_keep_their_keys(self) -> None:
        assert "Signed-By: /usr/share/keyrings/k.gpg" in aptstate.derive(
            aptstate.parse_list(ONE_LINE)
        )
        again = aptstate.parse_deb822(aptstate.derive(aptstate.parse_deb822(DEB822)))
        assert "abc" in again[0].options["signed-by"]

    def test_machine_without_debian_is_told_what_to_do(self) -> None:
        with pytest.raises(CannotError, match="--kernel"):
            aptstate.derive(aptstate.parse_list("deb mirror://u/ubuntu noble main"))

    def test_reads_both_forms_and_survives_rubbish(self, tmp_path: Path) -> None:
        (tmp_path / "sources.list").write_text(ONE_LINE)
        parts = tmp_path / "sources.list.d"
        parts.mkdir()
        (parts / "debian.sources").write_text(DEB822)
        (parts / "x.list").write_bytes(b"\xff\xfe")
        (parts / "off.list.disabled").write_text("deb mirror://off bookworm main")
        assert len(aptstate.machine_sources(tmp_path)) == 6

    @given(st.text())
    def test_any_text_is_parsed(self, text: str) -> None:
        aptstate.parse_list(text)
        aptstate.parse_deb822(text)


class Offers:
    """An apt that has every package, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked = list[tuple[str, str, str]]()

    def find(self, name: str, arch: str, suite: str) -> aptstate.Package:
        self.asked.append((name, arch, suite))
        return aptstate.Package(name=name, arch=arch, version="1", sha256="0" * 64, depends="")


class TestHeaders:
    def names(self, depends: str) -> list[str]:
        state, flavour = (
            Offers(),
            aptstate.Package(
                name="linux-headers-x", arch="arm64", version="1", sha256="0" * 64, depends=depends
            ),
        )
        found = packages.headers_of(cast(aptstate.AptState, state), flavour, "bookworm")
        assert [package.name for package in found] == [name for name, _, _ in state.asked]
        assert {(arch, suite) for _, arch, suite in state.asked} == {
            (guests.host_arch(), "bookworm")
        }
        return [package.name for package in found]

    @pytest.mark.parametrize(
        ("common", "kbuild"),
        [
            ("linux-headers-6.1.0-51-common", "linux-kbuild-6.1"),
            ("linux-headers-6.1.0-51-common-rt", "linux-kbuild-6.1"),
            ("linux-headers-6.12.95+deb13-common-rt", "linux-kbuild-6.12.95+deb13"),
            ("linux-headers-7.3.1-common", "linux-kbuild-7.3.1"),
        ],
    )
    @pytest.mark.parametrize("version", ["", " (= 6.1.192-1)"])
    def test_of_a_flavour_are_those_it_depends_on(
        self, common: str, kbuild: str, version: str
    ) -> None:
        depends = f"{common}{version}, {kbuild}{version}, gcc-12, linux-compiler-gcc-12-x86"
        assert self.names(depends) == [common, kbuild]
        assert self.names(f"gcc-12, {kbuild}{version}, {common}{version}") == [kbuild, common]

    @pytest.mark.parametrize(
        "depends", ["", "gcc-12", "linux-kbuild-6.1", "linux-headers-6.1-amd64"]
    )
    def test_without_one_of_both_are_none(self, depends: str) -> None:
        with pytest.raises(CannotError, match="linux-headers-x depends on no common headers"):
            self.names(depends)


class TestLibraries:
    def test_closure_is_what_the_loader_says(self) -> None:
        shell = Path(shutil.which("bash") or "/bin/sh").resolve()
        told = subprocess.run(["ldd", str(shell)], capture_output=True, text=True, check=True)
        wanted = {
            Path(word).name
            for line in told.stdout.splitlines()
            for word in line.split()
            if word.startswith("/")
        }
        folder = next(Path("/").glob("usr/lib/*-linux-gnu/libc.so.6")).parent
        found = elf.closure([shell], [folder])
        assert {Path(place).name for place in found} == wanted
        assert elf.read(shell).interpreter in found

    def test_missing_library_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(CannotError, match=r"needs the library lib\S+ for"):
            elf.closure([Path(shutil.which("bash") or "/bin/sh").resolve()], [tmp_path])

    @pytest.mark.parametrize("data", [b"", b"#!/bin/sh\n", b"\x7fELF\x02\x01", b"\x7fELF\x01\x01"])
    def test_what_is_no_program_is_refused(self, tmp_path: Path, data: bytes) -> None:
        file = tmp_path / "file"
        file.write_bytes(data)
        with pytest.raises(ValueError, match="not a 64-bit"):
            elf.read(file)


class TestGuests:
    def test_names_are_parsed_once_each(self) -> None:
        found = guests.parse("6.12-arm64, 6.1-amd64,6.12-arm64")
        assert [guest.name for guest in found] == ["6.12-arm64", "6.1-amd64"]

    @pytest.mark.parametrize("text", ["", ",", "6.1", "6.1-amd46"])
    def test_unknown_names_are_refused(self, text: str) -> None:
        with pytest.raises(RequestError, match="nown are"):
            guests.parse(text)

    @pytest.mark.parametrize(
        ("release", "scheduler"),
        [("6.1.0-56-amd64", "CFS"), ("6.5.9", "CFS"), ("6.6.1", "EEVDF"), ("7.0", "EEVDF")],
    )
    def test_scheduler_follows_from_the_release(self, release: str, scheduler: str) -> None:
        assert guests.scheduler_of(release) == scheduler

    def test_release_that_is_none(self) -> None:
        assert guests.scheduler_of("unknown") == "unknown"
