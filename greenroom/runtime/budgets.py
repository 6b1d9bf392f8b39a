"""What an agent may use: the budgets of its blocks, and of the agents above it."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Protocol

import trio

from greenroom.core import BudgetExceededError, ConfigurationError, Price, Usage
from greenroom.resilience import Budget
from greenroom.resilience._internal import Limit


class BudgetScope:
    """A budget and the agent that set it; the block behind `agent.budget(...)`.

    Subagents that are spawned in the block stay under it as long as they live.
    """

    def __init__(self, budgets: "Budgets", budget: Budget) -> None:
        """Made by `AgentInternals.budget`, and by `spawn` for an agent's own."""
        self.budgets = budgets
        """All budgets of the agent that set it."""
        self.budget = budget
        self._scope = trio.CancelScope()

    @property
    def owner(self) -> str:
        """The path of the agent that set it, from the root down."""
        return self.budgets.owner

    def make_error(self, *limits: Limit) -> BudgetExceededError:
        """Make the error that says which limit is reached, and whose."""
        return BudgetExceededError(
            f"the budget of {self.owner} is spent: {self.budget.describe_spent(*limits)}"
        )

    def __enter__(self) -> Budget:
        self._scope.__enter__()  # first: it refuses to be entered again
        self.budget.start()
        self._scope.deadline = self.budget.deadline
        self.budgets.open(self)
        return self.budget

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self.budgets.close(self)
        absorbed = bool(self._scope.__exit__(kind, error, trace))
        if self._scope.cancelled_caught:
            raise self.make_error("seconds") from None
        return absorbed


_TOKENS: tuple[Limit, ...] = ("tokens", "input_tokens", "output_tokens")
_USAGE: tuple[Limit, ...] = (*_TOKENS, "cost")
_MODEL_CALL: tuple[Limit, ...] = ("seconds", "model_calls", *_USAGE)
_TOOL_CALL: tuple[Limit, ...] = ("seconds", "tool_calls")
"""What must be left for a call to begin. The tool calls of the last reply may still run."""


def _estimate(
    budget: Budget, sent: int, most: int | None, price: Price | None
) -> dict[Limit, float]:
    """Return how much of what a budget limits a call may use."""
    reply = most or budget.replies.expected
    amounts: dict[Limit, float] = {
        "tokens": sent + reply,
        "input_tokens": sent,
        "output_tokens": reply,
        "cost": price.cost(Usage(sent, reply)) if price else 0.0,
    }
    return {what: amount for what, amount in amounts.items() if budget.limits(what)}


class SlotHolder(Protocol):
    """A running tool call, which may hold slots of budgets."""

    def close(self) -> None:
        """Release everything."""


