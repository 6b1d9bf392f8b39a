"""`@tool`: typed functions become tools, in every shape a signature takes."""

import enum
import functools
import threading
from dataclasses import dataclass
from datetime import date
from typing import (
    Annotated,
    Generic,
    Literal,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    TypeVar,
)

import msgspec
import pytest
import trio
from pydantic import BaseModel, Field

from greenroom.core import (
    AgentContext,
    Contact,
    ImageBlock,
    TextBlock,
    ToolError,
    ToolResult,
)
from greenroom.tools import ToolRegistry, tool
from greenroom.tools._internal import FunctionTool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Place(TypedDict):
    """A place."""

    name: str
    zip: NotRequired[Annotated[int, Field(ge=1)]]


class Tour(TypedDict, total=False):
    stops: Required[list[Place | None]]
    home: Place


class Person(BaseModel):
    name: str
    born: date | None = None


class Seat(msgspec.Struct):
    row: str
    at: Point
    who: Person | None = None


@pytest.fixture
def context():
    return AgentContext(session_id="s-1", agent_type="test")


async def run(made, arguments, context):
    with trio.fail_after(60):
        return await ToolRegistry([made]).execute(made.name, arguments, context)


def test_signature_and_docstring_become_the_definition():
    @tool(category="read", timeout=5, requires_permission=False, concurrent=True)
    async def find(pattern: str, path: str = ".", *, limit: Annotated[int, "how many"] = 10) -> str:
        """Find files.

        Looks into folders as well.

        Args:
            pattern: what to look for,
                as a glob.
            path (str): where to begin.

        Returns:
            The paths.
        """
        return ""

    assert find.name == "find"
    assert find.description == "Find files.\n\nLooks into folders as well."
    assert find.parameters == {
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "description": "what to look for, as a glob."},
            "path": {"type": "string", "description": "where to begin.", "default": "."},
            "limit": {"type": "integer", "description": "how many", "default": 10},
        },
        "required": ["pattern"],
        "additionalProperties": False,
    }
    registered = ToolRegistry([find]).get("find")
    assert (registered.category, registered.timeout) == ("read", 5.0)
    assert (registered.requires_permission, registered.concurrent) == (False, True)


def test_the_decorated_function_stays_a_function():
    @tool
    def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    assert isinstance(add, FunctionTool)
    assert add(2) == 3
    assert (add.__name__, add.__doc__, repr(add)) == ("add", "Add.", "<tool add>")


async def test_arguments_arrive_in_their_declared_types(context):
    got = []

    @tool
    async def take(
        colour: Colour,
        point: Point,
        place: Place,
        person: Person,
        mode: Literal["fast", "slow"],
        day: date,
        tags: set[str],
        nested: list[dict[str, Point]],
        tour: Tour,
        maybe: Optional[int] = None,  # noqa: UP045  (what users still write)
        schema: str = "a name that pydantic uses itself",
    ):
        got.extend([colour, point, place, person, mode, day, tags, nested, tour, maybe, schema])

    arguments = {
        "colour": "blue",
        "point": {"x": 1},
        "place": {"name": "Rome", "zip": 184},
        "person": {"name": "Ada", "born": "1815-12-10"},
        "mode": "fast",
        "day": "2026-01-02",
        "tags": ["a", "b"],
        "nested": [{"p": {"x": 1, "y": 2}}],
        "tour": {"stops": [{"name": "Bari"}, None]},
        "schema": "s",
    }
    result = await run(take, arguments, context)
    assert result.text == "done", result.text
    assert got == [
        Colour.BLUE,
        Point(1),
        {"name": "Rome", "zip": 184},
        Person(name="Ada", born=date(1815, 12, 10)),
        "fast",
        date(2026, 1, 2),
        {"a", "b"},
        [{"p": Point(1, 2)}],
        {"stops": [{"name": "Bari"}, None]},
        None,
        "s",
    ]


