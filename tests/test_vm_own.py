# SPDX-License-Identifier: Apache-2.0
"""Kernels of the user's own: images, trees and headers, told apart and refused in a line."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest
from vm_guests import options

from swtch.engines import choice
from swtch.errors import CannotError, RequestError
from swtch.records import Manifest
from swtch.vm import build, cache, own, packages, prepare
from swtch.vm.guests import ARCHES

KMOD = Path(__file__).parents[1] / "tools/kmod.sh"
NEEDED = "".join(
    f"CONFIG_{name}=y\n"
    for name in (
        *("BLK_DEV_INITRD", "BINFMT_ELF", "TTY", "PRINTK", "PROC_FS", "SYSFS", "DEVTMPFS"),
        *("TMPFS", "FUTEX", "EPOLL", "SIGNALFD", "POSIX_TIMERS"),
        *("SERIAL_8250", "SERIAL_8250_CONSOLE", "X86_64", "MODULES"),
    )
)


def x86_image(file: Path, release: str = "6.8.1-mine", *, bits: int = 64, size: int = 0) -> Path:
    """Looks like a bzImage that says it has `size` paragraphs of 16 bytes."""
    data = bytearray(0x800)
    data[0x202:0x206] = b"HdrS"
    data[0x206:0x208] = (0x20F).to_bytes(2, "little")
    data[0x20E:0x210] = (0x300).to_bytes(2, "little")
    data[0x236] = bits == 64
    data[0x1F4:0x1F8] = size.to_bytes(4, "little")
    data[0x500 : 0x500 + len(release) + 6] = release.encode() + b" (gcc)"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return file


def arm64_image(release: str) -> bytes:
    return b"\0" * 56 + b"ARMd" + b"\0" * 500 + b"Linux version %s (gcc)" % release.encode()


class TestImages:
    def test_names_itself(self, tmp_path: Path) -> None:
        made = own.found(x86_image(tmp_path / "bzImage"))
        guest = own.guest(made)
        assert (guest.name, guest.scheduler) == ("own-amd64", "EEVDF")
        kernel = own.kernel(made)
        assert (kernel.release, kernel.headers) == ("6.8.1-mine", "")
        assert kernel.version == packages.OWN

    @pytest.mark.parametrize("pack", [bytes, gzip.compress])
    def test_arm64_plain_or_packed(self, tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
        file = tmp_path / "Image"
        file.write_bytes(pack(arm64_image("6.1.9-arm")))
        guest = own.guest(own.found(file))
        assert (guest.name, guest.series, guest.scheduler) == ("own-arm64", "6.1.9-arm", "CFS")

    @pytest.mark.parametrize(
        ("data", "told"),
        [
            (b"", "no x86-64 or arm64 kernel"),
            (b"\0" * 1000, "no x86-64 or arm64 kernel"),
            (b"\x7fELF\x02\x01" + b"\0" * 1000, "give the image that is made of it, arch/x86/boot"),
            (b"MZ\0\0zimg" + b"\0" * 1000, "turn off CONFIG_EFI_ZBOOT"),
            (gzip.compress(arm64_image("6.1"))[:50], "damaged or cut off"),
            (b"\x1f\x8bnothing", "damaged or cut off"),
        ],
    )
    def test_what_is_no_kernel(self, tmp_path: Path, data: bytes, told: str) -> None:
        file = tmp_path / "x"
        file.write_bytes(data)
        with pytest.raises(CannotError, match=told):
            own.guest(own.found(file))

    def test_too_small_too_old_and_cut_off(self, tmp_path: Path) -> None:
        for image, told in (
            (x86_image(tmp_path / "a", bits=32), "is a 32-bit kernel; turn on CONFIG_64BIT"),
            (x86_image(tmp_path / "b", "5.4.9-old"), r"is Linux 5\.4\.9-old; guests need 5\.10"),
            (x86_image(tmp_path / "c", size=1 << 20), "is cut off: 2048 of 16777728 bytes"),
        ):
            with pytest.raises(CannotError, match=told):
                own.guest(own.found(image))
        for release in ("5.10.0", "7.2.13+deb14", "unnumbered"):
            assert own.guest(own.found(x86_image(tmp_path / "d", release))).series == release

    def test_what_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(CannotError, match="nothing is not a file"):
            own.found(tmp_path / "nothing")

    @pytest.mark.parametrize("place", ["config-6.8.1-mine", "headers/.config"])
    def test_what_guests_need_is_looked_for_where_it_is_known(
        self, tmp_path: Path, place: str
    ) -> None:
        image = x86_image(tmp_path / "vmlinuz-6.8.1-mine")
        (tmp_path / "headers").mkdir()
        (tmp_path / "headers/Makefile").touch()
        config = tmp_path / place
        lacking = NEEDED.replace("SERIAL_8250_CONSOLE=y", "SERIAL_8250_CONSOLE=m")
        config.write_text(lacking.replace("CONFIG_SIGNALFD=y\n", "# CONFIG_SIGNALFD is not set\n"))
        made = own.found(image, tmp_path / "headers")
        with pytest.raises(CannotError) as refusal:
            own.guest(made)
        assert "turn on CONFIG_SIGNALFD, CONFIG_SERIAL_8250_CONSOLE (=y" in str(refusal.value)
        config.write_text(NEEDED)
        assert own.guest(made).name == "own-amd64"


class TestTrees:
    def tree(self, folder: Path) -> Path:
        folder.mkdir(exist_ok=True)
        (folder / ".config").write_text(NEEDED)
        (folder / "Makefile").touch()
        return folder

    def test_a_tree_is_image_and_headers(self, tmp_path: Path) -> None:
        tree = self.tree(tmp_path / "linux")
        x86_image(tree / "arch/x86/boot/bzImage")
        made = own.found(tree)
        assert made.is_tree
        assert own.guest(made).name == "own-amd64"
        assert own.kernel(made).headers == str(tree.resolve())

    def test_missing_steps_are_named(self, tmp_path: Path) -> None:
        with pytest.raises(CannotError, match=r"no kernel and no \.config.*built with O="):
            own.found(tmp_path)
        tree = self.tree(tmp_path / "linux")
        with pytest.raises(CannotError, match=r"no arch/x86/boot/bzImage; build it: make -C"):
            own.found(tree)

    def test_the_image_is_of_the_architecture_it_is_configured_for(self, tmp_path: Path) -> None:
        tree = self.tree(tmp_path / "linux")
        x86_image(tree / "arch/x86/boot/bzImage")
        (tree / ".config").write_text("CONFIG_ARM64=y\n")
        with pytest.raises(CannotError, match="no arch/arm64/boot/Image"):
            own.found(tree)

    def test_a_tree_that_no_module_can_be_built_in_has_no_kthread(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tree = self.tree(tmp_path / "linux")
        x86_image(tree / "arch/x86/boot/bzImage")
        made, said = own.found(tree), list[str]()

        def refuse(*_: object) -> None:
            raise CannotError("run: make modules_prepare")

        monkeypatch.setattr(build, "module", refuse)
        guest, kernel = own.guest(made), own.kernel(made)
        assert prepare._module(guest, kernel, made, said.append) is None
        assert said == ["own-amd64: without kernel threads: run: make modules_prepare"]
        asked = own.found(tree, tree)
        with pytest.raises(CannotError, match="modules_prepare"):
            prepare._module(guest, kernel, asked, said.append)


class TestSeveral:
    def test_each_has_a_name_and_its_headers(self, tmp_path: Path) -> None:
        images = [x86_image(tmp_path / name) for name in "ab"]
        made = own.several(images, [tmp_path, tmp_path / "x"])
        assert [own.guest(one).name for one in made] == ["own1-amd64", "own2-amd64"]
        assert [one.headers for one in made] == [tmp_path, tmp_path / "x"]
        assert [own.guest(one).name for one in own.several(images[:1], [])] == ["own-amd64"]

    def test_headers_that_belong_to_none(self, tmp_path: Path) -> None:
        image = x86_image(tmp_path / "a")
        with pytest.raises(RequestError, match="2 --kernel and 1 --headers"):
            own.several([image, image], [tmp_path])
        with pytest.raises(RequestError, match="belongs to --kernel"):
            own.several([], [tmp_path])


def utsrelease(folder: Path, release: str) -> None:
    (folder / "include/generated").mkdir(parents=True, exist_ok=True)
    (folder / "include/generated/utsrelease.h").write_text(f'#define UTS_RELEASE "{release}"\n')


class TestBusybox:
    def busybox(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, made: own.Own | None
    ) -> tuple[Path | None, list[str]]:
        def refuse(*_: object) -> None:
            raise CannotError("no apt sources")

        monkeypatch.setattr(packages, "files", refuse)
        monkeypatch.setenv("PATH", str(tmp_path))
        said: list[str] = []
        return prepare._busybox(ARCHES["amd64"], made, said.append), said

    def test_this_machines_or_none(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        made = own.found(x86_image(tmp_path / "i"))
        assert self.busybox(monkeypatch, tmp_path, made) == (
            None,
            ["own-amd64: no busybox, so no shell in it; install busybox to have one"],
        )
        program = tmp_path / "busybox"
        program.write_bytes(elf_of(machine=183))
        program.chmod(0o755)
        assert self.busybox(monkeypatch, tmp_path, made)[0] is None
        program.write_bytes(elf_of(machine=62))
        assert self.busybox(monkeypatch, tmp_path, made) == (program, [])

    def test_a_guest_of_packages_has_its_own(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        with pytest.raises(CannotError, match="no apt sources"):
            self.busybox(monkeypatch, tmp_path, None)


def elf_of(machine: int) -> bytes:
    """A static program without a segment."""
    data = bytearray(64)
    data[:6] = b"\x7fELF\x02\x01"
    data[18:20] = machine.to_bytes(2, "little")
    return bytes(data)


class TestHeaders:
    def test_of_another_kernel_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "include/config").mkdir(parents=True)
        (tmp_path / "include/config/kernel.release").write_text("6.1.0\n")
        (tmp_path / "Makefile").touch()
        made = own.Own(kernel=x86_image(tmp_path / "i"), headers=tmp_path)
        with pytest.raises(CannotError, match=r"are of 6\.1\.0 and --kernel is 6\.8\.1-mine"):
            own.kernel(made)

    def test_of_debian_say_upstreams_release_in_one_file(self, tmp_path: Path) -> None:
        """The packages linux-headers-*-rt-amd64 were refused for it."""
        (tmp_path / "include/config").mkdir(parents=True)
        (tmp_path / "include/config/kernel.release").write_text("6.1.192-rt64\n")
        utsrelease(tmp_path, "6.8.1-mine")
        (tmp_path / "Makefile").touch()
        made = own.Own(kernel=x86_image(tmp_path / "i"), headers=tmp_path)
        assert own.kernel(made).headers == str(tmp_path.resolve())

    def test_unpacked_packages_are_found_by_the_release(self, tmp_path: Path) -> None:
        image = x86_image(tmp_path / "i")
        for release in ("6.8.1-mine", "6.8.1-rt-amd64"):
            utsrelease(tmp_path / f"usr/src/linux-headers-{release}", release)
        headers = own.kernel(own.Own(kernel=image, headers=tmp_path)).headers
        assert headers.endswith("/usr/src/linux-headers-6.8.1-mine")

    def test_no_headers_at_all(self, tmp_path: Path) -> None:
        made = own.Own(kernel=x86_image(tmp_path / "i"), headers=tmp_path)
        with pytest.raises(CannotError, match="holds no Makefile of a kernel"):
            own.kernel(made)


AUTO = {
    "CONFIG_X86_64": "y",
    "CONFIG_MODULES": "y",
    "CONFIG_GCC_VERSION": "120200",
    "CONFIG_CC_IS_GCC": "y",
    "CONFIG_CC_VERSION_TEXT": '"gcc 12.2.0"',
}


TOOLS = (
    *("basename", "bash", "cat", "dirname", "env", "find", "grep", "head", "ln", "mkdir"),
    *("realpath", "rm", "sed", "sh", "sort", "tail", "tr"),
)


class Kmod:
    """tools/kmod.sh over a tree that looks built, with a make that says what it is told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.programs = folder / "bin"
        self.program("make", 'printf "%s\\n" "$@" >"$RECORD"; : >"$OUT/kthread_perf.ko"')
        self.program("dpkg", "echo amd64")
        self.program("gcc")
        # And nothing else: which compilers this machine has does not matter.
        for name in TOOLS:
            (self.programs / name).symlink_to(shutil.which(name) or name)

    def program(self, name: str, text: str = "") -> None:
        self.programs.mkdir(exist_ok=True)
        file = self.programs / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)

    def tree(self, place: str = "obj", /, **changes: str | None) -> Path:
        """A build folder in which nothing is missing."""
        tree = self.folder / place
        for name in ("scripts/mod/modpost", "scripts/basic/fixdep"):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text("#!/bin/sh\nexit 1\n")
            (tree / name).chmod(0o755)
        (tree / "Makefile").write_text("# a kernel's\n")
        (tree / ".config").touch()
        (tree / "scripts/module.lds").touch()
        (tree / "Module.symvers").write_text("0x0\tsched_setattr_nocheck\tvmlinux\tx\t\n")
        utsrelease(tree, "6.12.0-mine")
        self.configure(tree, changes)
        return tree

    def configure(self, tree: Path, changes: Mapping[str, str | None]) -> None:
        config = {name: value for name, value in {**AUTO, **changes}.items() if value is not None}
        (tree / "include/config").mkdir(parents=True, exist_ok=True)
        text = "".join(f"{name}={value}\n" for name, value in config.items())
        (tree / "include/config/auto.conf").write_text(text)

    def run(self, headers: Path, arch: str = "amd64") -> tuple[int, str, list[str]]:
        """Status, the last line on standard error, and what make was told."""
        record = self.folder / "record"
        record.unlink(missing_ok=True)
        environment = {"PATH": str(self.programs), "RECORD": str(record)}
        done = subprocess.run(
            [
                shutil.which("bash") or "bash",
                str(KMOD),
                "--headers",
                str(headers),
                "--arch",
                arch,
                "--out",
                str(self.out),
            ],
            env={**os.environ, **environment, "OUT": str(self.out)},
            capture_output=True,
            text=True,
            check=False,
        )
        told = record.read_text().splitlines() if record.exists() else []
        return done.returncode, (done.stderr.splitlines() or [""])[-1], told


