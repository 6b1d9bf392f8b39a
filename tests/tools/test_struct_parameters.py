"""Tools whose parameters or results are msgspec structs."""

from enum import Enum
from typing import Annotated, Generic, TypeVar

import msgspec
import pytest
from pydantic import BaseModel, Field

from greenroom.core import AgentContext, ToolError, ToolResult
from greenroom.tools import ToolRegistry, tool

T = TypeVar("T")


class Item(msgspec.Struct):
    """A thing to order."""

    name: str
    count: Annotated[int, msgspec.Meta(ge=1, description="how many")] = 1


class Folder(msgspec.Struct, rename="camel"):
    file_count: int
    folders: list["Folder"] = []


class Customer(BaseModel):
    number: int


class Note(msgspec.Struct):
    data: dict[str, object]


class Odd(msgspec.Struct):
    value: Customer


class Urgency(Enum):
    LOW = "low"
    HIGH = "high"


class Errand(msgspec.Struct):
    urgency: Urgency = Urgency.LOW


class Page(msgspec.Struct, Generic[T]):
    items: list[T]


class Pair(msgspec.Struct, array_like=True):
    one: int
    two: int


CARD = Item("card")


@tool
def order(
    items: list[Item], customer: Customer, root: Folder | None = None, gift: Item = CARD
) -> Item:
    """Order things.

    Args:
        items: what to order.
    """
    files = 0 if root is None else root.file_count + sum(each.file_count for each in root.folders)
    total = sum(each.count for each in items)
    return Item(f"{customer.number}: {items[0].name} and {gift.name}, {files} files", total)


async def run(**given: object):
    context = AgentContext(session_id="s-1", agent_type="test")
    return await ToolRegistry([order]).execute("order", given, context)


def test_the_schema_is_made_by_msgspec():
    properties = order.parameters["properties"]
    assert properties["items"] == {
        "type": "array",
        "items": {"$ref": "#/$defs/Item"},
        "description": "what to order.",
    }
    assert properties["customer"] == {"$ref": "#/$defs/Customer"}
    assert properties["gift"] == {"$ref": "#/$defs/Item"}
    defined = order.parameters["$defs"]
    assert sorted(defined) == ["Customer", "Folder", "Item"]
    assert defined["Item"]["properties"]["count"]["minimum"] == 1
    assert list(defined["Folder"]["properties"]) == ["fileCount", "folders"]
    assert order.parameters["required"] == ["items", "customer"]


async def test_a_call_gets_structs():
    root = {"fileCount": 2, "folders": [{"fileCount": 3}]}
    result = await run(items=[{"name": "lamp", "count": 4}], customer={"number": 7}, root=root)
    assert result.metadata["structured"] == {"name": "7: lamp and card, 5 files", "count": 4}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"items": [{}]}, "items[0]: the parameter 'name' is missing"),
        ({"items": [{"name": "lamp", "count": 0}]}, "items[0].count: 0 is less than"),
        ({"items": [], "root": {"fileCount": "x"}}, "root.fileCount: expected integer"),
    ],
)
async def test_what_does_not_fit_is_told_by_place(given, says):
    result = await run(customer={"number": 7}, **given)
    assert result.is_error
    assert says in result.text


def test_what_only_msgspec_finds_is_told_too():
    @tool
    def greet(names: Annotated[Item, "who"]) -> str:
        return names.name

    context = AgentContext(session_id="s-1", agent_type="test")
    with pytest.raises(ToolError, match=r"names: Expected `str`, got `int` - at `\$.name`"):
        greet._arguments.bind({"names": {"name": 5}}, context)
    assert greet.parameters["properties"]["names"]["description"] == "who"


def test_a_struct_that_no_schema_can_express_is_refused():
    with pytest.raises(ToolError, match="the parameter 'odd': no schema can express its type"):

        @tool
        def look(odd: Odd) -> str:
            return ""


def test_a_field_may_hold_any_value():
    @tool
    def keep(note: Note) -> str:
        return ""

    parts = keep.parameters["$defs"]["Note"]["properties"]
    assert parts["data"]["additionalProperties"] == {"description": "any JSON value"}


async def test_a_type_may_be_a_parameter_and_a_part_of_a_struct():
    @tool
    def plan(first: Urgency, rest: list[Errand]) -> str:
        return f"{first.name} {rest[0].urgency.name}"

    defined, properties = plan.parameters["$defs"], plan.parameters["properties"]
    assert sorted(defined) == ["Errand", "Urgency", "Urgency-2"]
    assert properties["first"] == {"$ref": "#/$defs/Urgency"}
    assert defined["Errand"]["properties"]["urgency"]["$ref"] == "#/$defs/Urgency-2"
    context = AgentContext(session_id="s-1", agent_type="test")
    given = {"first": "high", "rest": [{"urgency": "low"}]}
    result = await ToolRegistry([plan]).execute("plan", given, context)
    assert result.text == "HIGH LOW"


async def test_a_generic_struct_is_one_too():
    @tool
    def turn(page: Page[int]) -> Page[int]:
        return Page(page.items[::-1])

    context = AgentContext(session_id="s-1", agent_type="test")
    result = await ToolRegistry([turn]).execute("turn", {"page": {"items": [1, 2]}}, context)
    assert result.metadata["structured"] == {"items": [2, 1]}


@pytest.mark.parametrize(
    "given",
    [{"items": [{"name": "a"}] * 3}, {"items": [], "most": 10}, {"items": [], "sizes": [0]}],
)
async def test_what_stands_beside_a_type_counts(given):
    @tool
    def pack(
        items: Annotated[list[Item], Field(max_length=2, description="the things")],
        most: Annotated[int, msgspec.Meta(le=9, description="at most")] = 1,
        sizes: tuple[Annotated[int, msgspec.Meta(ge=1)], ...] = (),
    ) -> str:
        return "packed"

    properties = pack.parameters["properties"]
    assert properties["items"]["description"] == "the things"
    assert properties["most"]["description"] == "at most"
    context = AgentContext(session_id="s-1", agent_type="test")
    fits = {"items": [{"name": "a", "count": 2.0}], "most": 3.0}
    assert (await ToolRegistry([pack]).execute("pack", fits, context)).text == "packed"
    assert (await ToolRegistry([pack]).execute("pack", given, context)).is_error


def test_the_schema_of_a_result_is_one_of_an_object():
    @tool
    def find() -> Folder:
        return Folder(0)

    @tool
    def split() -> Pair:
        return Pair(1, 2)

    assert order.output_schema["type"] == find.output_schema["type"] == "object"
    assert "$defs" not in order.output_schema
    assert list(find.output_schema["$defs"]) == ["Folder"]
    assert split.output_schema is None


def test_a_result_of_ours_has_no_schema():
    @tool
    def look() -> ToolResult:
        return ToolResult.ok("done")

    assert look.output_schema is None
