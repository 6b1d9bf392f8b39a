"""The sum of a history's entries: the current conversation, and what belongs to it.

Entries are applied in order, each once, to a `Transcript`. It holds the conversation, and beside it
records of programs, rules from a person's answers, and which calls had started. Each of those has a
place in the conversation: the number of messages before it. A rewind removes everything after its
place; a compaction or a rewrite moves the places along with the messages that stay. Usage is never
removed, since it was paid for.

A model's API refuses a conversation in which a call has no result before the next reply, or a
result has no call in the reply before it. The runtime produces neither. A program's own loop or an
import may, and a history may have lost a part. So `Pairs` completes messages as they are applied,
without changing what is stored or moving any place in the conversation.
"""

from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set as AbstractSet,
)
from typing import Final

import msgspec

from greenroom.core import (
    ContentBlock,
    Message,
    SessionError,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from greenroom.core._internal import JSON, serde
from greenroom.session.entries import (
    ANSWERED,
    QUESTION,
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
    TurnEntry,
    UsageEntry,
    read_asked,
)
from greenroom.session.expenses import Expenses

_STRAY = "The result of a call that is not on record:"

WENT_ON = "the conversation went on without it"
"""The reason given to a call that was left open when the next message or reply came."""

STARTED = "the call had started, and its outcome is unknown"
_NOT_STARTED = "the call was not started"
NOT_ON_RECORD = "its result is not on record"
_NONE: Final = frozenset[str]()
_MOST_ENDS = 100  # inputs for which it is known how their turns have ended
_OUTPUT_UNTIL_THEN = ". Its output until then:\n"


class Transcript:
    """A conversation and what belongs to it, built from its entries; only `apply` changes it."""

    # What only some entries need is made with the first of them.

    _pairs: "Pairs | None" = None
    _grants: "GrantedRules | None" = None
    _records: "Records | None" = None
    _questions: "Records | None" = None  # those after the last reply: earlier ones are decided
    _expenses: "Expenses | None" = None
    _marked = 0
    _marked_messages: Sequence[Message] | None = None
    asked_ids: AbstractSet[str] = _NONE
    """The ids of all questions that were ever asked."""
    input_ids: AbstractSet[str] = _NONE
    """The ids of all messages that were ever added as input, replaced and rewound ones too."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        """Apply these entries to an empty conversation."""
        self._messages: list[Message] = []
        self._view: tuple[Message, ...] | None = ()
        # By the place of the reply that made the calls: ids may repeat in later replies.
        self._started: dict[int, set[str]] = {}
        # Messages before this place are paired, so a long conversation is not searched again.
        self._paired_until = 0
        self._of_turn: dict[str, RecordEntry] = {}  # open questions of the turn itself, by id
        self.cut_off: str | None = None
        """The input whose turn has begun and has no end on record."""
        self.ends: dict[str, str] = {}
        """How the turns of the last inputs have ended, by the ids of the inputs."""
        self.version = 1
        """The oldest version of the format that can express these entries."""
        self.branch = 0
        """The number of the current branch: how many were left before it."""
        self.shared = 0
        """How many messages this branch shares with its parent."""
        self.count = 0
        """How many entries there are; format entries don't count."""
        for entry in entries:
            self.apply(entry)

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def grants(self) -> "GrantedRules":
        """The rules from a person's answers."""
        if self._grants is None:
            self._grants = GrantedRules()
        return self._grants

    @property
    def records(self) -> "Records":
        """The records of programs."""
        if self._records is None:
            self._records = Records()
        return self._records

    @property
    def expenses(self) -> "Expenses":
        """What the conversation has used."""
        if self._expenses is None:
            self._expenses = Expenses()
        return self._expenses

    @property
    def messages(self) -> tuple[Message, ...]:
        """The current conversation; the same object until it changes."""
        if self._view is None:
            self._view = tuple(self._messages)
        return self._view

    def mark(self) -> None:
        """Remember this moment, in place of the one before; see `take_since_mark`."""
        self._marked, self._marked_messages = len(self._messages), None

    def take_since_mark(self) -> Sequence[Message]:
        """Return the messages added since then, even if a compaction or rewind came between.

        The moment is forgotten: nobody holds what a compaction has replaced.
        """
        count, marked = self._marked, self._marked_messages
        self._marked, self._marked_messages = 0, None
        if marked is None:
            return self._messages[count:]
        known = {id(message) for message in marked}
        return [message for message in self._messages if id(message) not in known]

    @property
    def own(self) -> tuple[Message, ...]:
        """The messages that this branch does not share with its parent."""
        return tuple(self._messages[self.shared :])

    @property
    def open_calls(self) -> tuple[ToolUseBlock, ...]:
        """The last reply's calls without a result, except those before `mark_paired`."""
        if self._paired_until == len(self._messages):
            return ()
        return find_open_calls(self._messages[self._paired_until :])

    @property
    def started_ids(self) -> Collection[str]:
        """The ids of the last reply's calls that are on record as started."""
        return self._started.get(self._last_reply(), ())

    @property
    def unstarted(self) -> tuple[ToolUseBlock, ...]:
        """The last reply's calls that have no result and have not started."""
        calls = self.open_calls
        started = self.started_ids if calls else ()
        return tuple(call for call in calls if call.id not in started)

    def questions_since_reply(self) -> Iterator[JSON]:
        """Return the questions that were recorded after the last reply."""
        if self._questions is None:
            return iter(())
        return self._questions.values(QUESTION, since=self._last_reply() + 1)

    def read_records(self, kind: str) -> tuple[JSON, ...]:
        """Return copies of the records of one kind, oldest first."""
        return () if self._records is None else tuple(self._records.values(kind))

    def questions_of_turn(self) -> Iterator[JSON]:
        """Return the open questions of the turn that has begun, about none of its calls."""
        for entry in self._of_turn.values():
            yield serde.loads(bytes(entry.value))

    def mark_paired(self) -> None:
        """Record that every call so far has its result, so that they are not searched again."""
        self._paired_until = len(self._messages)

    def withdraw_start(self, ids: Collection[str], calls: int) -> None:
        """Undo the last entry, by which so many calls started, these for the first time."""
        self.note_not_started(ids)
        self.expenses.note_tool_calls(-calls)

    def note_not_started(self, ids: Collection[str]) -> None:
        """Forget that these calls of the last reply started."""
        self._started.get(self._last_reply(), set()).difference_update(ids)

    def keep_identity(self, known: Sequence[Message | None]) -> None:
        """Replace equal messages by these objects, which callers compare by identity."""
        pairs = zip(known, self._messages, strict=True)
        self._messages = [
            given if given is not None and given == read else read for given, read in pairs
        ]
        self._view = None

    def entries_until(self, at: int) -> list[Entry]:
        """Return the entries of a copy that begins with the first `at` messages.

        Raises:
            SessionError: there are fewer messages.
        """
        self.check_place(at)
        records = self.records.by_place()
        entries: list[Entry] = [*records.get(0, ())]
        for index, message in enumerate(self._messages[:at]):
            entries.append(MessageEntry(message))
            if index in self._started:
                entries.append(ToolsStartedEntry(tuple(sorted(self._started[index]))))
            entries += records.get(index + 1, ())
        return [*entries, CopiedEntry()]

    def check_place(self, at: int) -> None:
        """Check that the conversation has this place.

        Raises:
            SessionError: there are fewer messages.
        """
        if not 0 <= at <= len(self._messages):
            raise place_error(at, len(self._messages))

    def apply(self, entry: Entry) -> None:
        """Apply an entry, which comes after all that were applied before."""
        self.count += type(entry) is not FormatEntry
        match entry:  # the frequent ones first: each kind that it is not takes a while
            case MessageEntry(message=message):
                self._add_message(message)
            case DecisionEntry() | CheckpointEntry() | FormatEntry():
                pass
            case ToolsStartedEntry(tool_use_ids=ids):
                self._started.setdefault(self._last_reply(), set()).update(ids)
                self.expenses.note_tool_calls(len(ids))
            case RewindEntry(to=to):
                self._go_back(to)
            case CompactionEntry(summary=summary):
                cut = self._replace(entry, version=2)
                self.expenses.note_message(summary)
                self.grants.move(lambda place: max(place - cut + 1, 0))
                self._move_records(lambda place: place and max(place - cut, 0) + 1)
            case RewriteEntry(messages=messages):
                self._replace(entry, version=3)
                self.grants.move(lambda place: min(place, len(messages)))
                self._move_records(lambda place: min(place, len(messages)))
            case GrantEntry(rules=rules):
                self.grants.add(rules, len(self._messages))
            case RevokeEntry():
                self.grants.revoke()
            case RecordEntry(name=name) if name == QUESTION:
                self._add_question(entry)
            case RecordEntry(name=name) if name == ANSWERED:
                self._of_turn.pop(read_asked(entry)[0], None)
            case RecordEntry():
                self.records.add(entry, len(self._messages))
            case TurnEntry(inputs=ids, ended=ended):
                self._note_inputs(*ids)
                self.cut_off = None if ended else next(iter(ids), None)
                self._note_ends(ids if ended else (), ended)
                self._of_turn.clear()
            case CopiedEntry():
                self._expenses = None
            case UsageEntry(usage=usage):
                self.expenses.note_call(usage)

    def _note_ends(self, ids: tuple[str, ...], status: str) -> None:
        for each in ids:
            self.ends.pop(each, None)
            self.ends[each] = status
        while len(self.ends) > _MOST_ENDS:
            del self.ends[next(iter(self.ends))]

    def _note_inputs(self, *ids: str) -> None:
        self.input_ids = _add(self.input_ids, ids)

    def _add_message(self, message: Message) -> None:
        if self._pairs is None:
            self._pairs = Pairs()
        self._pairs.add(self._messages, message, lambda: self.started_ids)
        self._view = None
        self.expenses.note_message(message)
        if message.role == "user" and message.id and not message.tool_results:
            self._note_inputs(message.id)

    def _add_question(self, entry: RecordEntry) -> None:
        request_id, tool_use_id = read_asked(entry)
        self.asked_ids = _add(self.asked_ids, (request_id,))
        if not tool_use_id:
            # A copy: the value read is a window into its whole line, which would stay in memory.
            self._of_turn[request_id] = RecordEntry(entry.name, entry.value.copy())
            return
        if self._questions is None:
            self._questions = Records()
        self._questions.drop(before=self._last_reply() + 1)
        self._questions.add(entry, len(self._messages))

    def _move_records(self, to: Callable[[int], int]) -> None:
        for records in filter(None, (self._records, self._questions)):
            records.move(to)

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
            if self._messages[at].id == self.cut_off:
                self.cut_off = None
        del self._messages[to:]
        self._view = None
        self._paired_until = 0  # a call may have lost its result
        for records in filter(None, (self._records, self._questions)):
            records.rewind(to)
        if self._grants is not None:
            self._grants.rewind(to)
        if self._pairs is not None:
            self._pairs.look_again(self._messages)
        self._of_turn.clear()

    def _replace(self, entry: Replacement, *, version: int) -> int:
        """Replace all but the last messages by the entry's head; return how many were replaced."""
        self._branch_off(0)
        cut = max(len(self._messages) - entry.keep, 0)
        moved, last = len(entry.head) - cut, self._messages[cut:]
        # A call that had started still has, even if its reply was rewritten.
        started = set(self.started_ids)
        self._started = {at + moved: ids for at, ids in self._started.items() if at >= cut}
        self._messages, self._view, self._paired_until = [], None, 0
        pairs = self._pairs = Pairs()
        for message in (*entry.head, *last):  # a call may have lost its result
            pairs.add(self._messages, message, lambda: self.started_ids)
        self._started[self._last_reply()] = started
        self.version = max(self.version, version)
        return cut

    def _branch_off(self, shared: int) -> None:
        if self._marked_messages is None:  # until here, their count was enough
            self._marked_messages = self._messages[: self._marked]
        # The messages since the last branch become one; without any there is no branch.
        self.branch += len(self._messages) > self.shared
        self.shared = shared


def _add(known: AbstractSet[str], ids: Iterable[str]) -> set[str]:
    """Add ids to a set, which is made for the first of them."""
    grown = known if isinstance(known, set) else set[str]()
    grown.update(ids)
    return grown


class Pairs:
    """Keeps the calls and results of a conversation in pairs as it grows."""

    def __init__(self) -> None:
        self._waiting: list[str] = []  # calls of the last reply that have no result yet

    def look_again(self, messages: Sequence[Message]) -> None:
        """Continue after these messages, whose end was cut off."""
        self._waiting = [call.id for call in find_open_calls(messages)]

    def add(
        self, messages: list[Message], message: Message, started: Callable[[], Collection[str]]
    ) -> None:
        """Add a message; if it is a reply, first answer the calls that still wait for a result.

        `started` returns the last reply's calls that are on record as started.
        """
        if message.role == "user":
            for block in message.content:  # twice as fast as a generator
                if type(block) is ToolResultBlock:
                    message = self._pair_results(message)
                    break
        else:
            if self._waiting and messages[-1].role == "user":
                messages[-1] = self._answer_waiting(messages[-1], started())
                self._waiting = []
            for block in message.content:
                if type(block) is ToolUseBlock:
                    self._waiting.append(block.id)
        messages.append(message)

    def _pair_results(self, message: Message) -> Message:
        """Match a message's results to their calls; a result without a call becomes text."""
        strays = list[int]()
        for place, block in enumerate(message.content):
            if type(block) is ToolResultBlock:
                if block.tool_use_id in self._waiting:
                    self._waiting.remove(block.tool_use_id)
                else:
                    strays.append(place)
        return _with_content(message, _as_text(message.content, strays)) if strays else message

    def _answer_waiting(self, message: Message, started: Collection[str]) -> Message:
        """Put an answer for each waiting call in front of a message."""

        def answer(id_: str) -> str:
            return f"interrupted: {STARTED if id_ in started else NOT_ON_RECORD}"

        stand_ins = (
            ToolResultBlock(id_, (TextBlock(answer(id_)),), is_error=True) for id_ in self._waiting
        )
        return _with_content(message, (*stand_ins, *message.content))


def _as_text(content: Iterable[ContentBlock], strays: Collection[int]) -> Iterator[ContentBlock]:
    for place, block in enumerate(content):
        if place in strays and isinstance(block, ToolResultBlock):
            yield TextBlock(_STRAY)
            yield from block.content
        else:
            yield block


def _with_content(message: Message, content: Iterable[ContentBlock]) -> Message:
    return msgspec.structs.replace(message, content=tuple(content))


def find_open_calls(messages: Sequence[Message]) -> tuple[ToolUseBlock, ...]:
    """Return the last reply's calls that no later message answers, in order.

    Providers reuse ids from turn to turn, so a result counts only for the reply just before it.
    """
    answered: dict[str, int] = {}  # how often
    calls: list[ToolUseBlock] = []
    replies = False
    for message in reversed(messages):
        if message.role == "assistant":
            replies = True
            calls = [*message.tool_uses, *calls]
        elif replies:
            break
        else:
            for each in message.tool_results:
                answered[each.tool_use_id] = answered.get(each.tool_use_id, 0) + 1
    return tuple(call for call in calls if not _take(answered, call.id))


def answer_calls(
    ids: Iterable[str], started: Collection[str], reason: str, outputs: Mapping[str, str]
) -> Message:
    """Make the user message that gives each of these calls an error as its result."""

    def answer(id_: str) -> str:
        output = _OUTPUT_UNTIL_THEN + outputs[id_] if outputs.get(id_) else ""
        return f"{reason}: {STARTED if id_ in started else _NOT_STARTED}{output}"

    return Message.user(
        ToolResultBlock(id_, (TextBlock(answer(id_)),), is_error=True) for id_ in ids
    )


def is_stand_in(result: ToolResultBlock) -> bool:
    """Whether this is no tool's result, but the answer that stands in for one."""
    return _ends_with(result, STARTED, _NOT_STARTED, NOT_ON_RECORD)


def may_have_run(result: ToolResultBlock) -> bool:
    """Whether this stands in for the result of a call that may have had its effect."""
    return _ends_with(result, STARTED, NOT_ON_RECORD)


def _ends_with(result: ToolResultBlock, *fates: str) -> bool:
    first = result.text.partition(_OUTPUT_UNTIL_THEN)[0]
    return result.is_error and first.endswith(tuple(f": {fate}" for fate in fates))


def _take(answered: dict[str, int], call: str) -> bool:
    answered[call] = answered.get(call, 0) - 1
    return answered[call] >= 0


class Records:
    """The records in order, each with its place: how many messages came before it.

    Values stay encoded until they are asked for, so each reader gets a copy.
    """

    def __init__(self) -> None:
        self._records: list[tuple[int, RecordEntry]] = []

    def add(self, entry: RecordEntry, place: int) -> None:
        """Add a record at this place."""
        # A copy: the value read is a window into its whole line, which would stay in memory.
        self._records.append((place, RecordEntry(entry.name, entry.value.copy())))

    def values(self, name: str, since: int = 0) -> Iterator[JSON]:
        """Decode the values of one kind, from the place `since` on."""
        for place, entry in self._records:
            if entry.name == name and place >= since:
                yield serde.loads(bytes(entry.value))

    def last(self, name: str) -> JSON:
        """Decode the newest value of one kind, or return None."""
        found = (entry for _, entry in reversed(self._records) if entry.name == name)
        entry = next(found, None)
        return None if entry is None else serde.loads(bytes(entry.value))

    def by_place(self) -> dict[int, list[RecordEntry]]:
        """Group the records by their place."""
        found: dict[int, list[RecordEntry]] = {}
        for place, entry in self._records:
            found.setdefault(place, []).append(entry)
        return found

    def rewind(self, to: int) -> None:
        """Remove the records after this place."""
        self._records = [each for each in self._records if each[0] <= to]

    def drop(self, before: int) -> None:
        """Remove the records before this place."""
        self._records = [each for each in self._records if each[0] >= before]

    def move(self, to: Callable[[int], int]) -> None:
        """Move the records to new places, after messages before them were replaced."""
        self._records = [(to(place), entry) for place, entry in self._records]


class GrantedRules:
    """The rules from a person's answers, in order, each with the place where it was given.

    Here a rule is just a JSON object; permissions know what it says.
    """

    def __init__(self) -> None:
        self._places: list[int] = []
        self.rules: tuple[dict[str, object], ...] = ()
        """The rules; the same tuple until they change. Don't modify them."""

    def add(self, rules: Iterable[dict[str, object]], place: int) -> None:
        """Add rules that were given at this place."""
        self.rules += tuple(rules)
        self._places += [place] * (len(self.rules) - len(self._places))

    def revoke(self) -> None:
        """Remove all rules; no rewind brings them back."""
        self._places, self.rules = [], ()

    def rewind(self, to: int) -> None:
        """Remove the rules given at this place or after it."""
        # A rule given at this place came after the last message that stays, so it goes too.
        kept = sum(place < to for place in self._places)
        del self._places[kept:]
        self.rules = self.rules[:kept]

    def move(self, to: Callable[[int], int]) -> None:
        """Move the rules to new places, after messages before them were replaced."""
        self._places = [to(place) for place in self._places]


def place_error(at: int, count: int) -> SessionError:
    """Return the error for a place that is not in the conversation."""
    return SessionError(f"the conversation has no place {at}: it has {count} messages")