@pytest.fixture
def kmod(tmp_path: Path) -> Kmod:
    return Kmod(tmp_path)


class TestKmod:
    def test_a_tree_in_which_nothing_is_missing(self, kmod: Kmod) -> None:
        tree = kmod.tree()
        status, last, told = kmod.run(tree)
        assert (status, last) == (0, "")
        assert f"KDIR={tree}" in told and "ARCH=x86" in told
        assert not any(word.startswith(("LLVM", "KBUILD_MODPOST_WARN")) for word in told)

    @pytest.mark.parametrize(
        "missing",
        [
            "include/config/auto.conf",
            "include/generated/utsrelease.h",
            "scripts/mod/modpost",
            "scripts/basic/fixdep",
            "scripts/module.lds",
        ],
    )
    def test_modules_prepare_is_named(self, kmod: Kmod, missing: str) -> None:
        source, tree = kmod.tree("linux"), kmod.tree()
        (tree / "Makefile").write_text(f"# made by O=\ninclude {source}/Makefile\n")
        (tree / missing).unlink()
        status, last, told = kmod.run(tree)
        assert (status, told) == (3, [])
        assert last.endswith(f"run: make -C {source} O={tree} modules_prepare")
        (source / missing).unlink()
        assert kmod.run(source)[1].endswith(f"run: make -C {source} modules_prepare")

    def test_symbols_are_needed_only_where_they_have_versions(self, kmod: Kmod) -> None:
        tree = kmod.tree()
        (tree / "Module.symvers").unlink()
        assert "KBUILD_MODPOST_WARN=1" in kmod.run(tree)[2]
        kmod.configure(tree, {"CONFIG_MODVERSIONS": "y"})
        assert kmod.run(tree)[1].endswith(f"run: make -C {tree} modules")

    @pytest.mark.parametrize(
        ("changes", "told"),
        [
            ({"CONFIG_X86_64": None, "CONFIG_ARM64": "y"}, "another architecture than amd64"),
            ({"CONFIG_MODULES": None}, "turn on CONFIG_MODULES"),
        ],
    )
    def test_configured_otherwise(
        self, kmod: Kmod, changes: dict[str, str | None], told: str
    ) -> None:
        status, last, _ = kmod.run(kmod.tree(**changes))
        assert status == 3 and told in last

    def test_too_old(self, kmod: Kmod) -> None:
        tree = kmod.tree()
        (tree / "Module.symvers").write_text("0x0\tschedule\tvmlinux\tx\t\n")
        status, last, _ = kmod.run(tree)
        assert status == 3
        assert "sched_setattr_nocheck(), which Linux 6.12.0-mine does not" in last

    def test_source_that_is_not_configured_or_gone(self, kmod: Kmod) -> None:
        tree = kmod.tree()
        for place in (".config", "include/config/auto.conf"):
            (tree / place).unlink()
        assert "if the kernel was built with O=" in kmod.run(tree)[1]
        (tree / "Makefile").write_text("include /nowhere/linux/Makefile\n")
        assert "from the source in /nowhere/linux, which is not there" in kmod.run(tree)[1]

    def test_build_programs_of_a_newer_system(self, kmod: Kmod) -> None:
        tree = kmod.tree()
        (tree / "tools/objtool").mkdir(parents=True)
        program = tree / "tools/objtool/objtool"
        program.write_text("#!/bin/sh\necho \"libc: version 'GLIBC_2.99' not found\" >&2; exit 1\n")
        program.chmod(0o755)
        assert "objtool of" in (last := kmod.run(tree)[1])
        assert "does not run here (GLIBC_2.99 not found)" in last

    @pytest.mark.parametrize(
        ("lld", "there", "wanted"),
        [
            ("y", ("clang", "ld.lld"), {"LLVM=1", "CC=clang"}),
            ("y", ("clang-15", "ld.lld-15", "clang", "ld.lld"), {"LLVM=-15", "CC=clang-15"}),
            ("y", ("clang-15", "clang", "ld.lld"), {"LLVM=1", "CC=clang"}),
            (None, ("clang",), {"CC=clang"}),
        ],
    )
    def test_built_with_clang(
        self, kmod: Kmod, lld: str | None, there: tuple[str, ...], wanted: set[str]
    ) -> None:
        for name in there:
            kmod.program(name)
        clang: dict[str, str | None] = {
            "CONFIG_CC_IS_CLANG": "y",
            "CONFIG_CLANG_VERSION": "150006",
            "CONFIG_LD_IS_LLD": lld,
            "CONFIG_CC_IS_GCC": None,
        }
        told = kmod.run(kmod.tree("obj", **clang))[2]
        assert {word for word in told if word.startswith(("LLVM", "CC="))} == wanted

    def test_clang_that_is_not_there(self, kmod: Kmod) -> None:
        clang = {"CONFIG_CC_IS_CLANG": "y", "CONFIG_CLANG_VERSION": "990006"}
        kmod.program("clang-99")
        tree = kmod.tree(**clang, CONFIG_LD_IS_LLD="y", CONFIG_CC_VERSION_TEXT='"clang 99"')
        status, last, told = kmod.run(tree)
        assert (status, told) == (3, [])
        assert "was built with clang 99" in last and "install clang" in last

    def test_gcc_of_the_kernel_comes_first(self, kmod: Kmod) -> None:
        kmod.program("x86_64-linux-gnu-gcc-77")
        assert "CC=x86_64-linux-gnu-gcc-77" in kmod.run(kmod.tree(CONFIG_GCC_VERSION="770100"))[2]


