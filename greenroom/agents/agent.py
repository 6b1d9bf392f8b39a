"""`Agent`: a model, its instructions and its tools, as one value that can be run."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NewType, cast, get_origin

from msgspec import UNSET
from typing_extensions import TypeVar

from greenroom.agents.agent_result import RunReport
from greenroom.agents.agent_run import AgentRun, RunOptions, open_run
from greenroom.agents.bound_agent import to_json_value
from greenroom.agents.configuration import (
    Toolbox,
    Tools,
    check_tools,
    list_items,
    list_tools,
    read_capabilities,
    tool_name,
    warn_of_near_names,
)
from greenroom.agents.cut_off import last_reply
from greenroom.agents.guards import Guard
from greenroom.agents.handoff import Team, check_handoffs
from greenroom.agents.run_context import RunContext, check_deps, takes_run_context
from greenroom.agents.runnable import Runnable
from greenroom.agents.steps import Steps
from greenroom.core import (
    ConfigurationError,
    Message,
    StopReason,
    ToolUseBlock,
    TurnError,
    TurnStatus,
)
from greenroom.llm import LLMProvider, ModelOutputError, ModelSettings
from greenroom.llm._internal import ANSWER_TOOL, OutputType, check_window
from greenroom.memory import Memory
from greenroom.permissions import PermissionManager
from greenroom.resilience import Budget
from greenroom.runtime import AgentInternals
from greenroom.session import AgentSession, InMemoryStore

if TYPE_CHECKING:
    from typing_extensions import TypeForm


DepsT = TypeVar("DepsT", default=None)
OutputT_co = TypeVar("OutputT_co", default=str, covariant=True)
OtherT = TypeVar("OtherT")


_SETTINGS = ModelSettings()


@dataclass(frozen=True, eq=False, repr=False)
class Agent(Runnable[DepsT, OutputT_co]):
    """A model with instructions and tools: a frozen configuration, and an agent function.

    `run` and `run_sync` answer one input; `stream` also shows the answer as it is written.
    `runtime.spawn(session, agent)` starts it like any other agent function. All of them run the
    same loop, `__call__`. Nothing is written to disk unless you pass a `session`, a `store`, or a
    `runtime` that has a store.

    Functions in `tools` may be called: passing one is consent. Other tools that write, run programs
    or use the network, and all tools of servers, need a rule, or a person who agrees. Without
    either, the call is denied and listed in `result.denials`.

    In a tool call or task of another agent, an `Agent` runs as its subagent: under its budgets,
    ended with its turn, and denied all that is denied to it.

    Args:
        llm: the name of a model, such as "anthropic:claude-sonnet-5-5", or a provider.
        instructions: the system prompt, or a function of the `RunContext` that returns it for each
            model call.
        tools: functions and tools, or a function of the `RunContext` that returns them for each
            step.
        deps_type: the type of the `deps` that are passed to `run`.
        output_type: the type of a run's output: a text by default, or a pydantic model, dataclass,
            TypedDict, msgspec struct or plain type. The model's answer is validated against it.
        output_retries: how often the model is asked again after an invalid answer.
        window: the tokens that the model takes, request and reply together, before a conversation
            is shortened; else what its server or the catalogue says, as for `open_model`.
        permissions: the rules for its tool calls; the default is described above.
        memory: what it keeps across conversations. Each turn begins with what the memory finds for
            the input; text that no longer fits the model's window is added to the memory.
        recall_threshold: the lowest score that a memory needs to be put before a turn, from 0,
            which takes the best however bad they are, to 1; what a score is, the memory says.
        budget: limits for each turn, and for all that the turn runs.
        max_steps: model calls per turn. The last one has no tools, so there is always an answer.
        settings: how the model is asked: its sampling, how hard it thinks, how long a reply may be.
        guards: functions that check inputs, streaming text and outputs; see `Guard`.
        handoffs: agents to which it may pass the conversation, or names of agents that the one
            being run can reach. The model gets a tool for each, called `transfer_to_` and the name.
        capabilities: words for what it is good at, used to choose between several agents.
        name: a name for people, logs and sessions.
        description: what it is good for, for a model that may call it.

    Raises:
        TypeError: a tool, a function of the configuration or an agent in `handoffs` wants other
            `deps` than `deps_type`.
        ToolError: something in `tools` can't be a tool.
        ConfigurationError: another argument is invalid.

    Example:
        >>> from greenroom.testing import ScriptedProvider, call
        >>> def get_weather(city: str) -> str:
        ...     \"\"\"Return the weather in a city.\"\"\"
        ...     return f"It rains in {city}."
        >>> llm = ScriptedProvider(call("get_weather", city="Tokyo"), "Take an umbrella.")
        >>> agent = Agent(llm, instructions="Be brief.", tools=[get_weather])
        >>> agent.run_sync("What is the weather in Tokyo?").output
        'Take an umbrella.'
    """

    llm: LLMProvider | str
    _: KW_ONLY
    instructions: str | Callable[[RunContext[DepsT]], str | Awaitable[str]] = ""
    tools: Tools | Callable[[RunContext[DepsT]], Tools | Awaitable[Tools]] = ()
    deps_type: type[DepsT] | None = None
    output_type: "TypeForm[OutputT_co]" = str  # type: ignore[assignment]  # the default of OutputT_co
    output_retries: int = 2
    window: int | None = None
    permissions: PermissionManager | None = None
    memory: Memory | None = None
    recall_threshold: float = 0.0
    budget: Budget | None = None
    max_steps: int = 10
    settings: ModelSettings = _SETTINGS
    guards: Sequence[Guard[DepsT]] = ()
    handoffs: "Sequence[Agent[DepsT, object] | str]" = ()
    capabilities: Sequence[str] = ()
    name: str = "agent"
    description: str = ""
    toolbox: Toolbox = field(init=False, repr=False)
    """The tools, ready to be called; empty if a function returns them for each step."""
    output: OutputType[OutputT_co] | None = field(init=False, repr=False)
    """How to ask a model for a value of the `output_type`; None for a text."""
    _original: "Agent[DepsT, OutputT_co] | None" = field(default=None, init=False, repr=False)

    def __repr__(self) -> str:
        return f"Agent({self.llm!r}, name={self.name!r})"

    @property
    def identity(self) -> object:
        """The agent itself, or the one of which `replace_tools` made this copy."""
        return self._original or self

    asks_in_doubt = True

    def continues(self, call: ToolUseBlock) -> bool:
        """Whether a call of it, or of one it hands over to, goes on when it is made again."""
        return Team.of(self).continues(call)

    def read_answer(self, session: AgentSession) -> object:
        """Return the output in a session whose last input was answered, else `msgspec.UNSET`."""
        reply, results = last_reply(session)
        if self.output is None or reply is None or reply.stop_reason is StopReason.INTERRUPTED:
            return super().read_answer(session)
        is_last = session.history[-1] is reply or any(
            call.name == ANSWER_TOOL and call.id in {each.tool_use_id for each in results}
            for call in reply.tool_uses
        )
        try:
            return self.output.read(reply) if is_last else UNSET
        except ModelOutputError:
            return UNSET

    def replace_tools(
        self, tools: Tools | Callable[[RunContext[DepsT]], Tools | Awaitable[Tools]]
    ) -> "Agent[DepsT, OutputT_co]":
        """Return a copy with these tools. It still counts as the same agent in chains of calls."""
        return self._replace(tools=tools)

    def replace_model(self, llm: LLMProvider | str) -> "Agent[DepsT, OutputT_co]":
        """Return a copy with this model. It still counts as the same agent in chains of calls."""
        return self._replace(llm=llm)

    def replace_output(self, output_type: "TypeForm[OtherT]") -> "Agent[DepsT, OtherT]":
        """Return a copy with this type of output. It still counts as the same agent."""
        return cast("Agent[DepsT, OtherT]", self._replace(output_type=output_type))

    def replace_settings(self, settings: ModelSettings) -> "Agent[DepsT, OutputT_co]":
        """Return a copy with these settings where they are given, else its own."""
        return self._replace(settings=self.settings.merge(settings))

    def _replace(self, **changes: object) -> "Agent[DepsT, OutputT_co]":
        copy = replace(self, **changes)  # type: ignore[arg-type]  # typed by who calls it
        object.__setattr__(copy, "_original", self.identity)
        return copy

    async def __call__(
        self,
        internals: AgentInternals,
        deps: DepsT = None,  # type: ignore[assignment]  # checked below
        report: RunReport | None = None,
        team: Team[DepsT] | None = None,
    ) -> None:
        """Answer each input: the agent function, for `runtime.spawn(session, agent, deps)`.

        Args:
            internals: passed by the runtime.
            deps: as for `run`.
            report: passed by `run`; collects what chunks don't say about its single turn.
            team: the agents that share the conversation; by default all that this one can reach.

        Raises:
            TypeError: the runtime has not called it, or `deps` is not of the agent's `deps_type`.
        """
        if not isinstance(internals, AgentInternals):
            raise TypeError("the runtime calls an agent: write agent.run(…) or agent.run_sync(…)")
        self._check_deps(deps)
        steps = Steps(team or Team.of(self), internals, deps, report or RunReport())
        async for message in internals.inputs():
            current = steps.find_current()
            async with internals.turn(message, append=not current.checks_inputs) as turn:
                with steps.turn(turn):
                    await steps.begin(message)
                    while (calls := await steps.reply()) is not None:
                        await steps.run_tools(calls)
                    turn.set_result(to_json_value(steps.value))

    def __post_init__(self) -> None:
        _check_arguments(self)
        tools = self.tools if callable(self.tools) else list_tools(self.tools)
        object.__setattr__(self, "tools", tools)
        output = None if self.output_type is str else OutputType(self.output_type)
        object.__setattr__(self, "output", output)
        object.__setattr__(self, "toolbox", Toolbox.of(() if callable(tools) else tools))
        for what in ("instructions", "tools"):
            given = getattr(self, what)
            if callable(given):
                check_deps(f"{what}=", given, self.deps_type)
        for what in ("guards", "handoffs", "capabilities"):
            object.__setattr__(self, what, tuple(getattr(self, what)))
        for guard in self.guards:
            check_deps(f"the guard {guard.name}", guard.check, self.deps_type)
        if not callable(tools):
            check_tools(tools, self.deps_type)
            if self.permissions is not None:
                warn_of_near_names(self.permissions.rules, self.toolbox.names)
        check_handoffs(self)


def _check_arguments(agent: Agent[DepsT, OutputT_co]) -> None:
    """Refuse invalid arguments, with a hint at what was probably meant."""
    models = 'write "anthropic:claude-sonnet-5-5", or a provider'
    rules = 'write permissions=PermissionManager([PermissionRule.allow_tool("deploy")])'
    guards = list_items(agent.guards, "guards", "[Guard(check)]")
    handoffs = list_items(agent.handoffs, "handoffs", "[sales, 'support']")
    for given, kind, what, hint in (
        (agent.llm, str | LLMProvider, "a model", models),
        (agent.memory, Memory | None, "a memory", "write memory=SQLiteMemory('memory.db')"),
        (agent.settings, ModelSettings, "settings", "write settings=ModelSettings(temperature=0)"),
        (agent.budget, Budget | None, "a budget", "write budget=Budget(tokens=100_000)"),
        (agent.permissions, PermissionManager | None, "a PermissionManager", rules),
        (agent.name, str, "a name, which is a text", ""),
        (agent.description, str, "a description, which is a text", ""),
        *((each, Guard, "a guard", "write Guard(function)") for each in guards),
        *((each, Agent | str, "an agent or the name of one", "") for each in handoffs),
    ):
        if not isinstance(given, kind) or isinstance(given, type):
            shown = f"a {type(given).__name__}" if isinstance(given, list | tuple) else repr(given)
            raise ConfigurationError(f"{shown} is not {what}", hint=hint)
    read_capabilities(agent.capabilities)
    if isinstance(agent.max_steps, bool) or not isinstance(agent.max_steps, int):
        raise ConfigurationError(f"max_steps is {agent.max_steps!r}", hint="give a whole number")
    if agent.max_steps < 1:
        raise ConfigurationError(f"max_steps is {agent.max_steps}", hint="give 1 or more")
    if agent.output_retries < 0:
        raise ConfigurationError(f"output_retries is {agent.output_retries}", hint="0 asks once")
    if not 0 <= agent.recall_threshold <= 1:
        raise ConfigurationError(
            f"recall_threshold is {agent.recall_threshold}", hint="give a score from 0 to 1"
        )
    check_window(agent.window)
    if callable(agent.tools) and not takes_run_context(agent.tools):
        name = tool_name(agent.tools)
        raise ConfigurationError(
            f"tools is the function {name}, which takes no RunContext",
            hint=f"write tools=[{name}]; a function here returns the tools of a step",
        )
    if not callable(agent.instructions) and not isinstance(agent.instructions, str):
        raise ConfigurationError(f"instructions are a text, not {agent.instructions!r}")
    wanted: object = agent.deps_type
    if wanted is not None and not get_origin(wanted) and not isinstance(wanted, type | NewType):
        raise ConfigurationError(
            f"deps_type is {wanted!r}, which is not a type",
            hint="pass the type here, and the value to run(…, deps=…)",
        )


async def run_turn(
    llm: LLMProvider | str,
    messages: Sequence[Message],
    tools: Tools = (),
    *,
    instructions: str = "",
    permissions: PermissionManager | None = None,
    max_steps: int = 10,
    budget: Budget | None = None,
) -> tuple[Message, ...]:
    """Run one turn over messages, with its tool calls, and return the new messages.

    It is an `Agent` that keeps nothing: for the next turn, pass all messages so far and the next
    question. Inside an agent it is a subagent, with the caller's budgets and denials, and ends with
    the caller's turn; elsewhere it has a runtime of its own. Nobody can be asked: a call that
    neither a rule nor the program's consent allows is denied, and the model is told why.

    Args:
        llm: the model.
        messages: the conversation; the last message is the user's.
        tools: the tools that the model may call.
        instructions: the system prompt.
        permissions: the rules; by default the functions among the tools may run, as in an `Agent`.
        max_steps: the most model calls; the last one may choose no tool.
        budget: limits for the turn.

    Returns:
        The replies and the results of their calls, in order; the last one is the answer.

    Raises:
        TypeError: something in `messages` is not a `Message`, such as a dict.
        ValueError: there is no message, the last one is not the user's, or no step is allowed.
        TurnError: the turn was interrupted.
        GreenroomError: what ended the turn, such as a `ModelError` or a `BudgetExceededError`.

    Example:
        ```python
        messages = [Message.user("What is the weather in Tokyo?")]
        llm = open_model("anthropic:claude-sonnet-5-5")
        messages += await run_turn(llm, messages, [get_weather])
        print(messages[-1].text)
        ```
    """
    history = tuple(messages)
    for each in history:
        if not isinstance(each, Message):
            raise TypeError(
                f"{each!r} is not a message: write Message.user(…) or Message.assistant(…)"
            )
    if not history or history[-1].role != "user":
        raise ValueError("the last message is the user's: write messages=[…, Message.user(text)]")
    if max_steps < 1:
        raise ValueError(f"a turn has at least one step, not {max_steps}")
    agent = Agent(
        llm,
        instructions=instructions,
        tools=tools,
        permissions=permissions,
        max_steps=max_steps,
        budget=budget,
        name="turn",
    )
    async with open_run(_options_for(agent, history), AgentRun[str]) as run:
        async for _ in run:
            pass
    result = run.result
    if result.status is not TurnStatus.COMPLETED:
        raise result.error or TurnError(f"the turn was {result.status}")
    return result.messages[1:]


def _options_for(agent: Agent[None, str], history: Sequence[Message]) -> RunOptions:
    """Make the last message the input of a run, and a session in memory of those before it."""
    session = AgentSession.new("turn", store=InMemoryStore())
    for message in history[:-1]:
        session.add_message(message)
    report = RunReport()
    return RunOptions(
        function=partial(agent, report=report),
        report=report,
        name=agent.name,
        input=history[-1].content,
        sender=history[-1].sender,
        session=session,
    )
