"""The mailbox: what an agent was sent and has not taken.

Theory of operation
===================

There are four places where something waits, independent of each other:

1. `_items`, the queue: input of the conversation, first in, first out. `limit` bounds what others
   send; what it hears of other agents (`put_result`) always finds room, since its senders are
   bounded elsewhere.
2. `_senders`: tasks that wait for room, each with its input, the longest wait first.
3. `_receivers`: tasks of the agent that wait for input. They wait only while the queue is empty, so
   an input that comes then is handed to one at once, and overtakes none.
4. The express lane: one flag for an interrupt, one for the shutdown. A full queue can't delay them,
   and they take no input's place.

The task that causes a move makes it at once, not the task that waits. A free place takes the input
of the first sender before that sender runs; had it only been woken, another could come first. An
input is handed to a waiting receiver before that receiver runs. From then on a shutdown can't take
it away, and an interrupt is meant for its turn; `on_take` tells the turns so in the same step.

A full mailbox makes `put` wait, and refuses `put_nowait`, unless that names an input to replace.
`refuse` (the shutdown) refuses both, and wakes the senders with that refusal; what is queued stays
unread, and `drain` hands it to the outcome. `close` also wakes the receivers.

A cancel may fall into `put` while it waits for room (its input was never queued) and into
`next_input` while the queue is empty (nothing was taken). Once an input is queued or handed over,
no cancel takes it back. A crash of the agent leaves the queue as it is; what a life had taken and
not begun is put back before all others (`put_back`).
"""

from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from typing import Protocol, Self, cast

import trio
from msgspec.structs import asdict, replace

from greenroom.core import (
    AgentExit,
    ContentBlock,
    Custom,
    Interrupt,
    MailboxFullError,
    Message,
    Resume,
    Shutdown,
    SubAgentResult,
    ToolError,
    ToolResult,
    ToolResultInput,
    TurnStart,
    UserInput,
)
from greenroom.core._internal import ConversationInput, as_blocks, clip, new_id, serde
from greenroom.runtime.errors import AgentNotRunningError

_LONGEST_ID = 128

_protect = trio.lowlevel.enable_ki_protection
"""Keeps a Ctrl-C out of a step in which a task or an input is on no list; it costs nothing."""


class _Turns(Protocol):
    """What a mailbox tells the turns of its agent."""

    def take(self, message: ConversationInput, task: trio.lowlevel.Task) -> None:
        """Note that a task takes an input."""

    def resume(self) -> Resume | None:
        """Return an input for a task that is about to wait, if there is one."""


class _Receiver:
    """A task that waits for input, and what it is handed; it leaves the line if it is cancelled."""

    __slots__ = ("_line", "message", "task")

    def __init__(self, line: "list[_Receiver]") -> None:
        self._line = line
        self.task = trio.lowlevel.current_task()
        self.message: ConversationInput | None = None

    def __call__(self, _: object) -> trio.lowlevel.Abort:
        self._line.remove(self)
        return trio.lowlevel.Abort.SUCCEEDED


