"""Power cuts on a disk that forgets: what a save has returned for is there, once, and is whole."""

import contextlib
import random

import pytest

from greenroom.core import SessionStorageError
from greenroom.session import FileStore
from greenroom.session.history import START, encode_line
from tests.session.faults.effort import SEED, STEP, tries
from tests.session.faults.life import (
    FOLDER,
    SEEDS,
    cut_all,
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
    """The sync of a truncation fails: readers see an empty file, and the disk has the old one."""
    for failed in range(1, 70):
        disk = new_disk()
        with installed(disk):
            await leave_two_lines_undescribed()
            disk.restart()
            disk.fail_at = failed
            with contextlib.suppress(SessionStorageError):
                await (await loaded_or_new()).open()
            disk.kill()
            await save(disk, "new")
            disk.lose_power()
            assert await texts() == ["new"], failed


async def leave_two_lines_undescribed():
    """Be a process that dies before its session is stored."""
    writer = await FileStore(FOLDER).acquire("mine")
    calls = b'{"kind":"tools_started","tool_use_ids":["%s"]}' % (b"x" * 999)
    first = encode_line([calls], START)
    at = START.after(first).as_synced()
    await writer.append(first, START)
    await writer.append(encode_line([b'{"kind":"rewind","to":0}'], at), at)
    await writer.release()
