"""Tools whose steps are calls of other tools: their inputs, permissions and failures."""

import pytest
import trio

from greenroom import (
    Agent,
    PermissionManager,
    PermissionRule,
    SubAgentSpawned,
    ToolError,
    tool,
)
from greenroom.flow import Subtask, composite
from greenroom.flow._internal import PlanError
from greenroom.testing import ScriptedProvider, call

CITY = {"city": {"type": "string"}, "days": {"type": "integer"}}


async def find_place(name: str) -> dict[str, object]:
    """Find a place."""
    if name == "nowhere":
        raise ValueError("there is no such place")
    return {"id": "p1", "name": name.title()}


async def get_weather(place: str, days: int) -> list[str]:
    """Return the weather of some days."""
    await trio.sleep(1)
    return ["rain"] * days


def step(id_, tool, after=(), **arguments):
    return Subtask(id_, "", tool=tool, arguments=arguments, after=after)


STEPS = [
    step("weather", "get_weather", place="{place.id}", days="{input.days}"),
    step("place", "find_place", name="{input.city}"),
]


def forecast(steps=STEPS, output="{weather.0} in {place.name}", **options):
    given = {
        "tools": [find_place, get_weather],
        "description": "Returns the weather.",
        "parameters": CITY,
    }
    return composite("forecast", steps, output, **{**given, **options})


async def run(tool, rules=None, **arguments):
    arguments = arguments or {"city": "oslo", "days": 2}
    llm = ScriptedProvider(call("forecast", **arguments), "Done.")
    permissions = None if rules is None else PermissionManager(rules)
    async with Agent(llm, tools=[tool], permissions=permissions, name="boss").stream("Go") as run:
        chunks = [chunk async for chunk in run]
    return run.result, run.result.messages[2].tool_results[0], chunks


async def test_steps_run_in_the_order_of_what_they_refer_to(autojump_clock):
    result, answer, chunks = await run(forecast())
    assert (answer.text, answer.is_error) == ("rain in Oslo", False)
    names = [chunk.name for chunk in chunks if isinstance(chunk, SubAgentSpawned)]
    assert (names, result.denials) == (["forecast"], ())


async def test_an_output_may_be_a_value(autojump_clock):
    output = {"in": "{place}", "first": "{weather.0}", "days": "{input.days}", "what": "weather"}
    _, answer, _ = await run(forecast(output=output))
    assert (
        answer.text == '{"in":{"id":"p1","name":"Oslo"},"first":"rain","days":2,"what":"weather"}'
    )


async def test_steps_that_wait_for_nothing_run_side_by_side(autojump_clock):
    steps = [step(f"w{n}", "get_weather", place="p", days=1) for n in range(3)]
    start = trio.current_time()
    _, answer, _ = await run(forecast(steps, ["{w0}", "{w2.0}"]))
    assert (answer.text, trio.current_time() - start) == ('[["rain"],"rain"]', 1)


async def test_a_failed_step_ends_those_behind_it_and_the_model_reads_why():
    result, answer, _ = await run(forecast(), city="nowhere", days=1)
    assert answer.is_error
    assert "place: ValueError: there is no such place (done: nothing)" in answer.text
    assert result.output == "Done."


async def test_an_output_that_leads_to_nothing_is_an_error(autojump_clock):
    _, answer, _ = await run(forecast(output="{place.river}"))
    assert "its output: {place.river}: the result of place has no field 'river'" in answer.text


@pytest.mark.parametrize("decision", ["deny_tool", "ask_for_tool"])
async def test_each_step_is_judged_by_the_rules_of_who_calls(decision):
    rule = getattr(PermissionRule, decision)("get_weather")
    allow = PermissionRule.allow_tool("forecast")
    result, answer, _ = await run(forecast(), [allow, rule])
    assert answer.is_error
    assert "(done: place)" in answer.text
    denied = [(each.tool, each.lineage) for each in result.denials]
    assert denied == [("get_weather", ("boss", "forecast", "weather"))]


async def test_a_tool_that_the_program_has_not_written_needs_a_rule():
    @tool(category="write")
    async def publish() -> str:
        """Publish."""
        return "done"

    from greenroom import builtin_tools

    write = step("write", "Write", file_path="x", content="x")
    result, answer, _ = await run(forecast([write], "{write}", tools=builtin_tools()))
    assert answer.is_error
    assert [each.tool for each in result.denials] == ["Write"]


