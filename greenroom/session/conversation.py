"""A conversation in memory: what is added to it, and which of that waits for a commit.

An entry is validated when it is added and not when it is saved: what could not be written, or not be
read again, is refused at its source and never stands in the way of what comes behind it. From there
on it is

    pending    in memory alone; a crash loses it
    offered    handed to a commit that has not returned, or has failed: it may be stored or not
    stored     in the store, and no longer kept here in its encoded form

`commit` writes the first entries that are pending. If its block raises, as where a cancel falls
into it or a connection is lost behind the commit, they stay both pending and offered, until
`settle` is told what the store holds: then they are stored, or merely pending again. Nothing that
is added meanwhile gets in between, since additions go to the end.

`mark_tools_started` may be taken back while it is pending. While it is offered it may be stored as
well, so it is only noted as withdrawn, and `settle` removes it where it turns out not to be stored.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

from msgspec.structs import asdict

from greenroom.core import (
    Checkpoint,
    Message,
    PermissionRecord,
    SessionError,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from greenroom.session.entries import (
    QUESTION,
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
    decision_entry,
    open_questions,
    record_entry,
    validate_entry,
)
from greenroom.session.transcript import Transcript, answer_calls, unanswered

_NOTHING: Mapping[str, str] = MappingProxyType({})


class Conversation:
    """The messages of a session and what stands beside them, with the entries that are not stored."""

    def __init__(self, touch: Callable[[], None]) -> None:
        """Begin without a message; `touch` is called with every change."""
        self._touch = touch
        self.keep_open = False
        """Whether calls that never started stay open where an agent ends, for another to ask again."""
        self._begin(())

    def _begin(self, entries: Iterable[Entry]) -> None:
        self.transcript = Transcript(entries)
        """What all entries add up to, stored or not."""
        self.pending: list[PendingEntry] = []
        """The entries that no commit is known to have stored, in order."""
        self._unconfirmed = 0  # how many of these the commit has that was begun last
        self._is_writing = False
        # The last `mark_tools_started`, and how many calls it names.
        self._start_entry: PendingEntry | None = None
        self._start_calls = 0
        self._is_withdrawn = False

    def restore(self, entries: Iterable[Entry]) -> None:
        """Go on from what is stored; calls that were cut off are answered, which is pending then."""
        self._begin(entries)
        self._pair("interrupted", keep_unstarted=self.keep_open)

    def begin_with(self, entries: Sequence[Entry]) -> None:
        """Begin with the entries of another conversation, all pending here, and pair its calls."""
        self._begin(entries)
        self.pending += (
            entries  # validated when they were added there, so they can wait for a thread
        )
        self.pair_tool_uses()

    @property
    def stored(self) -> int:
        """How many entries are known to be stored, not counting those that tell the format."""
        return self.transcript.count - len(self.pending)

    @property
    def is_waiting(self) -> bool:
        """Whether a call of the last reply has no result, and is to get one in this process."""
        is_left = self.keep_open and bool(self.transcript.unstarted)
        return not is_left and bool(self.transcript.open_calls)

    # -- what is added

    def add_message(self, message: Message) -> None:
        """Add a message; one without an id or a time gets them.

        Raises:
            TypeError: it is not a `Message`.
            InvalidJSONError: it holds something that can't be stored.
        """
        self._add(MessageEntry(_check_message(message).stamp()))

    def copy_messages(self, messages: Iterable[Message]) -> None:
        """Add messages that were said elsewhere, as they are, and note that they were paid for there.

        Their calls without a result are answered as if they had started, since that can't be told.

        Raises:
            InvalidJSONError: one holds something that can't be stored.
        """
        for message in messages:
            self._queue(MessageEntry(message))
        self.mark_tools_started(unanswered(self.transcript.messages))
        self.pair_tool_uses()
        self._add(CopiedEntry())

    def add_decision(self, record: PermissionRecord) -> None:
        """Record what was decided about a tool call; no rewind takes it back.

        Raises:
            TypeError: it is not a `PermissionRecord`.
            InvalidJSONError: it holds something that can't be stored.
        """
        if not isinstance(record, PermissionRecord):
            raise TypeError(f"{record!r} is not a PermissionRecord")
        self._add(decision_entry(record))

    def add_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Record what calls are about to do to files, or under the same id what they have done.

        Raises:
            InvalidJSONError: a path in it can't be stored.
        """
        self._add(CheckpointEntry(checkpoint))

    def add_record(self, kind: str, value: object) -> None:
        """Keep a JSON value of a program's; see `AgentSession.add_record`."""
        self._add(record_entry(kind, value))

    @property
    def grants(self) -> tuple[dict[str, object], ...]:
        """The rules of a person's answers that hold for the rest of the session, as JSON objects.

        `PermissionManager.bind_session` reads and adds them. The same tuple until they change; a
        rewind to before an answer, or just to where it was given, takes its rules away.
        """
        return self.transcript.grants.rules

    def add_grants(self, rules: Iterable[dict[str, object]]) -> None:
        """Record the rules of a person's answer.

        Raises:
            InvalidJSONError: a rule is not a JSON object.
        """
        if added := tuple(rules):
            self._add(GrantEntry(added))

    def revoke_grants(self) -> None:
        """Record that none of the answers so far holds any longer; no rewind brings one back."""
        if self.grants:
            self._add(RevokeEntry())

    @property
    def open_questions(self) -> dict[str, OpenQuestion]:
        """What a person was asked about the calls that have not started, by the call's id."""
        records = self.transcript.records_since_reply(QUESTION)
        return open_questions(records, (call.id for call in self.transcript.unstarted))

    def add_question(self, question: OpenQuestion) -> bool:
        """Record what a person is asked about an unstarted call, unless it is on record already.

        Returns:
            Whether it is about such a call: then a save keeps the question over this process.
        """
        if all(call.id != question.tool_use_id for call in self.transcript.unstarted):
            return False
        if self.open_questions.get(question.tool_use_id) != question:
            self.add_record(QUESTION, asdict(question))
        return True

    # -- calls and their results

    def mark_tools_started(self, ids: Iterable[str]) -> None:
        """Record that these calls of the last reply start; to be saved before they do."""
        if started := tuple(ids):
            self._add(ToolsStartedEntry(started))
            self._start_entry, self._start_calls = self.pending[-1], len(started)

    def withdraw_tools_started(self) -> None:
        """Take back the record that calls of the last reply start, unless it is being committed."""
        is_last = bool(self.pending) and self.pending[-1] is self._start_entry
        is_offered = len(self.pending) <= self._unconfirmed
        if not is_last or self._is_withdrawn or (is_offered and self._is_writing):
            return
        self.transcript.withdraw_start(self._start_calls)
        self._is_withdrawn = is_offered
        if not is_offered:
            self._drop_start()

    def pair_tool_uses(
        self,
        reason: str = "interrupted",
        outputs: Mapping[str, str] = _NOTHING,
        *,
        keep_unstarted: bool = False,
    ) -> tuple[str, ...]:
        """Answer each call of the last reply that has no result, in one message; return their ids.

        Each answer is an error that names the reason, whether the call had started, and its output
        until then. With `keep_unstarted` calls stay open that had not.
        """
        if ids := self._pair(reason, outputs, keep_unstarted=keep_unstarted):
            self._touch()
        return ids

    def _pair(
        self, reason: str, outputs: Mapping[str, str] = _NOTHING, *, keep_unstarted: bool
    ) -> tuple[str, ...]:
        waiting: tuple[ToolUseBlock, ...] = self.transcript.open_calls
        started = self.transcript.started if waiting else ()
        ids = tuple(call.id for call in waiting if not keep_unstarted or call.id in started)
        if ids:
            self._queue(MessageEntry(answer_calls(ids, started, reason, outputs)))
        if len(ids) == len(waiting):
            self.transcript.mark_paired()
        return ids

    # -- going back, and going on from something else

    def rewind(self, to: int) -> None:
        """Go back to the first `to` messages, and answer what then has no result.

        Raises:
            SessionError: there are fewer messages.
        """
        self.transcript.check_place(to)
        self._add(RewindEntry(to, len(self.transcript) - to))
        self.pair_tool_uses()

    def compact(self, summary: Message, keep: int) -> None:
        """Put a summary in the place of all but the last `keep` messages, or some more.

        Raises:
            TypeError: the summary is not a message.
            SessionError: nothing would be left out, or no conversation can begin with that summary.
            InvalidJSONError: the summary holds something that can't be stored.
        """
        first = check_summary(summary).stamp()
        self._add(CompactionEntry(first, count_to_keep(self.transcript.messages, keep)))

    def rewrite(self, messages: Sequence[Message]) -> None:
        """Put these messages in the place of all that there are.

        Raises:
            TypeError: one of them is not a message.
            InvalidJSONError: one holds something that can't be stored.
        """
        known = {id(each) for each in self.transcript.messages}
        stayed = [each if id(each) in known else None for each in messages]
        new = (_check_message(each) for each in messages)
        self._add(RewriteEntry(tuple(each if id(each) in known else each.stamp() for each in new)))
        self.transcript.keep_identity(stayed)

    # -- commits

    @contextmanager
    def commit(self, count: int) -> Iterator[None]:
        """Offer the first entries that are pending; once the block is left they are stored."""
        self._unconfirmed, self._is_writing = count, True
        try:
            yield
        finally:
            self._is_writing = False
        self.settle(is_stored=True)

    def settle(self, *, is_stored: bool) -> None:
        """Note whether the entries that were offered last are stored."""
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
        """Take an entry in as it will be read again, and let it wait for the next commit.

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
    return message


def count_to_keep(messages: Sequence[Message], keep: int) -> int:
    """Return how many of the last messages stay, so that at least `keep` of them do.

    It is more where the place is between a call and its result, or where calls still wait for
    theirs: then the reply that made them stays as well.

    Raises:
        SessionError: the number is negative, or all messages would stay.
    """
    if keep < 0:
        raise SessionError(f"{keep} messages can't be kept")
    cut = _cut(messages, max(len(messages) - keep, 0))
    if cut == 0:
        raise SessionError(
            f"there is nothing to compact: of {len(messages)} messages, {keep} are to be kept",
            hint="keep fewer; a reply that calls tools stays together with the results",
        )
    return len(messages) - cut


def check_summary(summary: Message) -> Message:
    """See that a conversation may begin with this message.

    Raises:
        TypeError: it is not a message.
        SessionError: it is not a user's, says nothing, or holds a call or a result.
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


def _cut(messages: Sequence[Message], cut: int) -> int:
    """Return the last place up to this one that parts no call from its result."""
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
    goes_on = messages[cut - 1].role == "assistant"  # it may, behind the cut
    for role in ("assistant", "user") if goes_on else ("user",):
        while end < len(messages) and messages[end].role == role:
            end += 1
    answered = any(message.tool_results for message in messages[cut:end])
    waits = end == len(messages) and unanswered(messages[call:])
    return call if answered or waits else cut
