"""`composite`: a tool whose steps are calls of other tools."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from greenroom.agents import Tools
from greenroom.agents._internal import Toolbox, check_depth
from greenroom.core import (
    AgentContext,
    ConfigurationError,
    ToolError,
    ToolInfo,
    ToolResult,
    TurnStatus,
)
from greenroom.core._internal import serde
from greenroom.flow.errors import PlanError, TeamError
from greenroom.flow.execute import execute_plan
from greenroom.flow.pattern import Pattern, TeamTurn
from greenroom.flow.plan import Plan, Subtask, find_tool
from greenroom.flow.plan_run import PlanRun, find_open_run
from greenroom.flow.references import fill, references_in
from greenroom.runtime import AgentInternals
from greenroom.schemas._internal import InputValidator
from greenroom.tools import Tool

_INPUT = "input"
_NAMES = ("type", "required", "$defs", "definitions")
"""What is kept of a tool's schema, beside its properties, to check arguments with references."""

_SAMPLES = {"integer": 0, "number": 0, "boolean": True, "array": [], "object": {}}
"""A value of each type. A string has none: a number may be written in it."""


@dataclass(eq=False, repr=False)
class Composite:
    """A tool whose steps are calls of other tools; made by `composite`.

    Attributes:
        plan: the steps and the input that they use; `plan.to_mermaid()` draws them.
    """

    category = "agent"
    requires_permission = False  # each of its steps is judged
    continues = True  # made again after a kill, the call goes on with its steps
    concurrent = False
    timeout = 24 * 3600.0

    name: str
    description: str
    parameters: dict[str, object]
    plan: Plan
    output: object
    box: Toolbox

    @property
    def chain(self) -> tuple["Composite", ...]:
        """The longest chain of composites in composites, from this one on."""
        return (self, *_find_chain(self.box))

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
        run = find_open_run(team.agent.session, self.name, was_answered=False)
        if run is None or _INPUT not in run.results:
            run = PlanRun(self.plan).start(_INPUT, "").complete(_INPUT, input)
        run = await execute_plan(team.agent, run, _never, tools=self.box.registry)
        if not run.is_completed:
            errors = ((id_, state.error) for id_, state in run.states.items() if state.error)
            failed = "; ".join(f"{id_}: {error}" for id_, error in errors)
            done = ", ".join(id_ for id_ in run.results if id_ != _INPUT) or "nothing"
            raise TeamError(f"{failed} (done: {done})")
        output = Subtask("output", "", self.plan.ids, self.name, {"": self.output})
        try:
            return fill(output, run, {}).arguments[""]
        except PlanError as error:
            raise TeamError(f"its output: {error}") from None


async def _never(agent: AgentInternals) -> None:
    """Do nothing: a placeholder, since all steps are calls and the input is completed already."""


