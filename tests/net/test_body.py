"""Bodies read by themselves, without a connection."""

import gzip

import trio

from greenroom.net._internal import ChunkIterator


async def test_others_run_between_the_pieces_of_what_is_compressed():
    async def raw():
        yield gzip.compress(bytes(1_000_000))

    turns = 0

    async def take_turns():
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_turns)
        source = raw()
        pieces = [len(piece) async for piece in ChunkIterator(source, "host", "gzip", 5.0)]
        await source.aclose()
        nursery.cancel_scope.cancel()
    assert sum(pieces) == 1_000_000
    assert turns >= len(pieces) - 1 > 10  # a turn for each, in whatever order they ran
