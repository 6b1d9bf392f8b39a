"""`cached`: what is the same request, what is kept and for how long, and what a hit costs."""

from dataclasses import fields, replace

import msgspec
import pytest
import trio
from hypothesis import given, strategies as st

from greenroom.agents import Agent
from greenroom.core import (
    ConfigurationError,
    GreenroomError,
    Message,
    Price,
    StopReason,
    TextBlock,
    ToolDefinition,
    ToolUseBlock,
    Usage,
)
from greenroom.core._internal import NamedTool, OutputSchema
from greenroom.llm import (
    BlockDelta,
    ModelOverloadedError,
    ModelRequest,
    ModelStreamError,
    cached,
    resilient,
)
from greenroom.llm._internal import ANSWER_TOOL, Announcement, collect
from greenroom.llm.cached import request_key
from greenroom.resilience import Budget, Retry
from greenroom.testing import Reply, ScriptedProvider
from tests.llm.test_merged_messages import MESSAGES

HELLO = ModelRequest(messages=[Message.user("hi")])
READ = ToolDefinition("Read", "Reads.", {"type": "object", "properties": {}})


def asked(text, **fields):
    return ModelRequest(messages=[Message.user(text)], **fields)


async def read(model, request=HELLO):
    """Read a reply; return its message, its announcements and the text of its deltas."""
    told, text = [], ""
    async with model.stream(request) as stream:
        async for event in stream:
            if isinstance(event, Announcement):
                told.append(event)
            if isinstance(event, BlockDelta) and event.kind == "text":
                text += event.text
        return stream.message, told, text


async def test_the_same_again_is_answered_without_the_model_and_says_so(autojump_clock):
    llm = ScriptedProvider(Reply("hello there", usage=Usage(100, 20, cost=0.5)))
    model = cached(llm)
    first, told, _ = await read(model)
    assert told == []
    await trio.sleep(12)
    again, told, text = await read(model, asked("hi"))
    assert told == [
        Announcement(
            "model.cached",
            {"provider": "scripted", "model": "script", "seconds": 12.0, "tokens": 120},
            "the reply is 12 s old and comes from the cache; nothing was sent",
        )
    ]
    assert text == again.text == "hello there"
    assert again.id != first.id
    assert again.usage == Usage(0, 0, cost=0.0, saved=0.5)
    assert msgspec.structs.replace(again, usage=first.usage) == first
    assert len(llm.requests) == 1


async def test_no_caller_can_change_a_hit():
    model = cached(
        ScriptedProvider([ToolUseBlock("c", "Read", {"path": "a"})]), harmless_tools=["Read"]
    )
    request = asked("hi", tools=[READ])
    for _ in range(3):
        reply = await model.generate(request)
        assert reply.tool_uses[0].input == {"path": "a"}
        with pytest.raises(TypeError, match="frozen"):
            reply.tool_uses[0].input["path"] = "b"


OTHER = {
    "messages": [Message.user("ho")],
    "system": "Be brief.",
    "tools": [READ],
    "tool_choice": NamedTool("Read"),
    "max_tokens": 9,
    "temperature": 0.5,
    "top_p": 0.5,
    "stop_sequences": ["x"],
    "effort": "low",
    "thinking": 2_048,
    "seed": 1,
    "parallel_tools": False,
    "options": {"store": False},
    "cache": False,
    "output": OutputSchema("answer", {"type": "object"}),
}
NOT_SENT = {"id": "m_1", "created_at": Message.user("x").created_at, "usage": Usage(1, 2)}
OTHER_MESSAGE = {
    "role": "assistant",
    "content": (TextBlock("ho"),),
    "model": "m",
    "provider": "openai",
    "stop_reason": StopReason.END_TURN,
    "native_stop_reason": "stop",
    "response_id": "r",
    "extra": {"name": "Ann"},
    "sender": "plan",
    "prefix": "p",
    "api": "responses",
}


def key(request, llm=ScriptedProvider()):  # noqa: B008 (it is asked nothing)
    return request_key(llm, request)


@pytest.mark.parametrize("name", [each.name for each in fields(ModelRequest)])
def test_each_field_of_a_request_is_part_of_the_key(name):
    """A new field fails here until it has a value to try, or a reason not to count."""
    if name == "conversation":
        assert key(replace(HELLO, conversation="s")) == key(HELLO)
    else:
        assert key(replace(HELLO, **{name: OTHER[name]})) != key(HELLO)


