"""Requests as the bytes that one provider accepts, with each message encoded once.

Every request repeats the whole conversation, and usually extends the request before it. So a
`ConversationEncoder` keeps the bytes of earlier messages. It takes the steps of a plain encoding:
`MessageMerger` filters and merges messages, `PortableCalls` renames calls, and a dialect writes
each merged message. A merged message is complete when the other side speaks, and its bytes are kept
from then on. The last one may still grow with the next message, so its bytes and the names in it (a
branch of the renaming) are provisional, and are kept if it turns out to be complete.

Messages, with their dicts (`extra`, `input`, `raw`), are treated as immutable: two are the same if
they are the same object. Equality would not do, since it ignores ids, and `1 == True`.
"""

from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from operator import is_
from typing import NamedTuple, Protocol

import msgspec
import trio
from msgspec import UNSET

from greenroom.core import (
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    Message,
    ModelRequest,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
)
from greenroom.core._internal import serde
from greenroom.llm.bound_thinking import BoundThinking, digest_beginning
from greenroom.llm.json_fields import as_dict
from greenroom.llm.merged_messages import MediaLimits, MergedMessage, MessageMerger
from greenroom.llm.portable_calls import CallRules, PortableCalls
from greenroom.llm.tokens import holds_media


class EncodedMessage(msgspec.Struct, frozen=True):
    """One merged message in a provider's format.

    Attributes:
        messages: the messages on the wire as plain JSON, usually one; never changed.
        wire: the same as bytes, separated by commas; may be empty.
        is_marked: whether it has marks for the provider's cache.
    """

    messages: Sequence[Mapping[str, object]]
    wire: bytes
    is_marked: bool


class EncodedConversation(msgspec.Struct, frozen=True):
    """A conversation in a provider's format; valid until its encoder continues.

    Attributes:
        prefix: all messages but the last few as bytes, separated by commas; may be empty.
        latest: the last few messages, at least three of each side if there are so many; never
            empty.
        is_marked: whether a message has marks for the provider's cache.
        thinking: what became of thinking that is bound to what came before it.
        changes: what else is not sent as it is, a sentence each.
        ends: for each encoded message but the last one, how many messages of the conversation it
            ends with, and for those in `prefix`, after how many bytes.
    """

    prefix: bytes | bytearray
    latest: Sequence[EncodedMessage]
    is_marked: bool
    thinking: BoundThinking
    changes: tuple[str, ...] = ()
    ends: Sequence[tuple[int, int]] = ()

    def pieces_after(self, count: int) -> list[bytes | bytearray]:
        """Return what follows the first `count` messages, as `pieces` does.

        This is for an API that has the beginning of a conversation already.

        Raises:
            ValueError: what is sent of the next message is part of the same message as they are.
        """
        if not count:
            return self.pieces()
        place = bisect_left(self.ends, (count, 0))
        if place == len(self.ends) or self.ends[place][0] != count:
            raise ValueError(f"no encoded message ends after {count} messages")
        in_prefix = len(self.ends) + 1 - len(self.latest)
        if place >= in_prefix:
            return [message.wire for message in self.latest[place + 1 - in_prefix :]]
        rest = self.prefix[self.ends[place][1] :].removeprefix(b",")
        return [rest, *(message.wire for message in self.latest)]

    def pieces(self) -> list[bytes | bytearray]:
        """Return the conversation as pieces to be joined by commas; some may be empty."""
        return [self.prefix, *(message.wire for message in self.latest)]


