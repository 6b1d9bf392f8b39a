"""Budgets: each bound to an agent or to a block of its code, and all that count for an agent."""

from types import TracebackType
from typing import TYPE_CHECKING

import trio

from greenroom.core import BudgetExceededError, ConfigurationError, Usage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from greenroom.resilience import Budget, Limit
    from greenroom.runtime.actor import Actor
    from greenroom.runtime.calls import ToolSlot


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


# -- all that count for one agent: those it was spawned under, its own, those of open blocks ---------

_TOKENS: "tuple[Limit, ...]" = ("tokens", "input_tokens", "output_tokens")
_MODEL_CALL: "tuple[Limit, ...]" = ("seconds", "model_calls", *_TOKENS, "cost")
_TOOL_CALL: "tuple[Limit, ...]" = ("seconds", "tool_calls")
"""What must be left for a call to begin. What a reply has asked for may still run when it was the
last one."""


class Budgets:
    """What counts for an agent, outermost first; each is asked and counted once."""

    def __init__(self, actor: "Actor", own: "Budget | None") -> None:
        """Take over the budgets under which the agent is spawned, and bind its own to it."""
        self._actor = actor
        self._scopes = list(actor.parent.budgets) if actor.parent else []
        if own is not None and own not in self.counters:
            own.start()
            self.open(BudgetScope(actor, own))
        # How many of them hold for all lives of the agent.
        self._lasting = len(self._scopes)
        self.slots: set[ToolSlot] = set()
        """The calls that run."""

    def __iter__(self) -> "Iterator[BudgetScope]":
        return iter(tuple(self._scopes))

    @property
    def own(self) -> "list[Budget]":
        """The counters that the agent has set itself."""
        return [scope.budget for scope in self._scopes if scope.actor is self._actor]

    @property
    def counters(self) -> "list[Budget]":
        """The counters themselves."""
        return [scope.budget for scope in self._scopes]

    @property
    def first_to_end(self) -> BudgetScope | None:
        """The one whose time is over first, or None where there is none."""
        return min(self._scopes, key=lambda scope: scope.budget.deadline, default=None)

    def open(self, scope: BudgetScope) -> None:
        """From now on this one counts, too."""
        self._scopes.append(scope)

    def close(self, scope: BudgetScope) -> None:
        """Its block is left; subagents that were spawned in it stay under it."""
        self._scopes.remove(scope)

    def end_life(self) -> None:
        """The agent's function has ended: give up what it entered by hand and never left."""
        del self._scopes[self._lasting :]
        for slot in self.slots:
            slot.close()
        self.slots.clear()

    # -- at the boundaries ----------------------------------------------------------------------

    def begin_model_call(self) -> None:
        """Count a model call, or raise `BudgetExceededError`; nothing can come in between."""
        self._check(*_MODEL_CALL)
        for budget in self.counters:
            budget.count(model_calls=1)

    def check_model_call(self) -> None:
        """Raise `BudgetExceededError` where a model call could not begin now."""
        self._check(*_MODEL_CALL)

    def check_wait(self, seconds: float) -> None:
        """Raise `BudgetExceededError` where time would be over before such a wait is."""
        scope, now = self.first_to_end, trio.current_time()
        if scope is not None and scope.budget.deadline <= now + seconds:
            left = max(0.0, scope.budget.deadline - now)
            raise BudgetExceededError(
                f"the budget of {scope.owner} has {left:.3g} seconds left, "
                f"and there would be {seconds:.3g} to wait"
            )

    def begin_tool_call(self) -> "list[Budget]":
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
        """Raise `ConfigurationError` where a cost is limited: without a price it can't be counted."""
        self._refuse(
            ("cost",),
            f"{what} has no price",
            "give the provider its price, such as open_model(name, price=Price(input=…, output=…)), "
            "or limit the tokens",
        )

    def refuse_unreported(self, what: str) -> None:
        """Raise `ConfigurationError` where what a model has not reported is limited."""
        self._refuse(
            (*_TOKENS, "cost"),
            f"{what} reports no usage",
            "limit the model calls, or let the server report its usage",
        )

    def _refuse(self, limits: "tuple[Limit, ...]", why: str, hint: str) -> None:
        for scope in self._scopes:
            limited = [what for what in limits if scope.budget.limits(what)]
            if limited:
                what = limited[0].replace("_", " ")
                raise ConfigurationError(
                    f"the budget of {scope.owner} limits the {what}, and {why}", hint=hint
                )

    def _check(self, *limits: "Limit") -> None:
        for scope in self._scopes:
            if scope.budget.spent(*limits):
                raise scope.exceeded(*limits)
