"""An agent, or several as one, as a tool of another agent."""

from typing import TYPE_CHECKING, Generic, TypeVar

from greenroom.agents.answer import plain
from greenroom.agents.caller import find_circle
from greenroom.agents.run_context import RunState, is_instance
from greenroom.core import (
    AgentContext,
    ConfigurationError,
    ToolError,
    ToolInfo,
    ToolResult,
    TurnStatus,
    serde,
)

if TYPE_CHECKING:
    from greenroom.agents.runnable import Runnable

DepsT = TypeVar("DepsT")
OutputT = TypeVar("OutputT")


class AgentTool(Generic[DepsT, OutputT]):
    """Gives a piece of work to an agent, and answers with its output; made by `as_tool`."""

    category = "agent"
    requires_permission = False  # what the agent does is judged call by call
    concurrent = True
    timeout = 24 * 3600.0
    parameters: dict[str, object] = {
        "type": "object",
        "properties": {
            "prompt": {
                "type": "string",
                "description": "The whole task: the agent sees nothing of this conversation",
            },
        },
        "required": ["prompt"],
        "additionalProperties": False,
    }

    def __init__(
        self, agent: "Runnable[DepsT, OutputT]", name: str, description: str, deps: DepsT | None
    ) -> None:
        """Take an agent, and the name and description that a model sees."""
        if not description:
            raise ConfigurationError(
                f"a model that may call {name} has to be told what it is good for",
                hint="write Agent(…, description=…), or as_tool(description=…)",
            )
        self._agent = agent
        self._deps = deps
        self.name = name
        self.description = description

    def __repr__(self) -> str:
        return f"<tool {self.name}>"

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Say which agent gets which work."""
        return ToolInfo(f"Ask {self.name}", str(input["prompt"]))

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Run the agent, and return its output as text or JSON.

        Raises:
            ToolError: the agent is one of those that have called this, itself or over others; or
                its turn did not complete.
        """
        if way := find_circle(self._agent):
            raise ToolError(f"{self.name} can't be asked: it waits for this very answer ({way})")
        result = await self._agent.run(str(input["prompt"]), deps=self._deps_of(context))
        if result.status is not TurnStatus.COMPLETED:
            why = f": {result.error}" if result.error else ""
            raise ToolError(f"{self.name} has not answered: its turn {result.status}{why}")
        output = plain(result.output)
        text = output if isinstance(output, str) else serde.dumps(output).decode()
        return ToolResult.ok(text, session_id=result.session.session_id)

    def _deps_of(self, context: AgentContext) -> DepsT:
        """Return what the agent is given: deps of its own, else the caller's, where they fit."""
        deps: object = self._deps
        wanted = self._agent.deps_type
        state = context.resources.get(RunState)
        if deps is None and wanted is not None and state and is_instance(state.deps, wanted):
            deps = state.deps
        return deps  # type: ignore[return-value]  # `run` checks it