class Dialect(Protocol):
    """The format of a provider's requests; every method is a pure function of its arguments."""

    @property
    def provider(self) -> str:
        """The provider's name; parts that only another provider understands are not sent."""

    @property
    def api(self) -> str:
        """The `Message.api` of its replies, if the provider has several; else empty."""

    @property
    def calls(self) -> CallRules:
        """The ids and names of calls that the provider accepts."""

    @property
    def echoed_fields(self) -> frozenset[str]:
        """The fields of its own messages that the provider accepts back."""

    @property
    def bound_to(self) -> str:
        """The model, if its thinking is bound to what came before it; else an empty text."""

    @property
    def limits(self) -> MediaLimits:
        """How large images, documents and requests may be."""

    def accept(self, blocks: Sequence[ContentBlock], message: Message) -> Sequence[ContentBlock]:
        """Return the blocks of a message without those that this provider refuses."""

    def write(self, message: MergedMessage) -> Sequence[Mapping[str, object]]:
        """Write a message, whose calls have their final names and ids, as JSON messages.

        Raises:
            ModelBadRequestError: it contains something that can't be written.
        """

    def is_marked(self, messages: Sequence[Mapping[str, object]]) -> bool:
        """Whether messages have marks for the provider's cache; then no others are added."""

    def body(
        self, request: ModelRequest, conversation: EncodedConversation
    ) -> tuple[Mapping[str, object], Iterable[bytes | bytearray]]:
        """Return the fields of the request, and its messages as pieces to be joined by commas.

        The messages go into the field whose value is `MESSAGES`; if the options of the request
        replace that field, the messages are not sent. Fields that are `msgspec.UNSET` are left out.
        """


class _LastMessage(msgspec.Struct, frozen=True):
    """The last message as it was when it was encoded, and the names that were given in it."""

    message: MergedMessage
    encoded: EncodedMessage
    calls: PortableCalls

    def is_of(self, message: MergedMessage) -> bool:
        """Whether this is the message that was encoded: it can only have grown since."""
        before = self.message
        same = message.fields is before.fields and len(message.blocks) == len(before.blocks)
        return same and all(map(is_, message.blocks, before.blocks))


_LATEST = 5  # messages besides the last one, so that there are three of each side


class ConversationEncoder:
    """Encodes one conversation for one provider, and can continue it.

    Two tasks must not use it at the same time, and after an error it must be discarded.
    """

    def __init__(self, dialect: Dialect, beginning: bytes = b"") -> None:
        """Begin with nothing but what comes before the first message, as a digest."""
        self._dialect = dialect
        self.beginning = beginning
        """The digest of what comes before the first message, if thinking is bound to that."""
        self._thinking = BoundThinking(beginning)
        self._complete_thinking = self._thinking.copy()  # before the last merged message
        self._calls = PortableCalls(dialect.calls)
        self._prefix = bytearray()
        self._latest: deque[EncodedMessage] = deque()
        self._is_marked = False
        self._messages: tuple[Message, ...] = ()
        self._changes: dict[str, None] = {}
        self._ends: list[tuple[int, int]] = []
        self.size = 0
        """How many bytes of messages it keeps."""
        self._restart_at(0)

    def count_known(self, messages: Sequence[Message]) -> int:
        """Return how many of these messages are encoded already; 0 for another conversation.

        The conversation may differ in its last message: a request may end with a message that the
        next one leaves out, such as a reminder.
        """
        old, complete = self._messages, self._complete_count
        if len(messages) >= len(old) and _is_same(old, messages, len(old)):
            return len(old)
        # Another last message must begin a merged message as certainly as the old one.
        if not 0 < complete < min(len(old), len(messages)) or not _is_same(old, messages, complete):
            return 0
        is_plain = old[complete].role == messages[complete].role == "user"
        return complete if is_plain and not old[complete].extra else 0

    def encode(self, messages: tuple[Message, ...], known: int = 0) -> EncodedConversation:
        """Encode a conversation, of which `count_known` has returned `known`.

        Raises:
            ModelBadRequestError: it contains something that can't be written.
            InvalidJSONError: it contains something that JSON can't express.
        """
        if known < len(self._messages):
            self._restart_at(known)
            self._thinking = self._complete_thinking.copy()
        limits = self._dialect.limits
        for place, original in enumerate(islice(messages, known, None), known):
            message = original
            if holds_media(original.content):
                if place == len(messages) - 1:  # an older one would fail the conversation forever
                    limits.check_message(original, place, self._dialect.provider)
                message = limits.fit(original)
                self._changes.update(dict.fromkeys(_find_faults(original, self._dialect)))
            if original.role == "assistant" and not original.provider:
                self._changes.update(dict.fromkeys(_find_unnamed(original, self._dialect)))
            before = self._thinking.copy() if self._dialect.bound_to else self._thinking
            sent = self._thinking.add(message) if self._dialect.bound_to else message
            complete = self._merger.add(sent)
            if complete:
                self._append(complete, place)
                self._complete_count, self._complete_thinking = place, before
        self._messages = messages
        latest = (*self._latest, self._encode_last(self._merger.current))
        is_marked = self._is_marked or latest[-1].is_marked
        changes = tuple(self._changes)
        return EncodedConversation(
            self._prefix, latest, is_marked, self._thinking, changes, self._ends
        )

    def _restart_at(self, place: int) -> None:
        """Forget the last merged message, if any; the next one begins at this place."""
        dialect = self._dialect
        self._merger = MessageMerger(
            dialect.provider, dialect.accept, dialect.echoed_fields, dialect.api
        )
        self._complete_count = place  # how many messages are in complete merged messages
        self._last: _LastMessage | None = None

    def _append(self, message: MergedMessage, count: int) -> None:
        """Keep a complete message, with which so many messages of the conversation end."""
        last, self._last = self._last, None
        if last is not None and last.is_of(message):
            self._calls.merge(last.calls)
            encoded = last.encoded
        else:
            encoded = self._encode(self._calls.rename(message))
        self._is_marked |= encoded.is_marked
        self._latest.append(encoded)
        self.size += len(encoded.wire)
        self._ends.append((count, 0))
        if len(self._latest) > _LATEST:
            wire = self._latest.popleft().wire
            self._prefix += b"," + wire if self._prefix and wire else wire
            place = len(self._ends) - _LATEST - 1
            self._ends[place] = (self._ends[place][0], len(self._prefix))

    def _encode_last(self, message: MergedMessage) -> EncodedMessage:
        """Encode the last message, unless it has not changed since the last request."""
        if self._last is None or not self._last.is_of(message):
            calls = self._calls.branch()
            self._last = _LastMessage(message, self._encode(calls.rename(message)), calls)
        return self._last.encoded

    def _encode(self, message: MergedMessage) -> EncodedMessage:
        messages = self._dialect.write(message)
        wire = serde.dumps(messages)[1:-1]
        return EncodedMessage(messages, wire, self._dialect.is_marked(messages))


