"""The chunks of one turn, out of those of its agent."""

from collections.abc import Sequence
from typing import Protocol, Self

from greenroom.core import Done, Exited, OutputChunk, TurnStart
from greenroom.core._internal import ConversationInput
from greenroom.runtime.output_ring import Output, ReaderHooks, Replay, Subscription
from greenroom.runtime.results import Receipt


class _Turn(Protocol):
    @property
    def message(self) -> ConversationInput: ...
    @property
    def inputs(self) -> Sequence[str]: ...


class _Turns(Protocol):
    """What the stream of a turn needs to know of the agent's turns."""

    @property
    def current(self) -> _Turn | None: ...
    @property
    def last(self) -> _Turn | None: ...
    def find(self, input_id: str) -> _Turn | None: ...
    def is_queued(self, input_id: str) -> bool: ...


class TurnStream:
    """An iterator over the chunks of one turn, from its `TurnStart` to its `Done` or `Exited`."""

    def __init__(
        self, output: Output, turns: _Turns, receipt: Receipt | None, hooks: ReaderHooks
    ) -> None:
        """Made by `AgentHandle.stream`; it reads from this moment on."""
        self._input_id = receipt.input_id if receipt else None
        # Which turn it is: the one of this input; without an input the open one, else the next.
        self._turn = _find_turn(turns, receipt)
        self._id = self._turn.message.id if self._turn else self._input_id
        # The newest turn can be read although its beginning may be gone.
        self._begun = self._turn is not None and self._turn is (turns.current or turns.last)
        self._over = (
            self._turn is None and receipt is not None and not _is_known(output, turns, receipt)
        )
        replay: Replay = "turn" if self._begun else "all" if receipt else "none"
        self._chunks = Subscription(output, replay, hooks)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> OutputChunk:
        while not self._over:
            chunk = await self._chunks.__anext__()
            if self._belongs(chunk):
                return chunk
        raise StopAsyncIteration

    def _belongs(self, chunk: OutputChunk) -> bool:
        if isinstance(chunk, TurnStart) and self._id in {None, chunk.input_id}:
            self._id, self._begun = chunk.input_id, True
        if isinstance(chunk, Exited):
            self._over = True
            return True
        if isinstance(chunk, Done) and chunk.input_id == self._id:
            if self._turn is None or self._input_id is None or self._input_id in self._turn.inputs:
                self._over = True
            else:
                # The turn that the input was to join ended without it: it gets its own.
                self._id, self._begun, self._turn = self._input_id, False, None
            return True
        return self._begun


def _find_turn(turns: _Turns, receipt: Receipt | None) -> _Turn | None:
    if receipt is None:
        return turns.current
    for turn in (turns.current, turns.last):
        if turn is not None and receipt.input_id in turn.inputs:
            return turn
    joins = receipt.status == "steered" and turns.is_queued(receipt.input_id)
    return turns.current if joins else None


def _is_known(output: Output, turns: _Turns, receipt: Receipt) -> bool:
    """Whether the turn of this input is yet to come, or its end can still be read."""
    input_id = receipt.input_id
    if turns.find(input_id) is not None or turns.is_queued(input_id):
        return True
    ends = (chunk for chunk in output.ring if isinstance(chunk, Done))
    return any(end.input_id == input_id for end in ends)
