"""`Blackboard`: values that several agents read and write, none of which undoes what another has written."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Self

import msgspec
import trio

from greenroom.core import BlackboardFullError, StaleWriteError, Wire, clock, serde
from greenroom.runtime import calling_agent
from greenroom.session import AgentSession

_KIND = "teams.blackboard"
_LONGEST = 200_000  # bytes of JSON; with its frame, it fits into a record of a session


class BlackboardEntry(Wire, frozen=True):
    """A value on a blackboard, and who wrote it.

    Attributes:
        key: its name.
        value: any JSON value.
        version: 1 for the first value of this key, and one more for each that follows.
        author: the name of the agent that wrote it; empty for a person or program.
        at: when it was written (UTC, to the second).
    """

    key: str
    value: object
    version: int
    author: str = ""
    at: datetime = msgspec.field(default_factory=clock.now)


@dataclass(frozen=True)
class BlackboardStatistics:
    """Figures about a blackboard.

    Attributes:
        keys: how many there are.
        watchers: how many tasks wait for a new value.
        stale_writes: how many writes were refused because the value had changed.
    """

    keys: int
    watchers: int
    stale_writes: int


class Blackboard:
    """Keeps JSON values by name for several agents, with compare-and-set.

    Give it to the agents as an argument. Without a session it is as long-lived as the object. With one, its
    values are records there: what `put` has returned survives a kill, and a board that is made with the
    loaded session has it. The session is one that the program or one agent writes, such as the lead's;
    make the board anew after a rewind.

    Args:
        session: where the values are kept.
        name: tells several boards in one session apart.
        limit: how many keys it may have; each value is at most 200,000 bytes long.

    Example:
        >>> async def main():
        ...     board = Blackboard()
        ...     entry = await board.put("rainfall", 940, 0, author="researcher")
        ...     await board.put("rainfall", 950, entry.version, author="editor")
        ...     return board.get("rainfall").value, board.get("rainfall").author
        >>> trio.run(main)
        (950, 'editor')
    """

    def __init__(
        self, session: AgentSession | None = None, *, name: str = "", limit: int = 1000
    ) -> None:
        """Begin with what the session holds."""
        self._session = session
        self._name = name
        self._limit = limit
        self._entries: dict[str, BlackboardEntry] = {}
        # The tasks that wait for a key; a lot is there only while someone waits in it.
        self._lots: dict[str, trio.lowlevel.ParkingLot] = {}
        self._stale_writes = 0
        for record in session.records(_KIND) if session else ():
            stored = msgspec.convert(record, _Record)
            if stored.board == name:
                self._entries[stored.entry.key] = stored.entry

    def get(self, key: str) -> BlackboardEntry | None:
        """Return a copy of what is there; None where nothing was written."""
        entry = self._entries.get(key)
        return None if entry is None else _copy(entry)

    def entries(self) -> tuple[BlackboardEntry, ...]:
        """Return a copy of all that is there, and who wrote what, in the order of the keys' first values."""
        return tuple(map(_copy, self._entries.values()))

    async def put(
        self, key: str, value: object, version: int, *, author: str = ""
    ) -> BlackboardEntry:
        """Write a value, if nobody else has written since it was read.

        Of several who write with one version, exactly one succeeds; so a key claims what only one is
        to do. Cancelled before that, nothing is written; cancelled while it is being stored, the value
        counts, and the session's next save stores it.

        Args:
            key: its name.
            value: any JSON value, of which a copy is kept.
            version: that of the entry which it takes the place of, 0 where there is none.
            author: who writes, by default the name of the agent that calls.

        Raises:
            StaleWriteError: the key has another version; nothing was written.
            BlackboardFullError: there are as many keys as the limit allows, or the value is too long.
            InvalidJSONError: the value is something that JSON can't express.
            SessionError: it could not be stored now; it counts, and the next save stores it.
        """
        plain = serde.plain(value, f"the value of {key!r}")
        if not author and (caller := calling_agent()):
            author = caller.name
        await trio.lowlevel.checkpoint()
        self._check(key, version, plain)
        entry = BlackboardEntry(key, plain, version + 1, author)
        if self._session is not None:
            record = _Record(self._name, entry)
            self._session.add_record(_KIND, serde.loads(serde.encode(record)))
        self._entries[key] = entry
        if lot := self._lots.pop(key, None):
            lot.unpark_all()
        if self._session is not None:
            await self._session.save()
        return _copy(entry)

    def _check(self, key: str, version: int, value: serde.JSON) -> None:
        present = self._entries.get(key)
        now = present.version if present else 0
        if version != now:
            self._stale_writes += 1
            raise StaleWriteError(
                f"{key!r} was to be written over version {version}, and has version {now}",
                key=key,
                version=now,
            )
        if present is None and len(self._entries) >= self._limit:
            raise BlackboardFullError(f"the blackboard has {self._limit} keys, and {key!r} is new")
        size = len(key) + len(serde.dumps(value))
        if size > _LONGEST:
            raise BlackboardFullError(f"the value of {key!r} has {size:,} bytes of {_LONGEST:,}")

    def watch(self, key: str) -> AsyncIterator[BlackboardEntry]:
        """Iterate over the values of a key: the present one, if any, then each newer one, for ever.

        It keeps nothing back: who is slow gets the newest, and sees by `version` how many it passed over.
        It may be left at any moment, without being closed.
        """
        return _Watch(self, key)

    async def _wait_for_change(self, key: str) -> None:
        lot = self._lots.setdefault(key, trio.lowlevel.ParkingLot())
        try:
            await lot.park()
        finally:  # a write has taken the lot away already; a cancel has not
            if not lot and self._lots.get(key) is lot:
                del self._lots[key]

    def statistics(self) -> BlackboardStatistics:
        """Return figures about what is kept, and what was refused."""
        watchers = sum(map(len, self._lots.values()))
        return BlackboardStatistics(len(self._entries), watchers, self._stale_writes)


def _copy(entry: BlackboardEntry) -> BlackboardEntry:
    """Make one that a reader may change: what is on the board is changed by `put` alone."""
    return serde.decode(serde.encode(entry), BlackboardEntry)


class _Record(Wire, frozen=True):
    """An entry as its session keeps it."""

    board: str
    entry: BlackboardEntry


class _Watch:
    """The newest value of a key, again and again."""

    def __init__(self, board: Blackboard, key: str) -> None:
        self._board = board
        self._key = key
        self._last_version = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> BlackboardEntry:
        await trio.lowlevel.checkpoint()
        while (entry := self._board.get(self._key)) is None or entry.version <= self._last_version:
            await self._board._wait_for_change(self._key)
        self._last_version = entry.version
        return entry
