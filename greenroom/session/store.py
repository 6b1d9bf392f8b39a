"""Where sessions are kept: the protocol of a store, and what it returns.

A store keeps a description (`SessionMetadata`) and an append-only history of lines for each
session. It knows nothing about conversations. A session exists once its description is stored.
`InMemoryStore` (`memory_store`) is the simplest implementation.
"""

import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Protocol, Self, TypeVar, runtime_checkable

import msgspec
import trio

from greenroom.core import SessionError
from greenroom.session.description import SessionMetadata
from greenroom.session.files import KeepsFiles
from greenroom.session.history import START, History, Page, Position, read_history, read_page
from greenroom.session.listing import SessionPage

T = TypeVar("T")
Writer = TypeVar("Writer", bound="SessionWriter")

_log = logging.getLogger("greenroom.session")

_CLEAN_UP = 5.0  # seconds in which what is left of a session that could not be stored is removed


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

    @classmethod
    def read(
        cls,
        data: bytes,
        metadata: SessionMetadata | None,
        *,
        session_id: str,
        path: str,
        since: Position = START,
    ) -> Self:
        """Read and verify lines, in a store that has them as bytes, from the place `since` on.

        `data` begins with the line before that place, if there is one.

        Raises:
            SessionCorruptError: it begins with another line, or a damaged line is followed by
                others.
            SessionError: the history is of a newer format.
        """
        history = read_history(data, session_id=session_id, path=path, since=since)
        return cls(metadata, history, path)


class StoredPage(msgspec.Struct, frozen=True):
    """The end of a session as a store holds it.

    Attributes:
        metadata: its description, or None if the session does not exist (yet).
        page: its last messages.
    """

    metadata: SessionMetadata | None
    page: Page

    @classmethod
    def read(
        cls,
        blocks: Iterable[bytes],
        size: int,
        limit: int,
        metadata: SessionMetadata | None,
        *,
        session_id: str,
        path: str,
    ) -> Self:
        """Read the last `limit` messages of a history of `size` bytes, given from its end on.

        A block is any number of bytes, such as a line; no more of them are taken than are needed.

        Raises:
            ValueError: `limit` is less than 1.
            SessionCorruptError: a damaged line is followed by others, or bytes are missing.
            SessionError: a line is of a newer format.
        """
        return cls(metadata, read_page(blocks, size, limit, session_id=session_id, path=path))


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

        It is at least the milliseconds since 1970 by the wall clock. It is above the
        last one that the store knows of.
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

        Keys written by a newer version stay, see `SessionMetadata.unknown`; `encode` keeps
        them.
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


class _New(Protocol):
    """A session that is about to be stored for the first time."""

    @property
    def session_id(self) -> str: ...
    @property
    def store(self) -> "SessionStore | None": ...


@asynccontextmanager
async def whole_or_nothing(session: _New) -> AsyncIterator[None]:
    """Remove a new session with its files if the block fails: nobody else knows its id."""
    try:
        yield
    except BaseException:
        with trio.move_on_after(_CLEAN_UP, shield=True), suppress(SessionError):
            if session.store is not None:
                async with release_after(await session.store.acquire(session.session_id)) as writer:
                    await writer.delete()
        raise


@runtime_checkable
class SessionStore(KeepsFiles, Protocol):
    """Keeps sessions. Reading needs no lock; to write, acquire the session's writer.

    A Ctrl-C can't break off a step of what a session calls to open, save or close: it is raised
    where the program waits next. So what takes long belongs in a thread.
    """

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
        """Describe some of the sessions, the last changed first; `SessionPage.of` picks them.

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
