"""Agents that a host could not run, and leaves alone for a while: longer each time."""

from collections import OrderedDict
from dataclasses import dataclass

import trio

LONGEST = 60.0
"""Seconds of the longest pause."""

_MOST = 1_000  # agents; with more, those that failed longest ago are taken again at once
_MOST_DOUBLED = 10  # times, so that the number stays small


@dataclass(frozen=True)
class _Failure:
    """How often in a row a host could not run an agent, until when it waits, and why."""

    count: int
    until: float
    problem: str


class Pauses:
    """What keeps a host from taking an agent each second that it can't run."""

    def __init__(self, first: float) -> None:
        """Begin with pauses of so many seconds."""
        self._first = first
        self._failures = OrderedDict[str, _Failure]()

    def note(self, session_id: str, problem: str) -> bool:
        """Note that an agent could not go on; whether that is news, which should be told."""
        now = trio.current_time()
        before = self._failures.pop(session_id, None)
        if before is None or now > before.until + LONGEST:  # it has gone on in between
            before = _Failure(0, now, "")
        pause = min(self._first * 2 ** min(before.count, _MOST_DOUBLED), LONGEST)
        self._failures[session_id] = _Failure(before.count + 1, now + pause, problem)
        if len(self._failures) > _MOST:
            self._failures.popitem(last=False)
        return problem != before.problem

    def waiting(self) -> list[str]:
        """Return the agents that are not to be taken yet."""
        now = trio.current_time()
        return [session_id for session_id, each in self._failures.items() if each.until > now]
