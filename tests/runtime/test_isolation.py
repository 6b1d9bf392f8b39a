"""One bad agent: nothing that it does ends another agent, the runtime, or a wait for it."""

import contextlib
import io
import logging
import subprocess
import sys
import traceback
from contextvars import ContextVar

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from greenroom.core import (
    AgentExit,
    AgentState,
    Done,
    Error,
    Exited,
    GreenroomError,
    Message,
    ModelRequest,
    PermissionRequest,
    Restarted,
    SubAgentResult,
    TextBlock,
    ToolStart,
    ToolUseBlock,
    TurnError,
    TurnStatus,
    Usage,
    UserInput,
)
from greenroom.core._internal import EndStatus, EventLoopError, describe_error, log_error
from greenroom.resilience import Backoff, Budget
from greenroom.runtime import AgentNotRunningError, AgentRuntime, lifecycle
from greenroom.runtime.turns import Turns
from greenroom.session import AgentSession, InMemoryStore
from greenroom.testing import ScriptedProvider

MOST = 2_000


def new(session_id=None):
    return AgentSession.new("worker", session_id=session_id)


async def echo(agent):
    async for message in agent.inputs():
        async with agent.turn(message):
            agent.session.add_message(Message.assistant(f"re {message.text}"))


class UnprintableError(Exception):
    def __str__(self):
        raise ZeroDivisionError

    __repr__ = __str__


class LyingError(ExceptionGroup):
    """A group whose own methods break."""

    def derive(self, _):
        raise ZeroDivisionError

    def split(self, _):
        raise ZeroDivisionError

    def subgroup(self, _):
        raise ZeroDivisionError

    @property
    def exceptions(self):
        raise ZeroDivisionError


class NeverInitialised(GreenroomError):
    def __init__(self):
        pass


class NoTextError(GreenroomError):
    def __init__(self):
        super().__init__(404, hint=None)


class ExitingError(Exception):
    def __str__(self):
        raise SystemExit("while it was printed")


class DisguisedError(Exception):
    @property
    def __class__(self):
        return GreenroomError


class FaithlessError(Exception):
    """Can't be asked anything: not what it is, nor whether it is true, or equal to another."""

    def __bool__(self):
        raise ZeroDivisionError

    def __eq__(self, _):
        raise ZeroDivisionError

    __hash__ = None

    @property
    def __class__(self):
        raise ZeroDivisionError


class FalseError(Exception):
    def __len__(self):
        return 0


class ShortText(str):
    def __len__(self):
        return 3


class LyingTextError(Exception):
    def __str__(self):
        return ShortText("z" * 10_000_000)


class NamelessType(type):
    @property
    def __name__(cls):
        raise ZeroDivisionError


class NamelessError(Exception, metaclass=NamelessType):
    pass


def shared(depth):
    """Groups that would hold 2 ** depth exceptions, were each taken apart every time."""
    error = ValueError("at the bottom")
    for _ in range(depth):
        error = ExceptionGroup("g", [error, error])
    return error


def nested(depth, leaf):
    error = leaf
    for _ in range(depth):
        error = ExceptionGroup("g", [error])
    return error


def chained(depth):
    error = ValueError("the first")
    for _ in range(depth):
        following = ValueError("the next")
        following.__cause__ = error
        error = following
    return error


ERRORS = {
    "unprintable": UnprintableError,
    "deep": lambda: nested(3000, ValueError("at the bottom")),
    "deep and unprintable": lambda: nested(3000, UnprintableError()),
    "long": lambda: ValueError("x" * 10_000_000),
    "many long": lambda: ExceptionGroup("", [ValueError("y" * 100_000) for _ in range(100)]),
    "long chain": lambda: chained(3000),
    "lying group": lambda: LyingError("g", [ValueError("inside")]),
    "never initialised": NeverInitialised,
    "no text": NoTextError,
    "exits when printed": ExitingError,
    "disguised": DisguisedError,
    "faithless": FaithlessError,
    "false": FalseError,
    "lying text": LyingTextError,
    "nameless": NamelessError,
    "long name": type("N" * 1_000_000, (Exception,), {}),
    "no unicode": lambda: ValueError("lone \ud800 surrogate"),
    "sys.exit": lambda: SystemExit("as argparse does"),
    "generator exit": GeneratorExit,
}


# What trio itself can't print, where a task in a nursery of the agent's own raises it.
BEYOND_TRIO = {"unprintable", "deep", "deep and unprintable"}


