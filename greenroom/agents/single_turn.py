"""`run_turn`: one turn as a function of its messages, without a session, a store or a handle."""

from collections.abc import Iterable, Sequence
from functools import partial

from greenroom.agents.agent import Agent
from greenroom.agents.agent_result import RunReport
from greenroom.agents.agent_run import AgentRun, RunOptions, open_run
from greenroom.core import Message, TurnError, TurnStatus
from greenroom.llm import LLMProvider
from greenroom.permissions import PermissionManager
from greenroom.resilience import Budget
from greenroom.session import AgentSession, MemoryStore
from greenroom.tools import Tool


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

    It is an `Agent` that keeps nothing: the next turn is given the messages of this one, its own, and the
    next question. Inside an agent it is a subagent, with the caller's budgets and denials, and ends with the
    caller's turn; elsewhere it has a runtime of its own. Nobody can be asked: what neither a rule nor the
    program's consent allows is denied, and the model learns why.

    Args:
        llm: the model.
        messages: the conversation, the last message the user's.
        tools: what the model may call.
        system: the system prompt.
        permissions: the rules; by default the functions among the tools may run, as in an `Agent`.
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
    agent = Agent(
        llm,
        instructions=system,
        tools=tuple(tools),
        permissions=permissions,
        max_steps=max_steps,
        budget=budget,
        name="turn",
    )
    session = AgentSession.new("turn", store=MemoryStore())
    for message in history[:-1]:
        session.add_message(message)
    report = RunReport()
    options = RunOptions(
        function=partial(agent, report=report),
        report=report,
        name=agent.name,
        input=history[-1].content,
        sender=history[-1].sender,
        session=session,
    )
    async with open_run(options, AgentRun[str]) as run:
        async for _ in run:
            pass
    result = run.result
    if result.status is not TurnStatus.COMPLETED:
        raise result.error or TurnError(f"the turn was {result.status}")
    return result.messages[1:]
