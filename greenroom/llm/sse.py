"""Server-sent events, decoded from bytes in any pieces.

The format is that of the HTML standard, section 9.2, with two differences. Lines are split as
bytes, only at CR, LF and CRLF, since U+2028 and similar characters are legal in JSON. And the last
event counts even without an empty line after it: both APIs put one JSON text into an event, so an
incomplete event can't be mistaken for a complete one.

Nearly every event of a model is one line of data, or a name and one line of data, so these are cut
at the empty lines between them. Anything else is read line by line.
"""

from collections.abc import Iterator

import msgspec

from greenroom.core._internal import compile_later
from greenroom.llm.failure import too_large

EVENT_LIMIT = 16 * 1024 * 1024
"""The most bytes of one event; the largest known ones, search results, have about 100 kB."""

_BETWEEN = b"\n\n"
_LINE_END = compile_later(rb"\r\n|\r|\n")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class SSEEvent(msgspec.Struct, frozen=True):
    """One event: its data, and its name and id if it has them."""

    data: str
    name: str = ""
    id: str = ""


class SSEDecoder:
    r"""Turns bytes into events; the events do not depend on how the bytes are cut.

    Example:
        >>> decoder = SSEDecoder()
        >>> decoder.feed(b": a comment\r\n\r\nevent: greeting\r\nda")
        []
        >>> decoder.feed(b"ta: hello\r\n\r\n")
        [SSEEvent(data='hello', name='greeting', id='')]
    """

    def __init__(self, limit: int = EVENT_LIMIT) -> None:
        """Begin at the start of a stream; no event may take more than `limit` bytes."""
        self._limit = limit
        self._rest = bytearray()  # the line that has begun
        self._skip_line_feed = False  # the last byte was a CR: an LF that follows belongs to it
        self._first_line = True
        self._data: list[bytes] = []
        self._size = 0  # of the lines of the event that has begun
        self._name = b""
        self._id = b""

    def feed(self, data: bytes) -> list[SSEEvent]:
        """Add the next bytes and return the events that they complete.

        Raises:
            ModelStreamError: an event is larger than the limit.
        """
        if self._first_line and not self._rest and not _BYTE_ORDER_MARK.startswith(data[:3]):
            self._first_line = False  # it has no mark
        if self._is_inside_event:
            end = data.find(_BETWEEN) + len(_BETWEEN)
            if end < len(_BETWEEN):
                return self._read(data)
            events, data = self._read(data[:end]), data[end:]
        else:
            events = []
        if data.find(b"\r") >= 0:  # `in` looks for a number first, which takes longer
            return events + self._read(data)
        *blocks, rest = data.split(_BETWEEN)
        for block in blocks:
            if (event := self._read_short(block)) is not None:
                events.append(event)
            else:
                events += self._read(block + _BETWEEN)
        return events + self._read(rest) if rest else events

    def close(self) -> list[SSEEvent]:
        """End the stream and return its last event, if it was not followed by an empty line.

        Raises:
            ModelStreamError: the event is larger than the limit.
        """
        return self.feed(b"\n\n")

    @property
    def _is_inside_event(self) -> bool:
        """Whether what comes next is not the first line of an event."""
        return bool(self._size or self._rest or self._first_line or self._skip_line_feed)

    def _read_short(self, block: bytes) -> SSEEvent | None:
        """Return the event of a whole block that has one line of data, and no more than a name."""
        name = b""
        if block.startswith(b"event: "):
            name, _, block = block[7:].partition(b"\n")
        if len(name) + len(block) + 7 > self._limit or not block.startswith(b"data: "):
            return None
        data = str(block[6:], "utf-8", "replace")  # as `_decode`, of which each delta takes one
        if not data or "\n" in data:
            return None
        event_id = _decode(self._id) if self._id else ""
        return SSEEvent(data, _decode(name) if name else "", event_id)

    def _read(self, data: bytes) -> list[SSEEvent]:
        """Read line by line."""
        events: list[SSEEvent] = []
        for line in self._lines(data):
            if line:
                self._read_line(line)
            else:
                events.extend(self._dispatch())
        self._check(self._size + len(self._rest))
        return events

    def _lines(self, data: bytes) -> Iterator[bytes]:
        if self._skip_line_feed and data:
            data = data.removeprefix(b"\n")
            self._skip_line_feed = False
        if data:
            self._skip_line_feed = data.endswith(b"\r")
        *ends, rest = _LINE_END.split(data)
        for end in ends:
            line = bytes(self._rest) + end
            self._rest.clear()
            yield self._without_mark(line)
        self._rest += rest

    def _without_mark(self, line: bytes) -> bytes:
        if self._first_line:
            self._first_line = False
            return line.removeprefix(_BYTE_ORDER_MARK)
        return line

    def _read_line(self, line: bytes) -> None:
        if line.startswith(b":"):
            self._check(self._size + len(line))
            return
        self._size += len(line)
        self._check(self._size)
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value
        elif field == b"id" and b"\0" not in value:
            self._id = value

    def _dispatch(self) -> list[SSEEvent]:
        data, name = b"\n".join(self._data), self._name
        self._data, self._name, self._size = [], b"", 0
        return [SSEEvent(_decode(data), _decode(name), _decode(self._id))] if data else []

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise too_large(f"an event of the stream is larger than {self._limit} bytes")


def _decode(data: bytes) -> str:
    """Decode as the standard says: bytes that are not UTF-8 become U+FFFD."""
    return data.decode(errors="replace")