async def test_what_does_not_fit_the_types_never_reaches_the_function(context):
    @tool
    async def take(day: date, point: Point):
        raise AssertionError("must not run")

    unfit = {"day": "no date", "point": {"x": 1}}
    result = await run(take, unfit, context)
    assert result.is_error
    assert "day" in result.text
    with pytest.raises(ToolError, match=r"take: the input does not fit: day: .*; point\.x: "):
        await take.execute({"day": "no date", "point": {"x": "no number"}}, context)


async def test_a_context_is_injected_and_the_model_can_not_give_one(context):
    @tool
    async def who(context: AgentContext, other: Annotated[AgentContext | None, 1] = None) -> str:
        return f"{context.session_id} {other.session_id}"

    assert who.parameters["properties"] == {}
    assert (await run(who, {}, context)).text == "s-1 s-1"
    refused = await run(who, {"context": {"session_id": "s-2"}}, context)
    assert refused.is_error
    assert "'context' does not exist" in refused.text
    with pytest.raises(ToolError, match="context"):
        await who.execute({"context": 1}, context)


T = TypeVar("T")


@dataclass
class Till:
    cents: int = 0

    @classmethod
    def from_context(cls, context: AgentContext) -> "Till":
        till = context.resources.get(cls)
        if till is None:
            raise LookupError(f"{context.session_id} has no till")
        return till


class Run(Generic[T]):
    def __init__(self, session_id: str) -> None:
        self.session_id = session_id

    @classmethod
    def from_context(cls, context: AgentContext) -> "Run[T]":
        return cls(context.session_id)


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_class_that_can_be_made_of_the_context_is_injected(context, is_async):
    async def pay(cents: int, till: Till, of: Annotated[Run[str] | None, "the run"] = None) -> str:
        """Pay."""
        till.cents += cents
        return f"{till.cents} in {of.session_id}"

    def pay_in_a_thread(cents: int, till: Till, of: Run[str]) -> str:
        assert threading.current_thread() is not threading.main_thread()
        till.cents += cents
        return f"{till.cents} in {of.session_id}"

    made = tool(name="pay")(pay if is_async else pay_in_a_thread)
    assert list(made.parameters["properties"]) == ["cents"]
    assert (await run(made, {"cents": 2}, context)).text == "LookupError: s-1 has no till"
    context.resources.insert(Till(40))
    assert (await run(made, {"cents": 2}, context)).text == "42 in s-1"
    refused = await run(made, {"cents": 2, "till": {"cents": 9}}, context)
    assert "'till' does not exist" in refused.text


def test_a_class_that_can_not_be_made_of_a_context_is_refused_when_the_tool_is_made():
    class Method:
        def from_context(self, context):
            pass

    class Late:
        @classmethod
        async def from_context(cls, context):
            pass

    class Value:
        from_context = 5

    async def take(value):
        pass

    for kind in (Method, Late, Value):
        take.__annotations__["value"] = kind
        with pytest.raises(ToolError, match=f"{kind.__name__}.from_context can't be called"):
            tool(take)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", "text"),
        (None, "done"),
        (3, "3"),
        (True, "true"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        (Point(1, 2), '{"x":1,"y":2}'),
        (Person(name="Ada"), '{"name":"Ada","born":null}'),
        (Colour.RED, '"red"'),
        (date(2026, 1, 2), '"2026-01-02"'),
        (ToolResult.error("no"), "no"),
        (Seat("A", Point(1)), '{"row":"A","at":{"x":1,"y":0},"who":null}'),
        (
            [Seat("B", Point(2), Person(name="Ann"))],
            '[{"row":"B","at":{"x":2,"y":0},"who":{"name":"Ann","born":null}}]',
        ),
    ],
)
async def test_what_is_returned_becomes_the_result(context, value, text):
    @tool
    async def give() -> object:
        return value

    result = await run(give, {}, context)
    assert result.text == text
    assert result.is_error == (text == "no")


