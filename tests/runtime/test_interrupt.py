"""Interrupts: they end the turn in flight, all of it, in bounded time, and nothing else."""

import contextlib

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom.core import (
    AgentState,
    Done,
    Message,
    SelfWaitError,
    SubAgentComplete,
    TextDelta,
    ToolEnd,
    ToolStart,
    ToolUseBlock,
    TurnStart,
    TurnStatus,
)
from greenroom.core._internal import EndStatus, StateKind
from greenroom.llm import ModelError
from greenroom.runtime import InterruptReport
from greenroom.session import AgentSession

NOTHING = InterruptReport()


def new():
    return AgentSession.new("worker")


def turning(body):
    """Make an agent that runs `body(agent, message)` in a turn for each input."""

    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await body(agent, message)

    return agent_fn


async def hang(agent, message):
    if message.text != "quick":
        await trio.sleep_forever()


async def chunks_of(handle, *kinds):
    await handle.shutdown()
    return [chunk async for chunk in handle.subscribe("all") if isinstance(chunk, kinds)]


async def started(runtime, agent_fn, text="go"):
    handle = runtime.spawn(new(), agent_fn)
    await handle.send_input(text)
    await wait_all_tasks_blocked()
    return handle


async def test_it_ends_the_turn_and_not_the_agent(runtime):
    handle = await started(runtime, turning(hang))
    report = await handle.interrupt()
    assert report == InterruptReport(stopped=("the turn",))
    assert handle.state == AgentState.idle()
    assert (await handle.ask("quick")).status is TurnStatus.COMPLETED
    statuses = [done.status for done in await chunks_of(handle, Done)]
    assert statuses == [TurnStatus.INTERRUPTED, TurnStatus.COMPLETED]


async def test_it_takes_no_time_where_nothing_has_to_be_cleaned_up(runtime):
    handle = await started(runtime, turning(hang))
    before = trio.current_time()
    await handle.interrupt()
    assert trio.current_time() == before


async def test_the_report_names_tools_and_subagents_and_the_history_is_valid(runtime):
    async def body(agent, message):
        call = ToolUseBlock("t1", "Bash", {"command": "sleep 60"})
        agent.session.add_message(Message.assistant([call]))
        await agent.send(ToolStart("t1", "Bash"))
        agent.spawn(AgentSession.new("helper", session_id="child"), turning(hang), name="help")
        await trio.sleep_forever()

    handle = await started(runtime, turning(body))
    report = await handle.interrupt()
    assert report.stopped == ("tool Bash (t1)", "subagent help (child)")
    assert report.repaired == ("t1",)
    assert report.abandoned == ()
    assert not runtime.is_running("child")
    (result,) = (await handle.history())[-1].tool_results
    assert (result.tool_use_id, result.is_error) == ("t1", True)
    (end,) = await chunks_of(handle, ToolEnd)
    assert (end.id, end.is_error) == ("t1", True)


async def test_clean_up_runs_within_the_grace_and_is_reported(runtime):
    cleaned = []

    async def body(agent, message):
        try:
            await trio.sleep_forever()
        finally:
            with agent.cleanup(5):
                await trio.sleep(1)
                cleaned.append(trio.current_time())

    handle = await started(runtime, turning(body))
    before = trio.current_time()
    report = await handle.interrupt(grace=2)
    assert cleaned == [before + 1]
    assert len(report.cleaned) == 1
    assert report.abandoned == ()


async def test_the_grace_clips_a_clean_up_that_hangs(runtime):
    async def body(agent, message):
        try:
            await trio.sleep_forever()
        finally:
            with agent.context.cleanup(60):
                await trio.sleep_forever()

    handle = await started(runtime, turning(body))
    before = trio.current_time()
    report = await handle.interrupt(grace=2)
    assert trio.current_time() == before + 2
    assert (report.cleaned, report.abandoned) == ((), ())


async def test_it_clips_a_clean_up_that_runs_already(runtime):
    async def body(agent, message):
        with agent.cleanup(60):
            await trio.sleep_forever()

    handle = await started(runtime, turning(body))
    before = trio.current_time()
    await handle.interrupt(grace=3)
    assert trio.current_time() == before + 3


