"""A disk that is full, broken or cut off: nothing acknowledged is lost, nothing wrong is loaded."""

import errno
import os
import sys
from pathlib import Path

import pytest

from greenroom.core import Message, SessionStorageError
from greenroom.fs._internal import durable
from greenroom.session import AgentSession, session_folder
from tests.conftest import take_sample

CALLS = (
    "write", "fdatasync", "fsync", "ftruncate", "open", "mkdir", "rename", "unlink", "close",
)  # fmt: skip


class Crash(BaseException):
    """The process is gone: from here on no call reaches the disk."""


class Disk:
    """`os`, with a rule that sees each call before it reaches the disk.

    The rule gets the call's number, name and arguments; it returns None to let the call through, or
    a function to be called instead.
    """

    def __init__(self):
        self.descriptors = set()
        self.heal()

    def __call__(self, rule):
        self.rule, self.count = rule, 0

    def heal(self):
        self(lambda count, name, args: None)

    def kill(self):
        """Close what the process had open, as the kernel does."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors.clear()

    def __getattr__(self, name):
        real = getattr(os, name)
        return (lambda *args: self._call(name, real, args)) if name in CALLS else real

    def _call(self, name, real, args):
        self.count += 1
        call = self.rule(self.count, name, args) or real
        if name == "close" and call is not crash:
            self.descriptors.discard(args[0])
        result = call(*args)
        if name == "open":
            self.descriptors.add(result)
        return result


@pytest.fixture
def disk(monkeypatch):
    """A disk between the store and the real one; call it with a rule."""
    disk = Disk()
    for module in (durable, session_folder):
        monkeypatch.setattr(module, "os", disk)
    yield disk
    disk.kill()


def failing(code, name):
    """Fail the first call of this name."""
    failures = [raising(code)]
    return lambda count, called, args: failures.pop() if called == name and failures else None


def raising(code):
    def fail(*args):
        raise OSError(code, os.strerror(code))

    return fail


def crash(*args):
    raise Crash


def short_write(fd, data):
    return os.write(fd, bytes(data)[: max(len(data) // 2, 1)])


async def first_save(files, conversation):
    session = AgentSession.new("coder", session_id="mine", store=files)
    session.add_message(conversation[0])
    await session.save()
    return session


async def loaded(files):
    return (await AgentSession.load("mine", store=files)).history


async def test_writes_that_take_only_a_part_are_continued(files, conversation, disk):
    disk(lambda count, name, args: short_write if name == "write" else None)
    await first_save(files, conversation)
    assert await loaded(files) == conversation[:1]


async def test_a_full_disk_rolls_the_half_written_line_back(files, conversation, disk):
    session = await first_save(files, conversation)
    path = Path(files.folder("mine")) / "history.jsonl"
    before = path.read_bytes()
    calls = []

    def rule(count, name, args):
        if name != "write":
            return None
        calls.append(name)
        return short_write if len(calls) == 1 else raising(errno.ENOSPC)

    await session.open()
    session.add_message(conversation[3])
    disk(rule)
    with pytest.raises(SessionStorageError, match="No space left") as caught:
        await session.save()
    assert caught.value.session_id == "mine"
    assert path.read_bytes() == before
    assert await loaded(files) == conversation[:1]
    disk.heal()
    session.add_message(Message.user("more"))
    await session.save()
    await session.close()
    assert await loaded(files) == session.history
    assert len(session.history) == 3


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (errno.ENOSPC, "free space"),
        (errno.EDQUOT, "quota"),
        (errno.ENOENT, "moved or removed"),
        (errno.ENOTDIR, "a file where a folder should be"),
        (errno.EACCES, "permissions"),
        (errno.EROFS, "read-only"),
        (errno.EIO, "the disk fails"),
        (errno.EMFILE, "ulimit -n"),
        (errno.ENXIO, "check the disk"),
    ],
)
async def test_the_hint_is_about_what_happened(files, conversation, disk, code, hint):
    session = await first_save(files, conversation)
    session.add_message(conversation[3])
    disk(failing(code, "write"))
    with pytest.raises(SessionStorageError) as caught:
        await session.save()
    assert hint in caught.value.hint
    assert ("free space" in caught.value.hint) == (code in {errno.ENOSPC, errno.EDQUOT})


@pytest.mark.parametrize("call", ["write", "rename"])
async def test_a_full_disk_leaves_the_old_description(files, conversation, disk, call):
    session = await first_save(files, conversation)
    session.set_metadata("title", "mine")
    disk(failing(errno.ENOSPC, call))
    with pytest.raises(SessionStorageError):
        await session.save()
    assert sorted(os.listdir(files.folder("mine"))) == ["history.jsonl", "metadata.json"]
    assert (await AgentSession.load("mine", store=files)).metadata == {}
    disk.heal()
    await session.save()
    assert (await AgentSession.load("mine", store=files)).metadata == {"title": "mine"}


async def test_a_failed_sync_makes_the_session_read_only_until_reopened(files, conversation, disk):
    session = await first_save(files, conversation)
    await session.open()
    session.add_message(conversation[3])
    disk(failing(errno.EIO, "fdatasync"))
    with pytest.raises(SessionStorageError, match="Input/output error"):
        await session.save()
    for _ in range(2):
        with pytest.raises(SessionStorageError, match="read-only"):
            await session.save()
        await session.open()  # already open: not a reopening
    assert await loaded(files) == conversation[:1]
    await session.close()
    with pytest.raises(SessionStorageError, match="read-only"):
        await session.save()
    await session.open()
    await session.save()
    await session.close()
    assert await loaded(files) == (conversation[0], conversation[3])


async def test_a_failed_sync_counts_without_an_open_session_too(files, conversation, disk):
    session = await first_save(files, conversation)
    session.add_message(conversation[3])
    disk(failing(errno.EIO, "fdatasync"))
    for problem in ("Input/output", "read-only"):
        with pytest.raises(SessionStorageError, match=problem):
            await session.save()
    session.set_metadata("title", "mine")
    with pytest.raises(SessionStorageError, match="read-only"):
        await session.save()


async def test_one_session_on_a_broken_disk_does_not_harm_another(files, conversation, disk):
    session = await first_save(files, conversation)
    other = AgentSession.new("coder", session_id="other", store=files)
    session.add_message(conversation[3])
    other.add_message(conversation[0])
    disk(failing(errno.EIO, "fdatasync"))
    with pytest.raises(SessionStorageError):
        await session.save()
    await other.save()
    assert (await AgentSession.load("other", store=files)).history == conversation[:1]


async def test_a_rollback_that_fails_makes_the_session_read_only(files, conversation, disk):
    session = await first_save(files, conversation)

    def rule(count, name, args):
        if name not in {"write", "ftruncate"} or args[0] not in held:
            return None
        calls.append(name)
        return short_write if len(calls) == 1 else raising(errno.EIO)

    held, calls = set(), []
    await session.open()
    session.add_message(conversation[3])
    await session.save()
    held.add(session.journal._tail._writer._history)
    session.add_message(Message.user("more"))
    disk(rule)
    for problem in ("Input/output", "read-only"):
        with pytest.raises(SessionStorageError, match=problem):
            await session.save()
    await session.close()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
async def test_any_call_may_fail_and_nothing_acknowledged_is_lost(
    tmp_path, files, conversation, disk, code
):
    """The n-th call of a first save and a second one fails, for every n that there is."""
    for nth in take_sample(range(1, 200), 2):
        session = AgentSession.new("coder", session_id=f"n{nth}", store=files)
        session.add_message(conversation[0])
        disk(failing_at(nth, code))
        acknowledged = await attempt(session)
        session.add_message(conversation[3])
        session.set_metadata("title", "mine")
        acknowledged = await attempt(session) or acknowledged
        calls = disk.count
        disk.heal()
        assert await seen(files, session.session_id) in acceptable(session, acknowledged)
        await session.open()
        await session.save()
        await session.close()
        again = await AgentSession.load(session.session_id, store=files)
        assert (again.history, again.metadata) == (session.history, {"title": "mine"})
        if nth > calls:
            break
    assert nth > 20


async def attempt(session):
    """Save, and return how many messages that acknowledged."""
    count = len(session.history)
    try:
        await session.save()
    except SessionStorageError:
        return 0
    return count


async def seen(files, session_id):
    if not await files.exists(session_id):
        return ()
    loaded = await AgentSession.load(session_id, store=files)
    return loaded.history


def acceptable(session, acknowledged):
    return [session.history[:count] for count in range(acknowledged, len(session.history) + 1)]


@pytest.mark.parametrize("torn", [False, True])
async def test_a_crash_at_any_call_leaves_the_old_or_the_new_session(
    files, conversation, disk, torn
):
    """From the n-th call on nothing reaches the disk, for every n; it may be half of a write."""
    for nth in take_sample(range(1, 200), 2):
        session_id = f"n{nth}"
        session = AgentSession.new("coder", session_id=session_id, store=files)
        disk(crash_at(nth, torn))
        acknowledged = 0
        try:
            for message in (conversation[0], conversation[3]):
                session.add_message(message)
                session.set_metadata("count", len(session.history))
                await session.save()
                acknowledged = len(session.history)
        except Crash:
            pass
        crashed = disk.count >= nth
        disk.kill()
        disk.heal()
        assert await seen(files, session_id) in acceptable(session, acknowledged)
        await go_on(files, session_id, acknowledged)
        if not crashed:
            break
    assert nth > 20


def failing_at(nth, code):
    """Fail the n-th call; a descriptor that can't be closed well is closed all the same."""

    def close(fd):
        os.close(fd)
        raising(code)()

    def rule(count, name, args):
        if count != nth:
            return None
        return close if name == "close" else raising(code)

    return rule


