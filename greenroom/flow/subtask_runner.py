"""Run one subtask once, unless its last run left a result or it may not be repeated.

A subtask with a tool is an agent that makes one call and uses no model. It has its own session, so
calls of a plan can run in parallel, and each has its own record of whether it had started when the
process ended.
"""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec
import trio
from msgspec.structs import replace

from greenroom.agents import GO_ON, find_caller, run_tools
from greenroom.core import (
    AUTOMATIC_DECIDERS,
    JSON,
    Answer,
    Message,
    PlanError,
    RuleDecision,
    ToolError,
    ToolResult,
    ToolStatus,
    ToolUseBlock,
    TurnStatus,
    new_id,
)
from greenroom.flow.error_context import ErrorClass, classify
from greenroom.flow.plan import Subtask
from greenroom.flow.plan_run import (
    FailureReason,
    PlanRecorder,
    SubtaskMove,
    SubtaskStatus,
    last_records,
)
from greenroom.flow.references import fill, read_value
from greenroom.flow.trace import Trace, find_trace, reopen, trace_call, trace_worker
from greenroom.permissions import PermissionManager
from greenroom.runtime import AgentHandle, AgentInternals, TurnResult, try_ask
from greenroom.session import AgentSession
from greenroom.tools import RegisteredTool, ToolRegistry, is_misfit

Spawn: TypeAlias = Callable[[AgentSession, str], AgentHandle]
"""Starts the agent of a subtask, in a session and with a name."""

_TAKE_OVER = "Take this over: go on where the work has stopped, and do nothing twice."


class SubtaskEnd(NamedTuple):
    """How a subtask ended, and the class of its error if it failed."""

    move: SubtaskMove
    error: ErrorClass = ErrorClass.FAILED


