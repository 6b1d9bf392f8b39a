"""A session's place in its store: how much of it is stored, and the right to add to it."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
import trio

from greenroom.core import (
    SessionCorruptError,
    SessionExistsError,
    SessionFencedError,
    SessionLockedError,
    SessionNotFoundError,
    SessionStorageError,
)
from greenroom.session.description import SessionMetadata
from greenroom.session.entries import Entry, FormatEntry, PendingEntry, encode_pending, is_long
from greenroom.session.file_store import default_store
from greenroom.session.history import START, Position, RepairReport, encode_line, report_on
from greenroom.session.store import (
    SessionStore,
    SessionWriter,
    StoredSession,
    ThreadedStore,
    changed_error,
)

T = TypeVar("T")


class Journal:
    """Writes one session to its store, one line for each commit."""

    def __init__(self, session_id: str, store: SessionStore | None) -> None:
        """Begin with nothing stored; without a store, the default one is used when it is needed."""
        self._session_id = session_id
        self.store = store
        self._end: Position = START
        self._writer: SessionWriter | None = None
        self._is_broken = False
        self._is_new_here = False  # the writer has appended nothing yet
        self.is_flushed = True
        # A line and a description whose writing failed: they may be in the store all the same.
        self._offered_line = b""
        self._offered: SessionMetadata | None = None
        self.metadata: SessionMetadata | None = None
        self.repair: RepairReport | None = None

    @property
    def is_open(self) -> bool:
        """Whether the writer's lock is held."""
        return self._writer is not None

    @property
    def is_loose(self) -> bool:
        """Whether a power cut could still take some of what is stored, whoever stored it."""
        return self._end.loose > 0

    def start_from(self, stored: StoredSession) -> None:
        """Go on from what was read."""
        self.metadata = stored.metadata
        self._end = stored.history.end
        self.repair = _damage(stored) or self.repair

    def forgive(self) -> None:
        """Forget a failed sync: what is on the disk is about to be read anew."""
        self._is_broken = False

    async def acquire(self) -> None:
        """Take the lock.

        Raises:
            SessionLockedError: another writer holds it.
            SessionExistsError: nothing of this session was stored, yet its id is taken.
            SessionStorageError: the disk refused.
        """
        self._writer, self._is_new_here = await self._acquire(), True

    async def settle(self) -> bool:
        """Find out whether the line whose append failed last is stored, and if so go on behind it.

        A sync may fail when the line is on the disk, and a connection may be lost behind the commit.

        Raises:
            SessionNotFoundError: the session was removed.
            SessionCorruptError: it is damaged.
            SessionStorageError: it can't be read.
        """
        if not self._offered_line:
            return False
        writer, behind = self._usable_writer(), self._end.after(self._offered_line)
        stored = await writer.read(self._end)
        is_stored = stored.history.end.size >= behind.size and await _holds(writer, behind)
        if is_stored:  # though a power cut may still take it
            self._end, self.is_flushed = behind, False
        self._offered_line = b""
        return is_stored

    async def catch_up(self) -> StoredSession | None:
        """Set a torn end aside, and see what others have stored.

        Returns:
            The whole session as it is stored, if it was changed since it was read; else None.

        Raises:
            SessionExistsError: nothing of this session was stored, yet its id is taken.
            SessionNotFoundError: it was removed.
            SessionCorruptError: it is damaged.
            SessionStorageError: the disk refused.
        """
        writer = self._writer
        assert writer is not None
        stored = await writer.read(self._end)
        if self.metadata is None:
            await self._begin(writer, stored)
            return None
        if stored.metadata is None:
            raise self._removed()
        if damage := _damage(stored):
            side = await writer.set_aside(stored.history.end)
            self.repair = msgspec.structs.replace(damage, set_aside=side)
        if stored.history.entries or self._is_foreign(stored.metadata):
            return await writer.read(START)
        return None

    async def release(self) -> None:
        """Let go of the lock; cancellation waits until that is done."""
        writer, self._writer = self._writer, None
        if writer is not None:
            with trio.CancelScope(shield=True):
                await writer.release()

    def lacks(self, metadata: SessionMetadata) -> bool:
        """Whether this description is not known to be stored."""
        return self._offered is not None or metadata.differs(self.metadata)

    async def entries(self, count: int) -> list[Entry]:
        """Read the first entries that are stored, not counting those that tell the format.

        Raises:
            SessionNotFoundError: the session was removed.
            SessionCorruptError: it is damaged.
            SessionStorageError: it can't be read.
            SessionError: there are fewer.
        """
        if self.store is None or not count:
            return []
        stored = await self.store.read(self._session_id)
        entries = stored.history.entries
        found: list[Entry] = [each for each in entries if not isinstance(each, FormatEntry)]
        if len(found) < count:
            raise self._removed() if stored.metadata is None else changed_error(self._session_id)
        return found[:count]

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Do work that takes long in a thread of the store, where it has any."""
        if isinstance(self.store, ThreadedStore):
            return await self.store.in_thread(work)
        return work()

    async def append(
        self, entries: Sequence[PendingEntry], *, version: int = 1, flush: bool = True
    ) -> None:
        """Commit these entries: all or none, durable when it returns if it flushes.

        With nothing to commit it flushes what was committed without. `version` is the oldest version
        of the format that these entries can be read as.

        Raises:
            SessionStorageError: the disk refused.
        """
        if self._end.loose and (flush or self._is_new_here):
            # No line to be acknowledged follows one that a power cut could still damage.
            await self._append(b"", flush=True)
        if entries:
            await self._append(await self._encode(entries, version), flush=flush)

    async def _encode(self, entries: Sequence[PendingEntry], version: int) -> bytes:
        """Make the line that commits these entries, in a thread if that takes long."""

        def encode() -> bytes:
            # Each line of a later version says so: who reads the end alone has to see it there.
            first = [FormatEntry(version)] if version > 1 or self._end.lines == 0 else []
            return encode_line(encode_pending([*first, *entries]), self._end)

        self._usable_writer()  # or it would be in vain
        return await self.in_thread(encode) if is_long(entries) else encode()

    async def _append(self, line: bytes, *, flush: bool) -> None:
        writer = self._usable_writer()
        self._offered_line = line
        try:
            await writer.append(line, self._end, flush=flush)
        except SessionFencedError:
            self._offered_line = b""
            raise
        except SessionStorageError as error:
            if error.nothing_written:
                self._offered_line = b""
            raise
        finally:
            self._is_broken = writer.is_broken
        self._offered_line = b""
        self._is_new_here = False
        end = self._end.after(line) if line else self._end
        self._end = end.synced() if flush else end
        self.is_flushed = flush

    async def describe(self, metadata: SessionMetadata) -> None:
        """Store the session's description, durable when it returns.

        Raises:
            SessionStorageError: the disk refused.
        """
        writer = self._usable_writer()
        self._offered = metadata
        try:
            await writer.write_metadata(metadata)
        finally:
            self._is_broken = writer.is_broken
        self.metadata, self._offered = metadata, None

    async def _acquire(self) -> SessionWriter:
        self.store = store = self.store or default_store()
        try:
            return await store.acquire(self._session_id)
        except SessionLockedError:
            # Whoever holds it may have made it: then it is the id that is wrong, not the moment.
            if self.metadata is None and await store.exists(self._session_id):
                raise self._taken() from None
            raise

    async def _begin(self, writer: SessionWriter, stored: StoredSession) -> None:
        """Make sure that the id is free, and put aside what a crash left of an unsaved session."""
        if stored.metadata is not None and self._is_foreign(stored.metadata):
            raise self._taken()
        rest = stored.history.end.size - self._end.size + len(stored.history.torn)
        if rest:
            side = await writer.set_aside(self._end)
            self.repair = report_on(self._end, rest, stored.path, side)

    def _is_foreign(self, metadata: SessionMetadata) -> bool:
        """Whether somebody else stored this description."""
        return metadata.differs(self.metadata) and metadata.differs(self._offered)

    def _usable_writer(self) -> SessionWriter:
        if self._writer is None or self._is_broken:
            raise SessionStorageError(
                f"session {self._session_id!r} is read-only: the disk failed to store it",
                session_id=self._session_id,
                hint="see to the disk, then close and open the session",
            )
        return self._writer

    def _removed(self) -> SessionNotFoundError:
        return SessionNotFoundError(
            f"session {self._session_id!r} was removed from its store", session_id=self._session_id
        )

    def _taken(self) -> SessionExistsError:
        return SessionExistsError(
            f"the store already holds a session {self._session_id!r}",
            session_id=self._session_id,
            hint="load it, or choose another id",
        )


def _damage(stored: StoredSession) -> RepairReport | None:
    """Describe what is wrong with the end of a history, if anything is."""
    found = stored.history
    if not (found.torn or found.missing):
        return None
    return report_on(found.end, len(found.torn), stored.path, missing=found.missing)


async def _holds(writer: SessionWriter, place: Position) -> bool:
    """Whether the line before this place is the one that is stored there."""
    try:
        await writer.read(place)
    except SessionCorruptError:  # all before that line was read without it
        return False
    return True
