"""Spawning: what is refused at once, what becomes an outcome, and what is found afterwards."""

import functools
from pathlib import Path

import pytest
import trio

from greenroom.core import (
    ConfigurationError,
    Message,
    SessionInUseError,
    SessionLockedError,
    ToolUseBlock,
)
from greenroom.core._internal import EndStatus, StateKind
from greenroom.runtime import AgentNotRunningError, AgentRuntime, RuntimeClosedError, RuntimeLimits
from greenroom.session import AgentSession, FileStore, InMemoryStore, SQLiteStore
from greenroom.session._internal import default_store


async def idle(agent, *args):
    async for _ in agent.inputs():
        pass


def new(**options):
    return AgentSession.new("worker", **options)


async def test_a_session_that_runs_is_refused_a_second_time(runtime):
    runtime.spawn(new(session_id="one"), idle)
    with pytest.raises(SessionInUseError) as refused:
        runtime.spawn(new(session_id="one"), idle)
    assert refused.value.session_id == "one"
    assert runtime.list_active() == ("one",)


async def test_one_session_object_is_refused_by_a_second_runtime_until_its_agent_has_ended(runtime):
    session = new()
    handle = runtime.spawn(session, idle)
    async with AgentRuntime(store=InMemoryStore()) as second:
        with pytest.raises(SessionInUseError):
            second.spawn(session, idle)
        await handle.shutdown()
        second.spawn(session, idle)


async def test_a_refused_spawn_leaves_the_session_as_it_was(runtime):
    session = new()
    with pytest.raises(TypeError):
        runtime.spawn(session, print)
    assert session.store is None


async def test_a_runtime_that_is_not_open_refuses():
    runtime = AgentRuntime(store=InMemoryStore())
    with pytest.raises(RuntimeClosedError):
        runtime.spawn(new(), idle)
    async with runtime:
        pass
    with pytest.raises(RuntimeClosedError):
        runtime.spawn(new(), idle)
    with pytest.raises(RuntimeClosedError):
        async with runtime:
            pass


def test_a_runtime_can_be_made_before_trio_runs():
    runtime = AgentRuntime(store=InMemoryStore())

    async def main():
        async with runtime:
            return await runtime.spawn(new(), idle, 1).history()

    assert trio.run(main) == ()


async def test_a_coroutine_is_refused_with_what_to_write_instead(runtime):
    with pytest.raises(TypeError, match=r"spawn\(session, fn, x\)"):
        runtime.spawn(new(), idle(None))


class Callable:
    async def __call__(self, agent):
        await agent.receive()


class Plain:
    def __call__(self, agent):
        return None


async def asyncgen(agent):
    yield agent


@pytest.mark.parametrize("function", [print, lambda agent: None, Plain(), Callable, asyncgen, 7])
async def test_what_is_no_async_function_is_refused(runtime, function):
    with pytest.raises(TypeError, match="async function"):
        runtime.spawn(new(), function)
    assert runtime.list_active() == ()


@pytest.mark.parametrize(
    "function",
    [idle, functools.partial(idle), functools.partial(functools.partial(idle)), Callable()],
)
async def test_partials_and_async_callables_are_accepted(runtime, function):
    assert runtime.spawn(new(), function).state.kind is StateKind.IDLE


async def test_a_bound_method_and_positional_arguments_are_accepted(runtime):
    seen = []

    class Worker:
        async def run(self, agent, one, two):
            seen.append((agent.session.agent_type, one, two))

    await runtime.spawn(new(), Worker().run, 1, "2").wait()
    assert seen == [("worker", 1, "2")]


async def test_a_locked_session_is_an_outcome_and_the_function_is_never_called(runtime, store):
    session = new()
    other = new(session_id=session.session_id, store=store)
    await other.open()
    called = []

    async def agent_fn(agent):
        called.append(agent)

    handle = runtime.spawn(session, agent_fn)
    outcome = await handle.wait()
    assert (outcome.status, called) == (EndStatus.CRASHED, [])
    assert isinstance(outcome.error, SessionLockedError)
    assert handle.state.kind is StateKind.FAILED
    assert not runtime.is_running(session.session_id)
    await other.close()
    assert (await runtime.spawn(session, agent_fn).wait()).status is EndStatus.COMPLETED


async def test_a_session_that_could_not_be_locked_is_left_as_it_was(runtime, store):
    session = new()
    session.add_message(Message.assistant([ToolUseBlock("t1", "Read")]))
    other = new(session_id=session.session_id, store=store)
    await other.open()
    await runtime.spawn(session, idle).wait()
    assert len(session.history) == 1
    await other.close()


class BrokenStore(InMemoryStore):
    async def acquire(self, session_id):
        raise OSError("no such device")


async def test_a_store_that_raises_something_of_its_own_crashes_one_agent_only(runtime):
    neighbour = runtime.spawn(new(), idle)
    outcome = await runtime.spawn(new(store=BrokenStore()), idle).wait()
    assert isinstance(outcome.error, OSError)
    assert runtime.is_running(neighbour.session_id)