TYPED = {"never initialised", "no text"}  # these end the turn, not the agent


class Recursive(logging.Handler):
    """A handler that recurses into groups, as some formatters of JSON do."""

    def __init__(self):
        super().__init__()
        self.longest = 0
        self.without_traceback = 0

    def emit(self, record):
        self.longest = max(self.longest, len(record.getMessage()))
        self.without_traceback += not record.exc_info
        if record.exc_info and record.exc_info[1] is not None:
            self._visit(record.exc_info[1])

    def _visit(self, error):
        str(error)
        for part in getattr(error, "exceptions", ()):
            self._visit(part)


@pytest.fixture(autouse=True)
def log():
    """No error may reach a log in a form that breaks, or floods, an ordinary handler."""
    logger, handler = logging.getLogger("greenroom"), Recursive()
    logger.addHandler(handler)
    logger.propagate = False  # pytest's own handler would print it all
    yield handler
    logger.removeHandler(handler)
    logger.propagate = True
    assert handler.longest < 10_000


async def crash_agent(runtime, error):
    async def bad(agent):
        await agent.receive()
        raise error

    handle = runtime.spawn(new("bad"), bad)
    await handle.send_input("go")
    return handle


async def crash_in_turn(runtime, error):
    async def bad(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                raise error

    handle = runtime.spawn(new("bad"), bad)
    await handle.send_input("go")
    return handle


async def crash_task(runtime, error):
    async def bad(agent):
        async def tool():
            await agent.receive()
            raise error

        async with trio.open_nursery() as nursery:
            nursery.start_soon(tool)

    handle = runtime.spawn(new("bad"), bad)
    await handle.send_input("go")
    return handle


async def crash_cleanup(runtime, error):
    async def bad(agent):
        try:
            async for message in agent.inputs():
                async with agent.turn(message):
                    await trio.sleep_forever()
        finally:
            with agent.cleanup(1.0):
                raise error

    handle = runtime.spawn(new("bad"), bad)
    await handle.send_input("go")
    await wait_all_tasks_blocked()
    with trio.move_on_after(0):
        await handle.shutdown(grace=0)
    return handle


async def crash_child(runtime, error):
    async def child(agent):
        raise error

    async def parent(agent):
        agent.spawn(new("bad"), child)
        async for message in agent.inputs():
            async with agent.turn(message):
                pass

    handle = runtime.spawn(new("parent"), parent)
    await wait_all_tasks_blocked()
    assert "SubAgentResult" not in str(await handle.pending())
    history = await handle.history()
    assert len(history) == 1  # the parent was told, in words that fit
    return handle


async def crash_background(runtime, error):
    async def bad(agent):
        async def command():
            await agent.receive()
            raise error

        agent.context.start_background(command, sender="Bash", label="the command")
        await trio.sleep_forever()

    handle = runtime.spawn(new("bad"), bad)
    await handle.send_input("go")
    return handle


async def crash_supervised(runtime, error):
    async def bad(agent):
        raise error

    supervisor = runtime.supervisor(intensity=1, backoff=Backoff(first=0.1, jitter=0))
    handle = supervisor.spawn(new("bad"), bad, restart="permanent")
    assert (await supervisor.wait()).status is EndStatus.CRASHED
    return handle


async def crash_group(runtime, error):
    async def bad(agent):
        raise error

    backoff = Backoff(first=0.1, jitter=0)
    supervisor = runtime.supervisor("one_for_all", intensity=1, backoff=backoff)
    handle = supervisor.spawn(new("bad"), bad, restart="permanent")
    other = supervisor.spawn(new("other"), echo, restart="permanent")
    assert (await supervisor.wait()).status is EndStatus.CRASHED
    (why,) = [chunk.error async for chunk in held(other) if isinstance(chunk, Restarted)]
    assert why == "worker crashed"
    return handle


PLACES = [
    crash_agent,
    crash_in_turn,
    crash_task,
    crash_cleanup,
    crash_child,
    crash_background,
    crash_supervised,
    crash_group,
]


def run(function, *args):
    """Run a test whose failure pytest could not print, and say what failed."""
    problem = ""
    try:
        trio.run(function, *args, clock=MockClock(autojump_threshold=0))
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        problem = f"{describe_error(error)} at {frames[-1]}"
    assert not problem


@pytest.mark.parametrize(
    ("place", "error"),
    [
        pytest.param(place, error, id=f"{place.__name__}-{name}")
        for place in PLACES
        for name, error in ERRORS.items()
        if (place is not crash_task or name not in BEYOND_TRIO)
        and (place is not crash_in_turn or name not in TYPED)
    ],
)
@pytest.mark.every(4)
def test_no_exception_reaches_further_than_its_agent(place, error):
    error = error()

    async def main():
        with trio.fail_after(1000):
            async with AgentRuntime(store=InMemoryStore()) as runtime:
                sibling = runtime.spawn(new("sibling"), echo)
                handle = await place(runtime, error)
                if place is not crash_child:
                    outcome = await handle.wait()
                    assert outcome.status is EndStatus.CRASHED
                    assert outcome.error is not None
                    assert handle.state.is_final
                    assert handle.state != AgentState.done()
                assert not runtime.is_running("bad")
                assert (await sibling.ask("still there?")).text == "re still there?"
                await check_texts(handle)

    run(main)


@pytest.mark.parametrize("is_late", [False, True])
async def test_what_runs_beside_an_agent_crashes_it_and_nobody_else(runtime, is_late):
    sibling = runtime.spawn(new("sibling"), echo)
    error = ValueError("the command is broken")

    async def bad(agent):
        async def command():
            try:
                await trio.sleep_forever() if is_late else await trio.sleep(1)
            finally:
                raise error

        agent.context.start_background(command, sender="Bash", label="the command")
        await trio.sleep(2)

    outcome = await runtime.spawn(new("bad"), bad).wait()
    assert outcome.status is EndStatus.CRASHED
    assert outcome.error is error
    assert trio.current_time() == (2 if is_late else 1)
    assert (await sibling.ask("still there?")).text == "re still there?"


async def test_a_bug_of_the_runtime_in_a_subagent_is_no_crash_of_its_parent(monkeypatch):
    async def child(agent):
        await agent.receive()

    async def parent(agent):
        agent.spawn(new("child"), child)
        await trio.sleep_forever()

    def broken(actor, exited):
        assert actor.session_id != "child", "the runtime's own bug"
        publish_end(actor, exited)

    publish_end = lifecycle._publish_end
    monkeypatch.setattr(lifecycle, "_publish_end", broken)

    async def main():
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            runtime.spawn(new("parent"), parent)
            await wait_all_tasks_blocked()
            runtime.get("child").kill()
            await trio.sleep_forever()

    with pytest.raises(AssertionError, match="the runtime's own bug"):
        await main()


@pytest.mark.parametrize("place", [lifecycle, Turns], ids=["the outcome", "the turns"])
async def test_a_bug_of_the_runtime_at_an_end_keeps_nobody_waiting(monkeypatch, place):
    async def child(agent):
        await agent.receive()

    async def parent(agent):
        handles.append(agent.spawn(new("child"), child))
        await agent.receive()  # and returns, so that its subagents are ended

    def broken(ending):
        assert getattr(ending, "agent", ending).session_id != "child", "the runtime's own bug"
        return end(ending)

    handles, name = [], "_make_outcome" if place is lifecycle else "drop_unopened"
    end = getattr(place, name)
    monkeypatch.setattr(place, name, broken)

    async def main():
        with trio.fail_after(1000):
            async with AgentRuntime(store=InMemoryStore()) as runtime:
                runtime.spawn(new("parent"), parent).send_input_nowait("go")
                await trio.sleep_forever()

    with pytest.raises(AssertionError, match="the runtime's own bug"):
        await main()
    await handles[0].wait()


async def check_texts(handle):
    """All texts about an error fit on a screen, in a history and in a chunk."""
    for message in await handle.history():
        assert len(message.text) <= MOST + 100
    async for chunk in held(handle):
        match chunk:
            case Error(message=text, kind=kind):
                assert len(text) <= MOST
                assert len(kind) <= MOST
            case Exited(error=text) | Done(error=text):
                assert len(text) <= MOST


async def held(handle):
    """The chunks that are held already."""
    subscription = handle.subscribe("all")
    while subscription.lag:
        yield await subscription.__anext__()


async def test_what_others_are_told_of_an_end_is_short(runtime):
    seen = []

    async def bad(agent):
        raise ValueError("x" * 10_000_000)

    async def parent(agent):
        agent.monitor(runtime.spawn(new(), bad))
        agent.spawn(new(), bad)
        async for message in agent.inputs():
            seen.append(message)  # noqa: PERF401

    handle = runtime.spawn(new(), parent)
    await wait_all_tasks_blocked()
    assert {type(message) for message in seen} == {AgentExit, SubAgentResult}
    assert all(len(message.error) <= MOST for message in seen)
    handle.kill()


def test_an_error_is_described_by_its_leaves_whatever_it_is():
    for make in ERRORS.values():
        text = describe_error(make())
        assert 0 < len(text) <= MOST
        assert text.encode()


@pytest.mark.parametrize("error", [NeverInitialised, NoTextError])
async def test_one_of_our_errors_without_a_text_ends_the_turn_only(runtime, error):
    async def bad(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                raise error

    handle = runtime.spawn(new(), bad)
    for _ in range(2):
        result = await handle.ask("go")
        assert result.status is TurnStatus.FAILED
        assert result.error


@pytest.mark.parametrize("place", [crash_agent, crash_in_turn, crash_child, crash_supervised])
def test_groups_that_share_their_parts_do_not_block_the_event_loop(place):
    test_no_exception_reaches_further_than_its_agent(place, lambda: shared(60))


@pytest.mark.parametrize(
    "make", [lambda: shared(18), lambda: ExceptionGroup("", [ValueError()] * 10**5)]
)
def test_a_large_group_is_logged_without_its_traceback(make, log):
    log_error(logging.getLogger("greenroom"), "it failed", make())
    assert log.without_traceback == 1


def test_where_the_log_raises_an_error_is_still_written(capsys):
    class Broken(logging.Handler):
        def emit(self, record):
            raise ZeroDivisionError

    handler = Broken()
    logging.getLogger("greenroom").addHandler(handler)
    try:
        run_crash_beside_a_sibling(ValueError("the reason"))
    finally:
        logging.getLogger("greenroom").removeHandler(handler)
    assert "the reason" in capsys.readouterr().err


def run_crash_beside_a_sibling(error, store=InMemoryStore):
    """Run an agent that raises an error, and check that its end reaches no other agent."""

    async def bad(agent):
        raise error

    async def main():
        async with AgentRuntime(store=store()) as runtime:
            sibling = runtime.spawn(new("sibling"), echo)
            outcome = await runtime.spawn(new("bad"), bad).wait()
            assert outcome.status is EndStatus.CRASHED
            assert (await sibling.ask("still there?")).text == "re still there?"

    run(main)


STORE_ERRORS = ("unprintable", "never initialised", "disguised", "sys.exit")


@pytest.mark.parametrize("method", ["acquire", "read", "append", "write_metadata", "release"])
@pytest.mark.parametrize("error", [ERRORS[name] for name in STORE_ERRORS], ids=STORE_ERRORS)
def test_no_exception_of_a_store_reaches_further_than_its_agent(method, error):
    class Writer:
        def __init__(self, writer):
            self._writer = writer

        def __getattr__(self, name):
            return fail if name == method else getattr(self._writer, name)

    async def fail(*_):
        raise error()

    class Store(InMemoryStore):
        async def acquire(self, session_id):
            writer = await super().acquire(session_id)
            if session_id != "bad":
                return writer
            return await fail() if method == "acquire" else Writer(writer)

    async def main():
        async with AgentRuntime(store=Store()) as runtime:
            sibling = runtime.spawn(new("sibling"), echo)
            handle = runtime.spawn(new("bad"), echo)
            with contextlib.suppress(AgentNotRunningError):
                await handle.ask("go")
            await handle.shutdown()
            crashed = (await handle.wait()).status is EndStatus.CRASHED
            assert crashed == (method != "release")
            assert (await sibling.ask("still there?")).text == "re still there?"

    run(main)


async def test_a_store_that_fails_while_its_agent_is_killed_ends_that_agent_only():
    class Store(InMemoryStore):
        async def acquire(self, session_id):
            if session_id == "bad":
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self.fail)
                    await trio.sleep_forever()
            return await super().acquire(session_id)

        async def fail(self):
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError

    async with AgentRuntime(store=Store()) as runtime:
        sibling = runtime.spawn(new("sibling"), echo)
        handle = runtime.spawn(new("bad"), echo)
        await wait_all_tasks_blocked()
        handle.kill()
        assert (await handle.wait()).status is EndStatus.KILLED
        assert (await sibling.ask("still there?")).text == "re still there?"


class Leaky:
    """An async generator's loop left by `break` while it holds a cancel scope."""

    @staticmethod
    async def ticks():
        with trio.move_on_after(5):
            while True:
                yield 1
                await trio.lowlevel.checkpoint()


async def break_out_of_a_generator(agent, message):
    ticks = Leaky.ticks()
    async for _ in ticks:
        break
    agent.kept = ticks  # else it is closed unseen


async def enter_a_scope(agent, message):
    trio.CancelScope().__enter__()


async def leave_scopes_in_the_wrong_order(agent, message):
    one, other = trio.CancelScope(), trio.CancelScope()
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)