@dataclass(frozen=True)
class SubtaskRunner:
    """Runs subtasks of a plan, each once per call; `execute` decides about further tries."""

    agent: AgentInternals
    recorder: PlanRecorder
    tools: ToolRegistry
    permissions: PermissionManager
    spawn: Spawn
    may_repeat: Callable[[RegisteredTool], bool]
    patience: float | None

    async def run(self, subtask: Subtask, *, is_again: bool) -> SubtaskEnd:
        """Run a subtask, or return how its last run ended.

        Args:
            subtask: a pending subtask.
            is_again: whether this is another try after a failure.
        """
        trace, before = Trace("nothing"), self.recorder.run.state(subtask.id)
        if old_session_id := before.session_id:
            trace = await self._inspect_last_run(old_session_id, subtask)
            # If an agent failed after its last reply, that reply is not a result.
            if trace.kind == "result" and (subtask.tool or not before.error):
                self._record_start(subtask, old_session_id)
                return _end_of_trace(trace, subtask)
        try:
            filled = fill(subtask, self.recorder.run, self._argument_types(subtask.tool))
        except PlanError as error:
            return _make_failure(subtask, str(error), FailureReason.INPUT, ErrorClass.MISSING)
        is_known = is_again or bool(old_session_id)
        end = await self._ask(filled, trace, old_session_id, is_known=is_known)
        if end is not None:
            return end
        session, call = await self._open_session(trace), self._call_hash(filled)
        self._record_start(subtask, session.session_id, call)
        try:
            await self.recorder.save(flush=True)
            if subtask.tool:
                return await self._make_call(filled, session, call)
            text = _opening_text(filled, session, before.error)
            return await self._wait_for_end(self.spawn(session, subtask.id), text, subtask)
        except BaseException:
            self._record_interruption(subtask, session, call)
            raise

    async def ask(self, subtask: Subtask, about: str, doubt: str, reason: str) -> Answer:
        """Ask a person whether a subtask that may have had its effect is to be run again."""
        with suppress(PlanError):  # without results, show it as in the plan
            subtask = fill(subtask, self.recorder.run, self._argument_types(subtask.tool))
        return await self.agent.request_permission(
            subtask.tool or "plan",
            f"Run the subtask {subtask.id}{about}",
            details=f"{subtask.goal}\n{doubt}".strip(),
            input=subtask.arguments,
            reason=reason,
        )

    async def _inspect_last_run(self, session_id: str, subtask: Subtask) -> Trace:
        session, tool = self.agent.session, self.tools.get(subtask.tool)
        inspect = trace_call if subtask.tool else trace_worker
        trace = await find_trace(session_id, [session.session_id], session.store, inspect)
        if trace.kind == "unsure" and tool is not None and self.may_repeat(tool):
            return Trace("nothing")
        return trace

    async def _ask(
        self, subtask: Subtask, trace: Trace, old_session_id: str, *, is_known: bool
    ) -> SubtaskEnd | None:
        """Ask a person if the subtask may have had an effect; return its end if they decline."""
        if trace.kind == "unsure":
            doubt = f"It was cut off, and {trace.doubt}: it may have had its effect already."
            answer = await self.ask(subtask, " again", doubt, "it was cut off in the middle")
            error = f"it was cut off, and {trace.doubt}; "
        elif not is_known and (earlier := self._find_earlier_call(subtask)):
            error = f"the same call was made before, by {earlier}; "
            answer = await self.ask(
                subtask,
                ", a call that was made before",
                f"The same call was made by {earlier}, and may have had its effect.",
                "the plan was revised, and its tool does not allow calling it twice",
            )
        else:
            return None
        if answer.decision is RuleDecision.ALLOW:
            return None
        error += answer.message or "it is not to be run again"
        if not old_session_id:
            return _make_failure(subtask, error, kind=ErrorClass.DENIED)
        if answer.by in AUTOMATIC_DECIDERS:  # a person may answer later
            pending = SubtaskStatus.PENDING
            return SubtaskEnd(
                SubtaskMove(subtask.id, pending, error=error, session_id=old_session_id)
            )
        return _make_failure(subtask, error, FailureReason.CUT_OFF)

    def _find_earlier_call(self, subtask: Subtask) -> str:
        if not self.recorder.run.revisions or not (call := self._call_hash(subtask)):
            return ""
        return find_earlier_call(last_records(self.agent.session), subtask.id, call)

    def _call_hash(self, subtask: Subtask) -> str:
        """Return a hash of the call; empty if the call may be made twice."""
        tool = self.tools.get(subtask.tool)
        if tool is None or self.may_repeat(tool):
            return ""
        call = msgspec.json.encode([tool.name, subtask.arguments], order="deterministic")
        return hashlib.sha256(call).hexdigest()[:32]

    def _argument_types(self, name: str) -> dict[str, object]:
        """Return the types of a tool's arguments by its schema."""
        tool = self.tools.get(name)
        properties = tool.parameters.get("properties") if tool is not None else None
        if not isinstance(properties, dict):
            return {}
        return {key: each.get("type") for key, each in properties.items() if isinstance(each, dict)}

    async def _open_session(self, trace: Trace) -> AgentSession:
        """Open the session of a subtask, with the conversation of its interrupted run, if any."""
        if trace.session is None:
            return AgentSession.new("subtask")
        return await reopen(trace.session, self.agent.session)

    def _record_start(self, subtask: Subtask, session_id: str, call: str = "") -> None:
        executing = SubtaskStatus.EXECUTING
        self.recorder.write(SubtaskMove(subtask.id, executing, session_id=session_id, call=call))

    async def _make_call(self, subtask: Subtask, session: AgentSession, call: str) -> SubtaskEnd:
        agent_fn = SubtaskCall(subtask, self.tools, self.permissions)
        handle = self.agent.spawn(session, agent_fn, report=False, name=subtask.id)
        move, error = await self._wait_for_end(handle, subtask.goal or subtask.tool, subtask)
        is_from_tool = error is ErrorClass.FAILED  # the turn reports nothing more specific
        error = agent_fn.error_class if is_from_tool else error
        if not is_from_tool or error in (ErrorClass.CRASH, ErrorClass.TIMEOUT):
            move = replace(move, call=call)
        return SubtaskEnd(move, error)

    async def _wait_for_end(self, handle: AgentHandle, text: str, subtask: Subtask) -> SubtaskEnd:
        """Ask an agent, shut it down, and return how it ended."""
        try:
            metadata = {"subtask": subtask.id}
            ask = partial(try_ask, handle, text, sender="plan", metadata=metadata)
            end = self._make_end(await interrupt_if_silent(handle, self.patience, ask), subtask)
            await handle.shutdown()
        finally:
            with trio.CancelScope(shield=True):
                await handle.shutdown(grace=0)
        return end

    def _make_end(self, result: TurnResult | None, subtask: Subtask) -> SubtaskEnd:
        if result is None:
            error = f"it was silent for {self.patience:g} seconds"
            return _make_failure(subtask, error, kind=ErrorClass.TIMEOUT)
        if result.status is not TurnStatus.COMPLETED:
            is_stopped = result.status is TurnStatus.INTERRUPTED
            kind = ErrorClass.DENIED if is_stopped else classify(result.kind)
            return _make_failure(
                subtask, result.error or f"its turn was {result.status}", kind=kind
            )
        value = result.text if result.value is msgspec.UNSET else result.value
        return SubtaskEnd(SubtaskMove(subtask.id, SubtaskStatus.COMPLETED, value))

    def _record_interruption(self, subtask: Subtask, session: AgentSession, call: str) -> None:
        """Record that a subtask was cut off, or the result of a call that ended nevertheless."""
        trace = trace_call(session) if subtask.tool else None
        if trace is not None and trace.kind == "result":
            self.recorder.write(replace(_end_of_trace(trace, subtask).move, call=call))
        else:
            left = session.session_id if session.history else ""
            pending = SubtaskStatus.PENDING
            self.recorder.write(SubtaskMove(subtask.id, pending, session_id=left))


