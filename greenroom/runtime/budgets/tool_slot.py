"""The slot of a running tool call: what `concurrency` counts, over the whole tree below a budget."""

from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING

import trio

from greenroom.runtime.caller import current_actor
from greenroom.runtime.failure import is_cancelled

if TYPE_CHECKING:
    from greenroom.resilience import Budget
    from greenroom.runtime.actor import Actor

__all__ = ["ToolSlot", "current_slot"]

_of_context: ContextVar["ToolSlot | None"] = ContextVar("greenroom_tool_slot", default=None)


class ToolSlot:
    """Counts one tool call, and holds a slot of each budget above it while the call runs.

    While the call waits for an agent, or for tools that it calls itself, its slots are free for the
    work that it waits for; before it goes on, it takes them again. So a chain of subagents gets on
    with a single slot, and nobody waits for what is held above. A wait that is cancelled can't
    wait for slots: the call then has them at once, beyond the limit if need be.
    """

    def __init__(self, actor: "Actor") -> None:
        """Made by `ToolCallScope.running`."""
        self._actor = actor
        self._outer: ToolSlot | None = None
        # Newest first, in the same order for all callers, so that no two can wait for each other.
        self._budgets: list[Budget] = []
        self._held: list[Budget] = []
        self._waits = 0
        self._taking = trio.Lock()
        self._token: Token[ToolSlot | None] | None = None

    async def __aenter__(self) -> None:
        counted = self._actor.budgets.begin_tool_call()
        limited = [budget for budget in counted if budget.limits("concurrency")]
        self._budgets = sorted(limited, key=lambda budget: -budget.number)
        self._outer = current_slot()
        if self._outer is not None:
            self._outer.give_back()
        try:
            await self._take()
        except BaseException:
            for budget in counted:
                budget.count(tool_calls=-1)  # it has not begun
            self._release()
            if self._outer is not None:
                self._outer.take_again_nowait()
            raise
        self._token = _of_context.set(self)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._token is not None  # it was entered
        _of_context.reset(self._token)
        self._release()
        if self._outer is not None and is_cancelled(error):
            self._outer.take_again_nowait()
        elif self._outer is not None:
            await self._outer.take_again()

    def give_back(self) -> None:
        """The call begins to wait; several of its tasks may do so at once."""
        self._waits += 1
        self._release()

    async def take_again(self) -> None:
        """A wait is over; after the last one, wait for the slots."""
        self._waits -= 1
        if self._waits or not self._budgets:
            return
        async with self._taking:  # tasks of the call that come out of a wait one after the other
            await self._take()
        if self._waits:  # and one that has begun to wait meanwhile
            self._release()

    def take_again_nowait(self) -> None:
        """A wait was cancelled; after the last one, have the slots at once."""
        self._waits -= 1
        if not self._waits:
            self._take_nowait()

    async def _take(self) -> None:
        for budget in self._missing():
            try:
                await budget.acquire()
            except BaseException:
                self._take_nowait()
                raise
            self._held.append(budget)

    def _take_nowait(self) -> None:
        for budget in self._missing():
            budget.acquire_nowait()
            self._held.append(budget)

    def _missing(self) -> "list[Budget]":
        return [budget for budget in self._budgets if budget not in self._held]

    def _release(self) -> None:
        while self._held:
            self._held.pop().release()


def current_slot() -> ToolSlot | None:
    """Return the slot of the tool call in which the caller runs, or None outside of any."""
    slot = _of_context.get()
    # A task in a nursery outside of the agent inherits the variable, and is no part of the call.
    return slot if slot is not None and slot._actor is current_actor() else None