async def enter_a_turn(agent, message):
    await agent.turn(message).__aenter__()
    agent.session.add_message(Message.assistant([ToolUseBlock("t1", "Tool")]))


async def open_a_nursery(agent, message):
    nursery = await trio.open_nursery().__aenter__()
    nursery.start_soon(slow_to_end, agent)


async def open_a_nursery_in_another(agent, message):
    """trio closes the inner one in place of the outer one, and forgets the inner one's tasks."""
    async with trio.open_nursery():
        await open_a_nursery(agent, message)


async def open_a_nursery_in_a_task(agent, message):
    with contextlib.suppress(ExceptionGroup):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(open_a_nursery, agent, message)


async def slow_to_end(agent):
    try:
        await trio.sleep_forever()
    finally:
        with agent.cleanup(2.0):
            await trio.sleep(1)
            agent.session.set_metadata("cleaned", True)


async def leave_a_scope_in_another_task(agent, message):
    scope = trio.CancelScope()
    scope.__enter__()

    async def leave():
        with contextlib.suppress(RuntimeError):
            scope.__exit__(None, None, None)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(leave)


async def raise_a_cancel_of_ones_own(agent, message):
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as cancelled:
            kept = cancelled
    raise kept


MISNESTINGS = [
    break_out_of_a_generator,
    enter_a_scope,
    leave_scopes_in_the_wrong_order,
    enter_a_turn,
    open_a_nursery,
    open_a_nursery_in_another,
    open_a_nursery_in_a_task,
    leave_a_scope_in_another_task,
    raise_a_cancel_of_ones_own,
]


