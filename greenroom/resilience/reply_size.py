"""How many tokens to reserve for a reply before its length is known."""

from collections import deque

_FIRST = 4096
_REPLIES = 16


class ReplySize:
    """The largest of the last replies, as an estimate of the next one.

    Example:
        >>> size = ReplySize()
        >>> size.expected
        4096
        >>> for tokens in range(100, 120):
        ...     size.observe(tokens)
        >>> size.expected
        119
    """

    def __init__(self) -> None:
        self._replies = deque([_FIRST], maxlen=_REPLIES)

    @property
    def expected(self) -> int:
        """The tokens to reserve."""
        return max(self._replies)

    def observe(self, tokens: int) -> None:
        """Learn from the tokens of a reply."""
        self._replies.append(tokens)
