"""Lines of bytes as they come from a stream, each within a bound, and what is wrong with them."""

import re
from collections.abc import Iterator

from greenroom.core._internal import JSON, InvalidJSONError, serde

MAX_MESSAGE = 16 << 20
"""Bytes of the longest message on a line; of a longer one nothing is kept."""

_EDGE = 4_096  # bytes of the head and the tail of a message that is too long
_ID = re.compile(rb'"id"\s*:\s*(\d{1,18}|"(?:[^"\\]|\\.){0,200}")')
_KIND = re.compile(rb'"(method|params|result|error)"\s*:')
_BODY = re.compile(rb'"(?:params|result|error)"\s*:')
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)
_ESCAPE_IN_PIECE = re.compile(
    rb"(?P<cut>\\(?:u[0-9a-fA-F]{0,3}"
    rb"|u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?)?\Z)|"
    + _ESCAPE.pattern.replace(b"(u[dD]", b"(?P<lone>u[dD]")
)


class LineReader:
    r"""Cuts bytes into lines, in a time that grows with their number alone.

    A line longer than the limit is left out; `skipped_id` finds the request that it was or answers,
    and `skipped_answer` says which of the two.

    Example:
        >>> reader = LineReader(limit=10)
        >>> list(reader.feed(b"one\ntw")), list(reader.feed(b"o\n"))
        ([b'one'], [b'two'])
    """

    def __init__(self, limit: int = MAX_MESSAGE) -> None:
        """Start with nothing."""
        self._limit = limit
        self._buffer = bytearray()
        self._is_skipping = False
        self._head, self._tail = b"", b""

    def feed(self, data: bytes) -> Iterator[bytes | None]:
        """Yield the lines that are complete now, and None for one that was too long."""
        *ended, rest = data.split(b"\n")
        for part in ended:
            self._add(part)
            if self._is_skipping:
                self._is_skipping = False
                yield None
            else:
                yield bytes(self._buffer)
            self._buffer.clear()
        self._add(rest)

    def _add(self, part: bytes) -> None:
        if self._is_skipping:
            self._tail = (self._tail + part)[-_EDGE:]
            return
        self._buffer += part
        if len(self._buffer) > self._limit:
            self._is_skipping = True
            self._head, self._tail = bytes(self._buffer[:_EDGE]), bytes(self._buffer[-_EDGE:])
            self._buffer.clear()

    @property
    def skipped_answer(self) -> bool:
        """Whether the last line that was too long was an answer, not a request or a notification.

        What it has is said first, so it is not looked for in what others have put into it.
        """
        return _is_answer(self._head)

    @property
    def skipped_id(self) -> int | str | None:
        """The id of the request that the last line that was too long was, or answered.

        It stands before the result or behind it, whichever the other side's library prefers.
        """
        return _find_id(self._head, self._tail)


def _is_answer(head: bytes) -> bool:
    kind = _KIND.search(head)
    return kind is not None and kind[1] in (b"result", b"error")


def _find_id(head: bytes, tail: bytes) -> int | str | None:
    first = _ID.search(_BODY.split(head, 1)[0])
    found = first or next(reversed(list(_ID.finditer(tail))), None)
    if found is None:
        return None
    try:
        value = serde.loads(found[1])
    except InvalidJSONError:  # nothing else of the message was checked
        return None
    return value if isinstance(value, int | str) else None


def find_answered(line: bytes) -> int | str | None:
    r"""Return the id of the request that an unreadable line answers; None if it is not an answer.

    What a program writes by mistake, such as its log, is not one.

    Example:
        >>> find_answered(b'{"jsonrpc": "2.0", "id": 7, "result": "\xff"}')
        7
    """
    head, tail = line[:_EDGE], line[-_EDGE:]
    is_message = b'"jsonrpc"' in head or b'"jsonrpc"' in tail
    return _find_id(head, tail) if is_message and _is_answer(head) else None


def find_asked(line: bytes) -> int | str | None:
    """Return the id of the request in an unreadable line; None if it is not a request."""
    head = line[:_EDGE]
    return None if _is_answer(head) else _find_id(head, line[-_EDGE:])


def mend_escapes(line: bytes) -> bytes:
    r"""Return JSON whose lone surrogates, which no text can have, are U+FFFD.

    Programs write them whose texts are of UTF-16 and were cut in the middle of a character, or have
    names of files that are not UTF-8.

    Example:
        >>> mend_escapes(rb'["\ud83d", "\ud83d\ude00", "\\ud83d"]')
        b'["\\ufffd", "\\ud83d\\ude00", "\\\\ud83d"]'
    """
    return _ESCAPE.sub(lambda each: rb"\ufffd" if each[1] else each[0], line)


class EscapeMender:
    r"""Mends JSON as `mend_escapes` does, in pieces that may end anywhere.

    Example:
        >>> mender = EscapeMender()
        >>> mender.feed(rb'["\ud8'), mender.feed(rb'3d"]'), mender.rest
        (b'["', b'\\ufffd"]', b'')
    """

    def __init__(self) -> None:
        """Start with nothing."""
        self.rest = b""
        """The beginning of what the next piece goes on with."""

    def feed(self, data: bytes) -> bytes:
        """Return what is complete now."""
        data, self.rest = self.rest + data, b""
        return _ESCAPE_IN_PIECE.sub(self._mend, data)

    def _mend(self, each: re.Match[bytes]) -> bytes:
        if each["cut"] is not None:
            self.rest = each["cut"]
            return b""
        return rb"\ufffd" if each["lone"] else each[0]


def load_line(line: bytes) -> JSON:
    """Decode a line of JSON, whose lone surrogates become U+FFFD.

    Raises:
        InvalidJSONError: the line is not JSON.
    """
    try:
        return serde.loads(line)
    except InvalidJSONError:
        mended = mend_escapes(line)
        if mended == line:
            raise
    return serde.loads(mended)