class SubtaskCall:
    """The agent function of a subtask with a tool, with its arguments filled in."""

    def __init__(
        self, subtask: Subtask, tools: ToolRegistry, permissions: PermissionManager
    ) -> None:
        self._call = ToolUseBlock(new_id("call"), subtask.tool, subtask.arguments)
        self._tools = tools
        self._permissions = permissions
        self.error_class = ErrorClass.FAILED
        """The class of the call's error, if it failed."""

    async def __call__(self, agent: AgentInternals) -> None:
        """Make the call; its result is the result of the turn."""
        report = find_caller(agent.context).report

        def note(call: ToolUseBlock, result: ToolResult) -> ToolResult:
            """Report the call to the agents above, and keep the class of its error."""
            if report is not None:
                report.note(call, result, agent.lineage)
            self.error_class = self._classify(call, result)
            return result

        async for message in agent.inputs():
            async with agent.turn(message) as turn:
                agent.session.add_message(Message.assistant([self._call]))
                (block,) = await run_tools(
                    agent, [self._call], self._tools, self._permissions, on_result=note
                )
                if block.is_error:
                    raise ToolError(block.text)
                turn.set_result(read_value(block.text))

    def _classify(self, call: ToolUseBlock, result: ToolResult) -> ErrorClass:
        if result.status is ToolStatus.DENIED:
            return ErrorClass.DENIED
        if result.status is ToolStatus.TIMEOUT:
            return ErrorClass.TIMEOUT
        if result.could_run:
            return ErrorClass.FAILED
        tool = self._tools.get(call.name)
        is_wrong = tool is None or is_misfit(result.error_message)
        return ErrorClass.INVALID_INPUT if is_wrong else ErrorClass.CRASH


def find_earlier_call(records: Sequence[JSON], id_: str, call: str) -> str:
    """Return the id of the subtask that made this call before, or an empty text.

    Equal calls in the original plan are intended. A call of a subtask that a revision added or
    reset counts as a repetition.

    Args:
        records: the records of a plan.
        id_: the id of the subtask that is about to make the call.
        call: a hash of the call.
    """
    first: set[str] = set()
    made: dict[str, None] = {}
    last: dict[str, str] = {}  # the call that each subtask has made last
    for record in records:
        match record:
            case {"type": "begin", "plan": {"subtasks": list(subtasks)}}:
                first = {str(each["id"]) for each in subtasks if isinstance(each, dict)}
            case {"type": "move", "id": str(one), "status": "executing", **more}:
                last[one] = str(more.get("call", ""))
                if last[one] == call:
                    made[one] = None
            case {"type": "move", "id": str(one), "status": "failed" | "pending", **more}:
                # The tool reported a failure, or the subtask is to be tried again.
                if last.get(one) == call and not (more.get("call") or more.get("session_id")):
                    made.pop(one, None)
            case _:
                pass
    if id_ in made:
        return id_
    return next(iter(made), "") if id_ not in first else ""


def _opening_text(subtask: Subtask, session: AgentSession, error: str) -> str:
    """Return the first input of a subtask's agent, in a session that may have earlier work."""
    if not any(message.role == "assistant" for message in session.history):
        return subtask.goal  # without a reply there is no conversation to continue
    return f"{_TAKE_OVER} It had stopped with: {error}" if error else GO_ON


def _make_failure(
    subtask: Subtask,
    error: str,
    reason: FailureReason | None = None,
    kind: ErrorClass = ErrorClass.FAILED,
) -> SubtaskEnd:
    reason = reason or (FailureReason.TOOL if subtask.tool else FailureReason.WORKER)
    return SubtaskEnd(
        SubtaskMove(subtask.id, SubtaskStatus.FAILED, error=error, reason=reason), kind
    )


def _end_of_trace(trace: Trace, subtask: Subtask) -> SubtaskEnd:
    if trace.error:
        return _make_failure(subtask, trace.error)
    return SubtaskEnd(SubtaskMove(subtask.id, SubtaskStatus.COMPLETED, trace.result))


T = TypeVar("T")


async def interrupt_if_silent(
    handle: AgentHandle, patience: float | None, ask: Callable[[], Awaitable[T]]
) -> T | None:
    """Wait for an answer, and interrupt the agent if it publishes no chunk for `patience` seconds.

    The time before its first chunk does not count, since it may have to wait until it can start.
    Nor does the time in which it or one of its subagents waits for a person. Without `patience`
    there is no limit.

    Returns:
        The answer, or None if the agent was interrupted.
    """
    if patience is None:
        return await ask()
    answer: T | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_watch, handle, patience, nursery.cancel_scope)
        answer = await ask()
        nursery.cancel_scope.cancel()
    if answer is None:
        await handle.interrupt()
    return answer


async def _watch(handle: AgentHandle, patience: float, asking: trio.CancelScope) -> None:
    async with handle.subscribe("all") as chunks:
        chunk = await anext(chunks, None)
        while chunk is not None:
            with trio.move_on_after(patience) as wait:
                chunk = await anext(chunks, None)
            if wait.cancelled_caught and not await handle.pending():
                asking.cancel()
                return
