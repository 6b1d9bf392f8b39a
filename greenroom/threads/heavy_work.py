"""Work whose time depends on a value that others made: in a thread where the value is large."""

from collections.abc import Callable, Mapping
from typing import TypeVar

import trio

T = TypeVar("T")

_LARGE = 100_000  # characters, items and attributes together; to convert them takes about 1 ms


async def run_heavy(work: Callable[[], T], value: object) -> T:
    """Do work on a value: here, or in a thread if it is so large that it would hold up the loop.

    A cancel waits for the end of the work.

    Example:
        >>> trio.run(run_heavy, lambda: "a".upper(), "a")
        'A'
    """
    return await trio.to_thread.run_sync(work) if is_large(value) else work()


def is_large(value: object) -> bool:
    """Whether a value has more than 100,000 characters and items; it looks at no more of them.

    Example:
        >>> is_large(["a" * 50_000]), is_large({"rows": [[0] * 60_000] * 2})
        (False, True)
    """
    room, todo = _LARGE, [value]
    while todo and room >= 0:
        each = todo.pop()
        match each:
            case str() | bytes() | bytearray():
                room -= len(each)
            case None | int() | float():
                room -= 1
            case list() | tuple() | set() | frozenset():
                room -= len(each)
                todo += each if room >= 0 else ()
            case dict() | Mapping():  # the check of the second is slow
                room -= len(each)
                todo += each.values() if room >= 0 else ()
            case _:
                names: tuple[str, ...] = getattr(each, "__struct_fields__", ())
                names = names or tuple(getattr(each, "__dict__", ()))
                room -= 1 + len(names)
                todo += (getattr(each, name, None) for name in names)
    return room < 0
