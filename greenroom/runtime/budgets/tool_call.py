"""The boundary of a tool call: from the moment a model has asked for it to its result."""

from types import TracebackType
from typing import TYPE_CHECKING, Self

from greenroom.runtime.budgets.tool_slot import ToolSlot

if TYPE_CHECKING:
    from greenroom.core import ToolResult, ToolUseBlock
    from greenroom.runtime.actor import Actor


class ToolCallScope:
    """The block behind `agent.tool_call(...)`: judge, run and end the call inside of it.

    Attributes:
        call: the call to judge and run, with the input that the instruments have left it with.
        is_rewritten: whether that is another input than the model's.
    """

    def __init__(self, actor: "Actor", call: "ToolUseBlock") -> None:
        """Made by `AgentInternals.tool_call`."""
        self._actor = actor
        self._has_ended = False
        self.call = call
        self.is_rewritten = False

    def __enter__(self) -> Self:
        asked = self.call
        self.call = self._actor.runtime.instruments.before_tool_call(self._actor.context, asked)
        self.is_rewritten = self.call is not asked
        return self

    def running(self) -> ToolSlot:
        """Open the block in which the tool runs, with `async with`.

        Entering counts the call, and waits for a slot where a budget limits how many run at once;
        who has waited longest gets the next. A call that gives work to a subagent, or waits for
        one, hands its slot down.

        Raises:
            BudgetExceededError: a budget of this agent, or of one above it, has no call left.
        """
        return ToolSlot(self._actor, self.call.id)

    def end(self, result: "ToolResult") -> None:
        """Say how the call has ended: with its result, or with why it was not run. Once counts."""
        self._tell(result, None)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._tell(None, error)

    def _tell(self, result: "ToolResult | None", error: BaseException | None) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._actor.notify("after_tool_call", self.call, result, error)
