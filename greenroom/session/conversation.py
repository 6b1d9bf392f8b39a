"""A conversation in memory: what is added to it, and which of that waits for a commit.

An entry is validated when it is added, not when it is saved. What could not be written, or not be
read again, is refused at its source and never blocks later entries. After that an entry is

    pending        in memory only; a crash loses it
    unconfirmed    passed to a commit that is running or has failed: it may be stored or not
    stored         in the store, and no longer kept here in its encoded form

The block of `commit` writes the first pending entries. If it raises, because of a cancel or a lost
connection for instance, they stay pending and unconfirmed until `settle` is told what the store
holds: then they are stored, or only pending again. Entries added meanwhile go to the end, so they
can't get in between.

`mark_tools_started` may be taken back while it is pending. While it is unconfirmed it may be stored
as well, so it is only marked as withdrawn, and `settle` removes it if it was not stored.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from greenroom.core import (
    Message,
    PermissionRequest,
    SessionError,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
)
from greenroom.core._internal import Checkpoint, InvalidJSONError, PermissionRecord
from greenroom.session.entries import (
    CheckpointEntry,
    CompactionEntry,
    CopiedEntry,
    Entry,
    GrantEntry,
    MessageEntry,
    OpenQuestion,
    PendingEntry,
    RevokeEntry,
    RewindEntry,
    RewriteEntry,
    ToolsStartedEntry,
    TurnEntry,
    UsageEntry,
    answered_entry,
    decision_entry,
    find_open_questions,
    question_entry,
    read_question,
    record_entry,
    validate_entry,
)
from greenroom.session.transcript import Transcript, answer_calls, find_open_calls

_NOTHING: Mapping[str, str] = MappingProxyType({})
_NONE: Final = frozenset[str]()


class SessionStatistics(msgspec.Struct, frozen=True):
    """Figures about one session.

    Attributes:
        messages: messages in the conversation.
        unsaved: entries (messages, rewinds, answers and notes about calls) not stored yet.
        is_open: whether the session holds its writer lock.
    """

    messages: int
    unsaved: int
    is_open: bool


class Conversation:
    """A session's messages, what belongs to them, and the entries that are not stored yet."""

    def __init__(self, touch: Callable[[], None]) -> None:
        """Begin without a message; `touch` is called on every change."""
        self._touch = touch
        self.keep_open = False
        """Whether unstarted calls stay open when an agent ends, for the next one to ask again."""
        self.continues_cut_off = False
        """Whether the next agent goes on with a turn that was cut off."""
        self._begin(())

    def _begin(self, entries: Iterable[Entry]) -> None:
        self.transcript = Transcript(entries)
        """The sum of all entries, stored or not."""
        self.pending: list[PendingEntry] = []
        """The entries not known to be stored, in order."""
        self._unconfirmed = 0  # how many of these the last commit was given
        self._is_writing = False
        # The last `mark_tools_started`, how many calls it names, and which it named first.
        self._start_entry: PendingEntry | None = None
        self._start_calls = 0
        self._start_ids: frozenset[str] = _NONE
        self._is_withdrawn = False

    def restore(self, entries: Iterable[Entry]) -> None:
        """Continue from what is stored, and answer calls that were cut off (not saved yet)."""
        self._begin(entries)
        self._pair("interrupted", keep_unstarted=self.keep_open)

    def begin_with(self, entries: Sequence[Entry]) -> None:
        """Begin with the entries of another conversation, all pending here, and pair its calls."""
        self._begin(entries)
        self.pending += entries  # validated there already, so a thread may encode them later
        self.pair_tool_uses()

    @property
    def stored_count(self) -> int:
        """How many entries are known to be stored; format entries don't count."""
        return self.transcript.count - len(self.pending)

    @property
    def is_waiting(self) -> bool:
        """Whether a call of the last reply still has to get its result in this process."""
        is_left = self.keep_open and bool(self.transcript.unstarted)
        return not is_left and bool(self.transcript.open_calls)

    def add_message(self, message: Message) -> None:
        """Add a message, and give it an id and a time if it has none.

        Raises:
            TypeError: it is not a `Message`.
            InvalidJSONError: its role is unknown, or it holds something that can't be stored.
        """
        self._add(MessageEntry(_check_message(message).stamp()))

    def copy_messages(self, messages: Iterable[Message]) -> None:
        """Add another conversation's messages as they are, and record that it paid for them.

        Their calls without a result are answered as if they had started, since we can't tell.

        Raises:
            InvalidJSONError: one holds something that can't be stored.
        """
        for message in messages:
            self._queue(MessageEntry(message))
        self.mark_tools_started(call.id for call in find_open_calls(self.transcript.messages))
        self.pair_tool_uses()
        self._add(CopiedEntry())

    def add_decision(self, record: PermissionRecord) -> None:
        """Record a decision about a tool call; no rewind takes it back.

        Raises:
            TypeError: it is not a `PermissionRecord`.
            InvalidJSONError: it holds something that can't be stored.
        """
        if not isinstance(record, PermissionRecord):
            raise TypeError(f"{record!r} is not a PermissionRecord")
        self._add(decision_entry(record))

    def add_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Record what calls are about to do to files, or under the same id, what they did.

        Raises:
            InvalidJSONError: a path in it can't be stored.
        """
        self._add(CheckpointEntry(checkpoint))

    def add_record(self, kind: str, value: object) -> None:
        """Keep a program's JSON value; see `AgentSession.add_record`."""
        self._add(record_entry(kind, value))

    def add_usage(self, usage: Usage, model: str = "") -> None:
        """Keep what a reply cost that is not kept; see `AgentSession.add_usage`."""
        self._add(UsageEntry(usage, model))

    def begin_turn(self, input_id: str) -> None:
        """Record that a turn begins with this input; not in an empty session, which isn't stored.

        It is stored with the messages of the turn.
        """
        if len(self.transcript):
            self._add(TurnEntry((input_id,)))

    def end_turn(self, input_ids: Iterable[str], status: str) -> None:
        """Record how the turn that is on record as begun has ended, and which inputs it took."""
        if self.transcript.cut_off is not None:
            self._add(TurnEntry(tuple(input_ids), status))

    def has_input(self, input_id: str) -> bool:
        """Whether a message was ever added as input under this id; see `AgentSession.has_input`."""
        return input_id in self.transcript.input_ids

    @property
    def grants(self) -> tuple[dict[str, object], ...]:
        """The rules from a person's answers for the rest of the session, as JSON objects.

        `PermissionManager.bind_session` reads and adds them. It is the same tuple until they
        change. A rewind to where an answer was given, or further, removes its rules.
        """
        return self.transcript.grants.rules

    def add_grants(self, rules: Iterable[dict[str, object]]) -> None:
        """Record the rules made from a person's answer.

        Raises:
            InvalidJSONError: a rule is not a JSON object.
        """
        if added := tuple(rules):
            self._add(GrantEntry(added))

    def revoke_grants(self) -> None:
        """Revoke all answers so far; no rewind brings them back."""
        if self.grants:
            self._add(RevokeEntry())

    @property
    def open_questions(self) -> dict[str, OpenQuestion]:
        """The questions that a person was asked about unstarted calls, by the call's id."""
        records = self.transcript.questions_since_reply()
        return find_open_questions(records, (call.id for call in self.transcript.unstarted))

    @property
    def questions_of_turn(self) -> tuple[OpenQuestion, ...]:
        """The open questions of a turn that an earlier process began, or that is suspended.

        The turn's own code has asked them, about none of its calls.
        """
        if not self.keep_open:
            return ()
        return tuple(filter(None, map(read_question, self.transcript.questions_of_turn())))

    def add_question(self, request: PermissionRequest, *, of_turn: bool = False) -> bool:
        """Record a question to a person, unless it is on record already.

        Args:
            request: the question, about an unstarted call.
            of_turn: whether it may also be about no call, asked by the code of the turn itself.

        Returns:
            Whether it will be asked again, so that it outlives this process once it is saved.
        """
        question = OpenQuestion(request.request_id, request.tool_use_id, request.digest, request)
        if not question.tool_use_id and of_turn and self.transcript.cut_off is not None:
            if question not in self.questions_of_turn:
                self._add(question_entry(question))
            return True
        if all(call.id != question.tool_use_id for call in self.transcript.unstarted):
            return False
        if self.open_questions.get(question.tool_use_id) != question:
            self._add(question_entry(question))
        return True

    def close_question(self, request: PermissionRequest) -> None:
        """Record that a question of the turn itself is answered; the next save stores it."""
        self._add(answered_entry(request.request_id))

    def was_asked(self, request_id: str) -> bool:
        """Whether a question of this id was ever recorded here, open or not."""
        return request_id in self.transcript.asked_ids

    def mark_tools_started(self, ids: Iterable[str]) -> None:
        """Record that these calls of the last reply start; save this before they do."""
        if started := tuple(ids):
            before = frozenset(self.transcript.started_ids)
            self._add(ToolsStartedEntry(started))
            self._start_entry, self._start_calls = self.pending[-1], len(started)
            self._start_ids = frozenset(started) - before

    def withdraw_tools_started(self) -> None:
        """Take back the record that calls of the last reply start, unless it is being committed."""
        is_last = bool(self.pending) and self.pending[-1] is self._start_entry
        is_unconfirmed = len(self.pending) <= self._unconfirmed
        if not is_last or self._is_withdrawn or (is_unconfirmed and self._is_writing):
            return
        self.transcript.withdraw_start(self._start_ids, self._start_calls)
        self._is_withdrawn = is_unconfirmed
        if not is_unconfirmed:
            self._drop_start()

    def note_not_started(self, ids: Iterable[str]) -> None:
        """Note that calls on record as started never were; `pair_tool_uses` then says so."""
        self.transcript.note_not_started(frozenset(ids))

    def pair_tool_uses(
        self,
        reason: str = "interrupted",
        outputs: Mapping[str, str] = _NOTHING,
        *,
        keep_unstarted: bool = False,
    ) -> tuple[str, ...]:
        """Answer each call of the last reply without a result, in one message; return their ids.

        Each answer is an error that names the reason, whether the call had started, and its output
        until then. With `keep_unstarted`, calls that had not started stay open.
        """
        if ids := self._pair(reason, outputs, keep_unstarted=keep_unstarted):
            self._touch()
        return ids

    def _pair(
        self, reason: str, outputs: Mapping[str, str] = _NOTHING, *, keep_unstarted: bool
    ) -> tuple[str, ...]:
        waiting: tuple[ToolUseBlock, ...] = self.transcript.open_calls
        if not waiting:
            self.transcript.mark_paired()
            return ()
        started = self.transcript.started_ids
        ids = tuple(call.id for call in waiting if not keep_unstarted or call.id in started)
        if ids:
            self._queue(MessageEntry(answer_calls(ids, started, reason, outputs)))
        if len(ids) == len(waiting):
            self.transcript.mark_paired()
        return ids

    def rewind(self, to: int) -> None:
        """Go back to the first `to` messages, and answer calls left without a result.

        Raises:
            SessionError: there are fewer messages.
        """
        self.transcript.check_place(to)
        self._add(RewindEntry(to, len(self.transcript) - to))
        self.pair_tool_uses()

    def compact(self, summary: Message, keep: int) -> None:
        """Replace all but the last messages by a summary; `count_to_keep` says how many stay.

        Raises:
            TypeError: the summary is not a message.
            SessionError: no message would be replaced, or a conversation can't begin with it.
            InvalidJSONError: the summary holds something that can't be stored.
        """
        first = check_summary(summary).stamp()
        self._add(CompactionEntry(first, count_to_keep(self.transcript.messages, keep)))

    def rewrite(self, messages: Sequence[Message]) -> None:
        """Replace all messages by these.

        Raises:
            TypeError: one of them is not a message.
            InvalidJSONError: one holds something that can't be stored.
        """
        known = {id(each) for each in self.transcript.messages}
        unchanged = [each if id(each) in known else None for each in messages]
        new = (_check_message(each) for each in messages)
        self._add(RewriteEntry(tuple(each if id(each) in known else each.stamp() for each in new)))
        self.transcript.keep_identity(unchanged)

    def begin_commit(self, count: int) -> None:
        """Note that the first `count` pending entries are being stored."""
        self._unconfirmed, self._is_writing = count, True

    def end_commit(self, *, is_stored: bool) -> None:
        """Note that they are, or that it is not known whether they are."""
        self._is_writing = False
        if is_stored:
            self.settle(is_stored=True)

    def settle(self, *, is_stored: bool) -> None:
        """Record whether the unconfirmed entries are stored."""
        if is_stored:
            del self.pending[: self._unconfirmed]
        elif self._is_withdrawn:
            self._drop_start()
        self._unconfirmed, self._is_withdrawn = 0, False

    def _drop_start(self) -> None:
        self.pending = [each for each in self.pending if each is not self._start_entry]
        self.transcript.count -= 1

    def _add(self, entry: Entry) -> None:
        self._queue(entry)
        self._touch()

    def _queue(self, entry: Entry) -> None:
        """Apply an entry as it will be read again, and queue it for the next commit.

        Raises:
            InvalidJSONError: it holds something that JSON can't express.
        """
        valid, pending = validate_entry(entry)
        self.transcript.apply(valid)
        self.pending.append(pending)


