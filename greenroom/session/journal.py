"""What of a session is stored, and how the rest gets there: by one writer, one line per commit.

Each entry is pending, unconfirmed or stored (see `conversation`); this module moves them along.

**A save** appends one line under the writer's lock, syncs it if the durability asks for that, and
then writes the description if it has changed. The line holds all entries pending at that moment;
entries added meanwhile wait for the next save. The line's checksum is chained to the line before
it, so the line is valid in one place only. One save, open or close runs at a time; saves requested
meanwhile form a group and share the next line. The first of the group writes it. If that fails or
is cancelled, the others try again.

**A crash** before the line is whole leaves a torn end, which readers skip and the next writer sets
aside. A crash between line and description leaves all entries and a slightly old description; a
new session then has no description yet, so no list shows it, and its next writer sets the line
aside. If a line was not synced, a power cut may take it, and everything unsynced before it. Each
line says how many bytes before it those are (`loose`), which tells their loss from damage.

**A cancel** before the lock is taken changes nothing. While the line is being written, the store
finishes it or takes it back, and we don't know which, so the line stays unconfirmed. The same holds
for a failed sync, and for a connection lost after the commit. Before anything else is written,
`settle` looks for the line: it is in its place and counts as stored, or its entries are pending
again. Releasing the lock is shielded.

**Other writers.** Without an open session each save takes the lock for itself, and others may
write in between. What they stored is adopted when we take the lock again. If there are changes here
as well it is an error, since the two can't be put in order. A store may give the session to another
writer that believes this one to be dead. From then on it refuses each of our writes with
`SessionFencedError`, and stores nothing of them.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, cast, get_args

import msgspec
import trio

from greenroom.core import SessionLockedError, SessionNotFoundError, SessionStorageError
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
from greenroom.session.errors import SessionCorruptError, SessionExistsError, SessionFencedError
from greenroom.session.file_store import default_store
from greenroom.session.history import START, Position, RepairReport, encode_line, report_on
from greenroom.session.store import (
    SessionStore,
    SessionWriter,
    StoredSession,
    run_in_thread,
)
from greenroom.session.store_errors import changed_error
from greenroom.session.turnstile import Turnstile

if TYPE_CHECKING:
    from greenroom.session.store import StoreInProcess

T = TypeVar("T")

Durability: TypeAlias = Literal["step", "turn", "none"]
"""When saves are synced: each one, those at the end of a turn, or none."""


class _SaveGroup(msgspec.Struct, eq=False):
    """A save that waits for its turn, and every `save` called until then: they share one commit."""

    flush: bool
    is_stored: bool = False
    ended: trio.Event | None = None  # once somebody has joined it


class Journal:
    """What of a session its store holds, and who may write it."""

    def __init__(
        self, description: Description, conversation: Conversation, store: SessionStore | None
    ) -> None:
        """Begin with nothing stored; without a store, use the default one when needed."""
        self._description = description
        self._conversation = conversation
        self._tail = _Tail(description.record.session_id, store)
        self._durability: Durability = "step"
        self._turnstile = Turnstile()  # one save, open or close at a time: each is several steps
        self._next_group: _SaveGroup | None = None
        self.has_agent = False
        """Whether an agent of this process has the session. The writer lock can't protect one
        session object that was given to two runtimes: the second finds it open."""

    @property
    def store(self) -> SessionStore | None:
        """The store it was given or uses by default; None until it needs one."""
        return self._tail.store

    def bind(self, store: SessionStore) -> None:
        """Use this store, unless there is one already."""
        self._tail.store = self._tail.store or store

    @property
    def repair(self) -> RepairReport | None:
        """The torn end that was found when the session was loaded or opened; else None."""
        return self._tail.repair

    @property
    def is_open(self) -> bool:
        """Whether the writer's lock is held."""
        return self._tail.is_open

    @property
    def epoch(self) -> int:
        """The number under which the lock is held, see `SessionWriter.epoch`; 0 without it."""
        return self._tail.epoch

    @property
    def is_saved(self) -> bool:
        """Whether `save` would have nothing to write."""
        if self._conversation.pending or self._needs_description:
            return False
        return self._tail.is_flushed or not self._is_sync_due

    @property
    def _has_news(self) -> bool:
        """Whether the store lacks something; while a commit runs, it lacks what that writes."""
        return bool(self._conversation.pending) or self._needs_description

    @property
    def durability(self) -> Durability:
        """Which saves survive a power cut; see `AgentSession.durability`."""
        return self._durability

    @durability.setter
    def durability(self, value: Durability) -> None:
        if value not in get_args(Durability):
            raise ValueError(f"{value!r} is not a durability; use one of {get_args(Durability)}")
        self._durability = value

    def start_from(self, stored: StoredSession) -> None:
        """Replace what is in memory by what the store holds."""
        if stored.metadata is not None:
            self._description.restore(stored.metadata)
        self._conversation.restore(stored.history.entries)
        self._tail.start_from(stored)

    @trio.lowlevel.enable_ki_protection  # who has entered the turnstile leaves it
    async def open(self) -> None:
        """Become the only writer until `close`; see `AgentSession.open`."""
        await self._turnstile.enter()
        try:
            if not self._tail.is_open:
                self._tail.clear_failure()
                await self._acquire()
        finally:
            self._turnstile.leave()

    def open_now(self) -> bool:
        """Do what `open` does, in one step, if nothing of this session can have been stored.

        So it is where the session is new and its store in this process.

        Returns:
            Whether it is done; else `open` is to do it.
        """
        return not self._turnstile.is_taken and self._tail.begin()

    def close_now(self) -> bool:
        """Do what `close` does, in one step, if the store is in this process.

        Returns:
            Whether it is done; else `close` is to do it.
        """
        return not self._turnstile.is_taken and self._tail.release_now()

    @trio.lowlevel.enable_ki_protection
    async def close(self) -> None:
        """Release the session to other writers; cancellation waits."""
        with trio.CancelScope(shield=True):
            await self._turnstile.enter()
            try:
                await self._tail.release_at_once()
            finally:
                self._turnstile.leave()

    @trio.lowlevel.enable_ki_protection
    async def save(self, *, flush: bool = True) -> None:
        """Store all that is pending, as one commit; see `AgentSession.save`."""
        if not self._has_news and (not flush or self.is_saved):
            await trio.lowlevel.checkpoint_if_cancelled()
            return
        while (group := self._next_group) is not None:
            group.flush |= flush
            if group.ended is None:
                group.ended = trio.Event()
            await group.ended.wait()
            if group.is_stored:
                return
            # Its leader was cancelled or has its error: each of the others tries again.
        await self._lead(_SaveGroup(flush))

    async def _lead(self, group: _SaveGroup) -> None:
        """Save for a group, and for all who join it before its turn."""
        self._next_group = group
        try:
            await self._turnstile.enter()
            try:
                self._next_group = None
                if not self.is_saved:
                    await self._commit_open(group)
                group.is_stored = True
            finally:
                self._turnstile.leave()
        finally:
            if self._next_group is group:  # cancelled before its turn
                self._next_group = None
            if group.ended is not None:
                group.ended.set()

    async def read_entries(self, work: Callable[[Sequence[Entry]], T]) -> T:
        """Pass all entries, the unsaved ones last, to `work` in a thread; return its result.

        Raises:
            SessionNotFoundError: the session was removed.
            SessionCorruptError: the stored part is damaged.
            SessionStorageError: it can't be read.
            SessionError: the store holds less than before.
        """
        pending = tuple(self._conversation.pending)
        stored = await self._tail.read_entries(self._conversation.stored_count)
        return await run_in_thread(
            self._tail.store, lambda: work([*stored, *decode_pending(pending)])
        )

    @property
    def _is_sync_due(self) -> bool:
        """Whether a save now has to be synced."""
        waits = self._durability == "turn" and self._conversation.is_waiting
        return self._durability != "none" and not waits

    @property
    def _needs_description(self) -> bool:
        """Whether the description has to be written; without one, entries can't be found."""
        record = self._description.facts  # its time alone is no news
        known = self._tail.metadata or record.metadata or record.child_session_ids
        return bool(known or self._conversation.transcript.count) and self._tail.lacks(record)

    async def _commit_open(self, group: _SaveGroup) -> None:
        """Commit under the writer's lock, and hold that longer only if the session is open."""
        was_open = self._tail.is_open
        if not was_open:
            await self._acquire()
        try:
            await self._commit(group.flush and self._is_sync_due)
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
        """Adopt what others have stored, unless there are changes here as well."""
        if changed := await self._tail.catch_up():
            if self._description.is_changed:
                raise changed_error(self._description.facts.session_id)
            self.start_from(changed)

    async def _settle(self) -> None:
        """Find out what a commit that seemed to fail has stored."""
        is_stored = await self._tail.settle()
        self._conversation.settle(is_stored=is_stored)
        if is_stored:
            has_pending = bool(self._conversation.pending)
            self._description.is_changed = has_pending or self._needs_description

    async def _commit(self, flush: bool) -> None:
        await self._settle()
        conversation, tail = self._conversation, self._tail
        if tail.metadata is None and is_long(conversation.pending):
            await self._begin_long()
        # Entries added during the write wait for the next one.
        entries = tuple(conversation.pending)
        if entries or (flush and tail.is_loose):
            await self._append(entries, flush=flush)
        if self._needs_description:
            await tail.describe(self._description.record)
            self._description.is_stored = True
        self._description.is_changed = not self.is_saved

    async def _begin_long(self) -> None:
        """Write all but the last line of a new session with a long history.

        It exists only once it has a description. In a single line, its last page could not be read
        without the rest.
        """
        entries = tuple(self._conversation.pending)
        encoded = await run_in_thread(self._tail.store, lambda: encode_pending(entries))
        *first, _ = split_lines(encoded)
        for piece in first:
            await self._append(piece, flush=False)

    async def _append(self, entries: Sequence[PendingEntry], *, flush: bool) -> None:
        """Store pending entries, the first ones."""
        conversation, is_stored = self._conversation, False
        conversation.begin_commit(len(entries))
        try:
            await self._tail.append(entries, version=conversation.transcript.version, flush=flush)
            is_stored = True
        finally:
            conversation.end_commit(is_stored=is_stored)