_IMAGE = ImageBlock("image/png", url="https://example.org/a.png")


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (_IMAGE, (_IMAGE,)),
        (["Here it is:", _IMAGE], (TextBlock("Here it is:"), _IMAGE)),
        ((TextBlock("one"), "\ud800"), (TextBlock("one"), TextBlock("\ufffd"))),
        (["one", "two"], (TextBlock('["one","two"]'),)),
        ([TextBlock("one"), 3], (TextBlock('[{"type":"text","text":"one"},3]'),)),
    ],
)
async def test_blocks_that_are_returned_are_the_content_of_the_result(context, value, content):
    @tool
    async def give() -> object:
        return value

    assert (await run(give, {}, context)).content == content


async def test_a_result_that_json_can_not_express_is_an_error(context):
    @tool
    async def give() -> object:
        return object()

    result = await run(give, {}, context)
    assert result.is_error
    assert "give returned object, which can't be written as JSON" in result.text


async def test_defaults_are_the_functions_own(context):
    marker = object()

    @tool
    async def give(things: list[int] | None = None, how: Annotated[object, "any"] = marker) -> str:
        return "same" if how is marker and things is None else "other"

    assert "default" not in give.parameters["properties"]["how"]
    assert (await run(give, {}, context)).text == "same"


async def test_a_plain_function_runs_in_a_thread(context):
    @tool
    def where() -> str:
        return threading.current_thread().name

    assert (await run(where, {}, context)).text != threading.current_thread().name


async def test_a_plain_wrapper_of_an_async_function_is_awaited(context):
    async def inner() -> str:
        return "inner"

    @tool
    @functools.wraps(inner)
    def wrapper(*arguments, **options):
        return inner(*arguments, **options)

    assert (await run(wrapper, {}, context)).text == "inner"


def test_only_a_context_itself_is_injected():
    async def take(contexts: list[AgentContext]):
        pass

    with pytest.raises(ToolError, match="'contexts'"):
        tool(take)


def test_effects_are_what_the_decorator_was_told(context):
    @tool(effects=lambda input, context: [Contact(input["url"])])
    async def fetch(url: str) -> str:
        return ""

    @tool
    async def quiet() -> str:
        return ""

    registry = ToolRegistry([fetch, quiet])
    assert registry.get("fetch").effects({"url": "http://a/"}, context) == (Contact("http://a/"),)
    assert registry.get("quiet").effects({}, context) == ()


def test_descriptions_come_from_field_then_annotation_then_docstring():
    @tool
    async def take(
        a: Annotated[int, Field(description="field", ge=1)],
        b: Annotated[int, "annotation"],
        c: Annotated[int, Field(ge=1)],
        d: Annotated[int, "annotation", Field(le=9)],
    ):
        """Take.

        Args:
            a: docstring
            b: docstring
            c: docstring
        """

    properties = take.parameters["properties"]
    assert [properties[name]["description"] for name in "abcd"] == [
        "field",
        "annotation",
        "docstring",
        "annotation",
    ]
    assert (properties["c"]["minimum"], properties["d"]["maximum"]) == (1, 9)


def test_a_method_of_an_object_can_be_a_tool():
    class Service:
        def search(self, query: str) -> str:
            """Search."""
            return query

    made = tool(name="Search")(Service().search)
    assert list(made.parameters["properties"]) == ["query"]


def test_without_a_docstring_the_name_is_the_description():
    @tool
    async def add_two_numbers(a: int, b: int) -> int:
        return a + b

    assert add_two_numbers.description == "add two numbers"


def test_a_typed_dict_keeps_what_is_required_and_described():
    @tool
    async def go(tour: Tour):
        pass

    places = go.parameters["$defs"]["Place"]
    assert places["required"] == ["name"]
    assert places["description"] == "A place."
    assert places["properties"]["zip"]["minimum"] == 1
    assert go.parameters["$defs"]["Tour"]["required"] == ["stops"]


