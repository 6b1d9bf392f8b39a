"""Others change files in the store's folder: only that session fails, with a typed error."""

import errno
import json
import os
import shutil
from contextlib import suppress
from types import SimpleNamespace

import pytest
import trio

from greenroom.core import (
    Message,
    SessionError,
    SessionNotFoundError as NotFound,
    SessionStorageError,
    TurnStatus,
)
from greenroom.core._internal import EndStatus
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, SessionCorruptError, SessionFencedError as Fenced
from tests.session.faults.killed import installed

WRITES = ("write", "pwrite", "ftruncate", "mkdir", "rename", "unlink", "rmdir", "utime")


def remove_the_folder(folder):
    shutil.rmtree(folder)


def put_a_file_in_its_place(folder):
    shutil.rmtree(folder)
    folder.write_text("These are notes.")


def put_a_folder_in_place_of(name):
    def harm(folder):
        (folder / name).unlink()
        (folder / name).mkdir()

    return harm


def put_a_pipe_in_place_of(name):
    def harm(folder):
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return harm


def grow_to_four_gigabytes(name):
    return lambda folder: os.truncate(folder / name, 1 << 32)


def put_a_foreign_text_in_place_of(name):
    return lambda folder: (folder / name).write_text('{"notes": "mine"}\n' * 99)


HARMS = {
    "no folder": (remove_the_folder, NotFound, "mine", Fenced, "its lock was removed"),
    "a file for a folder": (
        put_a_file_in_its_place,
        SessionStorageError,
        "metadata.json: Not a directory",
        SessionStorageError,
        "lock: Not a directory",
    ),
    "a long history": (
        grow_to_four_gigabytes("history.jsonl"),
        SessionStorageError,
        "history.jsonl: File too large",
        SessionStorageError,
        "mine: the file was changed or removed by another",
    ),
    "a long description": (
        grow_to_four_gigabytes("metadata.json"),
        SessionStorageError,
        "metadata.json: File too large",
        SessionStorageError,
        "metadata.json: File too large",
    ),
    "a folder for a history": (
        put_a_folder_in_place_of("history.jsonl"),
        SessionStorageError,
        "history.jsonl: not a regular file",
        SessionStorageError,
        "mine: the file was changed or removed by another",
    ),
    "a folder for a description": (
        put_a_folder_in_place_of("metadata.json"),
        SessionStorageError,
        "metadata.json: not a regular file",
        SessionStorageError,
        "metadata.json: not a regular file",
    ),
    "a pipe for a history": (
        put_a_pipe_in_place_of("history.jsonl"),
        SessionStorageError,
        "history.jsonl: not a regular file",
        SessionStorageError,
        "mine: the file was changed or removed by another",
    ),
    "a pipe for a description": (
        put_a_pipe_in_place_of("metadata.json"),
        SessionStorageError,
        "metadata.json: not a regular file",
        SessionStorageError,
        "metadata.json: not a regular file",
    ),
    "a foreign description": (
        put_a_foreign_text_in_place_of("metadata.json"),
        SessionCorruptError,
        "metadata.json: not a SessionMetadata",
        SessionCorruptError,
        "metadata.json: not a SessionMetadata",
    ),
}
harms = pytest.mark.parametrize(
    ("harm", "unread", "told", "unsaved", "said"), HARMS.values(), ids=HARMS
)


@pytest.fixture
def mine(tmp_path):
    return tmp_path / "sessions" / "mine"


async def stored(files, session_id):
    session = AgentSession.new("coder", session_id=session_id, store=files)
    session.add_message(Message.user("one"))
    await session.save()
    return session


@harms
async def test_what_was_harmed_is_a_typed_error_and_its_neighbour_is_well(
    files, mine, harm, unread, told, unsaved, said
):
    session, other = await stored(files, "mine"), await stored(files, "other")
    await session.open()
    session.add_message(Message.user("two"))
    await session.save()
    harm(mine)
    with trio.fail_after(60):
        with pytest.raises(unread, match=told):
            await AgentSession.load("mine", store=files)
        session.add_message(Message.user("three"))
        session.set_metadata("title", "mine")
        with pytest.raises(unsaved, match=said):
            await session.save()
        assert "other" in [each.session_id for each in await files.list_all()]
        assert [message.text for message in session.history] == ["one", "two", "three"]
        other.add_message(Message.user("two"))
        await other.save()
    assert (await AgentSession.load("other", store=files)).history == other.history


async def titled(agent):
    async for message in agent.inputs():
        async with agent.turn(message):
            agent.session.set_metadata("title", f"title {len(agent.session.history)}")


def spawn(runtime, session_id):
    return runtime.spawn(AgentSession.new("coder", session_id=session_id), titled)


@harms
async def test_an_agent_on_it_is_told_and_its_siblings_live_on(
    files, mine, harm, unread, told, unsaved, said
):
    with trio.fail_after(60):
        async with AgentRuntime(store=files) as runtime:
            harmed, sibling = spawn(runtime, "mine"), spawn(runtime, "other")
            for each in (harmed, sibling):
                assert (await each.ask("one")).status is TurnStatus.COMPLETED
            harm(mine)
            failed = await harmed.ask("two")
            assert failed.status is TurnStatus.FAILED
            assert said in failed.error
            assert (await sibling.ask("two")).status is TurnStatus.COMPLETED
            await sibling.shutdown()
            await harmed.shutdown()
            assert (await sibling.wait()).status is EndStatus.COMPLETED
            assert isinstance((await harmed.wait()).error, SessionError)
    kept = await AgentSession.load("other", store=files)
    assert [message.text for message in kept.history] == ["one", "two"]


