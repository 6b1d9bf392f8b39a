"""Bodies read by themselves, without a connection."""

import gzip

import trio

from greenroom.net._internal import ChunkIterator


async def test_others_run_between_the_pieces_of_what_is_compressed():
    class Compressed:
        rest = gzip.compress(bytes(1_000_000))

        async def read(self, _deadline):
            piece, self.rest = self.rest, b""
            return piece

        async def aclose(self):
            pass

    turns = 0

    async def take_turns():
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_turns)
        pieces = [len(piece) async for piece in ChunkIterator(Compressed(), "host", "gzip", 5.0)]
        nursery.cancel_scope.cancel()
    assert sum(pieces) == 1_000_000
    assert turns >= len(pieces) - 1 > 10  # a turn for each, in whatever order they ran
