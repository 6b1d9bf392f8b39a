"""The slot of a running tool call: what `concurrency` counts, over the whole tree below a budget."""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

import trio

from greenroom.core import TurnError
from greenroom.runtime.caller import current_actor, entered_from_thread
from greenroom.runtime.failure import is_cancelled

if TYPE_CHECKING:
    from greenroom.resilience import Budget
    from greenroom.runtime.actor import Actor

T = TypeVar("T")

_of_context: ContextVar["ToolSlot | None"] = ContextVar("greenroom_tool_slot", default=None)


class ToolSlot:
    """Counts one tool call, and holds a slot of each budget above it while the call runs.

    While the call waits for an agent, or for tools that it calls itself, its slots are free for the
    work that it waits for; before it goes on, it takes them again. So a chain of subagents gets on
    with a single slot, and no call waits for what is held above it. What is being cancelled can't wait
    for slots: the call then has them at once, beyond the limit if need be.
    """

    def __init__(self, actor: "Actor", tool_use_id: str) -> None:
        """Made by `ToolCallScope.running`."""
        self._actor = actor
        self._tool_use_id = tool_use_id
        self._outer = Pause()
        # Newest first, in the same order for all callers, so that no two can wait for each other.
        self._budgets: list[Budget] = []
        self._held: list[Budget] = []
        self._is_open = False
        self._waits = 0
        # Held by the task that takes the slots, for the whole call.
        self._taking = trio.Lock()
        self._token: Token[ToolSlot | None] | None = None
        self._threads = set[trio.CancelScope]()  # what the call's thread waits for in the loop

    async def __aenter__(self) -> None:
        counted = self._actor.budgets.begin_tool_call()
        limited = [budget for budget in counted if budget.limits("concurrency")]
        self._budgets = sorted(limited, key=lambda budget: -budget.number)
        await self._outer.__aenter__()
        self._is_open = True
        self._actor.budgets.slots.add(self)
        try:
            await self._take()
        except BaseException as error:
            for budget in counted:
                budget.count(tool_calls=-1)  # it has not begun
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        self._token = _of_context.set(self)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._token is not None:
            _of_context.reset(self._token)
        self._actor.budgets.slots.discard(self)
        self.close()
        await self._outer.__aexit__(kind, error, trace)

    def close(self) -> None:
        """The call has ended, or its agent has without leaving it: hold nothing any more."""
        self._is_open = False
        self._settle()
        for scope in self._threads:
            scope.cancel()

    async def run(self, function: Callable[[], Awaitable[T]]) -> T:
        """Run a function for the call's thread, and no longer than the call."""
        with trio.CancelScope() as scope:
            self._threads.add(scope)
            try:
                return await function()
            finally:
                self._threads.discard(scope)
        raise TurnError("the tool call whose thread this is has ended")

    def give_back(self) -> None:
        """The call begins to wait; several of its tasks may do so at once."""
        self._waits += 1
        self._settle()

    async def take_again(self, error: BaseException | None) -> None:
        """A wait is over, by this error; after the last one, wait for the slots."""
        self._waits -= 1
        try:
            if self._is_running and not is_cancelled(error) and not self._is_being_ended:
                await self._take()
        finally:
            self._settle()

    @property
    def _is_running(self) -> bool:
        """Whether the call has not ended, which a task of it may outlive, and does not wait."""
        return self._is_open and not self._waits

    @property
    def _is_being_ended(self) -> bool:
        """Whether the call runs on only to clean up, so that a shield may keep the cancel out."""
        actor, turn = self._actor, self._actor.turns.current
        line = (actor, *actor.ancestors())
        return (turn is not None and turn.is_cancelled) or any(
            each.scope.cancel_called or each.life.scope.cancel_called for each in line
        )

    async def _take(self) -> None:
        """Wait for the slots, and for a task of the call that waits for them already."""
        if not self._budgets:
            return
        if self._taking.locked():
            await self._taking.acquire()
        else:
            self._taking.acquire_nowait()  # no checkpoint before it joins the queue for a slot
        try:
            for budget in self._missing():
                await budget.acquire()
                self._held.append(budget)
        finally:
            self._taking.release()

    def _settle(self) -> None:
        """Hold the slots if the call runs, and only then; at once, unless a task takes them."""
        if self._taking.locked():
            return  # that task settles it
        if not self._is_running:
            while self._held:
                self._held.pop().release()
        else:
            for budget in self._missing():
                budget.acquire_nowait()
                self._held.append(budget)

    def _missing(self) -> "list[Budget]":
        return [budget for budget in self._budgets if budget not in self._held]


class Pause:
    """The block in which the tool call of the caller waits; outside of any call it does nothing."""

    def __init__(self) -> None:
        """Made by whatever waits in a tool call."""
        self._slot: ToolSlot | None = None

    async def __aenter__(self) -> None:
        self._slot = current_slot()
        if self._slot is not None:
            self._slot.give_back()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._slot is not None:
            await self._slot.take_again(error)


def current_slot() -> ToolSlot | None:
    """Return the slot of the tool call in which the caller runs, or None outside of any."""
    slot = _of_context.get()
    # A task that outlives the call inherits the variable, and so does one in a nursery outside of
    # the agent, which is not part of the call.
    is_ours = slot is not None and slot._is_open and slot._actor is current_actor()
    return slot if is_ours else None


def current_call(actor: "Actor") -> str | None:
    """Return the id of the agent's tool call in which the caller runs, or None outside of any."""
    slot = current_slot()
    return slot._tool_use_id if slot is not None and slot._actor is actor else None


async def run_in_call(function: Callable[[], Awaitable[T]]) -> T:
    """Run a function for a thread, such as that of a plain tool; it ends with the tool call.

    A call that is over, by its time-out or an interrupt, leaves its thread behind, and nobody cancels
    what that waits for.

    Raises:
        TurnError: the call has ended before the function has.
    """
    slot = current_slot()
    return await (function() if slot is None else slot.run(function))


def call_is_over() -> bool:
    """Whether the caller is in a thread that its tool call has left behind."""
    slot = _of_context.get()
    return (
        slot is not None
        and not slot._is_open
        and slot._actor is current_actor()
        and entered_from_thread()
    )
