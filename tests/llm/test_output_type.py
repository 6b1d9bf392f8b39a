"""Types of answers: their schemas, and how replies become values."""

import copy
import dataclasses
import datetime
import enum
from typing import Annotated, Literal, NotRequired, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given, strategies as st
from jsonschema import Draft202012Validator

from greenroom.core import ConfigurationError, Message, StopReason, TextBlock, ToolUseBlock
from greenroom.core._internal import serde
from greenroom.llm import ModelOutputError
from greenroom.llm._internal import ModelContentFilterError, OutputType
from greenroom.llm.output_type import ANSWER_TOOL
from greenroom.llm.strict_schema import ANTHROPIC, OPENAI, strict_schema


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Place:
    """A place on the map."""

    name: str
    height: int = 0
    near: "list[Place]" = dataclasses.field(default_factory=list)


class Trip(TypedDict):
    start: str
    stops: list[str]
    note: NotRequired[str]


class Person(pydantic.BaseModel):
    name: str
    age: int | None = None
    colour: Colour = Colour.RED
    home: Place | None = None
    scores: dict[str, float] = {}
    pair: tuple[int, str] = (0, "")


class Cat(msgspec.Struct, tag="cat"):
    name: str
    lives: int = 9


class Dog(msgspec.Struct, tag="dog"):
    name: str | None
    tricks: list[str] = []


texts = st.text(max_size=5)
numbers = st.integers(-(2**53), 2**53)
places = st.recursive(
    st.builds(Place, texts, numbers),
    lambda inner: st.builds(Place, texts, numbers, st.lists(inner, max_size=2)),
    max_leaves=4,
)
people = st.builds(
    Person,
    name=texts,
    age=st.none() | numbers,
    colour=st.sampled_from(Colour),
    home=st.none() | places,
    scores=st.dictionaries(texts, st.floats(allow_nan=False, allow_infinity=False), max_size=2),
    pair=st.tuples(numbers, texts),
)
cats = st.builds(Cat, texts, numbers)
dogs = st.builds(Dog, st.none() | texts, st.lists(texts, max_size=2))
trips = st.fixed_dictionaries(
    {"start": texts, "stops": st.lists(texts, max_size=2)}, optional={"note": texts}
)
SHAPES = [
    (OutputType(int | str), numbers | texts),
    (OutputType(list[Literal["a", "b"]]), st.lists(st.sampled_from("ab"), max_size=3)),
    (OutputType(Place), places),
    (OutputType(Trip), trips),
    (OutputType(Person), people),
    (OutputType(list[Cat | Dog]), st.lists(cats | dogs, max_size=3)),
    (OutputType(Cat), cats),
]
CHECKS = [Draft202012Validator(dict(output.schema.schema)) for output, _ in SHAPES]
STRICT = [
    [
        Draft202012Validator(adapted)
        for mode in (OPENAI, ANTHROPIC)
        if (adapted := strict_schema(output.schema.schema, mode))
    ]
    for output, _ in SHAPES
]

leaves = st.none() | st.booleans() | numbers | texts | st.just([]) | st.just({})


def as_json(output, value):
    """The object that says this value."""
    if isinstance(value, msgspec.Struct | list):
        value = msgspec.to_builtins(value, builtin_types=())
    plain = serde.loads(pydantic.TypeAdapter(object).dump_json(value))
    return {"value": plain} if "value" in output.schema.schema["properties"] else plain


def places_in(value, path=()):
    """The way to each part of a JSON value."""
    yield path
    inner = enumerate(value) if isinstance(value, list) else ()
    for key, part in value.items() if isinstance(value, dict) else inner:
        yield from places_in(part, (*path, key))


def replace_at(value, path, leaf):
    if not path:
        return leaf
    made = dict(value) if isinstance(value, dict) else list(value)
    made[path[0]] = replace_at(value[path[0]], path[1:], leaf)
    return made


@given(st.data())
def test_what_a_schema_says_is_what_is_accepted(data):
    at = data.draw(st.integers(0, len(SHAPES) - 1))
    output, values = SHAPES[at]
    value = data.draw(values)
    said = as_json(output, value)
    assert CHECKS[at].is_valid(said)
    assert output.validate(said) == value
    # Strict modes let the model say each value that has all its fields, and, once something is
    # changed in it, nothing that we refuse.
    other = replace_at(said, data.draw(st.sampled_from(list(places_in(said)))), data.draw(leaves))
    for strict in STRICT[at]:
        if not isinstance(value, dict) or "note" in value:
            assert strict.is_valid(said)
        if strict.is_valid(other):
            output.validate(other)
    if CHECKS[at].is_valid(other):
        output.validate(other)


