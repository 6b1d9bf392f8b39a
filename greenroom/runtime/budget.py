"""A budget bound to a block of an agent's code."""

from types import TracebackType
from typing import TYPE_CHECKING, Self

import trio

from greenroom.core import BudgetExceededError
from greenroom.resilience import Budget

if TYPE_CHECKING:
    from greenroom.runtime.actor import Actor

__all__ = ["BudgetScope"]


class BudgetScope:
    """The block behind `agent.budget(...)`; nested ones all count, the tightest one ends first.

    Subagents that are spawned in the block stay under it as long as they live.
    """

    def __init__(
        self,
        actor: "Actor",
        seconds: float | None,
        model_calls: int | None,
        tokens: int | None,
    ) -> None:
        """Made by `AgentInternals.budget`."""
        self._actor = actor
        self._seconds = seconds
        self._budget = Budget(model_calls=model_calls, tokens=tokens)
        self._scope = trio.CancelScope()

    @property
    def left(self) -> dict[str, int]:
        """What is left of model calls and tokens, as far as they are limited."""
        return self._budget.left

    def count(self, *, model_calls: int = 0, tokens: int = 0) -> None:
        """Add to what is used."""
        self._budget.count(model_calls=model_calls, tokens=tokens)

    def check(self) -> None:
        """Ask whether there is anything left.

        Raises:
            BudgetExceededError: a limit is reached, or the time is over.
        """
        self._budget.check()
        if trio.current_time() >= self._scope.deadline:
            raise self._time_is_over()

    def _time_is_over(self) -> BudgetExceededError:
        return BudgetExceededError(f"the budget of {self._seconds:g} seconds is spent")

    def __enter__(self) -> Self:
        if self._seconds is not None:
            self._scope.deadline = trio.current_time() + self._seconds
        self._actor.budgets.append(self)
        self._scope.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._actor.budgets.remove(self)
        absorbed = bool(self._scope.__exit__(kind, error, trace))
        if self._scope.cancelled_caught:
            raise self._time_is_over() from None
        return absorbed
