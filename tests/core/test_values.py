"""Every wire value survives the way to JSON and back."""

import gc
from datetime import UTC

import msgspec
import pytest
from hypothesis import given, strategies as st

from greenroom.core import (
    InputMessage,
    Message,
    OutputChunk,
    SubAgentOutput,
    TextBlock,
    TextDelta,
    ToolResult,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    Usage,
    UserInput,
)
from greenroom.core._internal import InvalidJSONError, as_blocks, serde

text = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)


def values_of(union):
    """Build any member of a union of structs, its fields drawn by their types."""
    return st.one_of([struct(kind) for kind in union.__args__])


def struct(kind):
    fields = {each.name: value(each.type) for each in msgspec.inspect.type_info(kind).fields}
    if kind in (Message, UserInput):
        fields["sender"] = st.sampled_from(["", "plan"])
    if kind is ToolResultBlock:
        fields["tool_use_id"] = text.filter(bool)
    return st.fixed_dictionaries(fields).map(lambda drawn: kind(**drawn))


def value(kind):
    match kind:
        case msgspec.inspect.StrType():
            return text
        case msgspec.inspect.BoolType():
            return st.booleans()
        case msgspec.inspect.IntType():
            return st.integers(0, 2**40)
        case msgspec.inspect.FloatType():
            return st.floats(0, 2.0**40)
        case msgspec.inspect.DateTimeType():
            return st.datetimes(timezones=st.just(UTC))
        case msgspec.inspect.NoneType():
            return st.none()
        case msgspec.inspect.EnumType(cls=cls):
            return st.sampled_from(cls)
        case msgspec.inspect.LiteralType(values=values):
            return st.sampled_from(values)
        case msgspec.inspect.DictType(key_type=msgspec.inspect.StrType()):
            return st.dictionaries(text, json, max_size=3)
        case msgspec.inspect.DictType(key_type=key, value_type=item):
            return st.dictionaries(value(key), value(item), max_size=3)
        case msgspec.inspect.VarTupleType(item_type=item):
            return st.lists(value(item), max_size=3).map(tuple)
        case msgspec.inspect.UnionType(types=types):
            return st.one_of([value(item) for item in types])
        case msgspec.inspect.CustomType(cls=cls) if cls is object:
            return json | st.just(msgspec.UNSET)
        case msgspec.inspect.StructType(cls=cls) if cls is SubAgentOutput:
            return st.builds(SubAgentOutput, text, st.builds(TextDelta, text))
        case msgspec.inspect.StructType(cls=cls):
            return struct(cls)
    raise AssertionError(kind)


@pytest.mark.parametrize("union", [OutputChunk, InputMessage], ids=["output", "input"])
@given(st.data())
def test_round_trip_through_json(union, data):
    kinds = [kind for kind in union.__args__ if kind is not SubAgentOutput]
    drawn = data.draw(st.one_of([struct(kind) for kind in kinds]))
    decoded = serde.decode(serde.encode(drawn), union)
    assert decoded == drawn
    assert is_frozen(drawn)
    assert is_frozen(decoded)


@given(struct(Message))
def test_messages_round_trip_with_every_kind_of_block(message):
    decoded = serde.decode(serde.encode(message), Message)
    assert decoded == message
    assert is_frozen(message)
    assert is_frozen(decoded)


def is_frozen(value):
    """Whether no dict and no list in a value can be changed."""
    if isinstance(value, msgspec.Struct):
        inner = [getattr(value, name) for name in value.__struct_fields__]
    elif isinstance(value, dict):
        inner = value.values()
    else:
        inner = value if isinstance(value, list | tuple) else ()
    return type(value) not in (dict, list) and all(map(is_frozen, inner))


@given(st.data())
def test_a_wrapped_chunk_round_trips_at_any_depth(data):
    chunk = data.draw(struct(TextDelta))
    for name in ("child", "grandchild"):
        chunk = SubAgentOutput(name, chunk)
    assert serde.decode(serde.encode(chunk), OutputChunk) == chunk


def test_values_are_frozen():
    with pytest.raises(AttributeError):
        TextBlock("a").text = "b"


def test_an_unknown_block_is_kept_verbatim():
    raw = {"type": "hologram", "depth": [1, {"x": None}]}
    message = Message.assistant([UnknownBlock(raw)])
    assert serde.decode(serde.encode(message), Message).content[0].raw == raw


def test_unknown_fields_of_newer_versions_do_not_stop_a_reader():
    line = b'{"role":"user","content":[{"type":"text","text":"a","mood":"new"}],"shade":1}'
    assert serde.decode(line, Message).text == "a"


def test_a_decode_error_says_where():
    with pytest.raises(InvalidJSONError, match=r"content\[0\]"):
        serde.decode(b'{"role":"user","content":[{"type":"text"}]}', Message)


def test_usage_adds_and_keeps_what_was_not_reported_apart_from_zero():
    total = Usage(1, 2) + Usage(3, None, cache_read_tokens=0)
    assert total == Usage(4, 2, 0)
    assert total.cache_write_tokens is None


def test_message_views():
    call = ToolUseBlock("t1", "Read", {"file_path": "a"})
    message = Message.assistant([TextBlock("let me "), TextBlock("look"), call])
    assert message.text == "let me look"
    assert message.tool_uses == (call,)
    assert message.tool_results == ()


def test_a_text_is_one_block_of_valid_unicode_and_blocks_stay_as_they_are():
    assert as_blocks("a\ud800") == (TextBlock("a\ufffd"),)
    blocks = (TextBlock("a"), ToolUseBlock("t1", "Read"))
    assert as_blocks(iter(blocks)) == blocks
    assert as_blocks([]) == ()


def test_a_long_conversation_gives_the_garbage_collector_little_to_go_through():
    def count():
        gc.collect()
        return len(gc.get_objects())

    before = count()
    conversation = [Message.user(f"number {number}") for number in range(1_000)]
    grown = count() - before
    assert len(conversation) == 1_000
    assert grown < 2_000, "a message is two values and a tuple"


@pytest.mark.parametrize("whole", [ToolResult.ok("x"), Message.user("x")])
def test_what_only_holds_blocks_is_not_one(whole):
    with pytest.raises(TypeError, match="is not a block"):
        Message.user([whole])
