"""What type checkers see of streams made of streams; mypy reads this file, nothing runs it."""

from typing import assert_type

from greenroom import AgentHandle, Done, TextDelta, ToolEnd
from greenroom.agents import StreamEvent, mapped, merged, only, stream_events, texts


async def read(ann: AgentHandle, ben: AgentHandle) -> None:
    """Read what two agents say."""
    async for end in only(ann.stream(), ToolEnd):
        assert_type(end, ToolEnd)
    async for chunk in only(ann.stream(), TextDelta, Done):
        match chunk:  # of several kinds it is a chunk, to be told apart
            case TextDelta():
                assert_type(chunk, TextDelta)
            case _:
                pass
    async with merged(ann.stream(), ben.stream()) as chunks:
        async for piece in texts(chunks):
            assert_type(piece, str)
    async for length in mapped(texts(ann.stream()), len):
        assert_type(length, int)
    async for event in stream_events(ann.stream()):
        assert_type(event, StreamEvent)
