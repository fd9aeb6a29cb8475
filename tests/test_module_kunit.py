# SPDX-License-Identifier: Apache-2.0
"""The module's KUnit tests, as a program: no kernel of Debian's has CONFIG_KUNIT.

The file is the kernel's (``kthread_perf/kunit.c``), with what it tests of the module, and
``kthread_perf/tests/user.h`` stands in for the kernel's headers.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULE = ROOT / "kthread_perf"
TESTED = ("kunit.c", "params.c", "histogram.c", "overhead.c")
WORKLOADS = ("task.c", "sort.c", "deflate.c", "aes.c", "crc.c", "evict.c")
SUITES = {"kperf_params": 5, "kperf_histogram": 3, "kperf_algebra": 4}


def built(folder: Path, source: Path = MODULE) -> Path:
    """The program, of the module's sources in `source`."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    for name in (*TESTED, "kperf.h", "histogram.h"):
        for header in re.findall(
            r"#include <((?:linux|kunit)/[^>]+)>", (source / name).read_text()
        ):
            if header == "linux/errno.h":
                continue  # what the libc's errno.h includes
            empty = folder / "empty" / header
            empty.parent.mkdir(parents=True, exist_ok=True)
            empty.touch()
    program = folder / "kunit"
    flags = ["-std=gnu11", "-O1", "-g", "-Wall", "-Werror", "-Wno-unused-variable"]
    flags += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    include = [f"-I{folder / 'empty'}", f"-I{source}", f"-I{ROOT}", f"-I{ROOT / 'workloads'}"]
    include += ["-include", str(MODULE / "tests/user.h")]
    files = [str(source / name) for name in TESTED]
    workloads = [str(ROOT / "workloads" / name) for name in WORKLOADS]
    command = [compiler, *flags, *include, *files, *workloads, "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return program


def test_the_modules_kunit_tests_pass_in_user_space(tmp_path: Path) -> None:
    done = subprocess.run([built(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not ok" not in done.stdout
    lines = done.stdout.splitlines()
    assert lines[:2] == ["KTAP version 1", f"1..{len(SUITES)}"]
    assert [line for line in lines if line.startswith("ok ")] == [
        f"ok {n} {name}" for n, name in enumerate(SUITES, 1)
    ]
    assert [line.strip() for line in lines if line.startswith("    1..")] == [
        f"1..{count}" for count in SUITES.values()
    ]


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("params.c", "v > d->max ||", "v > d->max + 1 ||"),
        ("histogram.c", "(top - 2)) & 3", "(top - 2)) & 1"),
        ("overhead.c", "alone ? 1 : 2 + i,", "alone ? 1 : 1 + i,"),
    ],
)
def test_and_fail_where_the_module_is_wrong(
    tmp_path: Path, name: str, right: str, wrong: str
) -> None:
    source = tmp_path / "module"
    source.mkdir()
    for path in MODULE.glob("*.[ch]"):
        text = path.read_text()
        if path.name == name:
            assert text.count(right) == 1
            text = text.replace(right, wrong)
        (source / path.name).write_text(text)
    done = subprocess.run([built(tmp_path, source)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "not ok" in done.stdout
