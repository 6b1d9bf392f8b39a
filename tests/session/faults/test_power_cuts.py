"""Power cuts on a disk that forgets: what a save has returned for is there, once, and is whole."""

import random

import pytest

from tests.session.faults.effort import SEED, tries
from tests.session.faults.life import cut, installed, new_disk, save, texts
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
