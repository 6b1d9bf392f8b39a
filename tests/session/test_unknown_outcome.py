"""A commit with an unknown outcome: what is stored counts once, the rest is written again."""

import errno

import pytest
import trio

from greenroom.core import (
    Message,
    SessionError,
    SessionStorageError,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from greenroom.session import AgentSession, FileStore
from greenroom.testing.session_stores import AfterAppend
from tests.session.test_faults import disk, failing, raising, short_write

__all__ = ["disk"]


class Unsure(AfterAppend):
    """A store that loses the connection behind a line: the line is there, and no answer says so."""

    def __init__(self, store, fail):
        super().__init__(store, fail)
        self.fail = fail

    def lose_next(self):
        self.acts.append(self.fail)


def lost():
    raise SessionStorageError("the connection was lost")


@pytest.fixture
def unsure(store):
    unsure = Unsure(store, lost)
    unsure.acts.clear()
    return unsure


async def history(store):
    return [each.text for each in (await AgentSession.load("mine", store=store)).history]


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("is_first", [False, True])
async def test_a_line_that_landed_unseen_is_stored_once(store, unsure, is_open, is_first):
    session = AgentSession.new("coder", session_id="mine", store=unsure)
    if is_open:
        await session.open()
    if not is_first:
        session.add_message(Message.user("zero"))
        await session.save()
    session.add_message(Message.user("one"))
    unsure.lose_next()
    with pytest.raises(SessionStorageError, match="lost"):
        await session.save()
    assert not session.is_saved
    session.add_message(Message.assistant("two"))
    await session.save()
    assert session.is_saved
    assert await history(store) == [each.text for each in session.history]
    assert session.repair is None
    await session.close()


async def test_nothing_is_left_to_write_but_a_sync(store, unsure):
    session = AgentSession.new("coder", session_id="mine", store=unsure)
    session.add_message(Message.user("one"))
    await session.save()
    session.add_message(Message.assistant("two"))
    unsure.lose_next()
    with pytest.raises(SessionStorageError):
        await session.save()
    await session.open()
    assert session.statistics().unsaved == 0
    await session.save()
    await session.close()
    assert await history(store) == ["one", "two"]


async def test_what_another_added_behind_it_is_brought_in(store, unsure):
    session = AgentSession.new("coder", session_id="mine", store=unsure)
    session.add_message(Message.user("one"))
    await session.save()
    session.add_message(Message.assistant("two"))
    unsure.lose_next()
    with pytest.raises(SessionStorageError):
        await session.save()
    other = await AgentSession.load("mine", store=store)
    other.add_message(Message.user("three"))
    await other.save()
    await session.open()
    assert [each.text for each in session.history] == ["one", "two", "three"]
    await session.close()


async def test_what_another_wrote_in_its_place_is_a_change_of_both(store):
    """The line did not land, and another writer's of the same length did."""
    refused = AfterAppend(store, lambda: None)
    session = AgentSession.new("coder", session_id="mine", store=store)
    session.add_message(Message.user("one"))
    await session.save()
    session.add_message(Message.user("two"))
    session.journal._tail.store = Refusing(refused)
    with pytest.raises(SessionStorageError):
        await session.save()
    session.journal._tail.store = store
    other = await AgentSession.load("mine", store=store)
    other.add_message(Message.user("six"))
    await other.save()
    with pytest.raises(SessionError, match="changed by another writer"):
        await session.save()
    assert await history(store) == ["one", "six"]


class Refusing(Unsure):
    """A store that refuses every line and keeps nothing of it."""

    def __init__(self, store):
        super().__init__(store, lost)

    async def acquire(self, session_id):
        writer = await super().acquire(session_id)

        async def append(line, at, *, flush=True):
            await trio.lowlevel.checkpoint()
            lost()

        writer.append = append
        return writer


@pytest.mark.parametrize("landed", [True, False])
async def test_a_start_that_is_withdrawn_is_on_record_only_where_it_landed(store, unsure, landed):
    session = AgentSession.new("coder", session_id="mine", store=unsure)
    session.add_message(Message.user("go"))
    await session.save()
    session.add_message(Message.assistant([ToolUseBlock("t1", "Read")]))
    session.mark_tools_started(["t1"])
    if landed:
        unsure.lose_next()
    else:
        session.journal._tail.store = Refusing(store)
    with pytest.raises(SessionStorageError):
        await session.save()
    session.journal._tail.store = unsure
    session.conversation.withdraw_tools_started()
    session.conversation.withdraw_tools_started()
    session.conversation.pair_tool_uses()
    assert session.used.tool_calls == 0
    await session.save()
    loaded = await AgentSession.load("mine", store=store)
    assert loaded.history == session.history
    assert "not started" in loaded.history[-1].tool_results[0].text
    assert loaded.used.tool_calls == (1 if landed else 0)
    assert len(await loaded.read_branches()) == len(await session.read_branches()) == 1


async def test_a_cancel_behind_the_line_is_no_double(store, unsure):
    scope = trio.CancelScope()
    session = AgentSession.new("coder", session_id="mine", store=AfterAppendThenWait(store, scope))
    session.add_message(Message.user("one"))
    with scope:
        await session.save()
    assert scope.cancelled_caught
    session.add_message(Message.assistant("two"))
    await session.save()
    assert await history(store) == ["one", "two"]


class AfterAppendThenWait(AfterAppend):
    """A store whose first line is there when the caller is cancelled, still inside of `append`."""

    def __init__(self, store, scope):
        super().__init__(store, lambda: None)
        self.scopes = [scope]

    async def acquire(self, session_id):
        writer = await super().acquire(session_id)
        real = writer.append

        async def append(line, at, *, flush=True):
            await real(line, at, flush=flush)
            while self.scopes:
                self.scopes.pop().cancel()
                await trio.lowlevel.checkpoint()

        writer.append = append
        return writer


async def test_a_disk_that_fails_and_turns_read_only_loses_and_doubles_nothing(
    files, conversation, disk
):
    """The sync fails, then the roll-back: what `errors=remount-ro` does to a file system."""
    session = AgentSession.new("coder", session_id="mine", store=files)
    session.add_message(conversation[0])
    await session.save()
    await session.open()
    session.add_message(Message.assistant([TextBlock("two"), ToolUseBlock("t", "Read")]))
    session.add_message(Message.user([ToolResultBlock("t")]))
    calls = []

    def rule(count, name, args):
        if name == "fdatasync":
            calls.append(name)
            return raising(errno.EIO)
        return raising(errno.EROFS) if calls and name in {"ftruncate", "write"} else None

    disk(rule)
    with pytest.raises(SessionStorageError):
        await session.save()
    await session.close()
    disk.heal()
    await session.open()
    assert session.statistics().unsaved == 0
    session.add_message(Message.assistant("three"))
    await session.save()
    await session.close()
    loaded = await AgentSession.load("mine", store=FileStore(files.folder("x")[:-2]))
    assert loaded.history == session.history
    assert len(loaded.history) == 4


async def test_half_a_line_that_could_not_be_rolled_back_is_written_again(files, disk):
    session = AgentSession.new("coder", session_id="mine", store=files)
    session.add_message(Message.user("one"))
    await session.save()
    session.add_message(Message.assistant("two"))
    writes = []

    def rule(count, name, args):
        if name == "write" and not writes:
            writes.append(name)
            return short_write
        return raising(errno.EIO) if writes and name in {"write", "ftruncate"} else None

    disk(rule)
    with pytest.raises(SessionStorageError):
        await session.save()
    disk.heal()
    await session.open()
    assert session.repair.set_aside
    await session.save()
    await session.close()
    assert await history(files) == ["one", "two"]


async def test_a_full_disk_leaves_no_doubt(files, disk):
    session = AgentSession.new("coder", session_id="mine", store=files)
    session.add_message(Message.user("one"))
    await session.save()
    session.add_message(Message.assistant("two"))
    disk(failing(errno.ENOSPC, "write"))
    with pytest.raises(SessionStorageError, match="No space"):
        await session.save()
    disk.heal()
    await session.save()
    assert await history(files) == ["one", "two"]
