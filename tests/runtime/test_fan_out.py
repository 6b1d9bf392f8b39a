"""Fan-out: one agent per prompt, a few at once, and none of them left behind."""

from contextlib import suppress

import pytest
import trio
from hypothesis import given, strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from greenroom.core import (
    Message,
    SubAgentComplete,
    SubAgentResult,
    SubAgentSpawned,
    TextBlock,
    TurnError,
    TurnStatus,
)
from greenroom.core._internal import leaves
from greenroom.core.serde import InvalidJSONError
from greenroom.llm import ModelError
from greenroom.runtime import (
    AgentNotRunningError,
    AgentRuntime,
    RuntimeClosedError,
    RuntimeLimits,
    fan_out,
)
from greenroom.session import AgentSession, InMemoryStore


def new():
    return AgentSession.new("parent")


class Crew:
    """Agents that do what their prompt says, and a count of those alive."""

    def __init__(self):
        self.alive = 0
        self.most = 0
        self.begun = []

    async def work(self, agent, prefix=""):
        self.alive += 1
        self.most = max(self.most, self.alive)
        try:
            async for message in agent.inputs():
                self.begun.append(message.text)
                async with agent.turn(message):
                    await self.answer(agent, prefix, *message.text.split())
        finally:
            with agent.cleanup(60):
                await trio.sleep(0.125)
            self.alive -= 1

    async def answer(self, agent, prefix, order, seconds="0"):
        await trio.sleep(float(seconds))
        match order:
            case "fail":
                raise ModelError("down")
            case "crash":
                raise ValueError("bug")
            case "interrupt":
                agent.interrupt_me()
            case _:
                agent.session.add_message(Message.assistant(f"{prefix}{order}"))


@pytest.fixture
def crew():
    return Crew()


def told(results):
    return [result and (result.text or result.error or str(result.status)) for result in results]


async def in_a_turn(runtime, body):
    """Run `body(agent)` in a turn; return the turn's result and the subagents' results it got."""
    seen = []

    async def parent(agent):
        async for message in agent.inputs():
            if isinstance(message, SubAgentResult):
                seen.append(message)
                continue
            async with agent.turn(message):
                await body(agent)

    handle = runtime.spawn(new(), parent)
    result = await handle.ask("go")
    await wait_all_tasks_blocked()
    return result, seen


async def test_each_prompt_is_answered_and_the_answers_stand_in_their_order(runtime, crew):
    results = await fan_out(runtime, crew.work, "re ", inputs=["a 3", "b 1", "c 2"])
    assert told(results) == ["re a", "re b", "re c"]
    assert sorted(crew.begun) == ["a 3", "b 1", "c 2"]
    assert (crew.alive, runtime.list_active()) == (0, ())


@pytest.mark.parametrize(("limit", "most"), [(1, 1), (3, 3), (5, 5), (50, 10)])
async def test_no_more_are_alive_at_once_than_the_limit_says(runtime, crew, limit, most):
    prompts = [f"{n} {n % 3}" for n in range(10)]
    results = await fan_out(runtime, crew.work, inputs=prompts, concurrency=limit)
    assert told(results) == [str(n) for n in range(10)]
    assert crew.most == most


async def test_without_prompts_there_is_nothing_to_do(runtime, crew):
    assert await fan_out(runtime, crew.work, inputs=[]) == []
    assert await fan_out(runtime, crew.work, inputs=[], until=3) == []
    assert crew.most == 0


async def test_equal_prompts_get_an_agent_each(runtime, crew):
    assert told(await fan_out(runtime, crew.work, inputs=["same"] * 3)) == ["same"] * 3
    assert crew.begun == ["same"] * 3


async def test_prompts_may_be_blocks_and_any_iterable(runtime, crew):
    prompts = ([TextBlock(text)] for text in "ab")
    assert told(await fan_out(runtime, crew.work, inputs=prompts)) == ["a", "b"]


async def test_failures_are_values_and_stop_nobody(runtime, crew):
    prompts = ["fail", "a 1", "crash", "b 1"]
    results = await fan_out(runtime, crew.work, inputs=prompts)
    assert told(results) == ["down", "a", "ValueError: bug", "b"]
    assert [str(result.status) for result in results] == [
        "failed",
        "completed",
        "failed",
        "completed",
    ]


async def ends(agent):
    await agent.receive()


async def crashes(agent):
    await agent.receive()
    raise ValueError("before any turn")


