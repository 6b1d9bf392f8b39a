# ruff: noqa: PT012 (leaving the runtime's block is what is tested)
"""How agents and runtimes end: a crash is a value, and what is not a crash propagates."""

import logging
import signal

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom.core import (
    AgentState,
    Done,
    Error,
    Exited,
    SelfWaitError,
    SessionStorageError,
    StateChange,
    TextDelta,
    ToolEnd,
    ToolStart,
    TurnError,
    TurnStatus,
)
from greenroom.core._internal import EndStatus, StateKind, leaves
from greenroom.llm import ModelError, ModelOverloadedError
from greenroom.runtime import AgentNotRunningError, AgentRuntime, RuntimeLimits
from greenroom.runtime.kernel import Registry
from greenroom.runtime.mailbox import Mailbox
from greenroom.runtime.subagents import Children
from greenroom.runtime.tasks import LiveTasks
from greenroom.runtime.turn import Turn
from greenroom.runtime.turns import Turns
from greenroom.session import AgentSession, InMemoryStore
from greenroom.session.journal import Journal


def new(**options):
    return AgentSession.new("worker", **options)


async def idle(agent):
    async for _ in agent.inputs():
        pass


async def echo(agent):
    async for message in agent.inputs():
        async with agent.turn(message):
            pass


async def chunks_of(handle):
    return [chunk async for chunk in handle.subscribe("all")]


async def crash(agent):
    raise ValueError("broken")


@pytest.mark.parametrize("function", [idle, crash])
async def test_no_state_follows_a_final_one(runtime, function):
    kept = []

    async def keep(agent):
        kept.append(agent)
        await function(agent)

    handle = runtime.spawn(new(), keep)
    await wait_all_tasks_blocked()
    await handle.shutdown()
    last = handle.state
    assert last.is_final
    with pytest.raises(TurnError, match="it has ended"):
        kept[0].set_state(AgentState.processing())
    assert handle.state == last


async def test_a_crash_is_a_value_and_the_siblings_live(runtime, caplog):
    neighbour = runtime.spawn(new(), idle)
    handle = runtime.spawn(new(), crash, name="bad")
    outcome = await handle.wait()
    assert outcome.status is EndStatus.CRASHED
    assert isinstance(outcome.error, ValueError)
    assert handle.state == AgentState.failed("ValueError: broken")
    assert runtime.list_active() == (neighbour.session_id,)
    assert "the agent bad has crashed" in caplog.text


async def test_a_crash_is_told_in_the_order_state_error_exited(runtime):
    handle = runtime.spawn(new(), crash)
    await handle.wait()
    assert await chunks_of(handle) == [
        StateChange(AgentState.failed("ValueError: broken")),
        Error("broken", "ValueError"),
        Exited(EndStatus.CRASHED, "ValueError: broken"),
    ]


async def test_everything_about_the_end_is_true_at_once(runtime):
    handle = runtime.spawn(new(), crash)
    async for chunk in handle.subscribe("all"):
        # The first chunk of the end: the reader can't run before all of it has happened.
        assert isinstance(chunk, StateChange)
        break
    assert not runtime.is_running(handle.session_id)
    assert handle.state.kind is StateKind.FAILED
    with pytest.raises(AgentNotRunningError):
        handle.send_input_nowait("x")
    assert (await handle.wait()).status is EndStatus.CRASHED


async def test_wait_with_check_raises_what_crashed_the_agent(runtime):
    handle = runtime.spawn(new(), crash)
    with pytest.raises(ValueError, match="broken"):
        await handle.wait(check=True)
    finished = runtime.spawn(new(), idle)
    await finished.shutdown()
    assert (await finished.wait(check=True)).status is EndStatus.COMPLETED


async def raises_in_turn(agent, error):
    async for message in agent.inputs():
        async with agent.turn(message):
            if message.text == "fail":
                raise error