class _Tail:
    """The end of a stored history as far as it is known, and the right to write after it."""

    def __init__(self, session_id: str, store: SessionStore | None) -> None:
        """Begin with nothing stored; without a store, use the default one when needed."""
        self._session_id = session_id
        self.store = store
        self._end: Position = START
        self._writer: SessionWriter | None = None
        self._is_broken = False
        self._is_new_here = False  # whether the writer has appended nothing yet
        self.is_flushed = True
        # A line and a description whose write failed: the store may hold them nevertheless.
        self._unconfirmed_line = b""
        self._unconfirmed: SessionMetadata | None = None
        self.metadata: SessionMetadata | None = None
        self.repair: RepairReport | None = None

    @property
    def is_open(self) -> bool:
        """Whether the writer's lock is held."""
        return self._writer is not None

    @property
    def epoch(self) -> int:
        """The number under which the lock is held; 0 without it."""
        return self._writer.epoch if self._writer is not None else 0

    @property
    def is_loose(self) -> bool:
        """Whether a power cut could still take some of what is stored, whoever wrote it."""
        return self._end.loose > 0

    def start_from(self, stored: StoredSession) -> None:
        """Continue after what was read."""
        self.metadata = stored.metadata
        self._end = stored.history.end
        self.repair = _report_damage(stored) or self.repair

    def clear_failure(self) -> None:
        """Forget a failed sync, because the disk is about to be read again."""
        self._is_broken = False

    async def acquire(self) -> None:
        """Take the lock.

        Raises:
            SessionLockedError: another writer holds it.
            SessionExistsError: this session was never stored, and its id is taken.
            SessionStorageError: the disk refused.
        """
        self.store = store = self.store or default_store()
        try:
            self._writer = await store.acquire(self._session_id)
        except SessionLockedError:
            # If its holder has made the session, our id is wrong, and waiting would not help.
            if self.metadata is None and await store.exists(self._session_id):
                raise self._exists_error() from None
            raise
        self._is_new_here = True

    def begin(self) -> bool:
        """Take the lock of a new session in one step, if its store can; return whether it did."""
        is_new = self.metadata is None and self._end is START and not self._unconfirmed_line
        if self._writer is not None or not is_new or self._unconfirmed is not None:
            return False
        self.store = store = self.store or default_store()
        # Of its class: a store that passes on what it lacks may have an `acquire` of its own.
        if not hasattr(type(store), "begin"):
            return False
        self._writer = cast("StoreInProcess", store).begin(self._session_id)
        self._is_new_here = self._writer is not None
        return self._is_new_here

    async def settle(self) -> bool:
        """Find out whether the last line whose append failed is stored; if so, continue after it.

        A sync may fail although the line is on the disk, and a connection may be lost after the
        commit.

        Raises:
            SessionNotFoundError: the session was removed.
            SessionCorruptError: it is damaged.
            SessionStorageError: it can't be read.
        """
        if not self._unconfirmed_line:
            return False
        writer, after = self._usable_writer(), self._end.after(self._unconfirmed_line)
        stored = await writer.read(self._end)
        is_stored = stored.history.end.size >= after.size and await _holds(writer, after)
        if is_stored:  # though a power cut may still take it
            self._end, self.is_flushed = after, False
        self._unconfirmed_line = b""
        return is_stored

    async def catch_up(self) -> StoredSession | None:
        """Set a torn end aside, and look for what others have stored.

        Returns:
            The whole stored session if it was changed since it was read; else None.

        Raises:
            SessionExistsError: this session was never stored, and its id is taken.
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
        """Release the lock; cancellation waits until that is done."""
        with trio.CancelScope(shield=True):
            await self.release_at_once()

    async def release_at_once(self) -> None:
        """Release the lock, unless cancelled."""
        writer, self._writer = self._writer, None
        if writer is not None:
            await writer.release()

    def release_now(self) -> bool:
        """Release the lock in one step, if the store can; return whether it did."""
        release_now = getattr(type(self._writer), "release_now", None)  # as in `begin`
        if release_now is None or not release_now(self._writer):
            return False
        self._writer = None
        return True

    def lacks(self, metadata: SessionMetadata) -> bool:
        """Whether the store may lack this description."""
        return self._unconfirmed is not None or metadata.differs(self.metadata)

    async def read_entries(self, count: int) -> list[Entry]:
        """Read the first `count` stored entries; format entries don't count.

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
            is_removed = stored.metadata is None
            raise self._removed_error() if is_removed else changed_error(self._session_id)
        return found[:count]

    async def append(
        self, entries: Sequence[PendingEntry], *, version: int = 1, flush: bool = True
    ) -> None:
        """Commit all of these entries or none; with `flush`, they are durable when it returns.

        Without entries it only flushes earlier commits. `version` is the oldest version of the
        format that can express the history with these entries.

        Raises:
            SessionStorageError: the disk refused.
        """
        end = self._end
        is_alone = end.loose == len(end.last)
        if end.loose and (self._is_new_here or (flush and not (entries and is_alone))):
            # A line that will be acknowledged may follow one line at most that was not synced: one
            # sync covers both, and damage to them later reads as an unfinished write.
            await self._append(b"", flush=True)
        if entries:
            await self._append(await self._encode(entries, version), flush=flush)

    async def _encode(self, entries: Sequence[PendingEntry], version: int) -> bytes:
        """Make the line that commits these entries, in a thread if that takes long."""

        def encode() -> bytes:
            # Each line of a later version says so, for readers of the end alone.
            first = [FormatEntry(version)] if version > 1 or self._end.lines == 0 else []
            return encode_line(encode_pending([*first, *entries]), self._end)

        self._usable_writer()  # raises before the work is done in vain
        return await run_in_thread(self.store, encode) if is_long(entries) else encode()

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

    async def _begin(self, writer: SessionWriter, stored: StoredSession) -> None:
        """Check that the id is free, and set aside what a crash left of an unsaved session."""
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
                hint="check the disk, then close and open the session",
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
    """Describe the damage at the end of a history, if there is any."""
    found = stored.history
    if not (found.torn or found.missing):
        return None
    return report_on(found.end, len(found.torn), stored.path, missing=found.missing)


async def _holds(writer: SessionWriter, place: Position) -> bool:
    """Whether the store holds the line that ends at this place."""
    try:
        await writer.read(place)
    except SessionCorruptError:  # everything before that line could be read
        return False
    return True
