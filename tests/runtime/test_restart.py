"""A restart: what goes on, what begins anew, and what the subscribers and the model are told."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom.core import (
    AgentState,
    Done,
    Error,
    Exited,
    Lagged,
    Message,
    PermissionRequest,
    PermissionResponse,
    Restarted,
    SessionLockedError,
    StateChange,
    SubAgentResult,
    TextDelta,
    ToolEnd,
    ToolStart,
    TurnStart,
    TurnStatus,
    UserInput,
)
from greenroom.core._internal import EndStatus
from greenroom.resilience import Backoff
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, InMemoryStore

STEADY = Backoff(first=1.0, factor=1.0, jitter=0)


def new(**options):
    return AgentSession.new("worker", **options)


async def answers(agent):
    """Answer what comes; crash on the word."""
    async for message in agent.inputs():
        async with agent.turn(message):
            if message.text == "crash":
                raise ValueError("broken")
            await agent.send(TextDelta(message.text))
            agent.session.add_message(Message.assistant(f"you said {message.text}"))


@pytest.fixture
def supervisor(runtime):
    return runtime.supervisor(intensity=100, period=1000, backoff=STEADY)


def spawn(supervisor, agent_fn=answers, *args, session=None):
    return supervisor.spawn(session or new(), agent_fn, *args, restart="permanent")


async def chunks_of(handle):
    return [chunk async for chunk in handle.subscribe("all")]


async def chunks_so_far(handle):
    """What a reader finds who comes now, without waiting for more."""
    subscription = handle.subscribe("all")
    return [await anext(subscription) for _ in range(subscription.lag)]


async def test_a_crash_that_is_followed_by_a_restart_is_told_as_error_and_restarted(supervisor):
    handle = spawn(supervisor)
    await handle.ask("crash")
    await trio.sleep(2)
    assert handle.state == AgentState.idle()
    await handle.shutdown()
    seen = await chunks_of(handle)
    done = next(i for i, chunk in enumerate(seen) if isinstance(chunk, Done))
    input_id = seen[0].input_id
    assert seen[done:] == [
        Done(input_id, TurnStatus.FAILED, error="ValueError: broken", inputs=(input_id,)),
        Error("broken", "ValueError"),
        Restarted(1, "ValueError: broken", 1.0),
        StateChange(AgentState.done()),
        Exited(EndStatus.COMPLETED),
    ]


async def test_a_state_that_a_crash_left_behind_is_idle_again(supervisor):
    async def busy(agent):
        agent.set_state(AgentState.executing_tool("Bash"))
        await agent.send(ToolStart("t1", "Bash"))
        await agent.send(TextDelta("half a te"))
        raise ValueError("broken")

    handle = spawn(supervisor, busy)
    await trio.sleep(0.5)
    assert await handle.partial_text() == ""
    assert handle.state == AgentState.idle()
    kinds = [type(chunk) for chunk in await chunks_so_far(handle)][:6]
    assert kinds == [StateChange, ToolStart, TextDelta, ToolEnd, Error, Restarted]


async def test_who_reads_through_restarts_misses_nothing_and_reads_nothing_twice(supervisor):
    async def counts(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                for i in range(100):
                    await agent.send(TextDelta(f"{message.text} {i}"))
                raise ValueError("broken")

    handle = spawn(supervisor, counts)
    read = []

    async def reader():
        async with handle.subscribe("all") as chunks:
            read.extend([chunk async for chunk in chunks])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader)
        for word in ("one", "two", "three"):
            await handle.ask(word)
        await trio.sleep(2)
        await handle.shutdown()
    texts = [chunk.text for chunk in read if isinstance(chunk, TextDelta)]
    assert texts == [f"{word} {i}" for word in ("one", "two", "three") for i in range(100)]
    assert [chunk.restarts for chunk in read if isinstance(chunk, Restarted)] == [1, 2, 3]
    assert read == await chunks_of(handle)


async def test_a_position_of_an_earlier_epoch_still_finds_its_place(supervisor):
    handle = spawn(supervisor)
    await handle.ask("one")
    earlier = handle.subscribe("none").position
    await handle.ask("crash")
    await trio.sleep(2)
    await handle.ask("two")
    assert earlier[0] < handle.subscribe("none").position[0]
    reader = handle.subscribe(earlier)
    chunks = [await anext(reader) for _ in range(reader.lag)]
    assert isinstance(chunks[0], TurnStart)
    assert chunks.count(TextDelta("one")) == 0
    assert chunks.count(TextDelta("two")) == 1
    # One of a later epoch is not of this stream: it is told so, and begins with what is held.
    stranger = handle.subscribe((earlier[0] + 10**9, 5))
    assert await anext(stranger) == Lagged(None)
    assert stranger.position == (handle.subscribe("none").position[0], 0)


async def test_the_outcome_counts_the_restarts_and_comes_after_the_last_life(supervisor):
    handle = spawn(supervisor)
    ended = []

    async def waiter():
        ended.append(await handle.wait())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(waiter)
        for _ in range(3):
            await handle.ask("crash")
            await trio.sleep(2)
        assert ended == []
        await handle.shutdown()
    assert (ended[0].status, ended[0].error, ended[0].restarts) == (EndStatus.COMPLETED, None, 3)


async def test_the_session_goes_on_with_a_note_of_the_crash(supervisor):
    handle = spawn(supervisor)
    await handle.ask("hello")
    await handle.ask("crash")
    await handle.ask("are you there")
    assert [(m.role, m.text) for m in await handle.history()] == [
        ("user", "hello"),
        ("assistant", "you said hello"),
        ("user", "crash"),
        ("user", "[The agent crashed: ValueError: broken; it was started again]"),
        ("user", "are you there"),
        ("assistant", "you said are you there"),
    ]


async def test_the_note_of_one_that_was_stopped_for_others_says_so(runtime):
    supervisor = runtime.supervisor("one_for_all", backoff=STEADY)
    first = spawn(supervisor)
    second = supervisor.spawn(new(), answers, restart="permanent", name="second")
    await second.ask("crash")
    await trio.sleep(2)
    (note,) = await first.history()
    assert note.text == "[The agent was started again: second crashed]"


async def test_the_model_is_told_no_more_of_a_crash_than_it_can_read(supervisor):
    async def fails(agent):
        await agent.receive()
        raise ValueError("x" * 1_000_000)

    handle = spawn(supervisor, fails)
    await handle.send_input("go")
    await trio.sleep(1.5)
    (note,) = await handle.history()
    assert 1000 < len(note.text) < 3000


async def test_a_note_is_stored_before_the_next_life_begins():
    stored = []

    async def looks(agent):
        loaded = await AgentSession.load(agent.session.session_id, store=agent.session.store)
        stored.append([message.text for message in loaded.history])
        raise ValueError(f"life {len(stored)}")

    store = InMemoryStore()
    session = new(store=store)
    session.add_message(Message.user("before"))
    await session.save()
    async with AgentRuntime(store=store) as runtime:
        supervisor = runtime.supervisor(intensity=2, backoff=STEADY)
        await spawn(supervisor, looks, session=session).wait()
    notes = [f"[The agent crashed: ValueError: life {n}; it was started again]" for n in (1, 2)]
    assert stored == [["before"], ["before", notes[0]], ["before", *notes]]


async def test_metadata_come_back_and_resources_do_not(supervisor):
    seen = []

    async def agent_fn(agent):
        seen.append((agent.context.get_metadata("lives"), agent.context.resources.get(list)))
        agent.context.set_metadata("lives", len(seen))
        agent.context.resources.insert([len(seen)])
        agent.context.workspace.cwd = agent.context.workspace.root / "elsewhere"
        async for message in agent.inputs():
            async with agent.turn(message):
                assert agent.context.current_turn == len(seen)
                raise ValueError("broken")

    handle = spawn(supervisor, agent_fn)
    await handle.ask("one")
    await handle.ask("two")
    await trio.sleep(2)
    assert seen == [(None, None), (1, None), (2, None)]


async def test_the_lock_is_kept_over_a_restart(runtime, supervisor, store):
    session = new(store=store)
    handle = spawn(supervisor, session=session)
    await handle.ask("hello")
    await handle.ask("crash")
    await trio.sleep(0.5)
    assert runtime.is_running(session.session_id)
    other = await AgentSession.load(session.session_id, store=store)
    with pytest.raises(SessionLockedError):
        await other.open()


async def test_a_session_that_is_locked_crashes_a_life_and_the_next_one_tries_again(runtime, store):
    session = new(store=store)
    session.add_message(Message.user("before"))
    await session.save()
    other = await AgentSession.load(session.session_id, store=store)
    await other.open()
    supervisor = runtime.supervisor(intensity=10, period=100, backoff=STEADY)
    handle = spawn(supervisor, session=session)
    await trio.sleep(2.5)
    await other.close()
    assert (await handle.ask("hello")).status is TurnStatus.COMPLETED
    errors = [chunk.kind for chunk in await chunks_so_far(handle) if isinstance(chunk, Error)]
    assert errors == ["SessionInUseError"] * 3
    await handle.shutdown()
    assert (await handle.wait()).restarts == 3


async def test_input_that_was_queued_is_answered_by_the_next_life(supervisor):
    handle = spawn(supervisor)
    results = {}

    async def ask(text):
        results[text] = await handle.ask(text)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "crash")
        await wait_all_tasks_blocked()
        for text in ("one", "two"):
            nursery.start_soon(ask, text)
    assert results["crash"].status is TurnStatus.FAILED
    assert (results["one"].text, results["two"].text) == ("you said one", "you said two")


async def test_a_message_that_was_taken_and_got_no_turn_is_taken_again_first(supervisor):
    lives = []

    async def careless(agent):
        lives.append(agent)
        async for message in agent.inputs():
            if len(lives) == 1:
                await trio.sleep(1)
                raise ValueError("before its turn")
            async with agent.turn(message):
                agent.session.add_message(Message.assistant(f"you said {message.text}"))

    handle = spawn(supervisor, careless)
    results = {}

    async def ask(text):
        results[text] = (await handle.ask(text)).text
        results["order"] = [*results.get("order", []), text]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "one")
        await wait_all_tasks_blocked()
        nursery.start_soon(ask, "two")
    assert results == {"one": "you said one", "two": "you said two", "order": ["one", "two"]}


@pytest.mark.parametrize("mode", ["now", "after_step"])
async def test_an_interrupt_of_a_message_that_is_put_back_still_holds(supervisor, mode):
    lives = []

    async def careless(agent):
        lives.append(agent)
        async for message in agent.inputs():
            if len(lives) == 1:
                await trio.sleep(1)
                raise ValueError("before its turn")
            async with agent.turn(message):
                await trio.sleep(100)

    handle = spawn(supervisor, careless)
    results = []

    async def ask():
        results.append(await handle.ask("go"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.sleep(0.5)
        report = await handle.interrupt(mode, grace=0.5)
        assert report.stopped == ("the turn",)
        # At the grace and a quarter of a second, after the interrupt took effect.
        assert trio.current_time() == pytest.approx({"now": 1.25, "after_step": 1.75}[mode])
    assert results[0].status is TurnStatus.INTERRUPTED
    assert trio.current_time() == pytest.approx(2)


async def test_a_message_that_was_handled_without_a_turn_is_not_handled_again(supervisor):
    taken = []

    async def one_shot(agent):
        taken.append(await agent.receive())

    handle = spawn(supervisor, one_shot)
    await handle.send_input("once")
    await trio.sleep(3)
    assert [message.text for message in taken] == ["once"]


async def test_a_message_that_no_life_takes_any_more_is_undelivered(runtime):
    async def careless(agent):
        await agent.receive()
        raise ValueError("broken")

    supervisor = runtime.supervisor(intensity=1, backoff=STEADY)
    handle = spawn(supervisor, careless)
    receipt = await handle.send_input("hello")
    outcome = await handle.wait()
    assert outcome.restarts == 1
    assert [message.id for message in outcome.undelivered] == [receipt.input_id]


async def test_steering_input_of_the_crashed_turn_is_in_the_history(supervisor):
    async def steered(agent):
        async for message in agent.inputs():
            async with agent.turn(message, steer=True):
                await trio.sleep(1)
                await agent.step()
                raise ValueError("broken")

    handle = spawn(supervisor, steered)
    await handle.send_input("one")
    await wait_all_tasks_blocked()
    assert (await handle.send_input("two")).status == "steered"
    await trio.sleep(3)
    texts = [message.text for message in await handle.history()]
    assert texts[:2] == ["one", "two"]
    assert texts[2].startswith("[The agent crashed")


async def test_the_subagents_of_a_crashed_life_are_gone(runtime, supervisor):
    async def parent(agent):
        agent.spawn(new(), answers)
        async for message in agent.inputs():
            async with agent.turn(message):
                raise ValueError("broken")

    handle = spawn(supervisor, parent)
    await wait_all_tasks_blocked()
    first = (await handle.children())[0]
    child = runtime.get(first)
    await handle.ask("go")
    await trio.sleep(2)
    assert (await child.wait()).status is EndStatus.CANCELLED
    second = (await handle.children())[1]
    assert runtime.list_active() == (handle.session_id, second)
    # Their end is no news to the next life.
    assert (await handle.statistics()).mailbox == 0


async def test_a_result_that_came_in_time_is_kept_for_the_next_life(supervisor):
    results = []

    async def quick(agent):
        agent.session.add_message(Message.assistant("done"))

    async def parent(agent):
        if agent.session.history == ():
            agent.spawn(new(), quick)
            await trio.sleep(1)
            raise ValueError("broken")
        results.extend([message async for message in agent.inputs()])

    handle = spawn(supervisor, parent)
    await trio.sleep(5)
    await handle.shutdown()
    assert [type(result) for result in results] == [SubAgentResult]
    assert results[0].text == "done"


async def test_budgets_of_a_crashed_life_are_gone(supervisor):
    async def spends(agent):
        if agent.session.history == ():
            with agent.budget(model_calls=1):
                await agent.step()
                raise ValueError("broken")
        async for message in agent.inputs():
            async with agent.turn(message):
                for _ in range(5):
                    await agent.step()

    handle = spawn(supervisor, spends)
    assert (await handle.ask("go")).status is TurnStatus.COMPLETED


async def test_the_permission_prompts_of_a_crashed_life_are_closed(supervisor):
    async def asks(agent):
        async for message in agent.inputs():
            async with agent.turn(message), trio.open_nursery() as nursery:
                nursery.start_soon(agent.request_permission, "Bash", "ls")
                await trio.sleep(1)
                raise ValueError("broken")

    handle = spawn(supervisor, asks)
    async with handle.subscribe(answers=True):
        await handle.send_input("go")
        await trio.sleep(0.5)
        (request,) = await handle.pending()
        await trio.sleep(1)
        assert await handle.pending() == ()
        assert not await handle.respond_permission(request.request_id, "allow")
    prompts = [
        (type(chunk), getattr(chunk, "cancelled", None))
        for chunk in await chunks_so_far(handle)
        if isinstance(chunk, (PermissionRequest, PermissionResponse))
    ]
    assert prompts == [(PermissionRequest, None), (PermissionResponse, True)]


async def test_who_answers_prompts_answers_those_of_every_life(supervisor):
    async def asks(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                if message.text == "crash":
                    raise ValueError("broken")
                answer = await agent.request_permission("Bash", "ls")
                agent.session.add_message(Message.assistant(str(answer.decision)))

    handle = spawn(supervisor, asks)
    async with handle.subscribe(answers=True) as chunks, trio.open_nursery() as nursery:

        async def person():
            async for chunk in chunks:
                if isinstance(chunk, PermissionRequest):
                    await handle.respond_permission(chunk.request_id, "allow")

        nursery.start_soon(person)
        await handle.ask("crash")
        assert (await handle.ask("go")).text == "allow"
        nursery.cancel_scope.cancel()


async def test_messages_may_be_of_any_kind_after_a_restart(supervisor):
    taken = []

    async def loops(agent):
        while True:
            message = await agent.receive()
            taken.append(type(message).__name__)
            if isinstance(message, UserInput):
                raise ValueError("broken")
            if taken[-1] == "Shutdown":
                return

    handle = spawn(supervisor, loops)
    await handle.send_input("one")
    await trio.sleep(0.5)
    # In a back-off there is no turn in flight; a loop that wants to know still hears of it.
    report = await handle.interrupt()
    assert report.stopped == ()
    await trio.sleep(1)
    assert taken[:2] == ["UserInput", "Interrupt"]
    await handle.shutdown()
