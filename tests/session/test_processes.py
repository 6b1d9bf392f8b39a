"""Sessions between processes: one writer, whose death frees the lock and loses nothing it had."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from greenroom.core import Message, SessionLockedError
from greenroom.fs.durable import FolderLockedError, check_lock, lock, unlock
from greenroom.session import AgentSession, FileStore, SessionFencedError, SQLiteStore
from greenroom.session._internal import fenced_error, locked_error
from tests.warm_python import start_warm

WRITER = """
import sys, trio
import greenroom
from greenroom import AgentSession, Message

async def main(kind, path):
    store = getattr(greenroom, kind)(path)
    session = AgentSession.new("coder", session_id="mine", store=store)
    await session.open()
    for number in range(1_000_000):
        session.add_message(Message.user(f"message {number} " + "x" * 2000))
        await session.save()
        print(number, flush=True)

trio.run(main, *sys.argv[1:])
"""


@pytest.fixture(params=[FileStore, SQLiteStore])
def shared(request, tmp_path):
    """A store that another process writes as well."""
    return request.param(tmp_path / "sessions")


@pytest.fixture
def writer(shared, tmp_path):
    """A process that saves message after message, and tells each number once it is saved."""
    command = ["-c", WRITER, type(shared).__name__, tmp_path / "sessions"]
    process = start_warm(command, tmp_path, text=True)
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def wait_for(process, number):
    """Read acknowledgements up to this one."""
    while int(process.stdout.readline()) < number:
        pass


async def test_a_second_process_is_refused_and_told_who_writes(writer, shared):
    wait_for(writer, 0)
    session = await AgentSession.load("mine", store=shared)
    session.add_message(Message.user("me too"))
    for attempt in (session.open, session.save):
        with pytest.raises(SessionLockedError, match=f"process {writer.pid}") as caught:
            await attempt()
        assert caught.value.pid == writer.pid
        assert caught.value.session_id == "mine"


@pytest.mark.parametrize("acknowledged", [0, 1, 7, 40])
async def test_what_a_killed_process_had_saved_is_there(writer, shared, acknowledged):
    wait_for(writer, acknowledged)
    writer.send_signal(signal.SIGKILL)
    numbers = [int(line) for line in writer.stdout]
    writer.wait()
    last = numbers[-1] if numbers else acknowledged
    with trio.fail_after(60):
        session = await AgentSession.load("mine", store=shared)
        assert len(session.history) > last
        texts = [message.text.split()[1] for message in session.history]
        assert texts == [str(number) for number in range(len(texts))]
        await session.open()
        session.add_message(Message.user("after the crash"))
        await session.save()
        await session.close()
        again = await AgentSession.load("mine", store=shared)
    assert again.history == session.history
    assert again.repair is None


def test_a_lock_left_by_a_dead_process_is_taken_over(tmp_path):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "lock").write_text("999999\n")
    descriptor = lock(str(tmp_path / "s"))
    assert (tmp_path / "s" / "lock").read_text() == f"{os.getpid()}\n"
    unlock(descriptor, str(tmp_path / "s"))
    assert not (tmp_path / "s" / "lock").exists()


async def test_a_writer_is_told_who_took_its_session_over(files, conversation):
    session = AgentSession.new("coder", session_id="mine", store=files)
    session.add_message(conversation[0])
    await session.open()
    await session.save()
    path = Path(files.folder("mine")) / "lock"
    path.unlink()
    session.add_message(conversation[3])
    for pid, text in ((None, ""), (4321, "4321\n"), (None, "nobody")):
        if text:
            path.write_text(text)
        with pytest.raises(SessionFencedError, match="can no longer be written here") as caught:
            await session.save()
        assert caught.value.pid == pid
    await session.close()
    assert path.read_text() == "nobody"
    assert len((await AgentSession.load("mine", store=files)).history) == 1
    await session.save()
    assert (await AgentSession.load("mine", store=files)).history == session.history


@pytest.mark.parametrize("text", ["", "not a number"])
def test_a_holder_that_cannot_be_told_is_still_a_holder(tmp_path, text):
    descriptor = lock(str(tmp_path / "s"))
    (tmp_path / "s" / "lock").write_text(text)
    with pytest.raises(FolderLockedError) as caught:
        lock(str(tmp_path / "s"))
    assert caught.value.pid is None
    unlock(descriptor, str(tmp_path / "s"))


def test_a_lock_counts_only_on_the_file_that_stands_in_the_folder(tmp_path, monkeypatch):
    """The last holder removes the file just after we opened it, or the folder just before."""
    folder = str(tmp_path / "s")
    path = os.path.join(folder, "lock")
    held = lock(folder)
    flock, opened = lock.__globals__["fcntl"].flock, []

    def release_first(descriptor, how):
        if not opened:
            opened.append(descriptor)
            unlock(held, folder)
        flock(descriptor, how)

    monkeypatch.setattr(lock.__globals__["fcntl"], "flock", release_first)
    descriptor = lock(folder)
    assert os.path.samestat(os.fstat(descriptor), os.stat(path))
    unlock(descriptor, folder)


def test_a_folder_removed_under_our_feet_is_made_again(tmp_path, monkeypatch):
    folder = str(tmp_path / "s")
    module = lock.__globals__["os"]
    real, calls = module.open, []

    def remove_first(path, *args):
        calls.append(path)
        if len(calls) == 1:
            os.rmdir(folder)
        return real(path, *args)

    monkeypatch.setattr(module, "open", remove_first)
    unlock(lock(folder), folder)
    assert len(calls) > 1


def test_a_lock_file_that_never_stays_is_given_up_on(tmp_path, monkeypatch):
    monkeypatch.setitem(lock.__globals__, "_try_lock", lambda path: None)
    with pytest.raises(FolderLockedError):
        lock(str(tmp_path / "s"))


def test_a_lock_that_the_system_refuses_leaves_no_descriptor(tmp_path, monkeypatch):
    def refuse(descriptor, how):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(lock.__globals__["fcntl"], "flock", refuse)
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(OSError, match="No locks"):
        lock(str(tmp_path / "s"))
    assert len(os.listdir("/dev/fd")) == before


async def test_an_unknown_holder_is_named_as_such(files, monkeypatch):
    def held(folder):
        raise FolderLockedError(None)

    monkeypatch.setattr("greenroom.session.file_store.lock", held)
    with pytest.raises(SessionLockedError, match="another process"):
        await AgentSession.new("coder", store=files).open()


FORKING = """
import os, signal, sys, trio
import greenroom
from greenroom import AgentSession, Message
from greenroom.session import SessionFencedError

