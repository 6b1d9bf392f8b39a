"""A scenario, and one run of it: disturbed at one checkpoint, from its first task to its evidence.

`Scenario` is an agent with its inputs and the answers to its requests. `play` runs it once.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVarTuple, Unpack

import trio

from greenroom import core
from greenroom.agents import coder
from greenroom.core import Message, StopReason
from greenroom.core._internal import clip
from greenroom.llm import ModelRequest
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.runtime import (
    AgentHandle,
    AgentInternals,
    AgentNotRunningError,
    AgentRuntime,
    Outcome,
    Receipt,
    RuntimeLimits,
    Subscription,
    TurnResult,
)
from greenroom.session import AgentSession, InMemoryStore, SessionStore
from greenroom.testing.fuzz.checkpoints import Checkpoints, is_virtual
from greenroom.testing.fuzz.evidence import (
    AcknowledgedInput,
    EndedCall,
    EndedTurn,
    Files,
    InterruptMoment,
    Leftovers,
    Mode,
    Trial,
    streams_of,
)
from greenroom.testing.fuzz.surroundings import Surroundings
from greenroom.testing.models import ScriptedProvider, Step, call
from greenroom.testing.recorded_run import Content, ScriptedApprover
from greenroom.tools import Tool, ToolRegistry

Ts = TypeVarTuple("Ts")

_PROBE = "Are you still there?"
_REPLIES = 50  # more than any run asks for


class Scenario:
    """An agent with everything around it, made afresh for each run.

    After an interrupt the conversation goes on: give the model a function of the request as its
    answer, since a script would be out of step.

    Args:
        agent_fn: the agent, as for `AgentRuntime.spawn`.
        *args: its further arguments.
        inputs: its inputs, each sent after the turn of the one before; a single text will do.
        person: talks to the handle in place of `inputs`, for what they can't say. It may get
            `AgentNotRunningError` at any time, and need not catch it.
        approver: answers permission requests.
        probe: the last inputs of the agent, which show that it still answers; if it has ended, the
            next one with the same tools gets them. By default all inputs again, so that their
            calls can be compared with those of the undisturbed run.
        store: where its session lives; by default in memory.
        limits: the bounds of the runtime; by default more chunks are kept than usual.
        workspace: the folder in which it works; by default a new and empty one.
    """

    def __init__(
        self,
        agent_fn: Callable[[AgentInternals, Unpack[Ts]], Awaitable[object]],
        *args: *Ts,
        inputs: str | Iterable[Content] = (),
        person: Callable[[AgentHandle], Awaitable[object]] | None = None,
        approver: ScriptedApprover | None = None,
        probe: str | Iterable[Content] | None = None,
        store: SessionStore | None = None,
        limits: RuntimeLimits | None = None,
        workspace: str | Path | None = None,
    ) -> None:
        """Describe it; nothing runs yet."""
        contents = _contents(inputs)

        async def tell(handle: AgentHandle) -> None:
            for content in contents:
                await handle.ask(content)

        self.person = person or tell
        self.approver = approver or ScriptedApprover()
        self.probe = _contents(probe) if probe is not None else contents or [_PROBE]
        self.store = store or InMemoryStore()
        self.limits = limits or RuntimeLimits(ring_chunks=100_000, ring_bytes=64 * 1024 * 1024)
        self.workspace = workspace

        def spawn(runtime: AgentRuntime) -> AgentHandle:
            return runtime.spawn(AgentSession.new("fuzzed"), agent_fn, *args)

        self.spawn = spawn
        """Starts the agent with a new session."""
        self.only_during_calls = False
        """Whether only cancels during a tool call are worth trying."""

    @classmethod
    def of_tool(
        cls,
        tool: Tool,
        input: Mapping[str, object],  # noqa: A002 (as everywhere where a tool is called)
        *,
        workspace: str | Path | None = None,
    ) -> "Scenario":
        """Describe an agent that calls one tool with one input, and then once more.

        Make a new tool for each scenario, with the locks, flags and connections that it keeps, so
        that no run disturbs the next. Every permission is given. The agent is disturbed while the
        first call runs.

        Args:
            tool: the tool.
            input: what it is called with, something that can be repeated.
            workspace: the folder in which it works; by default a new and empty one.

        Example:
            ```python
            cancel_at_every_checkpoint(lambda: Scenario.of_tool(Press().press, {"apples": 2}))
            ```
        """

        def answer(request: ModelRequest) -> Step:
            return "Done." if request.messages[-1].tool_results else call(tool.name, **input)

        model = ScriptedProvider(*[answer] * _REPLIES)
        tools, rules = ToolRegistry([tool]), PermissionManager([PermissionRule.allow_all()])

        async def agent(internals: AgentInternals) -> None:
            await coder(internals, model, tools, rules)

        scenario = Scenario(agent, inputs=f"Call {tool.name}.", workspace=workspace)
        scenario.only_during_calls = True
        return scenario

    def open_runtime(self) -> AgentRuntime:
        """Make the runtime in which it runs."""
        return AgentRuntime(self.store, self.limits, self.workspace or ".")


def _contents(inputs: str | Iterable[Content]) -> list[str | list[core.ContentBlock]]:
    if isinstance(inputs, str):
        return [inputs]
    return [each if isinstance(each, str) else list(each) for each in inputs]


_MAX_CALL = 200  # characters of a call's input


async def play(
    scenario: Scenario, mode: Mode | None, at: int, timeout: float, surroundings: Surroundings
) -> Trial:
    """Run a scenario once, do what `mode` says at the checkpoint `at`, and collect the evidence."""
    stage = _ScenarioRun(scenario, mode, at, surroundings)
    await stage.play(timeout)
    return await stage.evidence()


class _Handle(AgentHandle):
    """A handle that remembers the receipts that it gave, those of `ask` too, and does not wait."""

    def __init__(self, handle: AgentHandle) -> None:
        super().__init__(handle._actor)
        self.acknowledged_inputs: list[AcknowledgedInput] = []

    @property
    def history_now(self) -> tuple[Message, ...]:
        """The conversation in this step; the agent may go on while one waits for `history()`."""
        return self._actor.session.history

    def _receipt(self, message: core.UserInput, is_delivered: bool, replaced: str = "") -> Receipt:
        receipt = super()._receipt(message, is_delivered, replaced)
        others = [each for each in self.acknowledged_inputs if each.receipt.input_id != replaced]
        self.acknowledged_inputs = [*others, AcknowledgedInput(receipt, message.text)]
        return receipt


@dataclass(frozen=True)
class _Moment:
    """A moment by the two measures of work: the clock, and the checkpoints passed so far."""

    seconds: float
    checkpoints: int

    def until(self, now: "_Moment") -> tuple[float, int]:
        """Return what has passed since; nothing on a real clock, where it is never the same."""
        if not is_virtual():
            return 0.0, 0
        return now.seconds - self.seconds, now.checkpoints - self.checkpoints


class _Recorder:
    """An instrument of the runtime that records how tool calls and the agent's turns end."""

    def __init__(
        self, count_checkpoints: Callable[[], int], list_files: Callable[[], Files] | None
    ) -> None:
        """Look at the files after each call, where the run is one to compare with."""
        self._count_checkpoints = count_checkpoints
        self._list_files = list_files
        self._began: dict[str, _Moment] = {}
        self.calls: list[EndedCall] = []
        self.files: list[Files] = []
        self.agents: dict[str, AgentHandle] = {}
        """The agents whose turns count, by their sessions."""
        self.turns: list[EndedTurn] = []
        self._turn = ("", 0, _Moment(0.0, 0))  # its input, the messages before it, its beginning

    @property
    def is_calling(self) -> bool:
        """Whether a call runs."""
        return bool(self._began)

    def before_tool_call(self, agent: core.AgentContext, call: core.ToolUseBlock) -> None:
        """Note when it begins."""
        self._began[call.id] = self._now()

    def after_tool_call(
        self,
        agent: core.AgentContext,
        call: core.ToolUseBlock,
        result: core.ToolResult | None,
        error: BaseException | None,
    ) -> None:
        """Note how it has ended."""
        pairs = ", ".join(f"{name}={value!r}" for name, value in call.input.items())
        text = f"{call.name}({clip(pairs, _MAX_CALL)})"
        spent = self._began.pop(call.id).until(self._now())
        self.calls.append(EndedCall(text, result, *spent))
        if self._list_files:
            self.files.append(self._list_files())

    def before_turn(
        self, agent: core.AgentContext, message: core.UserInput | core.SubAgentResult
    ) -> None:
        """Note its input, and when it begins."""
        if agent.session_id in self.agents:
            self._turn = (message.text, len(self._list_said(agent.session_id)), self._now())

    def after_turn(self, agent: core.AgentContext, end: core.Done) -> None:
        """Note how it has ended, and what was said."""
        if agent.session_id in self.agents:
            text, before, began = self._turn
            said = "\n".join(self._list_said(agent.session_id)[before:])
            self.turns.append(EndedTurn(text, end.status, said, *began.until(self._now())))

    def _now(self) -> _Moment:
        return _Moment(trio.current_time(), self._count_checkpoints())

    def _list_said(self, session_id: str) -> list[str]:
        """Return what was said in full: a reply that was cut off says so."""
        return [
            message.text
            for message in self.agents[session_id]._actor.session.history
            if message.role == "assistant" and message.stop_reason is not StopReason.INTERRUPTED
        ]