class TestDebian:
    def packages(self, kmod: Kmod, flavour: str, *, itself: bool) -> Path:
        """As unpacked: the flavour's Makefile names where it would be installed."""
        source = kmod.folder / "unpacked/usr/src"
        tree = kmod.tree(f"unpacked/usr/src/linux-headers-9.9-{flavour}")
        (tree / ".kernelvariables").touch()
        lines = [f"KBUILD_OUTPUT=/usr/src/{tree.name}"] if itself else []
        lines.append("include /usr/src/linux-headers-9.9-common/Makefile")
        (tree / "Makefile").write_text("\n".join(lines) + "\n")
        (source / "linux-headers-9.9-common").mkdir(exist_ok=True)
        (source / "linux-headers-9.9-common/Makefile").touch()
        return tree

    @pytest.mark.parametrize("itself", [False, True])
    def test_found_by_its_folder_or_where_it_was_unpacked(self, kmod: Kmod, itself: bool) -> None:
        tree = self.packages(kmod, "rt-amd64", itself=itself)
        for headers in (tree, kmod.folder / "unpacked"):
            assert f"KDIR={kmod.out}/kernel" in kmod.run(headers)[2]
            lines = (kmod.out / "kernel/Makefile").read_text().splitlines()
            common = tree.with_name("linux-headers-9.9-common")
            assert lines[-1] == f"include {common}/Makefile"
            # What names itself (Linux 7) names the shadow.
            assert lines[:-1] == ([f"KBUILD_OUTPUT={kmod.out}/kernel"] if itself else [])

    def test_of_several_flavours_one_must_be_named(self, kmod: Kmod) -> None:
        first = self.packages(kmod, "amd64", itself=True)
        self.packages(kmod, "rt-amd64", itself=True)
        status, last, _ = kmod.run(kmod.folder / "unpacked")
        assert status == 2
        assert last.endswith(f"headers of 2 kernels; name one: --headers {first}")
        assert kmod.run(first)[0] == 0

    def test_common_headers_that_are_missing(self, kmod: Kmod) -> None:
        tree = self.packages(kmod, "amd64", itself=True)
        (tree.with_name("linux-headers-9.9-common") / "Makefile").unlink()
        assert "unpack linux-headers-9.9-common there too" in kmod.run(tree)[1]


