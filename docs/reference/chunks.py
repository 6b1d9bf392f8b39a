"""Writes docs/reference/chunks.md, the table of all chunks, from their classes."""

import inspect
import re
import typing
from pathlib import Path

import msgspec

from greenroom import OutputChunk

PAGE = Path(__file__).with_suffix(".md")

HEAD = """\
# Chunks

<!-- Written by docs/reference/chunks.py from greenroom/core/output.py; edit docstrings there. -->

Everything that an agent emits is one of these, in one ordered stream. `handle.subscribe()` yields
them as objects; `greenroom -p … --output-format stream-json` prints each as a line of JSON in which
`type` says which one it is. A field that has its default is left out of the JSON. See [what they
mean together](../concepts/messages.md), and [chunks of your
own](../concepts/messages.md#chunks-of-your-own).
"""


def section(kind: type[msgspec.Struct]) -> str:
    """Write the section of one class: its docstring's first paragraph, and its fields."""
    info = msgspec.structs.fields(kind)
    intro, _, details = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")
    hints = typing.get_type_hints(kind)
    lines = [f"\n## {kind.__name__}\n", f'`"type": "{kind.__struct_config__.tag}"`. {intro}\n']
    if details:
        lines.append(_without_indents(details) + "\n")
    if info:
        lines += ["| field | type | default |", "| --- | --- | --- |"]
        lines += [
            f"| `{each.name}` | `{_spell(hints[each.name])}` | {_default(each)} |" for each in info
        ]
    return "\n".join(lines) + ("\n" if info else "")


def page() -> str:
    """Write the page."""
    return HEAD + "".join(section(kind) for kind in typing.get_args(OutputChunk))


def _without_indents(text: str) -> str:
    """Return a docstring's details with its sections as Markdown lists."""
    text = re.sub(r"^Example:\n(?: {4}.*\n?)+", "", text, flags=re.MULTILINE)
    text = re.sub(r"^(Args|Attributes|Fields|Raises):\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^ {8}", "  ", text, flags=re.MULTILINE)
    return re.sub(r"^ {4}(\w+): ", r"- `\1`: ", text, flags=re.MULTILINE)


def _spell(hint: object) -> str:
    if hint == OutputChunk:
        return "OutputChunk"
    text = hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)
    return re.sub(r"(\w+\.)+(?=\w)", "", text).replace("|", "\\|")


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return ""
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return f"`{value!r}`"


if __name__ == "__main__":
    PAGE.write_text(page())
