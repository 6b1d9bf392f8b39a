"""A runtime in a thread: reached from asyncio and from plain threads, and never left behind."""

import asyncio
import atexit
import contextvars
import functools
import inspect
import signal
import subprocess
import sys
import threading

import pytest
import trio

from greenroom.agents import Agent
from greenroom.core import Done, Lagged, Message, SessionInUseError, TextComplete, TurnStatus
from greenroom.core._internal import EndStatus, EventLoopError, StateKind
from greenroom.runtime import AgentNotRunningError, AgentRuntime, RuntimeClosedError, RuntimeThread
from greenroom.session import AgentSession, InMemoryStore


def in_asyncio(function):
    """Run a test in an asyncio event loop of its own."""

    @functools.wraps(function)
    def run(*args, **kwargs):
        async def limited():
            async with asyncio.timeout(60):
                await function(*args, **kwargs)

        asyncio.run(limited())
        ours = [each for each in threading.enumerate() if each.name == "greenroom runtime"]
        assert ours == []

    run.__signature__ = inspect.signature(function)
    return run


def make():
    return RuntimeThread(AgentRuntime(InMemoryStore()))


async def echo(agent):
    async for message in agent.inputs():
        async with agent.turn(message):
            await agent.send(TextComplete(f"you said {message.text}"))
            agent.session.add_message(Message.assistant(f"you said {message.text}"))


