"""What the turns of an agent have answered, and who waits for the answer to an input."""

from collections.abc import Sequence
from typing import Self

import trio

from greenroom.core import Done, Message, StopReason, TurnStatus, Usage
from greenroom.runtime.results import TurnResult

MOST_KEPT = 100
"""How many inputs keep the results of their turns, the newest."""


def describe_turn(
    replies: Sequence[Message],
    status: TurnStatus,
    usage: Usage,
    given: TurnResult | None,
    *,
    error: str,
    value: object,
    kind: str,
) -> TurnResult:
    """Describe a turn with these replies, by the last of them; without one, by what was given."""
    text, stop_reason = "", None
    if replies:
        last = replies[-1]
        # Why a reply broke off with an error, the error says.
        broke_off = status is TurnStatus.FAILED and last.stop_reason is StopReason.INTERRUPTED
        text, stop_reason = last.text, None if broke_off else last.stop_reason
    elif given is not None:
        text, stop_reason, usage = given.text, given.stop_reason, given.usage
    return TurnResult(status, text, stop_reason, usage, error, value, kind)


def describe_end(inputs: Sequence[str], result: TurnResult) -> Done:
    """Make the chunk that says how a turn has ended, given its inputs, its own first."""
    return Done(
        inputs[0],
        result.status,
        result.stop_reason,
        result.usage,
        result.error,
        result.value,
        tuple(inputs),
    )


class Waiter:
    """What a task waits on in its block: the end of the turn that takes an input."""

    __slots__ = ("_input_id", "_waiting", "event", "result")

    def __init__(self, waiting: "dict[str, list[Waiter]]", input_id: str) -> None:
        """Made by `Answers.wait_for`, with all that wait."""
        self._waiting = waiting
        self._input_id = input_id
        self.event = trio.Event()
        self.result: TurnResult | None = None
        """Set with the event; None if no turn was opened for the input."""

    def __enter__(self) -> Self:
        self._waiting.setdefault(self._input_id, []).append(self)
        return self

    def __exit__(self, *_exit: object) -> None:
        waiting = self._waiting.get(self._input_id, [])
        if self in waiting:
            waiting.remove(self)
        if not waiting:
            self._waiting.pop(self._input_id, None)


class Answers:
    """The results of the last turns, by the ids of their inputs, and the tasks that wait."""

    __slots__ = ("_kept", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[str, list[Waiter]] = {}
        self._kept: dict[str, TurnResult] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def find(self, input_id: str) -> TurnResult | None:
        """Return the result of the turn that took this input, if that is kept."""
        return self._kept.get(input_id)

    def wait_for(self, input_id: str) -> Waiter:
        """Return the block in which to wait for the end of the turn that takes this input."""
        return Waiter(self._waiting, input_id)

    def give(self, input_ids: Sequence[str], result: TurnResult) -> None:
        """Keep the result of the turn that took these inputs, and wake those who wait for it."""
        for input_id in input_ids:
            self._kept.pop(input_id, None)
            self._kept[input_id] = result
            self._wake(input_id, result)
        while len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]

    def drop(self, input_id: str) -> None:
        """Wake those who wait for an input that was answered without a turn."""
        self._wake(input_id, None)

    def end(self) -> None:
        """Wake all who still wait: no turn follows."""
        for input_id in tuple(self._waiting):
            self._wake(input_id, None)

    def _wake(self, input_id: str, result: TurnResult | None) -> None:
        for waiter in self._waiting.pop(input_id, ()):
            waiter.result = result
            waiter.event.set()
