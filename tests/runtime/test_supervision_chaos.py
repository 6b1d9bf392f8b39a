"""Any tree of supervisors, any crash, any end, at any moment: the books balance afterwards."""

import contextlib
import logging
import random
from collections import Counter

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from greenroom.core import (
    AgentNotRunningError,
    Done,
    EndStatus,
    Error,
    Exited,
    MailboxFullError,
    PermissionRequest,
    PermissionResponse,
    Restarted,
    RuntimeClosedError,
    SelfWaitError,
    SubAgentOutput,
    SupervisionError,
    TextDelta,
    ToolEnd,
    ToolStart,
    TurnError,
    TurnStart,
)
from greenroom.resilience import Backoff
from greenroom.runtime import AgentRuntime, RuntimeLimits
from greenroom.runtime.supervision.supervision import Supervision
from greenroom.session import AgentSession, MemoryStore

LIMITS = RuntimeLimits(mailbox=3, subagents=6, ring_chunks=100_000, ring_bytes=10**9)
STRATEGIES = ["one_for_one", "rest_for_one", "one_for_all"]
RESTARTS = ["permanent", "transient", "temporary"]
REFUSALS = (
    AgentNotRunningError,
    MailboxFullError,
    RuntimeClosedError,
    SelfWaitError,
    SupervisionError,
    TurnError,
)


class Restarts:
    """What every supervisor has counted, kept apart from its own window."""

    def __init__(self):
        self.times = {}

    def watch(self, monkeypatch):
        count = Supervision._count

        def counting(supervision, culprit, who):
            admitted = count(supervision, culprit, who)
            if admitted is not None:
                key = (supervision, supervision.restarts)
                self.times.setdefault(key, []).append(trio.current_time())
            return admitted

        monkeypatch.setattr(Supervision, "_count", counting)

    def audit(self):
        for (supervision, _), times in self.times.items():
            for moment in times:
                window = supervision.window
                inside = [each for each in times if 0 <= moment - each <= window.period]
                assert len(inside) <= window.intensity


