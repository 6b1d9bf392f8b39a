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
from typing import TypeVar

import msgspec
import trio
from msgspec import UNSET
from msgspec.structs import replace

from greenroom.agents import run_tools
from greenroom.agents._internal import CUT_OFF, find_caller
from greenroom.core import (
    Message,
    Resume,
    ToolError,
    ToolResult,
    ToolStatus,
    ToolUseBlock,
    TurnStatus,
)
from greenroom.core._internal import JSON, new_id, quantity, serde
from greenroom.flow.error_context import ErrorClass, classify
from greenroom.flow.errors import PlanError
from greenroom.flow.plan import Subtask
from greenroom.flow.plan_run import (
    UNKNOWN,
    FailureReason,
    PlanRecorder,
    SubtaskMove,
    SubtaskStatus,
    find_start,
    last_records,
)
from greenroom.flow.references import fill, read_value
from greenroom.flow.resume import (
    NOTHING,
    Doubt,
    Inspect,
    Settlement,
    Trace,
    ask_to_continue,
    describe_cut,
    find_trace,
    reopen,
    trace_call,
)
from greenroom.permissions import PermissionManager
from greenroom.runtime import AgentHandle, AgentInternals, TurnResult
from greenroom.schemas._internal import is_misfit
from greenroom.session import AgentSession
from greenroom.tools import ToolRegistry
from greenroom.tools._internal import may_repeat