async def test_agents_are_found_by_their_session(runtime):
    first, second = runtime.spawn(new(), idle), runtime.spawn(new(), idle)
    assert runtime.list_active() == (first.session_id, second.session_id)
    assert runtime.get(first.session_id).session_id == first.session_id
    assert runtime.get("nobody") is None
    await runtime.shutdown(first.session_id)
    assert runtime.list_active() == (second.session_id,)
    with pytest.raises(AgentNotRunningError):
        await runtime.shutdown(first.session_id)


async def test_an_ended_agent_can_be_spawned_again_with_its_session(runtime):
    session = new()
    await runtime.spawn(session, idle).shutdown()
    handle = runtime.spawn(session, idle)
    assert runtime.is_running(session.session_id)
    await handle.shutdown()


async def test_the_default_store_is_the_folder_sessions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with AgentRuntime() as runtime:
        session = new()
        handle = runtime.spawn(session, idle)
        assert "sessions" in repr(session.store)
        handle.kill()


async def test_tools_of_an_agent_spill_into_its_session_folder(tmp_path, monkeypatch):
    class Folders(InMemoryStore):
        def folder(self, session_id):
            return str(tmp_path / session_id)

    spilled = []

    async def agent_fn(agent):
        spilled.append(agent.context.spill_folder)

    async with AgentRuntime(store=Folders()) as runtime:
        handle = runtime.spawn(new(), agent_fn)
        await handle.wait()
    assert spilled == [str(tmp_path / handle.session_id / "output")]


@pytest.mark.parametrize("name", ["mailbox", "ring_chunks", "ring_bytes", "subagents", "pending"])
def test_a_bound_under_which_nothing_works_is_refused(name):
    with pytest.raises(ConfigurationError, match=name):
        RuntimeLimits(**{name: 0})


def test_a_negative_time_is_refused():
    with pytest.raises(ConfigurationError):
        RuntimeLimits(flush_grace=-1)
    with pytest.raises(ConfigurationError):
        RuntimeLimits(permission_timeout=-1)


@pytest.mark.parametrize("what", ["coder", None, 7])
async def test_what_is_no_session_is_refused_with_how_to_make_one(what):
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        with pytest.raises(TypeError, match=r"AgentSession\.new"):
            runtime.spawn(what, idle)


async def test_a_number_in_place_of_a_budget_is_refused(runtime):
    with pytest.raises(TypeError, match=r"100 is not a budget: write budget=Budget\(tokens="):
        runtime.spawn(new(), idle, budget=100)


def test_a_path_in_place_of_a_store_is_refused():
    for path in ("sessions", Path("sessions")):
        with pytest.raises(TypeError, match=r"is a path, not a store: .*FileStore\('sessions'\)"):
            AgentRuntime(store=path)


async def test_a_path_in_place_of_the_store_of_a_session_is_refused():
    with pytest.raises(TypeError, match="'sessions' is a path, not a store"):
        AgentSession.new("coder", store="sessions")
    with pytest.raises(TypeError, match="is a path, not a store"):
        await AgentSession.load("s-1", store="sessions")
    with pytest.raises(TypeError, match="is a path, not a store"):
        await AgentSession.list_all(store="sessions")


async def test_whoever_asks_an_agent_that_has_crashed_reads_why(runtime):
    async def broken(agent):
        raise ValueError("of no use")

    handle = runtime.spawn(new(), broken)
    await handle.wait()
    with pytest.raises(AgentNotRunningError, match="crashed: ValueError: of no use") as raised:
        await handle.ask("hello")
    assert raised.value.__cause__ is raised.value.outcome.error


async def test_requests_that_nobody_can_answer_wait_or_are_denied_and_are_never_allowed(runtime):
    with pytest.raises(ConfigurationError, match=r"unattended='allow' is not one of .*rules"):
        runtime.spawn(new(), idle, unattended="allow")


@pytest.mark.parametrize("kind", [FileStore, SQLiteStore])
async def test_a_session_that_is_kept_elsewhere_is_refused(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    async with AgentRuntime(store=kind(tmp_path / "here")) as runtime:
        for bound in (new(store=FileStore("elsewhere")), new(store=SQLiteStore("elsewhere"))):
            with pytest.raises(ConfigurationError, match="elsewhere") as caught:
                runtime.spawn(bound, idle)
            assert "here" in str(caught.value)
            assert not runtime.is_running(bound.session_id)
        early = new()
        early.journal.bind(default_store())  # as a save before the spawn does
        with pytest.raises(ConfigurationError, match="sessions'"):
            runtime.spawn(early, idle)

        async def parent(agent):
            agent.spawn(new(store=FileStore("elsewhere")), idle)

        outcome = await runtime.spawn(new(store=InMemoryStore()), parent).wait()
        assert isinstance(outcome.error, ConfigurationError)
        runtime.spawn(new(store=kind(tmp_path / "here")), idle).kill()
        (tmp_path / "link").symlink_to(tmp_path / "here")
        runtime.spawn(new(store=kind(tmp_path / "link")), idle).kill()
