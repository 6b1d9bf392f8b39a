"""The body of an answer, in the pieces in which it comes."""

import math
import zlib
from typing import Protocol

import trio

from greenroom.core import NetworkError
from greenroom.net.errors import read_timeout_error, total_timeout_error

ACCEPTED_ENCODING = "gzip"
"""The one compression that we ask for, and undo."""

_PIECE = 65_536
_BREATH = 64
_BREATH_SIZE = 8_192
"""Pieces and bytes between two checkpoints: most of a burst is there, and waits for nothing."""


class Body(Protocol):
    """The body of one answer, as it comes over a connection."""

    async def read(self, deadline: float) -> bytes:
        """Return the next piece; nothing at the end.

        Raises:
            trio.TooSlowError: none came until the deadline, a moment of trio's clock.
            NetworkError: the connection broke before the end.
        """

    @property
    def is_complete(self) -> bool:
        """Whether all of it has come, as far as is known."""

    async def aclose(self) -> None:
        """Give up the rest."""


class ChunkIterator:
    """The body of one response, as pieces of at most 64 KiB in the order they came.

    It is an iterator object, not an async generator: left half read, it leaves nothing behind to be
    closed, since the response closes it.

    Attributes:
        timeout: seconds to wait for each next piece; it may be changed between two pieces.
    """

    def __init__(
        self,
        body: Body,
        host: str,
        encoding: str,
        timeout: float,
        deadline: float = math.inf,
    ) -> None:
        """Read a body, undo the encoding, and wait at most `timeout` seconds for each piece.

        It waits for none beyond the deadline, a moment of trio's clock.

        Raises:
            NetworkError: we did not ask for this encoding.
        """
        if encoding not in ("", "identity", ACCEPTED_ENCODING):
            raise NetworkError(f"{host}: the body is compressed in a way we did not ask for")
        self._body = body
        self._host = host
        self.timeout = timeout
        self._deadline = deadline
        self._inflater = _Inflater() if encoding == ACCEPTED_ENCODING else None
        self._reads = self._size = 0  # since the last checkpoint
        self._is_exhausted = False
        self._is_closed = False

    def __aiter__(self) -> "ChunkIterator":
        """Return the iterator itself: a body can be read once."""
        return self

    async def __anext__(self) -> bytes:
        """Return the next piece as soon as there is one; other tasks run in between.

        Raises:
            NetworkTimeoutError: no piece came in time.
            NetworkError: the connection broke before the end, or the compression is broken.
            trio.ClosedResourceError: the response has been left.
        """
        while True:
            if self._is_closed:
                raise trio.ClosedResourceError("the response has been closed")
            self._reads += 1
            # A few bytes may expand to any number of pieces, none of which waits for anything.
            if self._inflater or self._reads > _BREATH or self._size > _BREATH_SIZE:
                self._reads = self._size = 0
                await trio.lowlevel.checkpoint()
            piece = self._inflate(b"") if self._inflater else b""
            if piece:
                return piece
            data = await self._next_raw()
            self._size += len(data)
            piece = self._inflate(data) if self._inflater else data
            if piece:
                return piece

    @property
    def has_come(self) -> bool:
        """Whether the connection has nothing more of it, as far as is known."""
        return self._body.is_complete

    async def aclose(self) -> None:
        """Give up the rest of the body; the connection of a half-read body is closed."""
        self._is_closed = self._is_exhausted = True
        await self._body.aclose()

    async def _next_raw(self) -> bytes:
        if self._is_exhausted:
            raise StopAsyncIteration
        self._is_exhausted = True  # unless the read gives something
        limit = trio.current_time() + self.timeout
        try:
            data = await self._body.read(min(limit, self._deadline))
        except trio.TooSlowError:
            if limit > self._deadline:
                raise total_timeout_error(self._host) from None
            raise read_timeout_error(self._host, self.timeout) from None
        if data:
            self._is_exhausted = False
            return data
        if self._inflater and not self._inflater.is_complete:
            raise NetworkError(f"{self._host}: the compressed body is cut short")
        raise StopAsyncIteration

    def _inflate(self, data: bytes) -> bytes:
        assert self._inflater is not None
        try:
            return self._inflater.feed(data)
        except zlib.error as error:
            raise NetworkError(f"{self._host}: the body's compression is broken") from error


class _Inflater:
    """Undoes gzip in pieces of bounded size, however much a few bytes may expand to.

    A body is one gzip member or several (RFC 1952, section 2.2), and nothing else.
    """

    def __init__(self) -> None:
        self._member = _new_member()
        self._rest = b""  # what has come and was not read yet
        self._has_begun = False  # what answers HEAD never does

    @property
    def is_complete(self) -> bool:
        return not self._has_begun or (self._member.eof and not self._rest)

    def feed(self, data: bytes) -> bytes:
        self._has_begun = self._has_begun or bool(data)
        piece = self._read(self._rest + data)
        while not piece and self._member.eof and self._rest:
            piece = self._read(self._rest)
        return piece

    def _read(self, data: bytes) -> bytes:
        if self._member.eof and data:
            self._member = _new_member()
        piece = self._member.decompress(data, _PIECE)
        self._rest = self._member.unused_data or self._member.unconsumed_tail
        return piece


def _new_member() -> "zlib._Decompress":
    return zlib.decompressobj(zlib.MAX_WBITS | 16)