class Mailbox:
    """The queue of one agent's input, who waits at its two ends, and the express lane beside it."""

    __slots__ = (
        "_came",
        "_has_given_shutdown",
        "_incoming",
        "_interrupted",
        "_items",
        "_limit",
        "_receivers",
        "_senders",
        "_turns",
        "closed",
    )

    def __init__(self, limit: int, turns: _Turns | None = None) -> None:
        """Start empty and open, with room for `limit` inputs; the turns learn what is taken."""
        self._limit = limit
        self._turns = turns
        self._items: list[ConversationInput] = []  # few, and a deque takes 760 bytes
        # When each of them came, by its id.
        self._came: dict[str, float] = {}
        self._receivers: list[_Receiver] = []  # who waits longest is first
        # Who waits for room, and with what; the first waits longest.
        self._senders: dict[trio.lowlevel.Task, UserInput] = {}
        # The ids of inputs that are on their way in, or wait for room.
        self._incoming: dict[str, None] = {}
        self._interrupted = False
        self._has_given_shutdown = False
        self.closed = False

    def __len__(self) -> int:
        return len(self._items)

    def count(self, kind: type[ConversationInput]) -> int:
        """Return how many inputs of a kind wait."""
        return sum(isinstance(item, kind) for item in self._items)

    def __contains__(self, input_id: object) -> bool:
        return input_id in self._incoming or any(item.id == input_id for item in self._items)

    def put_nowait(
        self, message: UserInput, instead_of: Callable[[UserInput], bool] = lambda _: False
    ) -> tuple[bool, str]:
        """Hand an input to the waiting agent (then True), or queue it.

        If there is no room, the oldest waiting input for which `instead_of` is true gives up its
        place; senders that wait for room go on waiting.

        Returns:
            Whether it was handed over; and the id of the input that is gone for it, or an empty
            text.

        Raises:
            MailboxFullError: the mailbox has no room.
            AgentNotRunningError: the mailbox is closed.
        """
        self._refuse_if_closed()
        if self.has_room:
            return self._push(message), ""
        waiting = (item for item in self._items if isinstance(item, UserInput))
        replaced = next(filter(instead_of, waiting), None)
        if replaced is None:
            raise MailboxFullError(
                f"the mailbox holds {self._limit} inputs that the agent has not taken",
                hint="use `await handle.send_input(...)`, which waits for room",
            )
        self._items.remove(replaced)
        self.end_wait(replaced)
        return self._push(message), replaced.id

    async def put(self, message: UserInput) -> bool:
        """Hand an input to the waiting agent (then True), or queue it when there is room.

        Who waits longest for room is first.

        Raises:
            AgentNotRunningError: the mailbox is closed, or was closed meanwhile.
        """
        self._incoming[message.id] = None
        try:
            await trio.lowlevel.checkpoint()
            self._refuse_if_closed()
            return self._push(message) if self.has_room else await self._wait_for_room(message)
        finally:
            self._incoming.pop(message.id, None)

    @_protect
    async def _wait_for_room(self, message: UserInput) -> bool:
        task = trio.lowlevel.current_task()
        self._senders[task] = message

        def give_up(_: object) -> trio.lowlevel.Abort:
            del self._senders[task]
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(give_up)
        if self._senders.pop(task, None) is not None:  # `close` has woken it, and not a free place
            self._refuse_if_closed()
        return False  # the agent was not waiting: its mailbox was full

    @property
    def limit(self) -> int:
        """How many inputs of others may wait."""
        return self._limit

    def set_limit(self, limit: int) -> None:
        """Have room for another number of inputs from now on; what waits stays."""
        self._limit = limit
        while self.has_room and self._senders and not self.closed:
            self._let_one_in()

    def put_back(self, message: ConversationInput) -> None:
        """Put a message that was taken and not answered before all others."""
        self._came[message.id] = trio.current_time()
        self._items.insert(0, message)

    def end_wait(self, message: ConversationInput) -> float:
        """Return for how many seconds a message that was taken had waited; call it once."""
        now = trio.current_time()
        return now - self._came.pop(message.id, now)

    def put_result(self, result: SubAgentResult | AgentExit | UserInput) -> None:
        """Queue news of what the agent has started or watches.

        It always finds room, and stays unread once closed.
        """
        self._push(result)

    def remove(self, message: ConversationInput) -> None:
        """Take a message back if it still waits."""
        if message in self._items:
            self._items.remove(message)
            self.end_wait(message)
            self._let_one_in()

    def withdraw(self, input_ids: Container[str]) -> tuple[str, ...]:
        """Take those of these inputs back that still wait; return their ids."""
        waiting = [item for item in self._items if isinstance(item, UserInput)]
        found = [item for item in waiting if item.id in input_ids]
        for item in found:
            self.remove(item)
        return tuple(item.id for item in found)

    @property
    def has_room(self) -> bool:
        """Whether an input would be taken at once."""
        return len(self._items) < self._limit

    @_protect
    def _push(self, message: ConversationInput) -> bool:
        # A receiver waits only where nothing is queued, so none is overtaken here.
        if self._receivers and not self.closed:
            receiver = self._receivers.pop(0)
            receiver.message = message
            trio.lowlevel.reschedule(receiver.task)
            self._note_taken(message, receiver.task)
            return True
        self._came[message.id] = trio.current_time()
        self._items.append(message)
        return False

    def _refuse_if_closed(self) -> None:
        if self.closed:
            raise AgentNotRunningError("the agent takes no more input: it is shutting down")

    def interrupt(self) -> None:
        """Leave an interrupt for a loop in `receive()`."""
        self._interrupted = True
        self._wake_receivers()

    def forget_interrupt(self) -> None:
        """Forget an interrupt: it is not meant for the turn that begins."""
        self._interrupted = False

    @_protect
    def refuse(self) -> None:
        """Take no more input; waiting senders get `AgentNotRunningError`."""
        if not self.closed:
            self.closed = True
            for sender in self._senders:
                trio.lowlevel.reschedule(sender)

    @_protect
    def close(self) -> None:
        """Take no more input, and end the loops that wait for it."""
        if not self.closed:
            self.refuse()
        if self._receivers:
            self._wake_receivers()

    @_protect
    def _wake_receivers(self) -> None:
        """Wake those who wait for input, to look at the express lane."""
        while self._receivers:  # the list stays: a receiver knows it
            trio.lowlevel.reschedule(self._receivers.pop(0).task)

    def take_all(self) -> list[ConversationInput]:
        """Take what waits, without waiting; nothing once the mailbox is closed."""
        return [] if self.closed else [self._take_first() for _ in range(len(self._items))]

    def take(self, input_ids: Container[str]) -> list[ConversationInput]:
        """Take those of these inputs that wait; nothing once the mailbox is closed."""
        found = [] if self.closed else [item for item in self._items if item.id in input_ids]
        for item in found:
            self._items.remove(item)
            self._let_one_in()
        return found

    def drain(self) -> tuple[ConversationInput, ...]:
        """Take everything out that was never delivered."""
        if not self._items:
            return ()
        items = tuple(self._items)
        self._items.clear()
        self._came.clear()
        return items

    @_protect
    async def next_input(self) -> ConversationInput:
        """Wait for the next conversation input; `StopAsyncIteration` once the mailbox is closed."""
        await trio.lowlevel.checkpoint()
        while not self.closed:
            # A loop that only takes input has no use for an interrupt while nothing runs.
            self._interrupted = False
            if (found := self._pop()) is not None:
                return found
            receiver = _Receiver(self._receivers)
            self._receivers.append(receiver)
            await trio.lowlevel.wait_task_rescheduled(receiver)
            if receiver.message is not None:
                return receiver.message
        raise StopAsyncIteration

    @_protect
    async def next_message(self) -> ConversationInput | Interrupt | Shutdown:
        """Wait for the next message of any kind; a shutdown comes once, nothing follows it."""
        await trio.lowlevel.checkpoint()
        while True:
            if self._interrupted and not self._has_given_shutdown:
                self._interrupted = False
                return Interrupt()
            if self.closed and not self._has_given_shutdown:
                self._has_given_shutdown = True
                return Shutdown()
            if not self.closed and (found := self._pop()) is not None:
                return found
            receiver = _Receiver(self._receivers)
            self._receivers.append(receiver)
            await trio.lowlevel.wait_task_rescheduled(receiver)
            if receiver.message is not None:
                return receiver.message

    @_protect
    def _pop(self) -> ConversationInput | None:
        if self._items:
            message: ConversationInput | None = self._take_first()
        else:
            message = None if self._turns is None else self._turns.resume()
        if message is not None:
            self._note_taken(message, trio.lowlevel.current_task())
        return message

    def _note_taken(self, message: ConversationInput, task: trio.lowlevel.Task) -> None:
        if self._turns is not None:
            self._turns.take(message, task)

    def _take_first(self) -> ConversationInput:
        message = self._items.pop(0)
        self._let_one_in()
        return message

    @_protect
    def _let_one_in(self) -> None:
        """Give a place that may have become free to the sender that waits longest."""
        if self.has_room and self._senders and not self.closed:
            sender = next(iter(self._senders))
            self._push(self._senders.pop(sender))
            trio.lowlevel.reschedule(sender)


