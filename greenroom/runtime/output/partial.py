"""The text of the reply in hand, for a reader that comes late."""

from collections import deque


class PartialText:
    """The last characters of an unfinished text."""

    def __init__(self, limit: int) -> None:
        """Keep the last `limit` characters."""
        self._limit = limit
        self._parts: deque[str] = deque()
        self._length = 0

    def add(self, text: str) -> None:
        """Append a delta; the oldest ones go when the rest is long enough."""
        text = text[-self._limit :]
        self._parts.append(text)
        self._length += len(text)
        while self._length - len(self._parts[0]) >= self._limit:
            self._length -= len(self._parts.popleft())

    def clear(self) -> None:
        """The text is complete, or given up."""
        self._parts.clear()
        self._length = 0

    def __str__(self) -> str:
        return "".join(self._parts)[-self._limit :]