async def test_it_returns_a_quarter_of_a_second_after_the_grace_and_names_what_is_left(runtime):
    release = trio.Event()

    async def body(agent, message):
        if message.text == "next":
            return
        await agent.send(ToolStart("t1", "Stubborn"))
        with trio.CancelScope(shield=True):
            await release.wait()

    handle = await started(runtime, turning(body))
    await handle.send_input("next")
    before = trio.current_time()
    report = await handle.interrupt(grace=1)
    assert trio.current_time() == pytest.approx(before + 1.25)
    assert report.abandoned == ("tool Stubborn (t1)",)
    # Until it has ended the agent takes no input.
    await wait_all_tasks_blocked()
    assert (await handle.statistics()).mailbox == 1
    release.set()
    await wait_all_tasks_blocked()
    assert (await handle.statistics()).mailbox == 0


async def test_what_has_ended_within_the_grace_is_not_called_abandoned(runtime):
    release = trio.Event()

    async def body(agent, message):
        await agent.send(ToolStart("t1", "Quick"))
        try:
            await trio.sleep_forever()
        finally:
            agent.send_nowait(ToolEnd("t1", None))
            with trio.CancelScope(shield=True):
                await release.wait()

    handle = await started(runtime, turning(body))
    report = await handle.interrupt(grace=0)
    assert (report.stopped, report.abandoned) == (("tool Quick (t1)",), ("the turn",))
    release.set()


async def test_a_thread_that_was_left_behind_is_reported(runtime):
    async def body(agent, message):
        try:
            await trio.sleep_forever()
        finally:
            agent.context.report_abandoned("thread of slow")

    handle = await started(runtime, turning(body))
    assert (await handle.interrupt()).abandoned == ("thread of slow",)
    await handle.shutdown()
    assert (await handle.wait()).abandoned == ("thread of slow",)


async def test_before_the_first_checkpoint_of_the_turn_it_counts(runtime):
    async def body(agent, message):
        runtime.get(agent.session.session_id).interrupt_nowait()
        await trio.lowlevel.checkpoint()
        raise AssertionError("not reached")

    handle = runtime.spawn(new(), turning(body))
    assert (await handle.ask("go")).status is TurnStatus.INTERRUPTED


async def test_a_message_that_is_taken_and_not_in_a_turn_yet_is_the_turn_in_flight(runtime):
    entered = []

    async def agent_fn(agent):
        async for message in agent.inputs():
            if message.text == "go":
                with trio.CancelScope(shield=True):
                    await trio.sleep(1)
            async with agent.turn(message):
                await trio.lowlevel.checkpoint()
                entered.append(message.text)

    handle = await started(runtime, agent_fn)
    report = await handle.interrupt()
    assert report.stopped == ("the turn",)
    assert (await handle.ask("next")).status is TurnStatus.COMPLETED
    assert entered == ["next"]
    assert [message.text for message in await handle.history()] == ["go", "next"]


async def test_a_message_that_never_gets_a_turn_does_not_hold_an_interrupt(runtime):
    async def agent_fn(agent):
        async for _ in agent.inputs():
            await trio.sleep(0.5)

    handle = await started(runtime, agent_fn)
    before = trio.current_time()
    await handle.interrupt("after_step")
    assert trio.current_time() == before + 0.5


async def test_with_no_turn_open_it_changes_nothing(runtime):
    handle = runtime.spawn(new(), turning(hang))
    await wait_all_tasks_blocked()
    assert await handle.interrupt() == NOTHING
    assert await handle.interrupt("after_step") == NOTHING
    assert (await handle.ask("quick")).status is TurnStatus.COMPLETED


async def steps(agent, message):
    for number in range(3):
        await agent.step()
        await agent.send(TextDelta(str(number)))
        await trio.sleep(1)


async def test_after_step_lets_the_step_finish(runtime):
    handle = await started(runtime, turning(steps))
    before = trio.current_time()
    report = await handle.interrupt("after_step")
    assert trio.current_time() == before + 1
    assert report.stopped == ("the turn",)
    assert await chunks_of(handle, TextDelta) == [TextDelta("0")]


async def test_after_step_without_a_further_boundary_returns_with_the_turn(runtime):
    async def body(agent, message):
        await agent.step()
        await trio.sleep(7)

    handle = await started(runtime, turning(body))
    assert await handle.interrupt("after_step", grace=1) == NOTHING
    assert trio.current_time() >= 7
    (done,) = await chunks_of(handle, Done)
    assert done.status is TurnStatus.COMPLETED


