"""Interrupts at every moment of an agent's life, in every mode, beside all that may end it.

The moments are a table; each test takes an agent to each of them, does one thing there, and then
holds the same few things to be true: see `Stage.audit`.
"""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom.core import (
    AgentState,
    Done,
    Exited,
    Interrupt,
    Message,
    PermissionRequest,
    PermissionResponse,
    SelfWaitError,
    TextDelta,
    ToolEnd,
    ToolResult,
    ToolStart,
    ToolUseBlock,
    TurnStart,
    TurnStatus,
)
from greenroom.core._internal import EndStatus
from greenroom.llm import ModelError
from greenroom.resilience import Backoff
from greenroom.runtime import AgentRuntime, InterruptReport, RuntimeLimits
from greenroom.session import AgentSession, InMemoryStore

NOTHING = InterruptReport()

IN_A_TURN = [
    "at its first checkpoint",
    "in a step",
    "in a task",
    "in a tool",
    "in a clean-up",
    "at a prompt",
    "at a tool of the client",
    "waiting for input",
    "asking a subagent",
]


async def chunks_of(handle, *kinds):
    """What it has told so far, of these kinds."""
    reader = handle.subscribe("all")
    told = [await anext(reader) for _ in range(reader.lag)]
    return [chunk for chunk in told if isinstance(chunk, kinds)]


