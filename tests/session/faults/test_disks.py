"""Disks that are slow or full, threads, clocks that jump, and two who want to write at once."""

import errno
import os
import subprocess
import sys
import threading
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from greenroom.core import (
    Message,
    SessionError,
    SessionLockedError,
    SessionStorageError,
    ToolUseBlock,
)
from greenroom.core._internal import InvalidJSONError
from greenroom.fs import loop_writes
from greenroom.fs._internal import LoopWrites, durable
from greenroom.session import (
    AgentSession,
    FileStore,
    InMemoryStore,
    SessionFencedError,
    SQLiteStore,
    entries as pending_module,
    sqlite_store,
)
from greenroom.session._internal import read_last
from tests.absent_programs import needs
from tests.session.faults.killed import OPERATIONS, installed, prepare

ROOT = Path(__file__).parents[3]
LONG = "long " * 100_000


class WatchedDisk:
    """`os`, which writes down in which thread each operation on a file runs."""

    def __init__(self):
        self.threads = {}

    def __getattr__(self, name):
        real = getattr(os, name)
        return (lambda *args: self._call(name, real, args)) if name in OPERATIONS else real

    def _call(self, name, real, args):
        self.threads.setdefault(name, set()).add(threading.get_ident())
        return real(*args)


async def test_no_operation_on_a_file_elsewhere_runs_on_the_event_loop(
    files, conversation, monkeypatch
):
    monkeypatch.setattr(loop_writes, "is_local", lambda _device: False)
    await prepare(files)
    disk = WatchedDisk()
    with installed(disk):
        session = await AgentSession.load("torn", store=files)
        await session.open()
        for message in conversation:
            session.add_message(message)
            await session.save(flush=not message.tool_results)
        session.set_metadata("title", "mine")
        await session.rewind(1)
        assert len(await session.read_branches()) == 2
        assert (await read_last("torn", 1, store=files)).messages
        await session.close()
        await files.salvage("torn")
        await session.fork()
        assert len(await AgentSession.list_all(store=files)) == 2
        await (await files.acquire("empty")).release()
    used = {"open", "write", "fdatasync", "fsync", "rename", "ftruncate", "unlink", "rmdir"}
    assert used < disk.threads.keys()
    assert threading.get_ident() not in set.union(*disk.threads.values())


async def say(session, *texts):
    """Save messages that need no sync; return the threads in which they were written."""
    disk = WatchedDisk()
    with installed(disk):
        for text in texts:
            session.add_message(Message.user(text))
            await session.save(flush=False)
    assert "fdatasync" not in disk.threads
    return disk.threads["write"]


@asynccontextmanager
async def saved(store):
    """Hold a session open that has one line."""
    session = AgentSession.new("coder", session_id="mine", store=store)
    await session.open()
    session.add_message(Message.user("first"))
    await session.save()
    try:
        yield session
    finally:
        await session.close()


async def test_a_short_line_that_needs_no_sync_is_written_on_the_event_loop(files, monkeypatch):
    monkeypatch.setattr(loop_writes, "is_local", lambda _device: True)
    files._writes, here = LoopWrites(lambda: now), threading.get_ident()
    now = 0.0
    async with saved(files) as session:
        assert await say(session, "short", "short, too") == {here}
        assert here not in await say(session, "x" * loop_writes.MOST_BYTES)
        with files._writes.measure():
            now = 0.03  # a slow one
        assert here not in await say(session, "in a thread")
        now = 60.02
        assert here not in await say(session, "for a minute")
        now = 60.04
        assert await say(session, "and no longer") == {here}
    assert len((await AgentSession.load("mine", store=files)).history) == 7