async def main(kind, path):
    store = getattr(greenroom, kind)(path)
    session = AgentSession.new("coder", session_id="mine", store=store)
    session.add_message(Message.user("one"))
    await session.open()
    await session.save()
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, b"x")
        sys.stdin.read()  # as long as the test wants it to live
        os._exit(0)
    os.read(reading, 1)
    os.kill(os.getpid(), signal.SIGKILL)

trio.run(main, *sys.argv[1:])
"""


@pytest.fixture
def forked(shared, tmp_path):
    """A process that held the session `mine`, forked and was killed; its child lives."""
    with subprocess.Popen(
        [sys.executable, "-c", FORKING, type(shared).__name__, str(tmp_path / "sessions")],
        stdin=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    ) as parent:
        assert parent.wait() == -signal.SIGKILL
        yield parent
        parent.stdin.close()  # which the child waits for


async def test_a_child_that_was_forked_keeps_no_lock_of_a_parent_that_was_killed(forked, shared):
    session = await AgentSession.load("mine", store=shared)
    session.add_message(Message.user("two"))
    await session.save()
    assert [each.text for each in session.history] == ["one", "two"]


def test_a_forked_child_holds_no_lock_and_closes_no_file_of_another(tmp_path):
    folder = str(tmp_path / "s")
    descriptor = lock(folder)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            check_lock(descriptor, folder)
        except FolderLockedError as error:
            code = 0 if error.pid == os.getppid() else 2
        finally:
            unlock(descriptor, folder)
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    check_lock(descriptor, folder)
    unlock(descriptor, folder)


@pytest.fixture
def ended():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process


async def test_a_holder_that_has_ended_is_named_as_such(files, monkeypatch, ended):
    """Only a process that it started without Python's knowledge can still hold the lock."""

    def held(folder):
        raise FolderLockedError(ended.pid)

    monkeypatch.setattr("greenroom.session.file_store.lock", held)
    with pytest.raises(SessionLockedError, match=f"process {ended.pid}, which has ended") as caught:
        await AgentSession.new("coder", store=files).open()
    assert "that it started" in caught.value.hint


async def test_files_beside_the_session_keep_the_folder(files):
    session = AgentSession.new("coder", session_id="mine", store=files)
    await session.open()
    (Path(files.folder("mine")) / "output.txt").write_text("spilled")
    await session.close()
    assert os.listdir(files.folder("mine")) == ["output.txt"]


def test_a_store_can_be_used_from_one_run_after_another(tmp_path):
    store = FileStore(tmp_path)

    async def add(text):
        if await store.exists("mine"):
            session = await AgentSession.load("mine", store=store)
        else:
            session = AgentSession.new("coder", session_id="mine", store=store)
        session.add_message(Message.user(text))
        await session.save()
        return len(session.history)

    assert [trio.run(add, text) for text in "abc"] == [1, 2, 3]


def test_a_holder_in_another_process_is_named(files):
    script = (
        "import sys, trio\n"
        "from greenroom import AgentSession, FileStore\n"
        "async def main():\n"
        "    store = FileStore(sys.argv[1])\n"
        "    await AgentSession.new('coder', session_id='mine', store=store).open()\n"
        "    print(store.holder, flush=True)\n"
        "    sys.stdin.read()\n"
        "trio.run(main)\n"
    )
    command = [sys.executable, "-c", script, os.path.dirname(files.folder("mine"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        name = process.stdout.readline().decode().strip()
        with pytest.raises(SessionLockedError) as caught:
            trio.run(AgentSession.new("coder", session_id="mine", store=files).open)
        process.stdin.close()
    host, pid, place = name.split("/")
    assert (host, pid) == (socket.gethostname(), str(process.pid))
    assert len(place) == 8
    assert (caught.value.holder, caught.value.pid) == (name, process.pid)
    assert f"process {process.pid} ({name})" in str(caught.value)


@pytest.mark.parametrize("holder", ["far/12/ab", ""])
def test_a_holder_on_another_machine_is_not_looked_for_here(ended, holder):
    error = locked_error("mine", ended.pid, holder)
    assert ("on far (far/12/ab)" in str(error)) == bool(holder)
    assert ("has ended" in str(error)) != bool(holder)
    assert "far/12/ab" in str(fenced_error("mine", 12, "far/12/ab"))
