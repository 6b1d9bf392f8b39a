"""A conversation as the bytes that one provider accepts, with each turn encoded once.

Every request repeats the whole conversation, and usually extends the request before it. So a
`Transcript` keeps the bytes of earlier turns. Its steps are those of a plain encoding: `Turns`
filters and merges messages, `PortableCalls` renames calls, and a dialect writes the turn. A turn
ends when the other side speaks, and is kept as bytes from then on. The open turn may still change
with the next message, so its bytes and the names in it (a branch of the renaming) are provisional,
and are kept if it ends without having changed.

Messages, with their dicts (`extra`, `input`, `raw`), are treated as immutable: two are the same if
they are the same object. Equality would not do, since it ignores ids, and `1 == True`.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import is_
from typing import Protocol

import trio
from msgspec import UNSET

from greenroom.core import (
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    Message,
    ModelRequest,
    Role,
    TextBlock,
    ToolResultBlock,
    serde,
)
from greenroom.llm.calls import CallRules, PortableCalls
from greenroom.llm.conversation import MediaLimits, Turn, Turns
from greenroom.llm.json_fields import mapping


@dataclass(frozen=True, slots=True)
class WrittenTurn:
    """One turn in a provider's words.

    Attributes:
        role: whose turn it is.
        messages: its messages as plain JSON, usually one; never changed.
        wire: the same as bytes, separated by commas; may be empty.
        is_marked: whether it has marks for the provider's cache.
    """

    role: Role
    messages: Sequence[Mapping[str, object]]
    wire: bytes
    is_marked: bool


@dataclass(frozen=True, slots=True)
class Written:
    """A conversation in a provider's words; valid until its transcript reads on.

    Attributes:
        settled: all turns but the last few as bytes, separated by commas; may be empty.
        latest: the last few turns, at least three of each side where there are so many; never
            empty.
        is_marked: whether a turn brings marks for the provider's cache.
    """

    settled: bytes | bytearray
    latest: Sequence[WrittenTurn]
    is_marked: bool

    def pieces(self) -> list[bytes | bytearray]:
        """Return what, joined by commas, is the conversation; some may be empty."""
        return [self.settled, *(turn.wire for turn in self.latest)]


class Dialect(Protocol):
    """The format of a provider's requests; every method is a pure function of its arguments."""

    @property
    def provider(self) -> str:
        """The provider's name; what only another provider understands is not sent."""

    @property
    def calls(self) -> CallRules:
        """The ids and names of calls that the provider accepts."""

    @property
    def returns(self) -> frozenset[str]:
        """The fields of its own messages that the provider accepts back."""

    @property
    def limits(self) -> MediaLimits:
        """How large images, documents and requests may be."""

    def accept(self, blocks: Sequence[ContentBlock], provider: str) -> Sequence[ContentBlock]:
        """Return the blocks of a message, which came from this provider, without those that are refused."""

    def write(self, turn: Turn) -> Sequence[Mapping[str, object]]:
        """Write a turn, whose calls have their final names and ids, as JSON messages.

        Raises:
            ModelBadRequestError: it holds something that can't be written.
        """

    def is_marked(self, messages: Sequence[Mapping[str, object]]) -> bool:
        """Whether written messages bring marks for the provider's cache, then the only ones."""

    def body(
        self, request: ModelRequest, written: Written
    ) -> tuple[Mapping[str, object], Iterable[bytes | bytearray]]:
        """Return the fields of the request, and its messages as pieces to be joined by commas.

        The messages go into the field whose value is `MESSAGES`; if the options of the request
        replace that field, the messages are not sent. Fields that are `msgspec.UNSET` are left out.
        """


@dataclass(frozen=True, slots=True)
class _Draft:
    """What the open turn was when it was written last, and the names that were given there."""

    turn: Turn
    written: WrittenTurn
    calls: PortableCalls

    def is_of(self, turn: Turn) -> bool:
        """Whether the turn is the one that was written: it can only have grown since."""
        before = self.turn
        same = turn.fields is before.fields and len(turn.blocks) == len(before.blocks)
        return same and all(map(is_, turn.blocks, before.blocks))


_LATEST = 5  # turns besides the open one, so that there are three of each side