def _find_faults(message: Message, dialect: Dialect) -> Iterable[str]:
    """Say which images and documents of a message are not sent."""
    for fault in dialect.limits.find_faults(message):
        yield f"not sent to {dialect.provider}: {fault}"


def _find_unnamed(message: Message, dialect: Dialect) -> Iterable[str]:
    """Say whether thinking is not sent of a message that names no provider."""
    thoughts = [block for block in message.content if isinstance(block, ThinkingBlock)]
    accepted = dialect.accept(message.content, message) if thoughts else ()
    if any(all(block is not each for each in accepted) for block in thoughts):
        yield f"not sent to {dialect.provider}: thinking of a message that names no provider"


def _is_same(old: Sequence[Message], messages: Sequence[Message], count: int) -> bool:
    """Whether both begin with the same objects; most that differ do so at the end."""
    if count and old[count - 1] is not messages[count - 1]:
        return False
    return all(map(is_, islice(old, count), messages))


class EncodedRequest(NamedTuple):
    """A request as it is sent.

    Attributes:
        content: its body.
        prefix: the `Message.prefix` of its reply; empty if the model does not bind its thinking.
        left_out: how many messages had thinking that no longer fits.
        changes: what else is not sent as it is, a sentence each.
    """

    content: bytes
    prefix: str = ""
    left_out: int = 0
    changes: tuple[str, ...] = ()


MESSAGES = object()
"""The value of the field in which the messages of a request belong."""

_MAX_ENCODERS = 1024  # conversations
_MAX_BYTES = 64 * 1024 * 1024

# These take a few milliseconds at most; a message takes about ten microseconds.
_SHORT = 250  # messages
_SMALL = 1024 * 1024  # characters

# Copying more than this takes milliseconds.
_COPIED = 4 * 1024 * 1024


