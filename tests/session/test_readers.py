"""Readers take no lock: beside a writer they see whole sessions, and report no false damage."""

import os
from pathlib import Path

import pytest
import trio

from greenroom.core import Message
from greenroom.session import AgentSession, FileStore, SQLiteStore, session_folder as folder_module
from greenroom.session._internal import read_last
from greenroom.session.history import encode_line
from tests.conftest import few
from tests.session.faults.killed import installed
from tests.warm_python import start_warm

ROOT = Path(__file__).parents[2]


class BusyDisk:
    """`os`, with somebody who writes to a history between two operations of a reader."""

    def __init__(self, history, operation, write):
        self.history, self.operation, self.write = history, operation, write

    def __getattr__(self, name):
        real = getattr(os, name)
        return self._watched(real) if name == self.operation else real

    def _watched(self, real):
        def call(fd, *args):
            is_history = os.path.samestat(os.fstat(fd), os.stat(self.history))
            result = real(fd, *args)
            if is_history:
                self.write()
            return result

        return call


@pytest.fixture
async def history(files):
    """The history of a session with a few messages."""
    session = AgentSession.new("coder", session_id="mine", store=files)
    for text in ("one", "two", "three"):
        session.add_message(Message.user(text))
        await session.save()
    return Path(files.folder("mine")) / "history.jsonl"


async def texts(files):
    """Read a session in both ways, which find the same and nothing damaged."""
    loaded = await AgentSession.load("mine", store=files)
    page = await read_last("mine", 10, store=files)
    assert loaded.repair is None
    assert page.repair is None
    assert page.messages == loaded.history
    return [message.text for message in loaded.history]


async def test_a_line_that_is_being_written_is_no_torn_end(files, history):
    whole = history.read_bytes()
    for read in (AgentSession.load, lambda id_, store: read_last(id_, 9, store=store)):
        history.write_bytes(whole[:-40])
        with installed(BusyDisk(history, "close", lambda: history.write_bytes(whole))):
            assert (await read("mine", store=files)).repair is None
    assert await texts(files) == ["one", "two", "three"]


async def test_a_torn_end_that_is_cut_off_and_written_over_meanwhile_is_no_damage(files, history):
    whole = history.read_bytes()
    stored = (await files.read("mine")).history.end
    entry = b'{"kind":"message","message":{"role":"user","content":[{"type":"text","text":"%s"}]}}'
    fourth = encode_line([entry % b"four"], stored)
    fifth = encode_line([entry % b"five"], stored.after(fourth).as_synced())
    history.write_bytes(whole + b'{"n":3,"e":[{"kind":"never finished')
    overwritten = whole + fourth + fifth
    with installed(BusyDisk(history, "pread", lambda: history.write_bytes(overwritten))):
        loaded = await AgentSession.load("mine", store=files)
    assert loaded.repair is None
    assert await texts(files) == ["one", "two", "three", "four", "five"]


async def test_a_torn_end_that_stays_is_one_and_so_is_one_that_never_stands_still(files, history):
    whole = history.read_bytes()
    history.write_bytes(whole + b"{")
    assert (await AgentSession.load("mine", store=files)).repair.size == 1

    def grow():
        with history.open("ab") as file:
            file.write(b"x")

    with installed(BusyDisk(history, "close", grow)):
        loaded = await AgentSession.load("mine", store=files)
    assert loaded.repair.size == 1 + folder_module._MAX_READS
    assert [each.text for each in loaded.history] == ["one", "two", "three"]


WRITE = """
import sys, trio
from greenroom.core import Message
from greenroom.session import AgentSession, FileStore, SQLiteStore

async def main(kind, path, count):
    store = {"files": FileStore, "database": SQLiteStore}[kind](path)
    session = await AgentSession.load("mine", store=store)
    await session.open()
    for number in range(1, int(count)):
        session.add_message(Message.user(f"{number} " + "x" * (number * 97 % 9_000)))
        session.set_metadata("count", number)
        await session.save(flush=number % 20 == 0)
    await session.close()

trio.run(main, *sys.argv[1:])
"""


@pytest.mark.parametrize("kind", ["files", "database"])
async def test_beside_a_writer_in_another_process_all_that_is_read_is_sound(tmp_path, kind):
    store = FileStore(tmp_path) if kind == "files" else SQLiteStore(tmp_path / "sessions.db")
    place = tmp_path if kind == "files" else tmp_path / "sessions.db"
    session = AgentSession.new("coder", session_id="mine", store=store)
    session.add_message(Message.user("0 "))
    await session.save()
    counts, messages = [], few(200)
    with trio.fail_after(60), start_warm(["-c", WRITE, kind, place, messages], ROOT) as writer:
        while writer.poll() is None:
            counts.append(await count(store))
    assert writer.returncode == 0
    assert counts == sorted(counts)
    assert await count(store) == messages
    if isinstance(store, SQLiteStore):
        await store.aclose()


async def count(store):
    """Read a session that grows; return how far it was."""
    loaded = await AgentSession.load("mine", store=store)
    numbers = [int(message.text.split()[0]) for message in loaded.history]
    assert numbers == list(range(len(numbers)))
    page = await read_last("mine", 5, store=store)
    last = [int(message.text.split()[0]) for message in page.messages]
    assert last == list(range(last[0], last[-1] + 1))
    assert len(numbers) <= last[-1] + 1
    assert [each.session_id for each in await store.list_all()] == ["mine"]
    return last[-1] + 1