class Stage:
    """An agent that stops at one moment until `go_on` on "play", and answers any other input."""

    def __init__(self, runtime, moment, *, steer=False):
        self.runtime = runtime
        self.moment = moment
        self.steer = steer
        self.gate = trio.Event()
        self.handle = runtime.spawn(AgentSession.new("player"), self.agent)

    async def agent(self, agent):
        async for message in agent.inputs():
            if message.text == "play" and self.moment == "before its turn":
                with trio.CancelScope(shield=True):
                    await self.gate.wait()
            async with agent.turn(message, steer=self.steer):
                if message.text == "play":
                    await self.play(agent)
                else:
                    await agent.step()
                agent.session.add_message(Message.assistant(f"re {message.text}"))
            if message.text == "play" and self.moment == "between two turns":
                await self.gate.wait()

    async def play(self, agent):
        if self.moment != "at its first checkpoint":
            await agent.step()
            await agent.send(TextDelta("begun"))
        await self.hold(agent)
        await agent.step()
        await agent.send(TextDelta("another step"))
        agent.session.add_message(Message.assistant("all of it"))

    async def hold(self, agent):
        match self.moment:
            case "in a task":
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self.gate.wait)
            case "in a tool":
                await self.tool(agent)
            case "in a clean-up":
                with agent.cleanup(60):
                    await self.gate.wait()
            case "at a prompt":
                await agent.request_permission("Bash", "run ls")
            case "at a tool of the client":
                await agent.wait_tool_result("client-1")
            case "waiting for input":
                await agent.receive()
            case "asking a subagent":
                await agent.spawn(AgentSession.new("deep"), self.deep, 2, name="deep").ask("play")
            case "between two turns" | "before its turn":
                pass
            case _:
                await self.gate.wait()

    async def tool(self, agent):
        agent.session.add_message(Message.assistant([ToolUseBlock("t1", "Bash")]))
        await agent.send(ToolStart("t1", "Bash"))
        await self.gate.wait()
        await agent.send(ToolEnd("t1", ToolResult.ok("done")))

    async def deep(self, agent, depth):
        async for message in agent.inputs():
            async with agent.turn(message):
                try:
                    if depth:
                        child = agent.spawn(AgentSession.new("deep"), self.deep, depth - 1)
                        await child.ask("play")
                    else:
                        await self.gate.wait()
                finally:
                    with agent.cleanup(60):
                        await trio.sleep(0.125)

    async def begin(self):
        await wait_all_tasks_blocked()
        receipt = await self.handle.send_input("play")
        await wait_all_tasks_blocked()
        return receipt

    async def go_on(self):
        """Let the agent leave the moment in its own way."""
        self.gate.set()
        for request in await self.handle.pending():
            await self.handle.respond_permission(request.request_id, "allow")
        if self.moment == "at a tool of the client":
            await self.handle.send_tool_result("client-1", ToolResult.ok("theirs"))
        if self.moment == "waiting for input":
            await self.handle.send_input("for the turn")

    async def chunks(self, *kinds):
        return await chunks_of(self.handle, *kinds)

    async def audit(self, *, lives=True):
        """Check that it takes the next input, nothing else is alive, and the books balance."""
        self.gate.set()
        if lives:
            assert self.handle.state == AgentState.idle()
            assert (await self.handle.ask("next")).text == "re next"
            assert self.runtime.list_active() == (self.handle.session_id,)
            await self.handle.shutdown()
        outcome = await self.handle.wait()
        assert self.runtime.list_active() == ()
        turns = await self.chunks(TurnStart, Done, Exited)
        assert [type(chunk) for chunk in turns] == [TurnStart, Done] * (len(turns) // 2) + [Exited]
        assert [c.id for c in await self.chunks(ToolStart)] == [
            c.id for c in await self.chunks(ToolEnd)
        ]
        assert {c.request_id for c in await self.chunks(PermissionRequest)} == {
            c.request_id for c in await self.chunks(PermissionResponse)
        }
        history = await self.handle.history()
        calls = [call.id for message in history for call in message.tool_uses]
        assert calls == [result.tool_use_id for m in history for result in m.tool_results]
        return outcome

    async def status(self):
        """How the turn that played has ended."""
        return (await self.chunks(Done))[0].status


@pytest.fixture(params=IN_A_TURN)
async def stage(request, runtime):
    stage = Stage(runtime, request.param)
    await stage.begin()
    return stage


@pytest.mark.parametrize("grace", [0, 2.0, float("inf")])
async def test_now_ends_the_turn_at_every_moment_of_it(stage, grace):
    async with trio.open_nursery() as nursery:
        if stage.moment == "in a clean-up" and grace:
            # Only clean-up is given time, and this one goes on until it is let.
            nursery.start_soon(call_later, stage.gate.set)
        report = await stage.handle.interrupt("now", grace)
    assert report.stopped
    assert report.abandoned == ()
    assert await stage.status() is TurnStatus.INTERRUPTED
    await stage.audit()


async def call_later(function):
    await trio.sleep(1)
    function()


async def test_after_step_ends_it_at_the_next_boundary(stage):
    stage.handle.interrupt_nowait("after_step")
    await wait_all_tasks_blocked()
    assert await stage.chunks(Done) == []
    await stage.go_on()
    report = await stage.handle.interrupt("after_step")
    assert await stage.status() is TurnStatus.INTERRUPTED
    assert len(report.stopped) == (3 if stage.moment == "asking a subagent" else 1)
    assert TextDelta("another step") not in await stage.chunks(TextDelta)
    await stage.audit()


@pytest.mark.parametrize("modes", [("now", "now"), ("after_step", "now"), ("now", "after_step")])
async def test_several_at_once_are_one_and_all_get_the_same_report(stage, modes):
    reports = []

    async def interrupt(mode):
        reports.append(await stage.handle.interrupt(mode, 1))

    async with trio.open_nursery() as nursery:
        for mode in modes:
            nursery.start_soon(interrupt, mode)
    assert len(set(reports)) == 1
    assert reports[0].stopped
    assert await stage.status() is TurnStatus.INTERRUPTED
    await stage.audit()


@pytest.mark.parametrize("first", ["interrupt", "other"])
@pytest.mark.parametrize("other", ["shutdown", "kill"])
async def test_together_with_an_end_of_the_agent_in_either_order(stage, other, first):
    reports = []

    async def interrupt():
        reports.append(await stage.handle.interrupt("now", 1))

    async def end():
        stage.handle.kill() if other == "kill" else await stage.handle.shutdown(grace=60)

    async with trio.open_nursery() as nursery:
        for act in (interrupt, end) if first == "interrupt" else (end, interrupt):
            nursery.start_soon(act)
            await trio.lowlevel.checkpoint()
    assert len(reports) == 1
    assert reports[0].abandoned == ()
    outcome = await stage.audit(lives=False)
    assert outcome.status is (EndStatus.KILLED if other == "kill" else EndStatus.COMPLETED)


async def test_a_kill_while_an_interrupt_waits_for_clean_up_ends_both_at_once(runtime):
    stage = Stage(runtime, "in a clean-up")
    await stage.begin()
    before = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.handle.interrupt, "now", 30)
        await wait_all_tasks_blocked()
        stage.handle.kill()
    assert trio.current_time() == before
    await stage.audit(lives=False)


