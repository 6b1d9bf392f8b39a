"""Thinking goes back while it fits, and nothing that changes before it gets a request refused."""

import random
from contextlib import aclosing, asynccontextmanager

import pytest

from greenroom.agents import run_tools, stream_reply
from greenroom.core import Custom, Message, TurnStatus
from greenroom.llm import AnthropicProvider, ModelSettings, resilient
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, InMemoryStore
from greenroom.tools import ToolRegistry, tool
from tests.conftest import take_sample
from tests.llm.refusals import ClaudeServer
from tests.llm.server import model_server

ALL = PermissionManager([PermissionRule.allow_all()])
MODELS = ("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5", "claude-haiku-4-5")


@tool(category="read")
def look_up(topic: str) -> str:
    """Look something up."""
    return "All there is."


@tool(category="read")
def other(topic: str) -> str:
    """Look up something else."""
    return "More."


class Settings:
    """What a conversation is had with; a test changes it between two turns."""

    def __init__(self, url):
        self.models = {
            name: AnthropicProvider(name, api_key="k", base_url=url, env={}) for name in MODELS
        }
        self._opened = tuple(self.models.values())
        self.model = MODELS[0]
        self.tools = ToolRegistry([look_up])
        self.system = "Look it up."
        self.thinking = 4_000
        self.swaps_midway = False

    async def aclose(self):
        for llm in self._opened:
            await llm.aclose()

    async def agent(self, agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                step = 0
                while True:
                    name = MODELS[step % 2] if self.swaps_midway else self.model
                    llm, step = self.models[name], step + 1
                    reply = await stream_reply(
                        agent,
                        llm,
                        self.tools,
                        instructions=self.system,
                        settings=ModelSettings(thinking=self.thinking),
                    )
                    if not reply.tool_uses:
                        break
                    await run_tools(agent, reply.tool_uses, self.tools, ALL)


def count_thinking(server):
    blocks = [block for message in server.last["messages"] for block in message["content"]]
    return sum(block["type"] == "thinking" for block in blocks)


@asynccontextmanager
async def play():
    """Open a server, a runtime and what conversations are had with."""
    server = ClaudeServer()
    async with model_server(server) as address, AgentRuntime(InMemoryStore()) as runtime:
        async with aclosing(Settings(address.url)) as settings:
            yield server, runtime, settings


async def test_thinking_goes_back_as_long_as_nothing_changes():
    async with play() as (server, runtime, settings):
        handle = runtime.spawn(AgentSession.new("a"), settings.agent)
        for turn in range(3):
            assert (await handle.ask("And this?")).status is TurnStatus.COMPLETED
            assert count_thinking(server) == 2 * turn + 1  # one for each earlier reply
        settings.system = "Look it up, again."
        await handle.ask("And that?")
        assert count_thinking(server) == 1  # of this turn alone
        async with handle.subscribe("all") as chunks:
            await handle.shutdown()
            notices = [
                c async for c in chunks if isinstance(c, Custom) and c.kind == "model.dropped"
            ]
    assert [notice.text for notice in notices] == [
        "not sent to anthropic: thinking that no longer fits what comes before it"
    ]
    assert not server.refused


async def test_thinking_fits_in_a_later_process():
    server, store = ClaudeServer(), InMemoryStore()
    async with model_server(server) as address:
        for turn in range(3):
            async with AgentRuntime(store) as runtime, aclosing(Settings(address.url)) as settings:
                session = AgentSession.new("a", session_id="s-1")
                if turn:
                    session = await AgentSession.load("s-1", store=store)
                handle = runtime.spawn(session, settings.agent)
                await handle.ask("And this?")
                assert count_thinking(server) == 2 * turn + 1
    assert not server.refused


CHANGES = ("nothing", "compact", "rewind", "tools", "system", "model", "thinking", "swap")


@pytest.mark.parametrize("seed", take_sample(range(4), 2))
async def test_no_change_makes_a_request_that_is_refused(seed):
    dice = random.Random(seed)
    async with play() as (server, runtime, settings):
        session = AgentSession.new("a")
        handle = runtime.spawn(session, settings.agent)
        for _ in range(40):
            match dice.choice(CHANGES):
                case "compact" if len(session.history) > 4:
                    await session.compact("So far so good.", keep=dice.randrange(4))
                case "rewind" if session.history:
                    places = [
                        at
                        for at, each in enumerate(session.history)
                        if each.role == "user" and not each.tool_results
                    ]
                    await session.rewind(dice.choice(places))
                case "tools":
                    settings.tools = ToolRegistry(dice.choice(([look_up], [look_up, other])))
                case "system":
                    settings.system = dice.choice(("Look it up.", "Look here."))
                case "model":
                    settings.model = dice.choice(MODELS)
                case "thinking":
                    settings.thinking = dice.choice((None, 0, 4_000))
                case "swap":
                    settings.swaps_midway = not settings.swaps_midway
            result = await handle.ask("And this?")
            assert result.status is TurnStatus.COMPLETED, (server.refused, result)
    assert not server.refused


async def test_a_fallback_in_the_middle_of_a_loop_is_not_refused():
    async with play() as (server, runtime, settings):
        for name in ("claude-haiku-4-5", "claude-sonnet-5-5"):
            first, second = settings.models[name], settings.models["claude-opus-5-5"]
            settings.models[MODELS[0]] = resilient(first, fallback=[second])
            settings.models[MODELS[1]] = resilient(second, fallback=[first])
            settings.swaps_midway = True
            handle = runtime.spawn(AgentSession.new("a"), settings.agent)
            for _ in range(3):
                assert (await handle.ask("And this?")).status is TurnStatus.COMPLETED
    assert not server.refused


def test_messages_are_equal_whatever_their_prefix_is():
    assert Message("assistant", prefix="1") == Message("assistant", prefix="2")
