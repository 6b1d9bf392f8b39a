"""The boundaries of an agent's work, where budgets count: a step, a model call, a tool call."""

from typing import TYPE_CHECKING

import trio

from greenroom.resilience import Budget
from greenroom.runtime.budgets.budget import BudgetScope
from greenroom.runtime.budgets.model_call import ModelCallScope
from greenroom.runtime.budgets.tool_call import ToolCallScope
from greenroom.runtime.delegation import Delegation

if TYPE_CHECKING:
    from greenroom.core import ModelRequest, ToolUseBlock
    from greenroom.runtime.budgets.model_call import Model


class Boundaries(Delegation):
    """The part of `AgentInternals` that marks where steps and calls begin and end."""

    async def step(self) -> None:
        """Mark the boundary between two steps, before each model call.

        Here an `after_step` interrupt takes effect, budgets are checked and count the call, and
        input joins a turn that may be steered.

        Raises:
            BudgetExceededError: a budget of this agent, or of one above it, is spent.
        """
        actor = self._actor
        if actor.turns.current is not None:
            actor.turns.current.interruption.at_boundary()
        await trio.lowlevel.checkpoint()
        actor.budgets.begin_model_call()
        if actor.turns.current is not None:
            actor.turns.current.steps += 1
            actor.turns.current.take_steering()

    def model_call(self, model: "Model", request: "ModelRequest") -> ModelCallScope:
        """Open the block in which a model is asked, with `with`; put its reply into `.reply`.

        Raises:
            ConfigurationError: on entering: a budget limits the cost, and the model has no price;
                on leaving: one limits tokens or cost, and the reply tells no usage.

        Example:
            ```python
            with agent.model_call(llm, request) as call:
                call.reply = await llm.generate(request)
            ```
        """
        return ModelCallScope(self._actor, model, request)

    def tool_call(self, call: "ToolUseBlock") -> ToolCallScope:
        """Open the block of one call that a model has asked for, with `with`.

        Judge and run `.call` inside, the latter under `async with scope.running():`, and pass the
        result to `.end()`.

        Example:
            ```python
            with agent.tool_call(call) as scope:
                async with scope.running():
                    result = await tools.execute(scope.call.name, scope.call.input, context)
                scope.end(result)
            ```
        """
        return ToolCallScope(self._actor, call)

    def budget(
        self,
        *,
        seconds: float | None = None,
        tokens: int | None = None,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cost: float | None = None,
        model_calls: int | None = None,
        tool_calls: int | None = None,
        concurrency: int | None = None,
    ) -> BudgetScope:
        """Limit what the block under `with` may use, the subagents spawned in it included.

        Spent model calls, tokens or cost show at the next `step()`; spent tool calls at the next
        one that would run; a deadline cancels the block; concurrency lets tool calls wait. Without
        a limit the block is only counted. `with … as budget` gives the `Budget`.

        Raises:
            BudgetExceededError: from the block, when something is spent.
            ConfigurationError: a limit makes no sense.
        """
        budget = Budget(
            seconds=seconds,
            tokens=tokens,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cost=cost,
            model_calls=model_calls,
            tool_calls=tool_calls,
            concurrency=concurrency,
        )
        return BudgetScope(self._actor, budget)
