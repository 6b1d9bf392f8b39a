"""Lines of bytes as they come from a stream, each within a bound."""

import re
from collections.abc import Iterator

from greenroom.core._internal import InvalidJSONError, serde

MAX_MESSAGE = 16 << 20
"""Bytes of the longest message on a line; of a longer one nothing is kept."""

_EDGE = 4_096  # bytes of the head and the tail of a message that is too long
_ID = re.compile(rb'"id"\s*:\s*(\d{1,18}|"(?:[^"\\]|\\.){0,200}")')
_KIND = re.compile(rb'"(method|params|result|error)"\s*:')
_BODY = re.compile(rb'"(?:params|result|error)"\s*:')


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
        kind = _KIND.search(self._head)
        return kind is not None and kind[1] in (b"result", b"error")

    @property
    def skipped_id(self) -> int | str | None:
        """The id of the request that the last line that was too long was, or answered.

        It stands before the result or behind it, whichever the other side's library prefers.
        """
        first = _ID.search(_BODY.split(self._head, 1)[0])
        found = first or next(reversed(list(_ID.finditer(self._tail))), None)
        if found is None:
            return None
        try:
            value = serde.loads(found[1])
        except InvalidJSONError:  # nothing else of the message was checked
            return None
        return value if isinstance(value, int | str) else None
