# SPDX-License-Identifier: Apache-2.0
"""`make install` from outside: what it refuses."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from built import ROOT


def test_install_refuses_a_destdir(tmp_path: Path) -> None:
    """Half went there and half to PREFIX, and `make uninstall` found neither whole."""
    done = subprocess.run(
        [str(ROOT / "tools/install.sh"), str(tmp_path / "prefix")],
        env={**os.environ, "DESTDIR": str(tmp_path / "stage")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "DESTDIR" in done.stderr
    assert list(tmp_path.iterdir()) == []
