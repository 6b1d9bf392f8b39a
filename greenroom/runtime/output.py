"""The output of an agent: a ring of chunks, what is kept beside it for those who come late, and its readers."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

import trio

from greenroom.core import (
    Custom,
    Done,
    Exited,
    Lagged,
    OutputChunk,
    PermissionRequest,
    SubAgentOutput,
    TextComplete,
    TextDelta,
    ThinkingDelta,
    ToolEnd,
    ToolProgress,
    ToolResult,
    ToolStart,
    ToolStatus,
    TurnStart,
    Usage,
    UsageReport,
    serde,
)
from greenroom.runtime.calls import Pause, Wait, current_slot
from greenroom.runtime.introspection import SubscriptionStatistics
from greenroom.runtime.outcome import Receipt
from greenroom.runtime.task_tree import is_inside, require_loop

if TYPE_CHECKING:
    from greenroom.runtime.actor import Actor
    from greenroom.runtime.turn import Turn


# -- the text so far of an open reply, for a reader that comes late ----------------------------------


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


# -- the ring: one writer, any number of readers, nobody waits for a reader --------------------------
#
# Chunks are numbered from 0. The ring keeps the newest ones within its bounds; a reader is a cursor,
# so a reader that never reads costs nothing, and one that comes back late is told how many are gone.

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


_PROGRESS = 10_000
"""Characters that are kept of what an unfinished call tells; its newest ones."""


@dataclass(frozen=True)
class _ToolInHand:
    """A tool that was started, and when, by trio's clock."""

    name: str
    since: float


class Output:
    """The output of one agent. A chunk also goes, wrapped, into that of the agents above."""

    def __init__(self, actor: "Actor") -> None:
        """Start with nothing told."""
        limits = actor.limits
        self._actor = actor
        self.ring = OutputRing(limits.ring_chunks, limits.ring_bytes)
        self.partial = PartialText(limits.partial_text)
        self.usage = Usage()
        self.tree_usage = Usage()
        """What this agent and all below it have used, those that have ended included."""
        self.open_tools: dict[str, _ToolInHand] = {}
        """The tools that were started and have not ended, by tool-use id."""
        self._progress: dict[str, PartialText] = {}

    def publish(self, chunk: OutputChunk) -> None:
        """Put a chunk into the ring, and wrapped into the rings of the agents above.

        Raises:
            AgentNotRunningError: the agent has ended, and `Exited` was its last chunk.
        """
        if self.ring.closed:
            self._actor.refuse_if_ended()
        if isinstance(chunk, ToolStart | PermissionRequest | Custom):
            # What readers do to the input must not reach the call that is about to run, nor what
            # the agent does to its data the readers.
            chunk = serde.decode(serde.encode(chunk), type(chunk))
        if isinstance(chunk, UsageReport):
            chunk = self._count(chunk)
        self.ring.publish(chunk)
        self._note(chunk)
        if self._actor.parent is not None:
            wrapped = SubAgentOutput(self._actor.session.session_id, chunk)
            self._actor.parent.output.publish(wrapped)

    def open_tool_labels(self) -> list[str]:
        """Name the open calls, for people."""
        return [self.tool_label(tool_use_id) for tool_use_id in self.open_tools]

    def tool_label(self, tool_use_id: str) -> str:
        """Name a call for people; empty where there is none."""
        if not tool_use_id:
            return ""
        tool = self.open_tools.get(tool_use_id)
        return f"call {tool_use_id}" if tool is None else f"tool {tool.name} ({tool_use_id})"

    def close_tools(self) -> dict[str, str]:
        """Say of the calls that were cut off that they have ended; return what they had told."""
        told = {key: str(text) for key, text in self._progress.items()}
        for tool_use_id in tuple(self.open_tools):
            text = "\n".join(filter(None, [told.get(tool_use_id), "interrupted"]))
            result = ToolResult.error(text, ToolStatus.INTERRUPTED, error_message="interrupted")
            self.publish(ToolEnd(tool_use_id, result, is_error=True))
        return told

    def _note(self, chunk: OutputChunk) -> None:
        match chunk:
            case TextDelta(text=text):
                self.partial.add(text)
            case TextComplete() | Custom(kind="reply.restarted"):
                self.partial.clear()
            case TurnStart():
                self.ring.turn = self.ring.next - 1
            case ToolStart(id=tool_use_id, name=name):
                self.open_tools[tool_use_id] = _ToolInHand(name, trio.current_time())
            case ToolProgress(id=tool_use_id, output=text) if tool_use_id in self.open_tools:
                self._progress.setdefault(tool_use_id, PartialText(_PROGRESS)).add(text)
            case ToolEnd(id=tool_use_id):
                self.open_tools.pop(tool_use_id, None)
                self._progress.pop(tool_use_id, None)
            case _:
                pass

    def _count(self, report: UsageReport) -> UsageReport:
        self.usage += report.usage
        if self._actor.turns.current is not None:
            self._actor.turns.current.usage += report.usage
        for actor in (self._actor, *self._actor.ancestors()):
            actor.output.tree_usage += report.usage
        self._actor.budgets.count(report.usage)
        return UsageReport(report.usage, self.usage, report.model)


# -- its readers: a subscription, and the stream of one turn -----------------------------------------

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
