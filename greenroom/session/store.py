"""Where sessions are kept: the protocol of a store, and the store in memory.

A store keeps a description (`SessionMetadata`) and an append-only history of lines for each
session. It knows nothing about conversations. A session exists once its description is stored.
`InMemoryStore` is the simplest implementation.
"""

import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from io import BytesIO
from typing import Protocol, Self, TypeVar, runtime_checkable

import msgspec
import trio

from greenroom.core import (
    SessionError,
    SessionNotFoundError,
    SessionStorageError,
    check_session_id,
    utc_now,
)
from greenroom.session.description import SessionMetadata
from greenroom.session.files import (
    KeepsFiles,
    SessionFile,
    check_file,
    check_file_name,
    no_file_error,
)
from greenroom.session.history import (
    History,
    Page,
    Position,
    read_backwards,
    read_history,
    read_page,
)
from greenroom.session.holders import begin_epoch, name_holder, new_store_id
from greenroom.session.listing import SessionPage, newest_first, page_of
from greenroom.session.store_errors import fenced_error, locked_error

T = TypeVar("T")
Writer = TypeVar("Writer", bound="SessionWriter")

_log = logging.getLogger("greenroom.session")


class StoredSession(msgspec.Struct, frozen=True):
    """A session as a store holds it.

    Attributes:
        metadata: its description, or None if the session does not exist (yet).
        history: its history, from the requested place on.
        path: where the history is, for people.
    """

    metadata: SessionMetadata | None
    history: History
    path: str


class StoredPage(msgspec.Struct, frozen=True):
    """The end of a session as a store holds it.

    Attributes:
        metadata: its description, or None if the session does not exist (yet).
        page: its last messages.
    """

    metadata: SessionMetadata | None
    page: Page


class StoreSurvey(msgspec.Struct, frozen=True):
    """The sessions of a store, according to their descriptions; histories are not read.

    Attributes:
        sessions: the descriptions, the last changed first.
        damaged: an error for each session left out; `session_id` says which, `hint` what to do.
    """

    sessions: tuple[SessionMetadata, ...]
    damaged: tuple[SessionError, ...]

    def log_damaged(self) -> list[SessionMetadata]:
        """Return the descriptions, and log the sessions left out."""
        for error in self.damaged:
            _log.warning("session %r is left out of the list: %s", error.session_id, error)
        return list(self.sessions)


class SessionWriter(Protocol):
    """The right to write one session, held by one writer at a time; each has its own epoch.

    A store may believe a writer to be dead that still lives, because its lock was removed or it was
    cut off from the others. So each write is made under the writer's epoch, and the next `acquire`
    ends the older epochs: every method but `read` and `release` may raise `SessionFencedError`, and
    then nothing was written. With writers on several machines, the store must check the epoch and
    write in one step, as a database transaction does.

    Every method may raise `SessionStorageError`.
    """

    @property
    def epoch(self) -> int:
        """The number of this right. It is higher than that of each earlier writer of the session.

        It is at least the milliseconds since 1970 by the wall clock. `begin_epoch` makes one from
        the last that the store knows of.
        """

    @property
    def is_broken(self) -> bool:
        """Whether a sync failed: it is uncertain what is stored, and nothing more is written."""

    async def read(self, since: Position) -> StoredSession:
        """Read the session, its history from `since` on.

        Raises:
            SessionCorruptError: the history is damaged, or what came before `since` is not there.
            SessionNotFoundError: there was a history before `since`, and it is gone.
        """

    async def append(self, line: bytes, at: Position, *, flush: bool = True) -> None:
        """Add a line at the end, which must be at this place; durable when it returns.

        Without `flush` it is durable after the next append that flushes; an empty line adds nothing
        and only flushes. If it fails or is cancelled, the line is stored as a whole or not at all.
        The store need not know which, for instance after a lost connection: the session reads from
        this place on before it writes again, and continues from what it finds. An error with
        `nothing_written` makes that unnecessary.
        """

    async def write_metadata(self, metadata: SessionMetadata) -> None:
        """Replace the description, all or nothing; durable when it returns.

        Keys written by a newer version stay, see `SessionMetadata.unknown`; `encode_metadata`
        keeps them.
        """

    async def set_aside(self, at: Position) -> str:
        """Move everything after this place out of the history; return where it is kept now."""

    async def delete(self) -> None:
        """Remove the session, all or nothing; durable when it returns.

        Readers no longer find it, its id is free, and this writer can only be released.
        """

    async def release(self) -> None:
        """Give the right back, even if it raises. A session never stored leaves nothing behind.

        A later writer keeps its right.
        """


