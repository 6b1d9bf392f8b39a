# ruff: noqa: PT012 (leaving the runtime's block is what is tested)
"""Whoever ends, and whenever: every agent under a supervisor gets an outcome, and nothing stays."""

import logging

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom.core import Error, Exited, Message, SessionStorageError, TurnStatus
from greenroom.core._internal import EndStatus, StateKind
from greenroom.resilience import Backoff
from greenroom.runtime import AgentRuntime
from greenroom.runtime._internal import SupervisionError
from greenroom.session import AgentSession, InMemoryStore

SLOW = Backoff(first=100.0, factor=1.0, max_delay=100.0, jitter=0)


def new():
    return AgentSession.new("worker")


async def fragile(agent):
    """Crash on the word."""
    async for message in agent.inputs():
        async with agent.turn(message):
            if message.text == "crash":
                raise ValueError("broken")
            if message.text == "work":
                await trio.sleep(2)


def spawn(supervisor, restart="permanent", name="agent"):
    return supervisor.spawn(new(), fragile, restart=restart, name=name)


async def status_of(handle):
    outcome = await handle.wait()
    return outcome.status


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all"])
@pytest.mark.parametrize(
    ("end", "status"), [("shutdown", EndStatus.CRASHED), ("kill", EndStatus.KILLED)]
)
async def test_one_in_its_back_off_can_be_ended(runtime, strategy, end, status):
    supervisor = runtime.supervisor(strategy, backoff=SLOW)
    a, b = spawn(supervisor), spawn(supervisor)
    await a.ask("crash")
    await trio.sleep(1)
    before = trio.current_time()
    if end == "shutdown":
        await a.shutdown(grace=50)
    else:
        a.kill()
    outcome = await a.wait()
    assert trio.current_time() == before
    assert (outcome.status, str(outcome.error), outcome.restarts) == (status, "broken", 0)
    assert a.state.kind is StateKind.FAILED
    kinds = [type(chunk) async for chunk in a.subscribe("all")]
    assert kinds.count(Error) == 1
    # The others of its group go on.
    assert (await b.ask("hello")).status is TurnStatus.COMPLETED
    assert len(supervisor.children) == 1


async def test_one_that_was_stopped_for_others_and_is_ended_meanwhile_says_so(runtime):
    supervisor = runtime.supervisor("one_for_all", backoff=SLOW)
    a, b = spawn(supervisor, name="a"), spawn(supervisor, name="b")
    await b.ask("crash")
    await trio.sleep(1)
    await a.shutdown()
    outcome = await a.wait()
    assert outcome.status is EndStatus.CANCELLED
    assert isinstance(outcome.error, SupervisionError)
    assert a.state.kind is StateKind.DONE
    await trio.sleep(100)
    assert (await b.ask("hello")).status is TurnStatus.COMPLETED


async def test_an_interrupt_of_one_in_its_back_off_changes_nothing(runtime):
    supervisor = runtime.supervisor(backoff=SLOW)
    handle = spawn(supervisor)
    await handle.ask("crash")
    await trio.sleep(1)
    before = trio.current_time()
    assert (await handle.interrupt()).stopped == ()
    assert trio.current_time() == before
    assert (await handle.ask("hello")).status is TurnStatus.COMPLETED
    assert trio.current_time() >= 100


async def test_an_agent_that_is_asked_to_end_while_it_crashes_is_not_restarted(runtime):
    supervisor = runtime.supervisor(backoff=SLOW)

    async def crashes_on_its_way_out(agent):
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("on the way out")

    for grace in (0, 1, None):
        handle = supervisor.spawn(new(), crashes_on_its_way_out, restart="permanent")
        await wait_all_tasks_blocked()
        if grace is None:
            handle.kill()
        else:
            await handle.shutdown(grace)
        assert isinstance((await handle.wait()).error, ValueError)
    assert supervisor.statistics().restarts == 0


