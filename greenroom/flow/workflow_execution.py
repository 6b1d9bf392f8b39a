"""Run a workflow step by step: all ready nodes in parallel, then merge their changes in order.

The start of a node and its session are recorded before it starts. Its changes are recorded before
anything depends on them: the start of a node also saves what came before. A loaded run therefore
knows which nodes of its step ended, which have not begun, and which were cut off; the session of an
agent that was cut off shows what it left behind.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import Generic, TypeVar

import trio
from msgspec import UNSET
from msgspec.structs import replace as with_fields

from greenroom.agents._internal import find_cycle
from greenroom.core import Answer, Custom, TurnStatus, utc_now
from greenroom.core._internal import InvalidJSONError, quantity, serde
from greenroom.flow.errors import WorkflowError, WorkflowLimitError
from greenroom.flow.members import RecordedMember, bind_deps, has_room, start_member
from greenroom.flow.pattern import TeamTurn
from greenroom.flow.resume import (
    NOTHING,
    Doubt,
    Settlement,
    Trace,
    answers_ahead,
    ask_to_continue,
    check_budget,
    describe_cut,
    find_trace,
    reopen,
)
from greenroom.flow.unit import WORKFLOW_NODE, WORKFLOW_STEP, Unit, WorkflowBegin, add_record
from greenroom.flow.workflow_graph import Graph, Node
from greenroom.flow.workflow_run import WorkflowProgress, WorkflowStep
from greenroom.flow.workflow_state import START, Changes
from greenroom.flow.workflow_stream import RunTask
from greenroom.runtime._internal import run_each
from greenroom.session import AgentSession

StateT = TypeVar("StateT")

_ASKS = 3  # how often a person is asked whose result does not fit

_ask: ContextVar[Callable[[str, str], Awaitable[Answer]]] = ContextVar("greenroom_workflow_ask")
"""Asks a person about the node that runs here."""


async def request_approval(action: str, details: str = "") -> Answer:
    """Ask a person, from a function of a workflow, and wait for the answer.

    The request goes to the person who answers for the workflow's agent; its `input` names the node.
    A node that asks should do nothing else, and be added with `repeatable=True`: then a workflow
    that ended while the question was open asks it again when it is resumed. With `approve="later"`
    it ends at the question.

    Args:
        action: the question, in one line.
        details: what a person has to know for that.

    Raises:
        WorkflowError: the caller is not a function of a workflow.

    Example:
        ```python
        async def approve(state: State) -> dict[str, object]:
            answer = await request_approval("Publish this", state.draft)
            return {"is_approved": answer.allowed, "remark": answer.message}
        ```
    """
    ask = _ask.get(None)
    if ask is None:
        raise WorkflowError("request_approval was called outside the nodes of a workflow")
    return await ask(action, details)


class WorkflowExecution(Generic[StateT]):
    """Takes the steps of one run, in a turn of one agent."""

    def __init__(
        self,
        turn: TeamTurn,
        graph: Graph[StateT],
        progress: WorkflowProgress[StateT],
        task: RunTask[StateT],
    ) -> None:
        """Take a run at its current step."""
        self._agent = turn.agent
        self._deps = turn.deps
        self._graph = graph
        self._progress = progress
        self._task = task
        self._answers = dict(task.answers)
        self._failures: dict[Unit, Exception] = {}
        self._items: dict[Unit, object] = {}  # of the current step, one for each unit
        self._open_units = 0  # units of the current step that have not ended

    def begin(self) -> None:
        """Record and announce that the run begins."""
        begin = self._progress.begin
        add_record(self._agent.session, WORKFLOW_STEP, begin, "the first state")
        self._announce(begin, 0, {START: begin.state})

    async def run(self) -> None:
        """Take steps until no node is ready.

        Raises:
            WorkflowLimitError: the run needs more steps than that.
            WorkflowError: a node failed, or returned an invalid result.
            Exception: a function of a node or an edge raised it.
        """
        progress, max_steps = self._progress, self._task.max_steps
        while progress.ready:
            if len(progress.steps) >= max_steps:
                raise WorkflowLimitError(
                    f"{max_steps} steps were taken, and {', '.join(progress.ready)} would be next",
                    hint="go on with run(None, session=…) and a larger max_steps",
                )
            await self._take_step()

    async def _take_step(self) -> None:
        progress = self._progress
        self._items.clear()
        nodes = [self._graph.nodes[name] for name in progress.ready]
        lanes = [(node, self._remaining_units(node)) for node in nodes]
        self._open_units = sum(len(units) for _, units in lanes)
        async with trio.open_nursery() as nursery:
            for node, units in lanes:
                nursery.start_soon(self._run_units, node, units, name=f"node {node.name}")
        if self._failures:
            first = min(
                self._failures, key=lambda unit: (progress.ready.index(unit.node), unit.item or 0)
            )
            raise self._failures[first]
        values = progress.merge()
        ready = self._graph.follow(progress.ready, lambda: progress.schema.make(values))
        step = progress.close(values, ready, utc_now())
        stored = with_fields(step, updates={})  # the records of the nodes have them
        add_record(self._agent.session, WORKFLOW_STEP, stored, "the step")
        if not ready or any(self._graph.nodes[name].inspect for name in ready):
            await self._agent.session.save()  # before a function, its start saves this as well
        self._announce(step, step.number, step.updates)
        self._task.show(progress, step)

    def _announce(self, step: WorkflowBegin | WorkflowStep, number: int, updates: Changes) -> None:
        data: dict[str, object] = {"step": number, "updates": updates, "next": list(step.next)}
        self._agent.send_nowait(Custom(WORKFLOW_STEP, data, str(step)))

    def _announce_unit(self, unit: Unit, status: str, session_id: str = "") -> None:
        data: dict[str, object] = {
            "step": self._progress.units.step,
            "node": unit.node,
            "item": unit.item,
            "status": status,
            "session_id": session_id,
        }
        is_shown = unit.item is not None and status == "executing"
        text = f"workflow: {unit} begins" if is_shown else ""
        self._agent.send_nowait(Custom(WORKFLOW_NODE, data, text))

    def _remaining_units(self, node: Node) -> deque[Unit]:
        """Return the units of a node that have not ended."""
        units = [Unit(node.name)]
        if node.over:
            items = self._progress.schema.read(self._progress.values, node.over)
            if not isinstance(items, list | tuple):
                raise WorkflowError(f"{node.name} runs over {node.over}, which is not a list")
            units = [Unit(node.name, place) for place in range(len(items))]
            self._items |= zip(units, items, strict=True)
        return deque(unit for unit in units if unit not in self._progress.units.ends)

    async def _run_units(self, node: Node, units: deque[Unit]) -> None:
        """Run units of a node, some side by side, until one fails; the others then end."""

        async def work(unit: Unit) -> None:
            try:
                await self._run_unit(node, unit)
                if self._open_units and not self._saves_soon(node, units):
                    await self._agent.session.save()
            except Exception as error:  # noqa: BLE001 (raised once the others have ended)
                self._announce_unit(unit, "failed")
                error.add_note(f"in the node {unit} of a workflow")
                self._failures[unit] = error
                units.clear()

        await run_each(lambda: units.popleft() if units else None, work, node.concurrency)

    def _saves_soon(self, node: Node, units: deque[Unit]) -> bool:
        """Whether the next unit begins at once, so that its start saves the end of this one."""
        if not units or units[0] in self._progress.units.starts:  # its last run is inspected first
            return False
        return node.inspect is None or has_room(self._agent)

    async def _run_unit(self, node: Node, unit: Unit) -> None:
        """Run a node, or find its earlier result, and record its changes."""
        answers_ahead.set(partial(self._answers.pop, str(unit), None))
        trace, settled = await self._inspect_last_run(node, unit), Settlement()
        if trace.kind == "unsure":
            settled = await self._settle(node, unit, trace)
        changes: object = {}
        if settled.result is not UNSET:
            changes = self._stated_changes(node, unit, settled.result)
        elif trace.kind == "result":
            changes = _output(node, trace.result)
        elif settled.refusal is None:
            changes = await self._run(node, unit, trace.session, settled.results)
        self._progress.units.end(unit, self._progress.schema.check(str(unit), changes))
        self._announce_unit(unit, "completed")
        self._open_units -= 1

    async def _run(
        self, node: Node, unit: Unit, cut_off: AgentSession | None, results: Mapping[str, object]
    ) -> object:
        with trio.CancelScope() as scope:
            if node.inspect is None:
                return await self._call_function(node, unit, scope)
            session = AgentSession.new("node")
            if cut_off is not None:
                session = await reopen(cut_off, self._agent.session, results)
            return _output(node, await self._ask_agent(node, unit, scope, session))
        raise WorkflowLimitError(
            f"{unit} took longer than {quantity(node.timeout or 0, 'second')}",
            hint="give its node more time, or less to do",
        )

    async def _record_start(
        self, node: Node, unit: Unit, scope: trio.CancelScope, id_: str
    ) -> None:
        """Record that a node begins, and start its timeout."""
        self._announce_unit(unit, "executing", id_)
        if node.inspect is not None or not node.repeatable:
            self._progress.units.start(unit, id_)
        await self._agent.session.save()  # the step before as well
        if node.timeout is not None:
            scope.deadline = trio.current_time() + node.timeout

    async def _call_function(self, node: Node, unit: Unit, scope: trio.CancelScope) -> object:
        await self._record_start(node, unit, scope, "")
        state = self._progress.state()
        token = _ask.set(partial(self._request_approval, unit))
        try:
            if unit.item is None:
                return await node.run(state)
            return await node.run(state, self._items[unit])
        finally:
            _ask.reset(token)

    def _input(self, node: Node, unit: Unit) -> str:
        """Return the input of a node's agent: a text unchanged, anything else as JSON."""
        schema, now = self._progress.schema, self._progress.values
        if unit.item is None:
            value: object = schema.read(now, node.input)
        else:
            value = self._items[unit]
        return value if isinstance(value, str) else serde.encode(value).decode()

    async def _ask_agent(
        self, node: Node, unit: Unit, scope: trio.CancelScope, session: AgentSession
    ) -> object:
        if chain := find_cycle(node.run):
            raise WorkflowError(f"{unit} can't be asked: it waits for this very answer ({chain})")
        record = partial(self._record_start, node, unit, scope, session.session_id)
        member = RecordedMember(bind_deps(node.run, self._deps), record)
        facts = {"node": str(unit)}
        async with start_member(self._agent, member, name=node.name, session=session) as handle:
            text = self._input(node, unit)
            result = await ask_to_continue(handle, session, text, sender="workflow", metadata=facts)
        member.check()
        check_budget(self._agent, result)
        if result.status is not TurnStatus.COMPLETED:
            raise WorkflowError(f"{unit} failed: {result.error or result.status}")
        return result.text if result.value is UNSET else result.value

    async def _inspect_last_run(self, node: Node, unit: Unit) -> Trace:
        """Find out what an earlier, unfinished run of a node left behind."""
        start = self._progress.units.starts.get(unit)
        if start is None:
            return NOTHING
        if node.inspect is None:
            trace = Trace("unsure", doubt="its function had begun")
        else:
            trace = await find_trace(start.session_id, self._agent.session, node.inspect)
        return NOTHING if trace.kind == "unsure" and node.repeatable else trace

    async def _settle(self, node: Node, unit: Unit, trace: Trace) -> Settlement:
        """Ask a person about a node that may have had an effect."""
        await self._agent.session.save()  # the answer may take long
        about: dict[str, object] = {"node": str(unit)}
        if unit.item is not None:
            about["item"] = serde.loads(serde.encode(self._items[unit]))
        doubt = Doubt(
            f"Run the node {unit} again",
            "" if unit.item is None else f"The item: {serde.to_text(about['item'])}",
            "workflow",
            about,
            self._progress.units.starts[unit],
            describe_cut(trace.doubt),
            trace.calls,
        )
        settled, asked = await doubt.settle(self._agent), 1
        while fault := self._find_misfit(node, unit, settled):
            if asked == _ASKS:
                hint = "give the changes of a function as a dict, the result of an agent as it is"
                raise WorkflowError(f"the result that was given does not fit: {fault}", hint=hint)
            text = f"{doubt.doubt}\nThe result that was given does not fit: {fault}"
            settled, asked = await replace(doubt, doubt=text).settle(self._agent), asked + 1
        if settled.refusal is not None and settled.is_unanswered:
            raise WorkflowError(
                f"{unit} was cut off, and {trace.doubt}; {settled.refusal.message}",
                hint="resume where a person can decide whether to run it again, as with approve=",
            )
        return settled

    def _stated_changes(self, node: Node, unit: Unit, result: object) -> Changes:
        """Return the changes of a node by a result that a person gives, or None if unknown.

        Raises:
            WorkflowError: it does not fit the state, or what needs it would fail without.
            InvalidJSONError: it is not JSON.
        """
        if result is None:
            if node.output and not node.over:
                self._progress.schema.read(self._progress.values, node.output)
            return {}
        changes = _output(node, result) if node.inspect else result
        return self._progress.schema.check(str(unit), changes)

    def _find_misfit(self, node: Node, unit: Unit, settled: Settlement) -> str:
        """Say why a result that a person has given can't be that of a node; empty if it can."""
        if settled.result is UNSET:
            return ""
        try:
            self._stated_changes(node, unit, settled.result)
        except (WorkflowError, InvalidJSONError) as error:
            return error.message
        return ""

    async def _request_approval(self, unit: Unit, action: str, details: str) -> Answer:
        """Ask what a node asks a person, or use an answer that was given in advance, once."""
        await trio.lowlevel.checkpoint()
        if answer := self._answers.pop(str(unit), None):
            return answer
        node: dict[str, object] = {"node": str(unit)}
        return await self._agent.request_permission("workflow", action, details=details, input=node)


def _output(node: Node, result: object) -> Changes:
    return {node.output: result} if node.output else {}
