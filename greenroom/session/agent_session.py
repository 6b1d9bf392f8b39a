"""`AgentSession`: one conversation, which outlives the process that holds it."""

from collections.abc import Iterable
from contextlib import suppress

import msgspec

from greenroom.core import (
    SUMMARY,
    Message,
    PermissionRecord,
    SessionNotFoundError,
    Used,
    check_session_id,
    clock as wall_clock,
    new_id,
)
from greenroom.session.branches import Branch, as_left, branches
from greenroom.session.description import FORKED_FROM, Origin, SessionMetadata
from greenroom.session.entries import decisions
from greenroom.session.file_store import default_store
from greenroom.session.history import Page
from greenroom.session.store import SessionStore, unknown_error
from greenroom.session.stored_conversation import StoredConversation
from greenroom.session.stored_sessions import (
    SearchReport,
    delete_session,
    listable,
    search_sessions,
    set_archived,
)


class AgentSession(StoredConversation):
    """A conversation with its lineage and metadata. Made by `new`, `new_subagent` and `load`.

    Changes are made in memory at once, and stored by `save`: all that is pending in one commit. An
    agent that runs holds the session open, so that nobody else writes it; a short program need
    not, since `save` takes the lock for itself.

    Example:
        >>> from greenroom import Message
        >>> session = AgentSession.new("coder")
        >>> session.add_message(Message.user("hello"))
        >>> [message.text for message in session.history]
        ['hello']
    """

    @classmethod
    def new(
        cls, agent_type: str, *, session_id: str | None = None, store: SessionStore | None = None
    ) -> "AgentSession":
        """Make an empty session in memory; nothing is read or written.

        Raises:
            InvalidSessionIdError: the id given is none.
        """
        id_ = new_id("s") if session_id is None else check_session_id(session_id)
        at = wall_clock.now()
        made = SessionMetadata(session_id=id_, agent_type=agent_type, created_at=at, updated_at=at)
        return cls(made, store)

    @classmethod
    def new_subagent(
        cls,
        agent_type: str,
        parent_session_id: str,
        parent_tool_use_id: str | None = None,
        *,
        session_id: str | None = None,
        store: SessionStore | None = None,
    ) -> "AgentSession":
        """Make an empty session that another session's tool call started.

        Raises:
            InvalidSessionIdError: an id given is none.
        """
        session = cls.new(agent_type, session_id=session_id, store=store)
        session.adopt(parent_session_id, parent_tool_use_id)
        return session

    @classmethod
    async def load(
        cls, session_id: str, *, store: SessionStore | None = None, keep_open: bool = False
    ) -> "AgentSession":
        """Read a session. Nothing is locked or repaired; `repair` says if its end is incomplete.

        Calls of the last reply without a result show as interrupted; the next save stores that.

        Args:
            session_id: its id.
            store: where it is kept.
            keep_open: leave the calls open that had not started, such as those that a person was
                asked about when the process died. They are in `unstarted`, and an agent that goes
                on with the session finds them as a `Resume` among its inputs.

        Raises:
            SessionNotFoundError: the store holds no such session.
            SessionCorruptError: it is damaged before its end.
            SessionStorageError: it can't be read.
        """
        store = store or default_store()
        stored = await store.read(check_session_id(session_id))
        if stored.metadata is None:
            raise unknown_error(session_id, store, has_history=bool(stored.history.end.lines))
        session = cls(stored.metadata, store)
        session.keep_open = keep_open
        session._become(stored)
        return session

    @classmethod
    async def read_last(
        cls, session_id: str, count: int, *, store: SessionStore | None = None
    ) -> Page:
        """Read the last `count` messages of a session, without reading what precedes them.

        They are the end of the `history` that `load` gives, as it is stored: a call without a result
        stays one. Nothing is locked or repaired. What is read is verified; damage in front of it is
        not noticed.

        Raises:
            ValueError: `count` is less than 1.
            SessionNotFoundError: the store holds no such session.
            SessionCorruptError: it is damaged there, but for its last line.
            SessionStorageError: it can't be read.
        """
        store = store or default_store()
        found = await store.read_last(check_session_id(session_id), count)
        if found.metadata is None:
            raise unknown_error(session_id, store)
        return found.page

    @classmethod
    async def list_all(
        cls, *, store: SessionStore | None = None, archived: bool = False
    ) -> list[SessionMetadata]:
        """Describe every session of a store, the last changed first, without reading histories.

        Those that are archived are left out, unless they are asked for.

        Raises:
            SessionStorageError: the store can't be read.
        """
        return listable(await (store or default_store()).list_all(), archived=archived)

    @classmethod
    async def search(
        cls,
        text: str,
        *,
        store: SessionStore | None = None,
        limit: int = 20,
        archived: bool = False,
    ) -> SearchReport:
        """Find the sessions in whose title, messages or tool calls a text stands, in any case.

        The last changed come first; at most `limit` of them are found. One history is read at a
        time. `SessionSearch` finds them one by one, and says what is looked at.

        Raises:
            ValueError: the text is empty.
            SessionStorageError: the store can't be read.
        """
        place = store or default_store()
        return await search_sessions(text, place, limit=limit, archived=archived)

    @classmethod
    async def archive(cls, session_id: str, *, store: SessionStore | None = None) -> None:
        """Put a session out of the lists and searches; it can be loaded and gone on with as before.

        Its description says so, in the key `archived` of its metadata; its time stays as it was.

        Raises:
            SessionNotFoundError: the store holds no such session.
            SessionLockedError: it is being written.
            SessionCorruptError: it is damaged before its end.
            SessionStorageError: the disk refused.
        """
        await set_archived(session_id, store or default_store(), archived=True)

    @classmethod
    async def unarchive(cls, session_id: str, *, store: SessionStore | None = None) -> None:
        """Let lists show a session again; raises what `archive` raises."""
        await set_archived(session_id, store or default_store(), archived=False)

    @classmethod
    async def delete(
        cls, session_id: str, *, store: SessionStore | None = None, children: bool = False
    ) -> None:
        """Remove a session for good, with all that lies in its folder; durable when it returns.

        A crash in the middle leaves it whole or gone. With `children`, the sessions that it started
        go first, and theirs; where one of them is being written, those before it are gone and the
        session itself is not. Without, they stay. Who loaded it before can't save it any more.

        Raises:
            SessionNotFoundError: the store holds no such session.
            SessionLockedError: it is being written, here or in another process.
            SessionStorageError: the disk refused; the session is whole, or it is gone and the error
                names what of it is left.
        """
        await delete_session(session_id, store or default_store(), children=children)

    def __repr__(self) -> str:
        return f"<AgentSession {self.session_id} ({self.agent_type}), {len(self.history)} messages>"

    async def fork(self, at: int | None = None, *, branch: int | None = None) -> "AgentSession":
        """Make and save a new session that begins with this one's first `at` messages, or all.

        With the number of a `branch` it begins with that one's: so what a rewind or a compaction
        left is taken up again. The new session's `forked_from` says where it came from.

        Raises:
            SessionError: there are fewer messages, or there is no such branch.
            SessionCorruptError: a branch is asked for, and what is stored is damaged.
            SessionStorageError: the disk refused.
        """
        past = self._transcript
        if branch is not None:
            past = await self._from_entries(lambda entries: as_left(entries, branch))
        fork = AgentSession.new(self.agent_type, store=self.store)
        fork.durability = self.durability
        fork._transcript = past.until(len(past.messages) if at is None else at)
        origin = Origin(self.session_id, len(fork.history), past.branch)
        fork.pair_tool_uses()
        fork.set_model(self.provider, self.model)
        kept = {key: value for key, value in self.metadata.items() if key != "archived"}
        fork._touch(metadata={**kept, FORKED_FROM: msgspec.structs.asdict(origin)})
        await fork.save()
        return fork

    async def rewind(self, to: int) -> None:
        """Go back to the first `to` messages, and save; the later ones stay on record in the store.

        Raises:
            SessionError: there are fewer messages.
            SessionStorageError: the disk refused.
        """
        self._transcript.rewind(to)
        self._transcript.pair("interrupted")
        self._touch()
        await self.save()

    async def compact(self, summary: Message | str, keep: int) -> None:
        """Go on with a summary and the last `keep` messages, and save; the others stay on record.

        From here on `history` begins with the summary, as a message of the user; one that is a text has
        the sender `SUMMARY`. More messages are kept where the place is between a call and its result, or where calls wait for theirs. A
        summary that has a `usage` counts in `used` as the model call that it was.

        Raises:
            TypeError: the summary is neither a text nor a message.
            SessionError: nothing would be left out, or no conversation can begin with that summary.
            InvalidJSONError: the summary holds something that can't be stored.
            SessionStorageError: the disk refused.
        """
        first = Message.user(summary, sender=SUMMARY) if isinstance(summary, str) else summary
        self._transcript.compact(first, keep)
        self._touch()
        await self.save()

    async def rewrite(self, messages: Iterable[Message]) -> None:
        """Go on with these messages in place of all that there are, and save; the others stay on record.

        It is one record, stored whole or not at all. Whether a model accepts what they add up to is
        yours to see to. A model was paid for none of them anew, records and answers for the session
        stay, and a call that had started is still known to.

        Raises:
            TypeError: one of them is not a `Message`.
            InvalidJSONError: one holds something that can't be stored.
            SessionStorageError: the disk refused.

        Example:
            ```python
            await session.rewrite(message for message in session.history if message.text)
            ```
        """
        self._transcript.rewrite(tuple(messages))
        self._touch()
        await self.save()

    async def tree_used(self) -> Used:
        """Return what it and all sessions below it have used on record, detached subagents' too.

        Their histories are read from its store; one that is not there, such as of a subagent that
        never said anything, counts nothing.

        Raises:
            SessionCorruptError: one of them is damaged.
            SessionStorageError: one of them can't be read.
        """
        used, below, seen = self.used, list(self.child_session_ids), {self.session_id}
        while below:
            id_ = below.pop()
            if id_ not in seen:
                seen.add(id_)
                with suppress(SessionNotFoundError):
                    child = await AgentSession.load(id_, store=self.store)
                    used += child.used
                    below += child.child_session_ids
        return used

    async def branches(self) -> tuple[Branch, ...]:
        """Return all that was ever said: this conversation last, before it those that were left.

        Rewinds leave branches, and so do compactions and rewrites. They are read from the store, with what is
        unsaved after them; nothing of it stays in memory.

        Raises:
            SessionNotFoundError: the session was removed.
            SessionCorruptError: what is stored is damaged.
            SessionStorageError: it can't be read.
            SessionError: less is stored than there was.
        """
        return await self._from_entries(branches)

    async def decisions(self) -> tuple[PermissionRecord, ...]:
        """Return what was decided about this session's tool calls, in order; all that ever was.

        A rewind or a compaction takes none of it away. What subagents did is on record in their own
        sessions, and a fork begins with nothing: it has decided nothing yet. They are read from the
        store, with what is unsaved after them; nothing of it stays in memory.

        Raises:
            SessionNotFoundError: the session was removed.
            SessionCorruptError: what is stored is damaged.
            SessionStorageError: it can't be read.
            SessionError: less is stored than there was, or it is of a newer version.
        """
        return await self._from_entries(decisions)