async def test_a_composite_may_be_a_step_of_another_one(autojump_clock):
    outer = composite(
        "outer",
        [step("a", "forecast", city="{input.city}", days=1)],
        "{a}!",
        tools=[forecast()],
        description="Shouts.",
        parameters={"city": {"type": "string"}},
    )
    llm = ScriptedProvider(call("outer", city="rome"), "Done.")
    result = await Agent(llm, tools=[outer]).run("Go.")
    assert result.messages[2].tool_results[0].text == "rain in Rome!"


async def test_it_needs_no_agent_around_it(autojump_clock):
    from greenroom import AgentContext

    result = await forecast().execute(
        {"city": "oslo", "days": 1}, AgentContext(session_id="s", agent_type="a")
    )
    assert result.text == "rain in Oslo"
    with pytest.raises(ToolError, match="there is no such place"):
        await forecast().execute(
            {"city": "nowhere", "days": 1}, AgentContext(session_id="s", agent_type="a")
        )


async def test_what_a_model_writes_is_no_reference(autojump_clock):
    _, answer, _ = await run(forecast(output="{place.name}"), city="{weather} {input.days}", days=1)
    assert answer.text == "{Weather} {Input.Days}"


def test_its_steps_can_be_drawn():
    assert forecast().plan.order() == ("input", "place", "weather")
    assert "place --> weather" in forecast().plan.to_mermaid()