@pytest.mark.parametrize("mishap", MISNESTINGS, ids=lambda mishap: mishap.__name__)
@pytest.mark.parametrize("within", ["a turn", "no turn", "a supervised agent"])
@pytest.mark.filterwarnings("ignore:Async generator")
async def test_what_an_agent_leaves_open_stays_in_it(runtime, mishap, within):
    sibling = runtime.spawn(new("sibling"), echo)
    await wait_all_tasks_blocked()
    before = trio.lowlevel.current_statistics().tasks_living

    async def bad(agent):
        message = await agent.receive()
        if within == "a turn" and mishap is not enter_a_turn:
            async with agent.turn(message):
                await mishap(agent, message)
        else:
            await mishap(agent, message)

    if within == "a supervised agent":
        supervisor = runtime.supervisor(intensity=0)
        handle = supervisor.spawn(new("bad"), bad, restart="transient")
    else:
        handle = runtime.spawn(new("bad"), bad)
    await handle.send_input("go")
    outcome = await handle.wait()
    assert outcome.status in {EndStatus.COMPLETED, EndStatus.CRASHED}
    assert not runtime.is_running("bad")
    assert trio.lowlevel.current_statistics().tasks_living == before
    assert (await sibling.ask("still there?")).text == "re still there?"
    if "open_a_nursery" in mishap.__name__:
        assert (await handle.metadata())["cleaned"]