class Transcript:
    """One conversation in the format of one provider, ready to be continued.

    Two tasks must not use it at the same time, and after an error it is of no use.
    """

    def __init__(self, dialect: Dialect) -> None:
        """Begin with nothing."""
        self._dialect = dialect
        self._calls = PortableCalls(dialect.calls)
        self._settled = bytearray()
        self._latest: deque[WrittenTurn] = deque()
        self._is_marked = False
        self._messages: tuple[Message, ...] = ()
        self._begin_turn(0)

    @property
    def size(self) -> int:
        """How many bytes it keeps, messages not counted."""
        return len(self._settled) + sum(len(turn.wire) for turn in self._latest)

    def reuse(self, messages: Sequence[Message]) -> int:
        """Return how many of these messages need not be read again; 0 where they begin otherwise.

        They begin with those that have been read, save perhaps for the last turn: a request may end
        with a message that the next one leaves out, such as a reminder.
        """
        old, ended = self._messages, self._ended_count
        if len(messages) >= len(old) and _is_same(old, messages, len(old)):
            return len(old)
        # Without the open turn it can go on only with what begins a turn as certainly.
        if not 0 < ended < min(len(old), len(messages)) or not _is_same(old, messages, ended):
            return 0
        is_plain = old[ended].role == messages[ended].role == "user" and not old[ended].extra
        return ended if is_plain else 0

    def read(self, messages: tuple[Message, ...], known: int = 0) -> Written:
        """Write a conversation, of which `reuse` has said that so many messages are known.

        Raises:
            ModelBadRequestError: it holds something that can't be written.
            InvalidJSONError: it holds something that JSON can't express.
        """
        if known < len(self._messages):
            self._begin_turn(known)
        for place, message in enumerate(islice(messages, known, None), known):
            self._dialect.limits.check_message(message, place, self._dialect.provider)
            ended = self._turns.add(message)
            if ended:
                self._settle(ended)
                self._ended_count = place
        self._messages = messages
        latest = (*self._latest, self._write_open(self._turns.open))
        return Written(self._settled, latest, self._is_marked or latest[-1].is_marked)

    def _begin_turn(self, place: int) -> None:
        """Forget the open turn, if there is one, and wait for what begins another at this place."""
        dialect = self._dialect
        self._turns = Turns(dialect.provider, dialect.accept, dialect.returns)
        self._ended_count = place  # how many messages the ended turns hold
        self._draft: _Draft | None = None

    def _settle(self, turn: Turn) -> None:
        draft, self._draft = self._draft, None
        if draft is not None and draft.is_of(turn):
            self._calls.merge(draft.calls)
            written = draft.written
        else:
            written = self._write(self._calls.rename(turn))
        self._is_marked |= written.is_marked
        self._latest.append(written)
        if len(self._latest) > _LATEST:
            wire = self._latest.popleft().wire
            self._settled += b"," + wire if self._settled and wire else wire

    def _write_open(self, turn: Turn) -> WrittenTurn:
        """Write the open turn, unless it is as it was when it was written last."""
        if self._draft is None or not self._draft.is_of(turn):
            calls = self._calls.branch()
            self._draft = _Draft(turn, self._write(calls.rename(turn)), calls)
        return self._draft.written

    def _write(self, turn: Turn) -> WrittenTurn:
        messages = self._dialect.write(turn)
        wire = serde.dumps(messages)[1:-1]
        return WrittenTurn(turn.role, messages, wire, self._dialect.is_marked(messages))


def _is_same(old: Sequence[Message], messages: Sequence[Message], count: int) -> bool:
    """Whether both begin with the same objects; what does not is mostly found at the end first."""
    if count and old[count - 1] is not messages[count - 1]:
        return False
    return all(map(is_, islice(old, count), messages))


MESSAGES = object()
"""The value of the field in which the messages of a request belong."""

_MAX_TRANSCRIPTS = 1024  # conversations
_MAX_BYTES = 64 * 1024 * 1024

# What takes some milliseconds at the most; a message takes about ten microseconds.
_SHORT = 250  # messages
_SMALL = 1024 * 1024  # characters

# A request larger than that takes milliseconds only to be copied.
_COPIED = 4 * 1024 * 1024


class RequestEncoder:
    """Encodes the requests of one provider; of a conversation that has grown, only the new part.

    It serves any number of conversations at a time, and keeps a `Transcript` of each, up to a
    number and a size; the least recently used one is dropped first. A request takes the transcript
    that it extends out of the cache, so that no other request changes it, and puts it back once it
    is encoded. Another request of the same conversation at that moment starts over, and so does one
    after an error.
    """

    def __init__(self, dialect: Dialect) -> None:
        """Keep nothing yet."""
        self._dialect = dialect
        self._transcripts = _Cache()
        # One, since encoding holds the interpreter.
        self._limiter = trio.CapacityLimiter(1)

    async def encode(self, request: ModelRequest) -> bytes:
        """Make the body of a request; where much is new, in a thread.

        Raises:
            ModelBadRequestError: it holds something that can't be written.
            InvalidJSONError: it holds something that JSON can't express.
        """
        messages = tuple(request.messages)
        found, known = self._transcripts.take(messages)
        transcript = found or Transcript(self._dialect)
        work = partial(_encode, self._dialect, request, messages, transcript, known)
        if transcript.size > _COPIED or _is_much(messages[known:]):
            content = await trio.to_thread.run_sync(work, limiter=self._limiter)
        else:
            content = work()
        self._transcripts.put(transcript, messages)
        return content

    def show(self, request: ModelRequest) -> dict[str, object]:
        """Return the body of a request as plain JSON, without keeping anything.

        Raises:
            ModelBadRequestError: it holds something that can't be written.
            InvalidJSONError: it holds something that JSON can't express.
        """
        return mapping(serde.loads(encode_request(self._dialect, request)))