class Sleeper:
    """An agent whose turns never end by themselves."""

    def __init__(self):
        self.begun = threading.Event()
        self.cleaned = []

    async def __call__(self, agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                if message.text == "quick":
                    continue
                self.begun.set()
                try:
                    await trio.sleep_forever()
                finally:
                    with agent.cleanup(2.0):
                        await trio.lowlevel.checkpoint()
                    self.cleaned.append(message.text)


async def wait_for(event):
    await asyncio.to_thread(event.wait, 60)


@in_asyncio
async def test_functions_of_any_kind_run_in_the_thread_and_their_values_come_back():
    async def add(one, *, two):
        await trio.lowlevel.checkpoint()
        return one + two, threading.current_thread().name

    async with make() as greenroom:
        assert await greenroom.run(add, 1, two=2) == (3, "greenroom runtime")
        assert await greenroom.run(threading.get_ident) != threading.get_ident()
        assert await greenroom.run(lambda: None) is None
        assert await greenroom.run(greenroom.runtime.list_active) == ()


@in_asyncio
async def test_without_the_thread_the_error_names_it():
    with pytest.raises(EventLoopError) as refused:
        await Agent("offline:").run("hello")
    assert "RuntimeThread()" in refused.value.hint


class Runs:
    async def run(self, text, *, runtime=None):
        await trio.lowlevel.checkpoint()
        return text, runtime


class RunsAlone:
    async def run(self, text):
        return text


@in_asyncio
async def test_what_has_a_method_run_is_run_and_given_the_runtime_if_it_takes_one():
    async with make() as greenroom:
        assert await greenroom.run(Runs(), "hello") == ("hello", greenroom.runtime)
        assert await greenroom.run(Runs(), "hello", runtime="mine") == ("hello", "mine")
        assert await greenroom.run(RunsAlone(), "hello") == "hello"


@pytest.mark.parametrize(
    "error",
    [
        ValueError("of no use"),
        ExceptionGroup("many", [ValueError("one"), KeyError("two")]),
        SystemExit(3),
        trio.TooSlowError("late"),
    ],
)
@in_asyncio
async def test_errors_come_back_as_they_were_raised_and_break_nothing(error):
    async def fail():
        await trio.lowlevel.checkpoint()
        raise error

    def fail_at_once():
        raise error

    async with make() as greenroom:
        for function in (fail, fail_at_once):
            with pytest.raises(type(error)) as raised:
                await greenroom.run(function)
            assert raised.value is error
        assert await greenroom.run(lambda: "alive") == "alive"


@in_asyncio
async def test_context_variables_cross():
    span = contextvars.ContextVar("span", default="none")

    async def read():
        return span.get()

    async with make() as greenroom:
        span.set("outer")
        assert await greenroom.run(read) == "outer"


@in_asyncio
async def test_agents_are_started_and_asked_from_many_tasks_at_once():
    async with make() as greenroom:
        session = AgentSession.new("echo")
        handle = await greenroom.spawn(session, echo, name="echo")
        with pytest.raises(SessionInUseError):
            await greenroom.spawn(session, echo)
        asked = [greenroom.ask(handle, str(number)) for number in range(20)]
        results = await asyncio.gather(*asked)
        assert [each.text for each in results] == [f"you said {number}" for number in range(20)]
        assert len(await greenroom.run(handle.history)) == 40
    assert handle.state.kind is StateKind.DONE
    with pytest.raises(RuntimeClosedError):
        await greenroom.ask(handle, "still there?")


@in_asyncio
async def test_a_handle_that_is_used_directly_says_what_to_do():
    async with make() as greenroom:
        handle = await greenroom.spawn(AgentSession.new("echo"), echo)
        with pytest.raises(EventLoopError, match=r"greenroom\.run"):
            await handle.interrupt()
        with pytest.raises(EventLoopError):
            handle.send_input_nowait("hello")


@in_asyncio
async def test_chunks_are_iterated_over_to_the_end_of_the_turn():
    async with make() as greenroom:
        handle = await greenroom.spawn(AgentSession.new("echo"), echo)
        receipt = await greenroom.run(handle.send_input, "hello")
        async with greenroom.iterate(handle.stream, receipt) as chunks:
            found = [chunk async for chunk in chunks]
        assert [each.text for each in found if isinstance(each, TextComplete)] == ["you said hello"]
        assert isinstance(found[-1], Done)


@in_asyncio
async def test_a_slow_reader_slows_the_source_down_and_loses_nothing():
    made = 0

    async def count():
        nonlocal made
        for made in range(1000):
            await trio.lowlevel.checkpoint()
            yield made
        raise ValueError("at the end")

    async with make() as greenroom:
        async with greenroom.iterate(count) as numbers:
            assert await anext(numbers) == 0
            while await greenroom.run(lambda: made) < 64:
                pass
            for _ in range(100):
                await greenroom.run(trio.lowlevel.checkpoint)
            assert made == 64
            assert [await anext(numbers) for _ in range(999)] == list(range(1, 1000))
            with pytest.raises(ValueError, match="at the end"):
                await anext(numbers)


@in_asyncio
async def test_a_subscription_is_left_with_its_block_and_tells_what_was_missed():
    async def flood(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                for number in range(20_000):
                    await agent.send(TextComplete(str(number)))

    async with make() as greenroom:
        handle = await greenroom.spawn(AgentSession.new("flood"), flood)
        async with greenroom.iterate(handle.subscribe, "all", answers=True) as chunks:
            await greenroom.ask(handle, "go")
            found = []
            async for chunk in chunks:
                found.append(chunk)
                if isinstance(chunk, Done):
                    break
        missed = sum(chunk.missed for chunk in found if isinstance(chunk, Lagged))
        texts = [chunk for chunk in found if isinstance(chunk, TextComplete)]
        assert len(texts) + missed >= 20_000
        assert (await greenroom.run(handle.statistics)).subscribers == 0


class Door:
    """A source that takes its time to be entered, or can't be."""

    def __init__(self, error=None):
        self.error = error
        self.is_open = False

    async def __aenter__(self):
        for _ in range(20):
            await trio.lowlevel.checkpoint()
        if self.error is not None:
            raise self.error
        self.is_open = True
        return self

    async def __aexit__(self, *_):
        self.is_open = False

    def __aiter__(self):
        return self

    async def __anext__(self):
        await trio.sleep_forever()


@in_asyncio
async def test_a_source_is_entered_before_its_block_begins_and_left_before_it_ends():
    async with make() as greenroom:
        door = Door()
        async with greenroom.iterate(lambda: door):
            assert door.is_open
        assert not door.is_open
        with pytest.raises(ValueError, match="locked"):
            await greenroom.iterate(Door, ValueError("locked")).__aenter__()


@in_asyncio
async def test_an_iterator_without_its_block_is_refused():
    async with make() as greenroom:
        with pytest.raises(TypeError, match="async with"):
            await anext(greenroom.iterate(list))


@in_asyncio
async def test_a_cancelled_ask_interrupts_its_turn_and_is_over_when_that_has_ended():
    sleeper = Sleeper()
    async with make() as greenroom:
        handle = await greenroom.spawn(AgentSession.new("sleeper"), sleeper)
        task = asyncio.create_task(greenroom.ask(handle, "sleep"))
        await wait_for(sleeper.begun)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sleeper.cleaned == ["sleep"]
        assert handle.state.kind is StateKind.IDLE
        assert (await greenroom.ask(handle, "quick")).status is TurnStatus.COMPLETED


@in_asyncio
async def test_a_cancelled_ask_that_waits_is_taken_back_and_the_turn_before_it_goes_on():
    sleeper = Sleeper()
    async with make() as greenroom:
        handle = await greenroom.spawn(AgentSession.new("sleeper"), sleeper)
        first = asyncio.create_task(greenroom.ask(handle, "first"))
        await wait_for(sleeper.begun)
        second = asyncio.create_task(greenroom.ask(handle, "second"))
        while (await greenroom.run(handle.statistics)).mailbox == 0:
            pass
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert (await greenroom.run(handle.statistics)).mailbox == 0
        assert sleeper.cleaned == []
        assert not first.done()
        await greenroom.run(handle.interrupt)
        assert (await first).status is TurnStatus.INTERRUPTED


@in_asyncio
async def test_a_cancel_reaches_any_work_and_waits_for_its_clean_up():
    begun, cleaned = threading.Event(), []

    async def work():
        try:
            begun.set()
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.01)
            cleaned.append(True)

    async with make() as greenroom:
        task = asyncio.create_task(greenroom.run(work))
        await wait_for(begun)
        task.cancel()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert cleaned == [True]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await greenroom.run(work)


@in_asyncio
async def test_work_is_cancelled_if_the_task_that_waits_is_destroyed():
    begun, ended = threading.Event(), threading.Event()

    async def work():
        try:
            begun.set()
            await trio.sleep_forever()
        finally:
            ended.set()

    async with make() as greenroom:
        waiting = greenroom.run(work)
        waiting.send(None)
        await wait_for(begun)
        waiting.close()  # as the collector does once its loop is closed
        await wait_for(ended)


@in_asyncio
async def test_leaving_shuts_the_agents_down_and_ends_every_wait():
    async def forever():
        await trio.sleep_forever()

    async with make() as greenroom:
        handle = await greenroom.spawn(AgentSession.new("echo"), echo)
        waits = asyncio.create_task(greenroom.run(handle.wait))
        stuck = asyncio.create_task(greenroom.run(forever))
        await asyncio.sleep(0)  # both begin, however soon the thread does the rest
        chunks = greenroom.iterate(handle.subscribe)
        await chunks.__aenter__()
        await greenroom.ask(handle, "hello")
    assert (await waits).status is EndStatus.COMPLETED
    with pytest.raises(RuntimeClosedError, match="closed before"):
        await stuck
    found = [chunk async for chunk in chunks]
    assert len(found) > 2
    await chunks.__aexit__(None, None, None)


@in_asyncio
async def test_an_open_ask_is_answered_or_refused_when_the_block_is_left():
    sleeper, tasks = Sleeper(), []

    async def block():
        async with make() as greenroom:
            handle = await greenroom.spawn(AgentSession.new("sleeper"), sleeper)
            tasks.append(asyncio.create_task(greenroom.ask(handle, "sleep")))
            await wait_for(sleeper.begun)
            raise ValueError("own")

    with pytest.raises(ValueError, match="own"):
        await block()
    with pytest.raises((AgentNotRunningError, RuntimeClosedError)):
        await tasks[0]
    assert sleeper.cleaned == ["sleep"]


@in_asyncio
async def test_a_cancel_while_the_block_is_left_ends_it_at_once():
    started, left = threading.Event(), asyncio.Event()

    async def stubborn(agent):
        started.set()
        await trio.sleep_forever()

    async def block():
        async with make() as greenroom:
            await greenroom.spawn(AgentSession.new("stubborn"), stubborn)
            await wait_for(started)
            left.set()

    task = asyncio.create_task(block())
    await left.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("moment", ["entered", "left"])
def test_a_cancelled_block_leaves_nothing_to_the_end_of_the_interpreter(moment, monkeypatch):
    at_exit = []
    monkeypatch.setattr(atexit, "register", at_exit.append)
    monkeypatch.setattr(atexit, "unregister", at_exit.remove)

    async def stubborn(agent):
        await trio.sleep_forever()

    @in_asyncio
    async def main():
        reached = asyncio.Event()

        async def block():
            if moment == "entered":
                reached.set()
            async with make() as greenroom:
                await greenroom.spawn(AgentSession.new("stubborn"), stubborn)
                reached.set()

        task = asyncio.create_task(block())
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    main()
    assert at_exit == []


@in_asyncio
async def test_outside_of_its_block_it_is_refused():
    greenroom = make()
    with pytest.raises(RuntimeClosedError):
        await greenroom.run(print)
    async with greenroom:
        pass
    with pytest.raises(RuntimeClosedError):
        await greenroom.run(print)
    with pytest.raises(RuntimeClosedError, match="once"):
        await greenroom.__aenter__()
    with pytest.raises(RuntimeClosedError, match="once"):
        async with RuntimeThread(greenroom.runtime):
            pass


@in_asyncio
async def test_a_break_down_of_the_loop_reaches_all_that_wait_and_the_block():
    async def bug():
        raise ValueError("in a system task")

    async def forever():
        await trio.sleep_forever()

    async def block():
        async with make() as greenroom:
            handle = await greenroom.spawn(AgentSession.new("echo"), echo)
            tasks = [
                asyncio.create_task(greenroom.run(forever)),
                asyncio.create_task(greenroom.run(handle.wait)),
            ]
            async with greenroom.iterate(handle.subscribe) as chunks:
                await greenroom.run(lambda: trio.lowlevel.spawn_system_task(bug) and None)
                for wait in (*tasks, anext(chunks), greenroom.run(print)):
                    with pytest.raises(RuntimeClosedError):
                        await wait

    with pytest.raises(trio.TrioInternalError):
        await block()


def test_a_plain_thread_waits_without_an_event_loop():
    with make() as greenroom:
        handle = greenroom.run_sync(lambda: greenroom.runtime.spawn(AgentSession.new("echo"), echo))
        assert greenroom.run_sync(handle.ask, "hello").text == "you said hello"
        assert greenroom.run_sync(Runs(), "hello") == ("hello", greenroom.runtime)
        with pytest.raises(ValueError, match="no"):
            greenroom.run_sync(int, "no")
    with pytest.raises(RuntimeClosedError):
        greenroom.run_sync(print)


@in_asyncio
async def test_where_a_wait_would_hold_up_a_loop_it_is_refused():
    async with make() as greenroom:
        with pytest.raises(EventLoopError, match="asyncio"):
            greenroom.run_sync(print)
        assert await asyncio.to_thread(greenroom.run_sync, Runs().run, "hello") == ("hello", None)
        with pytest.raises(EventLoopError, match="trio"):
            await greenroom.run(lambda: greenroom.run_sync(print))

        async def in_trio():
            await greenroom.run(print)

        with pytest.raises(EventLoopError, match="no asyncio"):
            await greenroom.run(in_trio)


PROGRAM = """
import asyncio, sys, threading
from contextlib import suppress
import trio
from greenroom import AgentRuntime, AgentSession, InMemoryStore, RuntimeThread
from greenroom.runtime import RuntimeClosedError

begun = threading.Event()

async def agent(agent, hangs=False):
    begun.set()
    try:
        async for _ in agent.inputs():  # which end with the grace that the interpreter gives
            pass
        while hangs:
            await trio.sleep_forever()
    finally:
        print("cleaned", flush=True)

greenroom = RuntimeThread(AgentRuntime(InMemoryStore()))
"""
ENDS = {
    "never left, in asyncio": """
async def main():
    await greenroom.__aenter__()
    await greenroom.spawn(AgentSession.new("a"), agent)
    begun.wait()
asyncio.run(main())
""",
    "never left, in a thread, with a wait": """
greenroom.__enter__()
greenroom.run_sync(lambda: greenroom.runtime.spawn(AgentSession.new("a"), agent))
def wait():
    with suppress(RuntimeClosedError):
        greenroom.run_sync(trio.sleep_forever)
threading.Thread(target=wait, daemon=True).start()
begun.wait()
""",
    "an exception in the block": """
with greenroom:
    greenroom.run_sync(lambda: greenroom.runtime.spawn(AgentSession.new("a"), agent, True))
    begun.wait()
    sys.exit()
""",
}


@pytest.mark.parametrize("end", ENDS)
def test_nothing_hangs_when_the_interpreter_ends(end):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM + ENDS[end]],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "cleaned\n"


def test_ctrl_c_ends_the_block():
    program = (
        PROGRAM
        + """
async def main():
    async with greenroom:
        await greenroom.spawn(AgentSession.new("a"), agent)
        begun.wait()
        print("ready", flush=True)
        await greenroom.run(trio.sleep_forever)
asyncio.run(main())
"""
    )
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert out == "cleaned\n"
    assert err.rstrip().endswith("KeyboardInterrupt")


FORKED = """
import os, signal, warnings
from greenroom import AgentRuntime, InMemoryStore, RuntimeThread
from greenroom.runtime import RuntimeClosedError

warnings.simplefilter("ignore")  # a process with threads is forked: that is the point
try:
    with RuntimeThread(AgentRuntime(InMemoryStore())) as greenroom:
        child = os.fork()
        if child == 0:
            signal.alarm(60)
        print(greenroom.run_sync(os.getpid) == os.getpid(), flush=True)
        os._exit(0) if child == 0 else print(os.waitpid(child, 0)[1], flush=True)
except RuntimeClosedError:
    os._exit(7)
"""


def test_a_fork_is_told_that_the_thread_is_not_there():
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.split() == ["True", str(7 << 8)]
