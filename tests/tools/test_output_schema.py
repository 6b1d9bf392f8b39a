"""A tool may state the schema of its results; what does not fit is an error that says so."""

from dataclasses import dataclass
from typing import TypedDict

import pytest
import trio
from pydantic import BaseModel

from greenroom.core import AgentContext, ToolError, ToolResult
from greenroom.tools import ToolRegistry, as_tool, tool

TRAIN = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "minutes": {"type": "integer"}},
    "required": ["to", "minutes"],
}
GOOD = '{"to": "Rome", "minutes": 90}'
BAD = '{"to": "Rome", "minutes": "soon"}'


async def run(made, **arguments):
    registry = ToolRegistry([made])
    context = AgentContext(session_id="s-1", agent_type="demo")
    return await registry.execute(made.name, arguments, context)


def train_tool(answer):
    @tool(output_schema=TRAIN)
    async def find_train() -> ToolResult | str:
        """Find a train."""
        return answer

    return find_train


@pytest.mark.parametrize(
    "answer",
    [
        GOOD,
        ToolResult.ok(GOOD, line=7),
        ToolResult.ok("in 90 minutes", structured={"to": "Rome", "minutes": 90}),
    ],
)
async def test_a_result_that_fits_is_a_value_in_the_metadata(answer):
    result = await run(train_tool(answer))
    assert not result.is_error
    assert result.metadata["structured"] == {"to": "Rome", "minutes": 90}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (BAD, "- minutes: expected integer, got string 'soon'"),
        ("tomorrow", "- it is not JSON: "),
        ("", "- it is not JSON: "),
        ("[]", "- expected object, got array []"),
        (ToolResult.ok(GOOD, structured={"to": "Rome"}), "- the parameter 'minutes' is missing"),
    ],
)
async def test_a_result_that_does_not_fit_is_an_error_that_says_so(answer, told):
    result = await run(train_tool(answer))
    first, line = result.text.split("\n", 1)
    assert first == "find_train has run, but its result does not fit what the tool promises."
    assert line.startswith(told)
    assert (result.is_error, result.could_run, result.error_message) == (True, True, first)


async def test_none_is_null_to_a_schema():
    @tool
    async def find_place() -> Place:
        """Find a place."""

    result = await run(find_place)
    assert result.is_error
    assert result.text.splitlines()[1] == "- expected object, got null"

    @tool(output_schema={"type": ["object", "null"]})
    def find_none() -> None:
        """Find nothing."""

    result = await run(find_none)
    assert (result.text, result.metadata["structured"]) == ("null", None)


async def test_a_failed_result_is_left_as_it_is():
    failed = ToolResult.error("no such place", place="Rome")
    assert await run(train_tool(failed)) == failed


class Place(BaseModel):
    name: str
    people: int | None = None


@dataclass
class Point:
    x: float
    y: float


class Row(TypedDict):
    n: int


@pytest.mark.parametrize(
    ("kind", "good", "value"),
    [
        (Place, Place(name="Rome"), {"name": "Rome", "people": None}),
        (Point, Point(1, 2.5), {"x": 1, "y": 2.5}),
        (Row, {"n": 3}, {"n": 3}),
    ],
)
async def test_a_return_type_with_fields_states_the_schema(kind, good, value):
    answers = [good, {"other": "x"}]

    async def find():
        return answers.pop(0)

    find.__annotations__["return"] = kind
    made = tool(find)
    assert ToolRegistry([made]).definitions()[0].output_schema["properties"].keys() == value.keys()
    result = await run(made)
    assert result.metadata["structured"] == value
    assert (await run(made)).is_error


@pytest.mark.parametrize("kind", [str, int, list[int], dict[str, int], object, None, "Unknown"])
def test_another_return_type_states_none(kind):
    def find(): ...

    find.__annotations__["return"] = kind
    if kind == "Unknown":
        with pytest.raises(ToolError, match="not known at run time"):
            tool(find)
    else:
        assert ToolRegistry([tool(find)]).definitions()[0].output_schema is None


async def test_an_object_of_another_framework_may_state_one():
    class Find:
        name, description, parameters_schema, output_schema = "find", "Find.", {}, TRAIN

        def execute(self, **_):
            return {"to": "Rome", "minutes": 1.5}

    result = await run(as_tool(Find()))
    assert "minutes: expected integer, got number 1.5" in result.text


def test_an_unusable_schema_is_refused_when_it_is_registered():
    @tool(output_schema={"type": "array"})
    async def find() -> str: ...

    with pytest.raises(ToolError, match="the output schema is not of type object"):
        ToolRegistry([find])


async def test_a_usual_result_takes_no_thread(monkeypatch):
    """A thread for each call would cost time, and let a clock that jumps pass every time-out."""

    async def refuse(*_, **__):
        raise AssertionError("it took a thread")

    monkeypatch.setattr(trio.to_thread, "run_sync", refuse)
    result = await run(train_tool(GOOD))
    assert result.metadata["structured"]["minutes"] == 90
