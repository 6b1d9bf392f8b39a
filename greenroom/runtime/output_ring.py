"""The output of an agent: a ring of chunks, and its readers.

Theory of operation
===================

There is one writer, the agent, and any number of readers, and the writer waits for none of them.
Chunks are numbered from 0 over all lives of the agent; the epoch tells these numbers from those of
the agents that had the session before and will have it after. The ring keeps the newest ones,
within a bound by count and one by bytes, and forgets the oldest; a reader is only the number of the
chunk that it reads next. So a reader that never reads costs nothing. One that falls behind gets
`Lagged` once, with the number of chunks that it missed, and goes on at the oldest that is left.
Whatever it may have missed (the state, open requests, the text so far) can be asked of the handle.

`Output.publish` handles a chunk in one step, without a checkpoint, so no cancel can fall into it:
the chunk, which is frozen, is counted, put into the ring, and noted (open tools, text so far). Then
the parent publishes it, wrapped as `SubAgentOutput`
(`subagents.forward_to`), and so on up to the root. A tree of depth n stores it n times. Waiting
readers are woken, and read when they run.

After `Exited` the ring is closed: readers read what is left and end, and publishing raises. A crash
leaves tools open; `close_tools` gives each its `ToolEnd`, at the end of the turn or of the life.
"""

import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import islice
from types import TracebackType
from typing import Literal, Protocol, Self, TypeAlias, TypeVar

import msgspec
import trio

from greenroom.core import (
    Custom,
    Exited,
    Lagged,
    OutputChunk,
    StateChange,
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
)
from greenroom.core._internal import Hook, serde

T = TypeVar("T")


class PartialText:
    """The last characters of an unfinished text."""

    __slots__ = ("_length", "_limit", "_parts")

    def __init__(self, limit: int) -> None:
        """Keep the last `limit` characters."""
        self._limit = limit
        self._parts: deque[str] = deque()
        self._length = 0

    def add(self, text: str) -> None:
        """Append a delta; the oldest ones go when the rest is long enough."""
        text = text[-self._limit :]
        parts = self._parts
        parts.append(text)
        self._length += len(text)
        while self._length - len(parts[0]) >= self._limit:
            self._length -= len(parts.popleft())

    def __str__(self) -> str:
        return "".join(self._parts)[-self._limit :]


_OVERHEAD = 100  # bytes of a small struct and its place in the ring, measured on CPython 3.11


class OutputRing:
    """The newest chunks of one agent, by their sequence numbers."""

    def __init__(self, max_chunks: int, max_bytes: int) -> None:
        self._max_chunks = max_chunks
        self._max_bytes = max_bytes
        self.chunks: dict[int, OutputChunk] = {}
        """What it has, by sequence number; only it writes here."""
        self._sizes: dict[int, int] = {}
        self.lot: trio.lowlevel.ParkingLot | None = None
        """Where readers wait, once one has."""
        self.bytes = 0
        """The estimated size of what it has."""
        self.first = 0
        """The oldest sequence number that it still has."""
        self.next = 0
        """The sequence number of the next chunk."""
        self.turn = 0
        """Where the open turn, else the last one, began."""
        self.closed = False
        """Whether the last chunk has been published."""

    def append(self, chunk: OutputChunk) -> None:
        """Append a chunk, and forget the oldest ones beyond the bounds; `lot` is to be woken then.

        The newest chunk is always kept, even if it alone is beyond the bound in bytes.

        Raises:
            InvalidJSONError: the chunk holds something that can't be written as JSON.
        """
        seq, size = self.next, _estimate_size(chunk)
        self.chunks[seq] = chunk
        if size != _OVERHEAD:  # as that of the chunks without a text is
            self._sizes[seq] = size
        self.bytes += size
        self.next = seq + 1
        while seq - self.first >= self._max_chunks or (
            self.bytes > self._max_bytes and seq > self.first
        ):
            del self.chunks[self.first]
            self.bytes -= self._sizes.pop(self.first, _OVERHEAD)
            self.first += 1

    def close(self) -> None:
        """Publish nothing more; readers end when they have read what is left."""
        self.closed = True
        if self.lot is not None:
            self.lot.unpark_all()

    def slice(self, start: int, stop: int) -> list[OutputChunk]:
        """Return the chunks from one sequence number up to another one; it must have them."""
        behind = self.next - stop
        if behind < stop - start:  # most readers are close to the end, which is found faster
            return [*islice(reversed(self.chunks.values()), behind, self.next - start)][::-1]
        return list(map(self.chunks.__getitem__, range(start, stop)))

    def __len__(self) -> int:
        return self.next - self.first

    def __iter__(self) -> Iterator[OutputChunk]:
        return iter(tuple(self.chunks.values()))

    async def wait_for(self, seq: int) -> bool:
        """Wait until chunk `seq` is published; False when the ring is closed before it."""
        while seq >= self.next:
            if self.closed:
                return False
            if self.lot is None:
                self.lot = trio.lowlevel.ParkingLot()
            await self.lot.park()
        return True


