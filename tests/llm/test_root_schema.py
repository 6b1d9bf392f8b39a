"""Schemas of tools whose root is not a plain object."""

import jsonschema
import pytest
from hypothesis import given, strategies as st

from greenroom.core import Message, ToolDefinition
from greenroom.llm import AnthropicProvider, ModelRequest, OpenAIProvider
from greenroom.llm.responses import OpenAIResponsesProvider
from greenroom.llm.root_schema import fold_root

TEXT = {"type": "string"}
ROOT_WORDS = {"anyOf", "oneOf", "allOf", "not", "enum", "const", "$ref"}


def thing(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


@pytest.mark.parametrize(
    ("schema", "properties", "required", "description"),
    [
        (
            thing(url=TEXT, text=TEXT) | {"anyOf": [{"required": ["url"]}, {"required": ["text"]}]},
            {"url": TEXT, "text": TEXT},
            None,
            "Give one of: url; text.",
        ),
        (
            {
                "description": "A page.",
                "oneOf": [thing("ab", a=TEXT, b=TEXT), thing("ac", a={}, c={})],
            },
            {"a": {}, "b": TEXT, "c": {}},
            ["a"],
            "A page. Give one of: b; c.",
        ),
        (
            {"oneOf": [thing("k", k={"const": "x"}, a=TEXT), thing("k", k={"const": "y"})]},
            {"k": {"enum": ["x", "y"]}, "a": TEXT},
            ["k"],
            None,
        ),
        (
            {"oneOf": [thing(a=TEXT), thing(a={"type": "integer"}), {"type": "null"}]},
            {"a": {"anyOf": [TEXT, {"type": "integer"}]}},
            None,
            None,
        ),
        (
            thing("a", a=TEXT) | {"allOf": [thing("b", a={"minLength": 1}, b={})]},
            {"a": TEXT | {"minLength": 1}, "b": {}},
            ["a", "b"],
            None,
        ),
        (
            {"allOf": [thing(a=TEXT), thing(a={"type": "integer"})]},
            {"a": {"allOf": [TEXT, {"type": "integer"}]}},
            None,
            None,
        ),
        (
            {"$ref": "#/$defs/a~1b", "$defs": {"a/b": thing("a", a=TEXT)}},
            {"a": TEXT},
            ["a"],
            None,
        ),
        ({"not": {"required": ["a"]}}, {}, None, None),
    ],
)
def test_branches_are_folded_into_the_root(schema, properties, required, description):
    folded = fold_root(schema)
    assert not ROOT_WORDS & folded.keys()
    assert folded["type"] == "object"
    assert folded["properties"] == properties
    assert (folded.get("required") or None) == required
    assert folded.get("description") == description
    assert folded.get("$defs") == schema.get("$defs")


def test_a_root_is_closed_if_all_of_its_branches_are():
    closed = thing(a=TEXT) | {"additionalProperties": False}
    assert fold_root({"anyOf": [closed, closed]})["additionalProperties"] is False
    assert "additionalProperties" not in fold_root({"anyOf": [closed, thing(b=TEXT)]})


def test_a_plain_root_is_left_as_it_is():
    schema = thing(a={"anyOf": [TEXT, {"type": "null"}]})
    assert fold_root(schema) is schema


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "https://a.test/b.json"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}] * 9}}},
        {"allOf": "?", "anyOf": [7, True, None], "properties": [], "required": {}},
    ],
)
def test_a_schema_that_leads_nowhere_is_an_object(schema):
    assert fold_root(schema)["type"] == "object"


def test_a_schema_of_any_depth_is_folded():
    schema = thing(a=TEXT)
    for _ in range(10_000):
        schema = {"allOf": [schema]}
    assert fold_root(schema)["type"] == "object"


NAMES = st.sampled_from("abc")
VALUES = st.sampled_from([TEXT, {"type": "integer"}, {"const": 1}, {"enum": ["x", 2]}, {}])
OBJECTS = st.builds(
    lambda properties, required, closed: (
        {"type": "object", "properties": properties, "required": sorted(required)}
        | ({"additionalProperties": False} if closed else {})
    ),
    st.dictionaries(NAMES, VALUES),
    st.sets(NAMES),
    st.booleans(),
)
SCHEMAS = st.recursive(
    OBJECTS,
    lambda inner: st.builds(
        lambda base, key, branches: base | {key: branches},
        st.one_of(OBJECTS, st.just({})),
        st.sampled_from(["anyOf", "oneOf", "allOf"]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=6,
)
INPUTS = st.dictionaries(NAMES, st.sampled_from(["x", 1, 2, None]))


@given(SCHEMAS, INPUTS)
def test_arguments_that_fit_the_original_have_the_properties_that_the_model_is_told_of(
    schema, arguments
):
    if jsonschema.Draft202012Validator(schema).is_valid(arguments):
        folded = fold_root(schema)
        any_values = {name: {} for name in folded["properties"]}
        jsonschema.validate(arguments, {**folded, "properties": any_values})


@pytest.mark.parametrize(
    ("provider", "find"),
    [
        (AnthropicProvider, lambda tool: tool["input_schema"]),
        (OpenAIProvider, lambda tool: tool["function"]["parameters"]),
        (OpenAIResponsesProvider, lambda tool: tool["parameters"]),
    ],
)
def test_each_vendor_gets_a_plain_root(provider, find):
    tool = ToolDefinition("attach", "Attach.", {"anyOf": [thing(url=TEXT), thing(text=TEXT)]})
    llm = provider("m", api_key="sk-1", env={})
    [sent] = llm.encode(ModelRequest(messages=[Message.user("hi")], tools=[tool]))["tools"]
    assert find(sent) == {"type": "object", "properties": {"url": TEXT, "text": TEXT}}
