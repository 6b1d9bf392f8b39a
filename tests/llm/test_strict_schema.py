"""JSON Schemas in the words of two vendors' strict modes."""

import pytest

from greenroom.llm.strict_schema import ANTHROPIC, OPENAI, drop_nulls, strict_schema

STRING = {"type": "string"}
NULL = {"type": "null"}
PREFIX = 'prefixItems: [{"type":"string"},{"type":"string"},{"type":"null"}]'


def closed(**properties):
    """An object with these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def adapted(schema, dialect=OPENAI):
    """The schema of one property, adapted."""
    whole = strict_schema(closed(a=schema), dialect)
    return whole and whole["properties"]["a"]


SAME = [
    {"type": "integer"},
    {"type": ["string", "null"]},
    {"type": "array", "items": STRING},
    {"anyOf": [STRING, {"type": "integer"}]},
    {"type": "string", "format": "date"},
    {"type": "string", "description": "a name"},
    closed(b=STRING, c=closed(d=NULL)),
    closed(),
]


@pytest.mark.parametrize("dialect", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
@pytest.mark.parametrize("schema", SAME, ids=str)
def test_what_every_strict_mode_knows_stays_as_it_is(schema, dialect):
    assert adapted(schema, dialect) == schema


@pytest.mark.parametrize(
    ("schema", "openai", "anthropic"),
    [
        (
            {"type": "integer", "minimum": 1},
            {"type": "integer", "minimum": 1},
            {"type": "integer", "description": "(minimum: 1)"},
        ),
        (
            {"type": "string", "minLength": 1, "description": "A name.", "default": "x"},
            {"type": "string", "description": 'A name. (default: "x", minLength: 1)'},
            {"type": "string", "description": 'A name. (default: "x", minLength: 1)'},
        ),
        (
            {"type": "string", "pattern": "^(?=a)", "format": "uri"},
            {"type": "string", "description": '(format: "uri", pattern: "^(?=a)")'},
            {"type": "string", "format": "uri", "description": '(pattern: "^(?=a)")'},
        ),
        (
            {"type": "array", "prefixItems": [STRING, STRING, NULL], "minItems": 3, "items": False},
            {
                "type": "array",
                "items": {"anyOf": [STRING, NULL]},
                "minItems": 3,
                "description": f"({PREFIX})",
            },
            {
                "type": "array",
                "items": {"anyOf": [STRING, NULL]},
                "description": f"(minItems: 3, {PREFIX})",
            },
        ),
    ],
    ids=["bounds", "default", "pattern", "tuple"],
)
def test_a_constraint_is_enforced_or_told(schema, openai, anthropic):
    assert adapted(schema, OPENAI) == openai
    assert adapted(schema, ANTHROPIC) == anthropic


def test_listed_values_have_a_type_where_one_is_wanted():
    listed = {"type": "string", "enum": ["a", "b"]}
    assert adapted(listed, OPENAI) == listed
    assert adapted(listed, ANTHROPIC) == {"enum": ["a", "b"]}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"const": "a", "title": "A"}, {"type": "string", "const": "a"}),
        ({"enum": ["a", 1, None]}, {"type": ["string", "integer", "null"], "enum": ["a", 1, None]}),
        (
            {"oneOf": [STRING, NULL], "discriminator": {"propertyName": "k"}},
            {"anyOf": [STRING, NULL]},
        ),
        ({"allOf": [STRING], "description": "b"}, {"type": "string", "description": "b"}),
    ],
    ids=["const", "enum", "oneOf", "allOf"],
)
def test_what_has_another_name_is_translated(schema, expected):
    assert adapted(schema) == expected


@pytest.mark.parametrize("dialect", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"description": "anything"},
        True,
        {"type": "object"},
        {"type": "object", "additionalProperties": STRING},
        closed(b=STRING) | {"additionalProperties": True},
        closed(b=STRING) | {"patternProperties": {"^x": STRING}},
        {"not": STRING},
        {"type": "array"},
        {"enum": [["a"]]},
        {"type": "array", "items": STRING, "enum": [["a"]]},
        {"type": ["object", "null"]},
        {"allOf": [STRING, {"maxLength": 3}]},
        {"$ref": "#/$defs/Absent"},
        {"$ref": "https://example.com/schema"},
    ],
    ids=str,
)
def test_what_no_strict_mode_can_say_makes_a_schema_unfit(schema, dialect):
    assert adapted(schema, dialect) is None


def test_a_root_that_is_no_object_is_unfit():
    assert strict_schema({"anyOf": [STRING, NULL]}, OPENAI) is None


def test_optional_properties_are_null_where_each_is_required():
    schema = closed(a=STRING, b=STRING, c={"anyOf": [STRING, NULL]}) | {"required": ["a"]}
    openai = strict_schema(schema, OPENAI)
    assert openai["required"] == ["a", "b", "c"]
    assert openai["properties"]["b"] == openai["properties"]["c"] == {"anyOf": [STRING, NULL]}
    assert strict_schema(schema, ANTHROPIC) == schema


def test_definitions_are_adapted_and_references_stand_alone():
    part = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    whole = closed(a={"$ref": "#/$defs/P"}, b={"$ref": "#/$defs/P", "description": "the other"})
    made = strict_schema(whole | {"$defs": {"P": part}}, OPENAI)
    assert made["$defs"]["P"] == part | {"additionalProperties": False}
    assert made["properties"] == {
        "a": {"$ref": "#/$defs/P"},
        "b": part | {"additionalProperties": False, "description": "the other"},
    }


def test_definitions_to_which_nothing_refers_are_left_out():
    free = {"type": "object", "additionalProperties": True}
    part = closed(x=STRING)
    whole = closed(a={"$ref": "#/$defs/P", "description": "written out"})
    made = strict_schema(whole | {"$defs": {"P": part, "Q": free}}, OPENAI)
    assert made == closed(a=part | {"description": "written out"})


def test_recursion_is_for_those_that_take_it():
    node = closed(next={"anyOf": [{"$ref": "#/$defs/Node"}, NULL]})
    whole = closed(a={"$ref": "#/$defs/Node"}) | {"$defs": {"Node": node}}
    assert strict_schema(whole, OPENAI) == whole
    assert strict_schema(whole, ANTHROPIC) is None
    twice = closed(a={"$ref": "#/$defs/P"}, b={"$ref": "#/$defs/Q"})
    twice |= {"$defs": {"P": closed(x=STRING), "Q": closed(y={"$ref": "#/$defs/P"})}}
    assert strict_schema(twice, ANTHROPIC) == twice


def test_more_options_than_a_vendor_compiles_are_unfit():
    for count, fits in ((24, True), (25, False)):
        schema = closed(**{f"p{at}": STRING for at in range(count)}) | {"required": []}
        assert (strict_schema(schema, ANTHROPIC) is not None) == fits
        assert strict_schema(schema, OPENAI) is not None
    for count, fits in ((16, True), (17, False)):
        schema = closed(**{f"p{at}": {"anyOf": [STRING, NULL]} for at in range(count)})
        assert (strict_schema(schema, ANTHROPIC) is not None) == fits


CAT = closed(kind={"const": "cat"}, lives={"type": "integer"}) | {"required": ["kind"]}
DOG = closed(kind={"enum": ["dog"]}, name={"anyOf": [STRING, NULL]}) | {"required": ["kind"]}


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (closed(a=STRING) | {"required": []}, {"a": None}, {}),
        (closed(a=STRING), {"a": None}, {"a": None}),
        (closed(a=NULL) | {"required": []}, {"a": None}, {"a": None}),
        (closed(a={"type": ["string", "null"]}) | {"required": []}, {"a": None}, {"a": None}),
        (closed(a={}) | {"required": []}, {"a": None}, {"a": None}),
        ({"anyOf": [DOG, CAT]}, {"kind": "cat", "lives": None}, {"kind": "cat"}),
        ({"anyOf": [CAT, DOG]}, {"kind": "dog", "name": None}, {"kind": "dog", "name": None}),
        (
            {"type": "array", "items": {"$ref": "#/$defs/Cat"}, "$defs": {"Cat": CAT}},
            [{"kind": "cat", "lives": None}, 7],
            [{"kind": "cat"}, 7],
        ),
        (
            {"type": "object", "additionalProperties": CAT},
            {"tom": {"kind": "cat", "lives": None}, "nobody": None},
            {"tom": {"kind": "cat"}, "nobody": None},
        ),
        (
            {"prefixItems": [STRING, CAT]},
            ["a", {"kind": "cat", "lives": None}],
            ["a", {"kind": "cat"}],
        ),
        (
            CAT,
            {"kind": "cat", "lives": None, "more": None},
            {"kind": "cat", "lives": None, "more": None},
        ),
        (CAT, "no object", "no object"),
    ],
)  # fmt: skip
def test_a_null_that_means_nothing_is_left_out(schema, value, expected):
    assert drop_nulls(schema, value) == expected
