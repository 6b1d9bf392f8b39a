"""Requests of one provider as bytes; of a conversation that has grown, only what is new is encoded.

A provider serves many conversations at a time. Of each it keeps a `Transcript`, up to a number and a
size; the one that was not used for longest goes. A request takes out the transcript that it goes on
with, so that nobody else changes it meanwhile, and puts it back when it is encoded. Another request of
the same conversation at the same moment begins anew, and so does one after an error.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from functools import partial

import trio
from msgspec import UNSET

from greenroom.core import (
    DocumentBlock,
    ImageBlock,
    Message,
    ModelRequest,
    TextBlock,
    ToolResultBlock,
    serde,
)
from greenroom.llm.fields import mapping
from greenroom.llm.transcript import Dialect, Transcript

MESSAGES = object()
"""Stands in the fields of a request where its messages belong."""

_KEPT = 1024  # conversations
_KEPT_BYTES = 64 * 1024 * 1024

# What takes some milliseconds at the most; a message takes about ten microseconds.
_SHORT = 250  # messages
_SMALL = 1024 * 1024  # characters

# A request larger than that takes milliseconds only to be copied.
_COPIED = 4 * 1024 * 1024


class RequestEncoder:
    """Encodes the requests of one provider, any number of them at the same time."""

    def __init__(self, dialect: Dialect) -> None:
        """Keep nothing yet."""
        self._dialect = dialect
        self._kept = _Kept()
        # One, since encoding holds the interpreter.
        self._limiter = trio.CapacityLimiter(1)

    async def encode(self, request: ModelRequest) -> bytes:
        """Make the body of a request; where much is new, in a thread.

        Raises:
            ModelBadRequestError: it holds something that can't be written.
            InvalidJSONError: it holds something that JSON can't express.
        """
        messages = tuple(request.messages)
        found, known = self._kept.take(messages)
        transcript = found or Transcript(self._dialect)
        work = partial(_encode, self._dialect, request, messages, transcript, known)
        if transcript.size > _COPIED or _is_much(messages[known:]):
            content = await trio.to_thread.run_sync(work, limiter=self._limiter)
        else:
            content = work()
        self._kept.put(transcript, messages)
        return content

    def show(self, request: ModelRequest) -> dict[str, object]:
        """Return the body of a request as plain JSON, without keeping anything.

        Raises:
            ModelBadRequestError: it holds something that can't be written.
            InvalidJSONError: it holds something that JSON can't express.
        """
        return mapping(serde.loads(encode_request(self._dialect, request)))


class _Kept:
    """Transcripts by their first message, in the order in which they were used."""

    def __init__(self) -> None:
        # Branches of a conversation begin alike. An id is that of one object, as long as it is kept.
        self._alike: OrderedDict[int, list[Transcript]] = OrderedDict()
        self._count = 0
        self._bytes = 0

    def take(self, messages: tuple[Message, ...]) -> tuple[Transcript | None, int]:
        """Take out the transcript that knows most of these messages, if one does, and say how many."""
        best, most = None, 0
        alike = self._alike.get(id(messages[0]), []) if messages else []
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
        self._alike.setdefault(first, []).append(transcript)
        self._alike.move_to_end(first)
        self._count += 1
        self._bytes += transcript.size
        while self._count > _KEPT or self._bytes > _KEPT_BYTES:
            oldest, alike = next(iter(self._alike.items()))
            self._remove(oldest, alike[0])

    def _remove(self, first: int, transcript: Transcript) -> None:
        alike = self._alike[first]
        alike.remove(transcript)
        if not alike:
            del self._alike[first]
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
