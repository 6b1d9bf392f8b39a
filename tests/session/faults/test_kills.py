"""SIGKILL before every operation on the store's files, and in the middle of every write."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from greenroom.core import Message, SessionError
from greenroom.session import AgentSession, FileStore
from tests.session.faults import mutants
from tests.session.faults.effort import IS_LONG, STEP, tries
from tests.session.faults.killed import STEPS, SYNCS, states
from tests.session.faults.life import Fault, expect
from tests.session.faults.mutants import living

ROOT = Path(__file__).parents[3]
SIZES = (1, *tries((), (10, 100, 700, 3000, 9000, 40_000)))


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """What outlives a kill is not on the disk but in the kernel: don't wait for the disk."""
    for name in () if IS_LONG else SYNCS:
        monkeypatch.setattr(os, name, lambda fd: None)


def kills(folder, size=1, mutant=None):
    """Yield what each killed process had told, once it is dead; the last one survived."""
    name = mutant.__name__ if mutant else ""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.session.faults.killed", str(folder), str(size), name],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        # What is killed can't say which lines it ran: don't measure it.
        env={key: value for key, value in os.environ.items() if not key.startswith("COV")},
    )
    try:
        for line in process.stdout:
            yield json.loads(line)
    finally:
        process.kill()
        process.communicate()


async def check(killed, size):
    """Both sessions are in the state that was acknowledged last or, whole, in the next."""
    store = FileStore(killed["folder"])
    for session_id in STEPS:
        done = killed["told"].count(session_id)
        wanted = list(states(session_id, size))[done : done + 2]
        await check_session(store, session_id, wanted)
    shutil.rmtree(killed["folder"])


async def check_session(store, session_id, wanted):
    path = Path(store.folder(session_id)) / "history.jsonl"
    before = path.read_bytes() if path.exists() else b""
    if await store.exists(session_id):
        session = await AgentSession.load(session_id, store=store)
    else:
        session = AgentSession.new("coder", session_id=session_id, store=store)
    texts = tuple(message.text for message in session.history)
    expect(texts in wanted, "the session is as it was acknowledged", texts, wanted)
    await session.open()
    after = path.read_bytes() if path.exists() else b""
    aside = Path(session.repair.set_aside).read_bytes() if session.repair else b""
    expect(before == after + aside, "nothing is repaired in silence", before, session.repair)
    session.add_message(Message.user("after the crash"))
    await session.save()
    await session.close()
    again = await AgentSession.load(session_id, store=store)
    expect(again.history == session.history, "it goes on after the crash", again, session)
    expect(again.repair is None, "a repair is done once", again.repair)


async def check_kills(folder, size, mutant=None):
    """Check what each kill leaves; return the numbers of the operations, and that of the last."""
    indexes = []
    with contextlib.closing(kills(folder, size, mutant)) as found:
        for each in found:
            await check(each, size)
            if each["code"] == 0:
                return indexes, each["nth"] - 1
            expect(each["code"] == -signal.SIGKILL, "the process dies of nothing else", each)
            indexes.append(each["nth"])
    raise Fault("a process survives that nobody kills")


@pytest.mark.parametrize("size", SIZES)
async def test_a_kill_at_any_operation_loses_nothing_that_was_acknowledged(tmp_path, size, capsys):
    indexes, operations = await check_kills(tmp_path, size)
    assert set(indexes) == set(range(1, operations + 1, STEP))
    assert len(indexes) * STEP > operations > 100
    with capsys.disabled():
        print(f" {len(indexes)} kills at {operations} operations", end="")


@pytest.mark.parametrize(
    "mutant", [mutants.repair_without_truncation, mutants.acknowledgement_from_a_buffer]
)
async def test_a_kill_shows_this_mistake(tmp_path, mutant):
    with living(mutant), pytest.raises((Fault, SessionError)):
        await check_kills(tmp_path, 1, mutant)
