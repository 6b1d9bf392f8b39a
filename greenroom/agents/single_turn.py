"""`run_turn`: one turn as a function of its messages, without a session, a store or a handle."""

from collections.abc import Iterable, Sequence

import trio

from greenroom.agents.caller import under_caller
from greenroom.agents.reply import stream_reply
from greenroom.agents.tool_calls import run_tools
from greenroom.core import GreenroomError, Message, StopReason, TurnError, TurnStatus
from greenroom.llm import LLMProvider
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.resilience import Budget
from greenroom.runtime import AgentHandle, AgentInternals, AgentRuntime, spawn_subagent
from greenroom.session import AgentSession, MemoryStore
from greenroom.tools import FunctionTool, Tool, ToolRegistry

__all__ = ["run_turn"]

_GRACE = 2.0  # seconds for the clean-up of a turn that was given up, as in `handle.interrupt`


async def run_turn(
    llm: LLMProvider,
    messages: Sequence[Message],
    tools: Iterable[Tool] = (),
    *,
    system: str = "",
    permissions: PermissionManager | None = None,
    max_steps: int = 10,
    budget: Budget | None = None,
) -> tuple[Message, ...]:
    """Run one turn over messages, tool calls included, and return the messages that are new.

    It keeps nothing: the next turn is given the messages of this one, its own, and the next question.
    Inside an agent it is a subagent of it, with its budgets and what is denied to it, and ends with its
    turn; elsewhere it has a runtime of its own. Nobody can be asked: what no rule allows is denied, and
    the model is told why.

    Args:
        llm: the model.
        messages: the conversation, the last message the user's.
        tools: what the model may call.
        system: the system prompt.
        permissions: the rules; by default the functions among the tools may run, since the program has
            passed them, and nothing else.
        max_steps: model calls at the most; for the last one no tool may be chosen.
        budget: what the turn may use.

    Returns:
        The replies and the results of their calls, in order; the last one is the answer.

    Raises:
        ValueError: there is no message, the last one is not the user's, or no step is allowed.
        TurnError: the turn was interrupted.
        GreenroomError: what has ended the turn, such as a `ModelError` or a `BudgetExceededError`.

    Example:
        ```python
        messages = [Message.user("What is the weather in Tokyo?")]
        messages += await run_turn(open_model("anthropic:claude-sonnet-5"), messages, [get_weather])
        print(messages[-1].text)
        ```
    """
    history = tuple(messages)
    if not history or history[-1].role != "user":
        raise ValueError("the last message is the user's: write messages=[…, Message.user(text)]")
    if max_steps < 1:
        raise ValueError(f"a turn has at least one step, not {max_steps}")
    registry = tools if isinstance(tools, ToolRegistry) else ToolRegistry(tools)
    turn = _Turn(llm, registry, permissions, system, max_steps)
    session = AgentSession.new("turn", store=MemoryStore())
    for message in history[:-1]:
        session.add_message(message)
    handle = spawn_subagent(session, turn.run, report=False, budget=budget)
    if handle is not None:
        await _answer(handle, history[-1], turn)
    else:
        async with AgentRuntime(MemoryStore()) as runtime:
            handle = runtime.spawn(session, turn.run, unattended="deny", budget=budget)
            await _answer(handle, history[-1], turn)
    return session.history[len(history) :]


async def _answer(handle: AgentHandle, question: Message, turn: "_Turn") -> None:
    """Wait for the turn, and raise what has ended it."""
    try:
        result = await handle.ask(question.content, sender=question.sender)
    finally:
        with trio.move_on_after(_GRACE, shield=True):
            await handle.shutdown(grace=0)
        handle.kill()
    if turn.error is not None:
        raise turn.error
    if result.status is not TurnStatus.COMPLETED:
        raise TurnError(f"the turn was {result.status}", hint=result.error)


class _Turn:
    """The agent of one turn, and the error that has ended it."""

    def __init__(
        self,
        llm: LLMProvider,
        tools: ToolRegistry,
        permissions: PermissionManager | None,
        system: str,
        max_steps: int,
    ) -> None:
        self._llm = llm
        self._tools = tools
        self._consents = _consents(tools)
        self._permissions = permissions or PermissionManager(
            PermissionRule.allow_tool(name) for name in self._consents
        )
        self._system = system
        self._max_steps = max_steps
        self.error: GreenroomError | None = None

    async def run(self, agent: AgentInternals) -> None:
        async for message in agent.inputs():
            async with agent.turn(message):
                try:
                    await self._steps(agent)
                except GreenroomError as error:
                    self.error = error
                    raise

    async def _steps(self, agent: AgentInternals) -> None:
        permissions = under_caller(self._permissions, agent.context, self._consents)
        for step in range(1, self._max_steps + 1):
            reply = await stream_reply(
                agent,
                self._llm,
                self._tools,
                system=self._system,
                tool_choice="auto" if step < self._max_steps else "none",
            )
            if reply.tool_uses and step < self._max_steps:
                await run_tools(agent, reply.tool_uses, self._tools, permissions)
            elif reply.stop_reason is not StopReason.PAUSE:
                return


def _consents(tools: ToolRegistry) -> list[str]:
    """Return the names of the functions, which the program has passed and so agreed to."""
    return [
        name
        for name in tools.list_tools()
        if (tool := tools.get(name)) is not None and isinstance(tool.tool, FunctionTool)
    ]
