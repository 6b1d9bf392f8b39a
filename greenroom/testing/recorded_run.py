"""Runs an agent from its spawn to its end in one call, with scripted answers, and records it."""

from collections import deque
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import floor
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar, TypeVarTuple, Unpack

import trio
from trio.testing import MockClock

from greenroom import core
from greenroom.core import Answer, Message, OutputChunk, PermissionRequest, RuleDecision
from greenroom.core._internal import is_async
from greenroom.runtime import (
    AgentHandle,
    AgentInternals,
    AgentNotRunningError,
    AgentRuntime,
    Outcome,
    RuntimeLimits,
    TurnResult,
)
from greenroom.session import AgentSession, InMemoryStore, SessionStore
from greenroom.testing.virtual_time import run_in_virtual_time

ScriptedAnswer: TypeAlias = (
    Literal["allow", "deny"] | Answer | Callable[[PermissionRequest], "ScriptedAnswer"]
)
"""A step of a script: a decision, a whole `Answer`, or a function of the request."""

_NO_ANSWER = Answer(
    RuleDecision.DENY, message="the test's approver has no answer for this request", by="script"
)


class ScriptedApprover:
    """Answers the permission requests of an agent and its subagents, each with the next answer.

    A request beyond the script is denied, and `check()` fails; it also fails if an answer is
    unused. `run_agent` takes one as its `approver`; elsewhere start `attend` in a nursery.

    Attributes:
        requests: what it was asked, in order.
        unexpected_requests: the requests beyond the script.

    Example:
        ```python
        approver = ScriptedApprover("allow", Answer(RuleDecision.DENY, message="not on Sundays"))
        async with trio.open_nursery() as nursery:
            await nursery.start(approver.attend, handle)
            result = await handle.ask("Tidy up.")
        assert [request.tool_name for request in approver.requests] == ["Bash", "Write"]
        ```
    """

    def __init__(self, *answers: ScriptedAnswer) -> None:
        """Take the answers in order.

        Raises:
            ConfigurationError: something is not an answer.
        """
        for answer in answers:
            is_value = answer in ("allow", "deny") or isinstance(answer, Answer)
            if not is_value and (not callable(answer) or is_async(answer)):
                raise core.ConfigurationError(
                    f"{answer!r} is not an answer",
                    hint="write 'allow', 'deny', an Answer, or a plain function of the request",
                )
        self.requests: list[PermissionRequest] = []
        self.unexpected_requests: list[PermissionRequest] = []
        self._script = deque(answers)
        self._seen_ids: set[str] = set()

    @property
    def unused_count(self) -> int:
        """How many answers are unused."""
        return len(self._script)

    async def attend(
        self,
        handle: AgentHandle,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Answer for this agent, and for its subagents, until it has ended.

        With `await nursery.start(approver.attend, handle)` it is registered before the next line.

        Raises:
            ValueError: an answer is neither allow nor deny.
            BaseException: whatever an answer that is a function raises, such as a failed `assert`.
        """
        async with handle.subscribe(replay="none", answers=True) as chunks:
            task_status.started()
            await self._answer_all(handle)
            async for chunk in chunks:
                if isinstance(unwrap(chunk), (PermissionRequest, core.Lagged)):
                    await self._answer_all(handle)

    def check(self) -> None:
        """Fail unless each request had an answer in the script, and each answer its request.

        Raises:
            AssertionError: the requests differ from the script.
        """
        self.check_requests()
        assert not self._script, f"unused answers: {len(self._script)}"

    def check_requests(self) -> None:
        """Fail unless each request had an answer in the script; some answers may be unused.

        Raises:
            AssertionError: a request had no answer in the script.
        """
        asked = "; ".join(f"{each.tool_name}: {each.action}" for each in self.unexpected_requests)
        assert not self.unexpected_requests, f"no answer was written for these requests: {asked}"

    async def _answer_all(self, handle: AgentHandle) -> None:
        """Answer all open requests; the handle knows them even if this reader has lagged."""
        for request in await handle.pending():
            if request.request_id in self._seen_ids:
                continue
            self._seen_ids.add(request.request_id)
            self.requests.append(request)
            answer = self._next(request)
            await handle.respond_permission(
                request.request_id,
                answer.decision,
                remember=answer.remember,
                message=answer.message,
                input=answer.input,
                by=answer.by,
                prefix=answer.prefix,
            )

    def _next(self, request: PermissionRequest) -> Answer:
        if not self._script:
            self.unexpected_requests.append(request)
            return _NO_ANSWER
        answer = self._script.popleft()
        while callable(answer):
            answer = answer(request)
        return answer if isinstance(answer, Answer) else Answer(RuleDecision(answer))


def unwrap(chunk: OutputChunk) -> OutputChunk:
    """Return what the agent said that a chunk comes from, be it a subagent."""
    while isinstance(chunk, core.SubAgentOutput):
        chunk = chunk.chunk
    return chunk


Ts = TypeVarTuple("Ts")
Chunk = TypeVar("Chunk")


Content: TypeAlias = str | Iterable[core.ContentBlock]
"""An input of an agent: a text, or content blocks."""

_A_DAY = 86_400.0  # seconds; on a clock that jumps, a hang shows at once all the same
_A_MINUTE = 60.0
_LIMITS = RuntimeLimits(ring_chunks=100_000, ring_bytes=64 * 1024 * 1024)


@dataclass(frozen=True)
class RecordedRun:
    """What an agent said and did, from its spawn to its end.

    Attributes:
        chunks: everything that it published, `Exited` last. They are bounded by the run's limits:
            100,000 chunks by default; where more came, the first is a `Lagged` that counts the
            rest.
        results: how each turn ended, in the order of the inputs.
        outcome: how the agent ended.
        history: its conversation at the end.
        session_id: its session, which its store still has.
    """

    chunks: tuple[OutputChunk, ...]
    results: tuple[TurnResult, ...]
    outcome: Outcome
    history: tuple[Message, ...]
    session_id: str

    @property
    def text(self) -> str:
        """The text of the last turn's reply; empty where there was none."""
        return self.results[-1].text if self.results else ""

    def of(self, kind: type[Chunk]) -> tuple[Chunk, ...]:
        """Return the agent's own chunks of one kind, such as `run.of(ToolEnd)`."""
        return tuple(chunk for chunk in self.chunks if isinstance(chunk, kind))


class AgentRunError(AssertionError):
    """A run did not go as a test expects; `run` holds what was recorded.

    Its cause is the error that crashed the agent, if it crashed.
    """

    def __init__(self, message: str, run: RecordedRun) -> None:
        """Say what went wrong."""
        super().__init__(message)
        self.run = run


def run_agent(
    agent_fn: Callable[[AgentInternals, Unpack[Ts]], Awaitable[object]],
    *args: *Ts,
    inputs: str | Iterable[Content] = (),
    approver: ScriptedApprover | None = None,
    session: AgentSession | None = None,
    store: SessionStore | None = None,
    limits: RuntimeLimits | None = None,
    workspace: str | Path = ".",
    real_time: bool = False,
    timeout: float | None = None,
    check: bool = True,
) -> RecordedRun:
    """Run an agent in a new runtime, send it each input in turn, and return what it did.

    For plain tests: it starts trio itself. The clock jumps and the store is in memory, so hours
    pass in no time. The clock waits for threads, such as those of plain function tools, but not for
    processes and sockets: for tools that use one, pass `real_time=True`.

    Args:
        agent_fn: the agent, as for `AgentRuntime.spawn`.
        *args: its further arguments.
        inputs: its inputs, or a single text; each is sent after the turn of the one before. After
            the last one the agent is shut down, and may finish its work. Without inputs it has to
            end on its own.
        approver: answers its permission requests; by default none is expected.
        session: the conversation that it continues; by default a new one.
        store: where the session is stored; by default in memory.
        limits: the limits of the runtime; by default more chunks are kept than usual.
        workspace: the folder in which it works.
        real_time: whether to use the real clock.
        timeout: seconds of that clock until a run counts as hanging; by default a day, or a minute
            of real time.
        check: whether a run that went wrong raises.

    Raises:
        AgentRunError: with `check`: the agent crashed, one of its turns failed, it ended before its
            last input, or a permission request is not in the approver's script. With or without:
            the agent hangs. Code that can't be cancelled hangs this call too.
        RuntimeError: called from inside trio; there, open an `AgentRuntime`.

    Example:
        >>> async def echo(agent: AgentInternals) -> None:
        ...     async for message in agent.inputs():
        ...         async with agent.turn(message):
        ...             await trio.sleep(3600)
        ...             agent.session.add_message(Message.assistant(message.text))
        >>> run_agent(echo, inputs=["one", "two"]).text
        'two'
    """
    if trio.lowlevel.in_trio_run():
        raise RuntimeError("run_agent starts trio itself: inside trio, open an AgentRuntime")
    whole = partial(
        run_agent_async,
        agent_fn,
        *args,
        inputs=inputs,
        approver=approver,
        session=session,
        store=store,
        limits=limits,
        workspace=workspace,
        timeout=timeout,
        check=check,
    )
    return trio.run(whole) if real_time else run_in_virtual_time(whole)


async def run_agent_async(
    agent_fn: Callable[[AgentInternals, Unpack[Ts]], Awaitable[object]],
    *args: *Ts,
    inputs: str | Iterable[Content] = (),
    approver: ScriptedApprover | None = None,
    session: AgentSession | None = None,
    store: SessionStore | None = None,
    limits: RuntimeLimits | None = None,
    workspace: str | Path = ".",
    timeout: float | None = None,
    check: bool = True,
) -> RecordedRun:
    """Do what `run_agent` does, inside trio and on the clock that runs there.

    Raises:
        AgentRunError: as `run_agent` says.
    """
    if not isinstance(inputs, Iterable):
        raise TypeError(f"inputs is a text, or a list of inputs, not {inputs!r}")
    contents: list[Content] = [inputs] if isinstance(inputs, str) else list(inputs)
    person = approver or ScriptedApprover()
    session = session or AgentSession.new(getattr(agent_fn, "__name__", "agent"))
    async with AgentRuntime(store or InMemoryStore(), limits or _LIMITS, workspace) as runtime:
        talk = _Conversation(runtime.spawn(session, agent_fn, *args), contents)
        with trio.move_on_after(_time_limit(timeout)) as patience:
            await talk.run_to_end(person)
        if patience.cancelled_caught:
            raise await talk.stop_hanging_agent()
        run = await talk.run()
    if check:
        talk.check(run, person)
    return run


def _time_limit(timeout: float | None) -> float:
    if timeout is not None:
        return timeout
    return _A_DAY if isinstance(trio.lowlevel.current_clock(), MockClock) else _A_MINUTE


class _Conversation:
    """The inputs of one run, sent one after the other."""

    def __init__(self, handle: AgentHandle, contents: list[Content]) -> None:
        self._handle = handle
        # A reader from the beginning: it learns at its next read what the ring has dropped.
        self._chunks = handle.subscribe("all")
        self._inputs = contents
        self._completed_count = 0
        self._results: list[TurnResult] = []

    async def run_to_end(self, person: ScriptedApprover) -> None:
        """Send every input, and wait for the agent to end."""
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(person.attend, self._handle)
                with suppress(AgentNotRunningError):  # then the outcome says why
                    await self._tell()
                if self._inputs:
                    await self._handle.shutdown(grace=float("inf"))
                await self._handle.wait()
        except BaseExceptionGroup as group:
            # What a function of the approver's script raises is the test's own: it comes out bare.
            raise _unwrap_group(group) from None

    async def _tell(self) -> None:
        for content in self._inputs:
            with suppress(core.TurnError):  # no turn was opened for it
                self._results.append(await self._handle.ask(content))
            self._completed_count += 1

    @property
    def _place(self) -> str:
        return f"input {self._completed_count + 1} of {len(self._inputs)}"

    async def run(self) -> RecordedRun:
        """Collect everything that it did."""
        return RecordedRun(
            chunks=tuple([chunk async for chunk in self._chunks]),
            results=tuple(self._results),
            outcome=await self._handle.wait(),
            history=await self._handle.history(),
            session_id=self._handle.session_id,
        )

    async def stop_hanging_agent(self) -> AgentRunError:
        """End the agent, and return an error that says where it hung."""
        handle = self._handle
        where = f"in {self._place}, {handle.state}"
        if self._completed_count == len(self._inputs):
            where = f"after its last input, {handle.state}"
        await handle.shutdown(grace=0)
        return AgentRunError(f"the agent hangs {where}", await self.run())

    def check(self, run: RecordedRun, person: ScriptedApprover) -> None:
        """Fail unless the run went as a test expects."""
        crash = run.outcome.error
        if crash is not None:
            text = f"the agent crashed: {type(crash).__name__}: {crash}"
            raise AgentRunError(text, run) from crash
        for number, result in enumerate(run.results, 1):
            if result.status is core.TurnStatus.FAILED:
                raise AgentRunError(f"turn {number} failed: {result.error}", run)
        if self._completed_count < len(self._inputs):
            raise AgentRunError(f"the agent ended before {self._place}", run)
        try:
            person.check_requests()
        except AssertionError as error:
            raise AgentRunError(str(error), run) from None


def _unwrap_group(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


async def marbles(
    chunks: AsyncIterable[OutputChunk], letters: Mapping[type[OutputChunk], str]
) -> str:
    """Read a stream to its end, and draw it: a letter for each chunk, a dash for each second.

    Seconds are those of trio's clock since the call, so with a clock that jumps an hour costs
    nothing; beside threads, processes and sockets it tells how fast the machine is. Chunks of kinds
    without a letter are left out, and so are the seconds after the last letter.

    Example:
        ```python
        line = await marbles(handle.stream(), {ToolStart: "(", ToolEnd: ")", Done: "|"})
        assert line == "(--)|"
        ```
    """
    start, seconds_drawn, line = trio.current_time(), 0, ""
    async for chunk in chunks:
        if letter := letters.get(type(chunk)):
            # A millionth of a second belongs to the second that it ends: clocks add up in floats.
            seconds = floor(trio.current_time() - start + 1e-6)
            line += "-" * (seconds - seconds_drawn) + letter
            seconds_drawn = seconds
    return line
