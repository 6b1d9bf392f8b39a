"""Faults are told in words that a model can act on: where, what was expected, what came."""

import pytest
from hypothesis import given, strategies as st

from greenroom.core import ToolError
from greenroom.core._internal import freeze
from greenroom.schemas._internal import InputValidator

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "maxLength": 5},
        "mode": {"enum": ["read", "write"]},
        "count": {"type": "integer", "minimum": 1},
        "size": {"type": ["number", "null"]},
        "todos": {
            "type": "array",
            "items": {"properties": {"status": {"enum": ["a", "b"]}, "never": False}},
        },
        "either": {"anyOf": [{"type": "integer"}, {"type": "object", "required": ["x"]}]},
    },
    "required": ["path"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({}, "- the parameter 'path' is missing"),
        ({"path": 3}, "- path: expected string, got integer 3"),
        ({"path": None}, "- path: expected string, got null"),
        ({"path": True}, "- path: expected string, got boolean True"),
        ({"path": [1]}, "- path: expected string, got array [1]"),
        ({"path": {}}, "- path: expected string, got object {}"),
        ({"path": 1.5}, "- path: expected string, got number 1.5"),
        ({"path": "a", "size": "b"}, "- size: expected number or null, got string 'b'"),
        ({"path": "a", "mode": "x"}, "- mode: expected one of 'read', 'write', got 'x'"),
        ({"path": "a", "count": 0}, "- count: 0 is less than the minimum of 1"),
        (
            {"path": "a", "pth": 1},
            "- the parameter 'pth' does not exist; there are: "
            "path, mode, count, size, todos, either",
        ),
        (
            {"path": "a", "x": 1, "y": 2},
            "- the parameters 'x', 'y' do not exist; there are: "
            "path, mode, count, size, todos, either",
        ),
        (
            {"path": "a", "todos": [{"status": "a"}, {"status": "z"}]},
            "- todos[1].status: expected one of 'a', 'b', got 'z'",
        ),
        ({"path": "a", "either": {}}, "- either: the parameter 'x' is missing"),
        ({"path": "a", "todos": [{"never": 1}]}, "- todos[0].never: may not be given"),
        ([], "- expected object, got array []"),
    ],
)
def test_a_fault_names_the_place_and_what_was_expected(value, told):
    fault = InputValidator("Do", SCHEMA).fault(value)
    assert fault.splitlines() == ["Do was not run: its input does not fit.", told]


def test_several_missing_parameters_are_told_in_one_line():
    schema = {"type": "object", "required": ["a", "b"]}
    assert "- the parameters 'a', 'b' are missing" in InputValidator("Do", schema).fault({})


def test_at_most_five_faults_are_told():
    schema = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(8)}}
    fault = InputValidator("Do", schema).fault({f"p{n}": n for n in range(8)})
    assert fault.count("expected string") == 5
    assert fault.endswith("- and 3 more")


@pytest.mark.parametrize("value", ["x" * 1_000_000, ["y" * 1_000] * 1_000, {"k" * 10_000: 1}])
def test_a_huge_value_is_not_repeated_in_full(value):
    schema = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 1}}}
    fault = InputValidator("Do", schema | {"additionalProperties": False})
    assert len(fault.fault({"a": value})) < 1_000
    assert len(fault.fault({"a": "b"} | {"k" * 10_000: 1})) < 1_000


def test_a_lone_surrogate_does_not_reach_the_message():
    fault = InputValidator("Do", SCHEMA).fault({"path": "a", "\ud800": 1, "mode": "\ud800"})
    assert fault.isascii()
    assert fault.count(r"'\ud800'") == 2


def test_what_fits_has_no_fault():
    validator = InputValidator("Do", SCHEMA)
    assert validator.fault({"path": "a", "count": 1, "todos": [], "either": 3}) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from([*SCHEMA["properties"], "other"]), json_values))
def test_any_input_is_judged_without_raising(value):
    fault = InputValidator("Do", SCHEMA).fault(value)
    assert fault is None or fault.startswith("Do was not run")


def test_a_schema_that_points_to_itself_for_ever_gives_a_fault():
    loop = {"$ref": "#/$defs/a"}
    schema = {"type": "object", "$defs": {"a": loop}, "properties": {"t": loop}}
    assert InputValidator("T", schema).fault({"t": 1}) == (
        "T was not run: its input does not fit.\n"
        "- the input, or the schema that it has to fit, is nested too deeply"
    )


def test_an_input_nested_too_deeply_for_its_schema_gives_a_fault():
    tree = {"type": "object", "properties": {"t": {"$ref": "#"}}}
    value: dict[str, object] = {}
    for _ in range(2000):
        value = {"t": value}
    assert "nested too deeply" in InputValidator("T", tree).fault(value)


def test_a_schema_nested_too_deeply_is_refused():
    schema: dict[str, object] = {}
    for _ in range(2000):
        schema = {"properties": {"t": schema}}
    with pytest.raises(ToolError, match="tool T: the schema is nested too deeply"):
        InputValidator("T", schema | {"type": "object"})


def test_missing_parameters_are_told_once_and_leave_room_for_other_faults():
    names = ["a", "b", "c", "d", "e", "f"]
    properties = {name: {"type": "string"} for name in [*names, "count"]}
    schema = {"type": "object", "properties": properties, "required": names}
    told = InputValidator("T", schema).fault({"count": 1})
    assert told.count("missing") == 1
    assert "count: expected string" in told


async def test_a_frozen_input_is_examined_once_where_two_checks_follow_each_other(monkeypatch):
    """As those of a call do, before it is judged and before it runs."""
    validator, examined = InputValidator("T", SCHEMA), []
    examine = validator._examine
    monkeypatch.setattr(validator, "_examine", lambda *a: examined.append(a[0]) or examine(*a))
    frozen, equal, plain = freeze({"path": "a"}), freeze({"path": "a"}), {"path": "a"}
    for each in (frozen, frozen, equal, plain):
        assert await validator.check(each) == (each, None)
    assert list(map(id, examined)) == list(map(id, (frozen, equal, plain)))
    plain["path"] = 3  # it may have changed since
    assert (await validator.check(plain))[1] is not None


async def test_faults_of_an_input_are_found_each_time():
    validator, wrong, quoted = InputValidator("T", SCHEMA), freeze({}), freeze({"count": "2"})
    for _ in range(2):
        assert "the parameter 'path' is missing" in (await validator.check(wrong))[1]
        assert (await validator.check(quoted))[0] == {"count": 2}
