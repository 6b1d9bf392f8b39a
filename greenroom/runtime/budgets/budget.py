"""A budget bound to an agent, or to a block of an agent's code."""

from types import TracebackType
from typing import TYPE_CHECKING

import trio

from greenroom.core import BudgetExceededError

if TYPE_CHECKING:
    from greenroom.resilience import Budget, Limit
    from greenroom.runtime.actor import Actor


class BudgetScope:
    """A budget and the agent that set it; as a block, what `agent.budget(...)` gives.

    Subagents that are spawned in the block stay under it as long as they live.
    """

    def __init__(self, actor: "Actor", budget: "Budget") -> None:
        """Made by `AgentInternals.budget`, and by `spawn` for an agent's own."""
        self.actor = actor
        self._scope = trio.CancelScope()
        self.budget = budget
        self.owner = "/".join(actor.lineage())
        """The names of the agents from the root down to the one that set it."""

    def exceeded(self, *limits: "Limit") -> BudgetExceededError:
        """Say which limit is reached, and whose it is."""
        return BudgetExceededError(
            f"the budget of {self.owner} is spent: {self.budget.spent(*limits)}"
        )

    def __enter__(self) -> "Budget":
        self._scope.__enter__()  # first: it refuses to be entered again
        self.budget.start()
        self._scope.deadline = self.budget.deadline
        self.actor.budgets.open(self)
        return self.budget

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self.actor.budgets.close(self)
        absorbed = bool(self._scope.__exit__(kind, error, trace))
        if self._scope.cancelled_caught:
            raise self.exceeded("seconds") from None
        return absorbed
