"""Writes docs/reference/errors.md from the classes of errors: python docs/reference/errors.py."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import greenroom
from greenroom.core import GreenroomError, errors

PAGE = Path(__file__).with_suffix(".md")

HEAD = """\
# Errors

<!-- Written by docs/reference/errors.py from the classes, in the order of the tree that
greenroom/core/errors.py draws; edit the docstrings and remedies there. -->

Everything that Greenroom raises on purpose is a `GreenroomError`: `message` says what happened, and
`hint` what to do about it in this case. If you catch a class, you also catch those that name it as
their parent. *Again* says whether the same call may succeed later with nothing changed, which is
the error's `retryable`; a provider may say otherwise of a single error. *Of* is the package that a
program imports it from; those without one are caught by their parent. How models fail, and what
such an error carries, has [a page of its own](../how-to/model-failures.md).

| error | of | parent | what it means | again | what to do |
| --- | --- | --- | --- | --- | --- |
"""


def drawn() -> list[str]:
    """Return the names of the tree of errors, as it is drawn, each before its children."""
    return re.findall(r"^[ │]*(?:[├└]── )?(\w+Error)\b", errors.__doc__ or "", re.MULTILINE)


def tree() -> list[type[GreenroomError]]:
    """Return the classes of Greenroom in the order of `drawn`, and at the end what is not drawn."""
    for each in pkgutil.walk_packages(greenroom.__path__, "greenroom."):
        if not each.name.endswith("__main__"):  # a front may load what it names later
            importlib.import_module(each.name)
    names = drawn()
    public = {kind for kind in _below(GreenroomError) if kind.__module__.startswith("greenroom.")}
    return sorted(public, key=lambda kind: [*names, kind.__name__].index(kind.__name__))


def _below(kind: type[GreenroomError]) -> Iterator[type[GreenroomError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _below(child)


def front(kind: type[GreenroomError]) -> str:
    """Return the package from which programs import a class, or an empty text."""
    packages = ("greenroom", "greenroom.core", ".".join(kind.__module__.split(".")[:2]))
    found = (each for each in packages if kind.__name__ in importlib.import_module(each).__all__)
    return next((f"`{each}`" for each in found), "")


def row(kind: type[GreenroomError]) -> str:
    """Write the line of one class."""
    parent = kind.__mro__[1]
    cells = (
        f"`{kind.__name__}`",
        front(kind),
        "" if parent is Exception else f"`{parent.__name__}`",
        (kind.__doc__ or "").partition("\n")[0].removesuffix("."),
        "yes" if kind.retryable else "no",
        kind.remedy,
    )
    return f"| {' | '.join(cells)} |\n"


def page() -> str:
    """Write the page."""
    return HEAD + "".join(map(row, tree()))


if __name__ == "__main__":
    PAGE.write_text(page())
