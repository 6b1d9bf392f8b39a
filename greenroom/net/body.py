"""Bodies: the pieces of a response, decompressed a bounded piece at a time."""

import math
import zlib
from collections.abc import AsyncIterator
from contextlib import suppress

import trio

from greenroom.core import NetworkError, NetworkTimeoutError
from greenroom.net.backend import httpx
from greenroom.net.errors import network_error, too_slow_in_total

ACCEPTED_ENCODING = "gzip"
"""The one compression that we ask for, and undo."""

_PIECE = 65_536
_BREATH = 64
"""Pieces between two checkpoints: of small pieces, most are there already and wait for nothing."""


class ChunkIterator:
    """The body of one response, as pieces of at most 64 KiB in the order they came.

    An iterator object and no async generator: leaving it half read leaves nothing behind that has
    to be closed, since the response closes it.

    Attributes:
        timeout: seconds to wait for each next piece; it may be changed between two pieces.
    """

    def __init__(
        self,
        raw: AsyncIterator[bytes],
        host: str,
        encoding: str,
        timeout: float,
        deadline: float = math.inf,
    ) -> None:
        """Read from `raw`, undo the encoding, and wait at most `timeout` seconds for each piece.

        None is awaited beyond the deadline, a moment of trio's clock.

        Raises:
            NetworkError: the encoding is one that we did not ask for.
        """
        if encoding not in ("", "identity", ACCEPTED_ENCODING):
            raise NetworkError(f"{host}: the body is compressed in a way we did not ask for")
        self._raw = raw
        self._host = host
        self.timeout = timeout
        self._deadline = deadline
        self._inflater = _Inflater() if encoding == ACCEPTED_ENCODING else None
        self._reads = 0
        self._reading = False
        self._ended = False
        self._closed = False

    def __aiter__(self) -> "ChunkIterator":
        """Return the iterator itself: a body can be read once."""
        return self

    async def __anext__(self) -> bytes:
        """Return the next piece, as soon as there is one; others run in between, however small.

        Raises:
            NetworkTimeoutError: no piece came in time.
            NetworkError: the connection broke before the end, or the compression is broken.
            trio.ClosedResourceError: the response has been left.
        """
        while True:
            if self._closed:
                raise trio.ClosedResourceError("the response has been closed")
            self._reads += 1
            # A few bytes may expand to any number of pieces, none of which waits for anything.
            if self._inflater or self._reads % _BREATH == 0:
                await trio.lowlevel.checkpoint()
            piece = self._inflated(b"") if self._inflater else b""
            if piece:
                return piece
            data = await self._next_raw()
            piece = self._inflated(data) if self._inflater else data
            if piece:
                return piece

    async def aclose(self) -> None:
        """Give up what is left of the body. The connection of a half-read body is closed."""
        self._closed = True
        if not self._reading or self._ended:
            return
        self._ended = True
        # The library's generators are nested, and closing the outermost would leave the inner ones
        # to the garbage collector. A cancel strikes the innermost, and unwinds them all.
        with trio.CancelScope() as scope, suppress(httpx.HTTPError, StopAsyncIteration):
            scope.cancel()
            while True:
                await self._raw.__anext__()

    async def _next_raw(self) -> bytes:
        if self._ended:
            raise StopAsyncIteration
        self._reading = True
        self._ended = True  # unless the read gives something
        limit = trio.current_time() + self.timeout
        try:
            with trio.CancelScope(deadline=min(limit, self._deadline)):
                data = await self._raw.__anext__()
                self._ended = False
                return data
        except httpx.HTTPError as error:
            raise network_error(error, self._host) from None
        except StopAsyncIteration:
            if self._inflater and not self._inflater.complete:
                raise NetworkError(f"{self._host}: the compressed body is cut short") from None
            raise
        if limit > self._deadline:
            raise too_slow_in_total(self._host)
        raise NetworkTimeoutError(
            f"{self._host}: nothing came for {self.timeout:g} seconds",
            phase="read",
            hint="the other side stalls; try again",
        )

    def _inflated(self, data: bytes) -> bytes:
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

    @property
    def complete(self) -> bool:
        return self._member.eof and not self._rest

    def feed(self, data: bytes) -> bytes:
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
