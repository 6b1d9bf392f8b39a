"""Sessions in files: `metadata.json` and `history.jsonl` in a folder named after the session's id.

Only this user can access the files (0600, folders 0700). Reads and saves run in threads of their
own, so hanging tool threads can't keep a session from being saved. Three threads save all sessions:
more of them would wait for the disk, and for the interpreter, while each goes on at once with what
waits. A short line that needs no sync is written on the event loop, see `LoopWrites`. No thread is
abandoned on cancellation: a write that has begun is finished.
"""

import os
from collections.abc import Callable
from io import BytesIO
from typing import TypeVar

import trio

from greenroom.core import SessionError
from greenroom.core._internal import check_session_id
from greenroom.fs._internal import FolderLockedError, LoopWrites, durable, lock, lock_as
from greenroom.session import folder_files
from greenroom.session.description import SessionMetadata
from greenroom.session.files import SessionFile
from greenroom.session.folder_names import (
    folder_name,
    has_name,
    is_hashed,
    may_be_folder,
    was_plain,
)
from greenroom.session.history import START, RepairReport, check_count
from greenroom.session.holders import begin_file_epoch, name_holder, new_store_id
from greenroom.session.listing import SessionPage, newest_first
from greenroom.session.session_folder import (
    FileWriter,
    is_undescribed,
    metadata_path,
    read_described_id,
    read_last,
    read_metadata,
    read_session,
    read_until_stable,
    storage_error,
)
from greenroom.session.store import (
    SessionStore,
    StoredPage,
    StoredSession,
    StoreStatistics,
    StoreSurvey,
    release_after,
)
from greenroom.session.store_errors import locked_error, unknown_error
from greenroom.threads._internal import FileThreads, SharedThreads

T = TypeVar("T")

_READERS = 32
_WRITERS = 3


