"""Progress: a turn in which the same call comes again and again, or no call can run, is ended."""

from msgspec.structs import replace

from greenroom.core import NoProgressError, TextBlock, ToolResult, ToolUseBlock

_WARN_AT, _END_AT = 2, 5
"""So many times the same call with the same result, and no other between."""

_FAILURES = 3
"""So many calls in a row that could not run."""


class Progress:
    """Looks at the results of one turn's calls, in the order in which they come."""

    def __init__(self) -> None:
        """Begin without any."""
        self._last: tuple[str, object, object] | None = None
        self._same = 0
        self._failed = 0
        # How many of either the model has seen, as it has those of the replies before.
        self._seen_same = 0
        self._seen_failed = 0

    def note(self, call: ToolUseBlock, result: ToolResult) -> ToolResult:
        """Take a result into account; where the call is the same as before, it says so."""
        this = (call.name, call.raw_input if call.invalid else call.input, result.content)
        if this == self._last:
            self._same += 1
        else:
            self._last, self._same, self._seen_same = this, 1, 0
        if result.could_run:
            self._failed = self._seen_failed = 0
        else:
            self._failed += 1
        if self._same < _WARN_AT:
            return result
        note = TextBlock(
            f"[This is call {self._same} of the same kind in a row, and its result is the same as"
            " before. Do something else, or say what stands in the way.]"
        )
        return replace(result, content=(*result.content, note))

    @property
    def warning(self) -> str:
        """What to say of the last call: that it is the one before once more; empty where it is not."""
        name = self._last[0] if self._last else ""
        return f"{name} was called {self._same} times in a row" if self._same >= _WARN_AT else ""

    def check(self) -> None:
        """End the turn if it leads nowhere; called after the calls of each reply.

        The calls of a single reply are no reason: the model has not seen yet what came of them.

        Raises:
            NoProgressError: it does.
        """
        name = self._last[0] if self._last else ""
        if self._same >= _END_AT and self._seen_same:
            raise NoProgressError(
                f"{name} was called {self._same} times in a row, with the same input and result",
                hint="say in the instructions when the work is done, or give another tool",
            )
        if self._failed >= _FAILURES and self._seen_failed:
            raise NoProgressError(
                f"{self._failed} calls in a row could not run, the last one of {name}",
                hint="result.messages has their errors; result.denials says what was not allowed",
            )
        self._seen_same, self._seen_failed = self._same, self._failed