async def test_who_interrupts_a_message_that_is_put_back_does_not_wait_for_more_than_the_end(
    runtime,
):
    async def careless(agent):
        await agent.receive()
        await trio.sleep(2)
        raise ValueError("before its turn")

    supervisor = runtime.supervisor(backoff=SLOW)
    handle = supervisor.spawn(new(), careless, restart="permanent")
    await handle.send_input("go")
    await wait_all_tasks_blocked()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(handle.interrupt, "now", 1000)
        await trio.sleep(5)
        await handle.shutdown()
    assert trio.current_time() == 5
    assert len((await handle.wait()).undelivered) == 1


async def test_its_children_end_in_reverse_order_each_with_the_grace(runtime):
    ended = []

    async def works(agent):
        try:
            await trio.sleep(2 if agent.context.name == "quick" else 100)
        finally:
            ended.append((agent.context.name, trio.current_time()))

    supervisor = runtime.supervisor()
    for name in ("slow", "quick", "slower"):
        supervisor.spawn(new(), works, restart="permanent", name=name)
    await wait_all_tasks_blocked()
    outcome = await supervisor.shutdown(grace=5)
    assert ended == [("quick", 2.0), ("slower", 5.0), ("slow", 10.0)]
    assert (outcome.status, outcome.error, outcome.restarts) == (EndStatus.COMPLETED, None, 0)


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all"])
async def test_it_can_be_shut_down_during_a_back_off(runtime, strategy):
    supervisor = runtime.supervisor(strategy, backoff=SLOW)
    handles = [spawn(supervisor) for _ in range(3)]
    await handles[1].ask("crash")
    await trio.sleep(1)
    before = trio.current_time()
    await supervisor.shutdown()
    assert trio.current_time() == before
    stopped = EndStatus.COMPLETED if strategy == "one_for_one" else EndStatus.CANCELLED
    assert [await status_of(handle) for handle in handles] == [stopped, EndStatus.CRASHED, stopped]


async def test_it_can_be_shut_down_while_it_stops_a_group(runtime):
    async def clings(agent):
        try:
            await fragile(agent)
        finally:
            with agent.cleanup(10):
                await trio.sleep(5)

    supervisor = runtime.supervisor("one_for_all", backoff=SLOW)
    handles = [supervisor.spawn(new(), clings, restart="permanent") for _ in range(3)]
    handles[0].send_input_nowait("crash")
    await trio.sleep(7)  # the last one is being stopped
    await supervisor.shutdown(grace=20)
    # Each has its own clean-up, and none loses it: the third until 10 s, the second until 15 s.
    assert trio.current_time() == pytest.approx(15)
    ends = [await status_of(handle) for handle in handles]
    assert ends[0] is EndStatus.CRASHED
    assert EndStatus.KILLED not in ends


async def test_a_second_shutdown_joins_the_first_and_a_cancelled_one_goes_on(runtime):
    supervisor = runtime.supervisor()
    handle = spawn(supervisor)
    await handle.send_input("work")
    await wait_all_tasks_blocked()
    with trio.move_on_after(1) as scope:
        await supervisor.shutdown(grace=50)
    assert scope.cancelled_caught
    outcome = await supervisor.shutdown(grace=0)
    assert outcome.status is EndStatus.COMPLETED
    assert trio.current_time() == 2.0
    assert await status_of(handle) is EndStatus.COMPLETED
    assert await supervisor.shutdown() == outcome


async def test_shutting_down_goes_down_the_whole_tree(runtime):
    top = runtime.supervisor()
    first = spawn(top)
    below = top.supervisor()
    second = spawn(below.supervisor())
    empty = below.supervisor()
    await top.shutdown()
    for supervisor in (top, below, empty):
        assert (await supervisor.wait()).status is EndStatus.COMPLETED
    for handle in (first, second):
        assert await status_of(handle) is EndStatus.COMPLETED


async def test_one_below_can_be_shut_down_alone(runtime):
    top = runtime.supervisor("one_for_all", backoff=SLOW)
    first = spawn(top)
    below = top.supervisor()
    spawn(below)
    await below.shutdown()
    assert len(top.children) == 1
    assert (await first.ask("hello")).status is TurnStatus.COMPLETED