class FileStore:
    """Keeps each session in its own folder below one folder, which the first save creates.

    What `save` has acknowledged survives `kill -9`, and a loss of power if the disk honours
    flushes. A session has one writer among all processes; readers need no lock.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Set the folder; nothing is read or created yet."""
        self._folder = os.path.abspath(folder)
        self._place = os.path.realpath(folder)  # links resolved
        self._readers = FileThreads("reading sessions", _READERS)
        self._threads = SharedThreads("sessions", _WRITERS)
        self._writes = LoopWrites()
        self._id = new_store_id()
        self._is_safe = False  # whether the folder's own name is known to be on the disk

    def __repr__(self) -> str:
        return f"FileStore({self._folder!r})"

    def __eq__(self, other: object) -> bool:
        """Whether both keep the same sessions: stores of one folder are equal."""
        return isinstance(other, FileStore) and self._place == other._place

    def __hash__(self) -> int:
        return hash(self._place)

    @property
    def holder(self) -> str:
        """The name under which it holds sessions: HOST/PID/STORE."""
        return name_holder(self._id)

    def statistics(self) -> StoreStatistics:
        """Return figures about the store's threads."""
        reads, writes = self._readers.limiter.statistics(), self._threads.figures()
        return StoreStatistics(
            reads.borrowed_tokens + writes.working,
            reads.tasks_waiting + writes.waiting,
            int(reads.total_tokens) + writes.threads,
        )

    async def exists(self, session_id: str) -> bool:
        """Whether a session with this id is stored."""
        return await self._run(session_id, lambda folder: os.path.exists(metadata_path(folder)))

    async def read(self, session_id: str) -> StoredSession:
        """Read a session, changing nothing.

        Raises:
            SessionCorruptError: the description or the middle of the history is damaged.
            SessionStorageError: a file can't be read.
        """
        return await self._run(
            session_id,
            lambda folder: read_until_stable(lambda: read_session(folder, session_id, START)),
        )

    async def read_last(self, session_id: str, limit: int) -> StoredPage:
        """Read the last messages of a session, without reading what precedes them.

        Raises:
            ValueError: `limit` is less than 1.
            SessionCorruptError: the description is damaged, or the end of the history before its
                last line.
            SessionStorageError: a file can't be read.
        """
        check_count(limit)
        return await self._run(
            session_id,
            lambda folder: read_until_stable(lambda: read_last(folder, session_id, limit)),
        )

    async def list_all(self) -> list[SessionMetadata]:
        """Describe every stored session, the last changed first, without reading histories.

        Anything else in the folder is ignored. A session that can't be listed is logged; `survey`
        returns the reasons.

        Raises:
            SessionStorageError: the folder can't be read.
        """
        return (await self.survey()).log_damaged()

    async def list_page(
        self,
        after: str | None = None,
        limit: int = 100,
        *,
        agent_type: str | None = None,
        archived: bool | None = None,
    ) -> SessionPage:
        """Describe some of the sessions, the last changed first; see `SessionStore.list_page`.

        Each page reads the descriptions of all sessions, and no history: a quarter of a second for
        10,000 sessions.

        Raises:
            ValueError: the limit is not from 1 to 1,000, or `after` is not of an earlier page.
            SessionStorageError: the store can't be read.
        """
        found = await self.survey()
        sessions = found.log_damaged() if after is None else found.sessions
        return SessionPage.of(sessions, after, limit, agent_type=agent_type, archived=archived)

    async def survey(self) -> StoreSurvey:
        """Describe every stored session, and say which are damaged, without reading histories.

        Raises:
            SessionStorageError: the folder can't be read.
        """
        return await self._in_thread("", self._survey)

    async def acquire(self, session_id: str) -> FileWriter:
        """Become the only writer of this session, in this process and all others.

        Raises:
            SessionLockedError: there is another writer; the error has its process id and name.
            SessionStorageError: the folder can't be written.
        """
        try:
            folder, fd, epoch = await self._run(session_id, self._lock)
        except FolderLockedError as error:
            raise locked_error(session_id, error.pid, error.holder) from None
        return FileWriter(session_id, folder, fd, self._threads, self._writes, epoch)

    async def salvage(self, session_id: str) -> RepairReport | None:
        """Make a damaged session usable again, with everything that can be verified.

        The lines before the first damaged one stay. Everything after them is moved into a file
        beside the history, and the lines of it that verify are written again, after a message that
        says what is missing. A damaged or missing description is reconstructed.

        Returns:
            What was set aside and where, what was kept and what was lost; None if nothing was
            damaged.

        Raises:
            SessionNotFoundError: the session is not stored.
            SessionLockedError: another writer has it.
            SessionStorageError: the disk refused.
        """
        if not await self._run(session_id, os.path.exists):
            raise unknown_error(session_id, self)
        relatives = [each for each in await self.list_all() if each.session_id != session_id]
        async with release_after(await self.acquire(session_id)) as writer:
            return await writer.salvage(relatives)

    async def put_file(self, session_id: str, name: str, data: bytes) -> None:
        """Keep a file of a session, whole or not at all; see `KeepsFiles`.

        Raises:
            ValueError: the name leads elsewhere.
            SessionError: the file is longer than 16 MB.
            SessionStorageError: the disk refused.
        """
        SessionFile.check(session_id, name, data)
        await self._run(session_id, lambda folder: folder_files.put_file(folder, name, data))

    async def open_file(self, session_id: str, name: str) -> BytesIO:
        """Return the content of a session's file.

        Raises:
            ValueError: the name is not allowed.
            SessionNotFoundError: the session does not have this file.
            SessionStorageError: it can't be read.
        """
        SessionFile.check_name(name)
        return await self._run(
            session_id, lambda folder: folder_files.open_file(folder, session_id, name)
        )

    async def list_files(self, session_id: str) -> tuple[SessionFile, ...]:
        """Describe a session's files, by their names.

        Raises:
            SessionStorageError: they can't be read.
        """
        return await self._run(session_id, folder_files.list_files)

    async def remove_file(self, session_id: str, name: str) -> None:
        """Remove a file of a session, if there is one of this name.

        Raises:
            ValueError: the name is not allowed.
            SessionStorageError: the disk refused.
        """
        SessionFile.check_name(name)
        await self._run(session_id, lambda folder: folder_files.remove_file(folder, name))

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Do this work in one of the store's threads; no thread is abandoned on cancellation."""
        return await trio.to_thread.run_sync(work, limiter=self._readers.limiter)

    def folder(self, session_id: str) -> str:
        """Return a session's folder, where other files that belong to it may be kept.

        It has the session's id as its name where that consists of at most 100 small letters,
        digits, `-`, `_` and `.`; else a readable part of it, and a hash.

        Raises:
            InvalidSessionIdError: the id is not valid.
        """
        name = folder_name(session_id)
        # An older version may have made one with capital letters.
        if was_plain(session_id) and has_name(self._folder, session_id):
            folder = os.path.join(self._folder, session_id)
            if read_described_id(folder) in {session_id, None}:
                return folder
        return os.path.join(self._folder, name)

    def _lock(self, folder: str) -> tuple[str, int, int]:
        """Lock a folder, and begin an epoch; return the folder, the lock and the epoch."""
        if not self._is_safe:
            durable.make_folder(self._folder)
            durable.sync_folders_above(self._folder)
            self._is_safe = True
        with lock_as(self.holder):
            fd = lock(folder)
        return folder, fd, begin_file_epoch(metadata_path(folder))

    async def _run(self, session_id: str, work: Callable[[str], T]) -> T:
        """Do something with a session's folder in a thread."""
        check_session_id(session_id)
        return await self._in_thread(session_id, lambda: work(self.folder(session_id)))

    async def _in_thread(self, session_id: str, work: Callable[[], T]) -> T:
        try:
            return await trio.to_thread.run_sync(work, limiter=self._readers.limiter)
        except OSError as error:
            raise storage_error(error, session_id, self._folder) from error

    def _survey(self) -> StoreSurvey:
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            names = []
        sessions, damaged = list[SessionMetadata](), list[SessionError]()
        for name in filter(may_be_folder, names):
            folder = os.path.join(self._folder, name)
            try:
                if found := read_metadata(folder, _read_id(folder, name)):
                    sessions.append(found)
                elif is_undescribed(folder):
                    damaged.append(unknown_error(name, self, has_history=True))
            except NotADirectoryError:
                continue
            except OSError as error:
                damaged.append(storage_error(error, name, self._folder))
            except SessionError as error:
                damaged.append(error)
        return StoreSurvey(newest_first(sessions), tuple(damaged))


def _read_id(folder: str, name: str) -> str:
    """Return the id of the session that is kept in a folder of this name."""
    session_id = read_described_id(folder) if is_hashed(name) else None
    is_its = session_id is not None and folder_name(session_id) == name
    return session_id if session_id is not None and is_its else name


def default_store() -> FileStore:
    """Return the store used by default: the folder `sessions` in the working directory."""
    return FileStore("sessions")


def check_store(store: object) -> None:
    """Refuse a path or a class instead of a store.

    Raises:
        TypeError: it is one; the message says what to write.
    """
    if isinstance(store, type):
        raise TypeError(
            f"{store.__name__} is a class, not a store: write store={store.__name__}(…)"
        )
    if isinstance(store, str | os.PathLike):
        raise TypeError(
            f"{store!r} is a path, not a store: write store=FileStore({str(store)!r}), "
            "or SQLiteStore for one file"
        )


def choose_store(store: SessionStore | None) -> SessionStore:
    """Return the store that was given, or the one used by default.

    Raises:
        TypeError: it is a path.
    """
    check_store(store)
    return store or default_store()