def test_strict_modes_take_most_of_these_shapes():
    counts = [len(strict) for strict in STRICT]
    assert counts == [2, 2, 1, 2, 0, 2, 2]  # Place holds itself, a Person's scores have free keys


@pytest.mark.integration
@pytest.mark.parametrize("output", [output for output, _ in SHAPES], ids=repr)
@pytest.mark.every(3)
def test_the_vendors_own_libraries_find_nothing_to_adapt(output):
    import anthropic  # here, as it is slow

    for dialect, adapt in ((OPENAI, strict_of_openai), (ANTHROPIC, anthropic.transform_schema)):
        schema = strict_schema(output.schema.schema, dialect)
        if schema:
            assert adapt(copy.deepcopy(schema)) == schema


def strict_of_openai(schema):
    from openai.lib._pydantic import _ensure_strict_json_schema

    return _ensure_strict_json_schema(schema, path=(), root=copy.deepcopy(schema))


def reply(*blocks, stop=StopReason.END_TURN):
    return Message("assistant", blocks, provider="acme", stop_reason=stop)


def text(said, **options):
    return reply(TextBlock(said), **options)


CAT = OutputType(Cat)
TOM = Cat("Tom")
JSON = '{"type": "cat", "name": "Tom"}'


@pytest.mark.parametrize(
    "answer",
    [
        text(JSON),
        text(f"\n {JSON} \n"),
        text(f"Here you are:\n```json\n{JSON}\n```\nIs {{this}} good?"),
        text(f"The cat is {JSON}, I think."),
        text('{"type": "cat", "name": "Tom", "lives": null}'),
        reply(ToolUseBlock("c1", ANSWER_TOOL, {"type": "cat", "name": "Tom"})),
        reply(TextBlock("{}"), ToolUseBlock("c1", ANSWER_TOOL, {"type": "cat", "name": "Tom"})),
    ],
)
def test_a_reply_is_read_from_its_call_or_its_text(answer):
    assert CAT.read(answer) == TOM


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (text(""), "the answer is not a JSON object"),
        (text("no"), "the answer is not a JSON object"),
        (text(f"[{JSON}, 1]"), "the answer is not a JSON object"),
        (text(f"{JSON} or {JSON}"), "not usable as JSON"),
        (text(f"```\n{JSON}\n```\n```\n{JSON}\n```"), "not usable as JSON"),
        (text('{"type": "cat", "name": "a", "name": "b"}'), "the key 'name' occurs twice"),
        (text('{"type": "cat", "name": "a", "lives": NaN}'), "NaN is not JSON"),
        (text('{"type": "cat", "name": "a", "lives": 1e999}'), "inf is not a JSON number"),
        (text('{"type": "cat", "name": "a", "lives": %s}' % ("9" * 30)), "Integer exceeds 64-bit"),
        (text('{"type": "cat", "name": 7}'), "name: Expected `str`, got `int`"),
        (text('{"type": "cat"}'), "missing required field `name`"),
        (text(JSON, stop=StopReason.MAX_TOKENS), "the answer was cut off by max_tokens"),
        (text(JSON, stop=StopReason.PAUSE), "paused"),
        (reply(ToolUseBlock("c1", ANSWER_TOOL, invalid="not usable")), "not usable"),
        (reply(ToolUseBlock("c1", "Read", {})), "Read was called, which does not give the answer"),
        (
            reply(*(ToolUseBlock(i, ANSWER_TOOL, {}) for i in "ab")),
            "was called 2 times: call it once",
        ),
    ],
    ids=range(16),
)  # fmt: skip
def test_a_reply_that_does_not_fit_says_why_and_is_kept(answer, error):
    with pytest.raises(ModelOutputError) as caught:
        CAT.read(answer)
    assert len(caught.value.errors) == 1
    assert error in caught.value.errors[0]
    assert caught.value.partial is answer
    assert caught.value.provider == "acme"
    assert ("raise max_tokens" in caught.value.hint) == (answer.stop_reason == "max_tokens")


@pytest.mark.parametrize("reason", [StopReason.REFUSAL, StopReason.CONTENT_FILTER])
def test_a_refusal_is_no_answer_even_if_it_looks_like_one(reason):
    with pytest.raises(ModelContentFilterError, match="refused to answer: ") as caught:
        CAT.read(text(JSON, stop=reason))
    assert caught.value.partial.text == JSON


