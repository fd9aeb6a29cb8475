# SPDX-License-Identifier: Apache-2.0
"""Executes a notebook's code cells as a kernel does: in order, in one namespace, the last
expression of each cell displayed.

    python tests/notebook.py docs/experiments/own.ipynb FOLDER    # with FOLDER's files

A Jupyter kernel would add thirty packages to the tests for the same: what is asked of the
notebook is that its cells run and what they display.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from pathlib import Path
from typing import Any


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def execute(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The outputs of each code cell, in the form of the notebook's format."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    return [
        _cell("".join(cell["source"]), namespace, number)
        for number, cell in enumerate(code_cells(notebook), start=1)
    ]


def _cell(source: str, namespace: dict[str, Any], number: int) -> list[dict[str, Any]]:
    name = f"<cell {number}>"
    tree = ast.parse(source, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), namespace)
    if last is None:
        return []
    value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
    if value is None:
        return []
    shown: dict[str, Any] = {"text/plain": _lines(repr(value))}
    html = getattr(value, "_repr_html_", None)
    if html is not None:
        shown["text/html"] = _lines(html())
    result = {"output_type": "execute_result", "execution_count": number}
    return [{**result, "data": shown, "metadata": {}}]


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main() -> None:
    """Writes the outputs into the notebook."""
    file = Path(sys.argv[1]).absolute()
    notebook = json.loads(file.read_text(encoding="utf-8"))
    os.chdir(sys.argv[2])
    for cell, outputs in zip(code_cells(notebook), execute(notebook), strict=True):
        cell["outputs"] = outputs
        cell["execution_count"] = outputs[0]["execution_count"] if outputs else None
    text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