@runtime_checkable
class ThreadedStore(Protocol):
    """A store that works in threads, and lends them for other long work."""

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Do this work, which uses no store, in one of the store's threads."""


class StoreInProcess(Protocol):
    """The part of a store whose sessions are in this process: nothing there is waited for."""

    def begin(self, session_id: str) -> SessionWriter | None:
        """Lock a session of which nothing is stored, in one step; None where `acquire` must."""


class WriterInProcess(Protocol):
    """The part of such a store's writer that waits for nothing."""

    def release_now(self) -> bool:
        """Do what `release` does, in one step; return whether it did."""


@runtime_checkable
class StoreOnDisk(Protocol):
    """A store that keeps sessions in files of its own, without a folder for each session."""

    def paths(self) -> tuple[str, ...]:
        """Return the real paths of its files and folders, which nothing else may open."""


async def run_in_thread(store: object, work: Callable[[], T]) -> T:
    """Do long work in one of the store's threads, if it has any, else after a checkpoint."""
    if isinstance(store, ThreadedStore):
        return await store.in_thread(work)
    await trio.lowlevel.checkpoint()
    return work()


@asynccontextmanager
async def release_after(writer: Writer) -> AsyncIterator[Writer]:
    """Release a writer after the block, even if cancelled."""
    try:
        yield writer
    finally:
        with trio.CancelScope(shield=True):
            await writer.release()


@runtime_checkable
class SessionStore(KeepsFiles, Protocol):
    """Keeps sessions. Reading needs no lock; to write, acquire the session's writer."""

    async def exists(self, session_id: str) -> bool:
        """Whether a session with this id is stored."""

    async def read(self, session_id: str) -> StoredSession:
        """Read a session, changing nothing.

        Raises:
            SessionCorruptError: the description or the middle of the history is damaged.
            SessionStorageError: it can't be read.
        """

    async def read_last(self, session_id: str, limit: int) -> StoredPage:
        """Read the last messages of a session, without reading what precedes them.

        `read_page` finds them, given the lines from the last one backwards.

        Raises:
            ValueError: `limit` is less than 1.
            SessionCorruptError: the description is damaged, or the end of the history before its
                last line.
            SessionStorageError: it can't be read.
        """

    async def list_all(self) -> list[SessionMetadata]:
        """Describe every stored session, the last changed first, without reading histories.

        Raises:
            SessionStorageError: the store can't be read.
        """

    async def list_page(
        self,
        after: str | None = None,
        limit: int = 100,
        *,
        agent_type: str | None = None,
        archived: bool | None = None,
    ) -> SessionPage:
        """Describe some of the sessions, the last changed first; `page_of` picks them.

        A session that changes between two pages comes to the front, and so may be in none of them.

        Args:
            after: the `after` of the page before; None for the first page.
            limit: how many sessions at most, from 1 to 1,000.
            agent_type: only those of agents of this type.
            archived: only those that are archived, or only those that are not.

        Raises:
            ValueError: the limit is none, or `after` is not that of an earlier page.
            SessionStorageError: the store can't be read.
        """

    async def acquire(self, session_id: str) -> SessionWriter:
        """Become the only writer of this session, which need not exist yet.

        Raises:
            SessionLockedError: there is another writer; the error has its process id and its
                name, if known. A writer that died, however it died, does not count.
            SessionStorageError: the store can't be written.
        """

    def folder(self, session_id: str) -> str:
        """Return a session's folder for files that belong to it, or "" if it has none."""


class StoreStatistics(msgspec.Struct, frozen=True):
    """Figures about the threads of a store; nothing on the disk is counted.

    Attributes:
        working: reads and writes that run, each in a thread.
        waiting: reads and writes that wait for a thread.
        threads: how many may run at once.
    """

    working: int
    waiting: int
    threads: int

    @classmethod
    def of(cls, limiter: trio.CapacityLimiter) -> Self:
        """Take them from the limiter of a store's threads."""
        figures = limiter.statistics()
        return cls(figures.borrowed_tokens, figures.tasks_waiting, int(figures.total_tokens))


class InMemoryStoreStatistics(msgspec.Struct, frozen=True):
    """Figures about a store in memory.

    Attributes:
        sessions: sessions that are stored.
        locked: sessions that are being written.
        bytes: the size of all histories.
    """

    sessions: int
    locked: int
    bytes: int