@pytest.mark.parametrize(
    "error",
    [
        ModelOverloadedError("busy"),
        ExceptionGroup("all ours", [ModelError("a"), ExceptionGroup("", [TurnError("b")])]),
    ],
)
async def test_a_typed_error_ends_its_turn_only(runtime, error):
    handle = runtime.spawn(new(), raises_in_turn, error)
    failed = await handle.ask("fail")
    assert failed.status is TurnStatus.FAILED
    assert failed.error
    assert handle.state.kind is StateKind.IDLE
    assert (await handle.ask("go on")).status is TurnStatus.COMPLETED
    await handle.shutdown()
    seen = await chunks_of(handle)
    position = next(i for i, chunk in enumerate(seen) if isinstance(chunk, Error))
    assert isinstance(seen[position + 2], Done)


@pytest.mark.parametrize(
    "error", [ValueError("bug"), ExceptionGroup("mixed", [ModelError("a"), ValueError("bug")])]
)
async def test_any_other_error_in_a_turn_crashes_the_agent(runtime, error):
    handle = runtime.spawn(new(), raises_in_turn, error)
    result = await handle.ask("fail")
    assert result.status is TurnStatus.FAILED
    assert "bug" in result.error
    outcome = await handle.wait()
    assert (outcome.status, outcome.error) == (EndStatus.CRASHED, error)
    assert len([c for c in await chunks_of(handle) if isinstance(c, Error)]) == 1


async def test_a_cancel_beside_a_typed_error_cancels_and_does_not_crash(runtime):
    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message), trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                try:
                    await trio.sleep_forever()
                finally:
                    raise ModelError("while leaving")

    handle = runtime.spawn(new(), agent_fn)
    await handle.send_input("go")
    await wait_all_tasks_blocked()
    await handle.shutdown(grace=0)
    outcome = await handle.wait()
    assert (outcome.status, outcome.error) == (EndStatus.CANCELLED, None)
    done = next(chunk for chunk in await chunks_of(handle) if isinstance(chunk, Done))
    assert (done.status, done.error) == (TurnStatus.INTERRUPTED, "while leaving")


async def test_a_cancel_beside_a_bug_is_a_crash(runtime):
    async def agent_fn(agent):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("while leaving")

    handle = runtime.spawn(new(), agent_fn)
    await wait_all_tasks_blocked()
    await handle.shutdown(grace=0)
    assert (await handle.wait()).status is EndStatus.CRASHED


async def test_a_cancel_that_comes_after_a_crash_does_not_take_it_away(runtime):
    async def child(agent):
        try:
            await trio.sleep_forever()
        finally:
            with agent.cleanup(5):
                await trio.sleep(2)

    async def agent_fn(agent):
        agent.spawn(new(), child)
        await wait_all_tasks_blocked()
        raise ValueError("first")

    handle = runtime.spawn(new(), agent_fn)
    await trio.sleep(1)
    await handle.shutdown(grace=0)
    outcome = await handle.wait()
    assert (outcome.status, str(outcome.error)) == (EndStatus.CRASHED, "first")


async def test_a_group_of_cancels_is_a_cancel(runtime):
    async def agent_fn(agent):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            await trio.sleep_forever()

    handle = runtime.spawn(new(), agent_fn)
    await wait_all_tasks_blocked()
    await handle.shutdown(grace=0)
    assert (await handle.wait()).status is EndStatus.CANCELLED


@pytest.mark.parametrize("inside", [True, False])
async def test_a_keyboard_interrupt_in_an_agent_propagates_out_of_the_runtime(inside):
    async def interrupted(agent):
        if inside:
            raise KeyboardInterrupt
        async with trio.open_nursery():
            raise KeyboardInterrupt

    handles = []
    with pytest.raises(KeyboardInterrupt):
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            handles += [runtime.spawn(new(), interrupted), runtime.spawn(new(), idle)]
            await trio.sleep_forever()
    assert (await handles[0].wait()).status is EndStatus.CRASHED
    assert (await handles[1].wait()).status in {EndStatus.CANCELLED, EndStatus.COMPLETED}


