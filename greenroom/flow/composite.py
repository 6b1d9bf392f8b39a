"""`composite`: a tool whose steps are calls of other tools."""

from collections.abc import Iterable, Iterator, Mapping
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
from greenroom.flow.execute import execute_plan
from greenroom.flow.graph import suggest
from greenroom.flow.pattern import Pattern, TeamTurn
from greenroom.flow.plan import Plan, Subtask
from greenroom.flow.plan_run import PlanRun
from greenroom.flow.references import fill, references_in
from greenroom.runtime import AgentInternals
from greenroom.tools import ToolRegistry

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
        """Take the arguments that `composite` has checked."""
        self.name = name
        self.description = description
        self.parameters = parameters
        self.plan = plan
        """The steps and the input that they use; `plan.to_mermaid()` draws them."""
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
        """Describe the steps and the input."""
        steps = ", ".join(id_ for id_ in self.plan.order() if id_ != _INPUT)
        return ToolInfo(f"{self.name}: {steps}", serde.dumps(input).decode())

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Make the calls, and return the output as text or JSON.

        Raises:
            ToolError: a step failed, or the output refers to a missing result.
        """
        steps = Pattern(self.name, partial(self._work, input))
        result = await steps.run(serde.dumps(input).decode())
        if result.status is not TurnStatus.COMPLETED:
            raise ToolError(f"{self.name} was {result.status}: {result.error}")
        return ToolResult.ok(serde.to_text(result.output), session_id=result.session.session_id)

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
    """Do nothing: a placeholder, since all steps are calls and the input is completed already."""


def composite(
    name: str,
    steps: Iterable[Subtask],
    output: object,
    *,
    tools: Iterable[object],
    description: str,
    parameters: Mapping[str, object] | None = None,
) -> Composite:
    """Combine calls of other tools in one tool, which a model calls instead of one after the other.

    A step waits for the steps whose results it refers to, as `{place}` or `{place.id}`;
    `{input.city}` refers to the arguments of the tool. Independent steps run in parallel. The
    permission rules apply to each step as if the model had called it, so the tool can't do anything
    that its caller may not. If a step fails, those that depend on it don't run, and the model is
    told which steps were done and which were not.

    Args:
        name: the tool's name.
        steps: subtasks with a `tool` and `arguments`; `execute_plan` carries them out.
        output: the tool's output: a text or a JSON value with references.
        tools: functions and tools that the steps call.
        description: the description for models.
        parameters: the JSON Schema of each parameter by name; all of them are required.

    Raises:
        PlanError: two steps have the same id or wait for each other; a tool, an argument or a
            reference is unknown, or an argument is missing. It names all faults.
        ConfigurationError: there are no steps or no description.
        ToolError: something in `tools` can't be a tool.

    Example:
        >>> from greenroom.flow import Subtask, composite
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
        raise ConfigurationError(f"{name} has no description for the model")
    given, properties, box = tuple(steps), dict(parameters or {}), Toolbox.of(tools)
    if not given:
        raise ConfigurationError(f"{name} has no steps")
    scope = _Scope({step.id for step in given}, properties)
    faults = [fault for step in given for fault in scope.find_faults(step, box.registry)]
    faults += scope.find_wrong_references(output, "the output")
    try:
        plan = Plan(name, (Subtask(_INPUT, ""), *map(scope.link, given)))
    except PlanError as error:
        raise PlanError("; ".join([error.message, *faults]), hint=error.hint) from None
    if faults:
        raise PlanError("; ".join(faults))
    schema: dict[str, object] = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return Composite(name, description, schema, plan, output, box)


class _Scope:
    """What the steps and the output of a composite may refer to."""

    def __init__(self, ids: set[str], properties: Mapping[str, object]) -> None:
        self._ids = ids
        self._properties = properties

    def find_faults(self, step: Subtask, tools: ToolRegistry) -> Iterator[str]:
        """Yield all that is wrong with a step: its tool, its arguments, its references."""
        tool = tools.get(step.tool)
        if tool is None:
            known = ", ".join(tools.list_tools()) or "none"
            yield f"{step.id}: there is no tool {step.tool!r} (tools: {known})"
        else:
            yield from _find_wrong_arguments(step, tool.parameters)
        yield from self.find_wrong_references((step.goal, step.arguments), step.id)

    def find_wrong_references(self, value: object, where: str) -> Iterator[str]:
        """Yield the references in a value that lead nowhere."""
        for name, path in references_in(value):
            if name == _INPUT and path and path.split(".")[0] not in self._properties:
                known = ", ".join(self._properties) or "none"
                yield f"{where}: {{{name}.{path}}} is not a parameter (parameters: {known})"
            elif name != _INPUT and name not in self._ids and path:
                known = ", ".join(sorted(self._ids))
                yield f"{where}: {{{name}.{path}}}: there is no step {name!r} (steps: {known})"

    def link(self, step: Subtask) -> Subtask:
        """Let a step wait for the steps that it refers to."""
        found = (name for name, _ in references_in((step.goal, step.arguments)))
        known = tuple(name for name in found if name == _INPUT or name in self._ids)
        return replace(step, after=(*step.after, *known))


def _find_wrong_arguments(step: Subtask, schema: dict[str, object]) -> Iterator[str]:
    """Yield the arguments that a tool does not take, and those that it needs."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict):
        return
    if schema.get("additionalProperties") is False:
        for name in step.arguments:
            if name not in properties:
                hint = suggest(name, properties) or f"it takes {', '.join(properties)}"
                yield f"{step.id}: {step.tool} takes no {name!r} ({hint})"
    for name in required if isinstance(required, list) else ():
        if name not in step.arguments:
            yield f"{step.id}: {step.tool} needs {name!r}"