async def test_cancelling_the_one_who_interrupts_does_not_take_the_interrupt_back(stage):
    with trio.move_on_after(0):
        await stage.handle.interrupt("after_step")
    stage.handle.interrupt_nowait("after_step")
    with trio.move_on_after(1) as scope:
        await stage.handle.interrupt("after_step")
    assert scope.cancelled_caught
    await stage.go_on()
    await trio.sleep(1)
    assert await stage.status() is TurnStatus.INTERRUPTED
    await stage.audit()


@pytest.mark.parametrize("steer", [False, True])
async def test_input_that_waits_begins_the_next_turn_when_the_interrupt_is_done(runtime, steer):
    stage = Stage(runtime, "in a step", steer=steer)
    await stage.begin()
    receipts = [await stage.handle.send_input(text) for text in ("second", "third")]
    stage.handle.interrupt_nowait()
    receipts.append(await stage.handle.send_input("fourth"))
    assert [receipt.status for receipt in receipts] == ["steered" if steer else "queued"] * 2 + [
        "queued"
    ]
    await wait_all_tasks_blocked()
    texts = [m.text for m in await stage.handle.history() if m.role == "user"]
    assert texts == ["play", "second", "third", "fourth"]
    assert await stage.status() is TurnStatus.INTERRUPTED
    await stage.audit()


class SlowStore(InMemoryStore):
    """Opens a session when `gate` is set."""

    def __init__(self):
        super().__init__()
        self.gate = trio.Event()

    async def acquire(self, session_id):
        await self.gate.wait()
        return await super().acquire(session_id)


@pytest.mark.parametrize("mode", ["now", "after_step"])
@pytest.mark.parametrize(
    "moment", ["not begun", "being opened", "idle", "between two turns", "ended"]
)
async def test_without_a_turn_in_flight_nothing_is_changed(runtime, moment, mode):
    stage = Stage(runtime, moment)
    if moment == "between two turns":
        await stage.begin()
    elif moment == "idle":
        await wait_all_tasks_blocked()
    elif moment == "ended":
        await stage.handle.shutdown()
    stage.handle.interrupt_nowait(mode)
    assert await stage.handle.interrupt(mode) == NOTHING
    if moment == "between two turns":
        assert await stage.status() is TurnStatus.COMPLETED
        stage.gate.set()
        await wait_all_tasks_blocked()
    await stage.audit(lives=moment != "ended")


async def test_while_the_session_is_being_opened_input_waits_and_is_not_interrupted(runtime):
    store = SlowStore()
    seen = []

    async def agent_fn(agent):
        seen.append(await agent.receive())
        async for message in agent.inputs():
            async with agent.turn(message):
                seen.append(message.text)

    handle = runtime.spawn(AgentSession.new("worker", store=store), agent_fn)
    assert (await handle.send_input("early")).status == "queued"
    await wait_all_tasks_blocked()
    assert await handle.interrupt() == NOTHING
    store.gate.set()
    await wait_all_tasks_blocked()
    # A loop in `receive()` hears of the interrupt, before the input that has waited longer.
    assert seen == [Interrupt(), "early"]
    (done,) = await chunks_of(handle, Done)
    assert done.status is TurnStatus.COMPLETED


