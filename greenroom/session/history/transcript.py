"""The conversation in memory: what the entries of a history add up to, and which are not saved."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from greenroom.core import JSON, Message, SessionError, ToolUseBlock
from greenroom.session.history.compaction import check_summary, kept
from greenroom.session.history.entry import (
    CheckpointEntry,
    CompactionEntry,
    CopiedEntry,
    DecisionEntry,
    Entry,
    FormatEntry,
    GrantEntry,
    MessageEntry,
    RecordEntry,
    Replacement,
    RevokeEntry,
    RewindEntry,
    RewriteEntry,
    ToolsStartedEntry,
)
from greenroom.session.history.expenses import Expenses
from greenroom.session.history.grants import Grants
from greenroom.session.history.pairing import (
    Pairs,
    answer_unanswered,
    open_calls,
    unanswered,
)
from greenroom.session.history.pending import PendingEntry, prove
from greenroom.session.history.records import Records

_NOTHING: Mapping[str, str] = MappingProxyType({})


class Transcript:
    """Messages in order, and the encoded entries that wait for the next commit."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        """Replay the entries of a stored history."""
        self.pending: list[PendingEntry] = []
        # How many of these were given to a commit that has not returned, or has failed: then they
        # may be stored all the same, and `settle` is told.
        self._offered = 0
        self._is_writing = False
        self._start: PendingEntry | None = None
        self._is_withdrawn = False  # it is taken back, and may be stored
        self._starting = 0  # how many calls that one names
        self._messages: list[Message] = []
        self._view: tuple[Message, ...] | None = ()
        # By the place of the reply that asked for them: ids may come again in later replies.
        self._started: dict[int, set[str]] = {}
        # The messages before this place are paired: a long conversation is not looked through again.
        self._paired = 0
        self._pairs = Pairs()
        self.grants = Grants()
        self.records = Records()
        self.expenses = Expenses()
        self.version = 1
        # How many branches were left, and how much this one shares with that from which it goes off.
        self.branch = 0
        self.shared = 0
        self._entries = 0
        for entry in entries:
            self.apply(entry)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation as it stands; the same object until something is added."""
        if self._view is None:
            self._view = tuple(self._messages)
        return self._view

    @property
    def own(self) -> tuple[Message, ...]:
        """What this branch does not share with the one from which it goes off."""
        return tuple(self._messages[self.shared :])

    @property
    def size(self) -> tuple[int, int]:
        """How many messages there are, and how many entries wait for the next commit."""
        return len(self._messages), len(self.pending)

    @property
    def stored(self) -> int:
        """How many entries have been committed, not counting those that tell the format."""
        return self._entries - len(self.pending)

    @property
    def is_waiting(self) -> bool:
        """Whether a call of the last reply has no result."""
        return bool(unanswered(self._messages))

    @property
    def unstarted(self) -> tuple[ToolUseBlock, ...]:
        """The calls of the last reply that have no result, and have not started."""
        calls = open_calls(self._messages[self._paired :])
        started = self._started_last() if calls else ()
        return tuple(call for call in calls if call.id not in started)

    def records_since_reply(self, kind: str) -> Iterator[JSON]:
        """Return the records of a kind that were written behind the last reply."""
        return self.records.values(kind, since=self._last_reply() + 1)

    def apply(self, entry: Entry) -> None:
        """Take in an entry that is stored already."""
        match entry:
            case MessageEntry(message=message):
                self._pairs.add(self._messages, message, self._started_last)
                self._view = None
                self.expenses.note_message(message)
            case ToolsStartedEntry(tool_use_ids=ids):
                self._started.setdefault(self._last_reply(), set()).update(ids)
                self.expenses.note_tool_calls(len(ids))
            case RewindEntry(to=to):
                self._go_back(to)
            case CompactionEntry(summary=summary):
                cut = self._replace(entry, version=2)
                self.expenses.note_message(summary)
                self.grants.move(lambda place: max(place - cut + 1, 0))
                self.records.move(lambda place: place and max(place - cut, 0) + 1)
            case RewriteEntry(messages=messages):
                self._replace(entry, version=3)
                self.grants.move(lambda place: min(place, len(messages)))
                self.records.move(lambda place: min(place, len(messages)))
            case GrantEntry(rules=rules):
                self.grants.add(rules, len(self._messages))
            case RevokeEntry():
                self.grants.revoke()
            case RecordEntry():
                self.records.add(entry, len(self._messages))
            case CopiedEntry():
                self.expenses = Expenses()
            case CheckpointEntry() | DecisionEntry():
                pass
            case FormatEntry():
                return
        self._entries += 1

    def add(self, entry: Entry) -> None:
        """Take an entry in, and queue it for the next commit.

        It is proved here and not when it is saved, so that a message that can't be written is
        refused at its source and never blocks the ones behind it.

        Raises:
            InvalidJSONError: the entry holds something that JSON can't express.
        """
        # What could not be read again would make the whole conversation unreadable.
        proved, pending = prove(entry)
        self.apply(proved)
        self.pending.append(pending)
        if isinstance(entry, ToolsStartedEntry):
            self._start, self._starting = pending, len(entry.tool_use_ids)

    def withdraw_started(self) -> None:
        """Take back the record that calls of the last reply start, unless it is being committed.

        Where its commit has failed it may be on record all the same; the conversation does not count
        it.
        """
        is_last = bool(self.pending) and self.pending[-1] is self._start
        is_offered = len(self.pending) <= self._offered
        if not is_last or self._is_withdrawn or (is_offered and self._is_writing):
            return
        self._started.pop(self._last_reply(), None)
        self.expenses.note_tool_calls(-self._starting)
        self._is_withdrawn = is_offered
        if not is_offered:
            self.pending.pop()
            self._entries -= 1

    @contextmanager
    def committing(self, count: int) -> Iterator[None]:
        """Write the first entries that are pending; they are no longer, unless the block raises."""
        self._offered, self._is_writing = count, True
        try:
            yield
        finally:
            self._is_writing = False
        self.settle(is_stored=True)

    def settle(self, *, is_stored: bool) -> None:
        """Note whether the entries whose commit was begun last are stored."""
        if is_stored:
            del self.pending[: self._offered]
        elif self._is_withdrawn:
            self.pending = [each for each in self.pending if each is not self._start]
            self._entries -= 1
        self._offered, self._is_withdrawn = 0, False

    def pair(
        self, reason: str, told: Mapping[str, str] = _NOTHING, *, keep_unstarted: bool = False
    ) -> tuple[str, ...]:
        """Answer the calls of the last reply that have no result, and return their ids.

        With `keep_unstarted` only those that had started.
        """
        ids = unanswered(self._messages[self._paired :])
        if ids:
            started = self._started_last()
            left = {id_ for id_ in ids if keep_unstarted and id_ not in started}
            if ids := tuple(id_ for id_ in ids if id_ not in left):
                self.add(MessageEntry(answer_unanswered(ids, started, reason, told)))
            if left:
                return ids
        self._paired = len(self._messages)
        return ids

    def until(self, at: int) -> "Transcript":
        """Return a new one that begins with the first `at` messages, all pending.

        Raises:
            SessionError: there are fewer messages.
        """
        self._check(at)
        records = self.records.by_place()
        entries: list[Entry] = [*records.get(0, ())]
        for index, message in enumerate(self._messages[:at]):
            entries.append(MessageEntry(message))
            if index in self._started:
                entries.append(ToolsStartedEntry(tuple(sorted(self._started[index]))))
            entries += records.get(index + 1, ())
        entries.append(CopiedEntry())
        copy = Transcript(entries)
        copy.pending += entries  # proved when they were added here, so they can wait for a thread
        return copy

    def rewind(self, to: int) -> None:
        """Go back to the first `to` messages, by an entry that says so.

        Raises:
            SessionError: there are fewer messages.
        """
        self._check(to)
        self.add(RewindEntry(to, len(self._messages) - to))

    def compact(self, summary: Message, keep: int) -> None:
        """Put a summary in the place of all but the last messages, by an entry that says so.

        Raises:
            TypeError: the summary is no message.
            SessionError: nothing would be left out, or no conversation can begin with that summary.
            InvalidJSONError: the summary holds something that JSON can't express.
        """
        self.add(CompactionEntry(check_summary(summary).stamped(), kept(self._messages, keep)))

    def rewrite(self, messages: tuple[Message, ...]) -> None:
        """Put these messages in the place of all that there are, by an entry that says so.

        Raises:
            TypeError: one of them is not a message.
            InvalidJSONError: one holds something that JSON can't express.
        """
        for message in messages:
            if not isinstance(message, Message):
                raise TypeError(f"{message!r} is not a message: write Message.user(…)")
        known = {id(message) for message in self._messages}
        messages = tuple(each if id(each) in known else each.stamped() for each in messages)
        self.add(RewriteEntry(messages))
        # What stays is the same object, so that who knows it sees that it was not said anew.
        self._messages = [
            given if id(given) in known and given == read else read
            for given, read in zip(messages, self._messages, strict=True)
        ]

    def _check(self, at: int) -> None:
        count = len(self._messages)
        if not 0 <= at <= count:
            raise SessionError(f"the conversation has no place {at}: it has {count} messages")

    def _started_last(self) -> Collection[str]:
        return self._started.get(self._last_reply(), ())

    def _last_reply(self) -> int:
        for index in range(len(self._messages) - 1, -1, -1):
            if self._messages[index].role == "assistant":
                return index
        return -1

    def _go_back(self, to: int) -> None:
        if to < len(self._messages):
            self._branch_off(to)
        for at in range(to, len(self._messages)):
            self._started.pop(at, None)
        del self._messages[to:]
        self._view = None
        self._paired = 0  # a call may have been parted from its result
        self._pairs.look_again(self._messages)
        self.grants.rewind(to)
        self.records.rewind(to)

    def _replace(self, entry: Replacement, *, version: int) -> int:
        """Put its head in the place of all but the last messages, and return how many those were."""
        self._branch_off(0)
        cut = max(len(self._messages) - entry.keep, 0)
        moved, last = len(entry.head) - cut, self._messages[cut:]
        # A call that had started has, also where its reply was written anew.
        started = set(self._started_last())
        self._started = {at + moved: ids for at, ids in self._started.items() if at >= cut}
        self._messages, self._pairs, self._view, self._paired = [], Pairs(), None, 0
        for message in (
            *entry.head,
            *last,
        ):  # another writer may have parted a call from its result
            self._pairs.add(self._messages, message, self._started_last)
        self._started[self._last_reply()] = started
        self.version = max(self.version, version)
        return cut

    def _branch_off(self, shared: int) -> None:
        # What was said since the last time stays behind as a branch; nothing said, none is there.
        self.branch += len(self._messages) > self.shared
        self.shared = shared
