"""Docstrings: the description of a function and of its parameters, from Google style."""

import inspect
import re
from dataclasses import dataclass, field

_SECTION = re.compile(
    r"(Args|Arguments|Parameters|Returns?|Yields?|Raises|Examples?|Notes?|Attributes|Warnings?"
    r"|See Also|References|Todo):\s*"
)
_PARAMETERS = ("Args", "Arguments", "Parameters")
_ENTRY = re.compile(r"\*{0,2}(?P<name>\w+)\s*(\([^)]*\))?:\s*(?P<text>.*)")


@dataclass(frozen=True)
class Docstring:
    """What a docstring says.

    Attributes:
        description: the text before the first section.
        parameters: the description of each parameter that the `Args:` section names.
    """

    description: str
    parameters: dict[str, str] = field(default_factory=dict)


def parse_docstring(text: str) -> Docstring:
    r"""Take a Google-style docstring apart.

    Example:
        >>> parse_docstring("Add.\n\nArgs:\n    a: the first,\n        a number.").parameters
        {'a': 'the first, a number.'}
    """
    description: list[str] = []
    entries: list[str] = []
    section = ""
    for line in inspect.cleandoc(text).splitlines():
        heading = _SECTION.fullmatch(line)
        if heading:
            section = heading[1]
        elif not section:
            description.append(line)
        elif section in _PARAMETERS:
            entries.append(line)
    return Docstring("\n".join(description).strip(), _parameters(entries))


def _parameters(lines: list[str]) -> dict[str, str]:
    """Join each entry with the lines that are indented further than the first entry is."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    entries = inspect.cleandoc("\n" + "\n".join(lines)).splitlines()
    for line in entries:
        entry = None if line.startswith((" ", "\t")) else _ENTRY.match(line)
        if entry:
            current = found.setdefault(entry["name"], [])
            current.append(entry["text"])
        else:
            current.append(line.strip())
    return {name: " ".join(filter(None, parts)) for name, parts in found.items()}
