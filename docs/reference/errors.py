"""Writes docs/reference/errors.md from the classes of errors: python docs/reference/errors.py."""

from collections.abc import Iterator
from pathlib import Path

from greenroom.core import GreenroomError

PAGE = Path(__file__).with_suffix(".md")

HEAD = """\
# Errors

<!-- Written by docs/reference/errors.py from greenroom/core/errors.py and model_errors.py; edit the
docstrings and remedies there. -->

Everything that Greenroom raises on purpose is a `GreenroomError`: `message` says what happened, and
`hint` what to do about it in this case. If you catch a class, you also catch those that name it as
their parent. *Again* says whether the same call may succeed later with nothing changed, which is
the error's `retryable`; a provider may say otherwise of a single error. How models fail, and what
such an error carries, has [a page of its own](../how-to/model-failures.md).

| error | parent | what it means | again | what to do |
| --- | --- | --- | --- | --- |
"""


def tree(kind: type[GreenroomError]) -> Iterator[type[GreenroomError]]:
    """Yield a class of Greenroom and all below it, each before its children."""
    if kind.__module__.startswith("greenroom."):  # and no program's own
        yield kind
        for child in kind.__subclasses__():
            yield from tree(child)


def row(kind: type[GreenroomError]) -> str:
    """Write the line of one class."""
    parent = kind.__mro__[1]
    cells = (
        f"`{kind.__name__}`",
        "" if parent is Exception else f"`{parent.__name__}`",
        (kind.__doc__ or "").partition("\n")[0].removesuffix("."),
        "yes" if kind.retryable else "no",
        kind.remedy,
    )
    return f"| {' | '.join(cells)} |\n"


def page() -> str:
    """Write the page."""
    return HEAD + "".join(map(row, tree(GreenroomError)))


if __name__ == "__main__":
    PAGE.write_text(page())
