"""The dicts and lists in frozen values: nobody changes them, and in all else they are plain."""

import copy
import json
import operator
import pickle
from types import MappingProxyType

import jsonschema
import msgspec
import orjson
import pydantic
import pytest
from hypothesis import given, strategies as st

from greenroom.core import (
    Custom,
    Message,
    ModelRequest,
    TextBlock,
    ToolDefinition,
    ToolResult,
    ToolUseBlock,
    UserInput,
)
from greenroom.core._internal import EMPTY, InvalidJSONError, freeze, serde, thaw

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text("aé", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner),
    max_leaves=12,
)

CHANGES = {
    dict: [
        lambda d: d.__setitem__("a", 2),
        lambda d: d.__delitem__("a"),
        lambda d: d.clear(),
        lambda d: d.pop("a"),
        lambda d: d.popitem(),
        lambda d: d.setdefault("b", 1),
        lambda d: d.update(b=1),
        lambda d: operator.ior(d, {"b": 1}),
        lambda d: d.__init__(b=1),
        lambda d: setattr(d, "b", 1),
        lambda d: setattr(d, "__class__", dict),
    ],
    list: [
        lambda each: each.__setitem__(0, 2),
        lambda each: each.__setitem__(slice(None), [2]),
        lambda each: each.__delitem__(0),
        lambda each: each.__delitem__(slice(None)),
        lambda each: each.append(2),
        lambda each: each.clear(),
        lambda each: each.extend([2]),
        lambda each: each.insert(0, 2),
        lambda each: each.pop(),
        lambda each: each.remove(1),
        lambda each: each.reverse(),
        lambda each: each.sort(),
        lambda each: operator.iadd(each, [2]),
        lambda each: operator.imul(each, 2),
        lambda each: each.__init__([2]),
        lambda each: setattr(each, "b", 1),
        lambda each: setattr(each, "__class__", list),
    ],
}


def containers(value):
    if isinstance(value, dict | list):
        yield value
        for each in value.values() if isinstance(value, dict) else value:
            yield from containers(each)


@given(VALUES)
def test_a_frozen_value_is_a_plain_one_in_all_but_changes(value):
    frozen = freeze(value)
    assert frozen == value
    assert value == frozen
    assert repr(frozen) == repr(value)
    for encode in (msgspec.json.encode, msgspec.msgpack.encode, orjson.dumps, json.dumps):
        assert encode(frozen) == encode(value)
    assert json.dumps(frozen, indent=1, sort_keys=True) == json.dumps(
        value, indent=1, sort_keys=True
    )
    assert serde.dumps(frozen, pretty=True) == serde.dumps(value, pretty=True)
    assert serde.plain(frozen, "it") == value
    for twin in (pickle.loads(pickle.dumps(frozen, 0)), pickle.loads(pickle.dumps(frozen))):
        assert twin == value
        assert type(twin) is type(frozen)
    for made in (thaw(frozen), copy.deepcopy(frozen), msgspec.to_builtins(frozen)):
        assert made == value
        assert {type(each) for each in containers(made)} <= {dict, list}
    assert type(copy.copy(frozen)) is type(value)
    assert freeze(frozen) is frozen


@given(VALUES)
def test_no_method_changes_a_frozen_value(value):
    frozen = freeze(value)
    for each in containers(frozen):
        for change in CHANGES[dict if isinstance(each, dict) else list]:
            with pytest.raises((TypeError, AttributeError)):
                change(each)
    assert frozen == value


def test_every_method_that_changes_a_dict_or_a_list_is_refused():
    for kind, sample in ((dict, {"a": 1}), (list, [1])):
        frozen, changing = freeze(sample), set()
        for name in dir(kind):
            for arguments in ((), (0,), ("a",), ([2],), ({"b": 1},), ("a", 2), (0, 2)):
                probe = kind(sample)
                try:
                    getattr(probe, name)(*arguments)
                except Exception:
                    continue
                if probe != sample:
                    changing.add(name)
        assert changing >= {"__setitem__", "__delitem__", "pop", "clear", "__init__"}
        for name in changing:
            with pytest.raises(TypeError, match=r"frozen value.*copy"):
                getattr(frozen, name)(0, 0)