@dataclass(frozen=True)
class SubtaskRunner:
    """Runs subtasks of a plan, each once per call; `execute` decides about further tries."""

    agent: AgentInternals
    recorder: PlanRecorder
    tools: ToolRegistry
    permissions: PermissionManager
    spawn_worker: Callable[[AgentSession, str], AgentHandle]
    inspect: Inspect
    patience: float | None

    async def run(self, subtask: Subtask, *, is_again: bool) -> SubtaskMove:
        """Run a subtask, or return how its last run ended.

        Args:
            subtask: a pending subtask.
            is_again: whether this is another try after a failure.
        """
        before, trace = self.recorder.run.state(subtask.id), NOTHING
        if before.reason is not None:  # nobody has decided about it yet
            if before.session_id:
                self._record_start(subtask, before.session_id)
            return _make_failure(subtask, before.error, before.reason, before.error_class)
        if before.session_id:
            trace = await self._inspect_last_run(before.session_id, subtask)
            # If an agent failed after its last reply, that reply is not a result.
            if trace.kind == "result" and (subtask.tool or not before.error):
                self._record_start(subtask, before.session_id)
                return _end_of_trace(trace, subtask)
        try:
            filled = self._fill(subtask)
        except PlanError as error:
            return _make_failure(subtask, str(error), FailureReason.INPUT, ErrorClass.MISSING)
        call = self._hash_call(filled)
        earlier = "" if is_again or before.session_id else self._find_earlier_call(subtask, call)
        settled = await self._settle(subtask, trace, earlier)
        if settled.result is not UNSET:
            self._record_start(subtask, before.session_id)
            return _complete_as_stated(subtask, settled.result)
        if settled.refusal is not None:
            return _leave_out(subtask, settled, earlier, trace.doubt, before.session_id)
        session = AgentSession.new("subtask")
        if trace.session is not None:
            session = await reopen(trace.session, self.agent.session, settled.results)
        self._record_start(subtask, session.session_id, call)
        try:
            await self.agent.session.save(flush=True)
            return await self._carry_out(filled, session, call, before.error)
        except BaseException:
            self._record_interruption(subtask, session, call)
            raise

    def record_result(self, subtask: Subtask, result: object, session_id: str) -> None:
        """Record that a subtask is completed, as a person has said, though it seemed to fail."""
        if self.recorder.run.state(subtask.id).status is not SubtaskStatus.EXECUTING:
            self._record_start(subtask, session_id)
        self.recorder.write(_complete_as_stated(subtask, result))

    async def ask(
        self,
        subtask: Subtask,
        about: str,
        doubt: str,
        reason: str,
        calls: tuple[ToolUseBlock, ...] = (),
        earlier: str = "",
    ) -> Settlement:
        """Ask a person about a subtask that may have had its effect, or whose call an earlier had.

        They are shown when that was started, and how often.
        """
        with suppress(PlanError):  # without results, show it as in the plan
            subtask = self._fill(subtask)
        return await Doubt(
            f"Run the subtask {subtask.id}{about}",
            subtask.goal,
            subtask.tool or "plan",
            dict(subtask.arguments) if subtask.tool else {"goal": subtask.goal},
            find_start(self.agent.session, earlier or subtask.id),
            doubt,
            calls,
            reason,
        ).settle(self.agent)

    async def _settle(self, subtask: Subtask, trace: Trace, earlier: str) -> Settlement:
        """Ask a person if the subtask, or an earlier one, may have had its effect."""
        if trace.kind == "unsure":
            doubt = describe_cut(trace.doubt)
            return await self.ask(subtask, " again", doubt, CUT_OFF, trace.calls)
        if not earlier:
            return Settlement()
        return await self.ask(
            subtask,
            ", a call that was made before",
            f"The same call was made by {earlier}, and may have had its effect.",
            "the plan was revised, and its tool does not allow calling it twice",
            earlier=earlier,
        )

    async def _inspect_last_run(self, session_id: str, subtask: Subtask) -> Trace:
        tool = self.tools.get(subtask.tool)
        inspect = trace_call if subtask.tool else self.inspect
        trace = await find_trace(session_id, self.agent.session, inspect)
        if trace.kind == "unsure" and tool is not None:
            if getattr(tool.tool, "continues", False):
                return Trace("nothing", trace.session)
            if may_repeat(tool):
                return NOTHING
        return trace

    def _find_earlier_call(self, subtask: Subtask, call: str) -> str:
        if not self.recorder.run.revisions or not call:
            return ""
        return find_earlier_call(last_records(self.agent.session), subtask.id, call)

    def _hash_call(self, subtask: Subtask) -> str:
        """Return a hash of the call; empty if the call may be made twice."""
        tool = self.tools.get(subtask.tool)
        if tool is None or may_repeat(tool):
            return ""
        arguments = serde.decode(serde.encode(subtask.arguments), object)  # mends texts
        call = msgspec.json.encode([tool.name, arguments], order="deterministic")
        return hashlib.sha256(call).hexdigest()[:32]

    def _fill(self, subtask: Subtask) -> Subtask:
        """Put results into a subtask, its arguments by the types in its tool's schema.

        Raises:
            PlanError: a result is missing.
        """
        tool = self.tools.get(subtask.tool)
        properties = tool.parameters.get("properties") if tool is not None else None
        known = properties.items() if isinstance(properties, dict) else ()
        types = {key: each.get("type") for key, each in known if isinstance(each, dict)}
        return fill(subtask, self.recorder.run, types)

    def _record_start(self, subtask: Subtask, session_id: str, call: str = "") -> None:
        executing = SubtaskStatus.EXECUTING
        self.recorder.write(SubtaskMove(subtask.id, executing, session_id=session_id, call=call))

    async def _carry_out(
        self, subtask: Subtask, session: AgentSession, call: str, error: str
    ) -> SubtaskMove:
        """Start the agent of a subtask, ask it, shut it down, and return how it ended."""
        made = SubtaskCall(subtask, self.tools, self.permissions) if subtask.tool else None
        if made is None:
            handle = self.spawn_worker(session, subtask.id)
        else:
            handle = self.agent.spawn(session, made, report=False, name=subtask.id)
        try:
            id_ = name_subtask(self.agent, subtask.id)
            facts = {"subtask": subtask.id, "correlation_id": id_}
            text = _describe_work(subtask)
            ask = partial(
                ask_to_continue, handle, session, text, error=error, sender="plan", metadata=facts
            )
            result = await interrupt_if_silent(handle, self.patience, ask)
            end = self._make_end(result, subtask, session)
            await handle.shutdown()
        finally:
            with trio.CancelScope(shield=True):
                await handle.shutdown(grace=0)
        return end if made is None else _end_of_call(end, made.error_class, session, call)

    def _make_end(
        self, result: TurnResult | None, subtask: Subtask, session: AgentSession
    ) -> SubtaskMove:
        if result is None:
            error = f"it was silent for {quantity(self.patience or 0, 'second')}"
            return _make_failure(subtask, error, kind=ErrorClass.TIMEOUT)
        if result.status is not TurnStatus.COMPLETED:
            is_stopped = result.status is TurnStatus.INTERRUPTED
            kind = ErrorClass.DENIED if is_stopped else classify(result.kind)
            error = result.error or f"its turn was {result.status}"
            end = _make_failure(subtask, error, kind=kind)
            if kind is ErrorClass.SPENT:  # with a budget, it can go on there
                end = replace(end, session_id=session.session_id)
            return end
        value = result.text if result.value is UNSET else result.value
        return _complete(subtask, value)

    def _record_interruption(self, subtask: Subtask, session: AgentSession, call: str) -> None:
        """Record that a subtask was cut off, or the result of a call that ended nevertheless."""
        trace = trace_call(session) if subtask.tool else NOTHING
        has_ended = trace.kind == "result"
        is_refused = bool(trace.error) and not self.agent.has_budget
        if has_ended and not is_refused:
            self.recorder.write(replace(_end_of_trace(trace, subtask), call=call))
        else:
            left = session.session_id if session.history and not has_ended else ""
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
                calls = message.calls if isinstance(message, Resume) else (self._call,)
                if not isinstance(message, Resume):
                    agent.session.add_message(Message.assistant(calls))
                (block,) = await run_tools(
                    agent, calls, self._tools, self._permissions, on_result=note
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


def name_subtask(agent: AgentInternals, id_: str) -> str:
    """Return the correlation id of a subtask, which is the same for all its tries."""
    return f"{agent.session.session_id}/{id_}"


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


def _describe_work(subtask: Subtask) -> str:
    """Return the first input of a subtask's agent."""
    text = subtask.goal or subtask.tool
    return f"{text}\nExpected result: {subtask.expected}" if subtask.expected else text


def _complete(subtask: Subtask, result: object, error: str = "") -> SubtaskMove:
    return SubtaskMove(subtask.id, SubtaskStatus.COMPLETED, result, error)


def _complete_as_stated(subtask: Subtask, result: object) -> SubtaskMove:
    """Complete a subtask with the result that a person has given, or None if nobody knows it."""
    return _complete(subtask, result, UNKNOWN if result is None else "")


def _make_failure(
    subtask: Subtask,
    error: str,
    reason: FailureReason | None = None,
    kind: ErrorClass = ErrorClass.FAILED,
) -> SubtaskMove:
    reason = reason or (FailureReason.TOOL if subtask.tool else FailureReason.WORKER)
    failed = SubtaskStatus.FAILED
    return SubtaskMove(subtask.id, failed, error=error, reason=reason, error_class=kind)


def _end_of_trace(trace: Trace, subtask: Subtask) -> SubtaskMove:
    if trace.error:
        return _make_failure(subtask, trace.error)
    return _complete(subtask, trace.result)


def _end_of_call(
    end: SubtaskMove, error: ErrorClass, session: AgentSession, call: str
) -> SubtaskMove:
    """Return how a call ended, with the class of its error and what is left of it."""
    is_from_tool = end.error_class is ErrorClass.FAILED  # the turn reports nothing more specific
    if is_from_tool:
        end = replace(end, error_class=error)
    if trace_call(session).kind == "result":  # it has ended, or was refused
        end = replace(end, session_id="")
    if not is_from_tool or error in (ErrorClass.CRASH, ErrorClass.TIMEOUT):
        end = replace(end, call=call)
    return end


def _leave_out(
    subtask: Subtask, settled: Settlement, earlier: str, doubt: str, session_id: str
) -> SubtaskMove:
    """Return how a subtask ends if a person leaves it out, or nobody decides about it."""
    said = (settled.refusal and settled.refusal.message) or "it is not to be run again"
    if earlier:
        error = f"the same call was made before, by {earlier}; {said}"
        return _make_failure(subtask, error, kind=ErrorClass.DENIED)
    error = f"it was cut off, and {doubt}; {said}"
    if settled.is_unanswered:
        pending = SubtaskStatus.PENDING
        return SubtaskMove(subtask.id, pending, error=error, session_id=session_id)
    return _make_failure(subtask, error, FailureReason.CUT_OFF)


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
