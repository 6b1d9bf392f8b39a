"""Regular expressions from outside, matched in bounded time.

A schema, a rule file or a model may bring an expression that takes Python's `re` for ever. The
library `regex` has a time limit for each match and releases the interpreter's lock meanwhile.
"""

import re
from functools import reduce

from greenroom.core.errors import ConfigurationError

MAX_PATTERN = 2_000
"""Characters of an expression."""

MAX_TEXT = 100_000
"""Characters of a text that is searched."""

MAX_REPEATED = 20_000
"""Characters of an expression once `(a{20}){20}` is written out, as it is when compiled."""

MAX_WORK = 2_500_000
"""The size of an expression times the length of a text.

The engine searches for literal text first. That has no time limit and holds the interpreter's lock:
for "baaa…" in "aaaa…" some 8 nanoseconds for each pair of characters.
"""

MATCH_SECONDS = 0.05
"""The longest time of one match."""

_COMMENTED = re.compile(r"\(\?(?:#|[a-zA-Z0-9]*x)")
_EXACT = re.compile(r"\{(\d+)")
_TOKEN = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*+\]|(?P<open>\()|(?P<close>\))|\{(?P<count>\d+)[\d,]*\}|.",
    re.DOTALL,
)


class BoundedPattern:
    r"""A regular expression from outside: in Python's syntax, and `\p{…}` for classes of letters.

    Attributes:
        size: its characters with its counted repeats written out, which its memory grows with.

    Example:
        >>> pattern = BoundedPattern(r"^(\p{L}+ ?)*$")
        >>> pattern.search("Zoë ran"), pattern.search("3")
        (True, False)
        >>> print(BoundedPattern("(a|aa)+$").search("a" * 60 + "b"))
        None
    """

    def __init__(self, text: str) -> None:
        """Compile an expression.

        Raises:
            ConfigurationError: it is not one, or it is too long or would need too much memory.
        """
        import regex

        if len(text) > MAX_PATTERN:
            raise ConfigurationError(
                f"it has {len(text):,} characters", hint=f"use at most {MAX_PATTERN:,}"
            )
        self.size = _count_written_out(text)
        if self.size > MAX_REPEATED:
            raise ConfigurationError(
                "its counts multiply to more than the engine can hold", hint="use smaller counts"
            )
        try:
            self._compiled = regex.compile(text, cache_pattern=False)
        except (regex.error, RecursionError, OverflowError) as error:
            raise ConfigurationError(f"it is not a regular expression: {error}") from None

    def search(self, text: str) -> bool | None:
        """Return whether some part of a text matches; None if that can't be told in time."""
        return self._run(text, whole=False)

    def fullmatch(self, text: str) -> bool | None:
        """Return whether the whole text matches; None if that can't be told in time."""
        return self._run(text, whole=True)

    def _run(self, text: str, *, whole: bool) -> bool | None:
        if len(text) > MAX_TEXT or len(text) * self.size > MAX_WORK:
            return None
        run = self._compiled.fullmatch if whole else self._compiled.search
        try:
            return run(text, timeout=MATCH_SECONDS) is not None
        except (TimeoutError, MemoryError):
            return None


def _count_written_out(text: str) -> int:
    """Count the characters of an expression with its counted repeats written out; a bit too high.

    The engine writes them out when it compiles: `(a{1000}){1000}` takes 260 MB.
    """
    if _COMMENTED.search(text):  # which may hide anything from the tokens below
        counts = _EXACT.findall(text)
        return reduce(lambda total, count: total * max(int(count), 1), counts, len(text))
    sizes, last = [0], 0  # of each open group, and of the last token
    for found in _TOKEN.finditer(text):
        if found["open"]:
            sizes.append(0)
            last = 0
        elif found["close"] and len(sizes) > 1:
            last = sizes.pop()
            sizes[-1] += last
        elif found["count"]:
            more = last * max(int(found["count"]) - 1, 0)
            sizes[-1] += more
            last += more
        else:
            last = 1
            sizes[-1] += 1
    return sum(sizes)