async def test_an_idle_interrupt_is_not_heard_of_inside_the_next_turn(runtime):
    heard = []

    async def agent_fn(agent):
        message = await agent.receive()
        await trio.sleep(1)
        agent_again = runtime.get(agent.session.session_id)
        async with agent.turn(message):
            pass
        agent_again.interrupt_nowait()
        async with agent.turn(message):
            heard.append(await agent.receive())

    handle = runtime.spawn(AgentSession.new("worker"), agent_fn)
    await handle.send_input("a")
    await trio.sleep(2)
    await handle.send_input("b")
    await handle.wait(check=True)
    assert [message.text for message in heard] == ["b"]


async def test_input_that_a_waiting_agent_was_handed_is_its_turn_in_flight_at_once(runtime):
    stage = Stage(runtime, "in a step")
    await wait_all_tasks_blocked()
    receipt = stage.handle.send_input_nowait("play")
    assert receipt.status == "delivered"
    # The agent has not run since.
    report = await stage.handle.interrupt()
    assert report == InterruptReport(stopped=("the turn",))
    assert await stage.status() is TurnStatus.INTERRUPTED
    assert await stage.chunks(TextDelta) == []
    await stage.audit()


async def test_input_that_a_waiting_agent_was_handed_is_not_taken_back_by_a_shutdown(runtime):
    stage = Stage(runtime, "idle")
    await wait_all_tasks_blocked()
    assert stage.handle.send_input_nowait("hello").status == "delivered"
    await stage.handle.shutdown()
    assert [message.text for message in await stage.handle.history()] == ["hello", "re hello"]
    assert (await stage.audit(lives=False)).undelivered == ()


@pytest.mark.parametrize("mode", ["now", "after_step"])
async def test_a_message_that_is_taken_and_not_yet_in_its_turn_counts_for_it(runtime, mode):
    stage = Stage(runtime, "before its turn")
    await stage.begin()
    stage.handle.interrupt_nowait(mode)
    stage.gate.set()
    assert (await stage.handle.interrupt(mode)).stopped == ("the turn",)
    assert await stage.status() is TurnStatus.INTERRUPTED
    await stage.audit()


@pytest.mark.parametrize("mode", ["now", "after_step"])
async def test_a_message_that_is_answered_without_a_turn_leaves_nothing_to_stop(runtime, mode):
    async def agent_fn(agent):
        async for _ in agent.inputs():
            await trio.sleep(1)

    handle = runtime.spawn(AgentSession.new("worker"), agent_fn)
    await handle.send_input("go")
    await wait_all_tasks_blocked()
    assert await handle.interrupt(mode) == NOTHING


@pytest.mark.parametrize("mode", ["now", "after_step"])
async def test_two_tasks_that_receive_and_open_no_turn_do_not_hold_an_interrupt(runtime, mode):
    async def receive(agent):
        async for _ in agent.inputs():
            await trio.sleep(1)

    async def agent_fn(agent):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive, agent)
            nursery.start_soon(receive, agent)

    handle = runtime.spawn(AgentSession.new("worker"), agent_fn)
    await handle.send_input("go")
    await wait_all_tasks_blocked()
    before = trio.current_time()
    with trio.fail_after(60):
        assert await handle.interrupt(mode) == NOTHING
    assert trio.current_time() == before + 1


async def test_a_turn_that_another_task_opens_after_an_interrupt_ends_at_once(runtime):
    passed, ended = trio.open_memory_channel(1), []

    async def receive(agent):
        async for message in agent.inputs():
            await trio.sleep(1)
            await passed[0].send(message)

    async def answer(agent):
        async for message in passed[1]:
            await trio.sleep(1)
            async with agent.turn(message):
                await trio.sleep_forever()
            ended.append(trio.current_time())

    async def agent_fn(agent):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive, agent)
            nursery.start_soon(answer, agent)

    handle = runtime.spawn(AgentSession.new("worker"), agent_fn)
    await handle.send_input("go")
    await wait_all_tasks_blocked()
    before = trio.current_time()
    with trio.fail_after(60):
        await handle.interrupt("after_step")
        await trio.sleep(5)
    assert ended == [before + 2]