async def test_what_a_lost_task_starts_in_its_end_is_waited_for_too(runtime):
    may_start, may_end = trio.Event(), trio.Event()

    async def bad(agent):
        async with trio.open_nursery():  # trio closes the other one in its place
            lost = await trio.open_nursery().__aenter__()
            lost.start_soon(start_another, lost)
            await wait_all_tasks_blocked()

    async def start_another(lost):
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await may_start.wait()
            lost.start_soon(outlive)

    async def outlive():
        with trio.CancelScope(shield=True):
            await may_end.wait()

    handle = runtime.spawn(new("bad"), bad)
    await wait_all_tasks_blocked()
    may_start.set()
    await wait_all_tasks_blocked()
    assert runtime.is_running("bad")
    may_end.set()
    assert (await handle.wait()).status is EndStatus.CRASHED


async def test_a_turn_that_was_never_left_is_closed_as_failed(runtime):
    async def bad(agent):
        await enter_a_turn(agent, await agent.receive())

    handle = runtime.spawn(new(), bad)
    result = await handle.ask("go")
    assert result.status is TurnStatus.FAILED
    assert "async with agent.turn(message)" in result.error
    await handle.wait()
    *_, last = await handle.history()
    assert [each.tool_use_id for each in last.tool_results] == ["t1"]


