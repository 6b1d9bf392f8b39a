"""Work whose time depends on a value that others made: in a thread where the value is large."""

from collections.abc import Callable, Mapping
from typing import TypeVar

import trio
from msgspec import Struct
from msgspec.structs import astuple

T = TypeVar("T")

_LARGE = 100_000  # characters, items and attributes together; to convert them takes about 1 ms

_TEXTS = (str, bytes, bytearray)
_NUMBERS = (int, float)
_SEQUENCES = (list, tuple, set, frozenset)
_MAPPINGS = (dict, Mapping)  # a dict is known to be one at once


async def run_heavy(work: Callable[[], T], value: object) -> T:
    """Do work on a value: here, or in a thread if it is so large that it would hold up the loop.

    A cancel waits for the end of the work.

    Example:
        >>> trio.run(run_heavy, lambda: "a".upper(), "a")
        'A'
    """
    return await trio.to_thread.run_sync(work) if is_large(value) else work()


def is_large(value: object, most: int = _LARGE) -> bool:
    """Whether a value has more than `most` characters and items; it looks at no more of them.

    Example:
        >>> is_large(["a" * 50_000]), is_large({"rows": [[0] * 60_000] * 2})
        (False, True)
    """
    room, todo = most, [value]
    while todo and room >= 0:
        each = todo.pop()
        if isinstance(each, _TEXTS):
            room -= len(each)
        elif each is None or isinstance(each, _NUMBERS):
            room -= 1
        elif isinstance(each, _SEQUENCES):
            room -= len(each)
            todo += each if room >= 0 else ()
        elif isinstance(each, _MAPPINGS):
            room -= len(each)
            todo += (*each, *each.values()) if room >= 0 else ()
        elif isinstance(each, Struct):
            room -= 1
            todo += astuple(each)
        else:
            names = tuple(getattr(each, "__dict__", ()))
            room -= 1 + len(names)
            todo += [getattr(each, name, None) for name in names]
    return room < 0
