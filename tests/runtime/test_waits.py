"""Waiting for agents: who may, for how long, and which answer belongs to whom."""

import contextlib
import math

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom.core import (
    Done,
    Interrupt,
    Message,
    SelfWaitError,
    SubAgentResult,
    TextComplete,
    ToolUseBlock,
    TurnError,
    TurnStatus,
    UserInput,
)
from greenroom.core._internal import EndStatus
from greenroom.llm import ModelError
from greenroom.resilience import Backoff, Budget
from greenroom.runtime import AgentNotRunningError, AgentRuntime, RuntimeLimits, fan_out
from greenroom.session import AgentSession, InMemoryStore


def new(session_id=None):
    return AgentSession.new("worker", session_id=session_id)


async def echo(agent, seconds=0.0):
    async for message in agent.inputs():
        async with agent.turn(message):
            await trio.sleep(seconds)
            agent.session.add_message(Message.assistant(f"re {message.text}"))


async def reader_and_worker(agent, seconds=1.0):
    send, receive = trio.open_memory_channel(100)

    async def work():
        async for message in receive:
            async with agent.turn(message):
                await trio.sleep(seconds)
                await agent.step()
                agent.session.add_message(Message.assistant(f"re {message.text}"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        async for message in agent.inputs():
            await send.send(message)
        await send.aclose()


async def test_each_ask_gets_its_own_turn_s_result_whoever_opens_that_turn(runtime):
    handle, results = runtime.spawn(new(), reader_and_worker), {}

    async def ask(text):
        results[text] = (await handle.ask(text)).text

    async with trio.open_nursery() as nursery:
        for text in "abc":
            nursery.start_soon(ask, text)
    assert results == {text: f"re {text}" for text in "abc"}


async def test_an_interrupt_ends_the_open_turn_and_no_other(runtime):
    handle, statuses = runtime.spawn(new(), reader_and_worker), {}

    async def ask(text):
        statuses[text] = (await handle.ask(text)).status

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "first")
        await wait_all_tasks_blocked()
        nursery.start_soon(ask, "second")
        await wait_all_tasks_blocked()
        assert (await handle.interrupt()).stopped == ("the turn",)
    assert statuses == {"first": TurnStatus.INTERRUPTED, "second": TurnStatus.COMPLETED}


@pytest.mark.parametrize("mode", ["now", "after_step"])
async def test_an_interrupt_between_two_tasks_returns_and_the_turn_ends_at_once(runtime, mode):
    """The reader has taken the input and asks for the next; the worker has not begun its turn."""
    opened = trio.Event()

    async def agent_fn(agent):
        async def work(message):
            await opened.wait()
            async with agent.turn(message):
                await agent.step()
                await trio.sleep(60)

        async with trio.open_nursery() as nursery:
            while not isinstance(message := await agent.receive(), Interrupt):
                nursery.start_soon(work, message)

    handle = runtime.spawn(new(), agent_fn)
    async with trio.open_nursery() as nursery:

        async def ask():
            assert (await handle.ask("go")).status is TurnStatus.INTERRUPTED

        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        began = trio.current_time()
        await handle.interrupt(mode)
        assert trio.current_time() == began
        opened.set()
    assert trio.current_time() == began


async def test_two_tasks_that_receive_lose_no_turn(runtime):
    async def agent_fn(agent):
        async def work():
            while True:
                message = await agent.receive()
                await turn.acquire()
                async with agent.turn(message):
                    await trio.sleep(1)
                    await agent.step()
                turn.release()

        turn = trio.Semaphore(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            nursery.start_soon(work)

    handle = runtime.spawn(new(), agent_fn)
    results = []

    async def ask():
        results.append((await handle.ask("go")).status)

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(ask)
        await trio.sleep(0.5)
        with trio.fail_after(10):
            await handle.interrupt("after_step")
    assert sorted(results) == [TurnStatus.COMPLETED] * 3 + [TurnStatus.INTERRUPTED]
    handle.kill()


async def test_what_a_reader_never_opens_a_turn_for_is_bounded_and_told(runtime):
    async def hoards(agent):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            async for message in agent.inputs():
                kept.append(message)  # noqa: PERF401

    kept, errors = [], []
    handle = runtime.spawn(new(), hoards)

    async def ask():
        try:
            await handle.ask("go")
        except Exception as error:
            errors.append(type(error).__name__)

    async with trio.open_nursery() as nursery:
        for _ in range(70):
            nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        assert errors == ["TurnError"] * 6
        handle.kill()
    assert errors[6:] == ["AgentNotRunningError"] * 64
    assert len((await handle.wait()).undelivered) == 64


async def test_a_backlog_keeps_its_turns_when_the_task_that_read_it_has_ended(runtime):
    async def worker_and_reader(agent):
        send, receive = trio.open_memory_channel(100)

        async def read():
            async with send:
                async for message in agent.inputs():
                    await send.send(message)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            async for message in receive:
                async with agent.turn(message):
                    await trio.sleep(1)
                    agent.session.add_message(Message.assistant(f"re {message.text}"))

    handle, answers = runtime.spawn(new(), worker_and_reader), []

    async def ask(text):
        answers.append((await handle.ask(text)).text)

    async with trio.open_nursery() as nursery:
        for text in "123":
            nursery.start_soon(ask, text)
            await wait_all_tasks_blocked()
        await handle.shutdown(grace=10)
    assert answers == ["re 1", "re 2", "re 3"]


async def test_what_only_its_taker_could_open_is_answered_when_it_takes_the_next(runtime):
    async def ignore(agent):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 5)  # while it runs, it could open the turn
            async for _ in agent.inputs():
                await trio.sleep(10)

    with pytest.raises(TurnError):
        await runtime.spawn(new(), ignore).ask("go")


async def test_a_turn_that_was_closed_at_the_end_of_a_life_is_left_without_effect(runtime):
    left, first = [], []

    async def bad(agent):
        async for message in agent.inputs():
            turn = agent.turn(message)
            if not first:
                first.append(turn)
                await turn.__aenter__()
                raise ValueError
            async with turn:
                agent.session.add_message(Message.assistant([ToolUseBlock("t1", "Tool")]))
                with contextlib.suppress(RuntimeError):
                    await first[0].__aexit__(None, None, None)
                left.append(agent.session.history[-1].tool_uses)

    supervisor = runtime.supervisor(backoff=Backoff(first=0.1, jitter=0))
    handle = supervisor.spawn(new(), bad, restart="permanent")
    assert (await handle.ask("1")).status is TurnStatus.FAILED
    assert (await handle.ask("2")).status is TurnStatus.COMPLETED
    assert left == [(ToolUseBlock("t1", "Tool"),)]


async def test_a_task_of_the_application_may_wait_for_the_agent_that_started_it(runtime, nursery):
    async def agent_fn(agent):
        nursery.start_soon(wait)

    async def wait():
        outcomes.append(await handle.wait())

    outcomes = []
    handle = runtime.spawn(new(), agent_fn)
    await handle.wait()
    await wait_all_tasks_blocked()
    assert [outcome.status for outcome in outcomes] == [EndStatus.COMPLETED]


@pytest.mark.parametrize("abandon", [True, False])
def test_the_thread_of_an_agent_s_own_tool_may_not(abandon):
    async def main():
        async def agent_fn(agent):
            await trio.to_thread.run_sync(tool, abandon_on_cancel=abandon)

        def tool():
            with pytest.raises(SelfWaitError):
                trio.from_thread.run(handle.wait)

        async with AgentRuntime(store=InMemoryStore()) as runtime:
            handle = runtime.spawn(new(), agent_fn)
            assert (await handle.wait(check=True)).status is EndStatus.COMPLETED

    trio.run(main)


async def asks(agent, runtime, other):
    async for message in agent.inputs():
        async with agent.turn(message):
            answer = await runtime.get(other).ask(message.text)
            agent.session.add_message(Message.assistant(answer.text))


@pytest.mark.parametrize("length", [2, 3, 500])
async def test_a_circle_of_asks_of_any_length_is_refused(runtime, length):
    handles = [
        runtime.spawn(new(f"s-{n}"), asks, runtime, f"s-{(n + 1) % length}") for n in range(length)
    ]
    await handles[0].send_input("well?")
    await wait_all_tasks_blocked()
    assert [str(handle.state) for handle in handles] == ["idle"] * length
    async with handles[-1].subscribe() as chunks:
        (end,) = [await chunks.__anext__() for _ in range(chunks.lag)][-1:]
    assert isinstance(end, Done)
    assert end.status is TurnStatus.FAILED
    assert end.error.startswith("ask() would close a circle")


async def test_the_chain_names_everybody(runtime):
    errors = []

    async def last(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                try:
                    await first.ask(message.text)
                except SelfWaitError as error:
                    errors.append(str(error))

    first = runtime.spawn(new("s-1"), asks, runtime, "s-2", name="ann")
    runtime.spawn(new("s-2"), asks, runtime, "s-3", name="bob")
    runtime.spawn(new("s-3"), last, name="cid")
    assert (await first.ask("go")).status is TurnStatus.COMPLETED
    assert "cid → ann → bob → cid" in errors[0]


async def test_an_ask_beside_the_turn_closes_no_circle(runtime):
    """The one that is asked back answers, since its ask is not what its turn waits for."""

    async def ann(agent):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(echo, agent)
            answers.append((await bob.ask("from ann")).text)
            nursery.cancel_scope.cancel()

    answers = []
    bob = runtime.spawn(new("bob"), asks, runtime, "ann")
    handle = runtime.spawn(new("ann"), ann)
    await handle.wait()
    assert answers == ["re from ann"]


async def test_at_its_time_out_an_ask_interrupts_its_turn(runtime):
    handle = runtime.spawn(new(), echo, 60)
    began = trio.current_time()
    result = await handle.ask("go", timeout=5)
    assert (result.status, trio.current_time() - began) == (TurnStatus.INTERRUPTED, 5)
    assert str(handle.state) == "idle"
    assert (await handle.ask("again", timeout=61)).text == "re again"


async def half_a_reply(agent, message, seconds=60):
    async with agent.turn(message, steer=True):
        agent.session.add_message(Message.assistant("half"))
        await agent.step()
        await trio.sleep(seconds)


async def takes_and_answers(agent):
    async for message in agent.inputs():
        await half_a_reply(agent, message)


async def takes_and_hands_on(agent):
    """One task takes the inputs, another one opens the turns, when the first waits again."""

    async def answer():
        async for message in taken:
            await wait_all_tasks_blocked()
            await half_a_reply(agent, message)

    hand_on, taken = trio.open_memory_channel(10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer)
        async for message in agent.inputs():
            hand_on.send_nowait(message)


async def lets_it_join(agent):
    """Take what is asked into a turn that has begun with something else."""
    async with agent.turn(UserInput(()), steer=True):
        await trio.sleep(1)
        await agent.step()
        agent.session.add_message(Message.assistant("half"))
        await trio.sleep(60)
    await trio.sleep_forever()


@pytest.mark.parametrize("agent_fn", [takes_and_answers, takes_and_hands_on, lets_it_join])
async def test_at_its_time_out_an_ask_has_the_end_of_whatever_turn_took_its_input(
    runtime, agent_fn
):
    handle = runtime.spawn(new(), agent_fn)
    began = trio.current_time()
    result = await handle.ask("go", timeout=5)
    assert (result.status, result.text, result.error) == (TurnStatus.INTERRUPTED, "half", "")
    assert trio.current_time() - began == 5
    assert handle._actor.turns.current is None


async def test_an_input_that_no_turn_has_begun_with_is_taken_back(runtime):
    handle = runtime.spawn(new(), echo, 10)
    await handle.send_input("first")
    result = await handle.ask("second", timeout=5)
    assert result.status is TurnStatus.INTERRUPTED
    assert "within 5 seconds" in result.error
    await trio.sleep(60)
    assert [message.text for message in await handle.history()] == ["first", "re first"]


async def test_the_time_out_holds_for_a_full_mailbox_and_a_turn_that_can_t_be_stopped(runtime):
    async def stubborn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                with trio.CancelScope(shield=True):
                    await trio.sleep(60)

    handle = runtime.spawn(new(), stubborn)
    began = trio.current_time()
    assert (await handle.ask("go", timeout=1)).status is TurnStatus.INTERRUPTED
    assert trio.current_time() - began == 3.25  # and the grace of an interrupt
    for _ in range(64):
        handle.send_input_nowait("full")
    assert (await handle.ask("no room", timeout=1)).status is TurnStatus.INTERRUPTED
    handle.kill()


async def test_an_ask_whose_input_is_withdrawn_returns(runtime):
    handle = runtime.spawn(new(), echo, 10)
    first = await handle.send_input("first")
    waiting = {}

    async def ask():
        waiting["result"] = await handle.ask("second")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        (second,) = [each.id for each in handle._actor.mailbox._items]
        assert await handle.withdraw_inputs(first.input_id, second) == (second,)
    assert waiting["result"].status is TurnStatus.INTERRUPTED
    assert "withdrawn" in waiting["result"].error


@pytest.mark.parametrize("timeout", [-1, math.nan])
async def test_a_time_out_that_is_no_length_of_time_is_refused(runtime, timeout):
    with pytest.raises(ValueError, match="a number of seconds"):
        await runtime.spawn(new(), echo).ask("go", timeout=timeout)


@pytest.mark.parametrize("scope", [None, "turn", "agent"])
@pytest.mark.parametrize("end", ["completes", "is interrupted", "fails"])
@pytest.mark.parametrize("report", [True, False])
async def test_what_a_turn_takes_along_and_what_is_told_of_it_is_for_spawn_to_say(
    runtime, scope, end, report
):
    """A subagent that ended with its turn is not reported; any other is, where that is wanted."""
    children, seen = [], []
    options = {} if scope is None else {"scope": scope}

    async def parent(agent):
        async for message in agent.inputs():
            seen.append(message)
            if isinstance(message, SubAgentResult):
                continue
            async with agent.turn(message):
                children.append(agent.spawn(new(), sleep, report=report, **options))
                if end == "fails":
                    raise ModelError("down")
                if end == "is interrupted":
                    await trio.sleep_forever()

    async def sleep(agent):
        await trio.sleep(100)

    handle = runtime.spawn(new(), parent)
    await handle.ask("go", timeout=5)
    goes_on = scope == "agent" or end == "completes"
    assert runtime.is_running(children[0].session_id) == goes_on
    await trio.sleep(200)
    assert [type(message) for message in seen[1:]] == [SubAgentResult] * (goes_on and report)


@pytest.mark.parametrize("report", [True, False])
async def test_whether_an_end_is_reported_is_for_spawn_to_say(runtime, report):
    seen = []

    async def child(agent):
        agent.session.add_message(Message.assistant("done"))

    async def parent(agent):
        agent.spawn(new(), child, report=report)
        async for message in agent.inputs():
            seen.append(message)  # noqa: PERF401

    runtime.spawn(new(), parent)
    await wait_all_tasks_blocked()
    assert [type(message) for message in seen] == [SubAgentResult] * report


async def test_a_report_that_waits_is_taken_back_when_the_parent_waits_for_the_end(runtime):
    seen = []

    async def child(agent):
        agent.session.add_message(Message.assistant("done"))

    async def parent(agent):
        handle = agent.spawn(new(), child)
        await wait_all_tasks_blocked()
        assert (await handle.wait()).status is EndStatus.COMPLETED
        async for message in agent.inputs():
            seen.append(message)  # noqa: PERF401

    runtime.spawn(new(), parent)
    await wait_all_tasks_blocked()
    assert seen == []


async def test_a_scope_that_is_none_is_refused(runtime):
    async def parent(agent):
        agent.spawn(new(), echo, scope="session")

    outcome = await runtime.spawn(new(), parent).wait()
    assert "neither 'turn' nor 'agent'" in str(outcome.error)


async def test_the_outcome_has_what_the_function_returned(runtime):
    async def adds(agent, a, b):
        return a + b

    async def crashes(agent):
        raise ValueError

    assert (await runtime.spawn(new(), adds, 1, 2).wait()).value == 3
    assert (await runtime.spawn(new(), crashes).wait()).value is None


async def test_an_ask_that_an_end_cuts_off_has_the_outcome_with_the_value(runtime):
    async def returns(agent):
        await agent.receive()
        return "gone"

    with pytest.raises(AgentNotRunningError) as error:
        await runtime.spawn(new(), returns).ask("go")
    assert error.value.outcome.value == "gone"


async def call_tools(agent, *tools):
    """Run one tool after the other in each turn, as calls that a budget counts."""
    async for message in agent.inputs():
        async with agent.turn(message):
            for number, tool in enumerate(tools):
                with agent.tool_call(ToolUseBlock(f"t{number}", "Tool")) as call:
                    async with call.running():
                        await tool(agent)


async def work(agent):
    await trio.sleep(10)


async def work_long(agent):
    await trio.sleep(1_000)


async def test_what_a_call_leaves_running_takes_no_slot_when_the_call_has_ended(runtime):
    budget = Budget(concurrency=1)

    async def agent_fn(agent):
        async def ask(agent):
            await trio.sleep(1)
            await agent.spawn(new(), echo, 20.0, scope="agent").ask("go")

        async def start(agent):
            background.start_soon(ask, agent)

        async def start_and_work(agent):
            await start(agent)
            await work(agent)

        async with trio.open_nursery() as background:
            await call_tools(agent, start, start_and_work, work, work, work)

    handle = runtime.spawn(new(), agent_fn, budget=budget)
    with trio.fail_after(50):
        assert (await handle.ask("go")).status is TurnStatus.COMPLETED
    assert budget.statistics().running == 0
    handle.kill()


async def test_a_task_of_a_call_goes_on_when_another_one_s_wait_is_cancelled(runtime):
    budget = Budget(concurrency=1)

    async def ask_twice(agent):
        async def give_up():
            await trio.sleep(3)
            with trio.move_on_after(2):
                await agent.spawn(new(), echo, 100.0).ask("go")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(give_up)
            # Its wait ends at 1; until 10.5 the slot is the other agent's.
            await agent.spawn(new(), echo, 1.0).ask("go")

    asking = runtime.spawn(new(), call_tools, ask_twice, budget=budget)
    working = runtime.spawn(new(), call_tools, work, budget=budget)
    await asking.send_input("go")
    await trio.sleep(0.5)
    await working.send_input("go")
    with trio.fail_after(50):
        *_, done = [chunk async for chunk in asking.stream()]
    assert done.status is TurnStatus.COMPLETED
    assert trio.current_time() == pytest.approx(10.5)
    assert budget.statistics().running == 0


async def ask_many(agent):
    await fan_out(agent, echo, 50.0, inputs=["one", "other"])


async def ask_and_clean_up(agent):
    child = agent.spawn(new(), echo, 50.0)
    try:
        await child.ask("go")
    finally:
        with agent.cleanup(2.0):
            await child.shutdown(grace=0)


@pytest.mark.parametrize("tool", [ask_many, ask_and_clean_up])
async def test_an_interrupted_call_waits_for_no_slot_to_clean_up(runtime, tool):
    budget = Budget(concurrency=1)
    handle = runtime.spawn(new(), call_tools, tool, budget=budget)
    working = runtime.spawn(new(), call_tools, work_long, budget=budget)
    await handle.send_input("go")
    await wait_all_tasks_blocked()
    await working.send_input("go")
    await wait_all_tasks_blocked()
    assert budget.statistics().running == 1
    before = trio.current_time()
    report = await handle.interrupt()
    assert trio.current_time() == before
    assert report.abandoned == ()
    assert budget.statistics().running == 1


async def test_a_fan_out_that_times_out_waits_for_no_slot(runtime):
    budget = Budget(concurrency=1)

    async def give_up(agent):
        with trio.move_on_after(5):
            await ask_many(agent)

    handle = runtime.spawn(new(), call_tools, give_up, budget=budget)
    working = runtime.spawn(new(), call_tools, work_long, budget=budget)
    await handle.send_input("go")
    await wait_all_tasks_blocked()
    await working.send_input("go")
    *_, done = [chunk async for chunk in handle.stream()]
    assert done.status is TurnStatus.COMPLETED
    assert trio.current_time() == pytest.approx(5)


async def test_a_parent_hears_of_an_end_that_a_refused_ask_did_not_tell(runtime):
    heard = []

    async def parent(agent):
        child = agent.spawn(new("child"), echo, 3.0)
        await child.send_input("go")
        await trio.sleep(1)
        with pytest.raises(AgentNotRunningError, match="shutting down"):
            await child.ask("more")
        heard.extend([await anext(agent.inputs())])

    handle = runtime.spawn(new(), parent)
    await wait_all_tasks_blocked()
    await runtime.shutdown("child", grace=5)
    await handle.wait()
    (result,) = heard
    assert isinstance(result, SubAgentResult)
    assert result.text == "re go"


async def test_an_end_that_was_waited_for_counts_no_longer_as_a_subagent():
    async def parent(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                for _ in range(5):
                    child = agent.spawn(new(), end_at_once)
                    await trio.sleep(1)  # it has ended before it is waited for
                    await child.wait()

    async with AgentRuntime(InMemoryStore(), RuntimeLimits(subagents=2)) as runtime:
        handle = runtime.spawn(new(), parent)
        assert (await handle.ask("go")).status is TurnStatus.COMPLETED


async def end_at_once(agent):
    await trio.lowlevel.checkpoint()


async def test_a_tool_may_read_what_its_own_agent_has_to_tell(runtime):
    handles = []

    async def read(agent):
        async def tell():
            await trio.sleep(1)
            await agent.send(TextComplete("told"))

        async with trio.open_nursery() as nursery, handles[0].subscribe("none") as chunks:
            nursery.start_soon(tell)
            assert await anext(chunks) == TextComplete("told")

    handles.append(runtime.spawn(new(), call_tools, read))
    assert (await handles[0].ask("go")).status is TurnStatus.COMPLETED


def test_a_circle_through_the_thread_of_a_tool_is_refused():
    handles = {}

    async def ask_back(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await handles["first"].ask("go")

    async def main():
        token = trio.lowlevel.current_trio_token()

        def ask():
            return trio.from_thread.run(handles["second"].ask, "go", trio_token=token)

        async def ask_in_thread(agent):
            await trio.to_thread.run_sync(ask, abandon_on_cancel=True)

        with trio.fail_after(30):
            async with AgentRuntime(InMemoryStore()) as runtime:
                handles["first"] = runtime.spawn(new(), call_tools, ask_in_thread, name="first")
                handles["second"] = runtime.spawn(new(), ask_back, name="second")
                result = await handles["first"].ask("go", timeout=10)
                assert result.status is TurnStatus.COMPLETED
                handles["first"].kill()
                handles["second"].kill()

    trio.run(main)