def test_the_error_says_what_to_do():
    with pytest.raises(TypeError, match=r"list\(…\), or by copy.deepcopy"):
        ToolUseBlock("t1", "Sort", {"items": [2, 1]}).input["items"].sort()


def test_a_frozen_value_is_a_copy():
    given = {"items": [1], "nested": {"a": [1]}}
    call = ToolUseBlock("t1", "Sort", given)
    given["items"].append(2)
    given["nested"]["a"].clear()
    assert call.input == {"items": [1], "nested": {"a": [1]}}
    with pytest.raises(TypeError, match="unhashable"):
        hash(call.input)


def test_what_is_decoded_or_copied_is_frozen_too():
    message = Message.assistant([ToolUseBlock("t1", "Sort", {"items": [1]}, extra={"a": {}})])
    for twin in (
        serde.decode(serde.encode(message), Message),
        serde.convert(msgspec.to_builtins(message), Message),
        copy.deepcopy(message),
        pickle.loads(pickle.dumps(message)),
        msgspec.structs.replace(message, extra={"a": [1]}),
    ):
        (call,) = twin.tool_uses
        for each in (*containers(call.input), *containers(call.extra), *containers(twin.extra)):
            assert type(each) not in (dict, list)


def test_defaults_are_not_written():
    assert serde.encode(TextBlock("a", {})) == b'{"type":"text","text":"a"}'
    assert TextBlock("a").extra is TextBlock("b", {}).extra is EMPTY
    assert serde.encode(UserInput((), "i")) == b'{"type":"user_input","content":[],"id":"i"}'


def test_other_libraries_take_them():
    class Order(pydantic.BaseModel, strict=True):
        items: list[int]
        more: dict[str, object]

    value = freeze({"items": [1], "more": {"a": [1]}})
    order = Order.model_validate(value)
    order.items.append(2)
    assert order.model_dump() == {"items": [1, 2], "more": {"a": [1]}}
    schema = freeze({"type": "object", "required": ["items"], "properties": {"more": {}}})
    jsonschema.validate(value, schema)
    jsonschema.Draft202012Validator.check_schema(schema)


def test_a_deep_value_is_frozen_and_one_that_holds_itself_is_refused():
    deep = []
    for _ in range(900):
        deep = [deep, {"a": 1}]
    assert thaw(freeze(deep)) == deep
    loop = {"a": []}
    loop["a"].append(loop)
    with pytest.raises(InvalidJSONError, match="holds itself"):
        ToolResult.ok("", loop=loop)


def test_tuples_stay_and_what_they_hold_is_frozen():
    frozen = freeze({"pair": ({"a": 1}, 2)})
    assert frozen == {"pair": ({"a": 1}, 2)}
    with pytest.raises(TypeError, match="frozen"):
        frozen["pair"][0]["a"] = 2


def test_a_request_is_a_copy_of_its_lists():
    messages = [Message.user("hi")]
    request = ModelRequest(messages=messages, options={"a": [1]}, stop_sequences=["x"])
    messages.clear()
    assert request.messages == [Message.user("hi")]
    for change in (request.messages.clear, request.options.clear, request.stop_sequences.clear):
        with pytest.raises(TypeError, match="frozen"):
            change()


def test_a_view_of_a_dict_is_a_copy_too():
    options = {"top_k": 1}
    request = ModelRequest(messages=[], options=MappingProxyType(options))
    options["top_k"] = 2
    assert request.options == {"top_k": 1}


def test_custom_data_is_frozen():
    data = {"a": [1]}
    chunk = Custom("x", data)
    data["a"].append(2)
    assert chunk.data == {"a": [1]}


def test_definitions_can_t_be_changed():
    schema = {"type": "object", "properties": {"a": {"enum": [1]}}}
    definition = ToolDefinition("a", "b", schema, output_schema={"type": "object"})
    for each in (*containers(definition.parameters), *containers(definition.output_schema)):
        assert type(each) not in (dict, list)
