"""Drift: at which request a changed agent would ask its model something else than on record.

`drift` runs a recorded session again, `export_test` makes a test file of one, and `Drift.check`
is what that file calls.
"""

import os
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from difflib import unified_diff
from typing import Concatenate, ParamSpec, cast

import msgspec
import trio
from msgspec.structs import replace
from trio.testing import wait_all_tasks_blocked

from greenroom.core import (
    AgentContext,
    ConfigurationError,
    GreenroomError,
    Message,
    PermissionRequest,
    RuleDecision,
    ToolResultBlock,
    TurnError,
)
from greenroom.core._internal import SECRET, serde
from greenroom.llm import LLMProvider, ModelRequest, open_model
from greenroom.llm._internal import OpenModels
from greenroom.observability import Span, Trace, Tracer, semconv as names
from greenroom.runtime import AgentHandle, AgentInternals, AgentNotRunningError, AgentRuntime
from greenroom.session import AgentSession, InMemoryStore
from greenroom.session._internal import is_stand_in
from greenroom.testing.models import Reply, Step
from greenroom.testing.recorded_run import unwrap
from greenroom.testing.recording import (
    RecordedCall,
    RecordedTurn,
    Recording,
    list_traced_decisions,
)
from greenroom.testing.replay import Playback, list_results
from greenroom.testing.traced_replies import Subagents

P = ParamSpec("P")

_COMPARED = (
    names.REQUEST_MODEL,
    names.SYSTEM,
    names.TOOL_DEFINITIONS,
    names.INPUT_MESSAGES,
    names.MAX_TOKENS,
    names.TEMPERATURE,
    names.TOP_P,
    names.SEED,
    names.STOP_SEQUENCES,
    names.OUTPUT_TYPE,
    names.OUTPUT_SCHEMA,
    names.TOOL_CHOICE,
    names.EFFORT,
    names.THINKING,
    names.PARALLEL_TOOLS,
    names.OPTIONS,
)
_PAUSE = 0.01  # seconds without anything to do, after which a turn that waits is interrupted


@dataclass(frozen=True)
class Drift:
    """Where a changed agent goes another way than its record.

    Attributes:
        step: the number of the request, from 1.
        diff: what differs, line by line; lines with `-` are the record's.
    """

    step: int
    diff: str

    @staticmethod
    async def check(
        record: str,
        agent_fn: Callable[Concatenate[AgentInternals, P], Awaitable[object]],
        *args: P.args,
        **named: P.kwargs,
    ) -> None:
        """Check that an agent asks its model what is on record; tests of `export_test` call it.

        Raises:
            AssertionError: a request differs; the error shows how.
            ConfigurationError: the record can't be read.
        """

        async def run_agent(agent: AgentInternals) -> None:
            await agent_fn(agent, *args, **named)

        found = await _Rerun(Recording.from_text(record)).run(run_agent)
        if found is not None:
            raise AssertionError(f"request {found.step} is not as on record:\n{found.diff}")


async def drift(
    session: AgentSession,
    trace: Trace,
    agent_fn: Callable[Concatenate[AgentInternals, P], Awaitable[object]],
    *args: P.args,
    **named: P.kwargs,
) -> Drift | None:
    """Run a recorded session again with an agent of today, and compare what it asks its model.

    No model is asked and no tool runs: both answer from the record, and so do persons; a turn that
    was interrupted is interrupted again. Requests are compared as the trace holds them, secrets
    taken out on both sides. What came after the end of its process, or after a question that was
    left open, is not compared. What subagents ask their models is answered from the trace, where
    they are found by their names and their first request, and is not compared either: they have
    sessions of their own.

    Args:
        session: the recorded session.
        trace: its trace, with content, and with those below it if the agent spawns others.
        agent_fn: the agent function of today.
        *args: its further arguments.
        **named: those by name.

    Returns:
        The first difference; None if every request is the same.

    Raises:
        ConfigurationError: the trace has no content to compare, or is not whole; or a subagent asks
            what is not on record, or was cut off while its parent went on.
        SessionError: the session can't be read.
    """

    async def run_agent(agent: AgentInternals) -> None:
        await agent_fn(agent, *args, **named)

    return await _Rerun(await Recording.of(session, trace)).run(run_agent)


_TEST = '''\
"""The session {session} as a test: it fails if the agent asks its model something else.

No model is asked and no tool runs. If the change is meant, make the file anew:
greenroom export-test {session} {agent} -o FILE
"""

import trio

from greenroom.testing import Drift
from {module} import {name}

RECORD = r"""
{record}
"""


def test_{function}():
    trio.run(Drift.check, RECORD, {name})
'''


