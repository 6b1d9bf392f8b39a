"""The memory that a long reply takes, on its whole way from the bytes to the message.

A million deltas take minutes, so they are many fewer unless GREENROOM_DELTAS says how many.
"""

import gc
import os
import tracemalloc
from contextlib import asynccontextmanager

import pytest
import trio

from greenroom import AgentRuntime, AgentSession, InMemoryStore, RuntimeLimits
from greenroom.agents import stream_reply
from greenroom.llm import BlockDelta, ModelStreamError
from greenroom.llm._internal import Draft
from greenroom.llm.stream import GrowingText
from tests.llm.test_providers import HELLO, VENDORS

DELTAS = int(os.environ.get("GREENROOM_DELTAS", "10000"))
IS_LONG = DELTAS > 100_000
TEXT = "a word " * (1 if IS_LONG else 6)
PIECE = 16_384


@pytest.fixture(params=VENDORS, ids=["anthropic", "openai"])
def vendor(request):
    return request.param


def reply(vendor, deltas):
    """The bytes of a reply of so many deltas, in pieces, none of which is kept."""
    # Without the emoji, since one wide character makes every character of a text as wide.
    reply = vendor.reply.replace("😀".encode(), b"!")
    before, _, after = reply.partition(b'"lo "')
    start = before.rindex(b"\n\n") + 2
    end = after.index(b"\n\n") + 2
    event = before[start:] + b'"' + TEXT.encode() + b'"' + after[:end]
    yield before[:start]
    at_once = PIECE // len(event)
    for _ in range(deltas // at_once):
        yield event * at_once
    yield after[end:]


class Client:
    """An HTTP client that has one answer, so that nothing but the reading takes memory."""

    status = 200
    headers = {"content-type": "text/event-stream"}
    timeout = 0.0

    def __init__(self, vendor, deltas):
        self._pieces = reply(vendor, deltas)

    @asynccontextmanager
    async def stream(self, *_, **__):
        yield self

    def chunks(self):
        return self

    def __aiter__(self):
        return self

    async def __anext__(self):
        await trio.lowlevel.checkpoint()
        for piece in self._pieces:
            return piece
        raise StopAsyncIteration


async def generate_reply(vendor, deltas):
    provider = vendor.provider("m", api_key="k", client=Client(vendor, deltas), env={})
    return peak_by_text((await provider.generate(HELLO)).text)


async def stream_in_agent(vendor, deltas):
    """Read a reply in an agent, up to where it is in the history; to store it comes after that.

    What it keeps for late readers is small here, since that has bounds of its own, whatever the
    text.
    """
    provider = vendor.provider("m", api_key="k", client=Client(vendor, deltas), env={})
    peak = 0.0

    async def speak(agent):
        nonlocal peak
        async with agent.turn(await agent.receive()):
            peak = peak_by_text((await stream_reply(agent, provider)).text)

    limits = RuntimeLimits(ring_chunks=64, partial_text=1000)
    async with AgentRuntime(store=InMemoryStore(), limits=limits) as runtime:
        await runtime.spawn(AgentSession.new("speaker"), speak).ask("hi")
    return peak


def peak_by_text(text):
    return tracemalloc.get_traced_memory()[1] / len(text)


async def peak_of(read, vendor):
    """Return the most memory that reading took, in proportion to the text that it gave."""
    await read(vendor, 200)  # what is loaded, or kept for good
    gc.collect()
    tracemalloc.start()
    try:
        return await read(vendor, DELTAS)
    finally:
        tracemalloc.stop()


# In an agent the rest takes too much beside a short text.
READERS = [generate_reply, stream_in_agent] if IS_LONG else [generate_reply]


@pytest.mark.parametrize("read", READERS)
async def test_a_reply_of_many_deltas_takes_three_times_its_text_at_the_most(vendor, read):
    assert 1 < await peak_of(read, vendor) < 3


def test_a_text_grows_piece_by_piece_and_may_be_read_meanwhile():
    text, expected = GrowingText(), ""
    for number in range(3000):
        text.write(str(number))
        expected += str(number)
        if number % 700 == 0:
            assert text.getvalue() == expected
    assert text.getvalue() == text.getvalue() == expected


def test_a_reply_without_end_has_one(monkeypatch):
    monkeypatch.setattr("greenroom.llm.stream.TEXT_LIMIT", 10)
    draft = Draft("acme")
    for kind in ("text", "thinking", "tool_input"):
        draft.add(BlockDelta(0, kind, "abc"))
    with pytest.raises(ModelStreamError, match="longer than 10 characters"):
        draft.add(BlockDelta(0, "tool_input", "ab"))
