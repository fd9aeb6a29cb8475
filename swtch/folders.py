# SPDX-License-Identifier: Apache-2.0
"""The user's folders for what is kept between runs, by the XDG base directory specification.

A path that is not absolute is none: what lies where one happens to stand is of whoever made
that folder, and who may run code is told by a file in one of these (swtch.own.trust).
"""

from __future__ import annotations

from pathlib import Path


def of_user(configured: str, below_home: str) -> Path | None:
    """`configured`, what the user's environment names, else that folder below the home; None
    of who has no home, as a number that is no user's in a container."""
    if Path(configured).is_absolute():
        return Path(configured)
    try:
        folder = Path.home() / below_home
    except RuntimeError:
        return None
    return folder if folder.is_absolute() else None