def composite(
    name: str,
    steps: Iterable[Subtask],
    output: object,
    *,
    tools: Tools,
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
        PlanError: it can't work; the message lists all faults: no steps or no description, two
            steps of one id, steps that wait for each other, an unknown tool or reference, arguments
            that don't fit the schema of their tool, composites nested too deep.
        ToolError: something in `tools` can't be a tool.

    Example:
        >>> from greenroom.flow import composite
        >>> from greenroom.flow.plan import Subtask
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
    box, properties = Toolbox.of(tools), dict(parameters or {})
    check = _Check(tuple(steps), box, properties)
    faults = [*check.find_faults(output)]
    if not description:
        faults.append("it has no description for the model")
    schema: dict[str, object] = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    made = None
    try:
        InputValidator(name, schema)
    except ToolError as error:
        faults.append(error.message)
    try:
        made = Composite(name, description, schema, check.plan(name), output, box)
    except PlanError as error:
        faults.append(error.message)
    if faults or made is None:
        raise PlanError("\n- ".join([f"{name} can't work:", *faults]))
    return made


def _find_chain(box: Toolbox) -> tuple[Composite, ...]:
    """Return the longest chain of composites that begins with one of these tools."""
    tools = (getattr(box.registry.get(each), "tool", None) for each in box.registry.list_tools())
    chains = (each.chain for each in tools if isinstance(each, Composite))
    return max(chains, key=len, default=())


@dataclass(frozen=True)
class _Check:
    """The checks of the steps of a composite, all of which are made before it is refused."""

    steps: tuple[Subtask, ...]
    box: Toolbox
    properties: Mapping[str, object]

    def plan(self, name: str) -> Plan:
        """Let each step wait for the steps that it refers to.

        Raises:
            PlanError: two steps have one id, or steps wait for each other.
        """
        linked = (
            replace(each, after=(*each.after, *self._names_in((each.goal, each.arguments))))
            for each in self.steps
        )
        return Plan(name, (Subtask(_INPUT, ""), *linked))

    def find_faults(self, output: object) -> Iterator[str]:
        """Yield what can't work in the steps and in the output."""
        if not self.steps:
            yield "it has no steps"
        if chain := _find_chain(self.box):
            try:
                check_depth(chain[-1], ("an agent", "this tool", *chain[:-1]))
            except ConfigurationError as error:
                yield error.message
        for step in self.steps:
            yield from self._find_unknown((step.goal, step.arguments), step.id)
            try:
                yield from self._find_misfits(step, find_tool(step, self.box.registry))
            except PlanError as error:
                yield str(error)
        yield from self._find_unknown(output, "the output")

    @property
    def _ids(self) -> set[str]:
        return {_INPUT, *(step.id for step in self.steps)}

    def _names_in(self, value: object) -> list[str]:
        """Return the input and the steps that a value refers to."""
        return [name for name, _ in references_in(value) if name in self._ids]

    def _find_unknown(self, value: object, where: str) -> Iterator[str]:
        """Yield the references to what does not exist."""
        for name, path in references_in(value):
            if name == _INPUT and path and path.split(".")[0] not in self.properties:
                known = ", ".join(self.properties) or "none"
                yield f"{where}: {{{name}.{path}}} is not a parameter (parameters: {known})"
            elif path and name not in self._ids:
                known = ", ".join(sorted(self._ids - {_INPUT}))
                yield f"{where}: {{{name}.{path}}}: there is no step {name!r} (steps: {known})"

    def _find_misfits(self, step: Subtask, tool: Tool) -> Iterator[str]:
        """Yield how the arguments of a step don't fit its tool, as far as that is known now.

        Of an argument with references only the type is checked, if the parameter has one.
        """
        wanted = tool.parameters.get("properties")
        properties = dict(wanted) if isinstance(wanted, Mapping) else {}
        arguments = dict(step.arguments)
        for name, value in step.arguments.items():
            if self._names_in(value) and name in properties:
                arguments[name], properties[name] = self._sample(value, properties[name])
        schema = {key: tool.parameters[key] for key in _NAMES if key in tool.parameters}
        schema["properties"] = properties
        if "patternProperties" not in tool.parameters:
            schema["additionalProperties"] = (
                tool.parameters.get("additionalProperties") is not False
            )
        fault = InputValidator(tool.name, schema).fault(arguments)
        for line in (fault or "").splitlines()[1:]:
            yield f"{step.id}: {tool.name}: {line.removeprefix('- ')}"

    def _sample(self, value: object, schema: object) -> tuple[object, dict[str, object]]:
        """Return a value like the one that an argument will have, and what it has to fit."""
        wanted = schema.get("type") if isinstance(schema, Mapping) else None
        names = references_in(value)
        parameter = self.properties.get(names[0][1]) if names[0][0] == _INPUT else None
        is_whole = value == f"{{{_INPUT}.{names[0][1]}}}"
        kind = parameter.get("type") if isinstance(parameter, Mapping) and is_whole else None
        sample = _SAMPLES.get(kind) if isinstance(kind, str) else None
        return sample, {"type": wanted} if wanted and sample is not None else {}