class _MemorySession(msgspec.Struct):
    metadata: SessionMetadata | None = None
    history: bytearray = msgspec.field(default_factory=bytearray)
    aside: list[bytes] = []
    changed: datetime = datetime.min.replace(tzinfo=UTC)
    is_locked: bool = False
    epoch: int = 0

    @property
    def description(self) -> SessionMetadata | None:
        return self.metadata and self.metadata.with_updated_at(self.changed)


class InMemoryStore:
    """Keeps sessions in memory, for tests and for agents that need not outlive the process.

    It uses no threads or files, so it works with a mock clock. It keeps the very bytes that a file
    would hold, so both stores behave alike.

    Example:
        >>> from greenroom.core import Message
        >>> from greenroom.session.agent_session import AgentSession
        >>> async def main() -> str:
        ...     store = InMemoryStore()
        ...     session = AgentSession.new("coder", session_id="mine", store=store)
        ...     session.add_message(Message.user("hello"))
        ...     await session.save()
        ...     return (await AgentSession.load("mine", store=store)).history[0].text
        >>> trio.run(main)
        'hello'
    """

    def __init__(self) -> None:
        self._sessions: dict[str, _MemorySession] = {}
        self._files: dict[str, dict[str, tuple[bytes, datetime]]] = {}
        self._id = new_store_id()
        self._last_epoch = 0

    @property
    def holder(self) -> str:
        """The name under which it holds sessions: HOST/PID/STORE."""
        return name_holder(self._id)

    def __repr__(self) -> str:
        return "InMemoryStore()"

    def statistics(self) -> InMemoryStoreStatistics:
        """Return figures about the stored sessions."""
        sessions = self._sessions.values()
        return InMemoryStoreStatistics(
            sessions=sum(each.metadata is not None for each in sessions),
            locked=sum(each.is_locked for each in sessions),
            bytes=sum(len(each.history) for each in sessions),
        )

    async def exists(self, session_id: str) -> bool:
        """Whether a session with this id is stored."""
        await trio.lowlevel.checkpoint()
        return self._find(session_id).metadata is not None

    async def read(self, session_id: str) -> StoredSession:
        """Read a session."""
        await trio.lowlevel.checkpoint()
        return _read(session_id, self._find(session_id), Position())

    async def read_last(self, session_id: str, limit: int) -> StoredPage:
        """Read the last messages of a session, without reading what precedes them."""
        await trio.lowlevel.checkpoint()
        session = self._find(session_id)
        history = session.history
        page = read_page(
            read_backwards(lambda start, stop: bytes(history[start:stop]), len(history)),
            len(history),
            limit,
            session_id=session_id,
            path=_path(session_id),
        )
        return StoredPage(session.description, page)

    async def list_all(self) -> list[SessionMetadata]:
        """Describe every stored session, the last changed first."""
        await trio.lowlevel.checkpoint()
        sessions = self._sessions.values()
        found = [each for session in sessions if (each := session.description)]
        return list(newest_first(found))

    async def list_page(
        self,
        after: str | None = None,
        limit: int = 100,
        *,
        agent_type: str | None = None,
        archived: bool | None = None,
    ) -> SessionPage:
        """Describe some of the sessions, the last changed first.

        Each page looks at all sessions, which takes 20 ms for 10,000.

        Raises:
            ValueError: the limit is not from 1 to 1,000, or `after` is not of an earlier page.
        """
        found = await self.list_all()
        return page_of(found, after, limit, agent_type=agent_type, archived=archived)

    async def acquire(self, session_id: str) -> "_MemoryWriter":
        """Become the only writer of this session.

        Raises:
            SessionLockedError: there is another writer.
        """
        await trio.lowlevel.checkpoint()
        session = self._find(session_id)
        if session.is_locked:
            raise locked_error(session_id, os.getpid(), self.holder)
        return self._lock(session_id, session)

    def begin(self, session_id: str) -> "_MemoryWriter | None":
        """Lock a session of which nothing is stored, in one step.

        Returns:
            None where there is something to wait for or to read, and where `acquire` is another's:
            a subclass, or a test, that has its own is asked.
        """
        if session_id in self._sessions or getattr(self.acquire, "__func__", None) is not _ACQUIRE:
            return None
        return self._lock(session_id, self._find(session_id))

    def _lock(self, session_id: str, session: _MemorySession) -> "_MemoryWriter":
        session.is_locked = True
        session.epoch = self._last_epoch = begin_epoch(self._last_epoch)
        self._sessions[session_id] = session
        return _MemoryWriter(session_id, session, self._sessions, self._files)

    async def put_file(self, session_id: str, name: str, data: bytes) -> None:
        """Keep a file of a session, whole or not at all; see `KeepsFiles`.

        Raises:
            ValueError: the name leads elsewhere.
            SessionError: the file is longer than 16 MB.
        """
        await trio.lowlevel.checkpoint()
        check_file(session_id, name, data)
        files = self._files.setdefault(check_session_id(session_id), {})
        files[name] = (bytes(data), utc_now())

    async def open_file(self, session_id: str, name: str) -> BytesIO:
        """Return the content of a session's file.

        Raises:
            ValueError: the name is not allowed.
            SessionNotFoundError: the session does not have this file.
        """
        await trio.lowlevel.checkpoint()
        check_file_name(name)
        found = self._files.get(check_session_id(session_id), {}).get(name)
        if found is None:
            raise no_file_error(session_id, name)
        return BytesIO(found[0])

    async def list_files(self, session_id: str) -> tuple[SessionFile, ...]:
        """Describe a session's files, by their names."""
        await trio.lowlevel.checkpoint()
        files = self._files.get(check_session_id(session_id), {})
        return tuple(
            SessionFile(name, len(data), changed) for name, (data, changed) in sorted(files.items())
        )

    async def remove_file(self, session_id: str, name: str) -> None:
        """Remove a file of a session, if there is one of this name.

        Raises:
            ValueError: the name is not allowed.
        """
        await trio.lowlevel.checkpoint()
        self._files.get(check_session_id(session_id), {}).pop(check_file_name(name), None)

    def folder(self, session_id: str) -> str:
        """Return "": there is no folder."""
        check_session_id(session_id)
        return ""

    def _find(self, session_id: str) -> _MemorySession:
        return self._sessions.get(check_session_id(session_id)) or _MemorySession()