class _ScenarioRun:
    """One run: the agent in its runtime, its callers, and the disturbance."""

    _runtime: AgentRuntime
    _handle: _Handle
    _chunks: Subscription

    def __init__(
        self, scenario: Scenario, mode: Mode | None, at: int, surroundings: Surroundings
    ) -> None:
        self._scenario = scenario
        self._mode = mode
        self._at = at
        self._surroundings = surroundings
        self._files_before = surroundings.files()
        self._recorder = recorder = _Recorder(
            lambda: self._checkpoints.count, None if mode else surroundings.files
        )
        self._leftovers = Leftovers()
        # Of two scopes, one ends the runtime and leaves those alone who talk to its agents.
        self._run_scope = trio.CancelScope()
        self._outside = trio.CancelScope()
        self._checkpoints = Checkpoints(
            at, self._disturb, self._run_scope, lambda: recorder.is_calling
        )
        self._disturbance = trio.Event()
        self._is_handled = trio.Event()
        self._conversation_end = trio.Event()
        self._calls: list[str] = []
        self._before = 0
        self._alive: tuple[str, ...] = ()
        self._outcome: Outcome | None = None
        self._interrupt: InterruptMoment | None = None
        self._probe: TurnResult | None = None
        self._successor = ""
        self._worth_trying: tuple[int, ...] = ()
        self._first_calls = 0
        self._first_turns = 0

    async def play(self, timeout: float) -> None:
        """Run it to its end, or to the time limit."""
        self._run_scope.deadline = trio.current_time() + timeout
        trio.lowlevel.add_instrument(self._checkpoints)
        with self._run_scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._follow_up)
                async with trio.open_nursery() as callers:
                    await callers.start(self._host)
                    callers.start_soon(self._wait)
                    await callers.start(self._scenario.approver.attend, self._handle)
                    await self._talk()
                if self._disturbance.is_set():
                    await self._is_handled.wait()
                nursery.cancel_scope.cancel()
        self._alive = self._alive or self._checkpoints.alive
        if self._checkpoints.error is not None:
            raise self._checkpoints.error
        if self._needs_successor and not self._calls:
            with trio.move_on_after(timeout) as self._checkpoints.run_scope:
                await self._run_successor()
        trio.lowlevel.remove_instrument(self._checkpoints)

    @property
    def _needs_successor(self) -> bool:
        """Whether the agent has ended normally; the control needs a successor for comparison."""
        if self._mode is None:
            return self._probe is not None and self._probe.status is core.TurnStatus.COMPLETED
        return self._mode in {"shutdown", "cancel"}

    @contextmanager
    def _call(self, what: str) -> Iterator[None]:
        """Record a call to the runtime; one that never returns is stuck."""
        self._calls.append(what)
        try:
            yield
        except* (AgentNotRunningError, core.TurnError):
            pass  # it has ended, as it may at any time
        self._calls.remove(what)

    async def _host(self, task_status: trio.TaskStatus[None]) -> None:
        with self._call("leaving the runtime"), self._outside:
            async with self._scenario.open_runtime() as self._runtime:
                with self._checkpoints.adopt():
                    self._handle = _Handle(self._spawn(self._runtime))
                self._chunks = self._handle.subscribe("all")
                task_status.started()
                await self._conversation_end.wait()

    def _spawn(self, runtime: AgentRuntime) -> AgentHandle:
        runtime.instruments.add(self._recorder)
        handle = self._scenario.spawn(runtime)
        if not self._scenario.only_during_calls:
            self._recorder.agents[handle.session_id] = handle
        return handle

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
        self._conversation_end.set()

    async def _ask_last(self) -> None:
        """Ask until an answer came undisturbed."""
        while True:
            before = self._disturbance.is_set()
            if before:
                await self._is_handled.wait()
            self._record_first_calls()
            await self._ask(self._handle)
            if self._disturbance.is_set() == before:
                return

    def _record_first_calls(self) -> None:
        """Record the calls and leftovers so far; what follows is the probe."""
        self._first_calls = len(self._recorder.calls)
        self._first_turns = len(self._recorder.turns)
        if self._scenario.only_during_calls:
            self._worth_trying = tuple(self._checkpoints.during_calls)
        self._leftovers = self._surroundings.leftovers()

    async def _ask(self, handle: AgentHandle) -> None:
        self._probe = probe = None
        for content in self._scenario.probe:
            probe = await handle.ask(content)
            if probe.status is not core.TurnStatus.COMPLETED:
                break
        self._probe = probe

    async def _run_successor(self) -> None:
        """Send the probe to the next agent, which has the same tools."""
        if self._mode is not None:
            self._record_first_calls()
        with self._call("the next agent"):
            async with self._scenario.open_runtime() as runtime, trio.open_nursery() as nursery:
                handle = self._spawn(runtime)
                self._successor = handle.session_id
                await nursery.start(self._scenario.approver.attend, handle)
                await self._ask(handle)
                if self._mode is None:  # see whether a repetition differs here, too
                    await self._ask(handle)
                nursery.cancel_scope.cancel()

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
        self._disturbance.set()

    async def _follow_up(self) -> None:
        """Do what waits, one step later."""
        await self._disturbance.wait()
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
        self._is_handled.set()

    async def _join_interrupt(self) -> None:
        report = await self._handle.interrupt()
        self._interrupt = InterruptMoment(
            report, self._before, self._chunks.lag, self._handle.history_now
        )

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
            worth_trying=self._worth_trying,
            session_id=self._handle.session_id,
            outcome=self._outcome,
            state=self._handle.state,
            history=await self._handle.history(),
            stored_histories=stored,
            damaged=damaged,
            all_chunks=tuple(published),
            streams=streams,
            alive=self._alive,
            running=self._runtime.list_active(),
            pending=await self._handle.pending(),
            stuck=tuple(self._calls),
            acknowledged_inputs=tuple(self._handle.acknowledged_inputs),
            interrupt=self._interrupt,
            probe=self._probe,
            calls=tuple(self._recorder.calls[: self._first_calls]),
            calls_again=tuple(self._recorder.calls[self._first_calls :]),
            turns=tuple(self._recorder.turns[: self._first_turns]),
            turns_again=tuple(self._recorder.turns[self._first_turns :]),
            swallowed_cancels=tuple(self._checkpoints.swallowed.found),
            way=tuple(self._way()),
            successor=self._successor,
            files_before=self._files_before,
            files_after_calls=tuple(self._recorder.files),
            leftovers=self._leftovers,
        )

    def _way(self) -> Iterator[str]:
        everything = not self._scenario.only_during_calls
        return (place for is_calling, place in self._checkpoints.way if everything or is_calling)

    async def _read(self) -> list[core.OutputChunk]:
        chunks: list[core.OutputChunk] = []
        with trio.move_on_after(1):  # it ends at once, unless the agent has not ended
            while True:
                try:
                    chunks.append(await anext(self._chunks))
                except StopAsyncIteration:
                    break
        return chunks

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
            except core.SessionNotFoundError:
                continue  # it had nothing to store
            except core.SessionError as error:
                damaged[session_id] = str(error)
        return stored, damaged