async def ignores(agent):
    async for _ in agent.inputs():
        pass


@pytest.mark.parametrize(
    ("agent_fn", "problem"),
    [
        (ends, "completed"),
        (crashes, "ValueError: before any turn"),
        (ignores, "async with agent.turn"),
    ],
)
async def test_an_agent_that_gives_no_answer_has_failed_and_says_why(runtime, agent_fn, problem):
    (result,) = await fan_out(runtime, agent_fn, inputs=["a"])
    assert result.status is TurnStatus.FAILED
    assert problem in result.error
    assert runtime.list_active() == ()


async def test_an_agent_that_somebody_else_shuts_down_has_failed(runtime):
    async def deaf(agent):
        await trio.sleep_forever()

    results = []

    async def fan():
        results.extend(await fan_out(runtime, deaf, inputs=["a", "b"]))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(fan)
        await wait_all_tasks_blocked()
        await runtime.shutdown_all(grace=1)
    assert [result.status for result in results] == [TurnStatus.FAILED] * 2
    assert all("has ended: cancelled" in result.error for result in results)


@pytest.mark.parametrize("bad", ["fail", "crash", "interrupt"])
async def test_the_first_failure_ends_the_others_and_begins_no_more(runtime, crew, bad):
    async def work(agent):
        agent.interrupt_me = runtime.get(agent.session.session_id).interrupt_nowait
        await crew.work(agent)

    prompts = ["a 1", f"{bad} 2", "b 3", "c 4"]
    results = await fan_out(runtime, work, inputs=prompts, concurrency=3, until="first_failure")
    assert results[0].text == "a"
    assert results[1].status is not TurnStatus.COMPLETED
    assert results[2:] == [None, None]
    assert (crew.alive, runtime.list_active()) == (0, ())


async def test_without_a_failure_the_first_one_ends_nothing(runtime, crew):
    prompts = ["a 1", "b 2"]
    results = await fan_out(runtime, crew.work, inputs=prompts, until="first_failure")
    assert told(results) == ["a", "b"]


async def test_the_first_few_that_complete_end_the_others(runtime, crew):
    prompts = ["a 5", "fail 2.9375", "b 3", "c 2.9375", "d 60", "never 0"]
    before = trio.current_time()
    results = await fan_out(runtime, crew.work, inputs=prompts, until=2)
    assert told(results) == [None, "down", "b", "c", None, None]
    assert "d 60" in crew.begun
    assert "never 0" not in crew.begun
    # The others were cancelled, and what they had to clean up is done.
    assert trio.current_time() == before + 3.125
    assert (crew.alive, runtime.list_active()) == (0, ())


async def test_of_those_that_complete_in_one_moment_no_more_count_than_were_wanted(runtime, crew):
    results = await fan_out(runtime, crew.work, inputs=["a 1"] * 5, until=2)
    assert sum(result is not None for result in results) == 2


@pytest.mark.parametrize("until", [3, 100])
async def test_where_fewer_can_complete_all_are_waited_for(runtime, crew, until):
    results = await fan_out(runtime, crew.work, inputs=["a", "fail 1", "b 2"], until=until)
    assert told(results) == ["a", "down", "b"]


async def test_it_refuses_what_makes_no_sense(runtime, crew):
    for options in ({"concurrency": 0}, {"until": 0}, {"until": -1}, {"until": "some"}):
        with pytest.raises(ValueError, match="must be"):
            await fan_out(runtime, crew.work, inputs=["a"], **options)
    with pytest.raises(TypeError, match=r"\['a b'\]"):
        await fan_out(runtime, crew.work, inputs="a b")
    with pytest.raises(TypeError, match="async function"):
        await fan_out(runtime, print, inputs=["a"])
    assert crew.most == 0


async def test_prompts_that_can_t_be_stored_are_the_caller_s_error_and_nobody_begins(runtime, crew):
    bad = [TextBlock("x", {"bad": object()})]
    with pytest.raises(InvalidJSONError):
        await fan_out(runtime, crew.work, inputs=["a 60", bad, bad])
    assert (crew.most, runtime.list_active()) == (0, ())


async def test_a_handle_can_t_spawn_and_is_refused_in_words(runtime, crew):
    handle = runtime.spawn(new(), crew.work)
    with pytest.raises(
        TypeError, match="an agent's internals or a runtime first, not <AgentHandle"
    ):
        await fan_out(handle, crew.work, inputs=["a"])


