"""Replies that a model or a filter ends early: the call that was being written never runs."""

import pytest

from greenroom.agents import Agent
from greenroom.core import Message, StopReason
from greenroom.llm.anthropic.decode import AnthropicDecoder
from greenroom.llm.gemini.decode import GeminiDecoder
from greenroom.llm.openai.decode import OpenAIDecoder
from greenroom.llm.recorded import RecordedProvider
from greenroom.llm.responses.decode import ResponsesDecoder
from tests.llm import wire


def messages(*pieces):
    events = [*wire.text_block(0, "I will"), *wire.tool_block(1, "c1", "wipe", *pieces)]
    data = wire.sse(wire.message_start(), *events, wire.message_delta("refusal"), wire.STOP)
    return wire.run(AnthropicDecoder(), data)


def chat(*pieces):
    begun = [{"content": "I will"}, wire.call(0, "c1", "wipe")]
    rest = (wire.call(0, arguments=piece) for piece in pieces)
    return wire.run(OpenAIDecoder(), wire.chat(*begun, *rest, finish="content_filter"))


def responses(*pieces):
    call = wire.call_item("fc_1", "c1", "wipe", "".join(pieces)) | {"status": "incomplete"}
    cut = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
    data = wire.responses_stream(wire.message_item("msg_1", "I will"), call, **cut)
    return wire.run(ResponsesDecoder(), data)


def gemini(*pieces):
    call = {"name": "wipe", "id": "c1", "willContinue": True}
    parts = [wire.text_part("I will"), {"functionCall": call}]
    return wire.run(GeminiDecoder(), wire.gemini(*parts, finish="SAFETY"))


@pytest.mark.parametrize("pieces", [(), ("",), ('{"folder": ',)])
@pytest.mark.parametrize("cut", [messages, chat, responses, gemini])
async def test_a_call_that_was_cut_off_does_not_run_with_its_defaults(cut, pieces):
    wiped = []

    def wipe(folder: str = "/") -> str:
        """Wipe a folder."""
        wiped.append(folder)
        return "wiped"

    reply = cut(*pieces)[-1].message
    assert reply.stop_reason in {StopReason.REFUSAL, StopReason.CONTENT_FILTER}
    agent = Agent(RecordedProvider([reply, Message.assistant("Sorry.")]), tools=[wipe])
    result = await agent.run("Go on.")
    assert (wiped, result.output) == ([], "Sorry.")
    [answer] = result.messages[-2].tool_results
    assert answer.is_error
    assert "the reply was cut off" in answer.text


def test_a_complete_call_of_a_refused_reply_is_valid():
    for cut in (messages, chat):
        assert not cut('{"folder": "/tmp"}')[-1].message.tool_uses[0].invalid
