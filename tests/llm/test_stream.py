"""The draft of a reply, and the stream that keeps it."""

import pytest
import trio
from hypothesis import given, strategies as st

from greenroom.core import (
    Message,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    UnknownBlock,
    Usage,
)
from greenroom.core._internal import serde
from greenroom.llm import (
    BlockDelta,
    BlockEnd,
    ModelStream,
    ModelStreamError,
    StreamEnd,
    StreamEvent,
)
from greenroom.llm._internal import (
    BlockStart,
    Draft,
    Notice,
    ReplayStream,
    StreamStart,
    UsageUpdate,
    collect,
    events_of,
    replay,
)

REPLY = Message(
    "assistant",
    (
        ThinkingBlock("let me see", "sig"),
        TextBlock("Reading the file now."),
        ToolUseBlock("t1", "Read", {"file_path": "a.py"}),
    ),
    model="m-1",
    provider="acme",
    stop_reason=StopReason.TOOL_USE,
    response_id="r-1",
    usage=Usage(3, 4),
)


async def test_a_replayed_message_arrives_as_it_is():
    assert await collect(replay(REPLY)) == REPLY


async def test_the_deltas_of_a_replay_join_to_the_text():
    async with replay(REPLY) as stream:
        events = [event async for event in stream]
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
    deltas = [e.text for e in events if isinstance(e, BlockDelta) and e.kind == "text"]
    assert len(deltas) == 4
    assert "".join(deltas) == REPLY.text
    assert isinstance(events[0], StreamStart)
    assert events[-1] == StreamEnd(REPLY)


@given(st.text())
def test_any_text_is_replayed_whole(text):
    events = events_of(Message.assistant(text))
    assert "".join(e.text for e in events if isinstance(e, BlockDelta)) == text


async def test_a_message_that_is_not_complete_is_refused_but_its_part_is_there():
    async with replay(REPLY) as stream:
        async for event in stream:
            if event == BlockDelta(1, "text", " the"):
                break
        with pytest.raises(ModelStreamError, match="not complete"):
            _ = stream.message
        partial = stream.partial()
    assert partial.text == "Reading the"
    assert partial.content[0] == ThinkingBlock("let me see", "sig")
    assert partial.stop_reason is StopReason.INTERRUPTED
    assert (partial.model, partial.provider, partial.response_id) == ("m-1", "acme", "r-1")


async def test_a_cancelled_reader_keeps_exactly_what_it_read():
    read: list[StreamEvent] = []
    async with replay(REPLY) as stream:
        with trio.CancelScope() as scope:
            async for event in stream:
                read.append(event)
                if len(read) == 3:
                    scope.cancel()
        assert scope.cancelled_caught
        assert len(read) == 3
        assert stream.partial().content == (ThinkingBlock("let"),)


def test_unfinished_tool_calls_are_left_out_and_finished_ones_kept():
    draft = Draft("acme")
    call = ToolUseBlock("t1", "Read", {"file_path": "a"})
    draft.add(BlockStart(0, "tool_use"))
    draft.add(BlockEnd(0, call))
    draft.add(BlockStart(1, "tool_use"))
    draft.add(BlockDelta(1, "tool_input", '{"file'))
    assert draft.partial().content == (call,)


def test_a_block_that_has_not_begun_to_speak_is_left_out():
    draft = Draft("acme")
    draft.add(BlockStart(0, "text"))
    draft.add(BlockDelta(0, "text", ""))
    draft.add(BlockDelta(1, "thinking", ""))
    assert draft.partial().content == ()


def test_a_server_tool_without_its_result_is_left_out_of_a_partial():
    draft = Draft("acme")
    search = UnknownBlock({"type": "server_tool_use", "id": "s1"})
    found = UnknownBlock({"type": "web_search_tool_result", "tool_use_id": "s1"})
    draft.add(BlockEnd(0, search))
    assert draft.partial().content == ()
    draft.add(BlockEnd(1, found))
    assert draft.partial().content == (search, found)


@pytest.mark.parametrize("odd", [{}, ["s1"], None])
def test_a_server_tool_whose_id_is_not_a_text_is_left_out_of_a_partial(odd):
    draft = Draft("acme")
    found = UnknownBlock({"type": "web_search_tool_result", "tool_use_id": odd})
    draft.add(BlockEnd(0, UnknownBlock({"type": "server_tool_use", "id": odd})))
    draft.add(BlockEnd(1, found))
    assert draft.partial().content == (found,)