def test_every_architecture_says_what_its_console_needs() -> None:
    assert all(len(arch.console_config) == 2 for arch in ARCHES.values())


class TestResume:
    def test_run_with_a_kernel_of_the_user_is_not_resumed(
        self, make_manifest: Callable[..., Manifest]
    ) -> None:
        manifest = msgspec.structs.replace(
            make_manifest(),
            engine="vm",
            environment={"engine": {"guests": [{"guest": "own-amd64"}]}},
        )
        with pytest.raises(CannotError, match="start a new run"):
            choice.reopen(manifest, say=print)

    def test_run_with_kernels_of_the_user_is_resumed_with_them(
        self,
        make_manifest: Callable[..., Manifest],
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
    ) -> None:
        asked: list[choice.Options] = []
        monkeypatch.setattr(choice, "open_engine", lambda given, say: asked.append(given))
        images = [tmp_path / "one", tmp_path / "two"]
        for image in images:
            image.write_bytes(image.name.encode())
        mine = [
            {
                "guest": f"own{number}-amd64",
                "given": [str(image)],
                "kernel": [cache.sha256(image)],
            }
            for number, image in enumerate(images, 1)
        ]
        facts = {"guests": [{"guest": "6.1-amd64"}, *mine]}
        manifest = msgspec.structs.replace(
            make_manifest(), engine="vm", environment={"engine": facts}
        )
        choice.reopen(manifest, say=print)
        assert asked.pop() == options(
            engines=("vm",), guests="6.1-amd64", kernels=tuple(images), headers=()
        )
        images[1].write_bytes(b"built again")
        with pytest.raises(CannotError, match="two, which is not there any more or another one"):
            choice.reopen(manifest, say=print)
        for number, image in enumerate(images):
            image.write_bytes(image.name.encode())
            mine[number]["given"] = [str(image), str(tmp_path / f"headers{number}")]
        choice.reopen(manifest, say=print)
        assert asked.pop().headers == (tmp_path / "headers0", tmp_path / "headers1")