async def test_now_escalates_an_after_step_that_waits(runtime):
    reports = []

    async def after_step(handle):
        reports.append(await handle.interrupt("after_step"))

    handle = await started(runtime, turning(steps))
    before = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(after_step, handle)
        await wait_all_tasks_blocked()
        reports.append(await handle.interrupt("now"))
    assert trio.current_time() == before
    assert reports == [InterruptReport(stopped=("the turn",))] * 2


async def slow_cleanup(agent, message):
    try:
        await trio.sleep_forever()
    finally:
        with agent.cleanup(60):
            await trio.sleep_forever()


@pytest.mark.parametrize(("second", "expected"), [(1, 1), (50, 10)])
async def test_a_second_interrupt_joins_and_the_shorter_grace_wins(runtime, second, expected):
    handle = await started(runtime, turning(slow_cleanup))
    before = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(handle.interrupt, "now", 10)
        await wait_all_tasks_blocked()
        await handle.interrupt("now", second)
    assert trio.current_time() == before + expected


async def test_the_grace_of_an_after_step_that_waits_holds_for_the_now_that_follows(runtime):
    handle = await started(runtime, turning(slow_cleanup))
    before = trio.current_time()
    handle.interrupt_nowait("after_step", 3)
    await handle.interrupt("now", 10)
    assert trio.current_time() == before + 3


async def test_a_shorter_grace_moves_the_bound_of_those_who_wait_already(runtime):
    async def shielded(agent, message):
        with trio.CancelScope(shield=True):
            await trio.sleep(1000)

    handle = await started(runtime, turning(shielded))
    before = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(handle.interrupt, "now", 100)
        await wait_all_tasks_blocked()
        handle.interrupt_nowait("now", 1)
    assert trio.current_time() == pytest.approx(before + 1.25)
    handle.kill()


async def test_while_the_turn_is_finishing_it_waits_for_the_end_and_claims_nothing(runtime, store):
    saving, finish = trio.Event(), trio.Event()

    async def body(agent, message):
        save = agent.session.journal.save

        async def slow():
            saving.set()
            await finish.wait()
            await save()

        agent.session.journal.save = slow

    reports = []

    async def interrupt(handle):
        reports.append(await handle.interrupt())

    handle = runtime.spawn(new(), turning(body))
    await handle.send_input("go")
    await saving.wait()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(interrupt, handle)
        await wait_all_tasks_blocked()
        finish.set()
    assert reports == [NOTHING]
    (done,) = await chunks_of(handle, Done)
    assert done.status is TurnStatus.COMPLETED


async def test_a_body_that_swallows_the_cancel_is_interrupted_all_the_same(runtime):
    async def body(agent, message):
        with contextlib.suppress(trio.Cancelled):
            await trio.sleep_forever()

    handle = await started(runtime, turning(body))
    await handle.interrupt()
    (done,) = await chunks_of(handle, Done)
    assert done.status is TurnStatus.INTERRUPTED


async def failing_task(error):
    try:
        await trio.sleep_forever()
    finally:
        raise error


@pytest.mark.parametrize(
    ("error", "lives"), [(ModelError("while leaving"), True), (ValueError("bug"), False)]
)
async def test_an_error_beside_the_cancel_counts_as_it_would_alone(runtime, error, lives):
    async def body(agent, message):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(failing_task, error)
            nursery.start_soon(trio.sleep_forever)

    handle = await started(runtime, turning(body))
    await handle.interrupt()
    await wait_all_tasks_blocked()
    assert runtime.is_running(handle.session_id) is lives
    (done,) = await chunks_of(handle, Done)
    assert done.status is TurnStatus.INTERRUPTED
    if not lives:
        assert (await handle.wait()).status is EndStatus.CRASHED


async def test_queued_input_starts_the_next_turn_at_once(runtime):
    handle = await started(runtime, turning(hang))
    await handle.send_input("quick")
    await handle.interrupt()
    await wait_all_tasks_blocked()
    seen = await chunks_of(handle, TurnStart, Done)
    assert [type(chunk) for chunk in seen] == [TurnStart, Done, TurnStart, Done]