@pytest.mark.parametrize("name", Message.__struct_fields__)
def test_each_field_of_a_message_is_part_of_the_key_unless_it_is_not_sent(name):
    given = {**OTHER_MESSAGE, **NOT_SENT}[name]
    other = replace(HELLO, messages=[msgspec.structs.replace(HELLO.messages[0], **{name: given})])
    assert (key(other) == key(HELLO)) is (name in NOT_SENT)


def test_another_model_has_other_keys():
    keys = {key(HELLO, ScriptedProvider(name=n, model=m)) for n in "ab" for m in "cd"}
    assert len(keys) == 4


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "pairs", "unset"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["pairs", "unset", "a"]), inner, max_size=2)
    ),
    max_leaves=5,
)
OPTIONS = st.dictionaries(st.sampled_from(["a", "b"]), JSON | st.just(msgspec.UNSET), max_size=2)


@given(OPTIONS, OPTIONS)
def test_options_that_differ_have_other_keys(one, other):
    same = repr(one) == repr(other)  # where True is not 1
    assert (key(replace(HELLO, options=one)) == key(replace(HELLO, options=other))) is same


REQUESTS = st.builds(
    ModelRequest,
    messages=MESSAGES,
    system=st.sampled_from(["", "Be brief."]),
    tools=st.sampled_from([(), [READ]]),
    temperature=st.sampled_from([None, 0.5]),
    options=OPTIONS,
)


def tell_request(request):
    return f"you asked {request_key(ScriptedProvider(), request).hex()}"


@given(st.lists(REQUESTS, max_size=4), st.data())
def test_it_answers_as_the_model_does(requests, data):
    order = data.draw(st.lists(st.sampled_from(requests), max_size=9)) if requests else []
    bound = data.draw(st.sampled_from([1, 2, 100]))
    model = cached(ScriptedProvider(*[tell_request] * 9), max_replies=bound)
    bare = ScriptedProvider(*[tell_request] * 9)

    async def main():
        for request in order:
            reply, _, text = await read(model, request)
            plain = await bare.generate(request)
            assert text == reply.text == plain.text
            assert reply.stop_reason == plain.stop_reason

    trio.run(main)


async def texts(model, *asks):
    return [(await model.generate(asked(text))).text for text in asks]


def numbered(count=20):
    """A model whose replies are 0, 1, 2 …"""
    return ScriptedProvider(*map(str, range(count)))


async def test_beyond_its_number_the_least_recently_used_is_dropped():
    model = cached(numbered(), max_replies=2)
    assert await texts(model, *"abacab") == ["0", "1", "0", "2", "0", "3"]


async def test_beyond_its_bytes_the_least_recently_used_is_dropped():
    whole = len(msgspec.json.encode(await numbered().generate(HELLO)))
    model = cached(numbered(), max_bytes=2 * whole + 9)
    assert await texts(model, *"abacab") == ["0", "1", "0", "2", "0", "3"]


async def test_a_reply_larger_than_all_bytes_is_not_kept_and_drops_nothing():
    llm = ScriptedProvider("small", "x" * 5_000, "y" * 5_000)
    model = cached(llm, max_bytes=2_000)
    assert [text[0] for text in await texts(model, "a", "b", "b", "a")] == ["s", "x", "y", "s"]


async def test_a_reply_that_is_too_old_is_not_given_again(autojump_clock):
    model = cached(numbered(), max_age=10)
    assert await texts(model, "a") == ["0"]
    await trio.sleep(9)
    assert await texts(model, "a") == ["0"]  # which does not make it younger
    await trio.sleep(1)
    assert await texts(model, "a") == ["1"]


def test_a_reply_outlives_the_event_loop():
    model = cached(numbered())
    assert [trio.run(texts, model, "a") for _ in range(2)] == [["0"], ["0"]]


TOOL_REQUEST = asked("hi", tools=[READ])
ANSWER = ToolDefinition(ANSWER_TOOL, "Takes the answer.", {"type": "object"})