def _check_message(message: Message) -> Message:
    if not isinstance(message, Message):
        raise TypeError(
            f"{message!r} is not a message: write Message.user(…) or Message.assistant(…)"
        )
    if message.role not in ("user", "assistant"):
        raise InvalidJSONError(
            f"{message.role!r} is not a role: messages are the user's or the assistant's",
            hint="a system prompt is not a message: write Agent(…, instructions=…)",
        )
    return message


def count_to_keep(messages: Sequence[Message], keep: int) -> int:
    """Return how many of the last messages a compaction keeps: `keep`, or a few more.

    A reply stays together with its calls' results, and stays while calls wait for their results.

    Raises:
        SessionError: the number is negative, or all messages would stay.
    """
    if keep < 0:
        raise SessionError(f"{keep} messages can't be kept")
    cut = _find_cut(messages, max(len(messages) - keep, 0))
    if cut == 0:
        raise SessionError(
            f"there is nothing to compact: of {len(messages)} messages, {keep} are to be kept",
            hint="keep fewer; a reply that calls tools stays together with the results",
        )
    return len(messages) - cut


def check_summary(summary: Message) -> Message:
    """Check that a conversation may begin with this message, and return it.

    Raises:
        TypeError: it is not a message.
        SessionError: it is not a user's, is blank, or holds a call or a result.
    """
    if not isinstance(summary, Message):
        raise TypeError(f"{summary!r} is not a summary: write a text or Message.user(…)")
    stray = any(isinstance(block, ToolUseBlock | ToolResultBlock) for block in summary.content)
    is_blank = not any(not isinstance(b, TextBlock) or b.text.strip() for b in summary.content)
    if summary.role != "user" or stray or is_blank:
        raise SessionError(
            f"no conversation can begin with this summary: {summary!r:.200}",
            hint="write a text, or Message.user(…) without calls and results of tools",
        )
    return summary


def _find_cut(messages: Sequence[Message], cut: int) -> int:
    """Return the last place, up to this one, that separates no call from its result."""
    at = cut - 1
    while at >= 0 and messages[at].role == "user":
        at -= 1
    call = cut  # the first message before the cut with calls of that reply, which may be several
    while at >= 0 and messages[at].role == "assistant":
        call = at if messages[at].tool_uses else call
        at -= 1
    if call == cut:
        return cut
    end = cut
    may_continue = messages[cut - 1].role == "assistant"  # the reply, after the cut
    for role in ("assistant", "user") if may_continue else ("user",):
        while end < len(messages) and messages[end].role == role:
            end += 1
    answered = any(message.tool_results for message in messages[cut:end])
    waits = end == len(messages) and find_open_calls(messages[call:])
    return call if answered or waits else cut