def test_the_errors_name_each_place_and_are_bounded():
    class Row(pydantic.BaseModel):
        count: Annotated[int, pydantic.Field(ge=0)]

    with pytest.raises(ModelOutputError) as caught:
        OutputType(list[Row]).validate({"value": [{"count": -1}, {"count": 1}, {}]})
    assert caught.value.errors == (
        "value[0].count: Input should be greater than or equal to 0",
        "value[2].count: Field required",
    )
    with pytest.raises(ModelOutputError, match=r"^value\[1\].name: Expected `str`, got `int`$"):
        OutputType(list[Cat]).validate({"value": [{"type": "cat", "name": n} for n in ("a", 7)]})
    with pytest.raises(ModelOutputError) as caught:
        OutputType(list[int]).validate({"value": ["x"] * 30})
    assert len(caught.value.errors) == 11
    assert caught.value.errors[-1] == "and 20 more"


@pytest.mark.parametrize("kind", [object, list[object], Place, list[Cat]])
def test_an_answer_that_is_nested_without_end_does_not_fit(kind):
    for levels in (300, 590, 5_000):
        answer = text('{"value": ' + "[" * levels + "]" * levels + "}")
        with pytest.raises(ModelOutputError):
            OutputType(kind).read(answer)


def test_a_wrapped_value_needs_its_wrapping():
    for value in ([1], {"value": [1], "more": 1}, {}):
        with pytest.raises(ModelOutputError, match="one field 'value'"):
            OutputType(list[int]).validate(value)


def test_types_beyond_json_are_written_as_text():
    output = OutputType(dict[str, datetime.date])
    assert output.validate({"a": "2026-02-03"}) == {"a": datetime.date(2026, 2, 3)}
    with pytest.raises(ModelOutputError):
        output.validate({"a": "yesterday"})


@pytest.mark.parametrize(
    ("kind", "name"),
    [(Person, "Person"), (list[Cat], "answer"), (int | None, "answer"), (int, "int")],
)
def test_the_name_of_a_schema_is_one_that_vendors_take(kind, name):
    assert OutputType(kind).schema.name == name


@pytest.mark.parametrize(
    "kind",
    [list[pytest.Config], pytest.Config | Cat, list["Absent"]],  # noqa: F821
)
def test_a_type_without_schema_is_refused_at_once(kind):
    with pytest.raises(ConfigurationError, match="no schema can express the type"):
        OutputType(kind)


def test_a_root_that_is_a_reference_is_written_out():
    place = OutputType(Place).schema.schema
    assert place["type"] == "object"
    assert "Place" in place["$defs"]
    assert "$defs" not in CAT.schema.schema


def test_a_struct_may_hold_any_json_value():
    class Call(msgspec.Struct):
        name: str
        arguments: dict[str, object] = {}

    output = OutputType(Call)
    value = {"name": "book", "arguments": {"days": [1, None], "to": {"city": "Oslo"}}}
    Draft202012Validator(output.schema.schema).validate(value)
    assert output.validate(value) == Call("book", value["arguments"])


def test_a_struct_with_a_field_beyond_json_is_refused():
    class Odd(msgspec.Struct):
        field: range

    with pytest.raises(ConfigurationError, match="no schema can express the type Odd"):
        OutputType(Odd)


def test_a_model_is_told_of_a_struct_what_is_not_for_programmers_alone():
    class Step(msgspec.Struct):
        """One step.

        Attributes:
            name: what it is called.

        Raises:
            ValueError: never.

        Example:
            >>> Step("a")
        """

        name: str

    class Steps(msgspec.Struct):
        steps: list[Step]

    told = "One step.\n\nAttributes:\n    name: what it is called."
    assert OutputType(Step).schema.schema["description"] == told
    assert OutputType(Steps).schema.schema["$defs"]["Step"]["description"] == told


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        (Place("Rome"), "pass Place, the type itself"),
        ([Place, Trip], "write A | B"),
        ((Place, int), "write A | B"),
        ({"type": "object"}, "write a dataclass"),
        ({"name": str}, "write a dataclass"),
    ],
)
def test_what_is_no_type_is_refused_with_what_to_write(wrong, hint):
    with pytest.raises(ConfigurationError, match="not a type") as refused:
        OutputType(wrong)
    assert hint in refused.value.hint