async def test_subagents_three_levels_deep_end_with_the_turn(runtime):
    graces = []

    def level(depth):
        async def body(agent, message):
            if depth:
                child = agent.spawn(new(), turning(level(depth - 1)))
                await child.send_input("go")
            try:
                await trio.sleep_forever()
            finally:
                with agent.cleanup(60):
                    before = trio.current_time()
                    await trio.sleep_forever()
                graces.append(trio.current_time() - before)

        return body

    handle = await started(runtime, turning(level(3)))
    assert len(runtime.list_active()) == 4
    before = trio.current_time()
    report = await handle.interrupt(grace=2)
    assert trio.current_time() == pytest.approx(before + 2)
    assert report.abandoned == ()
    assert len(graces) == 4
    assert runtime.list_active() == (handle.session_id,)
    (complete,) = await chunks_of(handle, SubAgentComplete)
    assert complete.status is EndStatus.CANCELLED


async def test_an_interrupt_does_not_end_a_subagent_of_an_earlier_turn(runtime):
    async def background(agent):
        await trio.sleep(20)

    async def body(agent, message):
        if message.text == "spawn":
            agent.spawn(AgentSession.new("helper", session_id="child"), background)
        else:
            await trio.sleep_forever()

    handle = runtime.spawn(new(), turning(body))
    await handle.ask("spawn")
    await handle.send_input("hang")
    await wait_all_tasks_blocked()
    assert (await handle.interrupt()).stopped == ("the turn",)
    assert (await runtime.get("child").wait()).status is EndStatus.COMPLETED


async def test_an_interrupt_does_not_hurry_a_subagent_of_an_earlier_turn(runtime):
    cleaned = trio.Event()

    async def background(agent):
        with agent.cleanup(30):
            await trio.sleep(20)
            cleaned.set()

    async def body(agent, message):
        if message.text == "spawn":
            agent.spawn(new(), background)
        else:
            await trio.sleep_forever()

    handle = runtime.spawn(new(), turning(body))
    await handle.ask("spawn")
    await handle.send_input("hang")
    await wait_all_tasks_blocked()
    await handle.interrupt(grace=1)
    await trio.sleep(25)
    assert cleaned.is_set()


@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("what", ["interrupt", "shutdown", "wait", "ask"])
async def test_waiting_for_oneself_is_refused_from_inside_and_from_below(runtime, what, below):
    refused = []

    async def attempt(agent, handle):
        arguments = ("x",) if what == "ask" else ()
        with pytest.raises(SelfWaitError):
            await getattr(handle, what)(*arguments)
        refused.append(what)

    async def body(agent, message):
        handle = runtime.get(agent.session.session_id)
        if below:
            await agent.spawn(new(), attempt, handle).wait()
        else:
            await attempt(agent, handle)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(attempt, agent, handle)

    handle = runtime.spawn(new(), turning(body))
    assert (await handle.ask("go")).status is TurnStatus.COMPLETED
    assert refused


async def test_shutdown_all_from_inside_is_refused(runtime):
    async def body(agent, message):
        await runtime.shutdown_all()

    handle = runtime.spawn(new(), turning(body))
    result = await handle.ask("go")
    assert "SelfWait" in result.error or "wait for the agent" in result.error


async def test_from_inside_interrupt_nowait_and_kill_are_allowed(runtime):
    async def body(agent, message):
        handle = runtime.get(agent.session.session_id)
        handle.kill() if message.text == "kill" else handle.interrupt_nowait()
        await trio.sleep_forever()

    handle = runtime.spawn(new(), turning(body))
    assert (await handle.ask("interrupt")).status is TurnStatus.INTERRUPTED
    assert (await handle.ask("kill")).status is TurnStatus.INTERRUPTED
    assert (await handle.wait()).status is EndStatus.KILLED
    assert handle.state.kind is StateKind.DONE


async def test_what_a_turn_cleaned_up_or_left_behind_before_is_not_the_interrupt_s(runtime):
    async def body(agent, message):
        with agent.cleanup(1):
            pass
        agent.context.report_abandoned("an older thread")
        await trio.sleep_forever()

    handle = await started(runtime, turning(body))
    assert await handle.interrupt() == InterruptReport(stopped=("the turn",))
    await handle.shutdown()
    assert (await handle.wait()).abandoned == ("an older thread",)
