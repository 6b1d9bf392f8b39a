"""A stream as one line of letters, so that a test sees what came, in which order, and when."""

from collections.abc import AsyncIterable, Mapping
from math import floor

import trio

from greenroom.core import OutputChunk


async def marbles(
    chunks: AsyncIterable[OutputChunk], letters: Mapping[type[OutputChunk], str]
) -> str:
    """Read a stream to its end, and draw it: a letter for each chunk, a dash for each second.

    Seconds are those of trio's clock since the call, so with a clock that jumps an hour costs nothing;
    beside threads, processes and sockets it tells how fast the machine is. Chunks of kinds without a
    letter are left out, and so are the seconds after the last letter.

    Example:
        ```python
        line = await marbles(handle.stream(), {ToolStart: "(", ToolEnd: ")", Done: "|"})
        assert line == "(--)|"
        ```
    """
    start, passed, drawn = trio.current_time(), 0, ""
    async for chunk in chunks:
        if letter := letters.get(type(chunk)):
            # A millionth of a second belongs to the second that it ends: clocks add up in floats.
            seconds = floor(trio.current_time() - start + 1e-6)
            drawn += "-" * (seconds - passed) + letter
            passed = seconds
    return drawn
