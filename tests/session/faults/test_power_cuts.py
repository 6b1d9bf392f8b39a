"""Power cuts on a disk that forgets: what a save has returned for is there, once, and is whole."""

import random

import pytest

from tests.session.faults.effort import SEED, tries
from tests.session.faults.life import cut, installed, loaded_or_new, new_disk, save, texts
from tests.session.faults.simulated_disk import MODELS

LIVES = tries(400, 17_500)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("failing", [False, True], ids=["sound disk", "failing disk"])
async def test_a_power_cut_takes_nothing_that_was_acknowledged(model, failing, capsys):
    """Each session is cut off at a chosen operation, or has one fail, three times over."""
    cuts = 0
    for seed in range(SEED, SEED + LIVES):
        try:
            cuts += await cut(model, seed, failing=failing)
        except Exception as error:
            error.add_note(f"seed {seed} on the {model} model, failing: {failing}")
            raise
    assert cuts > LIVES
    with capsys.disabled():
        print(f" {cuts} power cuts from seed {SEED}", end="")


@pytest.mark.parametrize("flush", [True, False])
async def test_after_two_kills_at_any_operations_a_power_cut_takes_no_more_than_otherwise(flush):
    """What two processes left unsynced, the third one's acknowledgement rests upon as well."""
    for first in range(1, 46):
        for second in range(1, 46, tries(3, 1)):
            disk = new_disk("strict", random.Random(first * 100 + second))
            with installed(disk):
                await save(disk, "one", crash_at=first)
                await save(disk, "two", crash_at=second)
                before = await texts()
                await save(disk, "three", flush=flush)
                disk.lose_power()
                after = await texts()
            allowed = [[*before, "three"]] if flush else [[*before[:n]] for n in range(3)]
            assert after in [*allowed, [*before, "three"]], (first, second, before)


async def test_what_was_set_aside_does_not_come_back_with_a_session_that_has_no_messages():
    for second in range(25, 60):
        for seed in range(6):
            disk = new_disk("ordered", random.Random(seed))
            with installed(disk):
                await save(disk, "one", crash_at=45)
                await save(disk, "two", crash_at=second)
                session = await loaded_or_new()
                before = [message.text for message in session.history]
                session.set_metadata("title", "mine")
                await session.save()
                disk.lose_power()
                assert await texts() in (before, [])
