"""Regular expressions of rules."""

import re
from collections.abc import Iterator, Sequence

from greenroom.core import RuleFileError
from greenroom.permissions.expressions.automaton import Automaton, CostlyTextError
from greenroom.permissions.expressions.reader import Lookaround, Reader, anywhere

__all__ = ["Expression"]

MAX_LENGTH = 512


class Expression:
    """A regular expression in Python's notation that no text can slow down.

    Python's own engine tries one way after the other, and some texts have more ways than anybody
    can wait for. This one goes through the text once, on all ways at the same time; in return
    there are no back references, possessive repeats, atomic groups and conditions.

    Example:
        >>> expression = Expression("npm run (lint|test)( .*)?")
        >>> expression.fullmatch("npm run test --fix"), expression.fullmatch("npm run tests")
        (True, False)
        >>> Expression("(a+)+$").search("a" * 5000 + "!")
        False
    """

    def __init__(self, text: str) -> None:
        """Read an expression.

        Raises:
            RuleFileError: empty, too long or too large, not understood, or not regular.
        """
        if not text or len(text) > MAX_LENGTH:
            raise RuleFileError(f"a regex has 1 to {MAX_LENGTH} characters, this has {len(text)}")
        self.text = text
        reader = Reader(text, _flags(text))
        self._automaton = Automaton()
        self._whole = reader.read()(self._automaton, 0)
        self._part = anywhere(self._automaton, self._whole)
        self._assertions = reader.assertions

    def fullmatch(self, text: str) -> bool:
        """Tell whether the whole text matches; where that would take too much work, it does not."""
        try:
            return any(at == len(text) for at in self._ends(self._whole, text))
        except CostlyTextError:
            return False

    def search(self, text: str) -> bool | None:
        """Tell whether some part of a text matches; None if that would take too much work."""
        try:
            return next(self._ends(self._part, text), None) is not None
        except CostlyTextError:
            return None

    def _ends(self, start: int, text: str) -> Iterator[int]:
        return self._automaton.ends(start, text, self._marks(text))

    def _marks(self, text: str) -> list[int]:
        """Say which assertions hold at each place; later ones may depend on earlier ones."""
        marks = [0] * (len(text) + 1) if self._assertions else []
        for number, assertion in enumerate(self._assertions):
            for at in list(_places(assertion, text, marks)):
                marks[at] |= 1 << number
        return marks


def _places(
    assertion: re.Pattern[str] | Lookaround, text: str, marks: Sequence[int]
) -> Iterator[int]:
    if isinstance(assertion, re.Pattern):
        yield from (found.start() for found in assertion.finditer(text))
    elif assertion.backwards:
        for at in assertion.automaton.ends(assertion.start, text[::-1], marks[::-1]):
            yield len(text) - at
    else:
        yield from assertion.automaton.ends(assertion.start, text, marks)


def _flags(text: str) -> re.RegexFlag:
    """Let `re` say what is wrong with the text, and which flags hold for all of it."""
    try:
        flags = re.RegexFlag(re.compile(text).flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise RuleFileError(f"not a regular expression: {text!r}: {error}") from error
    if flags & re.VERBOSE:
        raise RuleFileError(f"not understood here: {text!r}", hint="leave out the flag x")
    return flags
