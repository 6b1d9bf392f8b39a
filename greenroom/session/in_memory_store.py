"""Sessions in memory, for tests and for agents that need not outlive the process."""

import os
from datetime import UTC, datetime

import msgspec
import trio

from greenroom.core import SessionNotFoundError, SessionStorageError, check_session_id, clock
from greenroom.session.description import SessionMetadata
from greenroom.session.history import Position, backwards, read_on, read_page
from greenroom.session.store import (
    MemoryStoreStatistics,
    StoredPage,
    StoredSession,
    fenced_error,
    locked_error,
    newest_first,
)


class _Kept(msgspec.Struct):
    metadata: SessionMetadata | None = None
    history: bytearray = msgspec.field(default_factory=bytearray)
    aside: list[bytes] = []
    changed: datetime = datetime.min.replace(tzinfo=UTC)
    is_locked: bool = False
    epoch: int = 0

    @property
    def described(self) -> SessionMetadata | None:
        return self.metadata and self.metadata.touched(self.changed)


class MemoryStore:
    """Keeps sessions as long as it lives; without threads or files, so any clock may be mocked.

    Sessions keep the very bytes that a file would hold, so both stores behave alike.

    Example:
        >>> from greenroom.core import Message
        >>> from greenroom.session import AgentSession
        >>> async def main() -> str:
        ...     store = MemoryStore()
        ...     session = AgentSession.new("coder", session_id="mine", store=store)
        ...     session.add_message(Message.user("hello"))
        ...     await session.save()
        ...     return (await AgentSession.load("mine", store=store)).history[0].text
        >>> trio.run(main)
        'hello'
    """

    def __init__(self) -> None:
        """Make an empty store."""
        self._sessions: dict[str, _Kept] = {}

    def __repr__(self) -> str:
        return "MemoryStore()"

    def statistics(self) -> MemoryStoreStatistics:
        """Return figures about what is stored."""
        kept = self._sessions.values()
        return MemoryStoreStatistics(
            sessions=sum(each.metadata is not None for each in kept),
            locked=sum(each.is_locked for each in kept),
            bytes=sum(len(each.history) for each in kept),
        )

    async def exists(self, session_id: str) -> bool:
        """Whether a session of this id is stored."""
        await trio.lowlevel.checkpoint()
        return self._kept(session_id).metadata is not None

    async def read(self, session_id: str) -> StoredSession:
        """Read a session as it stands."""
        await trio.lowlevel.checkpoint()
        return _read(session_id, self._kept(session_id), Position())

    async def read_last(self, session_id: str, count: int) -> StoredPage:
        """Read the last messages of a session as it stands, without reading what precedes them."""
        await trio.lowlevel.checkpoint()
        kept = self._kept(session_id)
        history = kept.history
        page = read_page(
            backwards(lambda start, stop: bytes(history[start:stop]), len(history)),
            len(history),
            count,
            session_id=session_id,
            path=_path(session_id),
        )
        return StoredPage(kept.described, page)

    async def list_all(self) -> list[SessionMetadata]:
        """Describe every stored session, the last changed first."""
        await trio.lowlevel.checkpoint()
        kept = self._sessions.values()
        found = [described for each in kept if (described := each.described)]
        return list(newest_first(found))

    async def acquire(self, session_id: str) -> "_MemoryWriter":
        """Become the one writer of this session.

        Raises:
            SessionLockedError: somebody else is.
        """
        await trio.lowlevel.checkpoint()
        kept = self._kept(session_id)
        if kept.is_locked:
            raise locked_error(session_id, os.getpid())
        kept.is_locked = True
        kept.epoch += 1
        self._sessions[session_id] = kept
        return _MemoryWriter(session_id, kept, self._sessions)

    def folder(self, session_id: str) -> str:
        """Return "": there are no files."""
        check_session_id(session_id)
        return ""

    def _kept(self, session_id: str) -> _Kept:
        return self._sessions.get(check_session_id(session_id)) or _Kept()


class _MemoryWriter:
    is_broken = False

    def __init__(self, session_id: str, kept: _Kept, sessions: dict[str, _Kept]) -> None:
        self._session_id = session_id
        self._kept = kept
        self._sessions = sessions
        self._epoch = kept.epoch

    async def read(self, since: Position) -> StoredSession:
        await trio.lowlevel.checkpoint()
        return _read(self._session_id, self._kept, since)

    async def append(self, line: bytes, at: Position, *, flush: bool = True) -> None:
        await self._checkpoint_held()
        if len(self._kept.history) != at.size:
            raise SessionStorageError(
                f"the history of {self._session_id!r} was changed by another writer",
                session_id=self._session_id,
                nothing_written=True,
            )
        self._kept.history += line
        self._kept.changed = clock.now()

    async def write_metadata(self, metadata: SessionMetadata) -> None:
        await self._checkpoint_held()
        known = self._kept.metadata
        if known is not None and known.unknown:
            unknown = {**known.unknown, **(metadata.unknown or {})}
            metadata = msgspec.structs.replace(metadata, unknown=unknown)
        self._kept.metadata = metadata

    async def set_aside(self, at: Position) -> str:
        await self._checkpoint_held()
        kept = self._kept
        kept.aside.append(bytes(kept.history[at.size :]))
        del kept.history[at.size :]
        return f"memory:{self._session_id}.torn.{len(kept.aside)}"

    async def delete(self) -> None:
        await self._checkpoint_held()
        del self._sessions[self._session_id]

    async def release(self) -> None:
        await trio.lowlevel.checkpoint()
        if not self._is_current:
            return
        self._kept.is_locked = False
        if self._kept.metadata is None and not self._kept.history:
            del self._sessions[self._session_id]

    @property
    def _is_current(self) -> bool:
        kept = self._kept
        return kept.epoch == self._epoch and self._sessions.get(self._session_id) is kept

    async def _checkpoint_held(self) -> None:
        await trio.lowlevel.checkpoint()
        if not self._is_current:
            raise fenced_error(self._session_id, os.getpid())


def _read(session_id: str, kept: _Kept, since: Position) -> StoredSession:
    path = _path(session_id)
    if since.lines and not kept.history:
        raise SessionNotFoundError(f"{path} was removed", session_id=session_id)
    data = bytes(kept.history[since.size - len(since.last) :])
    history = read_on(data, session_id=session_id, path=path, since=since)
    return StoredSession(kept.described, history, path)


def _path(session_id: str) -> str:
    return f"memory:{session_id}"