async def test_a_keyboard_interrupt_in_a_subagent_propagates_too():
    async def interrupted(agent):
        raise KeyboardInterrupt

    async def parent(agent):
        agent.spawn(new(), interrupted)
        await trio.sleep_forever()

    with pytest.raises(KeyboardInterrupt):
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            runtime.spawn(new(), parent)
            await trio.sleep_forever()


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        pytest.param(Registry, "add", id="spawn"),
        pytest.param(Children, "add", id="subagent"),
        pytest.param(trio.lowlevel, "reschedule", id="input"),
        pytest.param(Turn, "take", id="taken"),
        pytest.param(Turns, "open", id="turn"),
        pytest.param(Turns, "close", id="left"),
    ],
)
def test_a_ctrl_c_in_the_middle_of_a_step_of_the_runtime_s_waits_for_its_end(
    monkeypatch, owner, name
):
    real, handles = getattr(owner, name), []

    def interrupt(*arguments):
        monkeypatch.setattr(owner, name, real)
        signal.raise_signal(signal.SIGINT)
        return real(*arguments)

    async def parent(agent):
        handles.append(agent.spawn(new(), idle))
        await echo(agent)

    async def main():
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            monkeypatch.setattr(owner, name, interrupt)
            handles.append(runtime.spawn(new(), parent))
            await wait_all_tasks_blocked()
            await handles[0].send_input("hello")
            await trio.sleep_forever()

    with pytest.raises(KeyboardInterrupt):
        trio.run(main)
    assert all(handle.state.is_final for handle in handles)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        pytest.param(LiveTasks, "_find_group", id="counted"),
        pytest.param(Journal, "open_now", id="open"),
    ],
)
def test_a_ctrl_c_while_a_task_is_counted_or_an_agent_begins_is_not_lost(monkeypatch, owner, name):
    real, session, handles = getattr(owner, name), new(), []

    def interrupt(*arguments):
        monkeypatch.setattr(owner, name, real)
        found = real(*arguments)
        signal.raise_signal(signal.SIGINT)
        return found

    async def starts(agent):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 0)

    async def main():
        monkeypatch.setattr(owner, name, interrupt)
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            handles.append(runtime.spawn(session, starts))
            await trio.sleep_forever()

    with pytest.raises(KeyboardInterrupt):
        trio.run(main)
    assert handles[0].state.is_final
    assert not session.journal.is_open


def test_a_ctrl_c_while_a_runtime_opens_leaves_nothing_behind(monkeypatch):
    add = trio.lowlevel.add_instrument
    added = []

    def interrupt(instrument):
        add(instrument)
        added.append(instrument)
        signal.raise_signal(signal.SIGINT)

    async def main():
        with pytest.raises(KeyboardInterrupt):
            async with AgentRuntime(store=InMemoryStore()):
                await trio.sleep_forever()
        for instrument in added:
            with pytest.raises(KeyError):  # it was removed
                trio.lowlevel.remove_instrument(instrument)

    monkeypatch.setattr(trio.lowlevel, "add_instrument", interrupt)
    trio.run(main)


async def test_a_ctrl_c_while_agents_are_shut_down_leaves_none_that_waits_for_good(monkeypatch):
    refuse, refused = Mailbox.refuse, []

    def interrupt(mailbox):
        refuse(mailbox)
        refused.append(mailbox)
        if len(refused) == 2:
            signal.raise_signal(signal.SIGINT)

    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handles = [runtime.spawn(new(), idle) for _ in range(3)]
        await wait_all_tasks_blocked()
        monkeypatch.setattr(Mailbox, "refuse", interrupt)
        with pytest.raises(KeyboardInterrupt):
            await runtime.shutdown_all()
        with trio.fail_after(60):
            for handle in handles:
                assert (await handle.wait()).status is EndStatus.COMPLETED


def test_a_ctrl_c_while_a_runtime_closes_leaves_nothing_behind(monkeypatch):
    close, handles = AgentRuntime._close_nursery, []

    async def interrupt(runtime, error):
        signal.raise_signal(signal.SIGINT)
        return await close(runtime, error)

    async def main():
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            handles.append(runtime.spawn(new(), idle))

    monkeypatch.setattr(AgentRuntime, "_close_nursery", interrupt)
    with pytest.raises(KeyboardInterrupt):
        trio.run(main)
    assert handles[0].state.is_final


