"""The files of a session on real disks: a kill in between, and a disk that refuses."""

import os
import signal

import pytest
import trio

from greenroom.core import SessionStorageError
from greenroom.session import AgentSession, FileStore, SQLiteStore, journal
from tests.warm_python import run_warm

PUTTER = """
import os, sys, trio
import greenroom
from greenroom.fs._internal import durable

async def main(kind, path, step):
    store = getattr(greenroom, kind)(path)
    await store.put_file("mine", "a", b"old" * 1000)
    count = [0]
    def dying(real):
        def call(*args, **options):
            count[0] += 1
            if count[0] == int(step):
                os.kill(os.getpid(), 9)
            return real(*args, **options)
        return call
    for name in ("_open_new", "_write_all", "sync", "sync_folder"):
        setattr(durable, name, dying(getattr(durable, name)))
    real = os.rename
    os.rename = dying(real)
    if kind == "SQLiteStore":
        store._database._connection.set_trace_callback(dying(lambda statement: None))
    await store.put_file("mine", "a", b"new" * 100_000)
    print(count[0])

trio.run(main, *sys.argv[1:])
"""


@pytest.mark.parametrize("kind", [FileStore, SQLiteStore])
def test_a_kill_at_any_step_leaves_the_old_file_or_the_new_one(kind, tmp_path):
    step, code = 1, -signal.SIGKILL
    while code == -signal.SIGKILL:
        path = str(tmp_path / str(step))
        code, _, _ = run_warm(["-c", PUTTER, kind.__name__, path, step], tmp_path, {})
        store = kind(path)

        async def read(store=store):
            (file,) = await store.list_files("mine")
            return file.name, (await store.open_file("mine", "a")).read()

        name, data = trio.run(read)
        assert name == "a"
        assert data in {b"old" * 1000, b"new" * 100_000}
        step += 1
    assert code == 0
    assert data == b"new" * 100_000
    assert step > 3


async def test_a_full_disk_is_a_typed_error_and_leaves_the_old_file(files, monkeypatch):
    await files.put_file("mine", "a", b"old")

    def full(fd, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("greenroom.fs.durable._write_all", full)
    with pytest.raises(SessionStorageError, match="No space left") as caught:
        await files.put_file("mine", "a", b"new")
    assert caught.value.nothing_written
    assert (await files.open_file("mine", "a")).read() == b"old"


async def test_what_is_no_file_is_not_listed_and_no_link_is_followed(files, tmp_path):
    await files.put_file("mine", "a", b"kept")
    folder = os.path.join(files.folder("mine"), "files")
    os.mkdir(os.path.join(folder, "b"))
    (tmp_path / "secret").write_text("not yours")
    os.symlink(tmp_path / "secret", os.path.join(folder, "c"))
    assert [each.name for each in await files.list_files("mine")] == ["a"]
    for name in ("b", "c"):
        with pytest.raises(SessionStorageError):
            await files.open_file("mine", name)


async def test_what_kills_have_left_of_files_goes_with_a_later_file(tmp_path):
    store = FileStore(tmp_path)
    await store.put_file("mine", "a", b"1")
    [files] = tmp_path.glob("*/files")
    for name, age in ((".greenroom-1.tmp", 7_200), (".greenroom-2.tmp", 0), ("b.tmp", 7_200)):
        (files / name).write_bytes(b"half")
        changed = (files / name).stat().st_mtime - age
        os.utime(files / name, (changed, changed))
    await store.put_file("mine", "c", b"1")
    left = {each.name for each in files.iterdir()}
    assert left == {"a", "c", "b.tmp", ".greenroom-2.tmp"}  # somebody may be writing that one


@pytest.mark.parametrize("end", ["the disk refuses", "a cancel"])
async def test_a_fork_that_is_not_stored_leaves_nothing(store, conversation, monkeypatch, end):
    session = AgentSession.new("coder", session_id="mine", store=store)
    session.add_message(conversation[0])
    await session.save()
    await store.put_file("mine", "a", b"large")
    forks, begun = [], trio.Event()

    async def fail(_, metadata):
        forks.append(metadata.session_id)
        begun.set()
        if end == "a cancel":
            await trio.sleep_forever()
        raise SessionStorageError("the disk is full")

    monkeypatch.setattr(journal._Tail, "describe", fail)
    async with trio.open_nursery() as nursery:

        async def cancel():
            await begun.wait()
            nursery.cancel_scope.cancel()

        if end == "a cancel":
            nursery.start_soon(cancel)
            await session.fork()
        with pytest.raises(SessionStorageError, match="the disk is full"):
            await session.fork()
    assert len(forks) == 1
    assert (await store.read(forks[0])).history.end.lines == 0
    assert await store.list_files(forks[0]) == ()
    assert [each.session_id for each in await store.list_all()] == ["mine"]
    if isinstance(store, FileStore):
        assert os.listdir(os.path.dirname(store.folder("mine"))) == ["mine"]