def no_space(*_args, **_options):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_a_line_on_the_event_loop_that_fails_leaves_the_history_as_it_was(files, monkeypatch):
    monkeypatch.setattr(loop_writes, "is_local", lambda _device: True)
    async with saved(files) as session:
        session.add_message(Message.user("lost"))
        with monkeypatch.context() as patch:
            patch.setattr(durable, "append", no_space)
            with pytest.raises(SessionStorageError, match="No space") as caught:
                await session.save(flush=False)
        assert caught.value.nothing_written
        await session.save(flush=False)
        os.unlink(os.path.join(files.folder("mine"), "lock"))
        session.add_message(Message.user("refused"))
        with pytest.raises(SessionFencedError):
            await session.save(flush=False)


@pytest.fixture
def encoders(monkeypatch):
    """The threads in which long entries were encoded."""
    threads, real = [], pending_module.encode_pending

    def encode(entries):
        threads.append(threading.get_ident())
        return real(entries)

    monkeypatch.setattr("greenroom.session.journal.encode_pending", encode)
    return threads


@pytest.mark.parametrize("kind", ["files", "database"])
async def test_a_long_commit_is_encoded_in_a_thread_and_a_short_one_is_not(
    files, encoders, kind, tmp_path
):
    store = files if kind == "files" else SQLiteStore(tmp_path / "sessions.db")
    session = AgentSession.new("coder", session_id="mine", store=store)
    for text in ("short", LONG, "short"):
        session.add_message(Message.user(text))
        await session.save()
    here = threading.get_ident()
    assert [thread == here for thread in encoders] == [True, False, True]
    assert (await AgentSession.load("mine", store=store)).history == session.history
    await session.close()
    if isinstance(store, SQLiteStore):
        await store.aclose()


async def test_a_long_message_is_not_encoded_where_it_is_added(monkeypatch):
    def refuse(value):
        raise AssertionError("encoded on the event loop")

    session = AgentSession.new("coder")
    monkeypatch.setattr("greenroom.core.serde.encode", refuse)
    session.add_message(Message.user(LONG))
    assert session.history[0].text == LONG


async def test_a_fork_is_not_encoded_on_the_event_loop(files, encoders, monkeypatch):
    session = AgentSession.new("coder", session_id="mine", store=files)
    session.add_message(Message.user("short"))
    session.add_message(Message.assistant([ToolUseBlock("t1", "Read", {"file_path": "a.txt"})]))
    session.mark_tools_started(["t1"])
    await session.save()
    encoders.clear()
    monkeypatch.setattr("greenroom.session.conversation.validate_entry", None)
    fork = await session.fork(1)
    assert encoders
    assert threading.get_ident() not in encoders
    assert (await AgentSession.load(fork.session_id, store=files)).history == session.history[:1]


async def test_a_store_without_threads_encodes_at_once(encoders):
    session = AgentSession.new("coder", session_id="mine", store=InMemoryStore())
    session.add_message(Message.user(LONG))
    await session.save()
    assert set(encoders) == {threading.get_ident()}


@pytest.mark.parametrize("value", [2**70, "\ud800", (1, 2)])
async def test_a_long_message_is_in_memory_what_it_will_be_when_it_is_read_again(value):
    session = AgentSession.new("coder", session_id="mine", store=InMemoryStore())
    use = ToolUseBlock("t", "Write", {"text": LONG, "value": value})
    session.add_message(Message.assistant([use]))
    session.conversation.pair_tool_uses()
    await session.save()
    loaded = await AgentSession.load("mine", store=session.store)
    assert loaded.history == session.history


def test_a_long_message_that_can_not_be_stored_is_refused_at_once():
    session = AgentSession.new("coder")
    use = ToolUseBlock("t", "Write", {"text": LONG, "value": object()})
    with pytest.raises(InvalidJSONError):
        session.add_message(Message.assistant([use]))
    assert session.history == ()


def test_a_long_message_of_no_known_shape_is_refused_at_once():
    session = AgentSession.new("coder")
    with pytest.raises(InvalidJSONError):
        session.add_message(Message("robot", Message.user(LONG).content))
    assert session.history == ()


