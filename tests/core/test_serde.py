"""JSON at the border: strict where a model's arguments come in, forgiving where text goes out."""

import pytest

from greenroom.core import TextBlock
from greenroom.core._internal import InvalidJSONError, serde
from greenroom.core.serde import loads_object


def test_an_empty_argument_text_is_an_empty_object():
    assert loads_object("") == {}
    assert loads_object(" \n") == {}


@pytest.mark.parametrize(
    "text",
    [
        '{"command":"git status","command":"rm -rf src"}',
        '{"a":{"b":1,"b":2}}',
        '{"a":1} {"b":2}',
        '{"a":',
        "[1]",
        "null",
        '"text"',
        '{"a":NaN}',
        '{"a":"\\ud800"}',
        "{" * 100_000,
        "[" * 100_000,
    ],
)
def test_ambiguous_or_broken_arguments_are_refused(text):
    with pytest.raises(InvalidJSONError):
        loads_object(text)


def test_lone_surrogates_are_mended_on_the_way_out():
    assert serde.decode(serde.encode(TextBlock("a\ud800b")), TextBlock).text == "a\ufffdb"
    assert serde.loads(serde.dumps({"k\udc00": ["\ud800", 1]})) == {"k\ufffd": ["\ufffd", 1]}


def test_what_json_cannot_express_is_a_typed_error():
    with pytest.raises(InvalidJSONError):
        serde.encode(object())
    with pytest.raises(InvalidJSONError):
        serde.dumps({"a": object()})
    with pytest.raises(InvalidJSONError):
        serde.loads("{")
    with pytest.raises(InvalidJSONError):
        serde.decode('"\ud800"', str)
    deep = []
    for _ in range(2000):
        deep = [deep]
    with pytest.raises(InvalidJSONError):
        serde.dumps(deep)


@pytest.mark.parametrize("value", [(1,), {1: 2}, float("inf"), {"a": {b"b"}}, 2**70, object()])
def test_what_json_would_change_or_can_t_hold_is_not_plain(value):
    with pytest.raises(InvalidJSONError, match=r"^the plan can't be stored: "):
        serde.plain([value], "the plan")


def test_a_plain_value_is_copied():
    value = {"a": [1, None, True, 0.5, "ü"]}
    copy = serde.plain(value, "the plan")
    assert copy == value
    assert copy["a"] is not value["a"]


def test_pretty_text_is_sorted_and_indented():
    assert serde.dumps({"b": 1, "a": [2]}, pretty=True) == b'{\n  "a": [\n    2\n  ],\n  "b": 1\n}'


def test_a_key_that_stands_twice_is_found_among_many_in_one_pass():
    keys = ",".join(f'"k{number}":1' for number in range(200_000))  # in pairs it would take minutes
    with pytest.raises(InvalidJSONError, match="the key 'k199999' occurs twice"):
        loads_object(f'{{{keys},"k199999":2}}')