def crash_at(nth, torn):
    def half(fd, data):
        short_write(fd, data)
        raise Crash

    def rule(count, name, args):
        if count < nth:
            return None
        return half if torn and count == nth and name == "write" else crash

    return rule


async def go_on(files, session_id, acknowledged):
    """Somebody starts again after the crash: the lock is free, and the session takes more."""
    if await files.exists(session_id):
        session = await AgentSession.load(session_id, store=files)
    else:
        session = AgentSession.new("coder", session_id=session_id, store=files)
    session.add_message(Message.user("after the crash"))
    await session.save()
    history = (await AgentSession.load(session_id, store=files)).history
    assert history == session.history
    assert len(history) > acknowledged


@pytest.mark.skipif(sys.platform != "linux", reason="file names are read from Linux's /proc")
async def test_what_is_acknowledged_was_synced(files, conversation, disk):
    """The order of calls is what a loss of power depends on, and no crash of a process shows it."""
    calls = watch(disk)
    session = AgentSession.new("coder", session_id="mine", store=files)
    session.add_message(conversation[0])
    await session.save()
    above = [path.name for path in Path(files.folder("mine")).parents[1:]]
    first = [
        ("fsync", above[0]),  # the store is made
        *[("fsync", name) for name in above],
        ("fsync", "mine"),
        ("write", "history.jsonl"),
        ("fdatasync", "history.jsonl"),
        ("fsync", "sessions"),
        ("write", "metadata.json.tmp"),
        ("fdatasync", "metadata.json.tmp"),
        ("rename", "metadata.json"),
        ("fsync", "mine"),
    ]
    assert calls == first
    calls.clear()
    session.add_message(conversation[3])
    await session.save()
    assert calls == first[-7:-5]


