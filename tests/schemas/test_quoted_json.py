"""A value that was sent as JSON in a string is parsed where no string may be."""

import pytest
from hypothesis import given, strategies as st

from greenroom.core._internal import serde
from greenroom.schemas._internal import InputValidator

WORDS = {"type": "array", "items": {"type": "string"}}
POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
NULL = {"type": "null"}


def read(schema, value):
    validator = InputValidator("T", {"properties": {"v": schema}, "$defs": {"Point": POINT}})
    found, fault = validator.examine({"v": value})
    return found["v"], fault


@pytest.mark.parametrize(
    ("schema", "sent", "taken"),
    [
        (WORDS, '["a", "b"]', ["a", "b"]),
        (WORDS, " []\n", []),
        (POINT, '{"x": 1}', {"x": 1}),
        ({"$ref": "#/$defs/Point"}, '{"x": 1}', {"x": 1}),
        ({"type": "integer"}, "3", 3),
        ({"type": "number"}, "3", 3),
        ({"type": "number"}, "2.5", 2.5),
        ({"type": "boolean"}, "true", True),
        ({"enum": [1, 2]}, "2", 2),
        ({"anyOf": [WORDS, NULL]}, '["a"]', ["a"]),
        ({"anyOf": [POINT, {"type": "array", "items": POINT}]}, '[{"x": 1}]', [{"x": 1}]),
        ({"type": ["array", "null"]}, "[1]", [1]),
        ({"type": "array", "items": POINT}, ['{"x": 1}'], [{"x": 1}]),
        ({"type": "array", "items": POINT}, '["{\\"x\\": \\"1\\"}"]', [{"x": 1}]),
        ({"type": "object", "additionalProperties": WORDS}, {"a": '["b"]'}, {"a": ["b"]}),
    ],
)
def test_it_is_parsed_where_the_schema_is_clear(schema, sent, taken):
    assert read(schema, sent) == (taken, None)


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({}, "[1]"),
        ({"type": "string"}, "[1]"),
        ({"anyOf": [WORDS, {"type": "string"}]}, '["a"]'),
        ({"type": ["string", "integer"]}, "3"),
        ({"enum": ["1", 2]}, "1"),
        ({"const": "1"}, "1"),
    ],
)
def test_a_string_stays_where_it_fits(schema, sent):
    assert read(schema, sent) == (sent, None)


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        (WORDS, "a, b"),
        (WORDS, '{"a": 1}'),
        (WORDS, '["a", '),
        ({"type": "integer"}, "3.5"),
        ({"type": "integer"}, "true"),
        ({"type": "boolean"}, "yes"),
        ({"type": "boolean"}, "1"),
        ({"type": "integer"}, "NaN"),
        ({"anyOf": [{"type": "integer"}, NULL]}, "3"),
        ({"type": ["integer", "null"]}, "null"),
        ({"anyOf": [{"type": "string", "maxLength": 2}, WORDS]}, '["a"]'),
        ({"enum": ["1", 2]}, "2"),
    ],
)
def test_what_is_unclear_is_refused_as_it_came(schema, sent):
    found, fault = read(schema, sent)
    assert found == sent
    assert fault


def test_what_is_wrong_inside_is_told_of_the_parsed_value():
    assert "v[1]: expected string, got integer 1" in read(WORDS, '["a", 1]')[1]


def test_the_input_itself_is_left_alone():
    sent = {"v": ['{"x": 1}', '{"x": 2}']}
    validator = InputValidator("T", {"properties": {"v": {"items": POINT}}})
    assert validator.examine(sent)[0] == {"v": [{"x": 1}, {"x": 2}]}
    assert sent == {"v": ['{"x": 1}', '{"x": 2}']}


lists = st.lists(st.lists(st.text() | st.integers(-(2**63), 2**63) | st.booleans()))


@given(lists)
def test_any_list_is_read_back(value):
    schema = {"type": "array", "items": {"type": "array"}}
    text = serde.dumps(value).decode()
    assert read(schema, text) == (value, None)
    assert read(schema, [serde.dumps(each).decode() for each in value]) == (value, None)


NODE = {"type": "object", "properties": {"kind": {"const": "x"}, "v": {"type": "array"}}}
LEAF = {"type": "object", "properties": {"kind": {"const": "y"}, "v": {"type": "string"}}}


@pytest.mark.parametrize(
    ("union", "given", "parsed"),
    [
        ([NODE, {"type": "null"}], {"v": "[1]"}, {"v": [1]}),
        ([NODE, LEAF], {"kind": "x", "v": "[1]"}, {"kind": "x", "v": [1]}),
        ([{"type": "array", "items": NODE}, LEAF], [{"v": "[1]"}], [{"v": [1]}]),
        ([NODE, {"anyOf": [LEAF, {"type": "null"}]}], {"kind": "y", "v": "[1]"}, None),
        ([NODE, LEAF], {"v": "[1]"}, None),
    ],
)
def test_what_is_in_a_union_is_parsed_by_the_branch_that_it_is_for(union, given, parsed):
    validator = InputValidator("T", {"properties": {"a": {"anyOf": union}}})
    assert validator.examine({"a": given}) == ({"a": parsed or given}, None)


def test_a_branch_names_what_is_missing_once():
    union = [{"required": ["b", "c"]}, {"required": ["b", "d"]}]
    fault = InputValidator("T", {"properties": {"a": {"anyOf": union}}}).fault({"a": {}})
    assert fault.count("'b', 'c' are missing") == 1