async def test_clean_up_between_the_message_and_its_turn_is_clipped_too(runtime):
    async def agent_fn(agent):
        async for message in agent.inputs():
            if message.text == "play":
                await trio.sleep(1)
                with agent.cleanup(60):
                    await trio.sleep_forever()
            async with agent.turn(message):
                pass

    handle = runtime.spawn(AgentSession.new("worker"), agent_fn)
    await handle.send_input("play")
    await wait_all_tasks_blocked()
    before = trio.current_time()
    await handle.interrupt(grace=3)
    assert trio.current_time() == before + 3


@pytest.mark.parametrize("how", ["shutdown", "kill"])
async def test_a_message_whose_turn_was_prevented_from_outside_is_undelivered(runtime, how):
    async def agent_fn(agent):
        async for message in agent.inputs():
            await trio.sleep_forever()
            async with agent.turn(message):
                raise AssertionError("not reached")

    handle = runtime.spawn(AgentSession.new("worker"), agent_fn)
    await handle.send_input("first")
    await wait_all_tasks_blocked()
    await handle.send_input("second")
    handle.kill() if how == "kill" else await handle.shutdown(grace=1)
    outcome = await handle.wait()
    assert [message.text for message in outcome.undelivered] == ["first", "second"]
    assert await handle.history() == ()


class Settling:
    """An agent whose turn has ended in one way or other, and whose save waits for a gate."""

    def __init__(self, runtime, ends_with=None):
        self.saving, self.gate = trio.Event(), trio.Event()
        self.error = ends_with
        self.children = []
        self.handle = runtime.spawn(AgentSession.new("worker"), self.agent)

    async def agent(self, agent):
        save = agent.session.journal.save

        async def slow():
            self.saving.set()
            await self.gate.wait()
            await save()

        async for message in agent.inputs():
            async with agent.turn(message):
                if message.text == "go":
                    agent.session.journal.save = slow
                    self.children.append(agent.spawn(AgentSession.new("child"), self.child))
                    await wait_all_tasks_blocked()
                    if self.error:
                        raise self.error

    async def child(self, agent):
        self.cleaned = trio.Event()
        try:
            await trio.sleep(100)
        finally:
            with agent.cleanup(60):
                await trio.sleep(30)
                self.cleaned.set()


@pytest.mark.parametrize("mode", ["now", "after_step"])
async def test_while_it_settles_an_interrupt_claims_nothing_and_waits_no_longer_than_its_grace(
    mode,
):
    async with AgentRuntime(InMemoryStore(), RuntimeLimits(flush_grace=1000)) as runtime:
        settling = Settling(runtime)
        await settling.handle.send_input("go")
        await settling.saving.wait()
        before = trio.current_time()
        report = await settling.handle.interrupt(mode, grace=1)
        assert trio.current_time() == before + 1.25
        assert report.stopped == ()
        assert report.abandoned
        settling.gate.set()
        await wait_all_tasks_blocked()
        (done,) = await chunks_of(settling.handle, Done)
        assert done.status is TurnStatus.COMPLETED
        settling.handle.kill()


async def test_a_turn_that_completed_leaves_its_subagents_their_own_time_for_clean_up(runtime):
    settling = Settling(runtime)
    await settling.handle.send_input("go")
    await settling.saving.wait()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(settling.handle.interrupt, "now", 1)
        await wait_all_tasks_blocked()
        settling.gate.set()
    (child,) = settling.children
    await child.shutdown(grace=10)
    assert settling.cleaned.is_set()


