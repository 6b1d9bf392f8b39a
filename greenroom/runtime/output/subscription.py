"""Readers of an agent's output: a subscription, and the stream of one turn."""

from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

import trio

from greenroom.core import Done, Exited, Lagged, OutputChunk, TurnStart
from greenroom.runtime.budgets.tool_slot import Pause, current_slot
from greenroom.runtime.caller import is_inside, require_loop
from greenroom.runtime.introspection.statistics import SubscriptionStatistics
from greenroom.runtime.outcome import Receipt
from greenroom.runtime.waiting import Wait

if TYPE_CHECKING:
    from greenroom.runtime.actor import Actor
    from greenroom.runtime.turns.turn import Turn

Position: TypeAlias = tuple[int, int]
"""A place in an agent's output: the epoch, which a restart raises, and the sequence number, which
goes on over restarts."""

Replay: TypeAlias = Literal["none", "turn", "all"] | Position
"""Where a reader begins: at what comes next, at the turn in hand (else the last one), at the oldest
chunk that is still held, or at a position."""

_YIELD_EVERY = 64


class Subscription:
    """An iterator over an agent's chunks, in order, each once.

    Leave it with its `async with` block. A reader that falls behind the ring gets `Lagged` with the
    number of chunks that are gone for it, and goes on; everything that it may have missed (state,
    open requests, text so far) can be asked of the handle.

    Example:
        ```python
        async with handle.subscribe() as chunks:
            async for chunk in chunks:
                print(chunk)
        ```
    """

    def __init__(self, actor: "Actor", replay: Replay, *, answers: bool) -> None:
        """Made by `AgentHandle.subscribe`; the cursor stands from this moment."""
        self._actor = actor
        self._ring = actor.output.ring
        self._cursor = self._start(replay)
        self._answers = answers
        self._reads = 0
        self._is_read = False
        self._missed = 0

    def _start(self, replay: Replay) -> int:
        ring = self._ring
        if replay == "none":
            start = ring.next
        elif replay == "turn":
            start = ring.turn
        elif replay == "all":
            start = ring.first
        else:
            epoch, seq = _position(replay)
            start = min(max(seq, 0), ring.next) if epoch <= self._actor.epoch else ring.first
        # Whoever comes after the end still learns how the agent ended.
        return min(start, ring.next - 1) if ring.closed else start

    @property
    def position(self) -> Position:
        """The place of the next chunk; `subscribe(replay=position)` goes on from there."""
        return (self._actor.epoch, self._cursor)

    @property
    def lag(self) -> int:
        """How many published chunks this reader has not read."""
        return self._ring.next - self._cursor

    def statistics(self) -> SubscriptionStatistics:
        """Return figures about this reader."""
        return SubscriptionStatistics(self.position, self.lag, self._missed)

    async def __aenter__(self) -> Self:
        require_loop(self._actor.runtime, "subscribe()")
        self._actor.subscriptions.add(self)
        if self._answers:
            self._actor.approvals.answerer_came()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._actor.subscriptions.discard(self)
        if self._answers:
            self._actor.approvals.answerer_left()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> OutputChunk:
        if self._is_read:
            raise trio.BusyResourceError(
                "another task reads this subscription: call handle.subscribe() once for each reader"
            )
        self._is_read = True
        try:
            self._reads += 1
            if self._reads % _YIELD_EVERY == 0:
                await trio.lowlevel.checkpoint()
            else:
                await trio.lowlevel.checkpoint_if_cancelled()
            if self._cursor >= self._ring.next and not await self._wait_more():
                raise StopAsyncIteration
        finally:
            self._is_read = False
        return self._take()

    def _take(self) -> OutputChunk:
        if self._cursor < self._ring.first:
            missed = self._ring.first - self._cursor
            self._cursor = self._ring.first
            self._missed += missed
            return Lagged(missed)
        chunk = self._ring[self._cursor]
        self._cursor += 1
        return chunk

    async def _wait_more(self) -> bool:
        ring = self._ring
        if not ring.closed:  # else there is nothing to wait for, in whichever loop
            require_loop(self._actor.runtime, "subscribe()")
        if current_slot() is None:
            return await ring.more(self._cursor)
        # An agent may read what other tasks of its own have to tell: that is not to wait for its end.
        async with Pause() if is_inside(self._actor) else Wait(self._actor, "subscribe"):
            return await ring.more(self._cursor)


def _position(replay: object) -> Position:
    match replay:
        case (int(epoch), int(seq)):
            return epoch, seq
        case _:
            raise ValueError(
                f"replay is 'none', 'turn', 'all' or a Subscription.position, not {replay!r}"
            )


class TurnStream:
    """An iterator over the chunks of one turn, from its `TurnStart` to its `Done` or `Exited`."""

    def __init__(self, actor: "Actor", receipt: Receipt | None) -> None:
        """Made by `AgentHandle.stream`; the cursor stands from this moment."""
        self._wanted = receipt.input_id if receipt else None
        # Which turn it is: the one of this input; without an input the one in hand, else the next.
        self._turn = _find(actor, receipt)
        self._id = self._turn.message.id if self._turn else self._wanted
        # The newest turn can be read although its beginning may be gone.
        self._begun = self._turn is not None and self._turn is (
            actor.turns.current or actor.turns.last
        )
        self._over = self._turn is None and receipt is not None and not _is_known(actor, receipt)
        replay: Replay = "turn" if self._begun else "all" if receipt else "none"
        self._chunks = Subscription(actor, replay, answers=False)

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
            if self._turn is None or self._wanted is None or self._wanted in self._turn.inputs:
                self._over = True
            else:
                # The turn that the input was to join ended without it: it gets its own.
                self._id, self._begun, self._turn = self._wanted, False, None
            return True
        return self._begun


def _find(actor: "Actor", receipt: Receipt | None) -> "Turn | None":
    if receipt is None:
        return actor.turns.current
    for turn in (actor.turns.current, actor.turns.last):
        if turn is not None and receipt.input_id in turn.inputs:
            return turn
    joins = receipt.status == "steered" and receipt.input_id in actor.mailbox
    return actor.turns.current if joins else None


def _is_known(actor: "Actor", receipt: Receipt) -> bool:
    """Whether the turn of this input is yet to come, or its end can still be read."""
    input_id = receipt.input_id
    if actor.turns.find(input_id) is not None or input_id in actor.mailbox:
        return True
    ends = (chunk for chunk in actor.output.ring if isinstance(chunk, Done))
    return any(end.input_id == input_id for end in ends)