async def test_a_runtime_that_was_left_refuses(crew):
    async with AgentRuntime(store=InMemoryStore()) as closed:
        pass
    with pytest.raises(RuntimeClosedError):
        await fan_out(closed, crew.work, inputs=["a", "b"])


async def test_a_cancel_leaves_no_agent_behind(runtime, crew):
    before = trio.current_time()
    with trio.move_on_after(2) as scope:
        await fan_out(runtime, crew.work, inputs=["a 1", "b 60", "c 60"], concurrency=2)
    assert scope.cancelled_caught
    assert trio.current_time() == before + 2.125
    assert (crew.alive, runtime.list_active()) == (0, ())


async def test_a_cancel_that_comes_beside_a_failure_goes_further(runtime, crew, monkeypatch):
    spawn, raised = runtime.spawn, []

    def spawn_one(*args, **options):
        if crew.alive:
            scope.cancel()
            raise TurnError("no room")
        crew.alive += 1
        return spawn(*args, **options)

    monkeypatch.setattr(runtime, "spawn", spawn_one)
    with suppress(ExceptionGroup), trio.CancelScope() as scope:
        try:
            await fan_out(runtime, crew.work, inputs=["one 9", "two 9"])
        except BaseException as error:
            raised += [type(each) for each in leaves(error)]
            raise
    assert {*raised} == {TurnError, trio.Cancelled}


