"""What of a session is stored, and how the rest comes to be: one writer, one line for each commit.

Each entry is pending, offered or stored (see `conversation`); here is what makes the moves.

**A save** is one line, appended under the writer's lock and synced if the durability asks for it,
then the description if that has changed. The line holds all entries that are pending when it is
made; those that are added meanwhile wait for the next save. The line's checksum is chained to the
line before, so it can only ever stand where it was made for. One save, open or close is under way
at a time; the saves that are asked for meanwhile gather in a group and share the next line. The
first of the group writes it, and if it fails or is cancelled, the others try again.

**What a crash leaves.** Before the line is whole: a torn end, which readers pass over and the next
writer sets aside. Between line and description: all entries, and a description that is a little
old; the session is new, then nothing that a list shows, and its next writer puts the line aside.
After a line that was not synced, a power cut may take it, and all that was not synced before it;
each line says how many bytes before it that may be (`loose`), so that their loss is not held for
damage.

**Where a cancel may fall.** Before the lock is had: nothing has happened. While the line is
written: the store finishes it or takes it back, and which of the two is not known here; so the line
stays offered. The same goes for a failed sync, and for a connection that is lost behind the commit.
Before anything else is written the line is looked for (`settle`): either it stands at its place and
counts as stored, or its entries are merely pending again. Releasing the lock is shielded.

**Who else writes.** Without an open session each save takes the lock for itself, and others may
write in between. What they stored is taken over when the lock is had again, unless there are
changes here as well: then it is an error, since both can't be kept in order. A store may give the
session to another writer that takes this one for dead; from then on each of our writes is refused
(`SessionFencedError`), and nothing of it is stored.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeVar, get_args

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
from greenroom.session.conversation import Conversation
from greenroom.session.description import Description, SessionMetadata
from greenroom.session.entries import (
    Entry,
    FormatEntry,
    PendingEntry,
    decode_pending,
    encode_pending,
    is_long,
    split_lines,
)
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

Durability: TypeAlias = Literal["step", "turn", "none"]
"""When saves are synced: each one, those at the end of a turn, or none."""


@dataclass(eq=False)
class _SaveGroup:
    """The save that waits for its turn, and all who called `save` until then: they share one commit."""

    flush: bool
    is_stored: bool = False
    ended: trio.Event = field(default_factory=trio.Event)


class Journal:
    """A session's place in its store: what of it is stored, and who may write it."""

    def __init__(
        self, description: Description, conversation: Conversation, store: SessionStore | None
    ) -> None:
        """Begin with nothing stored; without a store, the default one is used when it is needed."""
        self._description = description
        self._conversation = conversation
        self._tail = _Tail(description.record.session_id, store)
        self._durability: Durability = "step"
        self._turnstile = trio.Lock()  # one save, open or close at a time: each is several steps
        self._next_group: _SaveGroup | None = None

    @property
    def store(self) -> SessionStore | None:
        """The store it was given, or came to use by default; None before that."""
        return self._tail.store

    def bind(self, store: SessionStore) -> None:
        """Use this store, unless there is one."""
        self._tail.store = self._tail.store or store

    @property
    def repair(self) -> RepairReport | None:
        """What was found torn at the history's end, when it was loaded or opened; else None."""
        return self._tail.repair

    @property
    def is_open(self) -> bool:
        """Whether the writer's lock is held."""
        return self._tail.is_open

    @property
    def is_saved(self) -> bool:
        """Whether `save` would have nothing to write."""
        is_synced = self._tail.is_flushed or not self._is_sync_due
        return is_synced and not self._conversation.pending and not self._needs_description

    @property
    def durability(self) -> Durability:
        """Which saves a power cut can't take back; see `AgentSession.durability`."""
        return self._durability

    @durability.setter
    def durability(self, value: Durability) -> None:
        if value not in get_args(Durability):
            raise ValueError(f"{value!r} is not a durability; use one of {get_args(Durability)}")
        self._durability = value

    def start_from(self, stored: StoredSession) -> None:
        """Take the state that the store holds in place of what is in memory."""
        if stored.metadata is not None:
            self._description.restore(stored.metadata)
        self._conversation.restore(stored.history.entries)
        self._tail.start_from(stored)

    async def open(self) -> None:
        """Become the only writer until `close`; see `AgentSession.open`."""
        async with self._turnstile:
            if not self._tail.is_open:
                self._tail.clear_failure()
                await self._acquire()

    async def close(self) -> None:
        """Let another writer have it; cancellation waits."""
        with trio.CancelScope(shield=True):
            async with self._turnstile:
                await self._tail.release()

    async def save(self, *, flush: bool = True) -> None:
        """Store all that is pending, as one commit; see `AgentSession.save`."""
        while (group := self._next_group) is not None:
            group.flush |= flush
            await group.ended.wait()
            if group.is_stored:
                return  # else its leader was cancelled, or has its error: each that is left tries again
        await self._lead(_SaveGroup(flush))

    async def _lead(self, group: _SaveGroup) -> None:
        """Save for a group: for those that come until it has its turn, too."""
        self._next_group = group
        try:
            async with self._turnstile:
                self._next_group = None
                if not self.is_saved:
                    async with self._hold_open():
                        await self._commit(group.flush and self._is_sync_due)
                group.is_stored = True
        finally:
            if self._next_group is group:  # cancelled before its turn
                self._next_group = None
            group.ended.set()

    async def read_entries(self, work: Callable[[Sequence[Entry]], T]) -> T:
        """Do this with all entries from the beginning on, the unsaved ones as well, in a thread.

        Raises:
            SessionNotFoundError: the session was removed.
            SessionCorruptError: what is stored is damaged.
            SessionStorageError: it can't be read.
            SessionError: less is stored than there was.
        """
        pending = tuple(self._conversation.pending)
        stored = await self._tail.read_entries(self._conversation.stored)
        return await self._tail.in_thread(lambda: work([*stored, *decode_pending(pending)]))

    @property
    def _is_sync_due(self) -> bool:
        """Whether a save is to be synced here."""
        waits = self._durability == "turn" and self._conversation.is_waiting
        return self._durability != "none" and not waits

    @property
    def _needs_description(self) -> bool:
        """Whether the stored description is out of date, or due: entries without one are not found."""
        record = self._description.record
        known = self._tail.metadata or record.metadata or record.child_session_ids
        return bool(known or self._conversation.stored) and self._tail.lacks(record)

    @asynccontextmanager
    async def _hold_open(self) -> AsyncIterator[None]:
        """Hold the lock, for this block alone unless the session is open."""
        was_open = self._tail.is_open
        if not was_open:
            await self._acquire()
        try:
            yield
        finally:
            if not was_open:
                await self._tail.release()

    async def _acquire(self) -> None:
        await self._tail.acquire()
        try:
            await self._settle()
            await self._catch_up()
        except BaseException:
            await self._tail.release()
            raise

    async def _catch_up(self) -> None:
        """Take over what others have stored, unless there are changes here as well."""
        if changed := await self._tail.catch_up():
            if self._description.is_changed:
                raise changed_error(self._description.record.session_id)
            self.start_from(changed)

    async def _settle(self) -> None:
        """Count as stored what a commit has stored that seemed to fail."""
        is_stored = await self._tail.settle()
        self._conversation.settle(is_stored=is_stored)
        if is_stored:
            self._description.is_changed = (
                bool(self._conversation.pending) or self._needs_description
            )

    async def _commit(self, flush: bool) -> None:
        await self._settle()
        conversation, tail = self._conversation, self._tail
        if tail.metadata is None and is_long(conversation.pending):
            await self._begin_long()
        # What is added while a write is under way stays for the next.
        entries = tuple(conversation.pending)
        if entries or (flush and tail.is_loose):
            with conversation.commit(len(entries)):
                await tail.append(entries, version=conversation.transcript.version, flush=flush)
        if self._needs_description:
            await tail.describe(self._description.record)
            self._description.is_stored = True
        self._description.is_changed = not self.is_saved

    async def _begin_long(self) -> None:
        """Write all but the last line of a session that is not stored yet.

        It exists only once it is described. In one line, its last page could not be read alone.
        """
        conversation = self._conversation
        entries, version = tuple(conversation.pending), conversation.transcript.version
        encoded = await self._tail.in_thread(lambda: encode_pending(entries))
        *first, _ = split_lines(encoded)
        for piece in first:
            with conversation.commit(len(piece)):
                await self._tail.append(piece, version=version, flush=False)


