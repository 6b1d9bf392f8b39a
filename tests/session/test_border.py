"""What a session accepts: JSON that every reader can read again, at any depth of the stack."""

import pytest

from greenroom.core import Message, ToolUseBlock
from greenroom.core._internal import InvalidJSONError, serde
from greenroom.llm.portable_calls import tool_use
from greenroom.session import AgentSession, InMemoryStore
from greenroom.session.entries import decode_entries

MAX_DEPTH = serde.MAX_DEPTH
LONG = "long " * 100_000


def nested(depth):
    """A value of so many levels."""
    value = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


def reply(value, *, padding=""):
    return Message.assistant([ToolUseBlock("t", "Write", {"text": padding, "value": value})])


def deeper(work, levels):
    """Do this from so far down the stack."""
    return deeper(work, levels - 1) if levels else work()


@pytest.mark.parametrize("padding", ["", LONG], ids=["short", "long"])
async def test_what_is_as_deep_as_it_may_be_is_read_again_from_far_down_the_stack(padding):
    store = InMemoryStore()
    session = AgentSession.new("coder", session_id="mine", store=store)
    session.add_message(Message("assistant", (ToolUseBlock("t", "Write", nested(MAX_DEPTH)),)))
    session.add_message(reply(nested(MAX_DEPTH - 1), padding=padding))
    session.set_metadata("plan", nested(200))
    await session.save()
    data = bytes(store._sessions["mine"].history)
    assert deeper(lambda: decode_entries(data.splitlines()[0]), 250)
    loaded = await AgentSession.load("mine", store=store)
    assert loaded.history[: len(session.history)] == session.history
    assert loaded.metadata == session.metadata


@pytest.mark.parametrize("depth", [MAX_DEPTH + 10, 980, 100_000])
@pytest.mark.parametrize("padding", ["", LONG], ids=["short", "long"])
def test_what_is_deeper_is_refused_at_once(depth, padding):
    session = AgentSession.new("coder")
    with pytest.raises(InvalidJSONError, match=r"more than \d+ levels"):
        session.add_message(reply(nested(depth), padding=padding))
    with pytest.raises(InvalidJSONError, match="'plan'"):
        session.set_metadata("plan", nested(depth))
    assert session.history == ()
    assert session.metadata == {}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [-float("inf")]])
@pytest.mark.parametrize("padding", ["", LONG], ids=["short", "long"])
def test_what_is_no_number_is_refused_and_never_becomes_null(value, padding):
    session = AgentSession.new("coder")
    with pytest.raises(InvalidJSONError, match="is not a JSON number"):
        session.add_message(reply(value, padding=padding))
    assert session.history == ()


@pytest.mark.parametrize("padding", ["", LONG], ids=["short", "long"])
def test_an_integer_that_no_text_can_hold_is_refused(padding):
    session = AgentSession.new("coder")
    session.add_message(reply(10**3900, padding=padding))
    with pytest.raises(InvalidJSONError, match="more digits"):
        session.add_message(reply(10**4000, padding=padding))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1e999}', "is not a JSON number"),
        ('{"a": [-1e999]}', "is not a JSON number"),
        ('{"a":' * 601 + "1" + "}" * 601, "levels"),
        ('{"a":' * 5000 + "1" + "}" * 5000, ""),
    ],
)
def test_what_a_model_sends_beyond_that_is_an_invalid_call_and_no_end_of_a_turn(text, why):
    call = tool_use("t1", "Read", text)
    assert why in call.invalid
    assert call.raw_input == text
    session = AgentSession.new("coder")
    session.add_message(Message.assistant([call]))
    assert session.history[0].tool_uses[0].invalid == call.invalid
