"""Gates: what a program puts before its tools, beside the rules."""

from typing import Protocol

import msgspec

from greenroom.core.context import AgentContext
from greenroom.core.message import ToolUseBlock
from greenroom.core.tooling import ToolResult, ToolRun


class Deny(msgspec.Struct, frozen=True):
    """The call must not run; the model is told the reason."""

    reason: str


class Ask(msgspec.Struct, frozen=True):
    """A person has to allow the call; they are shown the reason."""

    reason: str


class Gate(Protocol):
    """Refuses calls of tools: write a class with any of these methods, derived or not.

    Pass instances to `AgentRuntime(gates=[…])`. They hold for every agent of the runtime, and for
    whatever runs a tool: a model, a plan, a workflow, or a loop of your own. A gate only tightens;
    what the rules deny stays denied. One that has hooks of an `Instrument` is attached as one, too.

    Each method has `timeout` seconds, an attribute that is 5 if it is missing. One that raises, or
    takes longer, is a question to a person in `judge`, a refusal in `before_run`, and nothing in
    `after_run`.

    Example:
        >>> class NoSecrets(Gate):
        ...     async def judge(self, agent, call):
        ...         return Deny("it names a secret") if "secret" in str(call.input) else None
    """

    async def judge(self, agent: AgentContext, call: ToolUseBlock) -> Deny | Ask | None:
        """Decide about a valid call, before the rules do; None leaves it to them."""
        return None

    async def before_run(self, agent: AgentContext, call: ToolRun) -> str | None:
        """Look at a call that is allowed, immediately before it runs, in the task that runs it.

        A text refuses the call, and is the reason that the model is told.
        """
        return None

    async def after_run(self, agent: AgentContext, call: ToolRun, result: ToolResult) -> str | None:
        """Look at the result of a call that has run, before the model does.

        A text is added to the result.
        """
        return None


GATE_METHODS = ("judge", "before_run", "after_run")
"""The names of the methods of a gate."""
