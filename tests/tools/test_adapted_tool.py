"""`as_tool`: functions, and tools of other shapes, run as ours do."""

import threading
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pytest

from greenroom.core import AgentContext, Contact, ToolError, ToolResult, ToolStatus
from greenroom.tools import Tool, ToolRegistry, as_tool, builtin_tools, tool

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}


@pytest.fixture
def context():
    return AgentContext(session_id="s-1", agent_type="test")


@dataclass(frozen=True)
class Schema:
    """A schema that has the description too."""

    name: str = "forecast"
    description: str = "Say what the weather will be."
    parameters: dict[str, Any] = field(default_factory=lambda: dict(SCHEMA))


class Status(Enum):
    SUCCESS = "success"
    ERROR = "error"
    TIMEOUT = "TIMEOUT"


@dataclass
class Result:
    """A result of somebody else's type."""

    content: str
    status: Status = Status.SUCCESS
    error_message: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class Answer:
    """Another one."""

    content: str
    is_error: bool = False


class ByDict:
    name = "forecast"
    schema = Schema()

    async def execute(self, arguments):
        return f"{arguments['city']} {arguments.get('days', 1)}"


class ByKeyword:
    name = "forecast"
    description = "Say what the weather will be."
    parameters_schema = SCHEMA

    async def execute(self, **kwargs):
        return f"{kwargs['city']} {kwargs.get('days', 1)}"


class ByName(ByKeyword):
    def execute(self, city, days=1, *, units="metric"):
        assert threading.current_thread() is not threading.main_thread()
        return f"{city} {days}"


class WithContext:
    name = "forecast"
    description = "Say what the weather will be."
    parameters = SCHEMA

    async def execute(self, input, context, retries=None):
        assert context.session_id == "s-1"
        return ToolResult.ok(f"{input['city']} {input.get('days', 1)}")


async def forecast(city: str, days: int = 1) -> str:
    """Say what the weather will be."""
    return f"{city} {days}"


@pytest.mark.parametrize(
    "thing",
    [ByDict(), ByKeyword(), ByName(), forecast],
    ids=["dict", "keywords", "name", "function"],
)
async def test_each_shape_is_called_in_its_own_way(context, thing):
    adapted = as_tool(thing)
    assert isinstance(adapted, Tool)
    registry = ToolRegistry([adapted])
    assert (await registry.execute("forecast", {"city": "Rome"}, context)).text == "Rome 1"
    assert (
        await registry.execute("forecast", {"city": "Rome", "days": 3}, context)
    ).text == "Rome 3"
    refused = await registry.execute("forecast", {"days": 3}, context)
    assert "the parameter 'city' is missing" in refused.text
    [definition] = registry.definitions()
    assert definition.description == "Say what the weather will be."
    found = registry.get("forecast")
    assert (found.category, found.requires_permission) == ("other", True)
    assert registry.info("forecast", {"city": "Rome"}).details == '{\n  "city": "Rome"\n}'


async def test_one_that_takes_the_context_is_given_it(context):
    registry = ToolRegistry([as_tool(WithContext())])
    assert (await registry.execute("forecast", {"city": "Rome"}, context)).text == "Rome 1"


def test_what_is_a_tool_stays_as_it_is():
    @tool
    async def add(a: int) -> int:
        """Add."""
        return a

    registered = ToolRegistry([add]).get("add")
    for each in (add, registered, *builtin_tools()):
        assert isinstance(each, Tool)
        assert as_tool(each) is each
    assert not isinstance(ByDict(), Tool)


def test_what_a_tool_may_have_besides_is_taken_over(context):
    class Careful(ByDict):
        category, timeout, concurrent, requires_permission = "network", 5, True, False

        def effects(self, input, context):
            return [Contact("http://a/")]

    found = ToolRegistry([as_tool(Careful())]).get("forecast")
    assert (found.category, found.timeout, found.concurrent) == ("network", 5.0, True)
    assert not found.requires_permission
    assert found.effects({}, context) == (Contact("http://a/"),)


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (None, ToolResult.ok("done")),
        ({"sun": 1}, ToolResult.ok('{"sun":1}')),
        (ToolResult.error("no"), ToolResult.error("no")),
        (Result("sun", metadata={"ms": 3}), ToolResult.ok("sun", ms=3)),
        (
            Result("broke", Status.ERROR, "errno 5"),
            ToolResult.error("broke", error_message="errno 5"),
        ),
        (Result("late", Status.TIMEOUT), ToolResult.error("late", ToolStatus.TIMEOUT)),
        (Result("?", "half done"), ToolResult.error("?")),
        (Answer("sun"), ToolResult.ok("sun")),
        (Answer("broke", is_error=True), ToolResult.error("broke")),
    ],
)
async def test_a_failure_that_is_told_in_another_type_stays_a_failure(context, value, result):
    class Gives(ByKeyword):
        async def execute(self, **kwargs):
            return value

    registry = ToolRegistry([as_tool(Gives())])
    assert await registry.execute("forecast", {"city": "Rome"}, context) == result


async def test_an_exception_is_isolated_as_of_any_tool(context):
    class Breaks(ByKeyword):
        def execute(self, **kwargs):
            raise ValueError("no weather")

    result = await ToolRegistry([as_tool(Breaks())]).execute("forecast", {"city": "x"}, context)
    assert (result.status, result.text) == (ToolStatus.ERROR, "ValueError: no weather")


class Variant(ByKeyword):
    def __init__(self, **members):
        vars(self).update(members)


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (ByDict, r"ByDict is a class, not a tool \(pass ByDict\(\)\)"),
        (object(), "object is not a tool: it has no name"),
        (5, "int is not a tool: it has no name"),
        (Variant(name=7), "Variant is not a tool: it has no name"),
        (Variant(execute=3), "forecast is not a tool: it has no execute"),
        (Variant(parameters_schema="x"), "forecast is not a tool: it has no JSON Schema"),
        (Variant(execute=lambda city, other: 0), "schema does not fit execute.city, other."),
        (Variant(execute=lambda *, place: 0), "schema does not fit execute"),
        (Variant(execute=lambda a, b, c: 0), "schema does not fit execute"),
        (lambda x: x, "a lambda is not a tool"),
        (Variant(execute=3, as_tool=print), r"no execute .*as_tool\(\) returns"),
    ],
)
def test_what_can_not_be_adapted_says_why(thing, message):
    with pytest.raises(ToolError, match=message):
        as_tool(thing)


def test_a_registry_says_how_to_adapt():
    with pytest.raises(ToolError, match=r"no parameters, no info \(pass as_tool\(…\) of it\)"):
        ToolRegistry([ByDict()])