async def test_a_slow_disk_holds_up_its_own_session_and_nobody_else(tmp_path, monkeypatch):
    """A sync that does not return: other sessions are saved, and the event loop goes on."""
    waits, goes_on = threading.Event(), threading.Event()
    real = durable.append

    def append(fd, data, at, *, flush=True):
        if b"slow" in data:
            waits.set()
            assert goes_on.wait(30)
        real(fd, data, at, flush=flush)

    monkeypatch.setattr(durable, "append", append)
    store = FileStore(tmp_path)
    slow = AgentSession.new("coder", session_id="one", store=store)
    slow.add_message(Message.user("slow"))
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(slow.save)
            await trio.to_thread.run_sync(waits.wait)
            for number in range(5):
                other = AgentSession.new("coder", session_id=f"other{number}", store=store)
                other.add_message(Message.user("quick"))
                await other.save()
            assert not slow.is_saved
            goes_on.set()
    assert slow.is_saved
    assert len(await AgentSession.list_all(store=store)) == 6


async def test_a_slow_commit_holds_up_its_own_database_and_nobody_else(tmp_path, monkeypatch):
    waits, goes_on = threading.Event(), threading.Event()
    real = sqlite_store.add_line

    def add_line(connection, row, line, at):
        if b"slow" in line:
            waits.set()
            assert goes_on.wait(30)
        real(connection, row, line, at)

    monkeypatch.setattr(sqlite_store, "add_line", add_line)
    database, others = SQLiteStore(tmp_path / "sessions.db"), SQLiteStore(tmp_path / "others.db")
    slow, neighbour, other = (
        AgentSession.new("coder", session_id=name, store=store)
        for name, store in (("slow", database), ("neighbour", database), ("other", others))
    )
    for session in (slow, neighbour, other):
        session.add_message(Message.user(session.session_id))
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(slow.save)
            await trio.to_thread.run_sync(waits.wait)
            nursery.start_soon(neighbour.save)
            await other.save()
            assert (await AgentSession.load("other", store=others)).history == other.history
            assert not slow.is_saved
            assert not neighbour.is_saved
            goes_on.set()
    assert {each.session_id for each in await database.list_all()} == {"slow", "neighbour"}
    for store in (database, others):
        await store.aclose()


@pytest.mark.parametrize("days", [-1, 1, -20_000])
async def test_a_clock_that_jumps_changes_times_and_nothing_else(store, wall, conversation, days):
    session = AgentSession.new("coder", session_id="mine", store=store)
    for message in conversation:
        session.add_message(message)
        session.set_metadata("count", len(session.history))
        await session.save()
        wall.move(days * 86_400)
    loaded = await AgentSession.load("mine", store=store)
    assert loaded.history == conversation
    assert loaded.get_metadata("count") == 4
    assert loaded.is_saved
    await loaded.rewind(1)
    assert (await AgentSession.load("mine", store=store)).history == conversation[:1]
    assert [each.session_id for each in await AgentSession.list_all(store=store)] == ["mine"]


async def test_two_who_want_to_write_take_turns_and_neither_loses_a_word(tmp_path):
    stores = FileStore(tmp_path), FileStore(tmp_path)
    session = AgentSession.new("coder", session_id="mine", store=stores[0])
    session.add_message(Message.user("hello"))
    await session.save()

    async def add(store, name):
        for number in range(10):
            await insist(store, f"{name}{number}")

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for store, name in zip(stores, "ab", strict=True):
                nursery.start_soon(add, store, name)
    texts = [each.text for each in (await AgentSession.load("mine", store=stores[0])).history]
    assert texts[0] == "hello"
    for name in "ab":
        assert [text for text in texts if text[0] == name] == [f"{name}{n}" for n in range(10)]
    assert len(texts) == 21


async def insist(store, text):
    """Load, add and save, from the start again whenever somebody else was in the way."""
    while True:
        session = await AgentSession.load("mine", store=store)
        session.add_message(Message.user(text))
        try:
            await session.save()
        except SessionLockedError:
            await trio.lowlevel.checkpoint()
        except SessionError as error:
            if "changed by another writer" not in str(error):
                raise
        else:
            return


