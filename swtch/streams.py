# SPDX-License-Identifier: Apache-2.0
"""Standard output and error as every command may count on them: what is printed can be."""

from __future__ import annotations

import codecs
import io
import os
import sys
from pathlib import Path


def mend() -> None:
    """A letter that the terminal's encoding lacks is a ``?``, a file's name comes out as it
    is, and what was closed before we began is nowhere."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - for good
        elif name == "stdout" and isinstance(stream, io.TextIOWrapper):
            known = codecs.lookup(stream.encoding).name == "utf-8"
            stream.reconfigure(errors="surrogateescape" if known else "replace")