class _Tail:
    """The end of a stored history: how far it is known, and the right to write on from there."""

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
        self._unconfirmed_line = b""
        self._unconfirmed: SessionMetadata | None = None
        self.metadata: SessionMetadata | None = None
        self.repair: RepairReport | None = None

    @property
    def is_open(self) -> bool:
        """Whether the writer's lock is held."""
        return self._writer is not None

    @property
    def is_loose(self) -> bool:
        """Whether a power cut could still take some of what is stored, by whichever writer."""
        return self._end.loose > 0

    def start_from(self, stored: StoredSession) -> None:
        """Go on from what was read."""
        self.metadata = stored.metadata
        self._end = stored.history.end
        self.repair = _report_damage(stored) or self.repair

    def clear_failure(self) -> None:
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

        A sync may fail when the line is on the disk, and a connection may be lost behind the
        commit.

        Raises:
            SessionNotFoundError: the session was removed.
            SessionCorruptError: it is damaged.
            SessionStorageError: it can't be read.
        """
        if not self._unconfirmed_line:
            return False
        writer, behind = self._usable_writer(), self._end.after(self._unconfirmed_line)
        stored = await writer.read(self._end)
        is_stored = stored.history.end.size >= behind.size and await _holds(writer, behind)
        if is_stored:  # though a power cut may still take it
            self._end, self.is_flushed = behind, False
        self._unconfirmed_line = b""
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
            raise self._removed_error()
        if damage := _report_damage(stored):
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
        return self._unconfirmed is not None or metadata.differs(self.metadata)

    async def read_entries(self, count: int) -> list[Entry]:
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
            raise (
                self._removed_error()
                if stored.metadata is None
                else changed_error(self._session_id)
            )
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

        With nothing to commit it flushes what was committed without. `version` is the oldest
        version of the format that these entries can be read as.

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
        self._unconfirmed_line = line
        try:
            await writer.append(line, self._end, flush=flush)
        except SessionFencedError:
            self._unconfirmed_line = b""
            raise
        except SessionStorageError as error:
            if error.nothing_written:
                self._unconfirmed_line = b""
            raise
        finally:
            self._is_broken = writer.is_broken
        self._unconfirmed_line = b""
        self._is_new_here = False
        end = self._end.after(line) if line else self._end
        self._end = end.as_synced() if flush else end
        self.is_flushed = flush

    async def describe(self, metadata: SessionMetadata) -> None:
        """Store the session's description, durable when it returns.

        Raises:
            SessionStorageError: the disk refused.
        """
        writer = self._usable_writer()
        self._unconfirmed = metadata
        try:
            await writer.write_metadata(metadata)
        finally:
            self._is_broken = writer.is_broken
        self.metadata, self._unconfirmed = metadata, None

    async def _acquire(self) -> SessionWriter:
        self.store = store = self.store or default_store()
        try:
            return await store.acquire(self._session_id)
        except SessionLockedError:
            # Its holder may have made it: then it is the id that is wrong, not the moment.
            if self.metadata is None and await store.exists(self._session_id):
                raise self._exists_error() from None
            raise

    async def _begin(self, writer: SessionWriter, stored: StoredSession) -> None:
        """Make sure that the id is free, and put aside what a crash left of an unsaved session."""
        if stored.metadata is not None and self._is_foreign(stored.metadata):
            raise self._exists_error()
        rest = stored.history.end.size - self._end.size + len(stored.history.torn)
        if rest:
            side = await writer.set_aside(self._end)
            self.repair = report_on(self._end, rest, stored.path, side)

    def _is_foreign(self, metadata: SessionMetadata) -> bool:
        """Whether another writer stored this description."""
        return metadata.differs(self.metadata) and metadata.differs(self._unconfirmed)

    def _usable_writer(self) -> SessionWriter:
        if self._writer is None or self._is_broken:
            raise SessionStorageError(
                f"session {self._session_id!r} is read-only: the disk failed to store it",
                session_id=self._session_id,
                hint="see to the disk, then close and open the session",
            )
        return self._writer

    def _removed_error(self) -> SessionNotFoundError:
        return SessionNotFoundError(
            f"session {self._session_id!r} was removed from its store", session_id=self._session_id
        )

    def _exists_error(self) -> SessionExistsError:
        return SessionExistsError(
            f"the store already holds a session {self._session_id!r}",
            session_id=self._session_id,
            hint="load it, or choose another id",
        )


def _report_damage(stored: StoredSession) -> RepairReport | None:
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
