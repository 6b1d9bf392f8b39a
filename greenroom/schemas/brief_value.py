"""Values from outside, written briefly: in a time that does not grow with their size.

jsonschema writes the whole value into each of its errors, and `repr` keeps the interpreter's lock
until it is done, so a large value would hold up the event loop even from a thread. `make_brief`
gives it values that write themselves briefly.
"""

from collections.abc import ItemsView, Iterable, Iterator, Sequence
from typing import SupportsIndex

_SHOWN = 120  # characters


def write_value(value: object, limit: int = _SHOWN) -> str:
    """Write a value as Python does, up to a limit.

    Example:
        >>> write_value({"a": [1, "x"], "b": None})
        "{'a': [1, 'x'], 'b': None}"
        >>> write_value([0] * 1_000_000, 10)
        '[0, 0, 0,…'
    """
    text = _write(value, limit)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _write(value: object, room: int) -> str:
    """Write all of a value, or more characters than there is room for."""
    if isinstance(value, str):
        return repr(str.__str__(value[: room + 1]))
    if isinstance(value, dict):
        return _join("{", (((key, ": "), (each, "")) for key, each in dict.items(value)), "}", room)
    if isinstance(value, list):
        return _join("[", (((each, ""),) for each in list.__iter__(value)), "]", room)
    return repr(value)


def _join(start: str, items: Iterable[Sequence[tuple[object, str]]], end: str, room: int) -> str:
    text = start
    for item in items:
        text += ", " if len(text) > 1 else ""
        for part, after in item:
            if len(text) > room:
                return text
            text += _write(part, room - len(text)) + after
    return text + end


def make_brief(value: object) -> object:
    """Return a copy of a value, equal to it, whose `repr` is brief; so is that of all parts of it.

    Its parts are copied when they are used.

    Example:
        >>> len(repr(make_brief({"a": [0] * 1_000_000})))
        120
    """
    match value:
        case _Text() | _List() | _Object():
            return value
        case str():
            return _Text(value)
        case list():
            return _List(value)
        case dict():
            return _Object(value)
        case _:
            return value


class _Text(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return write_value(self)


class _List(list[object]):
    __slots__ = ()

    def __repr__(self) -> str:
        return write_value(self)

    def __iter__(self) -> Iterator[object]:
        return map(make_brief, list.__iter__(self))

    def __getitem__(self, at: SupportsIndex | slice) -> object:  # type: ignore[override, explicit-any]
        return make_brief(list[object].__getitem__(self, at))


class _Object(dict[str, object]):
    __slots__ = ()

    def __repr__(self) -> str:
        return write_value(self)

    def __getitem__(self, key: str) -> object:
        return make_brief(dict.__getitem__(self, key))

    def items(self) -> ItemsView[str, object]:  # type: ignore[override]
        return ItemsView(self)