def _estimate_size(chunk: OutputChunk) -> int:
    if type(chunk) is TextDelta or type(chunk) is ThinkingDelta:
        text = chunk.text
    elif type(chunk) is StateChange:
        text = chunk.state.detail
    elif type(chunk) is Exited:
        text = chunk.error
    elif type(chunk) is ToolProgress:
        text = chunk.output
    elif type(chunk) is SubAgentOutput:
        return _OVERHEAD + _estimate_size(chunk.chunk)
    else:
        return _OVERHEAD + len(serde.encode(chunk))
    # An upper bound, without encoding the text.
    return _OVERHEAD + (len(text) if text.isascii() else 4 * len(text))


_PROGRESS = 10_000
"""Characters that are kept of the progress of an unfinished call; its newest ones."""


_NOTED: frozenset[type] = frozenset(
    {TextComplete, TurnStart, ToolStart, ToolProgress, ToolEnd, Custom, UsageReport}
)
"""The chunks that change more than the ring, beside the text so far."""


class _OpenTool(msgspec.Struct):
    """A tool that was started, when, by trio's clock, and the end of what it has shown since."""

    name: str
    since: float
    progress: PartialText | None = None


class _Agent(Protocol):
    """What its output needs of an agent."""

    def refuse_if_ended(self) -> None:
        """Raise `AgentNotRunningError` if it has ended."""

    def count_usage(self, usage: Usage) -> None:
        """Count what a model call has used for the open turn and the budgets."""

    def notify(self, hook: Hook, *details: object) -> None:
        """Tell the instruments."""


