"""Clean-up: a cancel can't abort it, a hang can't hold it open, and a report says whose it was."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom.core import ToolStart
from greenroom.core._internal import EndStatus
from greenroom.runtime import InterruptReport
from greenroom.session import AgentSession


def new(name="worker"):
    return AgentSession.new(name, session_id=f"{name}-1")


def turning(body):
    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await body(agent)

    return agent_fn


async def busy(runtime, body):
    handle = runtime.spawn(new(), turning(body))
    await handle.send_input("go")
    await wait_all_tasks_blocked()
    return handle


async def cleaning(scope, *graces, hang=False):
    """Wait to be cancelled; then clean up in scopes that stand one inside the other."""
    try:
        await trio.sleep_forever()
    finally:
        await nested(scope, graces, hang)


async def nested(scope, graces, hang):
    with scope(graces[0]):
        if graces[1:]:
            await nested(scope, graces[1:], hang)
        elif hang:
            await trio.sleep_forever()
        else:
            await trio.sleep(0.5)


@pytest.mark.parametrize(
    ("graces", "takes"), [((2, 60), 2), ((60, 2), 2), ((5, 60, 3), 3), ((1, 2, 3), 1)]
)
async def test_one_inside_another_ends_with_the_outer_one(runtime, graces, takes):
    async def body(agent):
        await cleaning(agent.cleanup, *graces, hang=True)

    handle = await busy(runtime, body)
    before = trio.current_time()
    await handle.interrupt(grace=100)
    assert trio.current_time() == before + takes


async def test_a_task_of_a_clean_up_ends_with_it_too(runtime):
    async def body(agent):
        try:
            await trio.sleep_forever()
        finally:
            with agent.cleanup(2):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(nested, agent.cleanup, (60,), True)
                    nursery.start_soon(nested, agent.context.cleanup, (60,), True)

    handle = await busy(runtime, body)
    before = trio.current_time()
    await handle.interrupt(grace=100)
    assert trio.current_time() == before + 2


async def test_after_an_inner_one_the_outer_one_has_its_time_still(runtime):
    seen = []

    async def body(agent):
        try:
            await trio.sleep_forever()
        finally:
            with agent.cleanup(3):
                with agent.cleanup(1) as inner:
                    await trio.sleep_forever()
                await trio.sleep(1)
                seen.append(inner.cancelled_caught)
            with agent.cleanup(60):
                await trio.sleep(5)
                seen.append("another")

    handle = await busy(runtime, body)
    await handle.interrupt(grace=100)
    assert seen == [True, "another"]


async def test_a_subagent_that_is_spawned_in_a_clean_up_is_not_bound_by_it(runtime):
    done = []

    async def child(agent):
        with agent.cleanup(60):
            await trio.sleep(10)
            done.append("child")

    async def parent(agent):
        with agent.cleanup(1):
            handle = agent.spawn(new("child"), child)
            await wait_all_tasks_blocked()
        await handle.wait()

    await runtime.spawn(new(), parent).wait(check=True)
    assert done == ["child"]


@pytest.mark.parametrize(("grace", "cleaned"), [(0, False), (0.25, False), (1, True), (60, True)])
async def test_the_grace_of_an_interrupt_clips_one_that_begins_afterwards(runtime, grace, cleaned):
    async def body(agent):
        await cleaning(agent.cleanup, 60)

    handle = await busy(runtime, body)
    before = trio.current_time()
    report = await handle.interrupt(grace=grace)
    assert trio.current_time() == before + min(grace, 0.5)
    assert report.cleaned == (("the turn",) if cleaned else ())
    assert report.abandoned == ()


async def test_the_time_of_the_next_turn_is_its_own(runtime):
    took = []

    async def body(agent):
        try:
            await trio.sleep(0.25 if took else 1000)
        finally:
            before = trio.current_time()
            with agent.cleanup(3):
                await trio.sleep_forever()
            took.append(trio.current_time() - before)

    handle = await busy(runtime, body)
    await handle.interrupt(grace=1)
    await handle.ask("again")
    assert took == [1, 3]


async def test_one_that_raises_has_not_run_to_its_end_and_its_error_counts(runtime):
    async def body(agent):
        try:
            await trio.sleep_forever()
        finally:
            with agent.cleanup(5):
                raise ValueError("broken")

    handle = await busy(runtime, body)
    report = await handle.interrupt()
    assert report == InterruptReport(stopped=("the turn",))
    outcome = await handle.wait()
    assert (outcome.status, str(outcome.error)) == (EndStatus.CRASHED, "broken")


async def test_a_second_cancel_during_it_changes_nothing(runtime):
    done = []

    async def body(agent):
        with trio.CancelScope() as mine:
            try:
                mine.cancel()
                await trio.sleep_forever()
            finally:
                with agent.cleanup(5):
                    await trio.sleep(1)
                    done.append("cleaned")

    handle = await busy(runtime, body)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(handle.interrupt)
        nursery.start_soon(handle.interrupt)
        nursery.start_soon(handle.shutdown, 0)
    assert done == ["cleaned"]


async def test_a_kill_ends_it_at_every_level_at_once(runtime):
    def level(depth):
        async def body(agent):
            if depth:
                await agent.spawn(new(f"level{depth}"), turning(level(depth - 1))).send_input("go")
            await cleaning(agent.cleanup, 60, 60, hang=True)

        return body

    handle = await busy(runtime, level(3))
    before = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(handle.interrupt, "now", 50)
        await trio.sleep(1)
        handle.kill()
    assert trio.current_time() == before + 1
    assert (await handle.wait()).status is EndStatus.KILLED
    assert runtime.list_active() == ()


@pytest.mark.parametrize("wrong", [-1, float("nan")])
async def test_a_grace_is_checked_where_it_is_given(runtime, wrong):
    async def agent_fn(agent):
        for scope in (agent.cleanup, agent.context.cleanup):
            with pytest.raises(ValueError, match="from 0"):
                scope(wrong)

    await runtime.spawn(new(), agent_fn).wait(check=True)


async def tool(agent, call_id, grace, name="Bash"):
    await agent.send(ToolStart(call_id, name))
    await cleaning(agent.context.with_tool_use_id(call_id).cleanup, grace)


async def test_a_report_names_whose_clean_up_it_was(runtime):
    async def body(agent):
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(tool, agent, "t1", 60)
                nursery.start_soon(tool, agent, "t2", 0.25)
                nursery.start_soon(cleaning, agent.context.with_tool_use_id("t3").cleanup, 60)
        finally:
            with agent.cleanup(1):
                pass

    handle = await busy(runtime, body)
    report = await handle.interrupt()
    assert sorted(report.stopped) == ["tool Bash (t1)", "tool Bash (t2)"]
    # The second one was cut off by its own grace.
    assert sorted(report.cleaned) == ["call t3", "the turn", "tool Bash (t1)"]


async def test_a_report_names_what_ran_and_cleaned_up_three_levels_deep(runtime):
    graces = {3: 60, 2: 1, 1: 0.75, 0: 60}

    def level(depth):
        async def body(agent):
            async with trio.open_nursery() as nursery:
                if depth:
                    child = agent.spawn(new(f"level{depth - 1}"), turning(level(depth - 1)))
                    await child.send_input("go")
                    nursery.start_soon(cleaning, agent.cleanup, graces[depth])
                else:
                    nursery.start_soon(tool, agent, "t1", graces[depth])

        return body

    handle = await busy(runtime, level(3))
    before = trio.current_time()
    report = await handle.interrupt(grace=30)
    two, one, zero = (f"subagent level{n} (level{n}-1)" for n in (2, 1, 0))
    assert report.stopped == (
        two,
        f"{one} of {two}",
        f"{zero} of {one} of {two}",
        f"tool Bash (t1) of {zero} of {one} of {two}",
    )
    assert sorted(report.cleaned) == sorted(
        ["the turn", two, f"{one} of {two}", f"tool Bash (t1) of {zero} of {one} of {two}"]
    )
    assert (report.abandoned, report.repaired) == ((), ())
    # First the turn's own code cleans up, then all of its subagents do at once.
    assert trio.current_time() == before + 1
    assert runtime.list_active() == (handle.session_id,)


async def test_a_report_names_what_does_not_end_at_the_deepest_level(runtime):
    release = trio.Event()

    async def stubborn(agent):
        await agent.send(ToolStart("t1", "Stubborn"))
        with trio.CancelScope(shield=True):
            await release.wait()

    async def middle(agent):
        await agent.spawn(new("deep"), turning(stubborn)).ask("go")

    async def body(agent):
        await agent.spawn(new("middle"), turning(middle)).ask("go")

    handle = await busy(runtime, body)
    before = trio.current_time()
    report = await handle.interrupt(grace=1)
    assert trio.current_time() == before + 1.25
    deep, mid = "subagent deep (deep-1)", "subagent middle (middle-1)"
    assert report.abandoned == (mid, f"{deep} of {mid}", f"tool Stubborn (t1) of {deep} of {mid}")
    # Until all of that has ended the agent takes no input.
    await handle.send_input("again")
    await wait_all_tasks_blocked()
    assert (await handle.statistics()).mailbox == 1
    release.set()
    await wait_all_tasks_blocked()
    assert (await handle.statistics()).mailbox == 0


async def test_what_an_earlier_turn_left_running_cleans_up_and_is_not_in_the_report(runtime):
    async def background(agent):
        try:
            await trio.sleep(2)
        finally:
            with agent.cleanup(60):
                await trio.sleep(0.25)
            agent.context.report_abandoned("thread of old")

    async def body(agent):
        if agent.context.current_turn == 1:
            agent.spawn(new("background"), background)
        else:
            await cleaning(agent.cleanup, 60)

    handle = await busy(runtime, body)
    await handle.send_input("again")
    await trio.sleep(1.875)
    # Both clean up at the same time.
    report = await handle.interrupt()
    assert report == InterruptReport(stopped=("the turn",), cleaned=("the turn",))
    await handle.shutdown()
    assert (await handle.wait()).abandoned == ("thread of old",)


async def test_what_could_not_be_stopped_below_is_named_with_its_agent(runtime):
    async def child(agent):
        try:
            await trio.sleep_forever()
        finally:
            agent.context.report_abandoned("thread of slow")

    async def body(agent):
        await agent.spawn(new("child"), turning(child)).ask("go")

    handle = await busy(runtime, body)
    report = await handle.interrupt()
    assert report.abandoned == ("thread of slow of subagent child (child-1)",)


async def test_a_subagent_that_is_spawned_while_its_turn_is_ending_ends_with_it(runtime):
    async def slow_to_end(agent):
        try:
            await trio.sleep_forever()
        finally:
            with agent.cleanup(5):
                await trio.sleep(2)

    async def beside(agent):
        await trio.sleep(2)
        agent.spawn(new("late"), slow_to_end)

    async def agent_fn(agent):
        async with trio.open_nursery() as nursery:
            async for message in agent.inputs():
                async with agent.turn(message):
                    agent.spawn(new("early"), slow_to_end)
                    nursery.start_soon(beside, agent)
                    await trio.sleep_forever()

    handle = runtime.spawn(new(), agent_fn)
    await handle.send_input("go")
    await trio.sleep(1)
    await handle.interrupt(grace=10)
    assert runtime.list_active() == (handle.session_id,)
