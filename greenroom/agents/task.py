"""`Task`: a tool that gives work to a subagent and returns its last reply."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Protocol, TypeAlias, cast

from greenroom.agents.helper import Helper
from greenroom.core import AgentContext, AgentState, ToolInfo, ToolResult, TurnStatus
from greenroom.llm import LLMProvider
from greenroom.permissions import PermissionManager
from greenroom.runtime import AgentInternals
from greenroom.session import AgentSession
from greenroom.tools import ToolRegistry

NamedRun: TypeAlias = tuple[str, Callable[[AgentInternals], Awaitable[object]]]
"""What a subagent is for, and its function."""

Delegates: TypeAlias = bool | Sequence[Helper]
"""Whether an agent gives work to subagents; or the helpers that it has beside the usual one."""


class Task:
    """Give a piece of work to a subagent and wait for its report.

    The subagent has a history of its own, so what it reads does not fill the caller's context.
    Several tasks of one reply run side by side. An interrupt of the turn ends them too.

    Args:
        agent: the agent that delegates.
        run: the subagent: an async function of its `AgentInternals`.
        agent_type: the type of its session.
        helpers: subagents that the call may name, each with its description and its function.
    """

    name = "Task"
    category = "agent"
    description = (
        "Give a self-contained piece of work to a subagent with the same tools and wait for its "
        "report. It sees nothing of this conversation: say everything it needs in the prompt."
    )
    parameters: dict[str, object] = {
        "type": "object",
        "properties": {
            "description": {"type": "string", "description": "The work in three to five words"},
            "prompt": {"type": "string", "description": "The whole task for the subagent"},
        },
        "required": ["description", "prompt"],
        "additionalProperties": False,
    }
    requires_permission = False  # what the subagent does is judged call by call
    concurrent = True
    timeout = 24 * 3600.0

    def __init__(
        self,
        agent: AgentInternals,
        run: Callable[[AgentInternals], Awaitable[object]],
        agent_type: str = "subagent",
        helpers: Mapping[
            str, tuple[str, Callable[[AgentInternals], Awaitable[object]]]
        ] = MappingProxyType({}),
    ) -> None:
        self._agent = agent
        self._run = run
        self._agent_type = agent_type
        self._helpers = dict(helpers)
        if helpers:
            listed = "\n".join(f"- {name}: {about}" for name, (about, _) in helpers.items())
            self.description = f"{Task.description} Or name one of these with agent:\n{listed}"
            self.parameters = _with_agents(Task.parameters, list(helpers))

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Describe the work."""
        return ToolInfo(f"Ask a subagent: {input['description']}", str(input["prompt"]))

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Spawn a subagent, give it the prompt and return its last reply."""
        session = AgentSession.new_subagent(
            self._agent_type, context.session_id, context.current_tool_use_id
        )
        name, run = str(input["description"]), self._run
        if "agent" in input:
            name = str(input["agent"])
            run = self._helpers[name][1]
        child = self._agent.spawn(session, run, report=False, name=name)
        self._agent.set_state(AgentState.waiting_for_subagent(child.session_id))
        try:
            result = await child.ask(str(input["prompt"]))
        finally:
            with context.cleanup(2.0):
                await child.shutdown(grace=0)
        if result.status is not TurnStatus.COMPLETED:
            return ToolResult.error(f"The subagent's turn {result.status}: {result.error}")
        return ToolResult.ok(result.text, session_id=child.session_id)


class _Runs(Protocol):
    """An agent's function like `coder`, with its own settings bound."""

    def __call__(
        self,
        agent: AgentInternals,
        *,
        llm: LLMProvider,
        tools: ToolRegistry,
        permissions: PermissionManager,
        delegates: bool,
        instructions: str = ...,
    ) -> Awaitable[object]:
        """Run the agent."""


def with_subagents(
    agent: AgentInternals,
    run: _Runs,
    llm: LLMProvider,
    tools: ToolRegistry,
    permissions: PermissionManager,
    helpers: Delegates,
) -> ToolRegistry:
    """Add `Task` to the tools of an agent like `coder`.

    Its subagents run the same function with the same tools, may do nothing more than the agent, and
    can't delegate themselves. A helper has its own prompt, and at most the same tools and rights.
    """
    start = partial(run, delegates=False)
    below = permissions.child(context=agent.context)
    usual = partial(start, llm=llm, tools=tools, permissions=below)
    named = dict[str, NamedRun]()
    for each in () if isinstance(helpers, bool) else helpers:
        own, rights = each.narrow(tools, permissions, agent.context)
        own_run = partial(start, llm=each.llm or llm, tools=own, permissions=rights)
        named[each.name] = each.description, partial(own_run, instructions=each.prompt)
    return tools.with_tools(Task(agent, usual, helpers=named))


def _with_agents(parameters: dict[str, object], names: list[str]) -> dict[str, object]:
    """Add the choice of an agent to the schema of the tool."""
    properties = cast("dict[str, object]", parameters["properties"])
    choice = {"type": "string", "enum": names, "description": "Which agent does it."}
    return {**parameters, "properties": {**properties, "agent": choice}}
