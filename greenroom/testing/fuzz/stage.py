"""One run of a scenario, disturbed at one checkpoint, from its first task to its evidence."""

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from greenroom.core import (
    AgentNotRunningError,
    Message,
    OutputChunk,
    SessionError,
    SessionNotFoundError,
    TurnError,
    UserInput,
)
from greenroom.runtime import (
    AgentHandle,
    AgentRuntime,
    Outcome,
    Receipt,
    Subscription,
    TurnResult,
)
from greenroom.session import AgentSession
from greenroom.testing.fuzz.checkpoints import Checkpoints
from greenroom.testing.fuzz.processes import descendants
from greenroom.testing.fuzz.scenario import Scenario
from greenroom.testing.fuzz.trial import Acknowledged, Interrupted, Mode, Trial, streams_of

__all__ = ["play"]


async def play(scenario: Scenario, mode: Mode | None, at: int, timeout: float) -> Trial:
    """Run a scenario once, do what `mode` says at the checkpoint `at`, and collect the evidence."""
    stage = _Stage(scenario, mode, at)
    await stage.play(timeout)
    return await stage.evidence()


class _Handle(AgentHandle):
    """A handle that remembers the receipts that it gave, those of `ask` too, and does not wait."""

    def __init__(self, handle: AgentHandle) -> None:
        super().__init__(handle._actor)
        self.acknowledged: list[Acknowledged] = []

    @property
    def history_now(self) -> tuple[Message, ...]:
        """The conversation in this step; the agent may go on while one waits for `history()`."""
        return self._actor.session.history

    def _receipt(self, message: UserInput, delivered: bool) -> Receipt:
        receipt = super()._receipt(message, delivered)
        self.acknowledged.append(Acknowledged(receipt, message.text))
        return receipt


