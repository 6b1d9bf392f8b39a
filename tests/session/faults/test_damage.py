"""Histories that were cut, damaged or tampered with: all of it is noticed, nothing wrong loaded."""

from tests.session.faults.damage import cut_at_every_byte, flip_every_bit, splice


async def test_cut_at_every_byte_it_loads_the_whole_lines_and_sets_the_rest_aside():
    assert await cut_at_every_byte() > 800


async def test_every_flipped_bit_is_noticed_and_only_the_last_line_may_be_set_aside():
    assert await flip_every_bit() > 6400


async def test_a_line_that_shares_the_sync_of_the_last_may_be_set_aside_with_it():
    assert await flip_every_bit(loose=(2, 4)) > 6400


async def test_lines_that_do_not_belong_are_never_loaded():
    await splice()