class Output:
    """The output of one agent. A chunk also goes, wrapped, into that of the agents above."""

    __slots__ = (
        "_above",
        "_agent",
        "_epoch",
        "_forward",
        "_hooks",
        "_opened",
        "_partial",
        "_text",
        "_unopened",
        "open_tools",
        "readers",
        "ring",
        "tree_usage",
        "usage",
    )

    def __init__(
        self,
        agent: _Agent,
        above: "Output | None",
        forward: Callable[[OutputChunk], None] | None,
        ring: OutputRing,
        text: int,
        hooks: Mapping[Hook, Sequence[object]],
    ) -> None:
        """Start empty, below the output of the parent.

        `forward` shows each chunk in the parent's output, for a subagent; `text` characters of an
        open reply are kept beside the ring; `hooks` tells which hooks the instruments have now.
        """
        self._agent = agent
        self._hooks = hooks
        self._above = above
        self._forward = forward
        self.ring = ring
        self._unopened = self._opened = self._epoch = 0
        self.readers: dict[Subscription, None] = {}
        self._text = text
        self._partial: PartialText | None = None  # where nothing is being written: most of the time
        self.usage = Usage()
        self.tree_usage = Usage()
        """The use of this agent and of all below it, including those that have ended."""
        self.open_tools: dict[str, _OpenTool] = {}
        """The tools that were started and have not ended, by tool-use id."""

    @property
    def epoch(self) -> int:
        """The first number of a position: a random one, and from `begin_epoch` on the session's."""
        if not self._epoch:  # below the milliseconds that epochs are counted in
            self._epoch = self._unopened = secrets.randbits(40) | 1
        return self._epoch

    @property
    def partial(self) -> str:
        """The end of the reply that is being written."""
        return "" if self._partial is None else str(self._partial)

    def clear_partial(self) -> None:
        """The reply is complete, or given up."""
        self._partial = None

    def begin_epoch(self, epoch: int) -> None:
        """Take over the epoch of the session's lock, or of a restart under it."""
        self._opened = self._opened or epoch
        self._epoch = epoch

    def knows_epoch(self, epoch: int) -> bool:
        """Whether positions of this epoch count the chunks of this ring.

        While the lock is held, nobody else gets an epoch of this session.
        """
        return 0 < epoch == self._unopened or 0 < self._opened <= epoch <= self._epoch

    def publish(self, *chunks: OutputChunk) -> None:
        """Put chunks into the ring, and wrapped into the rings of the agents above.

        Raises:
            AgentNotRunningError: the agent has ended, and `Exited` was its last chunk.
        """
        ring, hooks = self.ring, self._hooks["on_chunk"]
        if ring.closed:
            self._agent.refuse_if_ended()
        try:
            # By `type`: each chunk comes through here, and `isinstance` is slow where it finds no
            # match.
            for each in chunks:
                chunk = each
                if type(chunk) is TextDelta:
                    ring.append(chunk)
                    if self._partial is None:
                        self._partial = PartialText(self._text)
                    self._partial.add(chunk.text)
                elif type(chunk) in _NOTED:
                    chunk = self._complete(chunk)
                    ring.append(chunk)
                    self._note(chunk)
                else:
                    ring.append(chunk)
                if hooks and type(chunk) is not SubAgentOutput:
                    self._agent.notify("on_chunk", chunk)
                if self._forward is not None:
                    self._forward(chunk)
        finally:
            if ring.lot:
                ring.lot.unpark_all()  # once, for as many as came at once

    def _complete(self, chunk: OutputChunk) -> OutputChunk:
        if type(chunk) is Custom:  # as JSON, which its data may not be
            return serde.decode(serde.encode(chunk), Custom)
        return self._count(chunk) if type(chunk) is UsageReport else chunk

    def open_tool_labels(self) -> list[str]:
        """Name the open calls, for people."""
        return [self.tool_label(tool_use_id) for tool_use_id in self.open_tools]

    def tool_label(self, tool_use_id: str) -> str:
        """Name a call for people; empty without a call."""
        if not tool_use_id:
            return ""
        tool = self.open_tools.get(tool_use_id)
        return f"call {tool_use_id}" if tool is None else f"tool {tool.name} ({tool_use_id})"

    def close_tools(self) -> dict[str, str]:
        """Publish the end of the calls that were cut off; return their progress, by tool-use id."""
        if not self.open_tools:
            return {}
        progress = {
            key: str(tool.progress) for key, tool in self.open_tools.items() if tool.progress
        }
        for tool_use_id in tuple(self.open_tools):
            text = "\n".join(filter(None, [progress.get(tool_use_id), "interrupted"]))
            result = ToolResult.error(text, ToolStatus.INTERRUPTED, error_message="interrupted")
            self.publish(ToolEnd(tool_use_id, result, is_error=True))
        return progress

    def _note(self, chunk: OutputChunk) -> None:
        match chunk:
            case ToolStart(id=tool_use_id, name=name):
                self.open_tools[tool_use_id] = _OpenTool(name, trio.current_time())
            case ToolEnd(id=tool_use_id):
                self.open_tools.pop(tool_use_id, None)
            case ToolProgress(id=tool_use_id, output=text) if tool_use_id in self.open_tools:
                tool = self.open_tools[tool_use_id]
                tool.progress = tool.progress or PartialText(_PROGRESS)
                tool.progress.add(text)
            case TextComplete() | Custom(kind="reply.restarted"):
                self.clear_partial()
            case TurnStart():
                self.ring.turn = self.ring.next - 1
            case _:
                pass

    def _count(self, report: UsageReport) -> UsageReport:
        self.usage += report.usage
        each: Output | None = self
        while each is not None:
            each.tree_usage += report.usage
            each = each._above
        self._agent.count_usage(report.usage)
        return UsageReport(report.usage, self.usage, report.model)


Position: TypeAlias = tuple[int, int]
"""A place in an agent's output: the epoch, which begins with that of the session's lock and rises
with each restart, and the sequence number, which goes on over restarts."""

Replay: TypeAlias = Literal["none", "turn", "all"] | Position
"""Where a reader begins: at what comes next, at the open turn (else the last one), at the oldest
chunk that the ring still has, or at a position."""

_YIELD_EVERY = 64
_check_cancel = trio.lowlevel.checkpoint_if_cancelled


class Attendance(Protocol):
    """Counts the readers that answer permission requests."""

    def add_answerer(self) -> None:
        """Register one."""

    def remove_answerer(self) -> None:
        """Take one back."""


class ReaderHooks(msgspec.Struct, frozen=True):
    """How a reader may wait for an agent's output.

    Attributes:
        check_loop: raises `EventLoopError` if the caller is in another thread or loop.
        pause: makes the block in which to wait for a chunk; None if none is needed.
    """

    check_loop: Callable[[str], None]
    pause: Callable[[], AbstractAsyncContextManager[object] | None]


class SubscriptionStatistics(msgspec.Struct, frozen=True):
    """A look at one reader of an agent's output.

    Attributes:
        position: the epoch, and the sequence number of the chunk that it reads next.
        lag: chunks that are published and that it has not read, those that it has lost included.
        missed: chunks that were forgotten before it read them, as far as `Lagged` has said.
    """

    position: tuple[int, int]
    lag: int
    missed: int


