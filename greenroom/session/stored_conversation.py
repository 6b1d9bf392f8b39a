"""A conversation and its place in a store: held open by one writer, saved, closed."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import trio

from greenroom.core import SessionError, check_session_id
from greenroom.session.conversation import Conversation
from greenroom.session.description import FORKED_FROM, SessionMetadata
from greenroom.session.entries import Entry, decode_pending, encode_pending, is_long, pieces
from greenroom.session.history import RepairReport
from greenroom.session.journal import Journal
from greenroom.session.store import (
    Durability,
    SessionStatistics,
    SessionStore,
    StoredSession,
    changed_error,
    check_durability,
)
from greenroom.session.transcript import Transcript

T = TypeVar("T")


@dataclass(eq=False)
class _SaveGroup:
    """The save that waits for its turn, and all who called `save` until then: they share one commit."""

    flush: bool
    is_stored: bool = False
    ended: trio.Event = field(default_factory=trio.Event)


class StoredConversation(Conversation):
    """The part of a session that knows what of it is stored, and who may write it."""

    def __init__(self, record: SessionMetadata, store: SessionStore | None) -> None:
        """Begin with nothing stored, in this store or in the default one."""
        super().__init__(record)
        self._journal = Journal(record.session_id, store)
        self._durability: Durability = "step"
        self._turnstile = trio.Lock()  # one save, open or close at a time: each is several steps
        self._gathering: _SaveGroup | None = None

    @property
    def store(self) -> SessionStore | None:
        """The store it was given, or came to use by default; None before that."""
        return self._journal.store

    @property
    def repair(self) -> RepairReport | None:
        """What was found torn at the history's end, when it was loaded or opened; else None."""
        return self._journal.repair

    @property
    def is_saved(self) -> bool:
        """Whether `save` would have nothing to write."""
        is_synced = self._journal.is_flushed or not self._is_sync_due
        return is_synced and not self._transcript.pending and not self._has_news

    @property
    def durability(self) -> Durability:
        """Which of its saves a power cut can't take back: at every "step", every "turn", or "none".

        Every save survives the process, whatever this says. With "turn", a save while calls wait for
        their results is not synced, and the one at the turn's end makes all of it durable; with
        "none" it is left to the system, which takes half a minute or so. It is not stored: set it on
        the session, new or loaded; a fork takes it over.
        """
        return self._durability

    @durability.setter
    def durability(self, value: Durability) -> None:
        self._durability = check_durability(value)

    def statistics(self) -> SessionStatistics:
        """Return figures about the conversation and what of it is stored."""
        return SessionStatistics(*self._transcript.size, self._journal.is_open)

    def adopt(self, parent_session_id: str, parent_tool_use_id: str | None) -> None:
        """Make it the child of another session, before it is first saved; a fork may be saved already.

        Raises:
            InvalidSessionIdError: the parent's id is none.
            SessionError: it is stored already, or has another parent.
        """
        check_session_id(parent_session_id)
        is_placed = self._journal.metadata and FORKED_FROM not in self.metadata
        if is_placed or self.parent_session_id not in (None, parent_session_id):
            raise SessionError(
                f"{self!r} has its place already",
                session_id=self.session_id,
                hint="a subagent takes a new session, or one that this agent has given it before; to"
                " take up the conversation of another, pass `await session.fork()`",
            )
        self._touch(parent_session_id=parent_session_id, parent_tool_use_id=parent_tool_use_id)

    def bind(self, store: SessionStore) -> None:
        """Use this store, unless the session has one."""
        self._journal.store = self._journal.store or store

    async def open(self) -> None:
        """Become the session's only writer until `close`; a torn end is set aside.

        Raises:
            SessionLockedError: another writer has it; `pid` says which process.
            SessionExistsError: this session is new, and its id is taken.
            SessionNotFoundError: it was removed.
            SessionCorruptError: it is damaged before its end.
            SessionStorageError: the disk refused.
            SessionError: it was changed in the store and in memory, since it was loaded.
        """
        async with self._turnstile:
            if not self._journal.is_open:
                self._journal.forgive()
                await self._acquire()

    async def close(self) -> None:
        """Let another writer have it; cancellation waits. What is not saved stays in memory.

        Raises:
            SessionStorageError: the disk refused; the lock is let go all the same.
        """
        with trio.CancelScope(shield=True):
            async with self._turnstile:
                await self._journal.release()

    async def save(self, *, flush: bool = True) -> None:
        """Store all that is pending, as one commit; durable when it returns, see `durability`.

        A new session that begins long takes several lines; it is stored once the last of them is.
        Without `flush` it survives this process, and a power cut from the next save on. A session
        with nothing on record, no metadata and no children is not stored. If it fails, all stays
        pending, and a later save may succeed; after a failed sync only once it is closed and opened
        again. What was stored though its save failed, as behind a lost connection, is not stored twice.
        Calls that wait for a save in another task share the next one, and return together.

        Raises:
            SessionLockedError: another writer has it.
            SessionExistsError: this session is new, and its id is taken.
            SessionStorageError: the disk refused.
            SessionError: it was changed in the store since it was loaded.
        """
        while (group := self._gathering) is not None:
            group.flush |= flush
            await group.ended.wait()
            if group.is_stored:
                return  # else its leader was cancelled, or has its error: who is left tries again
        await self._lead(_SaveGroup(flush))

    async def _lead(self, group: "_SaveGroup") -> None:
        """Save for a group: for those that come until it has its turn, too."""
        self._gathering = group
        try:
            async with self._turnstile:
                self._gathering = None
                if not self.is_saved:
                    async with self._held_open():
                        await self._commit(group.flush and self._is_sync_due)
                group.is_stored = True
        finally:
            if self._gathering is group:  # cancelled before its turn
                self._gathering = None
            group.ended.set()

    @property
    def _is_sync_due(self) -> bool:
        """Whether a save is to be synced here."""
        waits = self._durability == "turn" and self._transcript.is_waiting and not self._is_left
        return self._durability != "none" and not waits

    @property
    def _is_left(self) -> bool:
        """Whether the calls that wait are left for another process, so that no result follows here."""
        return self.keep_open and bool(self.unstarted)

    @property
    def _has_news(self) -> bool:
        """Whether the stored description is out of date, or due: nobody finds entries without one."""
        known = self._journal.metadata or self._record.metadata or self._record.child_session_ids
        return bool(known or self._transcript.stored) and self._journal.lacks(self._record)

    async def _from_entries(self, work: Callable[[Sequence[Entry]], T]) -> T:
        """Do this with all entries from the beginning on, the unsaved ones as well, in a thread."""
        pending = tuple(self._transcript.pending)
        stored = await self._journal.entries(self._transcript.stored)
        return await self._journal.in_thread(lambda: work([*stored, *decode_pending(pending)]))

    def _become(self, stored: StoredSession) -> None:
        """Take the state that the store holds."""
        if stored.metadata is not None:
            self._record = stored.metadata
        self._transcript = Transcript(stored.history.entries)
        self._transcript.pair("interrupted", keep_unstarted=self.keep_open)
        self._journal.start_from(stored)
        self._is_touched = False

    async def _acquire(self) -> None:
        await self._journal.acquire()
        try:
            await self._settle()
            await self._catch_up()
        except BaseException:
            await self._journal.release()
            raise

    async def _catch_up(self) -> None:
        """Take over what others have stored, unless there are changes here as well."""
        if changed := await self._journal.catch_up():
            if self._is_touched:
                raise changed_error(self.session_id)
            self._become(changed)

    async def _settle(self) -> None:
        """Count as stored what a commit has stored that seemed to fail."""
        is_stored = await self._journal.settle()
        self._transcript.settle(is_stored=is_stored)
        if is_stored:
            self._is_touched = bool(self._transcript.pending) or self._has_news

    @asynccontextmanager
    async def _held_open(self) -> AsyncIterator[None]:
        """Hold the lock, for this block alone unless the session is open."""
        was_open = self._journal.is_open
        if not was_open:
            await self._acquire()
        try:
            yield
        finally:
            if not was_open:
                await self._journal.release()

    async def _commit(self, flush: bool) -> None:
        await self._settle()
        if self._journal.metadata is None and is_long(self._transcript.pending):
            await self._begin_long()
        # What is added while a write is under way stays for the next.
        entries = tuple(self._transcript.pending)
        if entries or (flush and self._journal.is_loose):
            with self._transcript.committing(len(entries)):
                await self._journal.append(entries, version=self._transcript.version, flush=flush)
        if self._has_news:
            await self._journal.describe(self._record)
        self._is_touched = not self.is_saved

    async def _begin_long(self) -> None:
        """Write all but the last line of a session that is not stored yet.

        It exists only once it is described. In one line, its last page could not be read alone.
        """
        entries, transcript = tuple(self._transcript.pending), self._transcript
        encoded = await self._journal.in_thread(lambda: encode_pending(entries))
        *first, _ = pieces(encoded)
        for piece in first:
            with transcript.committing(len(piece)):
                await self._journal.append(piece, version=transcript.version, flush=False)
