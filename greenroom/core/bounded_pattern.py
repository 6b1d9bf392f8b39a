"""Regular expressions from outside, matched in bounded time.

A schema, a rule file or a model may bring an expression that takes Python's `re` forever. The
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

MAX_LITERAL = 400
"""Characters of an expression one after the other that stand for themselves.

Before its first match the engine prepares the search for them, with the interpreter's lock and
without a time limit: for "aaa…" it takes time with the third power of the length, here 15 ms.
"""

MATCH_SECONDS = 0.05
"""The longest time of one match."""

_COMMENTED = re.compile(r"\(\?(?:#|[a-zA-Z0-9]*x)")
_EXACT = re.compile(r"\{(\d+)")
_TOKEN = re.compile(
    r"\\.|(?P<set>\[\^?\]?(?>(?:\\.|[^\]\\]){2,})\])|\[\^?\]?(?>(?:\\.|[^\]\\])*)\]"
    r"|(?P<open>\((?:\?[a-zA-Z-]*:)?)|(?P<close>\))|\{(?P<count>\d+)[\d,]*\}"
    r"|(?P<sign>[|*+?.^$])|.",
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
        self.size, literal = _measure(text)
        if literal > MAX_LITERAL:
            raise ConfigurationError(
                f"it has {literal} characters of plain text in a row",
                hint=f"use at most {MAX_LITERAL}",
            )
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
        if len(text) > MAX_TEXT:
            return None
        run = self._compiled.fullmatch if whole else self._compiled.search
        try:
            return run(text, timeout=MATCH_SECONDS) is not None
        except (TimeoutError, MemoryError):
            return None


def _measure(text: str) -> tuple[int, int]:
    """Measure an expression: its size with counted repeats written out, and its longest literal.

    Both may be a bit too high. The engine writes repeats out when it compiles: `(a{1000}){1000}`
    takes 260 MB.
    """
    if _COMMENTED.search(text):  # which may hide anything from the tokens below
        counts = map(int, _EXACT.findall(text))
        return reduce(lambda total, count: total * max(count, 1), counts, len(text)), len(text)
    sizes, last = [0], 0  # of each open group, and of the last token
    literal = longest = 0
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
        is_plain = not (found["count"] or found["set"] or found["sign"])
        literal = literal + (not found["open"] and not found["close"]) if is_plain else 0
        longest = max(longest, literal)
    return sum(sizes), longest
