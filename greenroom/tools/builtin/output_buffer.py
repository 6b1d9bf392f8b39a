"""A bounded record of a command's output: its head, its tail, and how much is missing."""

import codecs
from collections import deque


class OutputBuffer:
    """Decodes bytes as they come, and keeps the first and the last part within a limit.

    A character is never split: one that is cut between two chunks waits for its rest. Bytes that are
    no UTF-8, and NUL, become U+FFFD.

    Example:
        >>> buffer = OutputBuffer(limit=8)
        >>> for chunk in ("🌱".encode()[:2], "🌱".encode()[2:], b"123456789"):
        ...     _ = buffer.feed(chunk)
        >>> print(buffer.text())
        🌱123
        … 2 characters left out …
        6789
    """

    def __init__(self, limit: int) -> None:
        """Keep at most `limit` characters, half of them from the end."""
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._head_room = limit - limit // 2
        self._tail_limit = limit // 2
        self._head: list[str] = []
        self._tail: deque[str] = deque()
        self._tail_size = 0
        self.characters = 0

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """Add output, and return the text that it completes."""
        text = self._decode(data, final).replace("\0", "\ufffd")
        self.characters += len(text)
        head, tail = text[: self._head_room], text[self._head_room :]
        if head:
            self._head.append(head)
            self._head_room -= len(head)
        if tail:
            self._tail.append(tail)
            self._tail_size += len(tail)
            while self._tail and self._tail_size - len(self._tail[0]) >= self._tail_limit:
                self._tail_size -= len(self._tail.popleft())
        return text

    def text(self) -> str:
        """Return the output; where some is missing, a line between head and tail says how much."""
        head, tail = "".join(self._head), "".join(self._tail)
        missing = self.characters - len(head) - self._tail_limit
        if missing <= 0:
            return head + tail
        return f"{head}\n… {missing} characters left out …\n{tail[-self._tail_limit :]}"