class Subscription:
    """An iterator over an agent's chunks, in order, each once.

    Leave it with its `async with` block. A reader that falls behind the ring gets `Lagged` with the
    number of chunks that are gone for it, and goes on; everything that it may have missed (state,
    open requests, text so far) can be asked of the handle. So does one whose position is of another
    epoch, from before this agent was spawned; nobody knows then how many it missed.

    Example:
        ```python
        async with handle.subscribe() as chunks:
            async for chunk in chunks:
                print(chunk)
        ```
    """

    def __init__(
        self,
        output: Output,
        replay: Replay,
        hooks: ReaderHooks,
        attendance: Attendance | None = None,
    ) -> None:
        """Made by `AgentHandle.subscribe`; it reads from this moment on."""
        self._output = output
        self._hooks = hooks
        self._ring = output.ring
        self._lost: Position | None = None  # a position of another epoch, until it is told so
        self._cursor = self._find_start(replay)
        self._attendance = attendance
        self._reads = 0
        self._is_read = False
        self._missed = 0

    def _find_start(self, replay: Replay) -> int:
        ring = self._ring
        if replay == "none":
            start = ring.next
        elif replay == "turn":
            start = ring.turn
        elif replay == "all":
            start = ring.first
        else:
            epoch, seq = _check_position(replay)
            is_known = self._output.knows_epoch(epoch)
            self._lost = None if is_known else (epoch, seq)
            start = min(max(seq, 0), ring.next) if is_known else ring.first
        # A reader that comes after the end still learns how the agent ended.
        return min(start, ring.next - 1) if ring.closed else start

    @property
    def position(self) -> Position:
        """The place of the next chunk; `subscribe(replay=position)` goes on from there."""
        return self._lost or (self._output.epoch, self._cursor)

    @property
    def lag(self) -> int:
        """How many published chunks this reader has not read."""
        return self._ring.next - self._cursor

    def statistics(self) -> SubscriptionStatistics:
        """Return figures about this reader."""
        return SubscriptionStatistics(self.position, self.lag, self._missed)

    async def __aenter__(self) -> Self:
        self._hooks.check_loop("subscribe()")
        self._output.readers[self] = None
        if self._attendance is not None:
            self._attendance.add_answerer()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._output.readers.pop(self, None)
        if self._attendance is not None:
            self._attendance.remove_answerer()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> OutputChunk:
        if self._is_read:
            raise trio.BusyResourceError(
                "another task reads this subscription: call handle.subscribe() once for each reader"
            )
        self._reads += 1
        if self._reads < _YIELD_EVERY:
            await _check_cancel()
        else:
            self._reads = 0
            await self._wait(trio.lowlevel.checkpoint)
        if self._lost is not None:
            self._lost = None
            return Lagged(None)
        # Each reader takes each chunk: no call and no look more than needed.
        ring, cursor = self._ring, self._cursor
        chunk = ring.chunks.get(cursor)
        if chunk is None:
            if cursor >= ring.next and not await self._wait(self._wait_more):
                raise StopAsyncIteration
            if cursor < ring.first:
                return self._skip()
            chunk = ring.chunks[cursor]
        self._cursor = cursor + 1
        return chunk

    async def _wait(self, wait: Callable[[], Awaitable[T]]) -> T:
        """Wait, while no other task may read."""
        self._is_read = True
        try:
            return await wait()
        finally:
            self._is_read = False

    async def take(self, most: int = 256) -> list[OutputChunk]:
        """Wait for the next chunk, and return it with those that are published behind it.

        They are the same as one by one; a cancel loses none.

        Args:
            most: return at most so many, 1 or more.

        Returns:
            The chunks; an empty list after the end.
        """
        if most < 1:
            raise ValueError(f"most is {most}: take 1 or more")
        try:
            first = await self.__anext__()
        except StopAsyncIteration:
            return []
        if self._cursor < self._ring.first:  # after a `Lagged` for another epoch
            return [first]
        start, self._cursor = self._cursor, min(self._cursor + most - 1, self._ring.next)
        self._reads += self._cursor - start
        return [first, *self._ring.slice(start, self._cursor)]

    def _skip(self) -> Lagged:
        """Go on at the oldest chunk that is left."""
        missed = self._ring.first - self._cursor
        self._cursor = self._ring.first
        self._missed += missed
        return Lagged(missed)

    async def _wait_more(self) -> bool:
        ring = self._ring
        if not ring.closed:  # else there is nothing to wait for, in whichever loop
            self._hooks.check_loop("subscribe()")
        pause = self._hooks.pause()
        if pause is None:
            return await ring.wait_for(self._cursor)
        async with pause:
            return await ring.wait_for(self._cursor)


def _check_position(replay: object) -> Position:
    match replay:
        case (int(epoch), int(seq)):
            return epoch, seq
        case _:
            raise ValueError(
                f"replay is 'none', 'turn', 'all' or a Subscription.position, not {replay!r}"
            )
