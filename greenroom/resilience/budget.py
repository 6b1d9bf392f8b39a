"""Budgets: counters with a limit, that say when they are spent. They know no agents and no models."""

from greenroom.core import BudgetExceededError

__all__ = ["Budget"]


class Budget:
    """Model calls and tokens that a scope may use.

    Example:
        >>> budget = Budget(model_calls=1)
        >>> budget.count(model_calls=1)
        >>> budget.check()
        Traceback (most recent call last):
        ...
        greenroom.core.errors.BudgetExceededError: the budget of 1 model calls is spent
    """

    def __init__(self, *, model_calls: int | None = None, tokens: int | None = None) -> None:
        """Set the limits; None is no limit."""
        self._limits = {"model calls": model_calls, "tokens": tokens}
        self._used = {"model calls": 0, "tokens": 0}

    def count(self, *, model_calls: int = 0, tokens: int = 0) -> None:
        """Add to what is used; it may pass the limit, since a call's tokens are known afterwards."""
        self._used["model calls"] += model_calls
        self._used["tokens"] += tokens

    def check(self) -> None:
        """Ask whether there is anything left.

        Raises:
            BudgetExceededError: a limit is reached.
        """
        for what, limit in self._limits.items():
            if limit is not None and self._used[what] >= limit:
                raise BudgetExceededError(f"the budget of {limit} {what} is spent")

    @property
    def left(self) -> dict[str, int]:
        """What is left of each limited thing, never below 0."""
        return {
            what: max(limit - self._used[what], 0)
            for what, limit in self._limits.items()
            if limit is not None
        }
