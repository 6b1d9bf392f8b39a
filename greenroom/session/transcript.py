"""What the entries of a history add up to: the one reader of them, and what it is asked for.

Entries are applied in order, each once, to a `Transcript`. It has the conversation as it stands, and what
stands beside it, each at a place in the conversation, which is the number of messages before it: records
of programs, rules that a person's answers gave, which calls had started. A rewind takes away what stands
behind its place; a compaction or a rewrite moves the places along with the messages that stay. What was
used is never taken away, since it was paid. `branches` and `checkpoints_after` are read off the same
entries, for those who ask.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec

from greenroom.core import (
    JSON,
    Checkpoint,
    ContentBlock,
    Message,
    SessionError,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
    Used,
    serde,
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
    RecordEntry,
    Replacement,
    RevokeEntry,
    RewindEntry,
    RewriteEntry,
    ToolsStartedEntry,
    follow,
    messages_of,
)
from greenroom.session.pairing import NOT_ON_RECORD, STARTED, open_calls, unanswered

_STRAY = "The result of a call that is not on record:"


class Transcript:
    """A conversation as its entries have it, and what stands beside it; changed by `apply` alone."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        """Apply these entries, if there are any, to an empty conversation."""
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
        """The oldest version of the format that can tell all this."""
        self.branch = 0
        """How many branches were left."""
        self.shared = 0
        """How many messages this branch shares with the one from which it goes off."""
        self.count = 0
        """How many entries there are, not counting those that tell the format."""
        for entry in entries:
            self.apply(entry)

    def __len__(self) -> int:
        return len(self._messages)

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
    def open_calls(self) -> tuple[ToolUseBlock, ...]:
        """The calls of the last reply that have no result, but for those that `settle` has passed."""
        return open_calls(self._messages[self._paired :])

    @property
    def started(self) -> Collection[str]:
        """Which calls of the last reply are on record as started."""
        return self._started.get(self._last_reply(), ())

    @property
    def unstarted(self) -> tuple[ToolUseBlock, ...]:
        """The calls of the last reply that have no result, and have not started."""
        calls = self.open_calls
        started = self.started if calls else ()
        return tuple(call for call in calls if call.id not in started)

    def records_since_reply(self, kind: str) -> Iterator[JSON]:
        """Return the records of a kind that were written behind the last reply."""
        return self.records.values(kind, since=self._last_reply() + 1)

    def settle(self) -> None:
        """Note that every call so far has its result, so that none is looked for among them again."""
        self._paired = len(self._messages)

    def withdraw_start(self, calls: int) -> None:
        """Take it back that so many calls of the last reply have started; the last entry said so."""
        self._started.pop(self._last_reply(), None)
        self.expenses.note_tool_calls(-calls)

    def keep_identity(self, known: Sequence[Message | None]) -> None:
        """Put these objects in the places of equal messages, so that who knows them knows them again."""
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
        """See that the conversation has this place.

        Raises:
            SessionError: there are fewer messages.
        """
        if not 0 <= at <= len(self._messages):
            raise _no_place(at, len(self._messages))

    def apply(self, entry: Entry) -> None:
        """Take an entry in, which comes behind all that were applied before."""
        match entry:
            case MessageEntry(message=message):
                self._pairs.add(self._messages, message, self._get_started)
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
        self.count += 1

    def _get_started(self) -> Collection[str]:
        return self.started

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
        started = set(self.started)
        self._started = {at + moved: ids for at, ids in self._started.items() if at >= cut}
        self._messages, self._pairs, self._view, self._paired = [], Pairs(), None, 0
        for message in (*entry.head, *last):  # which may part a call from its result
            self._pairs.add(self._messages, message, self._get_started)
        self._started[self._last_reply()] = started
        self.version = max(self.version, version)
        return cut

    def _branch_off(self, shared: int) -> None:
        # What was said since the last time stays behind as a branch; nothing said, none is there.
        self.branch += len(self._messages) > self.shared
        self.shared = shared


class Pairs:
    """Keeps the calls and results of a conversation in pairs as it grows."""

    def __init__(self) -> None:
        """Begin with an empty conversation."""
        self._waiting: list[str] = []  # calls of the last reply that have no result yet

    def look_again(self, messages: Sequence[Message]) -> None:
        """Go on behind these messages, some of which were cut off."""
        self._waiting = list(unanswered(messages))

    def add(
        self, messages: list[Message], message: Message, started: Callable[[], Collection[str]]
    ) -> None:
        """Add a message; calls that wait for a result when a reply comes are answered before it.

        `started` says which calls of the last reply are on record as started.
        """
        if message.role == "user":
            for block in message.content:  # a generator would take twice as long
                if type(block) is ToolResultBlock:
                    message = self._settled(message)
                    break
        else:
            if self._waiting and messages[-1].role == "user":
                messages[-1] = self._answered(messages[-1], started())
                self._waiting = []
            for block in message.content:
                if type(block) is ToolUseBlock:
                    self._waiting.append(block.id)
        messages.append(message)

    def _settled(self, message: Message) -> Message:
        """Take the results of a message, each for its call; one without a call becomes text."""
        strays = list[int]()
        for place, block in enumerate(message.content):
            if type(block) is ToolResultBlock:
                if block.tool_use_id in self._waiting:
                    self._waiting.remove(block.tool_use_id)
                else:
                    strays.append(place)
        return _with_content(message, _as_text(message.content, strays)) if strays else message

    def _answered(self, message: Message, started: Collection[str]) -> Message:
        """Put an answer in front of a message for each call that waits."""

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


class Records:
    """The records in order, and how many messages the conversation had before each.

    Values stay encoded until they are asked for, so each reader gets a copy.
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


