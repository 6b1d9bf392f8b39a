"""The output ring: one writer, any number of readers, nobody waits for a reader.

Chunks are numbered from 0. The ring keeps the newest ones within its bounds; a reader is a cursor,
so a reader that never reads costs nothing, and one that comes back late is told how many are gone.
"""

from collections.abc import Iterator

import trio

from greenroom.core import (
    OutputChunk,
    SubAgentOutput,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
    serde,
)

_OVERHEAD = 100  # bytes of a small struct and its place in the ring, measured on CPython 3.11


class OutputRing:
    """The newest chunks of one agent, by their sequence numbers."""

    def __init__(self, max_chunks: int, max_bytes: int) -> None:
        """Start empty, with bounds by count and by estimated bytes."""
        self._max_chunks = max_chunks
        self._max_bytes = max_bytes
        self._chunks: dict[int, OutputChunk] = {}
        self._sizes: dict[int, int] = {}
        self._lot = trio.lowlevel.ParkingLot()
        self.bytes = 0
        """The estimated size of what is held."""
        self.first = 0
        """The oldest sequence number that is still held."""
        self.next = 0
        """The sequence number of the next chunk."""
        self.turn = 0
        """Where the turn in hand, else the last one, began."""
        self.closed = False
        """Whether the last chunk has been published."""

    def publish(self, chunk: OutputChunk) -> None:
        """Append a chunk, forget the oldest ones beyond the bounds, wake the readers.

        The newest chunk is always kept, also where it alone is beyond the bound in bytes.

        Raises:
            InvalidJSONError: the chunk holds something that can't be written as JSON.
        """
        size = _size(chunk)
        self._chunks[self.next] = chunk
        self._sizes[self.next] = size
        self.bytes += size
        self.next += 1
        while self.next - self.first > self._max_chunks or (
            self.bytes > self._max_bytes and self.next - self.first > 1
        ):
            del self._chunks[self.first]
            self.bytes -= self._sizes.pop(self.first)
            self.first += 1
        if self._lot:
            self._lot.unpark_all()

    def close(self) -> None:
        """Say that nothing follows; readers end when they have read what is held."""
        self.closed = True
        self._lot.unpark_all()

    def __getitem__(self, seq: int) -> OutputChunk:
        return self._chunks[seq]

    def __len__(self) -> int:
        return self.next - self.first

    def __iter__(self) -> Iterator[OutputChunk]:
        return iter(tuple(self._chunks.values()))

    async def more(self, seq: int) -> bool:
        """Wait until chunk `seq` is published; False when the ring is closed before it."""
        while seq >= self.next:
            if self.closed:
                return False
            await self._lot.park()
        return True


def _size(chunk: OutputChunk) -> int:
    if isinstance(chunk, (TextDelta, ThinkingDelta)):
        return _OVERHEAD + _weight(chunk.text)
    if isinstance(chunk, ToolProgress):
        return _OVERHEAD + _weight(chunk.output)
    if isinstance(chunk, SubAgentOutput):
        return _OVERHEAD + _size(chunk.chunk)
    return _OVERHEAD + len(serde.encode(chunk))


def _weight(text: str) -> int:
    """Say at the most how many bytes a text takes, without encoding it."""
    return len(text) if text.isascii() else 4 * len(text)
