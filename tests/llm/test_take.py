"""`take` of a real provider's stream, and of one behind wrappers."""

import cProfile

import pytest

from greenroom import (
    AgentRuntime,
    AgentSession,
    InMemoryStore,
    PermissionManager,
    ToolRegistry,
    coder,
)
from greenroom.core import Message
from greenroom.llm import AnthropicProvider, ModelRequest, OpenAIProvider, resilient
from tests.llm import wire
from tests.llm.server import Answer, model_server

WORDS = ("one ", "two ", "three ") * 20


WRAPPERS = [lambda model: model, resilient]


@pytest.mark.parametrize("wrap", WRAPPERS, ids=["plain", "resilient"])
async def test_take_gives_what_came_in_one_piece_and_the_same_as_one_by_one(wrap):
    request = ModelRequest(messages=[Message.user("count")])
    answer = Answer.stream(wire.anthropic(*wire.text_block(0, *WORDS)))
    async with model_server(answer) as server:
        model = wrap(AnthropicProvider("m", base_url=server.url, env={}))
        async with model.stream(request) as stream:
            single = [event async for event in stream]
        batches = []
        async with model.stream(request) as stream:
            while batch := await stream.take():
                batches.append(batch)
        await model.aclose()
    assert len(batches) < len(single) / 4
    assert [event for batch in batches for event in batch][:-1] == single[:-1]
    assert stream.message.text == "".join(WORDS)


def _anthropic(count):
    return wire.anthropic(*wire.text_block(0, *["word "] * count))


def _chat(count):
    return wire.chat(*[{"content": "word "}] * count)


async def _count_calls(provider, answer):
    """Count the calls of Python in the turn of an agent whose reply is this answer."""
    async with model_server(answer) as server, AgentRuntime(InMemoryStore()) as runtime:
        llm = provider("m", base_url=server.url, env={}, api_key="k")
        tools, permissions = ToolRegistry(), PermissionManager()
        handle = runtime.spawn(AgentSession.new("coder"), coder, llm, tools, permissions)
        await handle.ask("go")
        profile = cProfile.Profile(builtins=False)
        profile.enable()
        await handle.ask("go")
        profile.disable()
        await llm.aclose()
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.parametrize(
    ("provider", "reply"), [(AnthropicProvider, _anthropic), (OpenAIProvider, _chat)]
)
async def test_a_delta_that_has_arrived_costs_few_calls(provider, reply):
    few, many = 100, 600
    calls = [await _count_calls(provider, Answer.stream(reply(count))) for count in (few, many)]
    assert (calls[1] - calls[0]) / (many - few) < 40