async def test_the_body_s_own_exception_leaves_as_it_was():
    mine = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as raised:
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            handle = runtime.spawn(new(), idle)
            raise mine
    assert raised.value is mine
    assert (await handle.wait()).status is EndStatus.CANCELLED


async def test_a_group_from_the_body_leaves_as_it_was():
    mine = ExceptionGroup("mine", [ValueError("a"), KeyError("b")])
    with pytest.raises(ExceptionGroup) as raised:
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            runtime.spawn(new(), idle)
            raise mine
    assert raised.value is mine


async def test_an_error_of_the_body_and_a_keyboard_interrupt_of_an_agent_both_show():
    async def interrupted(agent):
        try:
            await trio.sleep_forever()
        finally:
            raise KeyboardInterrupt

    mine = ValueError("mine")
    with pytest.raises(BaseExceptionGroup) as raised:
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            runtime.spawn(new(), interrupted)
            await wait_all_tasks_blocked()
            raise mine
    first, second = raised.value.exceptions
    assert first is mine
    assert isinstance(second, KeyboardInterrupt)


async def test_two_different_failures_leave_as_a_group():
    async def failing(agent, error):
        try:
            await trio.sleep_forever()
        finally:
            raise error

    with pytest.raises(BaseExceptionGroup) as raised:
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            runtime.spawn(new(), failing, KeyboardInterrupt())
            runtime.spawn(new(), failing, KeyboardInterrupt())
            await wait_all_tasks_blocked()
            raise ValueError("mine")
    interrupts = raised.value.subgroup(KeyboardInterrupt)
    assert interrupts is not None
    assert len(leaves(interrupts)) == 2


async def test_an_outer_cancel_cancels_the_agents_and_is_not_swallowed():
    with trio.move_on_after(10) as scope:
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            handle = runtime.spawn(new(), idle)
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert (await handle.wait()).status is EndStatus.CANCELLED


async def test_an_outer_cancel_during_the_normal_exit_cancels_at_once():
    async def stubborn(agent):
        await trio.sleep_forever()

    with trio.move_on_after(1) as scope:
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            handle = runtime.spawn(new(), stubborn)
    assert scope.cancelled_caught
    assert trio.current_time() == pytest.approx(scope.deadline)
    assert (await handle.wait()).status is EndStatus.CANCELLED


async def test_an_interrupt_of_the_normal_exit_still_ends_every_agent(monkeypatch):
    async def interrupted():
        raise KeyboardInterrupt

    runtime = AgentRuntime(store=InMemoryStore())
    monkeypatch.setattr(runtime, "shutdown_all", interrupted)
    with pytest.raises(KeyboardInterrupt):
        async with runtime:
            handle = runtime.spawn(new(), idle)
    assert (await handle.wait()).status is EndStatus.CANCELLED


async def test_a_cancel_by_an_agent_s_keyboard_interrupt_is_not_what_leaves_the_block():
    async def interrupted(agent):
        await trio.sleep(1)
        raise KeyboardInterrupt

    async def slow(agent):
        await trio.sleep(4)

    with pytest.raises(KeyboardInterrupt):
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            runtime.spawn(new(), interrupted)
            runtime.spawn(new(), slow)


async def test_an_error_of_the_body_is_not_lost_to_an_outer_cancel():
    with trio.CancelScope() as scope, pytest.raises(ValueError, match="mine"):
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            runtime.spawn(new(), idle)
            scope.cancel()
            raise ValueError("mine")


async def test_runtimes_nest_and_an_agent_can_t_wait_for_the_one_that_holds_its_runtime(runtime):
    raised = []

    async def inner(agent, outer):
        try:
            await outer.wait()
        except SelfWaitError as error:
            raised.append(error)

    async def outer(agent):
        handle = runtime.get(agent.session.session_id)
        async with AgentRuntime(store=InMemoryStore()) as mine:
            await mine.spawn(new(), inner, handle).wait()

    outcome = await runtime.spawn(new(), outer).wait()
    assert outcome.status is EndStatus.COMPLETED
    assert len(raised) == 1


