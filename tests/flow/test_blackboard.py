"""A blackboard loses no write, keeps none that it refused, and survives a kill."""

import signal
import textwrap

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom import AgentRuntime, AgentSession, FileStore, InMemoryStore, SessionStorageError
from greenroom.core._internal import InvalidJSONError
from greenroom.flow import Blackboard, StaleWriteError
from greenroom.flow._internal import BlackboardFullError
from greenroom.testing import Scenario, cancel_at_every_checkpoint
from tests.conftest import few
from tests.warm_python import run_warm


def session():
    return AgentSession.new("lead", store=InMemoryStore())


async def test_a_write_counts_if_nobody_else_has_written_since():
    board = Blackboard()
    assert board.get("capital") is None
    value = {"name": "Paris"}
    first = await board.put("capital", value, 0, author="researcher")
    value["name"] = "Rome"
    for entry in (first, board.get("capital")):
        with pytest.raises(TypeError, match="frozen"):
            entry.value["name"] = "Rome"
    (first,) = board.entries()
    assert (first.value, first.version, first.author) == ({"name": "Paris"}, 1, "researcher")
    for stale in (0, 2):
        with pytest.raises(StaleWriteError, match="has version 1") as refused:
            await board.put("capital", "Oslo", stale)
        assert (refused.value.key, refused.value.version) == ("capital", 1)
    assert (await board.put("capital", "Oslo", 1)).version == 2
    await board.put("river", None, 0)
    assert [(each.key, each.value, each.author) for each in board.entries()] == [
        ("capital", "Oslo", ""),
        ("river", None, ""),
    ]


@pytest.mark.parametrize("has_session", [False, True])
async def test_of_fifty_writers_none_loses_an_update(has_session):
    kept = session() if has_session else None
    board, refused = Blackboard(kept), []

    async def write(agent):
        for _ in range(4):
            while True:
                present = board.get("count")
                await trio.lowlevel.checkpoint()  # everybody reads before anybody writes
                count, version = (present.value, present.version) if present else (0, 0)
                try:
                    await board.put("count", count + 1, version)
                except StaleWriteError as error:
                    refused.append(error)
                    continue
                break

    async with AgentRuntime(store=InMemoryStore()) as runtime:
        names = [f"writer {number}" for number in range(50)]
        handles = [runtime.spawn(AgentSession.new("w"), write, name=name) for name in names]
        for handle in handles:
            await handle.wait(check=True)
    entry = board.get("count")
    assert (entry.value, entry.version) == (200, 200)
    assert entry.author in names
    assert refused
    if kept is not None:
        assert kept.is_saved
        assert Blackboard(kept).entries() == board.entries()


async def test_of_several_that_claim_a_task_one_gets_it():
    board, owners = Blackboard(), []

    async def claim(name):
        try:
            await board.put("task 1", name, 0)
        except StaleWriteError:
            return
        owners.append(name)

    async with trio.open_nursery() as nursery:
        for name in "abcde":
            nursery.start_soon(claim, name)
    assert owners == [board.get("task 1").value]


async def test_a_watch_shows_the_present_value_and_then_the_newest():
    board, seen = Blackboard(), []

    async def watch(count):
        async for entry in board.watch("key"):
            seen.append(entry.version)
            if len(seen) == count:
                break

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, 3)
        await wait_all_tasks_blocked()
        assert seen == []
        for version in range(3):
            await board.put("key", "x", version)
            await wait_all_tasks_blocked()
    seen.clear()
    await watch(1)  # the present one, at once
    watching = board.watch("key")
    for version in (3, 4, 5):
        await board.put("key", "x", version)
    seen.append((await anext(watching)).version)
    assert seen == [3, 6]


async def test_a_watch_that_is_cancelled_or_left_keeps_nothing():
    board = Blackboard()
    async with trio.open_nursery() as nursery:
        for key in "aab":
            nursery.start_soon(anext, board.watch(key))
        await wait_all_tasks_blocked()
        await board.put("c", 1, 0)
        await wait_all_tasks_blocked()
        assert len(nursery.child_tasks) == 3
        nursery.cancel_scope.cancel()
    assert board._changed.statistics().tasks_waiting == 0
    await board.put("a", 1, 0)
    assert (await anext(board.watch("a"))).value == 1


async def test_who_waits_again_is_woken_again():
    board, seen = Blackboard(), []

    async def watch():
        async for entry in board.watch("key"):
            seen.append(entry.version)  # noqa: PERF401 (it goes on for ever)

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(watch)
        for version in range(10):
            await wait_all_tasks_blocked()
            await board.put("key", "x", version)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert sorted(seen) == sorted([*range(1, 11)] * 20)


async def test_there_is_a_limit_of_keys_and_of_each_value():
    board = Blackboard(session(), max_keys=1)
    await board.put("a", "x" * 190_000, 0)
    with pytest.raises(BlackboardFullError, match="has 1 keys, and 'b' is new"):
        await board.put("b", 1, 0)
    with pytest.raises(BlackboardFullError, match="200,000"):
        await board.put("a", "x" * 200_000, 1)
    with pytest.raises(InvalidJSONError, match="the value of 'a'"):
        await board.put("a", object(), 1)
    assert (await board.put("a", "short", 1)).version == 2


async def test_several_boards_of_one_session_are_apart():
    kept = session()
    await Blackboard(kept, name="a").put("key", 1, 0)
    await Blackboard(kept, name="b").put("key", 2, 0)
    assert [Blackboard(kept, name=name).get("key").value for name in "ab"] == [1, 2]
    assert Blackboard(kept).entries() == ()


async def test_what_could_not_be_stored_counts_and_is_stored_with_the_next(monkeypatch):
    kept = session()
    board = Blackboard(kept)

    async def refuse():
        raise SessionStorageError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(kept, "save", refuse)
        with pytest.raises(SessionStorageError):
            await board.put("key", 1, 0)
    assert board.get("key").version == 1
    await board.put("key", 2, 1)
    loaded = await AgentSession.load(kept.session_id, store=kept.store)
    assert Blackboard(loaded).get("key") == board.get("key")


async def test_what_was_written_survives_a_kill(tmp_path):
    script = """
        import os, signal, sys, trio
        from greenroom import AgentSession, FileStore
        from greenroom.flow import Blackboard

        async def main():
            store = FileStore(sys.argv[1])
            board = Blackboard(AgentSession.new("lead", session_id="s-lead", store=store))
            for version in range(3):
                await board.put("rainfall", 940 + version, version, author="researcher")
            os.kill(os.getpid(), signal.SIGKILL)

        trio.run(main)
    """
    code, _, errors = run_warm(["-c", textwrap.dedent(script), tmp_path], tmp_path, {})
    assert code == -signal.SIGKILL, errors
    loaded = await AgentSession.load("s-lead", store=FileStore(tmp_path))
    entry = Blackboard(loaded).get("rainfall")
    assert (entry.value, entry.version, entry.author) == (942, 3, "researcher")


def writing_agent():
    """An agent that counts its turns on a board in its own session."""

    async def writer(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                board = Blackboard(agent.session)
                present = board.get("turns")
                version = present.version if present else 0
                assert present is None or present.value == version
                await board.put("turns", version + 1, version)

    return Scenario(writer, inputs=["one", "two"])


def test_a_write_may_be_cancelled_at_any_checkpoint():
    assert cancel_at_every_checkpoint(writing_agent, at_most=few(15)).violations == ()
