"""`react`: an agent that thinks, acts and observes in plain text, for any model."""

from collections.abc import Sequence

from greenroom.agents import Agent
from greenroom.llm import LLMProvider
from greenroom.permissions import PermissionManager
from greenroom.planning.recovery import RecoveryPolicy
from greenroom.planning.text_tools import TextTools
from greenroom.runtime import AgentInternals


async def react(
    agent: AgentInternals,
    llm: LLMProvider,
    tools: Sequence[object] = (),
    permissions: PermissionManager | None = None,
    instructions: str = "",
    max_steps: int = 10,
    recovery: RecoveryPolicy | None = None,
) -> None:
    """Answer each input by thought, action and observation, with a model without native tool calls.

    It is an `Agent` whose model is wrapped in `TextTools`: its steps and requests to reformat are
    limited, a repeated action gets a warning and then ends the turn, and an unknown tool is
    answered with the list of tools. `Custom` chunks report each step: `react.thought` (`text`),
    `react.action` (`id`, `tool`, `arguments`) and `react.observation` (`id`, `text`, `is_error`).

    Args:
        agent: given by the runtime.
        llm: the model.
        tools: functions and tools, as for `Agent`.
        permissions: the rules for its calls, as for `Agent`.
        instructions: the system prompt, before the tools and the format.
        max_steps: model calls in a turn; at the last one it has to answer.
        recovery: what to do about errors of the model; each is published as a `recovery` chunk.

    Raises:
        ConfigurationError: an argument makes no sense.

    Example:
        >>> from greenroom.testing import ScriptedProvider, run_agent
        >>> from greenroom.tools import calculator
        >>> llm = ScriptedProvider(
        ...     "Thought: I multiply. Action: {'tool': 'calculator', 'args': {'expression': '15 * 3'}}",
        ...     "Thought: The result is 45. Final Answer: 45",
        ... )
        >>> run_agent(react, llm, [calculator], inputs="What is 15 times 3?").text
        '45'
    """
    loop = Agent(
        TextTools(llm) if recovery is None else recovery.model(llm, use_text_tools=True),
        instructions=instructions,
        tools=tools,
        permissions=permissions,
        max_steps=max_steps,
        name="react",
    )
    await loop(agent)
