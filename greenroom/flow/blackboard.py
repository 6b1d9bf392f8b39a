"""`Blackboard`: values that several agents read and write, with protection from stale writes."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Self

import msgspec
import trio

from greenroom.core import utc_now
from greenroom.core._internal import Wire, freeze_fields, serde
from greenroom.flow.errors import BlackboardFullError, StaleWriteError
from greenroom.runtime._internal import calling_agent
from greenroom.session import AgentSession

_KIND = "teams.blackboard"
_LONGEST = 200_000  # bytes of JSON; with its frame, it fits into a record of a session


class BlackboardEntry(Wire, frozen=True):
    """A value on a blackboard, with its author.

    Attributes:
        key: its name.
        value: any JSON value.
        version: 1 for the first value of this key, then counting up.
        author: the name of the agent that wrote it; empty for a person or program.
        at: when it was written (UTC, to the second).
    """

    key: str
    value: object
    version: int
    author: str = ""
    at: datetime = msgspec.field(default_factory=utc_now)

    def __post_init__(self) -> None:
        freeze_fields(self, "value")


class Blackboard:
    """Keeps JSON values by name for several agents, with compare-and-set.

    Pass it to the agents as an argument. Without a session, the values live as long as the object.
    With one, they are stored there as records: once `put` returns, the value survives a kill, and a
    new board with the loaded session has it. Only the program or one agent, such as the lead, may
    write the session. Create a new board after a rewind.

    Args:
        session: the session that stores the values.
        name: distinguishes several boards in one session.
        max_keys: the most keys; each value has at most 200,000 bytes.

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
        self, session: AgentSession | None = None, *, name: str = "", max_keys: int = 1000
    ) -> None:
        self._session = session
        self._name = name
        self._max_keys = max_keys
        self._entries: dict[str, BlackboardEntry] = {}
        self._changed = trio.Event()  # replaced with each write
        for record in session.records(_KIND) if session else ():
            stored = serde.convert(record, _StoredEntry)
            if stored.board == name:
                self._entries[stored.entry.key] = stored.entry

    def get(self, key: str) -> BlackboardEntry | None:
        """Return the entry, or None if the key was never written."""
        return self._entries.get(key)

    def entries(self) -> tuple[BlackboardEntry, ...]:
        """Return all entries, in the order in which their keys were first written."""
        return tuple(self._entries.values())

    async def put(
        self, key: str, value: object, version: int, *, author: str = ""
    ) -> BlackboardEntry:
        """Write a value, unless another one was written since it was read.

        If several tasks write with the same version, exactly one succeeds; so a key can be used to
        claim a task. If this is cancelled at first, nothing is written; if it is cancelled while
        storing, the value is set, and the session's next save stores it.

        Args:
            key: its name.
            value: any JSON value; a copy is kept.
            version: the version of the entry that it replaces, 0 for a new key.
            author: the author, by default the name of the calling agent.

        Raises:
            StaleWriteError: the key has another version; nothing was written.
            BlackboardFullError: the board has `max_keys` keys, or the value is too long.
            InvalidJSONError: the value can't be converted to JSON.
            SessionError: the value was set but could not be stored; the next save stores it.
        """
        plain = serde.plain(value, f"the value of {key!r}")
        if not author and (caller := calling_agent()):
            author = caller.name
        await trio.lowlevel.checkpoint()
        self._check(key, version, plain)
        entry = BlackboardEntry(key, plain, version + 1, author)
        if self._session is not None:
            record = _StoredEntry(self._name, entry)
            self._session.add_record(_KIND, serde.loads(serde.encode(record)))
        self._entries[key] = entry
        self._changed.set()
        self._changed = trio.Event()
        if self._session is not None:
            await self._session.save()
        return entry

    def _check(self, key: str, version: int, value: serde.JSON) -> None:
        present = self._entries.get(key)
        now = present.version if present else 0
        if version != now:
            raise StaleWriteError(
                f"{key!r} was written over version {version}, but has version {now}",
                key=key,
                version=now,
            )
        if present is None and len(self._entries) >= self._max_keys:
            raise BlackboardFullError(
                f"the blackboard is full: it has {self._max_keys} keys, and {key!r} is new"
            )
        size = len(key) + len(serde.dumps(value))
        if size > _LONGEST:
            raise BlackboardFullError(f"the value of {key!r} has {size:,} bytes of {_LONGEST:,}")

    def watch(self, key: str) -> AsyncIterator[BlackboardEntry]:
        """Iterate over the values of a key: the present one, if any, then newer ones, endlessly.

        Values are not queued: a slow reader gets the newest, and can tell by `version` how many it
        missed. The iterator needs no closing.
        """
        return _Watch(self, key)


class _StoredEntry(Wire, frozen=True):
    """An entry as a record of the session."""

    board: str
    entry: BlackboardEntry


class _Watch:
    """Yields the newest value of a key whenever it changes."""

    def __init__(self, board: Blackboard, key: str) -> None:
        self._board = board
        self._key = key
        self._last_version = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> BlackboardEntry:
        await trio.lowlevel.checkpoint()
        while (entry := self._board.get(self._key)) is None or entry.version <= self._last_version:
            await self._board._changed.wait()
        self._last_version = entry.version
        return entry