class Chaos:
    """Supervised agents that do anything, and people who do anything to them."""

    def __init__(self, seed, way):
        self.random = random.Random(seed)
        self.way = way
        self.handles = []
        self.restart_types = {}
        self.supervisors = []
        self.starts = Counter()
        self.calls = 0
        self.sent = {}

    def chance(self, share):
        return self.random.random() < share

    async def nap(self):
        await trio.sleep(self.random.random())

    # -- agents -------------------------------------------------------------------------------

    def grow(self, supervisor, depth):
        """Put agents and supervisors below a supervisor."""
        self.supervisors.append(supervisor)
        for _ in range(self.random.randrange(1, 4)):
            with contextlib.suppress(*REFUSALS):
                if depth and self.chance(0.3):
                    self.grow(supervisor.supervisor(**self.options(nested=True)), depth - 1)
                else:
                    self.spawn(supervisor, depth)

    def options(self, *, nested=False):
        options = {
            "strategy": self.random.choice(STRATEGIES),
            "intensity": self.random.randrange(4),
            "period": self.random.choice([1.0, 5.0, 20.0]),
            "backoff": Backoff(first=self.random.random(), jitter=0.5, random=self.random.random),
        }
        return {**options, "restart": self.random.choice(RESTARTS)} if nested else options

    def spawn(self, supervisor, depth):
        restart = self.random.choice(RESTARTS)
        session = AgentSession.new("worker")
        handle = supervisor.spawn(session, self.agent, depth, restart=restart)
        self.handles.append(handle)
        self.restart_types[handle.session_id] = restart

    async def agent(self, agent, depth):
        self.starts[agent.session.session_id] += 1
        if self.chance(0.1):
            raise ValueError("at once")
        if depth and self.chance(0.3):
            self.grow(agent.supervisor(**self.options()), depth - 1)
        if self.chance(0.2):
            await self.nap()
        async for message in agent.inputs():
            if self.chance(0.1):
                raise ValueError("before the turn")
            async with agent.turn(message, steer=self.chance(0.3)):
                for _ in range(self.random.randrange(4)):
                    await self.step(agent)
            if self.chance(0.1):
                return

    async def step(self, agent):
        await agent.step()
        await agent.send(TextDelta("x"))
        self.calls += 1
        match self.random.randrange(7):
            case 0:
                await agent.send(ToolStart(f"t{self.calls}", "Tool"))
                await self.nap()
            case 1:
                await agent.request_permission("Tool", "run", timeout=self.random.random())
            case 2 | 3 if self.chance(0.6):
                raise ValueError("bug")
            case 4:
                try:
                    await self.nap()
                finally:
                    with agent.cleanup(0.5):
                        await self.nap()
            case _:
                await self.nap()

    # -- people -------------------------------------------------------------------------------

    async def person(self):
        for _ in range(25):
            await self.nap()
            with contextlib.suppress(*REFUSALS):
                await self.meddle(self.random.choice(self.handles))

    async def meddle(self, handle):
        match self.random.randrange(12):
            case 0 | 1 | 2 | 3:
                receipt = handle.send_input_nowait("hello")
                self.sent.setdefault(handle.session_id, []).append(receipt.input_id)
            case 4 | 5:
                with trio.move_on_after(self.random.random() * 5):
                    await handle.ask("hello")
            case 6:
                await handle.interrupt(grace=self.random.random())
            case 7:
                handle.interrupt_nowait("after_step")
            case 8 if self.chance(0.3):
                await handle.shutdown(self.random.random())
            case 9 if self.chance(0.3):
                handle.kill()
            case 10:
                self.spawn(self.random.choice(self.supervisors), 1)
            case 11 if self.chance(0.3):
                with trio.move_on_after(self.random.random() * 3):
                    await self.random.choice(self.supervisors).shutdown(self.random.random())

    # -- the whole ----------------------------------------------------------------------------

    async def run(self):
        living = trio.lowlevel.current_statistics().tasks_living
        with trio.fail_after(10_000):
            with trio.CancelScope() as scope, contextlib.suppress(KeyError):
                await self.live(scope)
            assert trio.lowlevel.current_statistics().tasks_living == living
            for handle in self.handles:
                await self.audit(handle)
            for supervisor in self.supervisors:
                outcome = await supervisor.wait()
                assert supervisor.children == ()
                assert outcome.restarts == supervisor.statistics().restarts

    async def live(self, scope):
        async with AgentRuntime(store=MemoryStore(), limits=LIMITS) as self.runtime:
            for _ in range(2):
                self.grow(self.runtime.supervisor(**self.options()), 2)
            while not self.handles:
                self.grow(self.runtime.supervisor(**self.options()), 0)
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(self.person)
            if self.way == "cancel":
                scope.cancel()
                await trio.sleep_forever()
            if self.way == "raise":
                raise KeyError
        assert self.runtime.supervisors == ()

    async def audit(self, handle):
        with trio.fail_after(1):
            outcome = await handle.wait()
        if self.restart_types[handle.session_id] == "temporary":
            assert outcome.restarts == 0
        if outcome.status is EndStatus.COMPLETED:
            assert outcome.error is None
        assert self.starts[handle.session_id] <= outcome.restarts + 1
        chunks = [chunk async for chunk in handle.subscribe("all")]
        mine = [chunk for chunk in chunks if not isinstance(chunk, SubAgentOutput)]
        self.audit_chunks(mine, outcome)
        history = await handle.history()
        notes = sum(message.text.startswith("[The agent") for message in history)
        assert notes <= outcome.restarts
        undelivered = [message.id for message in outcome.undelivered]
        assert len(undelivered) == len(set(undelivered))
        begun = [chunk.input_id for chunk in mine if isinstance(chunk, TurnStart)]
        assert len(begun) == len(set(begun))
        assert not set(begun) & set(undelivered)
        lost = set(self.sent.get(handle.session_id, ())) - set(begun) - set(undelivered)
        joined = len(history) - notes - len(begun)
        # What is neither has joined a turn, or was in hand when the agent crashed for good.
        assert len(lost) <= joined + (outcome.status is EndStatus.CRASHED)

    @staticmethod
    def audit_chunks(mine, outcome):
        assert isinstance(mine[-1], Exited)
        assert mine[-1].status is outcome.status
        assert sum(isinstance(chunk, Exited) for chunk in mine) == 1
        turns = [chunk for chunk in mine if isinstance(chunk, (TurnStart, Done))]
        for start, done in zip(turns[::2], turns[1::2], strict=True):
            assert (type(start), type(done)) == (TurnStart, Done)
            assert start.input_id == done.input_id
        assert [c.id for c in mine if isinstance(c, ToolStart)] == [
            c.id for c in mine if isinstance(c, ToolEnd)
        ]
        asked = [c.request_id for c in mine if isinstance(c, PermissionRequest)]
        answered = [c.request_id for c in mine if isinstance(c, PermissionResponse)]
        assert sorted(asked) == sorted(answered)
        epochs = [chunk.epoch for chunk in mine if isinstance(chunk, Restarted)]
        assert epochs == sorted(epochs)
        assert set(range(2, outcome.restarts + 2)) <= set(epochs)
        assert max(epochs, default=1) <= outcome.restarts + 2
        # A crash is told once: before its restart, or at the end.
        assert sum(isinstance(c, Error) for c in mine) <= len(set(epochs)) + 1


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.sampled_from(["leave", "raise", "cancel"]))
def test_whatever_happens_the_books_balance(seed, way):
    logging.disable(logging.CRITICAL)
    restarts = Restarts()
    try:
        with pytest.MonkeyPatch.context() as monkeypatch:
            restarts.watch(monkeypatch)
            trio.run(Chaos(seed, way).run, clock=MockClock(autojump_threshold=0))
    finally:
        logging.disable(logging.NOTSET)
    restarts.audit()