async def test_one_below_that_is_shut_down_while_its_group_is_restarted_stays_ended(runtime):
    top = runtime.supervisor("one_for_all", backoff=Backoff(first=10, jitter=0))
    first = spawn(top, name="first")
    below = top.supervisor(name="below")
    second = spawn(below, name="second")
    await first.ask("crash")
    await trio.sleep(1)
    assert [child.state for child in top.children] == ["restarting", "restarting"]
    assert (await below.shutdown()).status is EndStatus.COMPLETED
    assert await status_of(second) is EndStatus.CANCELLED
    assert (await first.ask("hello")).status is TurnStatus.COMPLETED


async def three_in_trouble(runtime, strategy):
    """Two agents of a group in a back-off, and one below that has given up for now."""
    top = runtime.supervisor(strategy, backoff=SLOW)
    below = top.supervisor(intensity=0, name="below")
    handles = [spawn(top), spawn(top), spawn(below)]
    await handles[2].ask("crash")
    await handles[1].ask("crash") if strategy == "one_for_one" else None
    await trio.sleep(1)
    assert top.statistics().restarting >= 2
    return [top, below], handles


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all"])
async def test_leaving_the_runtime_ends_what_waits(strategy):
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        supervisors, handles = await three_in_trouble(runtime, strategy)
        before = trio.current_time()
    assert trio.current_time() == before
    for handle in handles:
        outcome = await handle.wait()
        assert outcome.status in set(EndStatus) - {EndStatus.KILLED}
    for supervisor in supervisors:
        assert (await supervisor.wait()).status in {EndStatus.CANCELLED, EndStatus.CRASHED}
        with pytest.raises(SupervisionError):
            spawn(supervisor)


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all"])
async def test_leaving_the_runtime_by_an_exception_ends_what_waits(strategy):
    kept = []
    with pytest.raises(KeyError):
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            kept += await three_in_trouble(runtime, strategy)
            raise KeyError
    for handle in kept[1]:
        await handle.wait()
    for supervisor in kept[0]:
        await supervisor.wait()
        await supervisor.shutdown()


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all"])
async def test_a_cancel_of_the_runtime_ends_what_waits(strategy):
    kept = []
    with trio.move_on_after(10) as scope:
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            kept += await three_in_trouble(runtime, strategy)
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert trio.current_time() == 10.0
    for handle in kept[1]:
        assert (await handle.wait()).restarts == 0
    for supervisor in kept[0]:
        await supervisor.wait()


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all"])
@pytest.mark.parametrize("way", ["return", "crash", "interrupt", "shutdown", "kill"])
async def test_the_end_of_the_agent_that_owns_a_supervisor_ends_what_waits(runtime, strategy, way):
    supervisors, children = [], []

    async def parent(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                top = agent.supervisor(strategy, backoff=SLOW)
                below = top.supervisor(intensity=0)
                supervisors.extend([top, below])
                children.extend([spawn(top), spawn(top), spawn(below)])
                await children[2].ask("crash")
                await trio.sleep(1)
                if way == "crash":
                    raise KeyError
                if way == "interrupt":
                    await trio.sleep_forever()
            if way == "return":
                return

    handle = runtime.spawn(new(), parent)
    await handle.send_input("go")
    await trio.sleep(2)
    match way:
        case "interrupt":
            await handle.interrupt()
            await handle.shutdown()
        case "shutdown":
            await handle.shutdown()
        case "kill":
            handle.kill()
    outcome = await handle.wait()
    expected = {"kill": EndStatus.KILLED, "crash": EndStatus.CRASHED}
    assert outcome.status is expected.get(way, EndStatus.COMPLETED)
    assert trio.current_time() < 50
    for child in children:
        assert (await child.wait()).restarts == 0
    for supervisor in supervisors:
        await supervisor.wait()
        assert supervisor.children == ()


async def test_a_child_of_a_turn_is_cancelled_with_it_and_stays_ended(runtime):
    starts = []

    async def counted(agent):
        starts.append(agent)
        await fragile(agent)

    async def parent(agent):
        supervisor = agent.supervisor()
        async for message in agent.inputs():
            async with agent.turn(message):
                supervisor.spawn(new(), counted, restart="permanent")
                await trio.sleep_forever()

    handle = runtime.spawn(new(), parent)
    await handle.send_input("go")
    await wait_all_tasks_blocked()
    await handle.interrupt()
    await trio.sleep(10)
    assert len(starts) == 1
    assert (await handle.statistics()).subagents == 0


async def test_a_keyboard_interrupt_goes_through_everything():
    async def pressed(agent):
        await trio.sleep(1)
        raise KeyboardInterrupt

    kept = []
    with pytest.raises(KeyboardInterrupt):
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            supervisor = runtime.supervisor("one_for_all", backoff=SLOW)
            kept.extend([spawn(supervisor), supervisor.spawn(new(), pressed, restart="permanent")])
            kept.append(supervisor)
            await trio.sleep_forever()
    assert [await status_of(handle) for handle in kept[:2]] == [
        EndStatus.CANCELLED,
        EndStatus.CRASHED,
    ]
    assert (await kept[2].wait()).status is EndStatus.CANCELLED


async def test_a_supervisor_outlives_a_shutdown_of_all_agents(runtime):
    supervisor = runtime.supervisor()
    handle = spawn(supervisor)
    await runtime.shutdown_all()
    assert await status_of(handle) is EndStatus.COMPLETED
    assert (await spawn(supervisor).ask("hello")).status is TurnStatus.COMPLETED


async def test_when_it_gives_up_clean_up_gets_its_time_and_the_order_is_reversed(runtime):
    ended = []

    async def clings(agent):
        try:
            await fragile(agent)
        finally:
            with agent.cleanup(1):
                await trio.sleep(0.5)
            ended.append(agent.context.name)

    supervisor = runtime.supervisor(intensity=0)
    handles = [supervisor.spawn(new(), clings, restart="permanent", name=n) for n in "abcd"]
    await handles[1].ask("crash")
    await supervisor.wait()
    assert ended == ["b", "d", "c", "a"]
    for handle in handles:
        last = [chunk async for chunk in handle.subscribe("all")][-1]
        assert isinstance(last, Exited)
        assert last.error


async def test_an_agent_that_crashes_while_its_supervisor_gives_up_says_why(runtime):
    async def crashes_on_its_way_out(agent):
        try:
            await trio.sleep_forever()
        finally:
            raise KeyError("too")

    supervisor = runtime.supervisor(intensity=0)
    first = supervisor.spawn(new(), crashes_on_its_way_out, restart="permanent")
    await spawn(supervisor).ask("crash")
    outcome = await first.wait()
    assert (outcome.status, type(outcome.error)) == (EndStatus.CRASHED, KeyError)
    assert supervisor.statistics().restarts == 0


async def test_an_agent_that_returns_while_its_supervisor_gives_up_has_not_crashed(runtime):
    made = []

    async def clings(agent):
        try:
            await trio.sleep_forever()
        finally:
            with agent.cleanup(10):
                await trio.sleep(5)

    async def parent(agent):
        made.append(agent.supervisor(intensity=0))
        made[0].spawn(new(), clings, restart="permanent")
        child = spawn(made[0])
        await child.ask("crash")
        await trio.sleep(1)  # it gives up, and waits for the other

    handle = runtime.spawn(new(), parent)
    assert await status_of(handle) is EndStatus.COMPLETED
    assert (await made[0].wait()).status is EndStatus.CRASHED


async def test_giving_up_during_a_group_s_restart(runtime):
    supervisor = runtime.supervisor("rest_for_one", intensity=1, backoff=SLOW, period=1000)
    a, b = spawn(supervisor), spawn(supervisor)
    await b.ask("crash")
    await trio.sleep(1)
    await a.ask("crash")
    outcome = await supervisor.wait()
    assert outcome.status is EndStatus.CRASHED
    assert trio.current_time() == pytest.approx(100)
    assert [await status_of(handle) for handle in (a, b)] == [
        EndStatus.CRASHED,
        EndStatus.CANCELLED,
    ]


class Failing(InMemoryStore):
    """A store whose writes fail while `broken` is set."""

    broken = False

    async def acquire(self, session_id):
        writer = await super().acquire(session_id)
        append = writer.append

        async def failing(*args, **options):
            if self.broken:
                raise SessionStorageError("the disk is gone")
            await append(*args, **options)

        writer.append = failing
        return writer


async def test_a_note_that_can_t_be_stored_is_a_crash_of_the_life_that_it_begins(caplog):
    caplog.set_level(logging.WARNING)
    store = Failing()
    async with AgentRuntime(store=store) as runtime:
        backoff = Backoff(first=1, factor=1, jitter=0)
        supervisor = runtime.supervisor(intensity=10, period=100, backoff=backoff)
        handle = spawn(supervisor)
        await handle.ask("hello")
        store.broken = True
        await handle.ask("crash")
        await trio.sleep(2.5)
        store.broken = False
        await trio.sleep(1)
        assert (await handle.ask("hello")).status is TurnStatus.COMPLETED
        await handle.shutdown()
        assert (await handle.wait()).restarts == 3
        loaded = await AgentSession.load(handle.session_id, store=store)
        assert [m.text[:20] for m in loaded.history if m.text.startswith("[The agent")] == [
            "[The agent crashed: "
        ] * 3
    assert "the disk is gone" in caplog.text


async def test_a_life_whose_last_save_fails_is_restarted_with_what_was_not_saved():
    async def unsaved(agent):
        if len(agent.session.history) < 2:
            agent.session.add_message(Message.assistant("not stored yet"))
            store.broken = True
            raise ValueError("broken")
        await fragile(agent)

    store = Failing()
    async with AgentRuntime(store=store) as runtime:
        backoff = Backoff(first=1, factor=1, jitter=0)
        supervisor = runtime.supervisor(intensity=10, period=100, backoff=backoff)
        handle = supervisor.spawn(new(), unsaved, restart="transient")
        await trio.sleep(0.5)
        store.broken = False
        assert (await handle.ask("hello")).status is TurnStatus.COMPLETED
        loaded = await AgentSession.load(handle.session_id, store=store)
        assert loaded.history[0].text == "not stored yet"


class Spoilt(Failing):
    """A store like a disk whose sync has failed: a writer that failed once fails for ever."""

    async def acquire(self, session_id):
        writer = await super().acquire(session_id)
        append, spoilt = writer.append, []

        async def failing(*args, **options):
            try:
                if spoilt:
                    raise SessionStorageError("it has failed before")
                await append(*args, **options)
            except SessionStorageError as error:
                spoilt.append(error)
                raise

        writer.append = failing
        return writer


@pytest.mark.parametrize("when", ["at the end of a life", "at the note"])
async def test_the_next_life_opens_a_session_anew_that_could_not_be_saved(when):
    store = Spoilt()

    async def unsaved(agent):
        if agent.session.history == ():
            if when == "at the end of a life":
                agent.session.add_message(Message.assistant("not stored yet"))
            store.broken = True
            raise ValueError("broken")
        await fragile(agent)

    async with AgentRuntime(store=store) as runtime:
        backoff = Backoff(first=1, factor=1, jitter=0)
        supervisor = runtime.supervisor(intensity=10, period=100, backoff=backoff)
        handle = supervisor.spawn(new(), unsaved, restart="transient")
        await trio.sleep(0.5 if when == "at the end of a life" else 1.5)
        store.broken = False
        assert (await handle.ask("hello")).status is TurnStatus.COMPLETED
        await handle.shutdown()
        assert (await handle.wait()).restarts == (1 if when == "at the end of a life" else 2)


async def test_a_group_does_not_wait_for_one_that_can_t_begin():
    store = Failing()
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        supervisor = runtime.supervisor("rest_for_one", intensity=10, period=100)
        first = supervisor.spawn(
            AgentSession.new("first", store=store), fragile, restart="permanent"
        )
        second = spawn(supervisor)
        await first.ask("hello")
        store.broken = True
        await first.ask("crash")
        await trio.sleep(1.5)
        store.broken = False
        with trio.fail_after(50):
            for handle in (first, second):
                assert (await handle.ask("hello")).status is TurnStatus.COMPLETED
