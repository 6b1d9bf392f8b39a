"""A session's messages and the changes to them, in memory: what is said, called and answered."""

from collections.abc import Iterable, Mapping

from msgspec.structs import asdict

from greenroom.core import JSON, Checkpoint, Message, PermissionRecord, ToolUseBlock, Used
from greenroom.session.description import Description, SessionMetadata
from greenroom.session.entries import (
    QUESTION,
    CheckpointEntry,
    CopiedEntry,
    GrantEntry,
    MessageEntry,
    OpenQuestion,
    RevokeEntry,
    ToolsStartedEntry,
    decision_entry,
    open_questions,
)
from greenroom.session.transcript import Transcript, record_entry


class Conversation(Description):
    """The part of a session that `history.jsonl` holds, in memory, with its description."""

    def __init__(self, record: SessionMetadata) -> None:
        """Begin with this description, and without a message."""
        super().__init__(record)
        self._transcript = Transcript()
        self.keep_open = False
        """Whether calls that never started stay open where an agent ends, for another to ask again."""

    @property
    def history(self) -> tuple[Message, ...]:
        """The conversation in order; the same tuple until it changes."""
        return self._transcript.messages

    @property
    def used(self) -> Used:
        """What it has used since it was made, as far as it is on record; rewound parts count too.

        Replies count that a model has written, and calls of tools that started. What a fork was
        copied from was paid there, and what subagents use is on record in their own sessions.
        """
        return self._transcript.expenses.used

    @property
    def grants(self) -> tuple[dict[str, object], ...]:
        """The rules of a person's answers that hold for the rest of the session, as JSON objects.

        `PermissionManager.bind_session` reads and adds them. The same tuple until they change; a
        rewind to before an answer, or just to where it was given, takes its rules away.
        """
        return self._transcript.grants.rules

    @property
    def unstarted(self) -> tuple[ToolUseBlock, ...]:
        """The calls of the last reply that were requested, and never started nor were answered.

        Where the session was loaded with `keep_open`, they are what an earlier process left open.
        """
        return self._transcript.unstarted

    @property
    def open_questions(self) -> tuple[OpenQuestion, ...]:
        """What a person was asked about the `unstarted` calls, by this process or an earlier one."""
        return tuple(self._open_questions.values())

    @property
    def _open_questions(self) -> dict[str, OpenQuestion]:
        records = self._transcript.records_since_reply(QUESTION)
        return open_questions(records, (call.id for call in self.unstarted))

    def add_message(self, message: Message) -> None:
        """Add a message to the conversation, in memory; one without an id or a time gets them.

        Raises:
            TypeError: it is no `Message`.
            InvalidJSONError: the message holds something that can't be stored.
        """
        if not isinstance(message, Message):
            raise TypeError(
                f"{message!r} is no message: write Message.user(…) or Message.assistant(…)"
            )
        self._transcript.add(MessageEntry(message.stamped()))
        self._touch()

    def add_decision(self, record: PermissionRecord) -> None:
        """Record what was decided about a tool call, in memory; the next save stores it.

        It is about the call and no part of the conversation: no rewind takes it back.

        Raises:
            TypeError: it is no `PermissionRecord`.
            InvalidJSONError: it holds something that can't be stored.
        """
        if not isinstance(record, PermissionRecord):
            raise TypeError(f"{record!r} is no PermissionRecord")
        self._transcript.add(decision_entry(record))
        self._touch()

    def mark_tools_started(self, ids: Iterable[str]) -> None:
        """Record that these calls of the last reply start; save it before they do."""
        if started := tuple(ids):
            self._transcript.add(ToolsStartedEntry(started))
            self._touch()

    def withdraw_tools_started(self) -> None:
        """Take back an unsaved `mark_tools_started`: the calls did not start after all."""
        self._transcript.withdraw_started()

    def add_grants(self, rules: Iterable[dict[str, object]]) -> None:
        """Record the rules of a person's answer, in memory; the next save stores them.

        Raises:
            InvalidJSONError: a rule is no JSON object.
        """
        if added := tuple(rules):
            self._transcript.add(GrantEntry(added))
            self._touch()

    def revoke_grants(self) -> None:
        """Record that none of the answers so far holds any longer; no rewind brings one back."""
        if self.grants:
            self._transcript.add(RevokeEntry())
            self._touch()

    def add_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Record what calls are about to do to files, or under the same id what they have done.

        Raises:
            InvalidJSONError: a path in it can't be stored.
        """
        self._transcript.add(CheckpointEntry(checkpoint))
        self._touch()

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
        self._transcript.add(record_entry(kind, value))
        self._touch()

    def records(self, kind: str) -> tuple[JSON, ...]:
        """Return copies of the values that `add_record` has kept under a kind, oldest first."""
        return tuple(self._transcript.records.values(kind))

    def last_record(self, kind: str) -> JSON:
        """Return a copy of the newest value under a kind, None where there is none; no other is read."""
        return self._transcript.records.last(kind)

    def add_question(self, question: OpenQuestion) -> bool:
        """Record what a person is asked about an unstarted call, unless it is on record already.

        Returns:
            Whether it is about such a call: then a save keeps the question over this process.
        """
        if all(call.id != question.tool_use_id for call in self.unstarted):
            return False
        if self._open_questions.get(question.tool_use_id) != question:
            self.add_record(QUESTION, asdict(question))
        return True

    def mark_copied(self) -> None:
        """Record that all until here was copied from another session, which has paid for it."""
        self._transcript.add(CopiedEntry())
        self._touch()

    def pair_tool_uses(
        self,
        reason: str = "interrupted",
        told: Mapping[str, str] | None = None,
        *,
        keep_unstarted: bool = False,
    ) -> tuple[str, ...]:
        """Answer each call of the last reply that has no result, in one message; return their ids.

        Each answer is an error that names the reason, whether the call had started, and what it had
        `told` until then. With `keep_unstarted` calls stay open that had not.
        """
        if ids := self._transcript.pair(reason, told or {}, keep_unstarted=keep_unstarted):
            self._touch()
        return ids