_ACQUIRE = InMemoryStore.acquire


class _MemoryWriter:
    is_broken = False

    def __init__(
        self,
        session_id: str,
        session: _MemorySession,
        sessions: dict[str, _MemorySession],
        files: dict[str, dict[str, tuple[bytes, datetime]]],
    ) -> None:
        self._files = files
        self._session_id = session_id
        self._session = session
        self._sessions = sessions
        self.epoch = session.epoch

    async def read(self, since: Position) -> StoredSession:
        await trio.lowlevel.checkpoint()
        return _read(self._session_id, self._session, since)

    async def append(self, line: bytes, at: Position, *, flush: bool = True) -> None:
        await self._check_epoch()
        if len(self._session.history) != at.size:
            raise SessionStorageError(
                f"the history of {self._session_id!r} was changed by another writer",
                session_id=self._session_id,
                nothing_written=True,
            )
        self._session.history += line
        self._session.changed = utc_now()

    async def write_metadata(self, metadata: SessionMetadata) -> None:
        await self._check_epoch()
        known = self._session.metadata
        if known is not None and known.unknown:
            unknown = {**known.unknown, **(metadata.unknown or {})}
            metadata = msgspec.structs.replace(metadata, unknown=unknown)
        self._session.metadata = metadata

    async def set_aside(self, at: Position) -> str:
        await self._check_epoch()
        session = self._session
        session.aside.append(bytes(session.history[at.size :]))
        del session.history[at.size :]
        return f"memory:{self._session_id}.torn.{len(session.aside)}"

    async def set_changed(self, moment: datetime) -> None:
        await self._check_epoch()
        self._session.changed = moment

    async def delete(self) -> None:
        await self._check_epoch()
        del self._sessions[self._session_id]
        self._files.pop(self._session_id, None)

    async def release(self) -> None:
        await trio.lowlevel.checkpoint()
        self._unlock()

    def release_now(self) -> bool:
        if "release" in vars(self):  # it is another's, such as a test's
            return False
        self._unlock()
        return True

    def _unlock(self) -> None:
        if not self._is_current:
            return
        self._session.is_locked = False
        if self._session.metadata is None and not self._session.history:
            del self._sessions[self._session_id]

    @property
    def _is_current(self) -> bool:
        session = self._session
        return session.epoch == self.epoch and self._sessions.get(self._session_id) is session

    async def _check_epoch(self) -> None:
        await trio.lowlevel.checkpoint()
        if not self._is_current:
            raise fenced_error(self._session_id, os.getpid())


def _read(session_id: str, session: _MemorySession, since: Position) -> StoredSession:
    path = _path(session_id)
    if since.lines and not session.history:
        raise SessionNotFoundError(f"{path} was removed", session_id=session_id)
    data = bytes(session.history[since.size - len(since.last) :])
    history = read_history(data, session_id=session_id, path=path, since=since)
    return StoredSession(session.description, history, path)


def _path(session_id: str) -> str:
    return f"memory:{session_id}"
