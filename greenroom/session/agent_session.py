"""`AgentSession`: one conversation, which outlives the process that holds it."""

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import msgspec

from greenroom.core import Message, ToolUseBlock, Usage
from greenroom.core._internal import JSON, SUMMARY, PermissionRecord, Used, check_session_id, thaw
from greenroom.session.artifacts import ARTIFACT, Artifact, read_artifacts
from greenroom.session.branches import Branch, find_branches, replay_branch
from greenroom.session.conversation import Conversation, SessionStatistics
from greenroom.session.description import FORKED_FROM, Description, Origin, SessionMetadata
from greenroom.session.entries import OpenQuestion, decode_decisions
from greenroom.session.file_store import check_store, choose_store
from greenroom.session.files import copy_files
from greenroom.session.history import RepairReport
from greenroom.session.journal import Durability, Journal
from greenroom.session.store import SessionStore, whole_or_nothing
from greenroom.session.store_errors import unknown_error

if TYPE_CHECKING:
    from greenroom.session.past_sessions import SearchReport

OnCutOff: TypeAlias = Literal["stop", "continue"]
"""What an agent does with a turn that the end of an earlier process has cut off."""


class AgentSession:
    """A conversation with its lineage and metadata. Made by `new`, `new_subagent` and `load`.

    Changes are made in memory at once; `save` stores everything pending in one commit. A running
    agent holds the session open, which locks out other writers. A short program need not, since
    `save` takes the lock for itself.

    It has three parts, for code that works on sessions as the runtime does: its `description` (what
    it is, and whose child), its `conversation` (what is said and done) and its `journal` (what of
    that is stored). This class offers what most programs need of them.

    Example:
        >>> from greenroom import Message
        >>> session = AgentSession.new("coder")
        >>> session.add_message(Message.user("hello"))
        >>> [message.text for message in session.history]
        ['hello']
    """

    def __init__(self, record: SessionMetadata, store: SessionStore | None = None) -> None:
        """Begin with this description, without messages; see `new` and `load`."""
        check_store(store)
        self.description = Description(record)
        self.conversation = Conversation(self.description.touch)
        self.journal = Journal(self.description, self.conversation, store)

    @classmethod
    def new(
        cls, agent_type: str, *, session_id: str | None = None, store: SessionStore | None = None
    ) -> "AgentSession":
        """Create an empty session in memory; nothing is read or written.

        Raises:
            InvalidSessionIdError: the id is not valid.
            TypeError: the agent's type is not a text, or the store not a store.
        """
        if not isinstance(agent_type, str):
            raise TypeError(f"the type of an agent is a text such as 'coder', not {agent_type!r}")
        return cls(SessionMetadata.begin(agent_type, session_id), store)

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
        """Create an empty session as the child of another session, started by a tool call.

        Raises:
            InvalidSessionIdError: an id is not valid.
        """
        session = cls.new(agent_type, session_id=session_id, store=store)
        session.description.set_parent(parent_session_id, parent_tool_use_id)
        return session

    @classmethod
    async def load(
        cls,
        session_id: str,
        *,
        store: SessionStore | None = None,
        keep_open: bool = False,
        on_cut_off: OnCutOff = "stop",
    ) -> "AgentSession":
        """Read a session. Nothing is locked or repaired; `repair` tells whether its end is torn.

        Calls of the last reply without a result are answered as interrupted; the next save stores
        these answers.

        Args:
            session_id: its id.
            store: where it is kept.
            keep_open: leave calls open that had not started, such as those that a person was asked
                about when the process died. They are in `unstarted`, and an agent that continues
                the session gets them as a `Resume` among its inputs.
            on_cut_off: what an agent does with a turn that the end of its process has cut off
                (`cut_off`): "stop" leaves it as it is; "continue" gives the agent a `Resume`, with
                which it goes on from the history. A call that may have started is never run again.

        Raises:
            ValueError: `on_cut_off` is another word.
            SessionNotFoundError: the store holds no such session.
            SessionCorruptError: it is damaged before its end.
            SessionStorageError: it can't be read.
        """
        store = choose_store(store)
        if on_cut_off not in get_args(OnCutOff):
            raise ValueError(f"on_cut_off is 'stop' or 'continue', not {on_cut_off!r}")
        stored = await store.read(check_session_id(session_id))
        if stored.metadata is None:
            raise unknown_error(session_id, store, has_history=bool(stored.history.end.lines))
        session = cls(stored.metadata, store)
        session.conversation.keep_open = keep_open
        session.conversation.continues_cut_off = on_cut_off == "continue"
        session.journal.start_from(stored)
        return session

    @classmethod
    async def list_all(
        cls, *, store: SessionStore | None = None, archived: bool = False
    ) -> list[SessionMetadata]:
        """Describe every session of a store, the last changed first, without reading histories.

        Archived sessions are included only with `archived`.

        Raises:
            SessionStorageError: the store can't be read.
        """
        found = await choose_store(store).list_all()
        return [each for each in found if archived or not each.is_archived]

    @staticmethod
    async def search(
        query: str, *, store: SessionStore | None = None, limit: int = 20, archived: bool = False
    ) -> "SearchReport":
        """Find the sessions with a text in their title, messages or tool calls, ignoring case.

        The last changed come first, at most `limit`. Thinking, rewound messages and tool results,
        most of which are other people's files, are not searched.

        Raises:
            ValueError: the text is empty.
            SessionStorageError: the store can't be read.
        """
        from greenroom.session.past_sessions import search_sessions

        return await search_sessions(query, choose_store(store), limit, archived=archived)

    @staticmethod
    async def archive(
        session_id: str, *, store: SessionStore | None = None, archived: bool = True
    ) -> None:
        """Hide a session from lists and searches, or show it again if `archived` is False.

        It can be loaded and continued as before, and its time of change stays as it was.

        Raises:
            SessionNotFoundError: the store holds no such session.
            SessionLockedError: it is being written.
            SessionCorruptError: it is damaged before its end.
            SessionStorageError: the disk refused.
        """
        from greenroom.session.past_sessions import archive_session

        await archive_session(session_id, choose_store(store), archived=archived)

    @staticmethod
    async def delete(
        session_id: str,
        *,
        store: SessionStore | None = None,
        children: bool = False,
        older_than: datetime | None = None,
    ) -> None:
        """Remove a session for good, with everything in its folder; durable when it returns.

        A crash leaves it whole or gone. With `children`, those that it started are removed first,
        and theirs; if one of them is being written, those before it are gone, and the session
        itself stays. A session loaded earlier can't be saved any more. With `older_than`, only what
        was last changed before that moment is removed.

        Raises:
            SessionError: it was changed since `older_than`.
            SessionNotFoundError: the store holds no such session.
            SessionLockedError: it is being written, here or in another process.
            SessionStorageError: the disk refused; the session is whole, or it is gone and the error
                names what is left of it.
        """
        from greenroom.session.past_sessions import delete_session

        place = choose_store(store)
        await delete_session(session_id, place, children=children, older_than=older_than)

    @staticmethod
    async def copy(
        session_id: str, source: SessionStore, target: SessionStore
    ) -> Literal["copied", "there"]:
        """Copy a session to another store under its id, with its files, and read the copy back.

        The source is not changed, nor locked. A copy that was cut off is completed, and until then
        no list shows it. If the target has the whole history already ("there"), or more, it stays
        as it is. Where the store can say so, the copy was last changed when the original was. What
        only a newer version knows is not copied.

        Raises:
            SessionNotFoundError: the source does not have this session.
            SessionExistsError: the target has another session of this id.
            SessionLockedError: the session is being written in the target.
            SessionCorruptError: the session is damaged in one of them.
            SessionStorageError: a store refused, or the copy does not read as the original.
        """
        from greenroom.session.copying import copy_session

        return await copy_session(session_id, source, target)

    def __repr__(self) -> str:
        return f"<AgentSession {self.session_id} ({self.agent_type}), {len(self.history)} messages>"

    def statistics(self) -> SessionStatistics:
        """Return figures about the session."""
        conversation = self.conversation
        messages, unsaved = len(conversation.transcript), len(conversation.pending)
        return SessionStatistics(messages, unsaved, self.journal.is_open)

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.description.facts.session_id

    @property
    def agent_type(self) -> str:
        """The kind of agent that it belongs to, such as "coder"."""
        return self.description.facts.agent_type

    @property
    def parent_session_id(self) -> str | None:
        """The session that started this one, or None."""
        return self.description.facts.parent_session_id

    @property
    def parent_tool_use_id(self) -> str | None:
        """The parent's tool call that started it, or None."""
        return self.description.facts.parent_tool_use_id

    @property
    def child_session_ids(self) -> tuple[str, ...]:
        """The ids of the sessions that this one started, in order."""
        return self.description.facts.child_session_ids

    @property
    def forked_from(self) -> Origin | None:
        """Where it was forked from another session, or None."""
        return self.description.facts.forked_from

    @property
    def model(self) -> str:
        """The last model used; empty before the first."""
        return self.description.facts.model

    @property
    def provider(self) -> str:
        """The last provider used; empty before the first."""
        return self.description.facts.provider

    def set_model(self, provider: str, model: str) -> None:
        """Record which model answers from now on."""
        self.description.set_model(provider, model)

    @property
    def created_at(self) -> datetime:
        """When it was created, in UTC."""
        return self.description.facts.created_at

    @property
    def updated_at(self) -> datetime:
        """When it was last changed, in UTC."""
        return self.description.record.updated_at

    @property
    def metadata(self) -> dict[str, object]:
        """A copy of the programmer's own values; `set_metadata` changes them."""
        return thaw(self.description.facts.metadata)

    def get_metadata(self, key: str) -> object:
        """Return a copy of the value under a key, or None."""
        return thaw(self.description.facts.metadata.get(key))

    def set_metadata(self, key: str, value: object) -> None:
        """Set a JSON value under a key; it is copied.

        Raises:
            InvalidJSONError: it is not a JSON value; the message names the key.
        """
        self.description.set_value(key, value)

    @property
    def history(self) -> tuple[Message, ...]:
        """The messages of the conversation, in order; the same tuple until they change."""
        return self.conversation.transcript.messages

    @property
    def used(self) -> Used:
        """The usage on record since the session was created, rewound parts included.

        It counts replies written by a model, those that were thrown away (`add_usage`), and tool
        calls that started. It leaves out what a fork
        copied, which the original paid for, and subagents, which have their own sessions.
        """
        return self.conversation.transcript.expenses.used

    @property
    def unstarted(self) -> tuple[ToolUseBlock, ...]:
        """The last reply's calls that neither started nor got a result.

        In a session loaded with `keep_open`, these include calls that an earlier process left open.
        """
        return self.conversation.transcript.unstarted

    @property
    def open_questions(self) -> tuple[OpenQuestion, ...]:
        """The questions that are asked again where the conversation goes on.

        Those about `unstarted` calls, by this process or an earlier one; and those that the code of
        a turn has asked about no call, if the turn is suspended, or was left behind by its process
        and the session is loaded with `keep_open`.
        """
        about_calls = self.conversation.open_questions.values()
        return (*about_calls, *self.conversation.questions_of_turn)

    @property
    def cut_off(self) -> str | None:
        """The id of the input whose turn has begun and has no end on record, or None.

        After loading, that turn was cut off by the end of its process, or waits for an answer. In a
        running agent it may be the open turn. A rewind to before the input leaves none. Sessions
        written before turns were on record have none.
        """
        return self.conversation.transcript.cut_off

    def has_input(self, input_id: str) -> bool:
        """Whether an input of this id was ever taken into the conversation.

        It stays true over a compaction, a rewrite, a rewind and a restart, so whoever is not sure
        that an input has arrived may send it again under its id. A fork knows the messages that it
        begins with. The ids are read with the history and stay in memory, about 0.1 KB each.
        """
        return self.conversation.has_input(input_id)

    def add_message(self, message: Message) -> None:
        """Add a message in memory, and give it an id and a time if it has none.

        Raises:
            TypeError: it is not a `Message`.
            InvalidJSONError: its role is unknown, or it holds something that can't be stored.
        """
        self.conversation.add_message(message)

    def mark_tools_started(self, ids: Iterable[str]) -> None:
        """Record that these calls of the last reply start; save this before they do."""
        self.conversation.mark_tools_started(ids)

    def add_usage(self, usage: Usage, model: str = "") -> None:
        """Count a model call in `used` whose reply is not added, such as one that broke off.

        `agent.model_call(…)` does so for a reply that its block discards. No rewind removes it.

        Args:
            usage: what the reply has used.
            model: the model that wrote it.
        """
        self.conversation.add_usage(usage, model)

    def add_record(self, kind: str, value: object) -> None:
        """Add a JSON value of your own beside the conversation; the next save stores it.

        It is copied, committed together with the messages, and never sent to a model. It belongs to
        its place in the conversation: a rewind to before that place removes it, a fork from after
        it copies it, and a compaction keeps it. Plans and workflow steps are such records.

        Args:
            kind: the kind of value, such as "plan.step"; you choose it.
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
        """Return copies of the values that `add_record` added under a kind, oldest first."""
        return self.conversation.transcript.read_records(kind)

    def last_record(self, kind: str) -> JSON:
        """Return a copy of the newest value under a kind, or None; no other is decoded."""
        return self.conversation.transcript.records.last(kind)

    def artifacts(self) -> tuple[Artifact, ...]:
        """Return every version of what the agent has made for people, the oldest first.

        The content is a file of the session: `store.open_file(session_id, artifact.file)`. Tools
        save artifacts with `AgentContext.save_artifact`.
        """
        return read_artifacts(self.records(ARTIFACT))

    async def read_branches(self) -> tuple[Branch, ...]:
        """Return all branches of the conversation as they were left, the current one last.

        Rewinds, compactions and rewrites leave branches. They are read from the store, together
        with what is unsaved; nothing of it stays in memory.

        Raises:
            SessionNotFoundError: the session was removed.
            SessionCorruptError: the stored part is damaged.
            SessionStorageError: it can't be read.
            SessionError: the store holds less than before.
        """
        return await self.journal.read_entries(find_branches)

    async def read_decisions(self) -> tuple[PermissionRecord, ...]:
        """Return all decisions about this session's tool calls, in order.

        No rewind or compaction removes any. Subagents' decisions are on record in their own
        sessions, and a fork begins without decisions. They are read from the store, together with
        what is unsaved; nothing of it stays in memory.

        Raises:
            SessionNotFoundError: the session was removed.
            SessionCorruptError: the stored part is damaged.
            SessionStorageError: it can't be read.
            SessionError: the store holds less than before, or it is of a newer version.
        """
        return await self.journal.read_entries(decode_decisions)

    @property
    def store(self) -> SessionStore | None:
        """The store it was given or uses by default; None until it needs one."""
        return self.journal.store

    @property
    def repair(self) -> RepairReport | None:
        """The torn end that was found when the session was loaded or opened; else None."""
        return self.journal.repair

    @property
    def is_saved(self) -> bool:
        """Whether `save` would have nothing to write."""
        return self.journal.is_saved

    @property
    def durability(self) -> Durability:
        """Which saves survive a power cut: those of every "step", every "turn", or "none".

        Every save survives the end of the process. With "turn", saves while calls wait for their
        results are not synced, and the save at the turn's end makes all of them durable. With
        "none" syncing is left to the system, which takes half a minute or so. The setting is not
        stored: set it on each new or loaded session; forks inherit it.
        """
        return self.journal.durability

    @durability.setter
    def durability(self, value: Durability) -> None:
        self.journal.durability = value

    async def open(self) -> None:
        """Become the session's only writer until `close`, and set a torn end aside.

        Raises:
            SessionLockedError: another writer has it; `pid` says which process.
            SessionExistsError: this session is new, and its id is taken.
            SessionNotFoundError: it was removed.
            SessionCorruptError: it is damaged before its end.
            SessionStorageError: the disk refused.
            SessionError: since it was loaded, it was changed both in the store and in memory.
        """
        await self.journal.open()

    async def close(self) -> None:
        """Release the session to other writers; cancellation waits. Unsaved changes stay in memory.

        Raises:
            SessionStorageError: the disk refused; the lock is released nevertheless.
        """
        await self.journal.close()

    async def save(self, *, flush: bool = True) -> None:
        """Store everything pending as one commit; durable when it returns, see `durability`.

        A new session with a long beginning takes several lines, and is stored once the last one is.
        Without `flush` the commit survives this process, and a power cut only after the next save.
        A session without entries, metadata and children is not stored. If a save fails, everything
        stays pending, and a later save may succeed; after a failed sync, only once the session was
        closed and opened again. Entries stored by a save that seemed to fail, for instance because
        a connection was lost, are not stored twice. Concurrent saves share the next commit. A save
        that waits for nothing, as in memory, can be cancelled, but lets no other task run.

        Raises:
            SessionLockedError: another writer has it.
            SessionExistsError: this session is new, and its id is taken.
            SessionStorageError: the disk refused.
            SessionError: it was changed in the store since it was loaded.
        """
        await self.journal.save(flush=flush)

    async def fork(self, at: int | None = None, *, branch: int | None = None) -> "AgentSession":
        """Create and save a new session that begins with this one's first `at` messages, or all.

        With the number of a `branch` it begins with that branch's messages, to continue what a
        rewind or a compaction left. The new session's `forked_from` says where it came from.

        Raises:
            SessionError: there are fewer messages, or there is no such branch.
            SessionCorruptError: `branch` is given, and the stored session is damaged.
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
        async with whole_or_nothing(fork):
            await copy_files(self.store, self.session_id, fork.session_id)
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
        """Replace all but the last `keep` messages by a summary, and save; they stay on record.

        `history` then begins with the summary, as a user's message; if given as a text, it has the
        sender `SUMMARY`. More messages are kept if calls would be separated from their results, or
        still wait for them. A summary with a `usage` counts in `used` as a model call.

        Raises:
            TypeError: the summary is neither a text nor a message.
            SessionError: no message would be replaced, or a conversation can't begin with it.
            InvalidJSONError: the summary holds something that can't be stored.
            SessionStorageError: the disk refused.
        """
        first = Message.user(summary, sender=SUMMARY) if isinstance(summary, str) else summary
        self.conversation.compact(first, keep)
        await self.save()

    async def rewrite(self, messages: Iterable[Message]) -> None:
        """Replace all messages by these, and save; the old ones stay on record.

        It is one entry, stored whole or not at all. It is up to you that a model accepts these
        messages. They don't count as usage; records, answers for the session, and which calls have
        started are kept.

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