async def test_after_step_does_not_wait_for_a_boundary_once_the_body_is_over(runtime):
    async def body_then_hang(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                agent.spawn(AgentSession.new("child"), stubborn)
                await trio.sleep(1)
                raise ModelError("down")

    async def stubborn(agent):
        try:
            await trio.sleep_forever()
        finally:
            with agent.cleanup(1000):
                await trio.sleep_forever()

    handle = runtime.spawn(AgentSession.new("worker"), body_then_hang)
    await handle.send_input("go")
    await wait_all_tasks_blocked()
    before = trio.current_time()
    report = await handle.interrupt("after_step", grace=2)
    # One second of the body, then the grace, which clips what the failed turn has to clean up.
    assert trio.current_time() == before + 3
    assert report == NOTHING


async def test_from_a_thread_of_a_tool(runtime):
    async def body(agent):
        handle = runtime.get(agent.session.session_id)

        def blocking():
            with pytest.raises(SelfWaitError):
                trio.from_thread.run(handle.interrupt)
            trio.from_thread.run_sync(handle.interrupt_nowait)

        await trio.to_thread.run_sync(blocking)
        await trio.sleep_forever()

    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await body(agent)

    handle = runtime.spawn(AgentSession.new("worker"), agent_fn)
    assert (await handle.ask("go")).status is TurnStatus.INTERRUPTED


async def test_from_a_subscriber_outside_and_not_from_one_inside(runtime):
    reports = []

    async def watch(handle):
        async with handle.subscribe() as chunks:
            async for chunk in chunks:
                if isinstance(chunk, TextDelta):
                    reports.append(await handle.interrupt())
                    return

    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                if message.text == "inside":
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(watch, runtime.get(agent.session.session_id))
                        await agent.send(TextDelta("x"))
                await agent.send(TextDelta("x"))
                await trio.sleep_forever()

    handle = runtime.spawn(AgentSession.new("worker"), agent_fn)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, handle)
        assert (await handle.ask("outside")).status is TurnStatus.INTERRUPTED
    assert reports == [InterruptReport(stopped=("the turn",))]
    result = await handle.ask("inside")
    assert "would wait for the agent" in result.error


@pytest.mark.parametrize("wrong", [-1, float("nan"), -0.001])
async def test_a_grace_is_a_number_of_seconds_from_zero(runtime, wrong):
    stage = Stage(runtime, "in a step")
    await stage.begin()
    handle = stage.handle
    for refused in (
        handle.interrupt("now", wrong),
        handle.shutdown(wrong),
        runtime.shutdown(handle.session_id, wrong),
        runtime.shutdown_all(wrong),
    ):
        with pytest.raises(ValueError, match="from 0"):
            await refused
    with pytest.raises(ValueError, match="from 0"):
        handle.interrupt_nowait("now", wrong)
    # Nothing was begun: it still takes input and goes on.
    assert (await handle.send_input("next")).status == "queued"
    assert await stage.chunks(Done) == []
    with pytest.raises(ValueError, match="'later'"):
        await handle.interrupt("later")
    with pytest.raises(ValueError, match="'later'"):
        handle.interrupt_nowait("later")
    handle.kill()


@pytest.mark.parametrize("mode", ["now", "after_step"])
async def test_between_two_lives_nothing_is_in_flight_and_the_input_gets_its_turn(runtime, mode):
    lives = []

    async def agent_fn(agent):
        lives.append(trio.current_time())
        async for message in agent.inputs():
            if len(lives) == 1:
                raise ValueError("the first life")
            async with agent.turn(message):
                pass

    supervisor = runtime.supervisor(backoff=Backoff(first=10.0, jitter=0.0))
    handle = supervisor.spawn(AgentSession.new("worker"), agent_fn, restart="transient")
    await handle.send_input("go")
    await wait_all_tasks_blocked()
    assert await handle.interrupt(mode) == NOTHING
    await trio.sleep(11)
    (done,) = await chunks_of(handle, Done)
    assert (len(lives), done.status) == (2, TurnStatus.COMPLETED)


async def test_a_life_that_ends_while_it_is_interrupted_is_followed_by_the_next(runtime):
    lives = []

    async def agent_fn(agent):
        lives.append(trio.current_time())
        async for message in agent.inputs():
            async with agent.turn(message):
                if len(lives) == 1:
                    try:
                        await trio.sleep_forever()
                    finally:
                        raise ValueError("while it was stopped")

    supervisor = runtime.supervisor()
    handle = supervisor.spawn(AgentSession.new("worker"), agent_fn, restart="transient")
    await handle.send_input("go")
    await wait_all_tasks_blocked()
    report = await handle.interrupt()
    assert report == InterruptReport(stopped=("the turn",))
    assert (await handle.ask("again")).status is TurnStatus.COMPLETED
    assert len(lives) == 2