async def test_a_cancel_while_an_agent_leaves_does_not_wait_for_its_grace(runtime):
    async def lingers(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                pass
        await trio.sleep(4)

    before = trio.current_time()
    with trio.move_on_after(1):
        await fan_out(runtime, lingers, inputs=["a"])
    assert trio.current_time() == before + 1
    assert runtime.list_active() == ()


async def test_nobody_is_asked_about_roots_that_nobody_holds(runtime):
    async def asks(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                answer = await agent.request_permission("Tool", "run")
                agent.session.add_message(Message.assistant(str(answer.decision)))

    assert told(await fan_out(runtime, asks, inputs=["a"])) == ["deny"]


async def test_under_an_agent_they_are_its_subagents_and_named(runtime, crew):
    async def body(agent):
        answers = await fan_out(agent, crew.work, inputs=["a", "b"], agent_type="reader")
        agent.session.add_message(Message.assistant(" ".join(told(answers))))

    handle = runtime.spawn(new(), turning(body))
    assert (await handle.ask("go")).text == "a b"
    await handle.shutdown()
    chunks = [chunk async for chunk in handle.subscribe("all")]
    spawned = [chunk for chunk in chunks if isinstance(chunk, SubAgentSpawned)]
    assert [(chunk.agent_type, chunk.name) for chunk in spawned] == [
        ("reader", "reader 1"),
        ("reader", "reader 2"),
    ]
    completes = [chunk for chunk in chunks if isinstance(chunk, SubAgentComplete)]
    assert [str(chunk.status) for chunk in completes] == ["completed"] * 2
    assert await handle.children() == tuple(chunk.session_id for chunk in spawned)


def turning(body):
    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await body(agent)

    return agent_fn


async def test_their_results_do_not_come_again_as_input_however_they_ended(runtime, crew):
    async def body(agent):
        prompts = ["a", "fail", "crash", "b 1", "c 60"]
        results = await fan_out(agent, crew.work, inputs=prompts, until=2)
        assert told(results) == ["a", "down", "ValueError: bug", "b", None]
        with trio.move_on_after(1):
            await fan_out(agent, crew.work, inputs=["d 60", "e 60"])

    result, seen = await in_a_turn(runtime, body)
    assert (result.status, seen) == (TurnStatus.COMPLETED, [])


async def test_an_interrupt_of_the_turn_ends_all_of_them_in_its_grace(runtime, crew):
    async def body(agent):
        await fan_out(agent, crew.work, inputs=["a 60", "b 60", "c 60"], concurrency=2)

    handle = runtime.spawn(new(), turning(body))
    await handle.send_input("go")
    await wait_all_tasks_blocked()
    before = trio.current_time()
    report = await handle.interrupt(grace=0.0625)
    assert trio.current_time() == before + 0.0625
    assert report.abandoned == ()
    assert sum(what.startswith("subagent worker") for what in report.stopped) == 2
    assert runtime.list_active() == (handle.session_id,)


@pytest.mark.parametrize("where", ["turn", "loop", "nursery", "after a turn"])
async def test_it_works_wherever_an_agent_runs_code(runtime, crew, where):
    done = []

    async def fan(agent):
        done.append(told(await fan_out(agent, crew.work, inputs=["a", "b 1"])))

    async def parent(agent):
        async for message in agent.inputs():
            if where == "loop":
                await fan(agent)
            async with agent.turn(message):
                if where == "turn":
                    await fan(agent)
                elif where == "nursery":
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(fan, agent)
                        nursery.start_soon(fan, agent)
            if where == "after a turn":
                await fan(agent)

    handle = runtime.spawn(new(), parent)
    assert (await handle.ask("go")).status is TurnStatus.COMPLETED
    await trio.sleep(2)
    assert done == [["a", "b"]] * (2 if where == "nursery" else 1)
    assert runtime.list_active() == (handle.session_id,)


def few(subagents):
    return AgentRuntime(store=InMemoryStore(), limits=RuntimeLimits(subagents=subagents))


async def test_where_the_agent_has_less_room_fewer_are_alive_at_once(crew):
    async def body(agent):
        agent.spawn(AgentSession.new("another"), ignores)
        results = await fan_out(agent, crew.work, inputs=["a 1"] * 6, concurrency=5)
        assert told(results) == ["a"] * 6

    async with few(3) as runtime:
        result, _ = await in_a_turn(runtime, body)
        assert (result.error, crew.most) == ("", 2)


async def test_where_it_has_none_it_says_so(crew):
    async def body(agent):
        agent.spawn(AgentSession.new("another"), ignores)
        with pytest.raises(TurnError, match="1 subagents already"):
            await fan_out(agent, crew.work, inputs=["a"])

    async with few(1) as runtime:
        result, _ = await in_a_turn(runtime, body)
        assert result.error == ""


async def test_an_agent_that_has_returned_refuses(runtime, crew):
    kept = []

    async def leaves(agent):
        kept.append(agent)

    await runtime.spawn(new(), leaves).wait()
    with pytest.raises(AgentNotRunningError):
        await fan_out(kept[0], crew.work, inputs=["a", "b"])


async def test_one_that_does_not_end_is_named_by_the_interrupt_which_returns_in_time(runtime):
    release = trio.Event()

    async def stubborn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                with trio.CancelScope(shield=True):
                    await release.wait()

    async def body(agent):
        await fan_out(agent, stubborn, inputs=["a"])

    handle = runtime.spawn(new(), turning(body))
    await handle.send_input("go")
    await wait_all_tasks_blocked()
    before = trio.current_time()
    report = await handle.interrupt(grace=1)
    assert trio.current_time() == before + 1.25
    (name,) = report.abandoned
    assert name.startswith("subagent worker 1 (")
    release.set()
    await wait_all_tasks_blocked()
    assert runtime.list_active() == (handle.session_id,)


orders = st.tuples(st.sampled_from(["ok", "fail", "crash"]), st.integers(0, 3))
ends = st.one_of(st.just("all"), st.just("first_failure"), st.integers(1, 6))


@given(st.lists(orders, max_size=8), st.integers(1, 5), ends, st.sampled_from([None, 1, 2]))
def test_whatever_they_do_the_results_are_in_place_and_nobody_is_left(script, limit, until, cut):
    crew = Crew()
    prompts = [f"{what} {seconds}" for what, seconds in script]

    async def main():
        async with AgentRuntime(InMemoryStore()) as runtime:
            with trio.move_on_after(float("inf") if cut is None else cut):
                results = await fan_out(
                    runtime, crew.work, inputs=prompts, concurrency=limit, until=until
                )
                check(results)
            assert (crew.alive, runtime.list_active()) == (0, ())

    def check(results):
        assert len(results) == len(prompts)
        for (what, _), result in zip(script, results, strict=True):
            assert result is None or (result.status is TurnStatus.COMPLETED) is (what == "ok")
        there = [result for result in results if result is not None]
        completed = sum(result.status is TurnStatus.COMPLETED for result in there)
        if until == "all" or (until == "first_failure" and completed == len(there)):
            assert len(there) == len(prompts)
        elif until == "first_failure":
            assert completed == len(there) - 1
        else:
            assert completed == until or (completed < until and len(there) == len(prompts))

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert crew.most <= limit
