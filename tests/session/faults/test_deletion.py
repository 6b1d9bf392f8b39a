"""Deleting on disks that fail and machines that lose power: a session is whole or gone."""

import contextlib
import copy
import random

import pytest

from greenroom.core import Message, SessionNotFoundError, SessionStorageError
from greenroom.fs._internal import durable
from greenroom.session import AgentSession, FileStore
from tests.session.faults import mutants
from tests.session.faults.effort import STEP, tries
from tests.session.faults.life import FOLDER, Fault, expect, installed, new_disk
from tests.session.faults.mutants import living
from tests.session.faults.simulated_disk import MODELS, Crash

TEXTS = ["one", "two", "three"]


async def store_two(disk):
    """Store a session with a folder of its own, and a neighbour."""
    store = FileStore(FOLDER)
    for session_id in ("mine", "other"):
        session = AgentSession.new("coder", session_id=session_id, store=store)
        for text in TEXTS:
            session.add_message(Message.user(text * 300))
            await session.save()
    disk.mkdir(f"{FOLDER}/mine/spilled")
    disk.close(disk.open(f"{FOLDER}/mine/spilled/long.txt", disk.O_CREAT))
    disk.restart()


async def texts_of(session_id):
    """Return what a session holds, or None where there is none."""
    try:
        session = await AgentSession.load(session_id, store=FileStore(FOLDER))
    except SessionNotFoundError:
        return None
    expect(session.repair is None, "nothing of it is torn", session.repair)
    return [message.text for message in session.history]


async def check(disk, done):
    """See that the session is whole or gone, and that life goes on."""
    whole = [text * 300 for text in TEXTS]
    found = await texts_of("mine")
    expect(found in ((None,) if done else (None, whole)), "it is whole or gone", found, done)
    expect(await texts_of("other") == whole, "the neighbour is as it was")
    store = FileStore(FOLDER)
    listed = {each.session_id for each in await AgentSession.list_all(store=store)}
    expect(listed == ({"other"} if found is None else {"mine", "other"}), "the list is true")
    if found is not None:
        await AgentSession.delete("mine", store=store)
    session = AgentSession.new("coder", session_id="mine", store=store)
    session.add_message(Message.user("new"))
    await session.save()
    disk.lose_power()
    expect(await texts_of("mine") == ["new"], "a new session has nothing of the old")
    await AgentSession.delete("mine", store=FileStore(FOLDER))
    expect(disk.listdir(FOLDER) == ["other"], "nothing is left lying", disk.listdir(FOLDER))


def copied(disk, seed):
    """Return a disk with the same on it, which nobody has in use, and with chances of its own."""
    assert not disk.open_files
    fresh = new_disk(disk.model, random.Random(seed))
    fresh.root, fresh.changes = copy.deepcopy((disk.root, disk.changes))
    return fresh


async def delete_at(prepared, nth, seed, *, end, failing=False):
    """Delete a session on a disk that stops or fails at this operation; return whether it did."""
    disk = copied(prepared, seed)
    with installed(disk):
        if failing:
            disk.fail_at = nth
        else:
            disk.crash_at = nth
        done = False
        with contextlib.suppress(Crash, SessionStorageError):
            await AgentSession.delete("mine", store=FileStore(FOLDER))
            done = True
        is_hit = disk.count >= nth
        getattr(disk, end)()
        await check(disk, done)
    return is_hit


async def delete_everywhere(model, end, *, failing=False):
    """Do so at every operation that deleting takes; return how many there are."""
    prepared = new_disk(model)
    with installed(prepared):
        await store_two(prepared)
    nth = 1
    while [
        None
        for seed in range(tries(2 if STEP > 1 else 4, 40))
        if await delete_at(prepared, nth, seed, end=end, failing=failing)
    ]:
        nth += 1
    return nth


@pytest.mark.every(2)
@pytest.mark.parametrize("end", ["kill", "lose_power"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("failing", [False, True], ids=["sound disk", "failing disk"])
async def test_a_delete_cut_off_at_any_operation_leaves_a_session_whole_or_gone(
    model, end, failing
):
    assert await delete_everywhere(model, end, failing=failing) > 25


def no_rename(patch):
    patch.setattr(durable, "remove_folder", durable._remove_tree)


def no_sync_of_the_rename(patch):
    real = durable.remove_folder

    def remove_folder(folder):
        with living(mutants.no_folder_sync):
            real(folder)

    patch.setattr(durable, "remove_folder", remove_folder)


def no_sweeping(patch):
    patch.setattr(durable, "_is_leftover", lambda name: False)


@pytest.mark.parametrize("mutant", [no_rename, no_sync_of_the_rename, no_sweeping])
async def test_these_checks_show_a_mistake(mutant):
    with living(mutant), pytest.raises(Fault):
        await delete_everywhere("strict", "lose_power")


async def test_two_who_delete_at_once_don_t_stand_in_each_other_s_way():
    """What the other removes while we sweep up is none of our business."""
    disk = new_disk()
    with installed(disk):
        await store_two(disk)
        real = disk.listdir

        def listdir(path):
            names = real(path)
            return [*names, ".deleted-gone"] if path == FOLDER else names

        disk.listdir = listdir
        await AgentSession.delete("mine", store=FileStore(FOLDER))
        assert await texts_of("mine") is None


async def test_what_another_hides_while_we_sync_is_left_to_it(monkeypatch, tmp_path):
    """The new name may not be on the disk yet: a power cut could restore the old one."""
    store, hidden = FileStore(tmp_path), tmp_path / ".deleted-other-d-1"
    session = AgentSession.new("coder", session_id="mine", store=store)
    session.add_message(Message.user("hello"))
    await session.save()
    real = durable.sync_folder

    def sync_folder(path):
        real(path)
        hidden.mkdir(exist_ok=True)

    monkeypatch.setattr(durable, "sync_folder", sync_folder)
    await AgentSession.delete("mine", store=store)
    assert hidden.exists()