@pytest.mark.parametrize(
    ("error", "match", "options"),
    [
        (
            PlanError,
            "wait for each other",
            {"steps": [step(a, "find_place", name=f"{{{b}}}") for a, b in ("ab", "ba")]},
        ),
        (PlanError, "no tool 'fly'", {"steps": [step("a", "fly")]}),
        (PlanError, "no tool ''", {"steps": [Subtask("a", "Look")]}),
        (PlanError, "there is no step 'river'", {"output": "{river.name}"}),
        (
            PlanError,
            "{input.town} is not a parameter",
            {"steps": [step("a", "find_place", name="{input.town}")]},
        ),
        (PlanError, "2 subtasks", {"steps": STEPS * 2}),
        (PlanError, "no steps", {"steps": []}),
        (PlanError, "no description", {"description": ""}),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_when_it_is_made(error, match, options):
    with pytest.raises(error, match=match):
        forecast(**{"steps": STEPS, **options})


def test_all_faults_are_named_at_once():
    steps = [
        step("a", "find_place", nam="Oslo"),
        step("b", "fly", to="{c.x}"),
        step("c", "get_weather", place="{input.town}", days=1),
    ]
    with pytest.raises(PlanError) as caught:
        forecast(steps=steps, output="{river.name}")
    for fault in (
        "a: find_place: the parameter 'nam' does not exist; there are: name",
        "a: find_place: the parameter 'name' is missing",
        "b: there is no tool 'fly'",
        "c: {input.town} is not a parameter",
        "the output: {river.name}: there is no step 'river'",
    ):
        assert fault in str(caught.value)


async def test_research_and_summarize(autojump_clock):
    """The composite of a search, the pages that it finds, and a summary of them by an agent."""

    async def search(query: str) -> list[str]:
        """Search."""
        return [f"{query} 1", f"{query} 2"]

    async def read(page: str) -> str:
        """Read a page."""
        return f"what {page} says"

    writer = Agent(
        ScriptedProvider(lambda request: f"In short: {request.messages[-1].text}"),
        name="summarize",
        description="Sums up.",
    )
    tool = composite(
        "research_and_summarize",
        [
            step("found", "search", query="{input.topic}"),
            step("first", "read", page="{found.0}"),
            step("second", "read", page="{found.1}"),
            step("short", "summarize", prompt="{first}; {second}"),
        ],
        "{short}",
        tools=[search, read, writer.as_tool()],
        description="Researches a topic.",
        parameters={"topic": {"type": "string"}},
    )
    llm = ScriptedProvider(call("research_and_summarize", topic="cats"), "Thanks.")
    result = await Agent(llm, tools=[tool]).run("Cats?")
    text = result.messages[2].tool_results[0].text
    assert text == "In short: what cats 1 says; what cats 2 says"


def faults(steps=STEPS, output="", **options):
    with pytest.raises(PlanError) as caught:
        forecast(steps, output, **options)
    first, *lines = caught.value.message.split("\n- ")
    assert first == "forecast can't work:"
    return lines


def test_all_faults_are_told_at_once():
    steps = [
        step("a", "fly", where="{river.name}"),
        step("b", "find_place", ["c"], nam="{input.town}"),
        step("c", "get_weather", ["b", "nobody"], place=["p1"], days="{input.days}"),
        step("c", "find_place", name="x"),
    ]
    assert faults(steps, "{d.e}", description="", parameters={"days": {"type": "array"}}) == [
        "a: {river.name}: there is no step 'river' (steps: a, b, c)",
        "a: there is no tool 'fly' (tools: find_place, get_weather)",
        "b: {input.town} is not a parameter (parameters: days)",
        "b: find_place: the parameter 'name' is missing",
        "b: find_place: the parameter 'nam' does not exist; there are: name",
        "c: get_weather: days: expected integer, got array []",
        "c: get_weather: place: expected string, got array ['p1']",
        "the output: {d.e}: there is no step 'd' (steps: a, b, c)",
        "it has no description for the model",
        "2 subtasks are called 'c'; c waits for 'nobody', which is not in the plan",
    ]
    (fault,) = faults(parameters={"city": {"type": "strng"}, "days": {"type": "integer"}})
    assert "broken at properties.city.type" in fault


def test_steps_in_a_cycle_are_told_beside_other_faults():
    knot = [step("a", "find_place", name="{b}"), step("b", "find_place", ["x"], name="{a}")]
    (fault,) = faults(knot)
    assert "x" in fault
    assert "the subtasks wait for each other: a → b → a" in fault


@pytest.mark.parametrize(
    ("wanted", "given", "fits"),
    [
        ("integer", "integer", True),
        ("integer", "string", True),  # a number in a text is read
        ("number", "integer", True),
        ("string", "integer", False),
        ("integer", "array", False),
        ("object", "array", False),
        (["integer", "null"], "integer", True),
        (None, "array", True),
    ],
)
def test_a_parameter_has_to_have_the_type_that_a_step_needs(wanted, given, fits):
    @tool
    def use(value: object) -> str:
        """Use a value."""
        return "used"

    use.parameters["properties"]["value"] = {"type": wanted, "minimum": 5} if wanted else {}
    use_it = [step("a", "use", value="{input.x}")]
    options = {"tools": [use], "parameters": {"x": {"type": given}}}
    if fits:
        forecast(use_it, "", **options)
    else:
        assert "a: use: value: expected" in faults(use_it, **options)[0]


def test_what_a_step_returns_may_be_anything_until_it_runs():
    steps = [
        step("a", "find_place", name="x"),
        step("b", "get_weather", place="{a}", days="{a.id}"),
    ]
    assert forecast(steps, "").plan.order() == ("input", "a", "b")
    steps[1] = step("b", "get_weather", place="{a}", days="soon")
    assert faults(steps) == ["b: get_weather: days: expected integer, got string 'soon'"]


@pytest.mark.parametrize(
    "more",
    [
        {"additionalProperties": {"type": "integer"}},
        {"additionalProperties": False, "patternProperties": {"^x": {"type": "integer"}}},
        {"additionalProperties": True},
    ],
)
def test_a_tool_may_take_parameters_that_it_does_not_name(more):
    @tool
    def use(value: int) -> str:
        """Use a value."""
        return "used"

    use.parameters.update(more)
    use_it = [step("a", "use", value=1, x="{input.days}")]
    assert forecast(use_it, "", tools=[use]).plan.order() == ("input", "a")


def nest(depth):
    made = forecast([step("a", "find_place", name="{input.city}")], "{a.name}")
    for number in range(depth - 1):
        names = {"tools": [made], "description": "Nests.", "parameters": CITY}
        inside = step("a", made.name, city="{input.city}", days="{input.days}")
        made = composite(f"nest{number}", [inside], "{a}", **names)
    return made


async def test_composites_nest_as_deep_as_agents_may(autojump_clock):
    made = nest(7)
    llm = ScriptedProvider(call(made.name, city="rome", days=1), "Done.")
    result = await Agent(llm, tools=[made]).run("Go.")
    assert result.messages[2].tool_results[0].text == "Rome"
    with pytest.raises(PlanError, match="8 agents run inside each other: an agent → this tool"):
        nest(8)