class _Waits(Protocol):
    """The turns of an agent, as who waits for its input needs them."""

    @property
    def mailbox(self) -> Mailbox: ...
    def begin_wait(self) -> None: ...


class Inputs:
    """An iterator over an agent's conversation input; it ends when the agent is shut down."""

    __slots__ = ("_turns",)

    def __init__(self, turns: _Waits) -> None:
        """Made by `AgentInternals.inputs`."""
        self._turns = turns

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[ConversationInput]:
        self._turns.begin_wait()
        return self._turns.mailbox.next_input()  # as it is: each frame of a task costs at each step


def user_input(
    content: str | Iterable[ContentBlock],
    sender: str = "",
    metadata: Mapping[str, object] | None = None,
    id: str | None = None,  # noqa: A002 (the field's word for it)
) -> UserInput:
    """Make an input of a text or of blocks.

    Something that is not a block, or can't be stored, is refused here, not in the agent that would
    take it.

    Raises:
        TypeError: it is neither a text nor blocks.
        InvalidJSONError: something in it can't be stored; it says where.
        ValueError: the sender is not a name, or the id is empty, too long or not printable.
    """
    if id is not None and not (0 < len(id) <= _LONGEST_ID and id.isprintable()):
        raise ValueError(
            f"{id[:140]!r} can't be the id of an input: use 1 to 128 printable characters"
        )
    message = UserInput(as_blocks(content), id or new_id("i"), sender)
    if not isinstance(content, str):
        message = serde.decode(serde.encode(message), UserInput)
    if metadata:
        facts = cast("dict[str, object]", serde.plain(dict(metadata), "the input's metadata"))
        message = replace(message, metadata=facts)
    return message