@pytest.mark.parametrize("how", ["interrupt", "kill"])
async def test_agents_of_a_runtime_that_an_agent_has_opened_keep_their_time_for_clean_up(
    runtime, how
):
    async def inner(agent):
        try:
            await trio.sleep_forever()
        finally:
            with agent.cleanup(50):
                await trio.sleep(40)

    async def outer(agent):
        async with agent.turn(await agent.receive()):
            async with AgentRuntime(store=InMemoryStore()) as mine:
                await mine.spawn(new(), inner).wait()

    handle = runtime.spawn(new(), outer)
    await handle.send_input("go")
    await wait_all_tasks_blocked()
    before = trio.current_time()
    if how == "interrupt":
        assert (await handle.interrupt(grace=1)).abandoned == ("the turn",)
        assert trio.current_time() == before + 1.25
    else:
        handle.kill()
    await handle.wait()
    assert trio.current_time() == before + 40


async def test_leaving_the_block_lets_a_turn_finish():
    async def slow(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await trio.sleep(3)
                await agent.send(TextDelta("finished"))

    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(new(), slow)
        await handle.send_input("go")
        await wait_all_tasks_blocked()
    assert TextDelta("finished") in await chunks_of(handle)
    assert (await handle.wait()).status is EndStatus.COMPLETED


async def test_no_task_is_left_when_wait_returns(runtime):
    async def busy(agent):
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(trio.sleep_forever)
            agent.spawn(new(), idle)
            agent.spawn(new(), busy if agent.context.parent_session_id is None else idle)
            await trio.sleep_forever()

    before = _tasks()
    handle = runtime.spawn(new(), busy)
    await wait_all_tasks_blocked()
    assert len(_tasks()) > len(before) + 10
    handle.kill()
    await handle.wait()
    await wait_all_tasks_blocked()
    assert _tasks() == before


def _tasks():
    found, waiting = set(), [trio.lowlevel.current_root_task()]
    while waiting:
        task = waiting.pop()
        found.add(task)
        waiting += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return found


class FailingStore(InMemoryStore):
    """Refuses to store anything while `error` is set; `hangs` makes it never answer."""

    def __init__(self):
        super().__init__()
        self.error = None
        self.hangs = False

    async def acquire(self, session_id):
        writer = await super().acquire(session_id)
        append = writer.append

        async def failing(line, at, **how):
            if self.hangs:
                await trio.sleep_forever()
            if self.error is not None:
                raise self.error
            await append(line, at, **how)

        writer.append = failing
        return writer


async def turns(agent):
    async for message in agent.inputs():
        async with agent.turn(message):
            pass


async def test_a_save_that_fails_is_the_turn_s_error_and_the_next_turn_works():
    store = FailingStore()
    async with AgentRuntime(store=store) as runtime:
        handle = runtime.spawn(new(), turns)
        store.error = SessionStorageError("the disk is full")
        failed = await handle.ask("one")
        assert (failed.status, failed.error) == (TurnStatus.FAILED, "the disk is full")
        store.error = None
        assert (await handle.ask("two")).status is TurnStatus.COMPLETED
        await handle.shutdown()
    kinds = [type(chunk) for chunk in await chunks_of(handle)]
    assert kinds.index(Error) < kinds.index(Done)
    stored = await AgentSession.load(handle.session_id, store=store)
    assert [message.text for message in stored.history] == ["one", "two"]


async def test_a_save_that_never_answers_is_given_up_and_the_turn_fails():
    store = FailingStore()
    async with AgentRuntime(store=store, limits=RuntimeLimits(flush_grace=3)) as runtime:
        handle = runtime.spawn(new(), turns)
        store.hangs = True
        failed = await handle.ask("one")
        assert "within 3 seconds" in failed.error
        store.hangs = False
        assert (await handle.ask("two")).status is TurnStatus.COMPLETED


async def test_a_bug_in_a_store_crashes_the_agent_and_nothing_hangs():
    store = FailingStore()
    async with AgentRuntime(store=store) as runtime:
        handle = runtime.spawn(new(), turns)
        store.error = OSError("raw")
        result = await handle.ask("one")
        assert (result.status, result.error) == (TurnStatus.FAILED, "OSError: raw")
        outcome = await handle.wait()
        assert isinstance(outcome.error, OSError)


async def test_a_last_save_that_fails_is_in_the_outcome():
    store = FailingStore()

    async def agent_fn(agent):
        await agent.receive()
        agent.session.set_metadata("key", 1)
        agent.session.add_message(await _message(agent))

    async def _message(agent):
        from greenroom.core import Message

        return Message.user("unsaved")

    async with AgentRuntime(store=store) as runtime:
        handle = runtime.spawn(new(), agent_fn)
        store.error = SessionStorageError("the disk is full")
        await handle.send_input("go")
        outcome = await handle.wait()
    assert outcome.status is EndStatus.CRASHED
    assert isinstance(outcome.error, SessionStorageError)


async def test_a_lock_that_can_t_be_released_fails_no_agent(runtime, caplog):
    class Sticky(InMemoryStore):
        async def acquire(self, session_id):
            writer = await super().acquire(session_id)

            async def release():
                raise OSError("stuck")

            writer.release = release
            return writer

    async def returns(agent):
        pass

    with caplog.at_level(logging.ERROR):
        outcome = await runtime.spawn(new(store=Sticky()), returns).wait()
    assert outcome.status is EndStatus.COMPLETED
    assert "could not be released" in caplog.text


async def test_an_agent_that_has_ended_takes_nothing_and_says_how_it_ended(runtime):
    kept = []

    async def agent_fn(agent):
        kept.append(agent)

    handle = runtime.spawn(new(), agent_fn)
    outcome = await handle.wait()
    for refused in (handle.send_input("x"), handle.ask("x"), handle.send_tool_result("t", None)):
        with pytest.raises(AgentNotRunningError) as error:
            await refused
        assert error.value.outcome is outcome
    with pytest.raises(AgentNotRunningError):
        handle.send_input_nowait("x")
    with pytest.raises(AgentNotRunningError):
        kept[0].send_nowait(TextDelta("late"))
    with pytest.raises(AgentNotRunningError):
        kept[0].spawn(new(), idle)
    assert not await handle.respond_permission("p-1", "allow")
    assert (await handle.interrupt()).stopped == ()
    handle.kill()
    await handle.shutdown()
    assert await handle.wait() is outcome


async def test_a_tool_that_a_crash_cut_off_outside_of_any_turn_still_ends(runtime):
    async def agent_fn(agent):
        await agent.send(ToolStart("t1", "Bash"))
        raise ValueError("broken")

    handle = runtime.spawn(new(), agent_fn)
    await handle.wait()
    ends = [chunk for chunk in await chunks_of(handle) if isinstance(chunk, ToolEnd)]
    assert [end.id for end in ends] == ["t1"]


async def test_what_could_not_be_stopped_is_in_the_outcome_of_all_above(runtime):
    async def child(agent):
        agent.context.report_abandoned("thread of slow")

    async def parent(agent):
        agent.context.report_abandoned("thread of mine")
        await agent.spawn(new(), child).wait()

    outcome = await runtime.spawn(new(), parent).wait()
    assert outcome.abandoned == ("thread of mine", "thread of slow")


async def test_of_very_many_that_could_not_be_stopped_the_newest_thousand_are_kept(runtime):
    async def leaky(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                try:
                    await trio.sleep_forever()
                finally:
                    for number in range(1_500):
                        agent.context.report_abandoned(f"thread {number}")

    handle = runtime.spawn(new(), leaky)
    await handle.send_input("go")
    await wait_all_tasks_blocked()
    report = await handle.interrupt()
    await handle.shutdown()
    newest = tuple(f"thread {number}" for number in range(500, 1_500))
    assert (await handle.wait()).abandoned == newest
    assert report.abandoned == newest