FILL = """
import sys, trio
from greenroom.core import Message, SessionStorageError
from greenroom.session import AgentSession, FileStore, SQLiteStore

async def main(folder, kind):
    store = FileStore(folder) if kind == "files" else SQLiteStore(folder + "/sessions.db")
    session = AgentSession.new("coder", session_id="mine", store=store)
    other = AgentSession.new("coder", session_id="other", store=store)
    for each in (session, other):
        each.add_message(Message.user("hello"))
        await each.open()
        await each.save()
    saved = 1
    for number in range(1000):
        session.add_message(Message.user(f"{number} " + "x" * 700))
        try:
            await session.save()
        except SessionStorageError as error:
            assert "No space left" in str(error) or "disk is full" in str(error), error
            break
        saved += 1
    loaded = await AgentSession.load("mine", store=store)
    assert loaded.history == session.history[:saved], (len(loaded.history), saved)
    assert loaded.repair is None
    for _ in range(3):
        try:
            await session.save()
        except SessionStorageError:
            pass
    assert (await AgentSession.load("other", store=store)).history == other.history
    import os
    os.unlink(folder + "/ballast")
    await session.save()
    other.add_message(Message.user("more"))
    await other.save()
    for each in (session, other):
        await each.close()
        loaded = await AgentSession.load(each.session_id, store=store)
        assert loaded.history == each.history
    if kind == "database":
        await store.aclose()
    print("full after", saved)

trio.run(main, *sys.argv[1:])
"""
READ_ONLY = """
import subprocess, sys, trio
from greenroom.core import Message, SessionStorageError
from greenroom.session import AgentSession, FileStore, SQLiteStore

async def refused(act):
    try:
        await act
    except SessionStorageError as error:
        assert error.hint, error
        return str(error)
    raise AssertionError("it was not refused")

async def main(folder, kind):
    def make():
        inner = folder + "/inner"
        return FileStore(inner) if kind == "files" else SQLiteStore(inner + "/sessions.db")

    store = make()
    session = AgentSession.new("coder", session_id="mine", store=store)
    session.add_message(Message.user("one"))
    await session.save()
    if kind == "database":
        await store.aclose()
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    session.add_message(Message.user("two"))
    others = make()
    for act in (session.save(), AgentSession.new("coder", store=others).open()):
        assert "Read-only file system" in await refused(act)
    if kind == "files":
        assert (await AgentSession.load("mine", store=others)).history == session.history[:1]
    else:  # SQLite writes beside the database, also to read
        assert "unable to open" in await refused(AgentSession.load("mine", store=others))
    subprocess.run(["mount", "-o", "remount,rw", folder], check=True)
    await session.save()
    assert (await AgentSession.load("mine", store=others)).history == session.history
    for each in (store, others) if kind == "database" else ():
        await each.aclose()

trio.run(main, *sys.argv[1:])
"""
MOUNT = (
    'mount -t tmpfs -o size=320k none "$1" && head -c 65536 /dev/zero > "$1/ballast"'
    ' && exec "$2" -c "$3" "$1" "$4"'
)
linux = pytest.mark.skipif(sys.platform != "linux", reason="mounts a file system of Linux")


def run_on_a_small_disk(folder, script, kind):
    """Run this on a file system of 320 KB, mounted where only this child can see it."""
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-euc", MOUNT, "sh", str(folder), sys.executable, script, kind],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.stderr.startswith(("unshare:", "mount:")):
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done.stdout


@linux
@needs("unshare")
@pytest.mark.parametrize("kind", ["files", "database"])
def test_a_disk_that_is_really_full_loses_nothing_and_works_again_with_room(tmp_path, kind):
    told = run_on_a_small_disk(tmp_path, FILL, kind)
    assert int(told.split()[-1]) > {"files": 50, "database": 3}[kind]


@linux
@needs("unshare")
@pytest.mark.parametrize("kind", ["files", "database"])
def test_a_disk_that_is_really_read_only_is_a_typed_error_until_it_is_no_more(tmp_path, kind):
    run_on_a_small_disk(tmp_path, READ_ONLY, kind)
