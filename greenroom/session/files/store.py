"""Sessions in files: `<folder>/<session id>/metadata.json` and `history.jsonl`.

Files are for this user alone (0600, folders 0700). Everything runs in threads, under a limit of the
store's own: tool threads that hang can't keep a session from being saved, and sessions sync side by
side. No thread is abandoned on cancellation: what has begun to be written is written.
"""

import logging
import os
from collections.abc import Callable
from typing import TypeVar

import trio

from greenroom.core import (
    InvalidSessionIdError,
    SessionError,
    SessionNotFoundError,
    check_session_id,
)
from greenroom.session.files import durable
from greenroom.session.files.folder import (
    last_change,
    read_last,
    read_session,
    settled,
    storage_error,
)
from greenroom.session.files.lock import HeldError, lock
from greenroom.session.files.writer import FileWriter
from greenroom.session.history.lines import START
from greenroom.session.history.page import check_count
from greenroom.session.holder import locked_error
from greenroom.session.metadata import SessionMetadata, decode_metadata
from greenroom.session.repair import RepairReport
from greenroom.session.statistics import StoreStatistics
from greenroom.session.store import StoredPage, StoredSession

__all__ = ["FileStore", "default_store"]

T = TypeVar("T")

_log = logging.getLogger("greenroom.session")
_THREADS = 32  # as many sessions sync at once; more would only queue at the disk


class FileStore:
    """Keeps each session in a folder of its own, below one folder; made at the first save.

    What a save has returned for survives `kill -9`, and a loss of power on a disk that honours
    flushes. A session has one writer, in whatever process; readers need no lock.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Name the folder; nothing is read or made yet."""
        self._folder = os.path.abspath(folder)
        self._limiter = trio.CapacityLimiter(_THREADS)
        self._is_safe = False  # whether the folder's own name is known to be on the disk

    def __repr__(self) -> str:
        return f"FileStore({self._folder!r})"

    def statistics(self) -> StoreStatistics:
        """Return figures about the store's threads."""
        return StoreStatistics.of(self._limiter)

    async def exists(self, session_id: str) -> bool:
        """Whether a session of this id is stored."""
        path = os.path.join(self.folder(session_id), "metadata.json")
        return await self._run(session_id, lambda: os.path.exists(path))

    async def read(self, session_id: str) -> StoredSession:
        """Read a session as it stands, changing nothing.

        Raises:
            SessionCorruptError: the description or the middle of the history is damaged.
            SessionStorageError: a file can't be read.
        """
        folder = self.folder(session_id)
        return await self._run(
            session_id, lambda: settled(lambda: read_session(folder, session_id, START))
        )

    async def read_last(self, session_id: str, count: int) -> StoredPage:
        """Read the last messages of a session as it stands; of its history no more than that takes.

        Raises:
            ValueError: `count` is less than 1.
            SessionCorruptError: the description is damaged, or the end of the history but for its
                last line.
            SessionStorageError: a file can't be read.
        """
        check_count(count)
        folder = self.folder(session_id)
        return await self._run(
            session_id, lambda: settled(lambda: read_last(folder, session_id, count))
        )

    async def list_all(self) -> list[SessionMetadata]:
        """Describe every stored session, the last changed first; histories are not read.

        Anything else in the folder is passed over. A description that can't be read is logged.

        Raises:
            SessionStorageError: the folder can't be read.
        """
        found = await self._run("", self._list)
        return sorted(found, key=lambda each: (each.updated_at, each.session_id), reverse=True)

    async def acquire(self, session_id: str) -> FileWriter:
        """Become the one writer of this session, in this process and all others.

        Raises:
            SessionLockedError: somebody else is; it carries the process id.
            SessionStorageError: the folder can't be written.
        """
        folder = self.folder(session_id)
        try:
            fd = await self._run(session_id, lambda: self._lock(folder))
        except HeldError as error:
            raise locked_error(session_id, error.pid) from None
        return FileWriter(session_id, folder, fd, self._limiter)

    async def salvage(self, session_id: str) -> RepairReport | None:
        """Make a damaged session usable again, at the price of what follows the damage.

        The lines before the first damaged one stay; it and all after it are moved into a file beside
        the history, byte for byte.

        Returns:
            What was set aside and where, or None where nothing was damaged.

        Raises:
            SessionNotFoundError: there is no such session.
            SessionLockedError: somebody writes it.
            SessionStorageError: the disk refused.
        """
        if not await self.exists(session_id):
            raise SessionNotFoundError(
                f"there is no session {session_id!r} in {self!r}", session_id=session_id
            )
        writer = await self.acquire(session_id)
        try:
            return await writer.salvage()
        finally:
            with trio.CancelScope(shield=True):
                await writer.release()

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Do this work in one of the store's threads; no thread is abandoned on cancellation."""
        return await trio.to_thread.run_sync(work, limiter=self._limiter)

    def folder(self, session_id: str) -> str:
        """Return a session's folder, where files that belong to it may lie beside its own.

        Raises:
            InvalidSessionIdError: the id could lead out of the store.
        """
        return os.path.join(self._folder, check_session_id(session_id))

    def _lock(self, folder: str) -> int:
        if not self._is_safe:
            durable.make_folder(self._folder)
            durable.sync_folders_above(self._folder)
            self._is_safe = True
        return lock(folder)

    async def _run(self, session_id: str, work: Callable[[], T]) -> T:
        try:
            return await trio.to_thread.run_sync(work, limiter=self._limiter)
        except OSError as error:
            raise storage_error(error, session_id, self._folder) from error

    def _list(self) -> list[SessionMetadata]:
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return []
        return [found for name in names if (found := self._describe(name)) is not None]

    def _describe(self, name: str) -> SessionMetadata | None:
        try:
            folder = self.folder(name)
            path = os.path.join(folder, "metadata.json")
            data = durable.read_bytes(path)
            if data is None:
                return None
            metadata = decode_metadata(data, session_id=name, path=path)
            return metadata.touched(last_change(folder))
        except (InvalidSessionIdError, NotADirectoryError):
            return None
        except (OSError, SessionError) as error:
            _log.warning("session %s is left out of the list: %s", name, error)
            return None


def default_store() -> FileStore:
    """Return the store used where none is named: the folder `sessions` in the working directory."""
    return FileStore("sessions")
