"""Replies that are empty, or that ended for a reason that is not known."""

import pytest

from greenroom.agents import Agent
from greenroom.core import Custom, Message, StopReason, TextBlock, ThinkingBlock
from greenroom.core._internal import RUNTIME
from greenroom.llm import ModelRequest, OpenAIProvider
from greenroom.testing import Reply, ScriptedProvider, call
from tests.agents.test_coder import run as run_coder
from tests.llm.server import Answer, model_server
from tests.llm.wire import chat

EMPTY = [Reply(""), Reply(" \n"), Reply([ThinkingBlock("Hm.", "s")])]


def mails() -> str:
    """Read the mails."""
    return "3 mails"


def agent_of(*script):
    return Agent(ScriptedProvider(*script), tools=[mails])


def last_input(request: ModelRequest) -> Message:
    return request.messages[-1]


@pytest.mark.parametrize("empty", EMPTY)
async def test_after_an_empty_reply_to_a_result_the_model_is_asked_once_more(empty):
    agent = agent_of(call("mails"), empty, "You have 3 mails.")
    result = await agent.run("Any mails?")
    assert (result.output, result.warnings) == ("You have 3 mails.", ())
    assert last_input(agent.llm.requests[2]).sender == RUNTIME


async def test_text_beside_the_call_is_no_answer_to_its_result():
    first = [TextBlock("Let me look."), call("mails")]
    result = await agent_of(first, Reply(""), "You have 3 mails.").run("Any mails?")
    assert result.output == "You have 3 mails."


@pytest.mark.parametrize("empty", EMPTY)
async def test_a_second_empty_reply_ends_the_turn_with_a_warning(empty):
    agent = agent_of(call("mails"), empty, empty)
    async with agent.stream("Any mails?") as run:
        chunks = [chunk async for chunk in run]
    assert run.result.status == "completed"
    assert run.result.warnings == ("the reply is empty (stop reason: end_turn)",)
    told = [chunk for chunk in chunks if isinstance(chunk, Custom)]
    assert [(each.kind, each.text) for each in told] == [("model.warning", run.result.warnings[0])]


async def test_each_result_may_be_followed_by_an_empty_reply():
    script = [call("mails"), Reply(""), call("mails"), Reply(""), "Done."]
    assert (await agent_of(*script).run("Any mails?")).output == "Done."


async def test_an_empty_reply_to_a_person_is_only_a_warning():
    agent = agent_of(Reply(""))
    result = await agent.run("Hello?")
    assert len(agent.llm.requests) == 1
    assert result.warnings == ("the reply is empty (stop reason: end_turn)",)


@pytest.mark.parametrize("reason", [StopReason.MAX_TOKENS, StopReason.CONTENT_FILTER])
async def test_a_reply_that_was_stopped_before_its_first_word_is_only_a_warning(reason):
    agent = agent_of(call("mails"), Reply("", stop_reason=reason))
    result = await agent.run("Any mails?")
    assert len(agent.llm.requests) == 2
    assert result.warnings == (f"the reply is empty (stop reason: {reason})",)


async def test_at_the_last_step_the_model_is_not_asked_again():
    agent = Agent(ScriptedProvider(call("mails"), Reply("")), tools=[mails], max_steps=2)
    assert len((await agent.run("Any mails?")).warnings) == 1


async def test_a_reply_that_ended_for_an_unknown_reason_is_kept_with_a_warning():
    answer = Answer.stream(chat({"content": "Four."}, finish="novelty"))
    async with model_server(lambda _: answer) as server:
        llm = OpenAIProvider("m", base_url=server.url + "/v1", env={})
        result = await Agent(llm).run("What is two and two?")
        await llm.aclose()
    assert result.output == "Four."
    assert result.warnings == ("the reply ended for a reason that is not known: novelty",)


MALFORMED = Reply("", stop_reason=StopReason.MALFORMED_CALL)
UNREADABLE = "the model's call can't be read (malformed)"


async def test_after_a_call_that_can_not_be_read_the_model_is_asked_once_more():
    agent = agent_of(MALFORMED, call("mails"), MALFORMED, "You have 3 mails.")
    result = await agent.run("Any mails?")
    assert (result.output, result.warnings) == ("You have 3 mails.", ())
    for request in (agent.llm.requests[1], agent.llm.requests[3]):
        assert "could not be read" in last_input(request).text


async def test_a_second_call_that_can_not_be_read_ends_the_turn_with_a_warning():
    agent = agent_of(MALFORMED, MALFORMED)
    result = await agent.run("Any mails?")
    assert result.status == "completed"
    assert result.warnings == (UNREADABLE,)


async def test_a_reply_with_calls_beside_one_that_can_not_be_read_goes_on_with_those():
    both = Reply([call("mails")], stop_reason=StopReason.MALFORMED_CALL)
    result = await agent_of(both, "You have 3 mails.").run("Any mails?")
    assert result.output == "You have 3 mails."


async def test_the_coder_asks_for_the_call_again():
    _, chunks, _ = await run_coder(ScriptedProvider(MALFORMED, MALFORMED), "Look.")
    assert [chunk.text for chunk in chunks if isinstance(chunk, Custom)] == [UNREADABLE]


async def test_the_coder_asks_again_too_and_warns():
    model = ScriptedProvider(call("Glob", pattern="*"), Reply(""), Reply(""))
    _, chunks, session = await run_coder(model, "Look.")
    assert [chunk.text for chunk in chunks if isinstance(chunk, Custom)] == [
        "the reply is empty (stop reason: end_turn)"
    ]
    assert [each.sender for each in session.history if each.sender] == [RUNTIME]


@pytest.mark.parametrize("reason", [StopReason.REFUSAL, StopReason.CONTENT_FILTER])
async def test_a_reply_that_a_filter_ended_early_is_kept_with_a_warning(reason):
    agent = agent_of(Reply("First, you", stop_reason=reason))
    async with agent.stream("How?") as run:
        chunks = [chunk async for chunk in run]
    result = run.result
    assert (result.output, result.status) == ("First, you", "completed")
    [warning] = result.warnings
    assert "may end early" in warning
    assert [chunk.text for chunk in chunks if isinstance(chunk, Custom)] == [warning]
