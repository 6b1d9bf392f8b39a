"""The scripted model: it says what was written, in order, and remembers what it was asked."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom import Agent
from greenroom.core import (
    ConfigurationError,
    GreenroomError,
    Message,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    Usage,
)
from greenroom.llm import BlockDelta, LLMProvider, ModelOverloadedError, ModelRequest
from greenroom.testing import Reply, ScriptedProvider, call


def asking(text="hello"):
    return ModelRequest(messages=[Message.user(text)])


async def read(model, seen):
    """Read a stream into `seen`; return what there was of the message when it broke off."""
    async with model.stream(asking()) as stream:
        try:
            async for event in stream:
                seen.append(event)
        finally:
            seen.append(stream.partial())


def test_it_is_a_provider_like_any_other():
    model: LLMProvider = ScriptedProvider(name="mine", model="m-1")
    assert (model.name, model.model) == ("mine", "m-1")


async def test_each_request_takes_the_next_step_and_is_remembered():
    model = ScriptedProvider("one", "two")
    requests = [asking("first"), asking("second")]
    assert [(await model.generate(request)).text for request in requests] == ["one", "two"]
    assert model.requests == requests
    await model.aclose()


async def test_a_script_that_is_used_up_says_so():
    model = ScriptedProvider("only", name="mine")
    await model.generate(asking())
    for _ in range(2):
        with pytest.raises(GreenroomError, match=r"script of mine is used up.*asks once more"):
            await model.generate(asking())
    assert len(model.requests) == 3


async def test_a_script_that_ends_with_a_reply_that_does_not_fit_says_why():
    result = await Agent(ScriptedProvider("about ten"), output_type=int).run("How many?")
    assert "is used up" in str(result.error)
    assert "ends with: This answer can't be used: - the answer is not" in result.error.hint


async def test_a_reply_may_take_its_time(autojump_clock):
    began = trio.current_time()
    model = ScriptedProvider(Reply("hello", seconds=10))
    async with model.stream(asking()) as stream:
        seen = [trio.current_time() - began async for _ in stream]
    assert seen == sorted(set(seen))
    assert seen[-1] == pytest.approx(10)


@pytest.mark.parametrize("seconds", [-1, float("inf"), float("nan")])
def test_a_reply_that_takes_no_real_time_is_refused(seconds):
    with pytest.raises(ConfigurationError, match="seconds"):
        Reply("a", seconds=seconds)


@pytest.mark.parametrize(
    ("step", "content", "reason"),
    [
        ("hi", (TextBlock("hi"),), StopReason.END_TURN),
        ("", (), StopReason.END_TURN),
        (ToolUseBlock("t1", "Read"), (ToolUseBlock("t1", "Read"),), StopReason.TOOL_USE),
        (
            [ThinkingBlock("hm"), TextBlock("so"), ToolUseBlock("t1", "Read", {"n": 1})],
            (ThinkingBlock("hm"), TextBlock("so"), ToolUseBlock("t1", "Read", {"n": 1})),
            StopReason.TOOL_USE,
        ),
        (Reply("a", stop_reason=StopReason.REFUSAL), (TextBlock("a"),), StopReason.REFUSAL),
        (Reply([ToolUseBlock("t1", "Read")]), (ToolUseBlock("t1", "Read"),), StopReason.TOOL_USE),
    ],
)
async def test_what_a_step_amounts_to(step, content, reason):
    message = await ScriptedProvider(step, name="mine", model="m-1").generate(asking())
    assert message.content == content
    assert (message.role, message.stop_reason) == ("assistant", reason)
    assert (message.provider, message.model, message.usage) == ("mine", "m-1", Usage(10, 5))


async def test_a_reply_reports_the_usage_that_was_written():
    message = await ScriptedProvider(Reply("a", usage=Usage(1, 2))).generate(asking())
    assert message.usage == Usage(1, 2)


async def test_a_step_may_be_a_function_of_the_request_and_give_another_one():
    def echo(request):
        return request.messages[-1].text

    def twice(_):
        return lambda request: Reply(echo(request) * 2)

    model = ScriptedProvider(echo, twice)
    assert (await model.generate(asking("a"))).text == "a"
    assert (await model.generate(asking("b"))).text == "bb"


async def test_an_error_breaks_the_reply_off_after_its_last_delta():
    seen = []
    with pytest.raises(ModelOverloadedError, match="too much"):
        await read(ScriptedProvider(Reply("half", error=ModelOverloadedError("too much"))), seen)
    assert [event.text for event in seen if isinstance(event, BlockDelta)] == ["half"]
    assert (seen[-1].text, seen[-1].stop_reason) == ("half", StopReason.INTERRUPTED)


async def test_an_error_without_content_comes_before_anything_is_said():
    seen = []
    with pytest.raises(ModelOverloadedError):
        await read(ScriptedProvider(Reply(error=ModelOverloadedError("too much"))), seen)
    assert seen[-1].content == ()


async def test_a_reply_that_hangs_says_its_text_and_waits_to_be_cancelled():
    seen = []
    model = ScriptedProvider(Reply("half", hangs=True), "next")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(read, model, seen)
        await wait_all_tasks_blocked()
        assert [event.text for event in seen if isinstance(event, BlockDelta)] == ["half"]
        nursery.cancel_scope.cancel()
    assert seen[-1].text == "half"
    assert (await model.generate(asking())).text == "next"


def test_every_call_has_an_id_of_its_own_and_any_argument():
    one, two = call("Read", file_path="a"), call("Read", file_path="a")
    assert (one.name, one.input) == ("Read", {"file_path": "a"})
    assert one.id != two.id
    assert call("Note", name="n", self="s").input == {"name": "n", "self": "s"}


@pytest.mark.parametrize("step", [3, None, {"text": "hello"}, trio.sleep])
def test_what_is_no_step_is_refused_when_the_script_is_made(step):
    with pytest.raises(ConfigurationError, match=r"is not a step of a script \(write a text"):
        ScriptedProvider("hello", step)
