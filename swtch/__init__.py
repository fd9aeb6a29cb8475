# SPDX-License-Identifier: Apache-2.0
"""The swtch lab: what does it cost to switch threads here, and why?"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from swtch.data import Data

__version__ = "0.1.0"


def load(path: str | Path) -> Data:
    """The run directory `path` as data: its manifest, and polars frames (swtch.data)."""
    from swtch.data import load

    return load(path)
