"""The watchdog names the call that blocks the event loop, and nothing that does not."""

import logging
import re
import threading
import time
from types import SimpleNamespace

import pytest
import trio

from greenroom.core import ConfigurationError
from greenroom.runtime import AgentRuntime, RuntimeLimits, watchdog
from greenroom.session import AgentSession, InMemoryStore

THRESHOLD = 0.02


def new(id_=None):
    return AgentSession.new("worker", session_id=id_)


def watched(threshold=THRESHOLD):
    return AgentRuntime(store=InMemoryStore(), limits=RuntimeLimits(watchdog=threshold))


class Report(logging.Handler):
    """Lets a call block until the watchdog has named it; on a busy machine it may name others."""

    def __init__(self):
        super().__init__()
        self.reported = threading.Event()
        self.messages = []

    def emit(self, record):
        self.messages.append(record.getMessage())
        if "has been blocked" in self.messages[-1] and "report.block()" in self.messages[-1]:
            self.reported.set()

    @property
    def blamed(self):
        """What was said of the call."""
        return next(each for each in self.messages if "report.block()" in each)

    def block(self):
        assert self.reported.wait(30)


@pytest.fixture
def report():
    handler = Report()
    logger = logging.getLogger("greenroom.watchdog")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def watchdogs():
    return [each for each in threading.enumerate() if each.name == "greenroom watchdog"]


def stubborn_call(report):
    report.block()


async def test_it_names_the_agent_the_call_and_the_stack_once_and_tells_the_end(report):
    async def worker(agent):
        stubborn_call(report)

    async def boss(agent):
        await agent.spawn(new("s-2"), worker, name="worker").wait()

    # Long enough that on a busy machine nothing but that call lasts so long.
    async with watched(5 * THRESHOLD) as runtime:
        await runtime.spawn(new("s-1"), boss, name="boss").wait()
        figures = runtime.statistics()
    said, end = report.messages
    first, *stack = said.splitlines()
    assert re.match(r"the event loop has been blocked for \d", first)
    assert "by the agent boss/worker (s-2), task 'agent worker', in " in first
    assert f"in Report.block ({__file__}:" in first  # not the standard library's Event.wait
    assert any("in stubborn_call" in line for line in stack)
    assert "in worker" in said
    assert re.match(r"the event loop goes on; it was blocked for \d", end)
    assert figures.blocked == 1
    assert runtime.statistics().longest_block >= 5 * THRESHOLD


async def test_a_task_that_an_agent_has_started_is_that_agent(report):
    async def tool():
        report.block()

    async def agent_fn(agent):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tool, name="tool Bash")

    async with watched() as runtime:
        await runtime.spawn(new("s-1"), agent_fn, name="ann").wait()
    assert "by the agent ann (s-1), task 'tool Bash', in Report.block" in report.blamed


async def test_code_of_no_agent_is_named_by_its_task(report):
    async with watched():
        report.block()
    assert "of no agent, in Report.block" in report.blamed


async def test_a_hook_that_trio_calls_is_named_too(report):
    class Slow(trio.abc.Instrument):
        def before_task_step(self, task):
            if not report.reported.is_set():
                report.block()

    async with watched():
        trio.lowlevel.add_instrument(Slow())
        await trio.lowlevel.checkpoint()
    assert "by no task, in Report.block" in report.blamed


async def test_a_hook_of_an_instrument_is_named_with_the_agent_that_it_blocks(report):
    class Slow:
        def before_turn(self, agent, message):
            report.block()

    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                pass

    async with watched() as runtime:
        runtime.instruments.add(Slow())
        await runtime.spawn(new("s-1"), agent_fn, name="ann").ask("go")
    assert "by the agent ann (s-1)" in report.blamed
    assert "in Slow.before_turn" in report.blamed or "in before_turn" in report.blamed


async def test_a_native_call_that_lets_no_thread_run_is_named_right_after_it(report, monkeypatch):
    # However little of the machine this process gets, the time it took was its own.
    clock = SimpleNamespace(monotonic=time.monotonic, process_time=time.monotonic)
    monkeypatch.setattr(watchdog, "time", clock)

    async def crunch(agent):
        assert sum(range(8_000_000))

    # The report is made beside the loop, which goes on: it is there when the thread has ended. On a
    # busy machine something else may take longer than the threshold, too, and the thread that looks
    # may get its turn when the call is over: so it has a few.
    named = []
    for number in range(5):
        async with watched(threshold=0.01) as runtime:
            await runtime.spawn(new(f"s-{number}"), crunch).wait()
        named += [each for each in report.messages if f"by the agent worker (s-{number})" in each]
        if any("crunch" in each for each in named):
            return
    assert named == "none of them names the call"


async def test_runtimes_in_one_loop_share_a_watchdog_which_ends_with_the_last(report):
    assert watchdogs() == []
    async with watched(60) as outer:
        async with watched() as inner:
            assert len(watchdogs()) == 1
            report.block()  # the lower threshold holds
        assert len(watchdogs()) == 1
        assert inner.statistics().blocked == outer.statistics().blocked == 1
    assert watchdogs() == []


