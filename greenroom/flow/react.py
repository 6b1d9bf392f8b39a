"""`react`: an agent that thinks, acts and observes in words, with any model."""

from functools import partial

from greenroom.agents import Agent, Tools
from greenroom.flow.recovery_policy import RecoveryPolicy
from greenroom.flow.text_tools import TextTools
from greenroom.flow.wrapped_agent import WrappedAgent
from greenroom.llm import LLMProvider
from greenroom.memory import Memory
from greenroom.permissions import PermissionManager
from greenroom.resilience import Budget


def react(
    llm: LLMProvider | str,
    tools: Tools = (),
    *,
    instructions: str = "",
    permissions: PermissionManager | None = None,
    memory: Memory | None = None,
    budget: Budget | None = None,
    max_steps: int = 10,
    recovery: RecoveryPolicy | None = None,
    deps_type: type[object] | None = None,
    name: str = "react",
    description: str = "",
) -> WrappedAgent[object, str]:
    """Return an agent that answers by thought, action and observation, without native tool calls.

    It runs, nests and is delegated to like an `Agent`, and is one whose model is wrapped in
    `TextTools`: its steps and requests to reformat are limited, a repeated action gets a warning
    and then ends the turn, and an unknown tool is answered with the list of tools. `Custom` chunks
    report each step: `react.thought` (`text`), `react.action` (`id`, `tool`, `arguments`) and
    `react.observation` (`id`, `text`, `is_error`).

    Args:
        llm: the model, or its name.
        tools: functions and tools, as for `Agent`, as are the others.
        instructions: the system prompt, before the tools and the format.
        permissions: the rules for its calls.
        memory: what it keeps across conversations.
        budget: limits for each turn.
        max_steps: model calls in a turn; at the last one it has to answer.
        recovery: what to do about errors of the model; each is published as a `recovery` chunk.
        deps_type: the type of the `deps` that are passed to `run`.
        name: the name for people, logs and models.
        description: what it is good for, for a model that may call it.

    Raises:
        ConfigurationError: an argument makes no sense.
        ToolError: something in `tools` can't be a tool.

    Example:
        >>> from greenroom.flow import react
        >>> from greenroom.testing import ScriptedProvider
        >>> from greenroom.tools import calculator
        >>> llm = ScriptedProvider(
        ...     "I multiply. Action: {'tool': 'calculator', 'args': {'expression': '15 * 3'}}",
        ...     "Thought: The result is 45. Final Answer: 45",
        ... )
        >>> react(llm, [calculator]).run_sync("What is 15 times 3?").output
        '45'
    """
    thinker = Agent(
        llm,
        instructions=instructions,
        tools=tools,
        permissions=permissions,
        memory=memory,
        budget=budget,
        max_steps=max_steps,
        deps_type=deps_type,
        name=name,
        description=description,
    )

    wrap = partial(recovery.model, use_text_tools=True) if recovery else TextTools
    return WrappedAgent(thinker, wrap=wrap)
