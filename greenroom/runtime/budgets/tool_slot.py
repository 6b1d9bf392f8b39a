"""The slot of a running tool call: what `concurrency` counts, over the whole tree below a budget."""

from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from greenroom.resilience import Budget
    from greenroom.runtime.actor import Actor

__all__ = ["ToolSlot", "current_slot", "hand_slot_to"]

current_slot: ContextVar["ToolSlot | None"] = ContextVar("greenroom_tool_slot", default=None)
"""The slot of the tool call in which the code runs, or None outside of any."""


class ToolSlot:
    """Counts one tool call, and holds a slot of each budget above it while the call runs.

    A call that gives work to an agent, or waits for one, hands its slot down: from then on the
    calls of that agent take slots, and not the one that waits for them. So a chain of subagents
    goes on with a single slot, and nobody waits for what is held above it. The same holds for a
    tool that calls tools itself.
    """

    def __init__(self, actor: "Actor") -> None:
        """Made by `ToolCallScope.running`."""
        self._actor = actor
        self._held: list[Budget] = []
        self._token: Token[ToolSlot | None] | None = None

    async def __aenter__(self) -> None:
        budgets = self._actor.budgets.begin_tool_call()
        hand_slot_to(self._actor)  # a tool that calls tools itself waits for them
        try:
            # All callers take slots in the same order, so that no two can wait for each other.
            for budget in sorted(budgets, key=lambda each: -each.number):
                await budget.acquire()
                self._held.append(budget)
        except BaseException:
            for budget in budgets:
                budget.count(tool_calls=-1)  # it has not begun
            self._release()
            raise
        self._token = current_slot.set(self)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._token is not None  # it was entered
        current_slot.reset(self._token)
        self._release()

    def _hand_to(self, actor: "Actor") -> None:
        """Give up what the calls of this agent may need."""
        needed = actor.budgets.counters
        for budget in [each for each in self._held if each in needed]:
            self._held.remove(budget)
            budget.release()

    def _release(self) -> None:
        while self._held:
            self._held.pop().release()


def hand_slot_to(actor: "Actor") -> None:
    """An agent is given work, or is waited for: the tool call that does so gives up its slot."""
    slot = current_slot.get()
    if slot is not None:
        slot._hand_to(actor)
