"""Regular expressions that are compiled at their first use.

Each takes a tenth of a millisecond, and of the hundreds in the modules that a program loads it uses
few before it is ready.
"""

import re
from typing import AnyStr, Generic, cast


def compile_later(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return what `re.compile` would, for a constant; it is compiled when it is first used.

    It has the methods and attributes of a pattern, and their speed. `isinstance` and the functions
    of `re` don't accept it, and an expression that can't be compiled fails at its first use.
    """
    return cast("re.Pattern[AnyStr]", _LatePattern(source, flags))


class _LatePattern(Generic[AnyStr]):
    """Takes each attribute of the pattern when it is asked for it, and keeps it as its own."""

    def __init__(self, source: AnyStr, flags: int) -> None:
        self._source: AnyStr = source
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):  # as `copy` asks for, of an object that has nothing yet
            raise AttributeError(name)
        value: object = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, value)
        return value