async def test_a_slot_that_was_never_left_is_given_back_for_others(runtime):
    purse = Budget(concurrency=1)

    async def bad(agent):
        call = agent.tool_call(ToolUseBlock("t1", "Tool")).__enter__()
        await call.running().__aenter__()

    async def good(agent):
        with agent.tool_call(ToolUseBlock("t2", "Tool")) as call:
            async with call.running():
                assert purse.statistics().running == 1

    await runtime.spawn(new("bad"), bad, budget=purse).wait()
    assert purse.statistics().running == 0
    with trio.fail_after(1000):
        await runtime.spawn(new("good"), good, budget=purse).wait(check=True)


async def test_a_budget_that_was_never_left_ends_with_the_life_that_opened_it(runtime):
    async def bad(agent):
        await (
            agent.step()
        )  # in the second life, this is refused if the budget of the first one holds
        agent.budget(model_calls=0).__enter__()
        raise ValueError

    supervisor = runtime.supervisor(intensity=1, backoff=Backoff(first=0.1, jitter=0))
    handle = supervisor.spawn(new("bad"), bad, restart="permanent")
    with trio.fail_after(1000):
        assert isinstance((await handle.wait()).error, ValueError)
    errors = [chunk.kind async for chunk in held(handle) if isinstance(chunk, Error)]
    assert errors == ["ValueError", "ValueError"]


@pytest.mark.parametrize("by_hand", [False, True])
async def test_what_an_agent_has_started_elsewhere_is_not_its_own(runtime, by_hand):
    served = []

    async def serve(task_status=trio.TASK_STATUS_IGNORED):
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep, 5)
                task_status.started()
        finally:
            served.append(trio.current_time())

    async def agent_fn(agent):
        nursery = await trio.open_nursery().__aenter__() if by_hand else application
        await nursery.start(serve)

    async with trio.open_nursery() as application:
        outcome = await runtime.spawn(new(), agent_fn).wait()
        assert outcome.status is (EndStatus.CRASHED if by_hand else EndStatus.COMPLETED)
        assert trio.current_time() == 0
        assert not application.cancel_scope.cancel_called
    assert served == [0 if by_hand else 5]


async def test_context_variables_end_with_the_life_that_set_them(runtime):
    seen = []
    variable = ContextVar("variable", default="unset")

    async def forgetful(agent):
        seen.append(variable.get())
        variable.set("of an earlier life")
        raise ValueError

    supervisor = runtime.supervisor(intensity=2, backoff=Backoff(first=0.1, jitter=0))
    supervisor.spawn(new(), forgetful, restart="permanent")
    with trio.fail_after(1000):
        await supervisor.wait()
    assert seen == ["unset"] * 3


FROM_A_THREAD = {
    "send_input_nowait": lambda runtime, handle, agent: handle.send_input_nowait("from a thread"),
    "interrupt_nowait": lambda runtime, handle, agent: handle.interrupt_nowait(),
    "kill": lambda runtime, handle, agent: handle.kill(),
    "spawn": lambda runtime, handle, agent: runtime.spawn(new("other"), echo),
    "spawn a child": lambda runtime, handle, agent: agent.spawn(new("other"), echo),
    "supervisor": lambda runtime, handle, agent: runtime.supervisor(),
    "send_nowait": lambda runtime, handle, agent: agent.send_nowait(Error("e", "k")),
    "set_state": lambda runtime, handle, agent: agent.set_state(agent.state.processing()),
    "monitor": lambda runtime, handle, agent: agent.monitor(handle),
    "progress": lambda runtime, handle, agent: agent.context.with_tool_use_id("t").progress("x"),
}