class Budgets:
    """The budgets that count for an agent, outermost first; each is asked and counted once."""

    __slots__ = ("_lifelong", "_scopes", "open_calls", "owner")

    def __init__(
        self, owner: str, above: Iterable[BudgetScope] = (), own: Budget | None = None
    ) -> None:
        """Take the budgets under which the agent `owner` is spawned, and add its own."""
        self.owner = owner
        """The path of the agent, from the root down."""
        self._scopes = list(above)
        if own is not None and own not in self.counters:
            own.start()
            self.open(BudgetScope(self, own))
        # How many of them outlive a life of the agent.
        self._lifelong = len(self._scopes)
        self.open_calls: dict[SlotHolder, None] = {}
        """The tool calls that run."""

    def __iter__(self) -> Iterator[BudgetScope]:
        return iter(tuple(self._scopes))

    @property
    def own(self) -> list[Budget]:
        """The counters that the agent has set itself."""
        return [scope.budget for scope in self._scopes if scope.budgets is self]

    @property
    def counters(self) -> list[Budget]:
        """The counters themselves."""
        return [scope.budget for scope in self._scopes]

    @property
    def first_to_end(self) -> BudgetScope | None:
        """The budget whose deadline comes first, or None."""
        return min(self._scopes, key=lambda scope: scope.budget.deadline, default=None)

    def open(self, scope: BudgetScope) -> None:
        """Count for this budget too, from now on."""
        self._scopes.append(scope)

    def close(self, scope: BudgetScope) -> None:
        """Leave the block of a budget; subagents that were spawned in it stay under it."""
        self._scopes.remove(scope)

    def end_life(self) -> None:
        """Close what the agent's function entered by hand and never left."""
        del self._scopes[self._lifelong :]
        for call in self.open_calls:
            call.close()
        self.open_calls.clear()

    def begin_model_call(self) -> None:
        """Check and count a model call in one step, or raise `BudgetExceededError`."""
        self._check(*_MODEL_CALL)
        for budget in self.counters:
            budget.count(model_calls=1)

    def take_back_model_call(self) -> None:
        """Count a model call less: it has not begun."""
        for budget in self.counters:
            budget.count(model_calls=-1)

    def check_model_call(self) -> None:
        """Raise `BudgetExceededError` if a model call could not begin now."""
        self._check(*_MODEL_CALL)

    @property
    def is_left(self) -> bool:
        """Whether another model call and tool call could begin now."""
        return not any(budget.describe_spent() for budget in self.counters)

    @property
    def limits_usage(self) -> bool:
        """Whether one limits the tokens or the cost of model calls."""
        return any(budget.limits(what) for budget in self.counters for what in _USAGE)

    def has_room(self, sent: int, most: int | None, price: Price | None) -> bool:
        """Whether `reserve` would not wait."""
        estimates = ((each, _estimate(each, sent, most, price)) for each in self.counters)
        return all(budget.has_room(amounts) for budget, amounts in estimates if amounts)

    async def reserve(self, sent: int, most: int | None, price: Price | None) -> ExitStack:
        """Wait until every budget has room for a call, and reserve it; close the result to free it.

        Args:
            sent: the tokens of the request, about.
            most: the limit of the reply, or None if it is not known.
            price: what the model charges.

        Raises:
            BudgetExceededError: a budget is spent.
        """
        with ExitStack() as reserves:
            # Newest first: all calls reserve in one order, so no two can wait for each other.
            for scope in sorted(self._scopes, key=lambda scope: -scope.budget.number):
                amounts = _estimate(scope.budget, sent, most, price)
                if amounts:
                    try:
                        await scope.budget.reserve(amounts)
                    except BudgetExceededError:
                        raise scope.make_error("seconds", *_USAGE) from None
                    reserves.callback(scope.budget.free, amounts)
            return reserves.pop_all()

    def check_wait(self, seconds: float) -> None:
        """Raise `BudgetExceededError` if a deadline would pass during such a wait."""
        scope, now = self.first_to_end, trio.current_time()
        if scope is not None and scope.budget.deadline <= now + seconds:
            left = max(0.0, scope.budget.deadline - now)
            raise BudgetExceededError(
                f"the budget of {scope.owner} has {left:.3g} seconds left, "
                f"and there would be {seconds:.3g} to wait"
            )

    def begin_tool_call(self) -> list[Budget]:
        """Count a tool call, or raise `BudgetExceededError`; return where it was counted."""
        self._check(*_TOOL_CALL)
        for budget in self.counters:
            budget.count(tool_calls=1)
        return self.counters

    def count(self, usage: Usage) -> None:
        """Count what a model call has used."""
        for budget in self.counters:
            budget.count(
                tokens=usage.total,
                input_tokens=usage.sent,
                output_tokens=usage.output_tokens or 0,
                cost=usage.cost or 0,
            )
        if usage.cost is None:
            self.refuse_unpriced("a model call")

    def refuse_unpriced(self, what: str) -> None:
        """Raise `ConfigurationError` if a cost is limited: without a price it can't be counted."""
        self._refuse(
            ("cost",),
            f"{what} has no price",
            "give the provider its price, such as open_model(name, price=Price(input=…, output=…)),"
            " or limit the tokens",
        )

    def refuse_unreported(self, what: str) -> None:
        """Raise `ConfigurationError` if a budget limits what a model has not reported."""
        self._refuse(
            _USAGE,
            f"{what} reports no usage",
            "limit the model calls, or let the server report its usage",
        )

    def _refuse(self, limits: tuple[Limit, ...], why: str, hint: str) -> None:
        for scope in self._scopes:
            limited = [what for what in limits if scope.budget.limits(what)]
            if limited:
                what = limited[0].replace("_", " ")
                raise ConfigurationError(
                    f"the budget of {scope.owner} limits the {what}, and {why}", hint=hint
                )

    def _check(self, *limits: Limit) -> None:
        for scope in self._scopes:
            if scope.budget.describe_spent(*limits):
                raise scope.make_error(*limits)