class Loop(TypedDict):
    again: "Loop | None"


def test_a_typed_dict_that_holds_itself_is_left_to_pydantic():
    from greenroom.tools.schema import _rebuild

    assert _rebuild(Loop, frozenset()).__annotations__["again"] == Required[Loop | None]


def test_what_can_not_be_a_tool_says_which_parameter_and_how_to_fix_it():
    async def untyped(a: int, b):
        pass

    async def many(*files: str):
        pass

    async def open_ended(**options: str):
        pass

    async def nameless(a: int, /):
        pass

    async def odd(a: int, b: threading.Thread):
        pass

    async def unknown(a: "Nowhere"):  # noqa: F821
        pass

    async def deploy(to: str):
        pass

    def yields(a: int):
        yield a

    async def streams(a: int):
        yield a

    class Till:
        def take_in(self, cents: int):
            pass

    for function, message in [
        (untyped, r"the parameter 'b' has no type \(write `b: str`"),
        (
            Till.take_in,
            r"the parameter 'self' has no type \(a method .* write tool\(thing.method\)\)",
        ),
        (lambda x: x, r"the parameter 'x' has no type \(a lambda is not a tool: .*def"),
        (many, "the parameter 'files' takes any number"),
        (open_ended, "the parameter 'options' takes any number"),
        (nameless, r"the parameter 'a' has no name for callers \(remove"),
        (odd, r"the type of the parameter 'b'.*Thread.*use plain types"),
        (unknown, r"the type 'Nowhere' is not known at run time .*TYPE_CHECKING"),
        (yields, "yields"),
        (streams, "yields"),
        (
            functools.partial(tool(requires_permission=True)(deploy), to="here"),
            r"a partial of the tool deploy is not a tool \(make the partial of the function",
        ),
        (max, r"its signature can.t be read .write a function with typed parameters"),
        (Point, "is not a function"),
        (3, "is not a function"),
    ]:
        with pytest.raises(ToolError, match=message):
            tool(function)


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan"), "30", None])
def test_a_timeout_that_lets_nothing_run_is_refused_when_the_tool_is_made(seconds):
    with pytest.raises(ToolError, match=r"tool greet: its timeout is .*give seconds"):

        @tool(timeout=seconds)
        def greet(name: str):
            pass


def test_hints_that_can_not_be_read_are_named():
    async def odd(a: int):
        pass

    odd.__annotations__["a"] = "int + str"
    with pytest.raises(ToolError, match="type hints can't be read"):
        tool(odd)


def test_a_partial_of_an_object_that_can_be_called_has_the_name_of_its_class():
    class Thermometer:
        """Measure the temperature."""

        def __call__(self, place: str, unit: str) -> str:
            return f"20 {unit} in {place}"

    made = tool(functools.partial(functools.partial(Thermometer()), unit="C"))
    assert (made.name, made.description) == ("Thermometer", "Measure the temperature.")
    assert [*made.parameters["properties"]] == ["place"]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (str, "a"),
        (list[int], [1]),
        (Annotated[int, "how many"], 1),
        (Annotated[int, Field(ge=1)], 1),
        (Annotated[int, msgspec.Meta(ge=1)], 1),
        (msgspec.defstruct("Chair", [("row", str)]), {"row": "A"}),
    ],
)
async def test_a_parameter_whose_default_is_none_takes_null_whatever_its_type(kind, value, context):
    def look(what=None):
        return "nothing" if what is None else "something"

    look.__annotations__["what"] = kind
    made = tool(look)
    assert (await run(made, {"what": None}, context)).text == "nothing"
    assert (await run(made, {"what": value}, context)).text == "something"
    assert (await run(made, {"what": {}}, context)).is_error


def test_a_note_on_a_parameter_whose_default_is_none_describes_it():
    @tool
    def look(count: Annotated[int, "how many"] = None):  # noqa: RUF013
        """Look."""

    assert look.parameters["properties"]["count"]["description"] == "how many"
