"""Replaying a session's own replies."""

import pytest

from greenroom.core import Message, StopReason, TextBlock, ToolUseBlock
from greenroom.llm import LLMProvider, ModelBadRequestError, ModelRequest, RecordedProvider

CALL = Message(
    "assistant",
    (ToolUseBlock("t1", "Read", {"file_path": "a"}),),
    model="claude-x",
    provider="anthropic",
    stop_reason=StopReason.TOOL_USE,
)
ANSWER = Message("assistant", (TextBlock("done"),), model="claude-y", provider="anthropic")
REQUEST = ModelRequest(messages=[Message.user("whatever")])


async def test_replies_come_in_their_order_and_unchanged():
    model = RecordedProvider([Message.user("a"), CALL, Message.user("b"), ANSWER])
    assert isinstance(model, LLMProvider)
    assert (model.name, model.model) == ("recorded", "claude-x")
    assert await model.generate(REQUEST) == CALL
    async with model.stream(REQUEST) as stream:
        events = [event async for event in stream]
    assert stream.message == ANSWER
    assert len(events) > 2
    await model.aclose()


async def test_what_is_said_again_is_another_message():
    recorded = Message.assistant("done")
    model = RecordedProvider([recorded, recorded])
    again = [await model.generate(REQUEST) for _ in range(2)]
    assert again == [recorded, recorded]
    assert len({message.id for message in (recorded, *again)}) == 3


async def test_a_recording_that_is_used_up_says_so():
    model = RecordedProvider([ANSWER])
    await model.generate(REQUEST)
    with pytest.raises(ModelBadRequestError, match="ended after 1 replies"):
        await model.generate(REQUEST)
    assert repr(model) == "RecordedProvider(<1 replies>)"


def test_an_empty_recording_has_a_name_for_its_model():
    assert RecordedProvider([]).model == "recording"
