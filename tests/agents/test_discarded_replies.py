"""A reply that is thrown away was paid: its usage stays, some of its text is in a chunk."""

from collections import deque

import pytest
import trio

from greenroom import Agent, AgentRuntime, AgentSession, Guard, InMemoryStore, Reject, Usage
from greenroom.agents import stream_reply
from greenroom.core import Custom, Message, TextBlock, TextDelta, UsageReport
from greenroom.flow import TextTools
from greenroom.llm import (
    BlockDelta,
    ModelRequest,
    ModelStream,
    ModelStreamError,
    ProviderWrapper,
    resilient,
)
from greenroom.llm._internal import StreamRestart, StreamStart, UsageUpdate
from greenroom.resilience import Backoff, Retry
from greenroom.testing import ScriptedProvider
from greenroom.testing._internal import run_agent_async

LONG = "ä" * 9_000  # two bytes each
EVEN = Retry(attempts=4, backoff=Backoff(first=1.0, jitter=0))


class Breaking(ProviderWrapper):
    """A model whose first replies break off after they have told their usage and said a text."""

    def __init__(self, llm, *texts, also=()):
        super().__init__(llm)
        self.texts, self.also = deque(texts), also

    def stream(self, request):
        return _Broken(self) if self.texts else self.llm.stream(request)


class _Broken(ModelStream):
    def __init__(self, owner):
        super().__init__(owner.name)
        start = (StreamStart(owner.model), UsageUpdate(Usage(7, 2)))
        self._events = deque([*start, BlockDelta(0, "text", owner.texts.popleft()), *owner.also])

    async def receive(self):
        await trio.lowlevel.checkpoint()
        if not self._events:
            raise ModelStreamError("cut")
        return (self._events.popleft(),)


async def talker(agent, llm):
    async for message in agent.inputs():
        async with agent.turn(message):
            await stream_reply(agent, llm)


async def generator(agent, llm):
    async for message in agent.inputs():
        async with agent.turn(message):
            request = ModelRequest(messages=agent.session.history)
            async with agent.model_call(llm, request) as call:
                call.reply = await llm.generate(request)
            agent.session.add_message(call.reply)
            agent.send_nowait(UsageReport(call.reply.usage))


async def run(function, llm):
    """Return the run, and what its session has used according to the store."""
    store = InMemoryStore()
    session = AgentSession.new("a", store=store)
    found = await run_agent_async(function, llm, inputs="Go.", check=False, session=session)
    loaded = await AgentSession.load(session.session_id, store=store)
    reported = sum((report.usage for report in found.of(UsageReport)), Usage())
    assert loaded.used.usage == session.used.usage == reported == found.results[0].usage
    return found, loaded.used


def revoked(found):
    kinds = {"reply.restarted", "reply.discarded"}
    return [chunk.data["text"] for chunk in found.of(Custom) if chunk.kind in kinds]


@pytest.mark.parametrize("function", [talker, generator])
async def test_a_reply_that_begins_anew_stays_paid(function, autojump_clock):
    llm = resilient(
        Breaking(ScriptedProvider("whole"), "half", LONG), retry=EVEN, after_output="restart"
    )
    found, used = await run(function, llm)
    assert (used.usage.total, used.model_calls) == (2 * 9 + 15, 3)
    assert [message.text for message in found.history] == ["Go.", "whole"]
    if function is talker:
        assert revoked(found)[0] == "half"
        assert 4_000 < len(revoked(found)[1].encode()) <= 8_192


async def test_so_does_one_that_another_model_answers_in_place_of(autojump_clock):
    first = Breaking(ScriptedProvider(), "half", "again")
    llm = resilient(
        first, retry=Retry(attempts=2), fallback=[ScriptedProvider("spare")], after_output="restart"
    )
    found, used = await run(talker, llm)
    assert (used.usage.total, revoked(found)) == (2 * 9 + 15, ["half", "again"])