def test_a_partial_knows_the_usage_so_far_and_ignores_notices():
    draft = Draft("acme")
    draft.add(UsageUpdate(Usage(5, 1)))
    draft.add(UsageUpdate(Usage(5, 2)))
    draft.add(Notice("ping"))
    assert draft.partial().usage == Usage(5, 2)


def test_the_partial_of_a_complete_reply_is_the_reply():
    draft = Draft("acme")
    draft.add(StreamEnd(REPLY))
    assert draft.is_complete
    assert draft.partial() is draft.message
    assert draft.message == REPLY


async def test_an_event_stream_may_begin_anywhere():
    stream = ReplayStream("acme", [Notice("ping"), StreamEnd(REPLY)])
    assert [event async for event in stream] == [Notice("ping"), StreamEnd(REPLY)]


async def test_events_that_end_before_the_reply_break_the_stream():
    stream = ReplayStream("acme", [BlockDelta(0, "text", "a")])
    assert await anext(stream) == BlockDelta(0, "text", "a")
    with pytest.raises(ModelStreamError, match="ended before"):
        await anext(stream)
    assert stream.partial().text == "a"


def test_an_invalid_call_is_replayed_with_the_text_that_it_came_in():
    call = ToolUseBlock("t1", "Read", invalid="no JSON", raw_input='{"file')
    events = list(events_of(Message.assistant([call, UnknownBlock({"type": "new"})])))
    assert BlockDelta(0, "tool_input", '{"file') in events
    assert BlockEnd(1, UnknownBlock({"type": "new"})) in events


@pytest.mark.parametrize("event", list(events_of(REPLY)))
def test_events_travel_as_json(event):
    assert serde.decode(serde.encode(event), StreamEvent) == event


class Bursts(ModelStream):
    """A stream whose events come in bursts; a burst may be an error."""

    def __init__(self, *bursts):
        super().__init__("acme")
        self._bursts = list(bursts)

    async def receive(self):
        await trio.lowlevel.checkpoint()
        burst = self._bursts.pop(0)
        if isinstance(burst, Exception):
            raise burst
        return burst


class Behind(ModelStream):
    """A stream that passes on what another one gives."""

    def __init__(self, inner):
        super().__init__("acme")
        self._inner = inner

    async def receive(self):
        return await self._inner.take(self.wanted)

    def partial(self):
        return self._inner.partial()


@pytest.mark.parametrize("wrap", [lambda stream: stream, Behind])
async def test_take_gives_what_has_arrived(wrap):
    events = list(events_of(REPLY))
    stream = wrap(Bursts(events[:3], (), events[3:]))
    assert await stream.take(2) == events[:2]
    assert await stream.take() == events[2:3]
    *rest, _end = await stream.take()
    assert rest == events[3:-1]
    assert stream.message.content == REPLY.content
    assert await stream.take() == []
    with pytest.raises(ValueError, match="1 or more"):
        await stream.take(0)


async def test_an_error_comes_after_the_events_before_it():
    events = list(events_of(REPLY))
    stream = Bursts(events[:3], ModelStreamError("broken"))
    assert await stream.take() == events[:3]
    with pytest.raises(ModelStreamError, match="broken") as caught:
        await stream.take()
    assert caught.value.partial == stream.partial()


async def test_a_text_that_is_too_long_is_an_error_after_what_came_before_it(monkeypatch):
    monkeypatch.setattr("greenroom.llm.stream.TEXT_LIMIT", 5)
    deltas = [BlockDelta(0, "text", word) for word in ("one", "two", "three")]
    stream = Bursts(deltas)
    assert await stream.take() == deltas[:1]
    with pytest.raises(ModelStreamError, match="longer than 5") as caught:
        await stream.take()
    assert caught.value.partial.text == "one"


async def test_a_cancelled_take_loses_no_event():
    events = list(events_of(REPLY))
    stream = Bursts(events[:3], events[3:])
    with trio.CancelScope() as scope:
        scope.cancel()
        await stream.take()
    assert scope.cancelled_caught
    assert stream.partial().content == ()
    assert [*await stream.take(2), *await stream.take(), *await stream.take()][:-1] == events[:-1]


async def test_who_reads_one_by_one_keeps_no_more_than_that_behind_another_stream():
    events = list(events_of(REPLY))
    inner = ReplayStream("acme", events)
    stream = Behind(inner)
    read = [await anext(stream) for _ in range(3)]
    assert read == events[:3]
    assert stream.partial().content == (ThinkingBlock("let"),)