def as_message(message: ConversationInput) -> Message:
    """Return what an input adds to the conversation."""
    return Message.user(message.content, id=message.id, sender=message.sender)


_LONGEST_TEXT = 10_000  # characters of an input in a chunk


def begin_chunk(message: ConversationInput, waited: float, *, shows_text: bool) -> TurnStart:
    """Return the chunk that says which input a turn begins with."""
    text = clip(message.text, _LONGEST_TEXT) if shows_text else ""
    return TurnStart(message.id, message.sender, text, round(waited, 3))


def join_chunk(message: ConversationInput, waited: float) -> Custom:
    """Return the chunk that says which input has joined the open turn."""
    data = asdict(begin_chunk(message, waited, shows_text=True))
    return Custom("input.joined", data)


class ClientResults:
    """The results of tools that the client runs; each goes to the task that waits for its call.

    A result that comes early is kept until the turn ends.
    """

    def __init__(self, limit: int) -> None:
        """Start empty, with room for `limit` results that are not waited for yet."""
        self._limit = limit
        self._early: dict[str, ToolResultInput] = {}
        self._waiters: dict[str, trio.Event] = {}

    def put(self, message: ToolResultInput) -> None:
        """Hand a result in.

        Raises:
            ToolError: a result of this call is here already.
            MailboxFullError: too many results were not taken.
        """
        tool_use_id = message.tool_use_id
        if tool_use_id in self._early:
            raise ToolError(f"the call {tool_use_id} has a result already")
        awaited = self._waiters.get(tool_use_id)
        if awaited is None and len(self._early) >= self._limit:
            raise MailboxFullError(f"{self._limit} results of client-run tools were not taken")
        self._early[tool_use_id] = message
        if awaited is not None:
            awaited.set()

    async def take(self, tool_use_id: str) -> ToolResult:
        """Wait for the result of this call.

        Raises:
            ToolError: another task waits for it.
        """
        if tool_use_id in self._waiters:
            raise ToolError(f"another task waits for the result of the call {tool_use_id} already")
        self._waiters[tool_use_id] = arrived = trio.Event()
        try:
            if tool_use_id in self._early:
                await trio.lowlevel.checkpoint()
            else:
                await arrived.wait()
        finally:
            del self._waiters[tool_use_id]
        return self._early.pop(tool_use_id).result

    def drop(self) -> tuple[str, ...]:
        """Forget the results that were not taken; return their tool-use ids."""
        left = tuple(key for key in self._early if key not in self._waiters)
        for tool_use_id in left:
            del self._early[tool_use_id]
        return left