@pytest.mark.parametrize(
    ("request_", "harmless", "hits"),
    [
        (TOOL_REQUEST, [], False),
        (TOOL_REQUEST, ["Grep"], False),
        (TOOL_REQUEST, ["Read"], True),
        (replace(TOOL_REQUEST, tools=[READ, ANSWER]), ["Read"], True),
        (replace(TOOL_REQUEST, tools=[ANSWER]), [], True),
        (asked("hi", options={"tools": [{"type": "web_search"}]}), [], False),
        (asked("hi", options={"mcp_servers": [{"url": "http://x"}]}), ["Read"], False),
        (asked("hi", options={"metadata": object()}), [], False),
    ],
)
async def test_a_request_whose_tools_may_act_is_always_sent(request_, harmless, hits):
    llm = numbered()
    model = cached(llm, harmless_tools=harmless)
    for _ in range(2):
        await model.generate(request_)
    assert len(llm.requests) == (1 if hits else 2)


@pytest.mark.parametrize("reason", StopReason)
async def test_only_whole_answers_are_kept(reason):
    llm = ScriptedProvider(*[Reply("so", stop_reason=reason)] * 2)
    model = cached(llm)
    for _ in range(2):
        await collect(model.stream(HELLO))
    assert (len(llm.requests) == 1) is (reason in ("end_turn", "tool_use", "stop_sequence"))


async def test_a_reply_that_breaks_off_or_is_not_read_to_its_end_is_not_kept():
    llm = ScriptedProvider(
        Reply("half", error=ModelStreamError("broke off")), "left early", "whole", "never"
    )
    model = cached(llm)
    with pytest.raises(ModelStreamError):
        await read(model)
    async with model.stream(HELLO) as stream:
        await anext(stream)
    assert [(await read(model))[2] for _ in range(2)] == ["whole"] * 2


async def test_two_equal_requests_at_once_are_both_sent_and_do_not_hurt_each_other():
    llm = ScriptedProvider("first", "second")
    model = cached(llm)
    async with model.stream(HELLO) as stream:
        await anext(stream)
        with trio.CancelScope() as scope:
            async with model.stream(HELLO):
                scope.cancel()
                await trio.sleep_forever()
        assert (await collect(stream)).text == "first"
    assert (await model.generate(HELLO)).text == "first"
    assert len(llm.requests) == 2


def overloaded(request):
    raise ModelOverloadedError("busy")


@pytest.mark.parametrize("make", [lambda m, r: cached(r(m)), lambda m, r: r(cached(m))])
async def test_it_works_around_a_resilient_model_and_inside_of_one(make, autojump_clock):
    llm = ScriptedProvider(overloaded, Reply("half", error=ModelStreamError("x")), "hello")
    model = make(llm, lambda each: resilient(each, retry=Retry(attempts=3)))
    assert (await model.generate(HELLO)).text == "hello"
    reply, told, text = await read(model)
    assert (text, [each.kind for each in told]) == ("hello", ["model.cached"])
    assert reply.usage.total == 0
    assert len(llm.requests) == 3


async def test_a_budget_is_not_charged_for_a_hit():
    price = Price(input=1e6, output=1e6)
    llm = ScriptedProvider(Reply("hello", usage=Usage(1, 2)), price=price)
    agent = Agent(cached(llm), budget=Budget(cost=100, tokens=100))
    first = await agent.run("hi")
    again = await agent.run("hi")  # in a session of its own
    assert (first.output, again.output) == ("hello", "hello")
    assert first.usage.cost == again.usage.saved == 3
    assert (again.usage.total, again.usage.cost) == (0, 0)


async def test_it_is_the_model_inside_and_refuses_what_makes_no_sense():
    model = cached(ScriptedProvider(price=Price(1, 1)))
    assert (model.name, model.model, model.price) == ("scripted", "script", Price(1, 1))
    assert repr(model).startswith("cached(<") or repr(model).startswith("cached(Scripted")
    for bad in ({"max_replies": 0}, {"max_bytes": -1}, {"max_age": 0}, {"harmless_tools": "Read"}):
        with pytest.raises(ConfigurationError):
            cached(ScriptedProvider(), **bad)
    assert repr(cached("offline:")) == "cached(OfflineProvider())"
    with pytest.raises(GreenroomError, match="used up"):
        await model.generate(HELLO)