@pytest.mark.parametrize("call", FROM_A_THREAD.values(), ids=FROM_A_THREAD)
def test_from_a_foreign_thread_a_call_changes_nothing_and_says_what_to_do(call):
    async def main():
        held = []

        async def keeps(agent):
            held.append(agent)
            await echo(agent)

        async with AgentRuntime(store=InMemoryStore()) as runtime:
            handle = runtime.spawn(new("bad"), keeps)
            await wait_all_tasks_blocked()
            chunks = (await handle.statistics()).published
            await trio.to_thread.run_sync(refused, call, runtime, handle, held[0])
            assert (await handle.statistics()).published == chunks
            assert runtime.list_active() == ("bad",)
            assert (await handle.ask("still there?")).text == "re still there?"

    trio.run(main)


FROM_ANOTHER_LOOP = {
    "subscribe": lambda runtime, handle, supervisor: anext(handle.subscribe("none")),
    "stream": lambda runtime, handle, supervisor: anext(handle.stream()),
    "shutdown_all": lambda runtime, handle, supervisor: runtime.shutdown_all(),
    "wait for a supervisor": lambda runtime, handle, supervisor: supervisor.wait(),
    "end a supervisor": lambda runtime, handle, supervisor: supervisor.shutdown(),
}


@pytest.mark.parametrize("call", FROM_ANOTHER_LOOP.values(), ids=FROM_ANOTHER_LOOP)
def test_from_another_loop_a_call_changes_nothing_and_says_what_to_do(call):
    async def main():
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            supervisor = runtime.supervisor()
            handle = supervisor.spawn(new("bad"), echo)
            await wait_all_tasks_blocked()

            async def elsewhere():
                with pytest.raises(EventLoopError, match="from_thread"), trio.fail_after(60):
                    await call(runtime, handle, supervisor)

            await trio.to_thread.run_sync(trio.run, elsewhere)
            assert (await handle.ask("still there?")).text == "re still there?"

    trio.run(main)


def refused(call, runtime, handle, agent):
    with pytest.raises(EventLoopError, match="from_thread"):
        call(runtime, handle, agent)


def test_a_thread_reaches_an_agent_through_trio():
    async def main():
        token = trio.lowlevel.current_trio_token()

        def flask_view():
            result = trio.from_thread.run(handle.ask, "hello", trio_token=token)
            trio.from_thread.run_sync(handle.kill, trio_token=token)
            return result

        async with AgentRuntime(store=InMemoryStore()) as runtime:
            handle = runtime.spawn(new(), echo)
            result = await trio.to_thread.run_sync(flask_view)
            assert result.text == "re hello"
            assert (await handle.wait()).status is EndStatus.KILLED

    trio.run(main)


def test_a_runtime_outside_of_trio_says_how_to_start_the_program():
    runtime = AgentRuntime(store=InMemoryStore())
    with pytest.raises(EventLoopError, match=r"trio\.run\(main\)"):
        runtime.__aenter__().send(None)


async def test_two_tasks_can_t_read_one_subscription(runtime):
    handle = runtime.spawn(new(), echo)
    async with handle.subscribe("none") as chunks, trio.open_nursery() as nursery:
        nursery.start_soon(chunks.__anext__)
        await wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError, match="once for each reader"):
            await chunks.__anext__()
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("replay", ["last", 3, (1,), None])
async def test_a_replay_that_means_nothing_is_refused_with_what_there_is(runtime, replay):
    handle = runtime.spawn(new(), echo)
    with pytest.raises(ValueError, match="'none', 'turn', 'all'"):
        handle.subscribe(replay)


@pytest.mark.parametrize(
    ("content", "meant"),
    [
        (UserInput(()), r"pass its \.content"),
        (TextBlock("hello"), "pass a list of one"),
        (None, "a text or a list of blocks, not None$"),
        (7, "a text or a list of blocks, not 7$"),
    ],
)
async def test_content_that_is_none_is_refused_with_what_was_meant(runtime, content, meant):
    handle = runtime.spawn(new(), echo)
    with pytest.raises(TypeError, match=meant):
        await handle.send_input(content)
    with pytest.raises(TypeError, match=meant):
        await handle.ask(content)


async def test_a_turn_error_tells_of_the_missing_turn(runtime):
    async def ignores(agent):
        async for _ in agent.inputs():
            pass

    handle = runtime.spawn(new(), ignores)
    with pytest.raises(TurnError, match="no turn"):
        await handle.ask("go")


