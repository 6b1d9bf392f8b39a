"""Conversations that change between four APIs turn by turn: none refuses, and nothing is lost."""

import random
from contextlib import AsyncExitStack
from functools import partial

import pytest

from greenroom.agents import run_tools, stream_reply
from greenroom.core import ImageBlock, TextBlock, ToolResult, TurnStatus
from greenroom.llm import (
    AnthropicProvider,
    EstimatedCounter,
    GeminiProvider,
    ModelSettings,
    OpenAIProvider,
    OpenAIResponsesProvider,
)
from greenroom.llm._internal import HOSTS, MODELS
from greenroom.memory import ContextBudget, fit
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, InMemoryStore
from greenroom.tools import ToolRegistry, tool
from tests.agents.test_bound_thinking import ALL, look_up, other
from tests.llm.gemini_refusals import GeminiServer
from tests.llm.refusals import ChatServer, ClaudeServer, OpenAIServer
from tests.llm.server import Answer, model_server
from tests.tools.test_media_check import encoded, png

PNG = encoded(png())
SIGHT = ImageBlock("image/png", PNG)


@tool(name="look_up", category="read")
def look_at(topic: str) -> ToolResult:
    """Look something up, with a picture."""
    return ToolResult((TextBlock("All there is."), SIGHT))


GEMINI_MODELS = [name.partition(":")[2] for name in MODELS if name.startswith("google:")]
TOOLS = ([look_up], [look_up, other], [look_at])
OPEN = {
    "google": (GeminiProvider, GEMINI_MODELS),
    "anthropic": (AnthropicProvider, ("claude-opus-5-5", "claude-haiku-4-5")),
    "responses": (OpenAIResponsesProvider, ("gpt-6.1-sol", "gpt-5.4")),
    "chat": (OpenAIProvider, ("gpt-5.1", "gpt-4.1")),
}


class Played:
    """Four servers that refuse what their vendors refuse, and the models that they have."""

    def __init__(self, cut=lambda server: server):
        servers = {
            "google": GeminiServer(),
            "anthropic": ClaudeServer(),
            "responses": OpenAIServer(),
            "chat": ChatServer(),
        }
        self.servers = {name: cut(server) for name, server in servers.items()}
        self.models = {name: [] for name in OPEN}

    async def open(self, stack):
        for name, server in self.servers.items():
            address = await stack.enter_async_context(model_server(server))
            provider, models = OPEN[name]
            base = address.url + ("/v1" if name in ("responses", "chat") else "")
            host = {"host": HOSTS["openai"]} if name in ("responses", "chat") else {}
            for model in models:
                llm = provider(model, api_key="k", base_url=base, env={}, **host)
                stack.push_async_callback(llm.aclose)
                self.models[name].append((server, llm))

    @property
    def refused(self):
        return [why for server in self.servers.values() for why in server.refused]


class Breaking:
    """A server of which nearly every second reply breaks off, at any byte."""

    def __init__(self, server, dice):
        self.server, self.dice = server, dice

    def __call__(self, request):
        answer = self.server(request)
        if answer.status != 200 or self.dice.random() > 0.45:
            return answer
        whole = b"".join(answer.pieces)
        return Answer.stream(whole[: self.dice.randrange(len(whole))], end="cut")

    @property
    def refused(self):
        return self.server.refused


async def change(session, dice):
    """Change the conversation's past, now and then."""
    match dice.choice(("nothing", "nothing", "compact", "rewind")):
        case "compact" if len(session.history) > 4:
            await session.compact("So far so good.", keep=dice.randrange(4))
        case "rewind" if session.history:
            places = [
                at
                for at, each in enumerate(session.history)
                if each.role == "user" and not each.tool_results
            ]
            await session.rewind(dice.choice(places))


@pytest.mark.parametrize("seed", range(4))
async def test_every_request_is_accepted_and_what_was_said_is_in_it(seed):
    dice, played = random.Random(seed), Played()

    async def converse(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                calls, tools = True, ToolRegistry(dice.choice(TOOLS))
                while calls:
                    settings = ModelSettings(effort=dice.choice((None, "none", "high")))
                    server, llm = dice.choice(played.models[dice.choice(list(OPEN))])
                    reply = await stream_reply(agent, llm, tools, settings=settings)
                    check_nothing_lost(agent.session.history[:-1], server)
                    calls = reply.tool_uses
                    await run_tools(agent, calls, tools, ALL)

    async with AsyncExitStack() as stack:
        await played.open(stack)
        runtime = await stack.enter_async_context(AgentRuntime(InMemoryStore()))
        session = AgentSession.new("a")
        handle = runtime.spawn(session, converse)
        for number in range(16):
            await change(session, dice)
            question = [TextBlock(f"Question {number}?"), *([SIGHT] if dice.random() < 0.3 else [])]
            result = await handle.ask(question)
            assert result.status is TurnStatus.COMPLETED, (played.refused, result)
        assert not played.refused


@pytest.mark.parametrize("seed", range(6))
async def test_every_request_is_accepted_after_replies_that_broke_off(seed):
    dice = random.Random(seed)
    played = Played(partial(Breaking, dice=dice))

    async def converse(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                calls, tools = True, ToolRegistry(dice.choice(TOOLS))
                while calls:
                    settings = ModelSettings(effort=dice.choice((None, "none", "high")))
                    _, llm = dice.choice(played.models[dice.choice(list(OPEN))])
                    calls = (await stream_reply(agent, llm, tools, settings=settings)).tool_uses
                    await run_tools(agent, calls, tools, ALL)

    async with AsyncExitStack() as stack:
        await played.open(stack)
        runtime = await stack.enter_async_context(AgentRuntime(InMemoryStore()))
        session = AgentSession.new("a")
        handle = runtime.spawn(session, converse)
        for number in range(24):
            await change(session, dice)
            if dice.random() < 0.3:
                budget = ContextBudget(dice.randrange(80, 1_500), reply=10)
                await session.rewrite(fit(session.history, budget, EstimatedCounter()))
            await handle.ask(f"Question {number}?")
            assert not played.refused


def check_nothing_lost(history, server):
    """Check that what each vendor can take is in the server's last request."""
    sent = str(server.last)
    blocks = [block for message in history for block in message.content]
    results = [result for message in history for result in message.tool_results]
    texts = [block.text for block in blocks if isinstance(block, TextBlock)]
    assert all(text in sent for text in (*texts, *(result.text for result in results)))
    inner = [block for result in results for block in result.content]
    pictures = [block for block in (*blocks, *inner) if isinstance(block, ImageBlock)]
    assert sent.count(PNG) == len(pictures)
    assert sent.count("'topic'") + sent.count('"topic"') >= len(results)
