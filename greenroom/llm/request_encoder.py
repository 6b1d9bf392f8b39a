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

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from operator import is_
from typing import NamedTuple

import msgspec
import trio

from greenroom.core import (
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
from greenroom.llm.dialect import Dialect, EncodedConversation, EncodedMessage, WriteMessages
from greenroom.llm.json_fields import as_dict
from greenroom.llm.merged_messages import MergedMessage, MessageMerger
from greenroom.llm.portable_calls import PortableCalls
from greenroom.llm.request_frame import Frame, Surroundings
from greenroom.llm.tokens import holds_media


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


class _Around(NamedTuple):
    """What surrounds the messages of a request, as it is sent."""

    of: Surroundings
    is_marked: bool
    frame: Frame
    write: WriteMessages


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
        self._around: _Around | None = None
        self._restart_at(0)

    @property
    def size(self) -> int:
        """How many bytes it keeps."""
        newest = (*self._latest, self._last.encoded) if self._last else self._latest
        messages = sum(len(each.wire) + len(each.with_mark or b"") for each in newest)
        around = len(self._around.frame.start) if self._around else 0
        return len(self._prefix) + messages + around

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

    def body(self, request: ModelRequest, conversation: EncodedConversation) -> bytes:
        """Return the body of a request with this conversation, which it has encoded last.

        Raises:
            ModelBadRequestError: the request has something that can't be written.
            InvalidJSONError: it has something that JSON can't express.
        """
        around, now = self._around, Surroundings.of(request)
        if (
            around is None
            or around.is_marked != conversation.is_marked
            or not now.is_like(around.of)
        ):
            fields, write = self._dialect.body(request, is_marked=conversation.is_marked)
            around = self._around = _Around(now, conversation.is_marked, Frame.of(fields), write)
        return around.frame.fill(around.write(conversation))

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
        return EncodedMessage(messages, wire, self._dialect.is_marked(messages, wire))


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


def _encode(
    dialect: Dialect,
    request: ModelRequest,
    messages: tuple[Message, ...],
    encoder: ConversationEncoder,
    known: int = 0,
) -> EncodedRequest:
    conversation = encoder.encode(messages, known)
    content = encoder.body(request, conversation)
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