async def test_what_a_reader_does_to_what_it_was_given_changes_nothing(runtime):
    call = ToolUseBlock("t1", "Bash", {"command": "ls", "env": {"A": "1"}})

    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                agent.session.add_message(Message.assistant([call]))
                await agent.send(ToolStart(call.id, call.name, call.input))
                await agent.request_permission("Bash", "run ls", input=call.input)

    handle = runtime.spawn(new(), agent_fn)
    async with handle.subscribe(answers=True) as chunks:
        await handle.send_input("go")
        async for chunk in chunks:
            if isinstance(chunk, ToolStart | PermissionRequest):
                spoil(chunk.input)
            if isinstance(chunk, PermissionRequest):
                break
        spoil((await handle.pending())[0].input)
        spoil((await handle.history())[-1].tool_uses[0].input)
        assert call.input == {"command": "ls", "env": {"A": "1"}}
        (request,) = await handle.pending()
        assert request.input == call.input
        assert (await handle.history())[-1].tool_uses == (call,)
        handle.kill()


def spoil(found):
    for each, key in ((found, "command"), (found["env"], "A")):
        with pytest.raises(TypeError, match="frozen"):
            each[key] = "rm -rf x"


async def test_no_answer_can_use_the_words_that_stand_for_the_rules(runtime):
    handle = runtime.spawn(new(), echo)
    for by in ("rules", "gate", "recheck", "time-out", "shutdown", "withdrawn", "unattended"):
        with pytest.raises(ValueError, match=by):
            await handle.respond_permission("p-1", "allow", by=by)


WITHOUT_A_LOG = """
import time, trio
from greenroom import AgentRuntime, AgentSession, InMemoryStore, RuntimeLimits

async def asks(agent):
    await agent.request_permission("Bash", "run ls")
    await agent.request_permission("Bash", "run pwd")

async def blocks(agent):
    time.sleep(0.5)

async def main():
    async with AgentRuntime(InMemoryStore(), RuntimeLimits(watchdog=0.1)) as runtime:
        handle = runtime.spawn(AgentSession.new("asks"), asks)
        async with handle.subscribe() as chunks:
            async for chunk in chunks:
                if type(chunk).__name__ == "PermissionRequest":
                    await trio.lowlevel.checkpoint()
                    break
        await runtime.spawn(AgentSession.new("blocks"), blocks).wait()
        (request,) = await handle.pending()
        print(request.request_id)
        await handle.respond_permission(request.request_id, "allow")
        await trio.testing.wait_all_tasks_blocked(0.01)
        print([each.action for each in await handle.pending()])

import trio.testing
trio.run(main)
"""


def test_without_a_log_a_question_that_waits_for_ever_and_a_blocked_loop_are_still_seen():
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_LOG],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    request_id, waits = ended.stdout.splitlines()
    assert waits == "['run pwd']"  # it goes on waiting
    assert ended.stderr.count("waits for permission") == 1
    for words in ("run ls", request_id, "answers=True", "unattended='deny'", "permission_timeout"):
        assert words in ended.stderr
    assert "the event loop has been blocked for" in ended.stderr
    assert ", in blocks (<string>:" in ended.stderr


async def test_with_a_log_nothing_is_written_beside_it(runtime, capsys, log):
    async def agent_fn(agent):
        await agent.request_permission("Bash", "run ls")

    runtime.spawn(new(), agent_fn)
    await wait_all_tasks_blocked()
    assert capsys.readouterr().err == ""
    assert log.longest > 0


async def test_replies_that_no_model_call_has_counted_are_told_once(runtime, caplog):
    async def uncounted(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                said = Message.user("said").content
                agent.session.add_message(Message("assistant", said, model="m"))

    async def counted(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await agent.step()
                async with agent.model_call(
                    ScriptedProvider("hi"), ModelRequest(messages=())
                ) as call:
                    call.reply = Message("assistant", Message.user("hi").content, usage=Usage(1))
                agent.session.add_message(call.reply)

    for agent_fn in (uncounted, counted):
        handle = runtime.spawn(new(), agent_fn)
        await handle.ask("go")
        await handle.ask("go on")
    messages = [record.getMessage() for record in caplog.records]
    assert len({message for message in messages if "agent.model_call" in message}) == 1


async def test_a_closed_standard_error_stops_no_agent(runtime, monkeypatch):
    async def asks(agent):
        await agent.request_permission("Bash", "run ls")

    monkeypatch.setattr(logging.getLogger("greenroom"), "handlers", [logging.NullHandler()])
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    handle = runtime.spawn(new(), asks)
    await wait_all_tasks_blocked()
    assert len(await handle.pending()) == 1
