"""The conversation in memory: what the entries of a history add up to, and which are not saved."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

import msgspec

from greenroom.core import (
    JSON,
    Message,
    SessionError,
    ToolUseBlock,
    Usage,
    Used,
    serde,
    valid_unicode,
)
from greenroom.session.entries import (
    CheckpointEntry,
    CompactionEntry,
    CopiedEntry,
    DecisionEntry,
    Entry,
    FormatEntry,
    GrantEntry,
    MessageEntry,
    PendingEntry,
    RecordEntry,
    Replacement,
    RevokeEntry,
    RewindEntry,
    RewriteEntry,
    ToolsStartedEntry,
    prove,
)
from greenroom.session.pairing import (
    Pairs,
    answer_unanswered,
    check_summary,
    kept,
    open_calls,
    unanswered,
)

# -- What a program keeps beside the conversation: values of its own kinds, each at a place in it.

LONGEST_RECORD = 256 * 1024
"""Bytes of JSON that one record may have: what is longer belongs into a file of its own."""


def record_entry(name: str, value: object) -> RecordEntry:
    """Make the entry of a record.

    Raises:
        TypeError: the kind is not a text, or empty.
        InvalidJSONError: the value holds something that JSON can't express.
        SessionError: it is too long.
    """
    if not isinstance(name, str) or not name or valid_unicode(name) != name:
        raise TypeError(f"a record's kind is a text such as 'plan.step', not {name!r}")
    encoded = serde.dump_plain(value, f"the record {name!r}")
    if len(encoded) > LONGEST_RECORD:
        raise SessionError(
            f"the record {name!r} is too long: {len(encoded):,} bytes of {LONGEST_RECORD:,}",
            hint="keep it in a file, and the file's name in the record",
        )
    return RecordEntry(name, msgspec.Raw(encoded))


class Records:
    """The records in order, and how many messages the conversation had before each.

    Values stay encoded until somebody asks for them, so each reader gets a copy.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._records: list[tuple[int, RecordEntry]] = []

    def add(self, entry: RecordEntry, place: int) -> None:
        """Take a record that was written behind so many messages."""
        # A copy: what was read is a window into its whole line, which would stay in memory.
        self._records.append((place, RecordEntry(entry.name, entry.value.copy())))

    def values(self, name: str, since: int = 0) -> Iterator[JSON]:
        """Decode the values of one kind, from those behind so many messages on."""
        for place, entry in self._records:
            if entry.name == name and place >= since:
                yield serde.loads(bytes(entry.value))

    def last(self, name: str) -> JSON:
        """Decode the newest value of one kind; None where there is none."""
        found = (entry for _, entry in reversed(self._records) if entry.name == name)
        entry = next(found, None)
        return None if entry is None else serde.loads(bytes(entry.value))

    def by_place(self) -> dict[int, list[RecordEntry]]:
        """Group the records by how many messages there were before them."""
        found: dict[int, list[RecordEntry]] = {}
        for place, entry in self._records:
            found.setdefault(place, []).append(entry)
        return found

    def rewind(self, to: int) -> None:
        """Forget what was written once there were more messages."""
        self._records = [each for each in self._records if each[0] <= to]

    def move(self, to: Callable[[int], int]) -> None:
        """Keep them where other messages take the place of those before them."""
        self._records = [(to(place), entry) for place, entry in self._records]


# -- What a person has decided for the rest of a session: the rules that were made of the answers.


class Grants:
    """The rules in order, and at which place of the conversation each was given.

    A rule is a JSON object here; what it says is for others to read.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._places: list[int] = []
        self.rules: tuple[dict[str, object], ...] = ()
        """The rules; the same tuple until they change, and not to be changed from outside."""

    def add(self, rules: Iterable[dict[str, object]], place: int) -> None:
        """Take rules that were given when the conversation had so many messages."""
        self.rules += tuple(rules)
        self._places += [place] * (len(self.rules) - len(self._places))

    def revoke(self) -> None:
        """Forget them all for good: no rewind brings them back."""
        self._places, self.rules = [], ()

    def rewind(self, to: int) -> None:
        """Forget what was given behind this place, or just at it."""
        # What was given at the end stands behind the last message that is left, and goes with it.
        kept = sum(place < to for place in self._places)
        del self._places[kept:]
        self.rules = self.rules[:kept]

    def move(self, to: Callable[[int], int]) -> None:
        """Keep them where other messages take the place of those before them."""
        self._places = [to(place) for place in self._places]


# -- What a session has used so far, as far as it is on record.


class Expenses:
    """Adds up the model calls and tool calls of a history; what is rewound stays paid."""

    def __init__(self) -> None:
        """Begin with nothing used."""
        self._used = Used()
        # Added up when somebody asks: loading a long conversation is to stay quick.
        self._usages: list[Usage] = []
        self._model_calls = 0
        self._tool_calls = 0

    def note_message(self, message: Message) -> None:
        """Count a reply or a summary, if a model has written it."""
        if message.provider or message.usage is not None:
            self._model_calls += 1
            if message.usage is not None:
                self._usages.append(message.usage)

    def note_tool_calls(self, count: int) -> None:
        """Count calls that start; a negative number takes back what did not start after all."""
        self._tool_calls += count

    @property
    def used(self) -> Used:
        """The sum of it all."""
        usage = sum(self._usages, self._used.usage)
        self._usages.clear()
        self._used = Used(usage, self._model_calls, self._tool_calls)
        return self._used


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