async def test_it_ends_also_where_the_runtime_is_left_by_an_error():
    with pytest.raises(ValueError, match="broken"):
        async with watched():
            raise ValueError("broken")
    assert watchdogs() == []


async def test_none_is_no_watchdog():
    async with watched(None) as runtime:
        assert watchdogs() == []
        assert runtime.statistics().blocked == 0


@pytest.mark.parametrize("threshold", [0, -1.0, float("nan"), float("inf")])
def test_a_threshold_that_makes_no_sense_is_refused(threshold):
    with pytest.raises(ConfigurationError, match="watchdog must be above 0"):
        RuntimeLimits(watchdog=threshold)


async def test_a_log_handler_that_raises_does_not_end_it(report, caplog):
    class Broken(logging.Handler):
        raised = 0

        def emit(self, record):
            if record.levelno == logging.WARNING and not self.raised:
                self.raised += 1
                raise RuntimeError("a broken handler")

    broken = Broken()
    logging.getLogger("greenroom.watchdog").addHandler(broken)
    try:
        async with watched() as runtime:
            report.block()
            report.reported.clear()
            await trio.lowlevel.checkpoint()
            report.block()
    finally:
        logging.getLogger("greenroom.watchdog").removeHandler(broken)
    assert broken.raised == 1
    assert runtime.statistics().blocked == 2


class Clock:
    """The process's clocks; the tests turn them."""

    def __init__(self):
        self.now = self.cpu = 0.0

    def monotonic(self):
        return self.now

    def process_time(self):
        return self.cpu


class Dog:
    """A watchdog without its thread: the test lets it look, and says what the loop runs."""

    def __init__(self, monkeypatch):
        self.clock = Clock()
        monkeypatch.setattr(watchdog, "time", self.clock)
        self.dog = watchdog.Watchdog()
        self.frames = {}
        monkeypatch.setattr(self.dog._view, "stack", lambda: self.stack)
        monkeypatch.setattr(self.dog._view, "describe", lambda stack: ("x", str(stack), ""))
        self.stack = ["call"]

    def look(self, after, worked=None):
        self.clock.now += after
        self.clock.cpu += after if worked is None else worked
        self.dog._wake.set()  # so that it does not wait in real time
        self.dog._pause_and_look(1.0)

    def step(self):
        self.dog.before_io_wait(0)
        self.dog.after_io_wait(0)


@pytest.fixture
async def dog(monkeypatch):
    return Dog(monkeypatch)


async def test_a_call_is_reported_when_it_was_seen_for_the_whole_threshold(dog, report):
    dog.look(0.25)
    for _ in range(4):
        dog.look(0.25)
        assert report.messages == []
    dog.look(0.25)
    assert [each.split(" by ")[0] for each in report.messages] == [
        "the event loop has been blocked for 1.00 s"
    ]
    dog.look(0.25)
    dog.step()
    dog.look(0.1)
    assert report.messages[1:] == ["the event loop goes on; it was blocked for 1.35 s"]
    assert dog.dog.longest == pytest.approx(1.35)


async def test_a_loop_that_goes_round_or_waits_is_not_blocked(dog, report):
    for _ in range(20):
        dog.step()
        dog.look(0.25)
    dog.dog.before_io_wait(1000)
    for _ in range(20):
        dog.look(0.25)
    assert report.messages == []


async def test_many_short_calls_in_one_pass_are_no_call_that_blocks(dog, report):
    for index in range(20):
        dog.stack = [str(index)]
        dog.look(0.25)
    dog.stack = []  # trio itself
    for _ in range(20):
        dog.look(0.25)
    assert report.messages == []


async def test_the_next_call_of_the_same_pass_ends_the_report_of_the_first(dog, report):
    for _ in range(7):
        dog.look(0.25)
    dog.stack = ["another"]
    dog.look(0.25)
    assert len(report.messages) == 2
    assert report.messages[1].startswith("the event loop goes on")
    for _ in range(4):
        dog.look(0.25)
    assert "another" in report.messages[2]
    assert dog.dog.blocked == 2


async def test_time_in_which_the_process_was_stopped_does_not_count(dog, report):
    dog.look(0.25)
    dog.look(0.25)
    dog.look(3600, worked=0.0)
    assert report.messages == []
    for _ in range(3):
        dog.look(0.25)
    assert len(report.messages) == 1
    assert "blocked for 1.00 s" in report.messages[0]


async def test_time_in_which_the_thread_could_not_run_but_the_process_did_counts(dog, report):
    dog.step()
    dog.look(0.25)
    dog.step()
    dog.look(5.25)
    assert "blocked for 5.00 s" in report.messages[0]


async def test_a_thread_that_was_late_while_the_loop_waited_reports_nothing(dog, report):
    dog.dog.before_io_wait(1000)
    dog.look(5.25)
    dog.look(5.25)
    assert report.messages == []