class RequestEncoder:
    """Encodes the requests of one provider; of a conversation that has grown, only the new part.

    It serves any number of conversations at a time, and keeps a `ConversationEncoder` of each, up
    to a number and a size; the least recently used one is dropped first. A request takes the
    encoder of its conversation out of the cache, so no other request can change it, and puts it
    back afterwards. Meanwhile another request of the same conversation starts over, and so does the
    first one after an error.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._encoders = _Cache()
        # One thread, since encoding holds the interpreter.
        self._limiter = trio.CapacityLimiter(1)

    async def encode(self, request: ModelRequest) -> EncodedRequest:
        """Make the body of a request, in a thread if much of it is new.

        Raises:
            ModelBadRequestError: it contains something that can't be written.
            InvalidJSONError: it contains something that JSON can't express.
        """
        messages = tuple(request.messages)
        beginning = _find_beginning(self._dialect, request)
        found, known = self._encoders.take(messages, beginning)
        encoder = found or ConversationEncoder(self._dialect, beginning)
        work = partial(_encode, self._dialect, request, messages, encoder, known)
        if encoder.size > _COPIED or _is_much(messages[known:]):
            encoded = await trio.to_thread.run_sync(work, limiter=self._limiter)
        else:
            encoded = work()
        self._encoders.put(encoder, messages)
        return encoded

    def show(self, request: ModelRequest) -> dict[str, object]:
        """Return the body of a request as plain JSON, without keeping anything.

        Raises:
            ModelBadRequestError: it contains something that can't be written.
            InvalidJSONError: it contains something that JSON can't express.
        """
        return as_dict(serde.loads(encode_request(self._dialect, request)))


class _Cache:
    """Encoders by the first message of their conversations, the least recently used first."""

    def __init__(self) -> None:
        # Several branches of a conversation have the same first message. The `id` of a message is
        # unique while the message is kept.
        self._by_first_message: OrderedDict[int, list[ConversationEncoder]] = OrderedDict()
        self._count = 0
        self._bytes = 0

    def take(
        self, messages: tuple[Message, ...], beginning: bytes
    ) -> tuple[ConversationEncoder | None, int]:
        """Take out the encoder that knows most of these messages, and say how many it knows."""
        best, most = None, 0
        alike = self._by_first_message.get(id(messages[0]), []) if messages else []
        for each in alike:
            known = each.count_known(messages) if each.beginning == beginning else 0
            if known > most:
                best, most = each, known
        if best is not None:
            self._remove(id(messages[0]), best)
        return best, most

    def put(self, encoder: ConversationEncoder, messages: tuple[Message, ...]) -> None:
        """Keep the encoder of these messages; drop the oldest ones beyond the limits."""
        if not messages:
            return
        first = id(messages[0])
        self._by_first_message.setdefault(first, []).append(encoder)
        self._by_first_message.move_to_end(first)
        self._count += 1
        self._bytes += encoder.size
        while self._count > _MAX_ENCODERS or self._bytes > _MAX_BYTES:
            oldest, alike = next(iter(self._by_first_message.items()))
            self._remove(oldest, alike[0])

    def _remove(self, first: int, encoder: ConversationEncoder) -> None:
        alike = self._by_first_message[first]
        alike.remove(encoder)
        if not alike:
            del self._by_first_message[first]
        self._count -= 1
        self._bytes -= encoder.size


def encode_request(dialect: Dialect, request: ModelRequest) -> bytes:
    """Make the body of a request from scratch; `RequestEncoder` makes the same bytes.

    Raises:
        ModelBadRequestError: it contains something that can't be written.
        InvalidJSONError: it contains something that JSON can't express.
    """
    encoder = ConversationEncoder(dialect, _find_beginning(dialect, request))
    return _encode(dialect, request, tuple(request.messages), encoder).content


def assemble(fields: Mapping[str, object], messages: Iterable[bytes | bytearray] = ()) -> bytes:
    """Return the fields that are set as JSON, with the messages in place of `MESSAGES`.

    Raises:
        InvalidJSONError: a field contains something that JSON can't express.

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
    encoder: ConversationEncoder,
    known: int = 0,
) -> EncodedRequest:
    conversation = encoder.encode(messages, known)
    fields, pieces = dialect.body(request, conversation)
    content = assemble(fields, pieces)
    dialect.limits.check_request(content, dialect.provider)
    thinking, changes = conversation.thinking, conversation.changes
    if not dialect.bound_to:
        return EncodedRequest(content, changes=changes)
    return EncodedRequest(content, thinking.prefix, thinking.left_out, changes)


def _find_beginning(dialect: Dialect, request: ModelRequest) -> bytes:
    return digest_beginning(request, dialect.bound_to) if dialect.bound_to else b""


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
