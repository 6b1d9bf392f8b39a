"""`composite`: a tool whose steps are calls of other tools."""

from collections.abc import Iterable, Mapping
from functools import partial

from msgspec.structs import replace

from greenroom.agents import Toolbox
from greenroom.core import (
    AgentContext,
    ConfigurationError,
    PlanError,
    TeamError,
    ToolError,
    ToolInfo,
    ToolResult,
    TurnStatus,
    serde,
)
from greenroom.planning import Plan, PlanRun, Subtask, execute_plan, fill, references_in
from greenroom.runtime import AgentInternals
from greenroom.teams.pattern import Pattern, TeamTurn, as_text

_INPUT = "input"


class Composite:
    """A tool whose steps are calls of other tools; made by `composite`."""

    category = "agent"
    requires_permission = False  # each of its steps is judged
    concurrent = False
    timeout = 24 * 3600.0

    def __init__(
        self,
        name: str,
        description: str,
        parameters: dict[str, object],
        plan: Plan,
        output: object,
        box: Toolbox,
    ) -> None:
        """Take what `composite` has checked."""
        self.name = name
        self.description = description
        self.parameters = parameters
        self.plan = plan
        """Its steps, and the input that they wait for; `plan.to_mermaid()` draws them."""
        self._output = Subtask(
            "output",
            "",
            tool=name,
            arguments={"": output},
            after=tuple(each.id for each in plan.subtasks),
        )
        self._box = box

    def __repr__(self) -> str:
        return f"<tool {self.name}>"

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Say which steps are to be made, and with what."""
        steps = ", ".join(id_ for id_ in self.plan.order() if id_ != _INPUT)
        return ToolInfo(f"{self.name}: {steps}", serde.dumps(input).decode())

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Make the calls, and return the output as text or JSON.

        Raises:
            ToolError: one of the steps was not done, or the output can't be made of the results.
        """
        steps = Pattern(self.name, partial(self._work, input))
        result = await steps.run(serde.dumps(input).decode())
        if result.status is not TurnStatus.COMPLETED:
            raise ToolError(f"{self.name} was {result.status}: {result.error}")
        return ToolResult.ok(as_text(result.output), session_id=result.session.session_id)

    async def _work(self, input: dict[str, object], team: TeamTurn) -> object:  # noqa: A002
        run = PlanRun(self.plan).start(_INPUT, "").complete(_INPUT, input)
        run = await execute_plan(team.agent, run, _never, tools=self._box.registry)
        if not run.is_completed:
            failed = "; ".join(f"{id_}: {error}" for id_, error in run.errors.items())
            done = ", ".join(id_ for id_ in run.results if id_ != _INPUT) or "nothing"
            raise TeamError(f"{failed} (done: {done})")
        try:
            return fill(self._output, run, {}).arguments[""]
        except PlanError as error:
            raise TeamError(f"its output: {error}") from None


async def _never(agent: AgentInternals) -> None:
    """Stand for an agent that is never asked: all steps are calls, and the input is there already."""


def composite(
    name: str,
    steps: Iterable[Subtask],
    output: object,
    *,
    tools: Iterable[object],
    description: str,
    parameters: Mapping[str, object] | None = None,
) -> Composite:
    """Make one tool of calls of others, which a model then calls instead of one after the other.

    A step waits for those whose results it names, `{place}` or `{place.id}`, and `{input.city}` is what the
    tool is called with; what waits for nothing more runs side by side. Each step is judged by the rules as
    if the model had called it: the tool can do nothing that its caller may not. A step that fails ends
    those that wait for it; then the model is told what was done and what was not.

    Args:
        name: the tool's name.
        steps: subtasks with a `tool` and `arguments`; `execute_plan` carries them out.
        output: what the tool answers with: a text or a JSON value with references.
        tools: functions and tools that the steps call.
        description: what it is good for, for a model.
        parameters: the JSON Schema of each of its parameters, by their names; all of them are required.

    Raises:
        PlanError: two steps have one id, they wait for each other, one of them calls no tool or one that
            is not there, or a reference leads nowhere.
        ConfigurationError: there are no steps, or there is no description.
        ToolError: something in `tools` can't be a tool.

    Example:
        >>> from greenroom.planning import Subtask
        >>> from greenroom.teams import composite
        >>> def find_place(name: str) -> dict[str, str]:
        ...     "Find a place."
        ...     return {"id": "p1", "name": name.title()}
        >>> def get_weather(place: str) -> str:
        ...     "Return the weather at a place."
        ...     return "rain"
        >>> weather = composite(
        ...     "weather_in",
        ...     [
        ...         Subtask("place", "", tool="find_place", arguments={"name": "{input.city}"}),
        ...         Subtask("weather", "", tool="get_weather", arguments={"place": "{place.id}"}),
        ...     ],
        ...     "{weather} in {place.name}",
        ...     tools=[find_place, get_weather],
        ...     description="Returns the weather in a city.",
        ...     parameters={"city": {"type": "string"}},
        ... )
        >>> from greenroom import Agent
        >>> from greenroom.testing import ScriptedProvider, call
        >>> llm = ScriptedProvider(call("weather_in", city="oslo"), "Take an umbrella.")
        >>> result = Agent(llm, tools=[weather]).run_sync("How is it in Oslo?")
        >>> result.messages[2].tool_results[0].text
        'rain in Oslo'
    """
    if not description:
        raise ConfigurationError(f"a model that may call {name} has to be told what it is good for")
    given, properties, box = tuple(steps), dict(parameters or {}), Toolbox.of(tools)
    if not given:
        raise ConfigurationError(f"{name} has no steps")
    ids = {step.id for step in given}
    for step in given:
        if box.registry.get(step.tool) is None:
            known = ", ".join(box.registry.list_tools()) or "none"
            raise PlanError(f"{step.id}: there is no tool {step.tool!r}", hint=f"tools: {known}")
    plan = Plan(name, (Subtask(_INPUT, ""), *(_link(step, ids, properties) for step in given)))
    _names_in(output, "the output", ids, properties)
    schema: dict[str, object] = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return Composite(name, description, schema, plan, output, box)


def _link(step: Subtask, ids: set[str], properties: Mapping[str, object]) -> Subtask:
    """Let a step wait for those whose results it names."""
    names = _names_in((step.goal, step.arguments), step.id, ids, properties)
    return replace(step, after=(*step.after, *names))


def _names_in(
    value: object, where: str, ids: set[str], properties: Mapping[str, object]
) -> tuple[str, ...]:
    """Return the steps that a value refers to.

    Raises:
        PlanError: a reference leads nowhere.
    """
    found = []
    for name, path in references_in(value):
        if name == _INPUT and path and path.split(".")[0] not in properties:
            hint = f"parameters: {', '.join(properties) or 'none'}"
            raise PlanError(f"{where}: {{{name}.{path}}} is not a parameter", hint=hint)
        if name == _INPUT or name in ids:
            found.append(name)
        elif path:
            raise PlanError(
                f"{where}: {{{name}.{path}}}: there is no step {name!r}",
                hint=f"steps: {', '.join(sorted(ids))}",
            )
    return tuple(found)
