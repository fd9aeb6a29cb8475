# SPDX-License-Identifier: Apache-2.0
"""Types of options that several commands have."""

from __future__ import annotations

import math
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
