"""A Jupyter notebook as a model reads it: its cells and the text of their outputs, as lines.

The format is nbformat 4 (https://nbformat.readthedocs.io), and 3 as far as it has cells.
"""

from collections.abc import Iterator, Mapping

from greenroom.core._internal import clip, serde
from greenroom.tools.builtin.terminal_text import show_output

MAX_BYTES = 50_000_000
"""Larger notebooks are read as any other text."""
_OUTPUT_CHARACTERS = 2_000
_OUTPUTS = 20  # of one cell
_TEXTS = ("text/plain", "text/markdown", "text/latex", "application/json", "text/html")

NOTE = (
    "these are the cells of a notebook; the file is JSON, and Edit changes that text, in which "
    "each line of a cell is a string: Grep shows it"
)


def render_notebook(data: bytes) -> str | None:
    r"""Return the cells of a notebook, or None if it is not one.

    Of each output, 2,000 characters of text are kept, and of a picture the type and size.

    Example:
        >>> data = b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": "x = 1"}]}'
        >>> render_notebook(data)
        '--- cell 1 of 1: code ---\nx = 1\n'
    """
    cells = _find_cells(data)
    if cells is None:
        return None
    lines: list[str] = []
    for number, cell in enumerate(cells, 1):
        lines += _render_cell(cell, f"cell {number} of {len(cells)}")
    return "\n".join(lines) + "\n" if lines else ""


def is_notebook(data: bytes) -> bool:
    """Whether a file is a notebook: JSON with cells."""
    return _find_cells(data) is not None


def _find_cells(data: bytes) -> list[Mapping[str, object]] | None:
    try:
        notebook = serde.loads(data)
    except serde.InvalidJSONError:
        return None
    if not isinstance(notebook, Mapping) or "nbformat" not in notebook:
        return None
    sheets = [notebook, *_mappings(notebook.get("worksheets"))]  # worksheets are of format 3
    found = [sheet["cells"] for sheet in sheets if isinstance(sheet.get("cells"), list)]
    return [cell for cells in found for cell in _mappings(cells)] if found else None


def _mappings(value: object) -> list[Mapping[str, object]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _text(value: object) -> str:
    """Join what may be a text or a list of lines."""
    if isinstance(value, list):
        return "".join(each for each in value if isinstance(each, str))
    return value if isinstance(value, str) else ""


def _render_cell(cell: Mapping[str, object], title: str) -> Iterator[str]:
    kind = _text(cell.get("cell_type")) or "unknown"
    count = cell.get("execution_count") or cell.get("prompt_number")
    ran = f", run as [{count}]" if isinstance(count, int) else ""
    yield f"--- {title}: {kind}{ran} ---"
    source = _text(cell.get("source")) or _text(cell.get("input"))
    yield from source.split("\n") if source else []
    attached = cell.get("attachments")
    if isinstance(attached, Mapping):
        yield f"[attached: {', '.join(map(str, attached))[:200]}]"
    outputs = _mappings(cell.get("outputs"))
    for output in outputs[:_OUTPUTS]:
        yield "--- output ---"
        yield from _render_output(output)
    if len(outputs) > _OUTPUTS:
        yield f"[{len(outputs) - _OUTPUTS} more outputs]"


def _render_output(output: Mapping[str, object]) -> Iterator[str]:
    if _text(output.get("output_type")) in {"error", "pyerr"}:
        error = f"{_text(output.get('ename'))}: {_text(output.get('evalue'))}"
        traceback = output.get("traceback")
        lines = (
            [each for each in traceback if isinstance(each, str)]
            if isinstance(traceback, list)
            else []
        )
        yield from _shorten("\n".join(lines) or error)
        return
    if "text" in output and "data" not in output:
        yield from _shorten(_text(output["text"]))
        return
    data = output.get("data")
    parts = data if isinstance(data, Mapping) else {}
    shown = next((each for each in _TEXTS if each in parts), "")
    for name, value in parts.items():
        text = _text(value)
        if name == shown and name.startswith("text/") and name != "text/html":
            yield from _shorten(text)
        else:
            size = len(text) or len(serde.dumps(value))
            yield f"[{str(name)[:100]}, {size:,} characters, not shown]"


def _shorten(text: str) -> list[str]:
    """Return the lines of an output as a terminal would show them, cut in the middle."""
    return clip(show_output(text).rstrip("\n"), _OUTPUT_CHARACTERS).split("\n")
