"""`AgentSession`: one conversation, which outlives the process that holds it."""

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import msgspec

from greenroom.core import (
    JSON,
    SUMMARY,
    Message,
    ToolUseBlock,
    Used,
    check_session_id,
    new_id,
    utc_now,
)
from greenroom.session.branches import replay_branch
from greenroom.session.conversation import Conversation
from greenroom.session.description import FORKED_FROM, Description, Origin, SessionMetadata
from greenroom.session.entries import OpenQuestion
from greenroom.session.file_store import default_store
from greenroom.session.history import RepairReport
from greenroom.session.journal import Durability, Journal
from greenroom.session.store import SessionStore, unknown_error


@dataclass(frozen=True)
class SessionStatistics:
    """A look at one session.

    Attributes:
        messages: messages in the conversation.
        unsaved: entries (messages, rewinds, answers and notes about calls) that no save has stored.
        is_open: whether the session holds its writer lock.
    """

    messages: int
    unsaved: int
    is_open: bool


class AgentSession:
    """A conversation with its lineage and metadata. Made by `new`, `new_subagent` and `load`.

    Changes are made in memory at once, and stored by `save`: all that is pending in one commit. An
    agent that runs holds the session open, so that no other writer does; a short program need
    not, since `save` takes the lock for itself.

    It has three parts, for code that works on sessions as the runtime does: its `description` (who
    it is, and whose child), its `conversation` (what is said and done) and its `journal` (what of
    that is stored). What most programs need of them is offered here.

    Example:
        >>> from greenroom import Message
        >>> session = AgentSession.new("coder")
        >>> session.add_message(Message.user("hello"))
        >>> [message.text for message in session.history]
        ['hello']
    """

    def __init__(self, record: SessionMetadata, store: SessionStore | None = None) -> None:
        """Begin with this description, and without a message; see `new` and `load`."""
        self.description = Description(record)
        self.conversation = Conversation(self.description.touch)
        self.journal = Journal(self.description, self.conversation, store)

    @classmethod
    def new(
        cls, agent_type: str, *, session_id: str | None = None, store: SessionStore | None = None
    ) -> "AgentSession":
        """Make an empty session in memory; nothing is read or written.

        Raises:
            InvalidSessionIdError: the id is not valid.
        """
        id_ = new_id("s") if session_id is None else check_session_id(session_id)
        at = utc_now()
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
            InvalidSessionIdError: an id is not valid.
        """
        session = cls.new(agent_type, session_id=session_id, store=store)
        session.description.set_parent(parent_session_id, parent_tool_use_id)
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
        session.conversation.keep_open = keep_open
        session.journal.start_from(stored)
        return session

    @classmethod
    async def list_all(
        cls, *, store: SessionStore | None = None, archived: bool = False
    ) -> list[SessionMetadata]:
        """Describe every session of a store, the last changed first, without reading histories.

        Those that are archived are left out, unless they are asked for.

        Raises:
            SessionStorageError: the store can't be read.
        """
        found = await (store or default_store()).list_all()
        return [each for each in found if archived or not each.is_archived]

    def __repr__(self) -> str:
        return f"<AgentSession {self.session_id} ({self.agent_type}), {len(self.history)} messages>"

    def statistics(self) -> SessionStatistics:
        """Return figures about the conversation and what of it is stored."""
        conversation = self.conversation
        messages, unsaved = len(conversation.transcript), len(conversation.pending)
        return SessionStatistics(messages, unsaved, self.journal.is_open)

    # -- who it is

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.description.record.session_id

    @property
    def agent_type(self) -> str:
        """What kind of agent it belongs to, such as "coder"."""
        return self.description.record.agent_type

    @property
    def parent_session_id(self) -> str | None:
        """The session that started this one, or None."""
        return self.description.record.parent_session_id

    @property
    def parent_tool_use_id(self) -> str | None:
        """The parent's tool call that started it, or None."""
        return self.description.record.parent_tool_use_id

    @property
    def child_session_ids(self) -> tuple[str, ...]:
        """The sessions that this one started, in order."""
        return self.description.record.child_session_ids

    @property
    def forked_from(self) -> Origin | None:
        """Where it was forked from another session, or None."""
        return self.description.record.forked_from

    @property
    def model(self) -> str:
        """The model last used, empty before the first."""
        return self.description.record.model

    @property
    def provider(self) -> str:
        """The provider last used, empty before the first."""
        return self.description.record.provider

    def set_model(self, provider: str, model: str) -> None:
        """Record which model answers now."""
        self.description.set_model(provider, model)

    @property
    def created_at(self) -> datetime:
        """When it was made, aware and in UTC."""
        return self.description.record.created_at

    @property
    def updated_at(self) -> datetime:
        """When it was last changed, aware and in UTC."""
        return self.description.record.updated_at

    @property
    def metadata(self) -> dict[str, object]:
        """The programmer's own values, as a copy; `set_metadata` changes them."""
        return copy.deepcopy(self.description.record.metadata)

    def get_metadata(self, key: str) -> object:
        """Return a copy of the value kept under a key, or None."""
        return copy.deepcopy(self.description.record.metadata.get(key))

    def set_metadata(self, key: str, value: object) -> None:
        """Keep a JSON value under a key; it is copied.

        Raises:
            InvalidJSONError: it is not a JSON value; the message names the key.
        """
        self.description.set_value(key, value)

    # -- what is said and done

    @property
    def history(self) -> tuple[Message, ...]:
        """The conversation in order; the same tuple until it changes."""
        return self.conversation.transcript.messages

    @property
    def used(self) -> Used:
        """What it has used since it was made, as far as it is on record; rewound parts count too.

        Replies count that a model has written, and calls of tools that started. What a fork was
        copied from was paid there, and what subagents use is on record in their own sessions.
        """
        return self.conversation.transcript.expenses.used

    @property
    def unstarted(self) -> tuple[ToolUseBlock, ...]:
        """The calls of the last reply that were requested, and never started nor were answered.

        Where the session was loaded with `keep_open`, they are what an earlier process left open.
        """
        return self.conversation.transcript.unstarted

    @property
    def open_questions(self) -> tuple[OpenQuestion, ...]:
        """What a person was asked about the `unstarted` calls, by this process or an earlier one."""
        return tuple(self.conversation.open_questions.values())

    def add_message(self, message: Message) -> None:
        """Add a message to the conversation, in memory; one without an id or a time gets them.

        Raises:
            TypeError: it is not a `Message`.
            InvalidJSONError: the message holds something that can't be stored.
        """
        self.conversation.add_message(message)

    def mark_tools_started(self, ids: Iterable[str]) -> None:
        """Record that these calls of the last reply start; save it before they do."""
        self.conversation.mark_tools_started(ids)

    def add_record(self, kind: str, value: object) -> None:
        """Keep a JSON value of your own beside the conversation, in memory; the next save stores it.

        It is copied, committed together with the messages, and never sent to a model. It belongs to
        the place where it was written: a rewind to before that takes it away, a fork from behind it
        copies it, a compaction leaves it alone. Plans and the steps of a workflow are such records.

        Args:
            kind: what kind of value it is, such as "plan.step"; the words are yours.
            value: at most 256 KB as JSON.

        Raises:
            TypeError: the kind is not a text, or empty.
            InvalidJSONError: the value is not JSON.
            SessionError: it is too long.

        Example:
            >>> from greenroom import AgentSession
            >>> session = AgentSession.new("coder")
            >>> session.add_record("plan.step", {"id": "draft", "status": "done"})
            >>> session.records("plan.step")
            ({'id': 'draft', 'status': 'done'},)
        """
        self.conversation.add_record(kind, value)

    def records(self, kind: str) -> tuple[JSON, ...]:
        """Return copies of the values that `add_record` has kept under a kind, oldest first."""
        return tuple(self.conversation.transcript.records.values(kind))

    def last_record(self, kind: str) -> JSON:
        """Return a copy of the newest value under a kind, None where there is none; no other is read."""
        return self.conversation.transcript.records.last(kind)

    # -- its place in a store

    @property
    def store(self) -> SessionStore | None:
        """The store it was given, or came to use by default; None before that."""
        return self.journal.store

    @property
    def repair(self) -> RepairReport | None:
        """What was found torn at the history's end, when it was loaded or opened; else None."""
        return self.journal.repair

    @property
    def is_saved(self) -> bool:
        """Whether `save` would have nothing to write."""
        return self.journal.is_saved

    @property
    def durability(self) -> Durability:
        """Which of its saves a power cut can't take back: at every "step", every "turn", or "none".

        Every save survives the process, whatever this says. With "turn", a save while calls wait
        for their results is not synced, and the one at the turn's end makes all of it durable; with
        "none" it is left to the system, which takes half a minute or so. It is not stored: set it
        on the session, new or loaded; a fork takes it over.
        """
        return self.journal.durability

    @durability.setter
    def durability(self, value: Durability) -> None:
        self.journal.durability = value

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
        await self.journal.open()

    async def close(self) -> None:
        """Let another writer have it; cancellation waits. What is not saved stays in memory.

        Raises:
            SessionStorageError: the disk refused; the lock is let go all the same.
        """
        await self.journal.close()

    async def save(self, *, flush: bool = True) -> None:
        """Store all that is pending, as one commit; durable when it returns, see `durability`.

        A new session that begins long takes several lines; it is stored once the last of them is.
        Without `flush` it survives this process, and a power cut from the next save on. A session
        with nothing on record, no metadata and no children is not stored. If it fails, all stays
        pending, and a later save may succeed; after a failed sync only once it is closed and opened
        again. What was stored though its save failed, as behind a lost connection, is not stored
        twice. Calls that wait for a save in another task share the next one, and return together.

        Raises:
            SessionLockedError: another writer has it.
            SessionExistsError: this session is new, and its id is taken.
            SessionStorageError: the disk refused.
            SessionError: it was changed in the store since it was loaded.
        """
        await self.journal.save(flush=flush)

    # -- going back, and going on from something else

    async def fork(self, at: int | None = None, *, branch: int | None = None) -> "AgentSession":
        """Make and save a new session that begins with this one's first `at` messages, or all.

        With the number of a `branch` it begins with that one's: so what a rewind or a compaction
        left is taken up again. The new session's `forked_from` says where it came from.

        Raises:
            SessionError: there are fewer messages, or there is no such branch.
            SessionCorruptError: a branch is asked for, and what is stored is damaged.
            SessionStorageError: the disk refused.
        """
        past = self.conversation.transcript
        if branch is not None:
            past = await self.journal.read_entries(lambda entries: replay_branch(entries, branch))
        at = len(past) if at is None else at
        fork = AgentSession.new(self.agent_type, store=self.store)
        fork.durability = self.durability
        fork.conversation.begin_with(past.entries_until(at))
        fork.set_model(self.provider, self.model)
        values = {key: value for key, value in self.metadata.items() if key != "archived"}
        origin = msgspec.structs.asdict(Origin(self.session_id, at, past.branch))
        fork.description.touch(metadata={**values, FORKED_FROM: origin})
        await fork.save()
        return fork

    async def rewind(self, to: int) -> None:
        """Go back to the first `to` messages, and save; the later ones stay on record in the store.

        Raises:
            SessionError: there are fewer messages.
            SessionStorageError: the disk refused.
        """
        self.conversation.rewind(to)
        await self.save()

    async def compact(self, summary: Message | str, keep: int) -> None:
        """Go on with a summary and the last `keep` messages, and save; the others stay on record.

        From here on `history` begins with the summary, as a message of the user; one that is a text
        has the sender `SUMMARY`. More messages are kept where the place is between a call and its
        result, or where calls wait for theirs. A summary that has a `usage` counts in `used` as the
        model call that it was.

        Raises:
            TypeError: the summary is neither a text nor a message.
            SessionError: nothing would be left out, or no conversation can begin with that summary.
            InvalidJSONError: the summary holds something that can't be stored.
            SessionStorageError: the disk refused.
        """
        first = Message.user(summary, sender=SUMMARY) if isinstance(summary, str) else summary
        self.conversation.compact(first, keep)
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
        self.conversation.rewrite(tuple(messages))
        await self.save()