class ReadOnlyDisk:
    """`os` of a file system that has turned read-only; of one folder alone where that is given."""

    def __init__(self):
        self.is_on = False

    def __getattr__(self, name):
        real = getattr(os, name)
        if not self.is_on:
            return real
        if name == "open":
            return self._open
        return self._refuse if name in WRITES else real

    def _open(self, path, flags, *mode):
        if flags & (os.O_WRONLY | os.O_RDWR):
            self._refuse(path)
        return os.open(path, flags, *mode)

    def _refuse(self, path, *rest):
        name = path if isinstance(path, str) else None
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), name)


async def test_a_disk_that_turns_read_only_fails_turns_and_loses_none_of_them(files):
    disk = ReadOnlyDisk()
    with trio.fail_after(60), installed(disk):
        async with AgentRuntime(store=files) as runtime:
            agents = [spawn(runtime, "mine"), spawn(runtime, "other")]
            for each in agents:
                await each.ask("one")
            disk.is_on = True
            late = spawn(runtime, "late")
            assert isinstance((await late.wait()).error, SessionStorageError)
            for each in agents:
                failed = await each.ask("two")
                assert failed.status is TurnStatus.FAILED
                assert "Read-only file system" in failed.error
            disk.is_on = False
            for each in agents:
                assert (await each.ask("three")).status is TurnStatus.COMPLETED
    for name in ("mine", "other"):
        kept = await AgentSession.load(name, store=files)
        assert [message.text for message in kept.history] == ["one", "two", "three"]


async def test_foreign_things_beside_the_sessions_are_passed_over(files, mine):
    await stored(files, "mine")
    (mine.parent / "notes.txt").write_text("notes")
    (mine.parent / "notes").write_text("notes")
    (mine.parent / "folder").mkdir()
    os.mkfifo(mine.parent / "pipe")
    (mine.parent / "odd").mkdir()
    os.mkfifo(mine.parent / "odd" / "metadata.json")
    (mine / "notes.txt").write_text("notes")
    with trio.fail_after(60):
        assert [each.session_id for each in await files.list_all()] == ["mine"]
        assert [each.text for each in (await AgentSession.load("mine", store=files)).history] == [
            "one"
        ]
        for name in ("notes", "pipe"):
            with pytest.raises(SessionStorageError, match=f"{name}.*[Nn]ot a directory"):
                await stored(files, name)
    assert (mine.parent / "notes").read_text() == "notes"


@pytest.mark.parametrize("name", ["history.jsonl", "metadata.json", "metadata.json.tmp", "lock"])
@pytest.mark.parametrize("is_there", [True, False])
async def test_a_link_in_the_place_of_a_file_is_not_followed(files, mine, tmp_path, name, is_there):
    """Else whoever can put a link there has somebody else's file overwritten, or emptied."""
    session, target = await stored(files, "mine"), tmp_path / "target"
    if is_there:
        target.write_text("precious")
    (mine / name).unlink(missing_ok=True)
    (mine / name).symlink_to(target)
    session.add_message(Message.user("two"))
    session.set_metadata("title", "mine")
    for act in (session.save, session.open, lambda: files.salvage("mine"), session.close):
        with suppress(SessionError):
            await act()
    assert target.exists() == is_there
    assert not is_there or target.read_text() == "precious"


async def test_a_pipe_in_the_place_of_a_file_that_is_yet_to_be_written_is_not_waited_for(
    files, mine
):
    session = await stored(files, "mine")
    os.mkfifo(mine / "metadata.json.tmp")
    session.set_metadata("title", "mine")
    await session.save()
    assert sorted(os.listdir(mine)) == ["history.jsonl", "metadata.json"]
    await session.open()
    put_a_pipe_in_place_of("history.jsonl")(mine)
    session.add_message(Message.user("two"))
    with pytest.raises(SessionStorageError, match=r"history.jsonl: No such device or address"):
        await session.save()
    put_a_pipe_in_place_of("lock")(mine)
    with pytest.raises(Fenced, match="can no longer be written here"):
        await session.save()
    await session.close()


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+10:00", "9999-12-31T23:59:59-10:00"])
async def test_a_description_with_a_time_beyond_the_calendar_takes_no_other_from_the_list(
    files, mine, moment
):
    await stored(files, "mine")
    await stored(files, "other")
    about = json.loads((mine / "metadata.json").read_text())
    (mine / "metadata.json").write_text(json.dumps({**about, "created_at": moment}))
    assert [each.session_id for each in await files.list_all()] == ["other"]
    with pytest.raises(SessionCorruptError, match="created_at is not a time"):
        await AgentSession.load("mine", store=files)


@pytest.mark.parametrize("moment", [-1.0e12, 1.0e12])
async def test_a_file_that_bears_a_time_of_no_calendar_is_listed(files, mine, moment, monkeypatch):
    await stored(files, "mine")
    real = os.stat

    def stat(path, **options):
        found = real(path, **options)
        return SimpleNamespace(st_mtime=moment) if "history" in str(path) else found

    monkeypatch.setattr(os, "stat", stat)
    assert [each.session_id for each in await files.list_all()] == ["mine"]