class Expenses:
    """Adds up the model calls and tool calls of a history; what is rewound stays paid."""

    def __init__(self) -> None:
        """Begin with nothing used."""
        self._used = Used()
        # Added up when it is asked for: loading a long conversation is to stay quick.
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


_Beginning: TypeAlias = Literal["rewind", "compaction", "rewrite"]


@dataclass(frozen=True, eq=False)
class Branch:
    """A conversation as it stood when it was left, or as it stands.

    A rewind begins a branch, and so does a compaction or a rewrite; together they are a tree. A branch
    from which nothing was said is not one.

    Attributes:
        number: its place among the branches, from 0, in the order in which they were left. It never
            changes; the current one has the last.
        begun_by: "rewind", "compaction" or "rewrite"; None for the first.
        parent: the branch from which it goes off; None for the first.
        begins_at: how many messages of the parent's history stand before that place.
        messages: what it does not share with its parent: what was said since a rewind; or since a
            compaction, after its summary and the `kept` messages that it repeats; or since a rewrite,
            after what it wrote.
        kept: how many messages a compaction repeats.
        is_current: whether it is the conversation as it stands.
    """

    number: int
    begun_by: _Beginning | None
    parent: "Branch | None" = field(repr=False)
    begins_at: int
    messages: tuple[Message, ...] = field(repr=False)
    kept: int
    is_current: bool

    @property
    def history(self) -> tuple[Message, ...]:
        """The whole conversation, with what it shares: what `fork(at, branch=number)` counts."""
        pieces = [self.messages]
        branch, end = self.parent, self.shared
        while branch is not None and end:
            pieces.append(branch.messages[: max(end - branch.shared, 0)])
            end = min(end, branch.shared)
            branch = branch.parent
        return tuple(message for piece in reversed(pieces) for message in piece)

    @property
    def shared(self) -> int:
        """How many messages it begins with that its parent holds for it."""
        return self.begins_at if self.begun_by == "rewind" else 0


def branches(entries: Iterable[Entry]) -> tuple[Branch, ...]:
    """Return every branch of a history, the current one last."""
    transcript, found, growing = Transcript(), list[Branch](), _Growing()
    for entry in entries:
        if not isinstance(entry, RewindEntry | Replacement):
            transcript.apply(entry)
            continue
        length, said = len(transcript), transcript.own
        transcript.apply(entry)
        if transcript.branch > len(found):
            found.append(growing.branch(len(found), said, is_current=False))
            growing = growing.next(entry, length, found[-1])
        elif length > len(transcript) or isinstance(entry, Replacement):
            growing = growing.next(entry, length, growing.parent)
    return (*found, growing.branch(len(found), transcript.own, is_current=True))


def replay_branch(entries: Sequence[Entry], number: int) -> Transcript:
    """Return the conversation of a branch, as it was when it was left.

    Raises:
        SessionError: there is no such branch.
    """
    transcript = Transcript()
    for place, entry in enumerate(entries):
        transcript.apply(entry)
        if transcript.branch > number >= 0:
            return Transcript(entries[:place])
    if transcript.branch != number:
        raise SessionError(
            f"there is no branch {number}: the last is {transcript.branch}",
            hint="read_branches(session) shows them",
        )
    return transcript


@dataclass(frozen=True)
class _Growing:
    """How the branch began that is still being added to."""

    begun_by: _Beginning | None = None
    parent: Branch | None = None
    begins_at: int = 0
    kept: int = 0

    def branch(self, number: int, said: tuple[Message, ...], *, is_current: bool) -> Branch:
        return Branch(
            number, self.begun_by, self.parent, self.begins_at, said, self.kept, is_current
        )

    def next(
        self, entry: RewindEntry | Replacement, length: int, parent: Branch | None
    ) -> "_Growing":
        if isinstance(entry, Replacement):
            word: _Beginning = "compaction" if isinstance(entry, CompactionEntry) else "rewrite"
            return _Growing(word, parent, length, min(entry.keep, length))
        # The messages before that place may be an older branch's.
        while parent is not None and parent.shared > 0 and entry.to <= parent.shared:
            parent = parent.parent
        return _Growing("rewind", parent, entry.to)


_COPIED = Checkpoint("", "", (), gaps=("what tools changed before it was copied is not known",))


def checkpoints_after(entries: Iterable[Entry], to: int) -> tuple[Checkpoint, ...]:
    """Return which checkpoints a rewind to the first `to` messages has to undo, in order.

    Those are the ones recorded since the last of these messages was added, whatever was rewound since.
    Of two records of one checkpoint, the later one counts. A session that is a copy, as forks are, has no
    record of what calls before that have changed: for them, there is one that says so.

    Raises:
        SessionError: there are fewer messages.
    """
    places: list[int] = []  # of each message that stands, how many checkpoints came before it
    found: dict[str, Checkpoint] = {}
    called = 0  # how many messages there were with the last reply that calls tools
    for entry in entries:
        place = len(found)
        if isinstance(entry, Replacement):  # a summary stands where the last did that it replaces
            cut = max(len(places) - entry.keep, 0)
            place = places[cut - 1] if cut else 0
        follow(places, entry, [place] * len(messages_of(entry)))
        if isinstance(entry, MessageEntry) and entry.message.tool_uses:
            called = len(places)
        elif isinstance(entry, CopiedEntry) and called:
            found[_COPIED.id] = _COPIED
            places[called:] = [len(found)] * (len(places) - called)
        elif isinstance(entry, CheckpointEntry):
            found[entry.checkpoint.id] = entry.checkpoint
    if not 0 <= to <= len(places):
        raise _no_place(to, len(places))
    return tuple(found.values())[places[to - 1] if to else 0 :]


def _no_place(at: int, count: int) -> SessionError:
    return SessionError(f"the conversation has no place {at}: it has {count} messages")