async def export_test(session: AgentSession, trace: Trace, agent: str) -> str:
    """Make a test file of a recorded session, for pytest.

    It holds all that it needs, with secrets taken out, and passes as long as the agent asks its
    model the same, request by request.

    Args:
        session: the recorded session.
        trace: its trace, with content.
        agent: where to import the agent or the agent function from: "MODULE:NAME".

    Returns:
        The file, in Python.

    Raises:
        ConfigurationError: the trace has no content, or `agent` does not name one.
        SessionError: the session can't be read.
    """
    module, _, name = agent.partition(":")
    if not (all(map(str.isidentifier, module.split("."))) and name.isidentifier()):
        raise ConfigurationError(
            f"{agent!r} does not say where the agent is", hint="write MODULE:NAME, as shop.bots:ann"
        )
    recording = await Recording.of(session, trace)
    record = recording.to_text().replace('"""', '""\\u0022')
    id_ = session.session_id
    return _TEST.format(
        session=id_,
        agent=agent,
        module=module,
        name=name,
        record=record,
        function=re.sub(r"\W+", "_", id_).strip("_").casefold() or "session",
    )


class _Requests:
    """A sink that keeps what one agent asked its model."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self.spans: list[Span] = []

    def begin(self, span: Span, agent: AgentContext | None) -> None:
        if span.kind == "model" and span.session_id == self._session_id:
            self.spans.append(span)

    def end(self, span: Span, agent: AgentContext | None) -> None:
        pass

    def scope(self, span: Span) -> AbstractContextManager[object]:
        return nullcontext()


class _Rerun:
    """A recording that runs again, turn by turn, until something differs."""

    def __init__(self, recording: Recording) -> None:
        self._turns = recording.list_turns()
        self._session = AgentSession.new(recording.head.agent_type)
        for message in recording.head.before:
            self._session.add_message(message)
        decided = (*list_traced_decisions(recording.below), *recording.head.decisions)
        self._decisions = {each.tool_use_id: each for each in decided}
        self._results = list_results((*recording.head.before, *recording.head.messages))
        self._cut_off = {id_: each for id_, each in self._results.items() if is_stand_in(each)}
        self._errors = dict(recording.head.errors)
        below = Subagents(recording.below, recording.head.session_id)
        self._playback = Playback(self._next_step, self._results, self._errors, below)
        self._kept = _Requests(self._session.session_id)
        self._turn: RecordedTurn | None = None
        self._steps: Iterator[RecordedCall] = iter(())
        self._stuck = trio.Event()

    async def run(self, agent_fn: Callable[[AgentInternals], Awaitable[None]]) -> Drift | None:
        tracer = Tracer(self._kept, content="redacted")
        async with AgentRuntime(InMemoryStore(), instruments=[tracer]) as runtime:
            runtime.resources.insert(OpenModels(_open_unasked))
            runtime.resources.insert(self._playback)
            handle = runtime.spawn(self._session, agent_fn)
            try:
                async with trio.open_nursery() as nursery:
                    await nursery.start(self._answer, handle)
                    found = await self._run_turns(handle)
                    nursery.cancel_scope.cancel()
            finally:
                handle.kill()
        if self._playback.unknown:
            raise ConfigurationError(
                f"{self._playback.unknown} asked its model more than is on record, so nothing can"
                " be said about the agent above it",
                hint="read the trace with tree=True; what changes a subagent shows in its session",
            )
        return found

    async def _run_turns(self, handle: AgentHandle) -> Drift | None:
        count = 0
        for turn in self._turns:
            before = len(self._kept.spans)
            failure = await self._run_turn(handle, turn)
            if self._playback.unknown:
                return None
            if found := self._compare(turn, before, count):
                return found
            if failure:
                return Drift(count + len(turn.calls), f"+{failure}")
            if turn.is_last:
                break
            if turn.was_stopped:
                await self._mend()
            count += len(turn.calls)
        return None

    async def _run_turn(self, handle: AgentHandle, turn: RecordedTurn) -> str:
        """Run a turn again; return why there was none, if so."""
        self._turn, self._steps, self._stuck = turn, iter(turn.calls), trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._interrupt, handle)
            failure, given = "", turn.input
            try:
                await handle.ask(given.content, sender=given.sender, id=given.id)
            except (AgentNotRunningError, TurnError) as error:
                failure = error.message
            nursery.cancel_scope.cancel()
        return failure

    async def _mend(self) -> None:
        """Give calls that were cut off the answers on record.

        How far such a call comes depends on the moment of the interrupt, which is not on record.
        """
        history = self._session.history
        mended = [self._mend_message(each) for each in history]
        if any(now is not before for now, before in zip(mended, history, strict=True)):
            await self._session.rewrite(mended)

    def _mend_message(self, message: Message) -> Message:
        if not any(each.tool_use_id in self._cut_off for each in message.tool_results):
            return message
        content = [
            self._cut_off.get(each.tool_use_id, each) if isinstance(each, ToolResultBlock) else each
            for each in message.content
        ]
        return message if tuple(content) == message.content else replace(message, content=content)

    async def _interrupt(self, handle: AgentHandle) -> None:
        """Interrupt the turn once it waits for what did not come before it was interrupted."""
        await self._stuck.wait()
        await wait_all_tasks_blocked(_PAUSE)
        await handle.interrupt()

    def _next_step(self, request: ModelRequest) -> Step:
        assert self._turn is not None
        call = next(self._steps, None)
        if call is not None:
            if isinstance(call.step, Reply) and call.step.hangs:
                self._stuck.set()
            return call.step
        if self._turn.was_stopped:
            self._stuck.set()
            return Reply("", hangs=True)
        raise GreenroomError("the record has no such request")

    async def _answer(
        self,
        handle: AgentHandle,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Answer questions as they were answered; leave those open that nobody answered."""
        async with handle.subscribe(replay="none", answers=True) as chunks:
            task_status.started()
            async for output in chunks:
                chunk = unwrap(output)
                if not isinstance(chunk, PermissionRequest):
                    continue
                known = self._decisions.get(chunk.tool_use_id)
                if known is not None:
                    await handle.respond_permission(
                        chunk.request_id, known.decision, message=known.message, by=known.by
                    )
                elif self._turn is not None and self._turn.was_stopped:
                    self._stuck.set()
                else:
                    await handle.respond_permission(chunk.request_id, RuleDecision.DENY)

    def _compare(self, turn: RecordedTurn, start: int, count: int) -> Drift | None:
        """Compare the requests of a turn; the one that was never asked does not count."""
        recorded = [each.span for each in turn.calls]
        asked = self._kept.spans[start:]
        if turn.was_stopped and len(asked) == len(recorded) + 1:
            asked = asked[:-1]
        for at, (before, now) in enumerate(zip(recorded, asked, strict=False), count + 1):
            if diff := _diff(_facts(before), _match(_facts(before), _facts(now))):
                return Drift(at, diff)
        common = min(len(recorded), len(asked))
        if len(recorded) == len(asked):
            return None
        missing = _facts(recorded[common]) if len(asked) < len(recorded) else None
        surplus = None if missing else _facts(asked[common])
        return Drift(count + common + 1, _diff(missing, surplus))


