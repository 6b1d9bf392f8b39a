"""Subagents: they live in their parent's task tree, and their results are never lost."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom.core import (
    Message,
    SessionError,
    SessionInUseError,
    SubAgentComplete,
    SubAgentResult,
    SubAgentSpawned,
    TurnError,
    TurnStatus,
)
from greenroom.core._internal import EndStatus
from greenroom.llm import ModelError
from greenroom.runtime import AgentRuntime, RuntimeLimits
from greenroom.runtime._internal import ParentInfo
from greenroom.session import AgentSession, InMemoryStore


def new(**options):
    return AgentSession.new("helper", **options)


async def forever(agent):
    await trio.sleep_forever()


async def idle(agent):
    async for _ in agent.inputs():
        pass


async def reply(agent, text="done", seconds=0.0):
    await trio.sleep(seconds)
    agent.session.add_message(Message.assistant(text))


def turning(body, seen=None):
    """Make an agent that runs `body(agent, message)` in a turn, and keeps what it was told."""

    async def agent_fn(agent):
        async for message in agent.inputs():
            if seen is not None:
                seen.append(message)
            async with agent.turn(message):
                await body(agent, message)

    return agent_fn


def results(seen):
    return [message for message in seen if isinstance(message, SubAgentResult)]


async def completes(handle):
    return [chunk async for chunk in handle.subscribe("all") if isinstance(chunk, SubAgentComplete)]


async def test_a_subagent_is_found_and_told_of(runtime):
    async def body(agent, message):
        child = agent.spawn(new(session_id="child"), idle, name="help")
        assert child.parent == ParentInfo(agent.session.session_id)
        await wait_all_tasks_blocked()

    handle = runtime.spawn(new(), turning(body))
    await handle.ask("go")
    assert handle.parent is None
    assert runtime.is_running("child")
    assert await handle.children() == ("child",)
    assert (await handle.statistics()).subagents == 1
    chunks = handle.subscribe("all")
    await handle.shutdown()
    assert SubAgentSpawned("child", "helper", "help") in [chunk async for chunk in chunks]


@pytest.mark.parametrize("how", ["interrupt", "fail"])
async def test_a_turn_that_is_interrupted_or_fails_takes_its_subagents_along(runtime, how):
    seen = []

    async def body(agent, message):
        agent.spawn(new(session_id="child"), forever)
        if how == "fail":
            raise ModelError("down")
        await trio.sleep_forever()

    handle = runtime.spawn(new(), turning(body, seen))
    await handle.send_input("go")
    await wait_all_tasks_blocked()
    await handle.interrupt()
    assert not runtime.is_running("child")
    await wait_all_tasks_blocked()
    assert results(seen) == []
    await handle.shutdown()
    (complete,) = await completes(handle)
    assert complete.status is EndStatus.CANCELLED


async def test_what_ended_with_its_turn_is_not_told_of_by_a_later_look_at_it(runtime):
    seen, children = [], []

    async def body(agent, message):
        if message.text == "fail":
            children.append(agent.spawn(new(), forever))
            raise ModelError("down")
        await children[0].interrupt()

    handle = runtime.spawn(new(), turning(body, seen))
    for text in ("fail", "look"):
        await handle.ask(text)
    await wait_all_tasks_blocked()
    assert results(seen) == []


async def test_a_save_that_fails_takes_the_turn_s_subagents_along(runtime):
    async def body(agent, message):
        agent.spawn(new(session_id="child"), forever)

        async def refuse():
            del agent.session.journal.save
            raise SessionError("full")

        agent.session.journal.save = refuse

    handle = runtime.spawn(new(), turning(body))
    assert (await handle.ask("go")).status is TurnStatus.FAILED
    assert not runtime.is_running("child")


@pytest.mark.parametrize("how", ["interrupt", "fail"])
async def test_one_that_is_spawned_while_its_turn_is_saved_ends_with_it_too(runtime, how):
    async def body(agent, message):
        save = agent.session.journal.save

        async def spawn_beside():
            agent.session.journal.save = save
            agent.spawn(new(session_id="child"), forever)
            await save()

        agent.session.journal.save = spawn_beside
        if how == "fail":
            raise ModelError("down")
        await trio.sleep_forever()

    handle = runtime.spawn(new(), turning(body))
    await handle.send_input("go")
    await wait_all_tasks_blocked()
    await handle.interrupt()
    assert not runtime.is_running("child")
    await handle.shutdown()
    (complete,) = await completes(handle)
    assert complete.status is EndStatus.CANCELLED


async def test_after_a_completed_turn_it_goes_on_and_its_result_is_the_next_input(runtime):
    seen = []

    async def body(agent, message):
        if message.id == seen[0].id:
            agent.spawn(new(session_id="child"), reply, "found it", 10)

    handle = runtime.spawn(new(), turning(body, seen))
    await handle.ask("go")
    assert runtime.is_running("child")
    await trio.sleep(11)
    (result,) = results(seen)
    assert (result.session_id, result.agent_type) == ("child", "helper")
    assert (result.status, result.text, result.error) == (EndStatus.COMPLETED, "found it", "")
    assert "found it" in (await handle.history())[-1].text


async def test_a_result_that_comes_before_its_turn_ends_is_not_lost(runtime):
    seen = []

    async def body(agent, message):
        if message.id == seen[0].id:
            agent.spawn(new(), reply, "quick")
            await trio.sleep(5)

    handle = runtime.spawn(new(), turning(body, seen))
    await handle.ask("go")
    await wait_all_tasks_blocked()
    assert [result.text for result in results(seen)] == ["quick"]


async def test_a_result_that_comes_while_its_turn_is_being_saved_is_not_lost(runtime):
    seen, saving = [], trio.Event()

    async def child(agent):
        await saving.wait()
        await reply(agent, "just now")

    async def body(agent, message):
        if message.id == seen[0].id:
            agent.spawn(new(), child)
            save = agent.session.journal.save

            async def slow():
                saving.set()
                await trio.sleep(1)
                await save()

            agent.session.journal.save = slow

    handle = runtime.spawn(new(), turning(body, seen))
    await handle.ask("go")
    await trio.sleep(5)
    assert [result.text for result in results(seen)] == ["just now"]


async def test_a_result_of_a_subagent_spawned_outside_of_a_turn_is_input_too(runtime):
    seen = []

    async def agent_fn(agent):
        agent.spawn(new(), reply, "early")
        seen.append(await agent.receive())

    await runtime.spawn(new(), agent_fn).wait(check=True)
    assert [result.text for result in results(seen)] == ["early"]


@pytest.mark.parametrize("how", ["wait", "ask", "shutdown"])
async def test_what_the_parent_has_waited_for_does_not_come_again_as_input(runtime, how):
    seen = []

    async def body(agent, message):
        if how == "ask":
            child = agent.spawn(new(), turning(reply_in_turn))
            assert (await child.ask("go")).text == "answer"
        elif how == "wait":
            await agent.spawn(new(), reply).wait()
        else:
            await agent.spawn(new(), idle).shutdown()

    async def reply_in_turn(agent, message):
        agent.session.add_message(Message.assistant("answer"))

    handle = runtime.spawn(new(), turning(body, seen))
    await handle.ask("go")
    await wait_all_tasks_blocked()
    assert results(seen) == []


async def test_an_answer_does_not_come_again_when_its_subagent_ends_and_news_does(runtime):
    seen = []

    async def one_shot(agent, more):
        async with agent.turn(await agent.receive()):
            agent.session.add_message(Message.assistant("answer"))
        if more:
            agent.session.add_message(Message.assistant(more))

    async def body(agent, message):
        if message.id == seen[0].id:
            for more in ("", "and news"):
                assert (await agent.spawn(new(), one_shot, more).ask("go")).text == "answer"

    handle = runtime.spawn(new(), turning(body, seen))
    await handle.ask("go")
    await wait_all_tasks_blocked()
    assert [result.text for result in results(seen)] == ["and news"]


async def test_an_ask_that_its_subagent_s_end_cuts_off_has_told_enough(runtime):
    seen = []

    async def leaves(agent):
        await agent.receive()
        raise ValueError("gone")

    async def body(agent, message):
        await agent.spawn(new(), leaves).ask("go")

    handle = runtime.spawn(new(), turning(body, seen))
    assert (await handle.ask("go")).status is TurnStatus.FAILED
    await wait_all_tasks_blocked()
    assert results(seen) == []


async def test_a_wait_that_was_given_up_leaves_the_result_to_come_as_input(runtime):
    seen = []

    async def body(agent, message):
        if message.id == seen[0].id:
            with trio.move_on_after(1):
                await agent.spawn(new(), reply, "late", 5).wait()

    handle = runtime.spawn(new(), turning(body, seen))
    await handle.ask("go")
    await trio.sleep(10)
    assert [result.text for result in results(seen)] == ["late"]


async def test_a_stranger_who_waits_does_not_take_the_result_away(runtime):
    seen = []

    async def body(agent, message):
        if message.id == seen[0].id:
            agent.spawn(new(session_id="child"), reply, "for you", 1)

    handle = runtime.spawn(new(), turning(body, seen))
    await handle.ask("go")
    await runtime.get("child").wait()
    await wait_all_tasks_blocked()
    assert [result.text for result in results(seen)] == ["for you"]


async def test_a_crash_of_a_subagent_is_a_result_and_the_parent_lives(runtime):
    seen = []

    async def broken(agent):
        raise ValueError("oops")

    async def body(agent, message):
        if message.id == seen[0].id:
            agent.spawn(new(), broken)

    handle = runtime.spawn(new(), turning(body, seen))
    await handle.ask("go")
    await wait_all_tasks_blocked()
    (result,) = results(seen)
    assert (result.status, result.error) == (EndStatus.CRASHED, "ValueError: oops")
    await handle.shutdown()
    assert [complete.result for complete in await completes(handle)] == ["ValueError: oops"]


async def test_when_the_function_returns_the_subagents_are_shut_down_with_grace(runtime):
    finished = []

    async def child(agent, message):
        await trio.sleep(3)
        finished.append(True)

    async def parent(agent):
        await agent.spawn(new(), turning(child)).send_input("go")
        agent.spawn(new(), idle)
        await wait_all_tasks_blocked()

    outcome = await runtime.spawn(new(), parent).wait()
    assert (outcome.status, outcome.undelivered) == (EndStatus.COMPLETED, ())
    assert finished == [True]
    assert runtime.list_active() == ()


async def test_a_subagent_that_does_not_end_in_its_grace_is_cancelled(runtime):
    async def parent(agent):
        agent.spawn(new(), forever)

    before = trio.current_time()
    handle = runtime.spawn(new(), parent)
    await handle.wait()
    assert trio.current_time() == before + 5
    assert [complete.status for complete in await completes(handle)] == [EndStatus.CANCELLED]


async def test_a_crash_of_the_parent_ends_its_subagents_at_once(runtime):
    async def parent(agent):
        agent.spawn(new(), forever)
        await wait_all_tasks_blocked()
        raise ValueError("broken")

    before = trio.current_time()
    await runtime.spawn(new(), parent).wait()
    assert trio.current_time() == before
    assert runtime.list_active() == ()


async def test_results_for_a_parent_that_is_shutting_down_are_reported_as_undelivered(runtime):
    async def body(agent, message):
        agent.spawn(new(), reply, "too late", 2)

    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await body(agent, message)
            await trio.sleep(3)

    handle = runtime.spawn(new(), agent_fn)
    await handle.ask("go")
    await handle.shutdown()
    (result,) = (await handle.wait()).undelivered
    assert result.text == "too late"


async def test_the_number_of_subagents_is_bounded_and_untaken_results_count():
    counts = []

    async def body(agent, message):
        agent.spawn(new(), forever)
        agent.spawn(new(), reply)
        await wait_all_tasks_blocked()
        with pytest.raises(TurnError, match="2 subagents"):
            agent.spawn(new(), forever)
        counts.append(len(await agent_handle.children()))

    limits = RuntimeLimits(subagents=2)
    async with AgentRuntime(store=InMemoryStore(), limits=limits) as runtime:
        agent_handle = runtime.spawn(new(), turning(body))
        await agent_handle.ask("go")
        assert counts == [2]
        agent_handle.kill()


async def test_a_subagent_has_the_parent_s_store_and_place_of_work(runtime, tmp_path):
    own = InMemoryStore()
    places = []

    async def child(agent):
        places.append(agent.context.workspace.cwd)
        agent.session.add_message(Message.user("kept"))

    async def parent(agent):
        agent.context.workspace.cwd = tmp_path
        await agent.spawn(new(session_id="child"), child).wait()
        assert agent.context.workspace.cwd == tmp_path

    await runtime.spawn(new(store=own), parent).wait(check=True)
    assert places == [tmp_path]
    stored = await AgentSession.load("child", store=own)
    assert stored.history[0].text == "kept"
    assert stored.parent_session_id is not None


async def test_lineage_is_saved_and_survives_the_parent_s_next_save(runtime, store):
    async def body(agent, message):
        if message.text == "spawn":
            session = AgentSession.new_subagent(
                "helper", agent.session.session_id, "toolu_1", session_id="child"
            )
            child = agent.spawn(session, turning(say))
            await child.ask("hello")
        agent.session.set_metadata("turn", message.text)

    async def say(agent, message):
        agent.session.add_message(Message.assistant("hi"))

    handle = runtime.spawn(new(), turning(body))
    await handle.ask("spawn")
    await handle.ask("another")
    await handle.shutdown()
    stored = await AgentSession.load(handle.session_id, store=store)
    assert stored.child_session_ids == ("child",)
    assert stored.metadata == {"turn": "another"}
    child = await AgentSession.load("child", store=store)
    assert (child.parent_session_id, child.parent_tool_use_id) == (handle.session_id, "toolu_1")


async def test_a_child_session_can_be_resumed_by_its_parent(runtime):
    async def parent(agent):
        session = new()
        await agent.spawn(session, reply).wait()
        await agent.spawn(session, reply).wait()
        assert len(session.history) == 2

    await runtime.spawn(new(), parent).wait(check=True)


async def test_a_session_that_runs_can_t_be_a_subagent_s(runtime):
    runtime.spawn(new(session_id="busy"), idle)

    async def parent(agent):
        with pytest.raises(SessionInUseError):
            agent.spawn(new(session_id="busy"), idle)
        with pytest.raises(SessionInUseError):
            agent.spawn(agent.session, idle)
        assert agent.session.child_session_ids == ()

    await runtime.spawn(new(), parent).wait(check=True)


async def test_a_detached_subagent_belongs_to_the_runtime_alone(runtime):
    async def parent(agent):
        child = agent.spawn(new(session_id="child"), idle, detached=True)
        assert child.parent == ParentInfo(agent.session.session_id)

    handle = runtime.spawn(new(), parent)
    chunks = handle.subscribe("all")
    await handle.wait(check=True)
    assert runtime.list_active() == ("child",)
    assert await completes(handle) == []
    told = [chunk async for chunk in chunks if isinstance(chunk, SubAgentSpawned)]
    assert [chunk.detached for chunk in told] == [True]
    assert await handle.children() == ("child",)
    with trio.fail_after(1):
        await runtime.shutdown("child")


async def test_killing_the_parent_kills_below_without_time_for_clean_up(runtime):
    async def child(agent):
        try:
            await trio.sleep_forever()
        finally:
            with agent.cleanup(60):
                await trio.sleep_forever()

    async def parent(agent):
        agent.spawn(new(), child)
        with agent.cleanup(60):
            await trio.sleep_forever()

    handle = runtime.spawn(new(), parent)
    await wait_all_tasks_blocked()
    before = trio.current_time()
    handle.kill()
    assert (await handle.wait()).status is EndStatus.KILLED
    assert trio.current_time() == before


PLACES = [
    "before any turn",
    "in a turn",
    "in a tool",
    "in a loop",
    "beside the loop",
    "after a turn",
]


async def spawning(agent, place):
    """Spawn a subagent that never ends by itself, in one of the places where code may stand."""

    def spawn():
        agent.spawn(new(session_id="child"), forever)

    async def spawn_in_a_task():
        await trio.lowlevel.checkpoint()
        spawn()

    if place == "before any turn":
        spawn()
    async with trio.open_nursery() as beside:
        async for message in agent.inputs():
            if message.text == "return":
                return
            if message.text == "crash":
                raise ValueError("bug")
            if place == "in a loop":
                spawn()
            elif place == "beside the loop":
                beside.start_soon(spawn_in_a_task)
            async with agent.turn(message):
                if place == "in a turn":
                    spawn()
                elif place == "in a tool":
                    async with trio.open_nursery() as tools:
                        tools.start_soon(spawn_in_a_task)
            if place == "after a turn":
                spawn()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("end", ["return", "crash", "shutdown", "kill"])
async def test_wherever_it_was_spawned_a_subagent_ends_with_its_parent(runtime, place, end):
    handle = runtime.spawn(new(), spawning, place)
    await handle.ask("go")
    await wait_all_tasks_blocked()
    assert runtime.is_running("child")
    if end == "shutdown":
        await handle.shutdown()
    elif end == "kill":
        handle.kill()
    else:
        await handle.send_input(end)
    await handle.wait()
    assert runtime.list_active() == ()
    (complete,) = await completes(handle)
    assert complete.status is EndStatus.CANCELLED
