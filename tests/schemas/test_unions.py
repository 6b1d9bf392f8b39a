"""A fault in a union says what the branch wants that fits best."""

from typing import Annotated, Literal

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field

from greenroom.schemas._internal import InputValidator
from greenroom.tools import tool


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog", "puppy"]
    name: str
    age: int | None = None


@tool(category="read")
def keep(
    limit: int | None = None,
    pet: Cat | Dog | None = None,
    tagged: Annotated[Cat | Dog, Field(discriminator="kind")] | None = None,
    pets: list[Cat | Dog] = [],  # noqa: B006
    mode: Literal["fast", "slow"] | int = 1,
) -> str:
    """Keep a pet."""
    return "x"


FAULTS = {
    "a scalar": ({"limit": "many"}, "limit: expected integer or null, got string 'many'"),
    "no branch": ({"pet": 3}, "pet: expected object or null, got integer 3"),
    "values": (
        {"mode": "medium"},
        "mode: expected 'fast' or 'slow' or integer, got string 'medium'",
    ),
    "a part": ({"pet": {"kind": "cat"}}, "pet: the parameter 'lives' is missing"),
    "a type": (
        {"pet": {"kind": "cat", "lives": "x"}},
        "pet.lives: expected integer, got string 'x'",
    ),
    "a union in a branch": (
        {"pet": {"kind": "dog", "name": "x", "age": "old"}},
        "pet.age: expected integer or null, got string 'old'",
    ),
    "a tag": (
        {"pet": {"kind": "cow"}},
        "pet.kind: expected 'cat' or 'dog' or 'puppy', got string 'cow'",
    ),
    "a branch's own": ({"pet": {"kind": "puppy"}}, "pet: the parameter 'name' is missing"),
    "a tag of its own": (
        {"tagged": {"kind": "cow"}},
        "tagged.kind: expected 'cat' or 'dog' or 'puppy', got string 'cow'",
    ),
    "no tag": (
        {"tagged": {"lives": 9}},
        "tagged: the parameter 'kind' is missing; it is 'cat' or 'dog' or 'puppy'",
    ),
    "in a list": (
        {"pets": [{"kind": "cat", "lives": 1}, {"kind": "dog"}]},
        "pets[1]: the parameter 'name' is missing",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_in_a_union_is_told_in_words_to_act_on(case):
    value, told = FAULTS[case]
    fault = InputValidator("keep", keep.parameters).fault(value)
    assert fault.splitlines()[1:] == [f"- {told}"]


def test_branches_that_fit_equally_well_are_all_named():
    schema = {"anyOf": [{"required": ["url"]}, {"required": ["text"]}]}
    fault = InputValidator("T", schema).fault({})
    assert fault.endswith("- the parameter 'url' is missing or the parameter 'text' is missing")


def test_what_fits_two_forms_that_exclude_each_other_is_told():
    schema = {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}
    assert "several of the forms" in InputValidator("T", schema).fault({"a": 1, "b": 2})


parts = st.recursive(
    st.sampled_from(
        [
            {"type": "string"},
            {"type": ["integer", "null"]},
            {"const": 1},
            {"enum": ["a", 2, None]},
            {"type": "object", "required": ["a", "b"]},
            {"properties": {"a": {"const": "x"}}, "additionalProperties": False},
            {"items": {"type": "string"}},
            {"minLength": 3},
            {"not": {}},
            False,
        ]
    ),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["anyOf", "oneOf", "allOf"]), st.lists(inner, min_size=1)).map(
            lambda pair: {pair[0]: pair[1]}
        ),
        inner.map(lambda each: {"properties": {"a": each}}),
        inner.map(lambda each: {"properties": {"a": {"anyOf": [each]}}}),
        inner.map(lambda each: {"items": each}),
    ),
    max_leaves=8,
)
values = st.recursive(
    st.sampled_from([None, True, 1, 2.5, "a", "x" * 5_000, '["a"]', '{"a": 1}']),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=6,
)


@given(parts, values)
def test_every_misfit_is_told_within_bounds(part, value):
    validator = InputValidator("T", {"properties": {"v": part}})
    fault = validator.fault({"v": value})
    assert (
        fault is None
        or 3 < len(fault.removeprefix("T was not run: its input does not fit.")) < 4_000
    )
    parsed, told = validator.examine({"v": value})
    assert told == fault
    assert validator.examine(parsed) == (parsed, fault)
