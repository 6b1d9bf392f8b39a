"""Schemas of servers and other frameworks are taken, in the words of JSON Schema 2020-12."""

import subprocess
import sys

import pytest
from hypothesis import given, strategies as st
from jsonschema import Draft202012Validator, FormatChecker

from greenroom.core import ToolError
from greenroom.llm.root_schema import fold_root
from greenroom.schemas._internal import InputValidator
from greenroom.schemas.bounded_check import BoundedValidator
from greenroom.schemas.foreign_schema import is_plain, rewrite_schema


def of(**properties):
    return {"type": "object", "properties": properties}


A = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "fits", "misfits"),
    [
        ({}, {"a": 1}, None),
        ({"properties": {"a": {"type": "string"}}}, {"a": "x"}, {"a": 1}),
        ({"type": ["object", "null"], "properties": A["properties"]}, {"a": "x"}, {"a": 1}),
        ({"$ref": "#/$defs/In", "$defs": {"In": A}}, {"a": "x"}, {"a": 1}),
        ({"$ref": "#/definitions/In", "definitions": {"In": A}}, {"a": "x"}, {"a": 1}),
        ({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"b": 1}, {"c": 1}),
        (of(a={"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}),
         {"a": ["x", 1]}, {"a": ["x", "y"]}),
        (of(a={"items": [{}], "additionalItems": False}), {"a": [1]}, {"a": [1, 2]}),
        (of(a={"items": {"type": "string"}, "additionalItems": False}), {"a": ["x", "y"]},
         {"a": [1]}),
        (of(a={"type": "string", "nullable": True}), {"a": None}, {"a": 1}),
        (of(a={"type": "string", "nullable": True, "enum": ["x"]}), {"a": None}, {"a": "y"}),
        ({**of(a={"$ref": "#/$defs/A", "nullable": True}), "$defs": {"A": A}}, {"a": None},
         {"a": 1}),
        (of(a={"type": "string", "pattern": r"^\p{L}+$"}), {"a": "Zoë"}, {"a": "1"}),
        (of(a={"type": "string", "pattern": r"^\w{1,255}$"}), {"a": "b"}, {"a": "-"}),
        (of(a={"type": "string", "pattern": "("}), {"a": "anything"}, {"a": 1}),
        (of(a={"type": "number", "minimum": 0, "exclusiveMinimum": True}), {"a": 1}, {"a": 0}),
        (of(a={"type": "number", "maximum": 9, "exclusiveMaximum": False}), {"a": 9}, {"a": 10}),
        (of(a={"type": "STRING", "format": "int32", "description": None}), {"a": "x"}, {"a": 1}),
        (of(a={"type": "any"}), {"a": 1}, None),
        (of(a={"type": "string", "required": True}), {"a": "x"}, {}),
        ({**A, "dependencies": {"a": ["b"]}}, {"a": "x", "b": 1}, {"a": "x"}),
        ({**A, "$schema": "http://json-schema.org/draft-07/schema#", "id": "urn:x"}, {"a": "x"},
         {"a": 1}),
        ({**of(a={"$ref": "#/$defs/S"}), "$id": "https://a.test/in.json",
          "$defs": {"S": {"type": "string"}}}, {"a": "x"}, {"a": 1}),
        (of(a={"$id": "https://a.test/a", "$ref": "#/$defs/S",
               "$defs": {"S": {"type": "string"}}}), {"a": "x"}, {"a": 1}),
        (of(a={"$ref": "#text"}, b={"$id": "#text", "type": "string"}), {"a": "x"}, {"a": 1}),
        ({"type": "object", "properties": [], "required": []}, {"a": 1}, None),
        ({**of(a={"type": "string", "title": 3, "examples": "x"}), "required": ["a", "a"]},
         {"a": "x"}, {}),
        ({**of(a={"type": "string"}), "$schema": "https://json-schema.org/draft/2019-09/schema"},
         {"a": "x"}, {"a": 1}),
        ({**of(a={"$ref": "#/components/schemas/A"}),
          "components": {"schemas": {"A": {"type": "STRING", "nullable": True}}}},
         {"a": None}, {"a": 1}),
        ({**of(a={"$ref": "#/x/y"}), "x": {"y": {"properties": {"a": {"$ref": "#/x/y"}}}}},
         {"a": {"a": {}}}, None),
        ({**of(a={"$ref": "#/definitions/A"}, b={"$ref": "#/$defs/A"}),
          "definitions": {"A": {"type": "string"}}, "$defs": {"A": {"type": "integer"}}},
         {"a": "x", "b": 1}, {"a": 1}),
        ({**of(b={"$ref": "#/properties/definitions/items/0"}),
          "properties": {"definitions": {"items": [{"type": "string"}]},
                         "b": {"$ref": "#/properties/definitions/items/0"}}}, {"b": "x"}, {"b": 1}),
        ({**of(b={"$ref": "#/dependencies/c"}), "dependencies": {"c": {"required": ["d"]}}},
         {"b": {"d": 1}}, {"b": {}}),
        ({**of(a={"$ref": "#/definitions/a~1b%20c/items"}),
          "definitions": {"a/b c": {"items": {"type": "string"}}}}, {"a": "x"}, {"a": 1}),
        ({**of(a={"$ref": "in.json#/definitions/A"}), "$id": "https://a.test/in.json",
          "definitions": {"A": {"type": "string"}}}, {"a": "x"}, {"a": 1}),
        ({**of(a={"$ref": "https://a.test/in#/definitions/A"}), "id": "https://a.test/in#",
          "definitions": {"A": {"type": "string"}}}, {"a": "x"}, {"a": 1}),
        (of(a={"$id": "https://a.test/a", "properties": {"b": {"$ref": "#/properties/c"},
                                                         "c": {"type": "string"}}}),
         {"a": {"b": "x"}}, {"a": {"b": 1}}),
        (of(a={"$ref": "#text"}, b={"id": "#text", "type": "string"}), {"a": "x"}, {"a": 1}),
        ({**of(a={"$recursiveRef": "#"}), "$recursiveAnchor": True}, {"a": {}}, {"a": 1}),
        (of(a={"type": "string", "const": "x", "nullable": True}), {"a": None}, {"a": "y"}),
        ({**of(a={"type": "object", "allOf": [{"$ref": "#/$defs/A"}], "nullable": True}),
          "$defs": {"A": A}}, {"a": None}, {"a": {"a": 1}}),
        (of(a={"type": "array", "items": []}), {"a": [1]}, {"a": 1}),
        (of(properties={"type": "string"}, items={"type": "array", "default": None}),
         {"properties": "x", "items": []}, {"items": 1}),
    ],
)  # fmt: skip
def test_a_valid_foreign_schema_is_taken_and_checked(schema, fits, misfits):
    validator = InputValidator("T", schema)
    assert validator.fault(fits) is None
    assert misfits is None or validator.fault(misfits)
    root = fold_root(validator.schema)
    assert root["type"] == "object"
    assert not root.keys() & {"anyOf", "oneOf", "allOf", "$ref", "not", "enum"}
    InputValidator("T", root)


@pytest.mark.parametrize(
    "schema",
    [
        of(a={"$ref": "#/properties/a/description", "description": "x"}),
        {**of(a={"$ref": "#/required/0"}), "required": ["a"]},
        of(a={"$ref": "http://[x#/a"}),
        {**of(a={"$ref": "http://[x#/a"}), "$id": "http://a.test/b"},
        {**of(a={"$id": "http://["}, b={"$ref": "c"}), "$id": "http://a.test/b"},
        of(a={"$ref": "#/%"}),
    ],
)
def test_what_points_to_no_schema_is_refused(schema):
    with pytest.raises(ToolError, match=r"points to|broken address"):
        InputValidator("T", schema)


def test_a_moved_part_gets_a_name_of_its_own():
    schema = {
        **of(a={"$ref": "#/x/A"}, b={"$ref": "#/y/A"}, c={"$ref": "#/definitions/A"}),
        "definitions": {"A": {"const": 1}, "A_1": {}},
        "x": {"A": {"const": 2}},
        "y": {"A": {"const": 3}},
    }
    validator = InputValidator("T", schema)
    assert validator.fault({"a": 2, "b": 3, "c": 1}) is None
    assert all(validator.fault(each) for each in ({"a": 1}, {"b": 2}, {"c": 2}))


def test_what_is_pointed_to_is_a_definition_once():
    part = {"type": "string", "pattern": "^(a|aa)+$"}
    schema = {**of(a={"$ref": "#/x/y"}, b={"$ref": "#/x/y"}), "x": {"y": part}}
    place = {"$ref": "#/$defs/y"}
    assert rewrite_schema(schema) == {**of(a=place, b=place), "$defs": {"y": part}}
    assert BoundedValidator("T", schema).has_patterns


def test_a_value_that_looks_like_a_schema_stays_as_it_is():
    value = {"type": "STRING", "items": [1], "nullable": True, "x": None}
    schema = of(a={"default": value, "const": value, "enum": [value], "examples": [value]})
    assert rewrite_schema(schema) == schema


def test_what_is_up_to_date_stays_as_it_is():
    schema = {
        **of(a={"type": ["string", "null"], "pattern": "^a"}, b={"prefixItems": [{}]}),
        "$defs": {"A": {"const": None}},
        "required": ["a"],
        "dependentRequired": {"a": ["b"]},
    }
    assert rewrite_schema(schema) == schema


def test_no_reference_is_ever_fetched():
    with pytest.raises(ToolError, match="points to 'http://127"):
        InputValidator("T", of(a={"$ref": "http://127.0.0.1:9/s"}))


_WORDS = ("type", "properties", "items", "required", "enum", "minimum", "maxLength", "default")
_WORDS += ("description", "additionalProperties", "$ref", "pattern", "allOf", "x-own")
_values = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.floats(), st.sampled_from(["object", "x", ""])
)
_schemas = st.recursive(
    _values | st.lists(_values, max_size=3),
    lambda parts: st.dictionaries(
        st.sampled_from(
            [
                "type",
                "properties",
                "items",
                "required",
                "enum",
                "minimum",
                "maxLength",
                "default",
                "description",
                "additionalProperties",
                "$ref",
                "pattern",
                "allOf",
                "x-own",
            ]
        ),
        parts | st.dictionaries(st.sampled_from(["a", "$ref", "type"]), parts, max_size=2),
        max_size=4,
    ),
    max_leaves=12,
)


@given(_schemas)
def test_a_plain_schema_is_one_that_jsonschema_finds_no_fault_in(schema):
    if is_plain(schema):
        Draft202012Validator.check_schema(schema, format_checker=FormatChecker(formats=()))


def test_tools_with_plain_schemas_are_registered_without_jsonschema():
    code = (
        "import sys\n"
        "from greenroom.tools import ToolRegistry, builtin_tools\n"
        "ToolRegistry(builtin_tools())\n"
        "print('jsonschema' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