def _open_unasked(name: str) -> LLMProvider:
    """Open a model that nobody will ask: a missing key does not matter."""
    try:
        return open_model(name)
    except ConfigurationError:
        return open_model(name, _AnyKey())


class _AnyKey(Mapping[str, str]):
    """The environment, with every key of an API."""

    def __getitem__(self, name: str) -> str:
        return os.environ.get(name, "") or self._make_up(name)

    def _make_up(self, name: str) -> str:
        if name.endswith("_API_KEY"):
            return "replay"
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(os.environ)

    def __len__(self) -> int:
        return len(os.environ)


def _facts(span: Span) -> dict[str, object]:
    found = {name: span.attributes[name] for name in _COMPARED if name in span.attributes}
    return cast("dict[str, object]", serde.loads(serde.encode(found)))


def _match(before: object, now: object) -> object:
    """Return what is asked now, with hidden whatever the record hides at the same place."""
    if before == now:
        return before
    if isinstance(before, str) and SECRET in before:
        pattern = ".*".join(map(re.escape, before.split(SECRET)))
        return before if re.fullmatch(pattern, str(now), re.DOTALL) else now
    if isinstance(before, dict) and isinstance(now, dict):
        return {name: _match(before.get(name), each) for name, each in now.items()}
    if isinstance(before, list) and isinstance(now, list):
        rest = now[len(before) :]
        return [*(_match(a, b) for a, b in zip(before, now, strict=False)), *rest]
    return now


def _diff(before: object, now: object) -> str:
    lines = unified_diff(_lines(before), _lines(now), "recorded", "now", lineterm="")
    return "\n".join(lines)


def _lines(value: object) -> Sequence[str]:
    if value is None:
        return ()
    return msgspec.json.format(serde.encode(value), indent=2).decode().splitlines()
