"""The quick check says yes only to what jsonschema accepts, and to nearly all of it."""

import pytest
from hypothesis import given, strategies as st
from jsonschema import Draft202012Validator

from greenroom.core._internal import freeze
from greenroom.schemas.bounded_check import compile_plain

NAMES = st.sampled_from(["a", "b", "c"])
ATOMS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, "", "x", "xy"])
VALUES = st.recursive(
    ATOMS, lambda each: st.lists(each, max_size=3) | st.dictionaries(NAMES, each), max_leaves=8
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array"])
BOUNDS = st.integers(0, 3)
FLAT = {
    "type": TYPES | st.lists(TYPES, min_size=1, unique=True),
    "enum": st.lists(ATOMS, min_size=1),
    "const": ATOMS,
    "minimum": BOUNDS,
    "maximum": BOUNDS,
    "minLength": BOUNDS,
    "maxLength": BOUNDS,
    "minItems": BOUNDS,
    "maxItems": BOUNDS,
    "required": st.lists(NAMES, unique=True),
    "description": st.just("words"),
    "not": st.just({"type": "null"}),
}


def nest(parts):
    deep = {
        "properties": st.dictionaries(NAMES, parts),
        "additionalProperties": parts,
        "items": parts,
        "anyOf": st.lists(parts, min_size=1, max_size=2),
    }
    return st.fixed_dictionaries({}, optional=FLAT | deep)


SCHEMAS = st.recursive(st.booleans() | st.fixed_dictionaries({}, optional=FLAT), nest, max_leaves=6)


@given(schema=SCHEMAS, value=VALUES)
def test_a_yes_is_never_wrong(schema, value):
    fits = compile_plain(schema)
    if fits is not None and fits(freeze(value)):
        assert Draft202012Validator(schema).is_valid(value)


ORDER = {
    "type": "object",
    "properties": {
        "item": {"type": "string", "minLength": 1, "description": "What to order."},
        "count": {"type": "integer", "minimum": 1, "default": 1},
        "size": {"enum": ["small", "large"]},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
    },
    "required": ["item"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("value", "is_certain"),
    [
        ({"item": "tea"}, True),
        ({"item": "tea", "count": 2, "size": "small", "note": None, "tags": ["a", "b"]}, True),
        ({"item": ""}, False),
        ({"count": 2}, False),
        ({"item": "tea", "count": True}, False),
        ({"item": "tea", "count": 0}, False),
        ({"item": "tea", "size": "huge"}, False),
        ({"item": "tea", "note": 1}, False),
        ({"item": "tea", "tags": ["a"] * 4}, False),
        ({"item": "tea", "more": 1}, False),
        ("tea", False),
    ],
)
def test_an_order(value, is_certain):
    assert compile_plain(ORDER)(value) is is_certain
    assert Draft202012Validator(ORDER).is_valid(value) is is_certain


def test_long_lists_and_other_keywords_are_left_to_the_bounded_check():
    numbers = compile_plain({"type": "array", "items": {"type": "integer"}})
    assert (numbers([1] * 256), numbers([1] * 257)) == (True, False)
    for keyword in ({"$ref": "#"}, {"pattern": "x"}, {"oneOf": [{}]}, {"items": False}):
        assert compile_plain({"type": "object", "properties": {"a": keyword}}) is None