@pytest.mark.skipif(sys.platform != "linux", reason="file names are read from Linux's /proc")
async def test_a_new_session_whose_first_line_may_be_lost_syncs_its_description_alone(
    files, conversation, disk
):
    """It makes its folder's names safe, so that the line is safe with the next one that is."""
    await (await files.acquire("other")).release()
    calls = watch(disk)
    session = AgentSession.new("coder", session_id="mine", store=files)
    session.add_message(conversation[0])
    await session.save(flush=False)
    assert calls == [
        ("write", "history.jsonl"),
        ("fsync", "sessions"),
        ("write", "metadata.json.tmp"),
        ("fdatasync", "metadata.json.tmp"),
        ("rename", "metadata.json"),
        ("fsync", "mine"),
    ]


def watch(disk):
    """Return the list of the writes, syncs and renames from here on, with the names of files."""
    calls = []

    def name_of(fd):
        return os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))

    def rule(count, name, args):
        if name in {"write", "fdatasync", "fsync"}:
            calls.append((name, name_of(args[0])))
        elif name == "rename":
            calls.append((name, os.path.basename(args[1])))

    disk(rule)
    return calls


def test_where_fsync_is_not_enough_the_disk_is_told_to_flush(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(durable.fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(durable.fcntl, "fcntl", lambda fd, command: flushed.append(command))
    durable.replace(str(tmp_path / "file"), b"data")
    assert flushed == [51]
