"""Power cuts on a disk that forgets: what a save has returned for is there, once, and is whole."""

import random

import pytest

from greenroom.fs._internal import durable
from greenroom.session import FileStore
from greenroom.session.history import START, encode_line
from tests.session.faults.effort import SEED, STEP, tries
from tests.session.faults.life import (
    FOLDER,
    SEEDS,
    cut_all,
    empty_in_vain,
    installed,
    loaded_or_new,
    new_disk,
    save,
    texts,
)
from tests.session.faults.simulated_disk import MODELS


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("failing", [False, True], ids=["sound disk", "failing disk"])
async def test_a_power_cut_takes_nothing_that_was_acknowledged(model, failing, capsys):
    """Each session is cut off at a chosen operation, or has one fail, three times over."""
    seeds = range(SEED, SEED + tries(len(SEEDS) // STEP, 17_500))
    cuts = await cut_all(model, seeds, failing=failing)
    assert cuts > len(seeds)
    with capsys.disabled():
        print(f" {cuts} power cuts from seed {seeds[0]}", end="")


@pytest.mark.parametrize("flush", [True, False])
async def test_after_two_kills_at_any_operations_a_power_cut_takes_no_more_than_otherwise(flush):
    """What two processes left unsynced, the third one's acknowledgement rests upon as well."""
    for first in range(1, 46):
        for second in range(1, 46, tries(2 * STEP, 1)):
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


async def test_a_history_that_was_emptied_in_vain_does_not_come_back_behind_a_new_one():
    await empty_in_vain()


async def test_the_name_of_a_new_history_is_safe_with_the_first_line_that_is():
    """Nobody has described the session yet, which would make the folder's names safe as well."""
    line = encode_line([b'{"kind":"rewind","to":0}'], START)
    at = START.after(line)
    for seed in range(8):
        disk = new_disk("strict", random.Random(seed))
        with installed(disk):
            writer = await FileStore(FOLDER).acquire("mine")
            durable.sync_folder(FOLDER)
            await writer.append(line, START, flush=False)
            await writer.append(b"", at, flush=True)
            disk.lose_power()
            assert disk.read_whole(f"{FOLDER}/mine/history.jsonl") == line
