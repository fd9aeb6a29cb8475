# SPDX-License-Identifier: Apache-2.0
"""Types of options that several commands have."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click


class Seconds(click.FloatRange):
    """A time limit: from a tenth of a second to a day. Click itself takes nan for in range."""

    def __init__(self) -> None:
        super().__init__(0.1, 86_400)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value} is no number of seconds.", param, ctx)
        return seconds


class Name(click.types.StringParamType):
    """A word that names something. An empty one, as of a script's variable that is not set,
    names nothing."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("it is empty; give a name.", param, ctx)
        return super().convert(value, param, ctx)


class Place(click.Path):
    """The path of a file or folder. Python takes an empty one for the folder where one is,
    which nobody means to write to."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("it is empty; give a path, '.' for the folder where you are.", param, ctx)
        return super().convert(value, param, ctx)