class _Stage:
    """The agent in its runtime, the people around it, and the one who disturbs."""

    _runtime: AgentRuntime
    _handle: _Handle
    _chunks: Subscription

    def __init__(self, scenario: Scenario, mode: Mode | None, at: int) -> None:
        self._scenario = scenario
        self._mode = mode
        self._at = at
        # Of two scopes, one ends the runtime and leaves those alone who talk to its agents.
        self._everything = trio.CancelScope()
        self._outside = trio.CancelScope()
        self._checkpoints = Checkpoints(at, self._disturb, self._everything.cancel)
        self._disturbed = trio.Event()
        self._dealt_with = trio.Event()
        self._talked = trio.Event()
        self._calls: list[str] = []
        self._before = 0
        self._alive: tuple[str, ...] = ()
        self._processes: tuple[str, ...] = ()
        self._outcome: Outcome | None = None
        self._interrupted: Interrupted | None = None
        self._probe: TurnResult | None = None

    async def play(self, timeout: float) -> None:
        """Run it to its end; where there is none, to the time limit."""
        processes = descendants()
        self._everything.deadline = trio.current_time() + timeout
        trio.lowlevel.add_instrument(self._checkpoints)
        with self._everything:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._follow_up)
                async with trio.open_nursery() as callers:
                    await callers.start(self._host)
                    callers.start_soon(self._wait)
                    await callers.start(self._scenario.approver.attend, self._handle)
                    await self._talk()
                if self._disturbed.is_set():
                    await self._dealt_with.wait()
                nursery.cancel_scope.cancel()
        self._alive = self._alive or self._checkpoints.alive
        left = descendants()
        self._processes = tuple(left[pid] or f"process {pid}" for pid in left.keys() - processes)
        if self._checkpoints.error is not None:
            raise self._checkpoints.error
        trio.lowlevel.remove_instrument(self._checkpoints)

    @contextmanager
    def _call(self, what: str) -> Iterator[None]:
        """Note who waits for the runtime; who never comes back is stuck."""
        self._calls.append(what)
        try:
            yield
        except* (AgentNotRunningError, TurnError):
            pass  # it has ended, as it may at any time
        self._calls.remove(what)

    # -- the people ---------------------------------------------------------------------------

    async def _host(self, task_status: trio.TaskStatus[None]) -> None:
        with self._call("leaving the runtime"), self._outside:
            async with self._scenario.open_runtime() as self._runtime:
                with self._checkpoints.adopting():
                    self._handle = _Handle(self._scenario.spawn(self._runtime))
                self._chunks = self._handle.subscribe("all")
                task_status.started()
                await self._talked.wait()

    async def _wait(self) -> None:
        with self._call("wait"):
            self._outcome = await self._handle.wait()
            if not self._runtime.list_active():  # else a detached agent goes on, as it may
                self._alive = self._checkpoints.alive

    async def _talk(self) -> None:
        with self._call("the person"):
            await self._scenario.person(self._handle)
        with self._call("the last ask"):
            await self._ask_last()
        self._talked.set()

    async def _ask_last(self) -> None:
        """Ask until an answer has come that nobody has disturbed."""
        while True:
            before = self._disturbed.is_set()
            if before:
                await self._dealt_with.wait()
            self._probe = None
            self._probe = await self._handle.ask(self._scenario.probe)
            if self._disturbed.is_set() == before:
                return

    # -- the one who disturbs -------------------------------------------------------------------

    def _disturb(self) -> None:
        """Do it at this very checkpoint, in so far as it does not wait."""
        self._before = self._chunks.lag
        match self._mode:
            case "interrupt":
                self._handle.interrupt_nowait()
            case "after_step":
                self._handle.interrupt_nowait("after_step")
            case "kill":
                self._handle.kill()
            case "cancel":
                self._outside.cancel()
            case _:
                pass
        self._disturbed.set()

    async def _follow_up(self) -> None:
        """Do what waits, one step later."""
        await self._disturbed.wait()
        with self._call(f"{self._mode}"):
            match self._mode:
                case "interrupt":
                    await self._join_interrupt()
                case "after_step":
                    await self._handle.interrupt("after_step")
                case "shutdown":
                    await self._handle.shutdown()
                case _:
                    pass
        self._dealt_with.set()

    async def _join_interrupt(self) -> None:
        report = await self._handle.interrupt()
        self._interrupted = Interrupted(
            report, self._before, self._chunks.lag, self._handle.history_now
        )

    # -- what is left ---------------------------------------------------------------------------

    async def evidence(self) -> Trial:
        """Collect what the run has left behind."""
        published = await self._read()
        streams = streams_of(self._handle.session_id, published)
        stored, damaged = await self._load(tuple(streams))
        return Trial(
            mode=self._mode,
            checkpoint=self._at,
            where=self._checkpoints.where,
            checkpoints=self._checkpoints.count,
            session_id=self._handle.session_id,
            outcome=self._outcome,
            state=self._handle.state,
            history=await self._handle.history(),
            stored=stored,
            damaged=damaged,
            published=tuple(published),
            streams=streams,
            alive=self._alive,
            processes=self._processes,
            running=self._runtime.list_active(),
            pending=await self._handle.pending(),
            stuck=tuple(self._calls),
            acknowledged=tuple(self._handle.acknowledged),
            interrupted=self._interrupted,
            probe=self._probe,
        )

    async def _read(self) -> list[OutputChunk]:
        found: list[OutputChunk] = []
        with trio.move_on_after(1):  # it ends at once, unless the agent has not ended
            while True:
                try:
                    found.append(await anext(self._chunks))
                except StopAsyncIteration:
                    break
        return found

    async def _load(
        self, sessions: tuple[str, ...]
    ) -> tuple[dict[str, tuple[Message, ...]], dict[str, str]]:
        stored: dict[str, tuple[Message, ...]] = {}
        damaged: dict[str, str] = {}
        for session_id in sessions:
            try:
                session = await AgentSession.load(session_id, store=self._scenario.store)
                stored[session_id] = session.history
                if not session.is_saved:
                    damaged[session_id] = "calls without results are stored; loading repairs them"
                await session.open()  # as the next agent would that goes on with it
                await session.close()
            except SessionNotFoundError:
                continue  # it had nothing to store
            except SessionError as error:
                damaged[session_id] = str(error)
        return stored, damaged