class _Cache:
    """Transcripts by their first message, in the order in which they were used."""

    def __init__(self) -> None:
        # Branches of a conversation begin alike. An id is that of one object, as long as it is
        # kept.
        self._by_first_message: OrderedDict[int, list[Transcript]] = OrderedDict()
        self._count = 0
        self._bytes = 0

    def take(self, messages: tuple[Message, ...]) -> tuple[Transcript | None, int]:
        """Take out the transcript that knows most of these messages, if one does, and say how many."""
        best, most = None, 0
        alike = self._by_first_message.get(id(messages[0]), []) if messages else []
        for each in alike:
            known = each.reuse(messages)
            if known > most:
                best, most = each, known
        if best is not None:
            self._remove(id(messages[0]), best)
        return best, most

    def put(self, transcript: Transcript, messages: tuple[Message, ...]) -> None:
        """Keep a transcript that has read these messages; drop what is too much."""
        if not messages:
            return
        first = id(messages[0])
        self._by_first_message.setdefault(first, []).append(transcript)
        self._by_first_message.move_to_end(first)
        self._count += 1
        self._bytes += transcript.size
        while self._count > _MAX_TRANSCRIPTS or self._bytes > _MAX_BYTES:
            oldest, alike = next(iter(self._by_first_message.items()))
            self._remove(oldest, alike[0])

    def _remove(self, first: int, transcript: Transcript) -> None:
        alike = self._by_first_message[first]
        alike.remove(transcript)
        if not alike:
            del self._by_first_message[first]
        self._count -= 1
        self._bytes -= transcript.size


def encode_request(dialect: Dialect, request: ModelRequest) -> bytes:
    """Make the body of a request of which nothing is known: what `RequestEncoder` must equal.

    Raises:
        ModelBadRequestError: it holds something that can't be written.
        InvalidJSONError: it holds something that JSON can't express.
    """
    return _encode(dialect, request, tuple(request.messages), Transcript(dialect))


def assemble(fields: Mapping[str, object], messages: Iterable[bytes | bytearray] = ()) -> bytes:
    """Write the fields that are set, with the messages in place of `MESSAGES`.

    Raises:
        InvalidJSONError: a field holds something that JSON can't express.

    Example:
        >>> assemble({"model": "m", "messages": MESSAGES, "seed": UNSET}, [b'{"a":1}', b'{"b":2}'])
        b'{"model":"m","messages":[{"a":1},{"b":2}]}'
    """
    values = {name: value for name, value in fields.items() if value is not UNSET}
    place = next((name for name, value in values.items() if value is MESSAGES), None)
    if place is None:
        return serde.dumps(values)
    del values[place]
    pieces: list[bytes | bytearray] = [serde.dumps(values)[:-1], b"," if values else b""]
    pieces += [serde.dumps(place), b":["]
    for message in messages:
        pieces += [message, b","] if message else []
    if pieces[-1] == b",":
        pieces.pop()
    return b"".join([*pieces, b"]}"])


def _encode(
    dialect: Dialect,
    request: ModelRequest,
    messages: tuple[Message, ...],
    transcript: Transcript,
    known: int = 0,
) -> bytes:
    fields, pieces = dialect.body(request, transcript.read(messages, known))
    content = assemble(fields, pieces)
    dialect.limits.check_request(content, dialect.provider)
    return content


def _is_much(messages: tuple[Message, ...]) -> bool:
    if len(messages) > _SHORT:
        return True
    return sum(_length(block) for message in messages for block in message.content) > _SMALL


def _length(block: object) -> int:
    match block:
        case TextBlock(text):
            return len(text)
        case ToolResultBlock(content=content):
            return sum(map(_length, content))
        case ImageBlock(data=data) | DocumentBlock(data=data):
            return len(data)
        case _:
            return 0