async def test_so_does_one_that_fails_without_a_word():
    silent = Breaking(ScriptedProvider(), "")
    _, used = await run(talker, silent)
    assert (used.usage.total, used.model_calls) == (9, 1)


async def test_a_failed_generate_stays_paid():
    _, used = await run(generator, Breaking(ScriptedProvider(), "half"))
    assert used.usage.total == 9


@pytest.mark.parametrize("count", [1, 3, 4])
async def test_so_does_one_that_could_not_be_read(count):
    def look() -> str:
        """Look."""
        return "seen"

    bad = [f"words {number}" for number in range(count)]
    agent = Agent(TextTools(ScriptedProvider(*bad, "Final Answer: 1")), tools=[look])
    found, used = await run(agent, None)
    read = count < 4  # then it gives up
    assert used.usage.total == 15 * (count + read)
    assert revoked(found) == bad


@pytest.mark.parametrize("on", ["text", "output"])
async def test_so_does_one_that_a_guard_has_stopped_and_its_text_is_nowhere(on):
    guard = Guard(lambda context, text: Reject("no") if "secret" in text else None, on=on)
    whole = ScriptedProvider("a secret")
    llm = whole if on == "output" else Breaking(whole, "a secret" * 90)  # stopped on the way
    found, used = await run(Agent(llm, guards=[guard]), None)
    assert used.usage.total == (15 if on == "output" else 9)
    assert "secret" not in repr(found.chunks)


async def test_what_a_guard_has_not_passed_is_not_in_the_chunk_either(autojump_clock):
    llm = resilient(
        Breaking(ScriptedProvider("whole"), "x" * 300 + "secret"), after_output="restart"
    )
    agent = Agent(llm, guards=[Guard(lambda context, text: None, on="text", window=20)])
    found, used = await run(agent, None)
    assert used.usage.total == 9 + 15
    (text,) = revoked(found)
    assert set(text) == {"x"}


async def test_a_budget_counts_what_is_thrown_away(autojump_clock):
    llm = resilient(
        Breaking(ScriptedProvider("whole"), "half", "half"), retry=EVEN, after_output="restart"
    )

    async def limited(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                with agent.budget(tokens=15):
                    await stream_reply(agent, llm)

    async with AgentRuntime(InMemoryStore()) as runtime:
        result = await runtime.spawn(AgentSession.new("a"), limited).ask("Go.")
    assert (result.status, result.usage.total) == ("failed", 18)
    assert "budget" in result.error


async def test_no_rewind_takes_it_back_and_a_fork_begins_with_nothing():
    session = AgentSession.new("a", store=InMemoryStore())
    session.add_message(Message.user("Go."))
    session.add_usage(Usage(3, 2), "small")
    await session.save()
    await session.rewind(0)
    assert session.used.usage.total == 5
    assert (await session.fork()).used.usage.total == 0


class OwnDelta(BlockDelta, frozen=True):
    """A piece of text as a provider of somebody else's may have it."""


class OwnRestart(StreamRestart, frozen=True):
    """The same for a reply that begins anew."""


class Own(ProviderWrapper):
    """A model whose stream has events of its own classes."""

    def stream(self, request):
        return _Own(self, self.llm.stream(request))


class _Own(ModelStream):
    def __init__(self, owner, opening):
        super().__init__(owner.name)
        self._opening = opening
        half = Message("assistant", (TextBlock("half"),), usage=Usage(7, 2))
        self._events = [OwnDelta(0, "text", "half"), OwnRestart(half), OwnDelta(0, "text", "wh")]

    async def __aenter__(self):
        self._inner = await self.exit_stack.enter_async_context(self._opening)
        return self

    async def receive(self):
        events, self._events = self._events, []
        return events or await self._inner.take(self.wanted)


async def test_events_of_subclasses_count_as_what_they_are():
    found, used = await run(talker, Own(ScriptedProvider("ole")))
    assert (used.usage.total, used.model_calls) == (9 + 15, 2)
    assert "".join(chunk.text for chunk in found.of(TextDelta)) == "halfwhole"
