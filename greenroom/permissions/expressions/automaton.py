"""Automata: every way of matching at once, so that no text makes one try a way twice.

What has been seen of an automaton is kept: a set of states and a character lead to the next set,
so that usual texts cost one look-up per character.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from greenroom.core import RuleFileError

__all__ = ["Automaton", "CostlyTextError"]

# A character; with assertions also which of them hold behind it, a bit for each.
_Key: TypeAlias = str | tuple[str, int]

MAX_STATES = 512
MAX_KNOWN = 2048  # steps that are kept
MAX_VISITS = 4096  # of states, in steps that are not known; for each character some more
MAX_VISITS_EACH = 16
END = 0


class CostlyTextError(Exception):
    """An expression and a text for which even one pass is too much work."""


@dataclass(slots=True)
class _State:
    """One state: it reads a character, or is passed through if an assertion holds there."""

    to: Sequence[int]
    test: re.Pattern[str] | None = None
    bit: int = 0
    wanted: bool = True

    def open(self, mark: int) -> bool:
        """Tell whether it may be passed through where these assertions hold."""
        return self.test is None and (not self.bit or bool(mark & self.bit) is self.wanted)


@dataclass(slots=True, eq=False)
class _Stand:
    """The states that a text may have led to, and where each further character leads."""

    states: frozenset[int]
    steps: "dict[_Key, _Stand]" = field(default_factory=dict)
    tells: bool = False

    def __post_init__(self) -> None:
        # Whether the text may be at its end here, or at no end any more.
        self.tells = END in self.states or not self.states


class Automaton:
    """States and the ways between them; state 0 is the end."""

    def __init__(self) -> None:
        """Begin with the end alone."""
        self._states = [_State(())]
        self._stands: dict[frozenset[int], _Stand] = {}
        self._starts: dict[tuple[int, int], _Stand] = {}
        self._known = 0

    def reads(self, test: re.Pattern[str], to: int) -> int:
        """Add a state that reads one character."""
        return self._add(_State((to,), test=test))

    def holds(self, bit: int, wanted: bool, to: int) -> int:
        """Add a state that is passed through where an assertion holds, or does not."""
        return self._add(_State((to,), bit=bit, wanted=wanted))

    def forks(self, *to: int) -> int:
        """Add a state that leads to others."""
        return self._add(_State(to))

    def lead(self, state: int, *to: int) -> None:
        """Say later where a fork leads, for loops."""
        self._states[state].to = to

    def _add(self, state: _State) -> int:
        if len(self._states) >= MAX_STATES:
            raise RuleFileError(
                "a regular expression that is too large when its repetitions are written out",
                hint="write * or + instead of a large count",
            )
        self._states.append(state)
        return len(self._states) - 1

    def ends(self, start: int, text: str, marks: Sequence[int]) -> Iterator[int]:
        """Go through a text from a state, and say behind how many characters it may be at the end.

        Args:
            start: the state to begin in.
            text: the text.
            marks: which assertions hold before each character, and behind the last; empty if
                there are none.

        Raises:
            CostlyTextError: it would take more work than the text is worth.
        """
        budget = MAX_VISITS + MAX_VISITS_EACH * len(text)
        stand = self._start(start, marks[0] if marks else 0)
        if END in stand.states:
            yield 0
        keys: Iterable[_Key] = zip(text, marks[1:], strict=True) if marks else text
        for at, key in enumerate(keys, 1):
            following = stand.steps.get(key)
            if following is None:
                following = self._step(stand, key)
                budget -= len(stand.states) + len(following.states)
                if budget < 0:
                    raise CostlyTextError
            stand = following
            if stand.tells:
                if not stand.states:
                    return
                yield at

    def _start(self, state: int, mark: int) -> _Stand:
        """Stand before the text; usually that is known."""
        stand = self._starts.get((state, mark))
        if stand is None:
            stand = self._starts[state, mark] = self._stand(self._closed((state,), mark))
            self._count()
        return stand

    def _step(self, stand: _Stand, key: _Key) -> _Stand:
        char, mark = (key, 0) if isinstance(key, str) else key
        reached = [
            state.to[0]
            for state in map(self._states.__getitem__, stand.states)
            if state.test is not None and state.test.match(char)
        ]
        following = self._stand(self._closed(reached, mark))
        self._count()
        stand.steps[key] = following
        return following

    def _count(self) -> None:
        """Forget everything where too much was kept."""
        self._known += 1
        if self._known > MAX_KNOWN:
            self._known = 0
            self._stands, self._starts = {}, {}

    def _stand(self, states: frozenset[int]) -> _Stand:
        return self._stands.setdefault(states, _Stand(states))

    def _closed(self, states: Iterable[int], mark: int) -> frozenset[int]:
        """Add the states that are reached without reading a character."""
        seen: set[int] = set()
        waiting = list(states)
        while waiting:
            at = waiting.pop()
            if at not in seen:
                seen.add(at)
                state = self._states[at]
                if state.open(mark):
                    waiting += state.to
        # The others were only passed through: what reads, and the end, tell sets apart.
        return frozenset(at for at in seen if at == END or self._states[at].test is not None)
