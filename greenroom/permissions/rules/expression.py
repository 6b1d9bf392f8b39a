"""Regular expressions of rules, matched by Python's `re` in a time that no text can stretch.

`re` tries one way of matching after the other, so an expression is weighed when it is read: in how
many ways may it try a text of n characters? Each repeat without an end multiplies them by n, as does
a search, and each choice by what there is to choose from. That says how long a text may be, and an
expression that is too heavy is refused.
"""

import re

from greenroom.core import RuleFileError

MAX_LENGTH = 512  # of an expression
MAX_TEXT = 4096
MIN_TEXT = 64  # an expression that may not even read that much is refused
MAX_STEPS = 4_000_000
_UNREADABLE = re.compile(r"\(\?(?:#|[aimsLu]*x)")
_TOKEN = re.compile(
    r"(?P<copy>\\[1-9]|\(\?P=\w+\))|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<open>\((?:\?P?)?)"
    r"|(?P<close>\))|(?P<turn>\|)|(?P<repeat>[*+?]|\{(?!\})\d*,?\d*\})[?+]?|.",
    re.DOTALL,
)
_NUMBER = re.compile(r"\d+")


class Expression:
    """A regular expression in Python's notation that no text can slow down.

    A group that is repeated holds no other repeat and no alternatives: write `[ab]*` for `(a|b)*`.

    Example:
        >>> expression = Expression("npm run (lint|test)( .*)?")
        >>> expression.fullmatch("npm run test --fix"), expression.fullmatch("npm run tests")
        (True, False)
        >>> Expression("npm run .*--force").search("npm run test --force -x")
        True
    """

    def __init__(self, text: str) -> None:
        """Read an expression.

        Raises:
            RuleFileError: empty, too long, not understood, or it may match in too many ways.
        """
        if not 0 < len(text) <= MAX_LENGTH:
            raise RuleFileError(f"a regex has 1 to {MAX_LENGTH} characters, this has {len(text)}")
        if _UNREADABLE.search(text):
            raise _refused(text, "has comments or the flag x", "leave them out")
        part = re.sub(r"\A\.\*(?![?+])|(?<!\\)\.\*\Z", "", text)  # a search finds it without, too
        try:
            self._whole, self._part = re.compile(text), re.compile(part)
        except (re.error, OverflowError, RecursionError) as error:
            raise RuleFileError(f"not a regular expression: {text!r}: {error}") from error
        self.limit, self.search_limit = _longest(text), _longest(part, searches=True)
        if self.limit < MIN_TEXT:
            raise _refused(text, "may match in too many ways", "use fewer repeats or alternatives")

    def fullmatch(self, text: str) -> bool:
        """Tell whether the whole text matches; one that is too long does not."""
        return len(text) <= self.limit and self._whole.fullmatch(text) is not None

    def search(self, text: str) -> bool | None:
        """Tell whether some part of a text matches; None if it is too long to tell.

        The end of a line counts as a blank as well, since `.` does not go over it.
        """
        if len(text) > self.search_limit:
            return None
        return any(map(self._part.search, {text, text.replace("\n", " ")}))


def _longest(text: str, *, searches: bool = False) -> int:
    """Say how long a text may be, by the repeats without an end, and the ways to match the rest."""
    loops, ways, choice = int(searches), 1 + len(text) // 32, -1
    groups = [[0, 1]]  # around this place: where they begin, how many alternatives they have so far
    varies = False  # whether a group that holds a choice ends here
    for found in _TOKEN.finditer(text):
        sign, follows_choice, varies = found["repeat"] or "", varies, False
        if found["open"]:
            groups.append([found.start(), 1])
        elif found["close"]:
            start, turns = groups.pop()
            ways, varies = ways * turns, choice > start
        elif found["copy"]:
            loops += 1
        elif found["turn"]:
            groups[-1][1] += 1
            choice = found.start()
        elif sign:
            if follows_choice and sign != "?":
                hint = "write [ab]* for (a|b)* and a* for (a+)*"
                raise _refused(text, "repeats what holds a repeat or alternatives", hint)
            is_endless = sign in "*+" or sign.endswith(",}")
            loops += is_endless
            ways *= max([2 - is_endless, *map(int, _NUMBER.findall(sign))])
            choice = found.start()
    return min(MAX_TEXT, int((MAX_STEPS / (ways * groups[0][1])) ** (1 / max(loops, 1))))


def _refused(text: str, why: str, hint: str) -> RuleFileError:
    return RuleFileError(f"the regex {text!r} {why}", hint=hint)
