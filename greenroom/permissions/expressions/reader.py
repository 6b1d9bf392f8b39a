"""Reads a regular expression into fragments of an automaton."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

from greenroom.core import RuleFileError
from greenroom.permissions.expressions.automaton import MAX_STATES, Automaton

__all__ = ["Fragment", "Lookaround", "Reader"]

Fragment: TypeAlias = Callable[[Automaton, int], int]
"""Adds a part of the expression to an automaton, in front of a state; returns where it begins."""

MAX_NESTING = 40
_ATOM = re.compile(
    r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|N\{[^}]*\}|0[0-7]{0,2}|[0-7]{3}|[^0-9])"
    r"|\[\^?\]?(?:\\.|[^\]\\])*\]|[^\\|()]",
    re.DOTALL,
)
_ASSERTION = re.compile(r"\\[AbBZ]|[\^$]")
_GROUP = re.compile(
    r"\((?:\?(?:P<\w+>|(?P<on>[aimsu]*)(?:-(?P<off>[ims]+))?:|(?P<look><?[=!]))|(?!\?))"
)
_GLOBAL_FLAGS = re.compile(r"\(\?[aimsu]+\)")
_REPEAT = re.compile(r"(?:(?P<sign>[*+?])|\{(?!\})(?P<least>\d*)(?P<comma>,(?P<most>\d*))?\})\??")
_FLAGS = {"a": re.ASCII, "i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "u": re.UNICODE}


class Lookaround:
    """What must stand, or must not, before or behind a place."""

    def __init__(self, fragment: Fragment, *, backwards: bool) -> None:
        """Take what must stand there; it is read backwards if it stands behind the place."""
        self.backwards = backwards
        self.automaton = Automaton()
        self.start = anywhere(self.automaton, fragment(self.automaton, 0))


def anywhere(automaton: Automaton, start: int) -> int:
    """Let the text begin with anything."""
    loop = automaton.forks()
    automaton.lead(loop, start, automaton.reads(_test(".", re.DOTALL), loop))
    return loop


class Reader:
    """Reads an expression that Python's `re` understands, as far as it is regular."""

    def __init__(self, text: str, flags: re.RegexFlag) -> None:
        """Begin; `flags` are those that hold for the whole expression."""
        self.assertions: list[re.Pattern[str] | Lookaround] = []
        self._text = text
        self._at = 0
        self._flags = flags & ~re.UNICODE
        self._backwards = False
        self._nesting = 0

    def read(self) -> Fragment:
        """Read the whole expression.

        Raises:
            RuleFileError: it refers to what a group matched, or holds its text fast.
        """
        self._take(_GLOBAL_FLAGS)
        return self._choice()

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return found

    def _choice(self) -> Fragment:
        choices = [self._sequence()]
        while self._text.startswith("|", self._at):
            self._at += 1
            choices.append(self._sequence())
        return choices[0] if len(choices) == 1 else _either(choices)

    def _sequence(self) -> Fragment:
        parts: list[Fragment] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            parts.append(self._repeated(self._part()))
        return _in_turn(parts if self._backwards else parts[::-1])

    def _part(self) -> Fragment:
        if found := self._take(_ASSERTION):
            return self._assertion(re.compile(found[0], self._flags), wanted=True)
        if found := self._take(_ATOM):
            source = found[0] if found[0][0] in "\\[." else re.escape(found[0])
            return _reading(_test(source, self._flags))
        found = self._take(_GROUP)
        if found is None:
            raise self._irregular()
        return self._group(found)

    def _group(self, opening: re.Match[str]) -> Fragment:
        outside = self._flags, self._backwards
        if opening["look"]:
            self._backwards = "<" not in opening["look"]
        for letter in opening["on"] or "":
            self._flags |= _FLAGS[letter]
        for letter in opening["off"] or "":
            self._flags &= ~_FLAGS[letter]
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise RuleFileError("a regular expression that is nested too deeply")
        inside = self._choice()
        self._nesting -= 1
        self._at += 1  # the closing parenthesis
        backwards = self._backwards
        self._flags, self._backwards = outside
        if not opening["look"]:
            return inside
        return self._assertion(
            Lookaround(inside, backwards=backwards), wanted="=" in opening["look"]
        )

    def _assertion(self, assertion: re.Pattern[str] | Lookaround, *, wanted: bool) -> Fragment:
        bit = 1 << len(self.assertions)
        self.assertions.append(assertion)
        return lambda automaton, to: automaton.holds(bit, wanted, to)

    def _repeated(self, part: Fragment) -> Fragment:
        found = self._take(_REPEAT)
        if found is None:
            return part
        if self._text.startswith("+", self._at):
            raise self._irregular()
        least, most = _counts(found)
        if max(least, most or 0) > MAX_STATES:
            raise RuleFileError(
                f"a repetition of more than {MAX_STATES} times", hint="write * or + instead"
            )
        return _repeating(part, least, most)

    def _irregular(self) -> RuleFileError:
        return RuleFileError(
            f"can't be matched in one pass: {self._text[self._at : self._at + 20]!r}",
            hint="leave out back references, possessive repeats, atomic groups and conditions",
        )


@lru_cache(maxsize=256)
def _test(source: str, flags: int) -> re.Pattern[str]:
    """Leave to `re` which characters one atom stands for."""
    return re.compile(source, flags)


def _counts(repeat: re.Match[str]) -> tuple[int, int | None]:
    if repeat["sign"]:
        return {"*": (0, None), "+": (1, None), "?": (0, 1)}[repeat["sign"]]
    least = int(repeat["least"] or 0)
    if not repeat["comma"]:
        return least, least
    return least, int(repeat["most"]) if repeat["most"] else None


def _reading(test: re.Pattern[str]) -> Fragment:
    return lambda automaton, to: automaton.reads(test, to)


def _either(choices: list[Fragment]) -> Fragment:
    return lambda automaton, to: automaton.forks(*[each(automaton, to) for each in choices])


def _in_turn(parts: list[Fragment]) -> Fragment:
    """Put parts one before the other, the last one first."""

    def add(automaton: Automaton, to: int) -> int:
        start = to if parts else automaton.forks(to)
        for part in parts:
            start = part(automaton, start)
        return start

    return add


def _repeating(part: Fragment, least: int, most: int | None) -> Fragment:
    def add(automaton: Automaton, to: int) -> int:
        start = to
        if most is None:
            start = automaton.forks()
            automaton.lead(start, to, part(automaton, start))
        for _ in range((most or least) - least):
            start = automaton.forks(to, part(automaton, start))
        for _ in range(least):
            start = part(automaton, start)
        return start

    return add
