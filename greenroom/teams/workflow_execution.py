"""Running a workflow, step by step: all nodes that are ready, then what they have changed, in their order.

That a node begins is on record before it begins, and in which session. What it has changed is on record
before anything rests upon it. So a run that is read back knows of each node of its step whether it has ended,
has not begun, or was cut off; of an agent that was cut off, its own session tells what it has left behind.
"""

from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Generic, TypeVar

import trio
from msgspec import UNSET
from msgspec.structs import replace

from greenroom.core import (
    DECIDED_BY_ITSELF,
    AgentNotRunningError,
    Answer,
    Custom,
    TurnStatus,
    WorkflowError,
    WorkflowLimitError,
    describe_error,
    leaves,
    serde,
)
from greenroom.planning import Trace, find_trace, reopen
from greenroom.runtime import AgentHandle, AgentInternals, Outcome
from greenroom.session import AgentSession
from greenroom.teams.workflow_graph import START, Graph, Node
from greenroom.teams.workflow_run import (
    WORKFLOW_NODE,
    WORKFLOW_STEP,
    NodeEnd,
    NodeStart,
    Progress,
    Unit,
    WorkflowBegin,
    WorkflowStep,
)
from greenroom.teams.workflow_state import Changes

__all__ = ["Execution", "ask_person"]

StateT = TypeVar("StateT")

_GO_ON = "Go on where you left off."
_asker: ContextVar["_Asker"] = ContextVar("greenroom_workflow_node")


async def ask_person(
    action: str,
    *,
    details: str = "",
    options: tuple[str, ...] | None = None,
    timeout: float | None = None,
) -> Answer:
    """Ask a person, from a node of a workflow, and wait for the answer.

    The request reaches whoever answers for the workflow's agent; its `input` names the node. Let a node
    that asks do nothing else, and add it with `repeatable=True`: then a workflow that has ended while the
    question was open asks it again when it is resumed. With `approve="later"` it ends at the question.

    Args:
        action: what is asked, in a line.
        details: what a person has to know for that.
        options: likely answers, where it is not about yes or no; the answer is `Answer.message` then.
        timeout: seconds until it is denied; by default the runtime's limit.

    Raises:
        WorkflowError: no workflow runs the caller.

    Example:
        ```python
        async def approve(state: State) -> dict[str, object]:
            answer = await ask_person("Publish this", details=state.draft)
            return {"is_approved": answer.allowed, "remark": answer.message}
        ```
    """
    asker = _asker.get(None)
    if asker is None:
        raise WorkflowError("ask_person is for the nodes of a workflow")
    return await asker.ask(action, details=details, options=options, timeout=timeout)


@dataclass(frozen=True)
class _Asker:
    """Asks a person about one node, unless the answer was given ahead; that counts once."""

    agent: AgentInternals
    unit: Unit
    answers: dict[str, Answer]

    async def ask(
        self,
        action: str,
        *,
        details: str,
        reason: str = "",
        options: tuple[str, ...] | None = None,
        timeout: float | None = None,
    ) -> Answer:
        node = str(self.unit)
        if node in self.answers:
            await trio.lowlevel.checkpoint()
            return self.answers.pop(node)
        return await self.agent.request_permission(
            "workflow",
            action,
            details=details,
            input={"node": node},
            reason=reason,
            options=options,
            timeout=timeout,
        )


class Execution(Generic[StateT]):
    """Takes the steps of one run, in a turn of one agent."""

    def __init__(
        self,
        agent: AgentInternals,
        graph: Graph[StateT],
        progress: Progress[StateT],
        answers: Mapping[str, Answer],
    ) -> None:
        """Go on with a run, from its first step or from a later one; answers are by the nodes that ask."""
        self._answers = dict(answers)
        self._agent = agent
        self._graph = graph
        self._progress = progress
        self._room = trio.Semaphore(max(1, agent.subagent_room))
        self._failures: dict[Unit, Exception] = {}

    def begin(self, begin: WorkflowBegin) -> None:
        """Write down that the run begins."""
        self._keep(WORKFLOW_STEP, begin)
        self._tell(begin, 0, {START: begin.state})

    async def run(self, max_steps: int) -> None:
        """Take steps until no node is ready.

        Raises:
            WorkflowLimitError: there are more steps than that.
            WorkflowError: a node has failed, or has done what it can't do.
            Exception: what a function of a node or an edge has raised.
        """
        progress = self._progress
        while progress.ready:
            if len(progress.steps) >= max_steps:
                raise WorkflowLimitError(
                    f"{max_steps} steps were taken, and {', '.join(progress.ready)} would be next",
                    hint="go on with resume=True and a larger max_steps",
                )
            await self._take_step()

    async def _take_step(self) -> None:
        progress = self._progress
        await self._run_nodes()
        if self._failures:
            places = list(self._graph.nodes)
            first = min(self._failures, key=lambda unit: (places.index(unit.node), unit.item or 0))
            raise self._failures[first]
        values = progress.merged()
        ready = self._graph.follow(progress.ready, lambda: progress.schema.make(values))
        step = progress.close(values, ready)
        self._keep(WORKFLOW_STEP, replace(step, updates={}))  # its nodes have put them on record
        await self._agent.session.save(flush=False)
        self._tell(step, step.number, step.updates)

    def _keep(self, kind: str, record: WorkflowBegin | WorkflowStep | NodeStart | NodeEnd) -> None:
        self._agent.session.add_record(kind, serde.loads(serde.encode(record)))

    def _tell(self, step: WorkflowBegin | WorkflowStep, number: int, updates: Changes) -> None:
        data: dict[str, object] = {"step": number, "updates": updates, "next": list(step.next)}
        self._agent.send_nowait(Custom(WORKFLOW_STEP, data, str(step)))

    # -- the nodes of a step --------------------------------------------------------------------

    async def _run_nodes(self) -> None:
        """Run the nodes that are ready, but for those that have ended before, and wait for all of them."""
        lanes = [
            (node, self._units(node))
            for node in map(self._graph.nodes.__getitem__, self._progress.ready)
        ]
        self._left = sum(len(units) for _, units in lanes)
        workers = [lane for lane in lanes for _ in range(min(lane[0].limit, len(lane[1])))]
        if len(workers) == 1:
            await self._work(*workers[0])
        elif workers:
            try:
                async with trio.open_nursery() as nursery:
                    for node, units in workers:
                        nursery.start_soon(self._work, node, units, name=f"node {node.name}")
            except BaseExceptionGroup as group:
                others = [each for each in leaves(group) if not isinstance(each, trio.Cancelled)]
                if len(others) == 1:
                    raise others[0] from others[0].__cause__
                raise

    def _units(self, node: Node) -> deque[Unit]:
        units = [Unit(node.name)]
        if node.over:
            items = self._items(node)
            units = [Unit(node.name, place) for place in range(len(items))]
        return deque(unit for unit in units if unit not in self._progress.ended)

    def _items(self, node: Node) -> list[object]:
        items = self._progress.schema.read(self._progress.now, node.over)
        if not isinstance(items, list | tuple):
            raise WorkflowError(f"{node.name} runs for each item of {node.over}, which is no list")
        return list(items)

    async def _work(self, node: Node, units: deque[Unit]) -> None:
        """Run one after the other; where one has failed, no other begins."""
        while units and not self._failures:
            unit = units.popleft()
            try:
                await self._attend(node, unit)
            except Exception as error:  # noqa: BLE001 (raised once the others have ended)
                error.add_note(f"in the node {unit} of a workflow")
                self._failures[unit] = error

    async def _attend(self, node: Node, unit: Unit) -> None:
        """Run a node, or find out what became of it, and put on record what it has changed."""
        trace = await self._look_back(node, unit)
        given = await self._ask(unit, trace.doubt) if trace.kind == "unsure" else None
        if given is not None:
            changes: object = given
        elif trace.kind == "result":
            changes = _output(node, trace.result)
        else:
            changes = await self._run(node, unit, trace.session)
        checked = self._progress.schema.check(str(unit), changes)
        is_skipped = given is not None
        self._note(NodeEnd(self._progress.run, self._progress.number, unit, checked, is_skipped))
        self._left -= 1
        if self._left:  # behind the last one the whole step is saved
            await self._agent.session.save(flush=False)

    def _note(self, record: NodeStart | NodeEnd) -> None:
        self._progress.take(record)
        self._keep(WORKFLOW_NODE, record)

    async def _run(self, node: Node, unit: Unit, session: AgentSession | None) -> object:
        with trio.CancelScope() as scope:
            if node.look is None:
                if not node.repeatable:
                    await self._start(unit, "")
                scope.deadline = _deadline(node)
                token = _asker.set(self._about(unit))
                try:
                    return await node.run(*self._arguments(node, unit))
                finally:
                    _asker.reset(token)
            async with self._room:
                goes_on = session is not None and node.goes_on
                own = await self._open_session(session)
                await self._start(unit, own.session_id)
                scope.deadline = _deadline(node)
                text = _GO_ON if goes_on else self._input(node, unit)
                async with self._spawned(node, own) as handle:
                    result = await self._result(handle, text, unit)
                return _output(node, result)
        raise WorkflowLimitError(
            f"{unit} has taken longer than {node.timeout:g} seconds",
            hint="give its node more seconds, or less to do",
        )

    async def _open_session(self, cut_off: AgentSession | None) -> AgentSession:
        if cut_off is None:
            return AgentSession.new("node")
        return await reopen(cut_off, self._agent.session)

    async def _start(self, unit: Unit, session_id: str) -> None:
        """Put on record that a node begins, before it does."""
        self._note(NodeStart(self._progress.run, self._progress.number, unit, session_id))
        await self._agent.session.save()

    def _about(self, unit: Unit) -> _Asker:
        return _Asker(self._agent, unit, self._answers)

    def _arguments(self, node: Node, unit: Unit) -> tuple[object, ...]:
        state = self._progress.state()
        return (state,) if unit.item is None else (state, self._items(node)[unit.item])

    def _input(self, node: Node, unit: Unit) -> str:
        """Return what the agent of a node is told: a text as it is, anything else as JSON."""
        schema, now = self._progress.schema, self._progress.now
        if unit.item is None:
            value: object = schema.read(now, node.input)
        else:
            value = self._items(node)[unit.item]
        return value if isinstance(value, str) else serde.encode(value).decode()

    @asynccontextmanager
    async def _spawned(self, node: Node, session: AgentSession) -> AsyncIterator[AgentHandle]:
        handle = self._agent.spawn(session, node.run, report=False, name=node.name)
        try:
            yield handle
            await handle.shutdown()
        except BaseException:
            with trio.CancelScope(shield=True):
                await handle.shutdown(grace=0)
            raise

    async def _result(self, handle: AgentHandle, text: str, unit: Unit) -> object:
        try:
            result = await handle.ask(text, sender="workflow", metadata={"node": str(unit)})
        except AgentNotRunningError as error:
            outcome = error.outcome
            problem = describe_error(outcome.error) if isinstance(outcome, Outcome) else str(error)
            raise WorkflowError(f"{unit} has failed: {problem}") from error
        if result.status is not TurnStatus.COMPLETED:
            raise WorkflowError(f"{unit} has failed: {result.error or result.status}")
        return result.text if result.value is UNSET else result.value

    # -- nodes that were cut off ----------------------------------------------------------------

    async def _look_back(self, node: Node, unit: Unit) -> Trace:
        """Say what a node has left behind that has begun before, and has not ended."""
        begun = self._progress.begun.get(unit)
        if begun is None:
            return Trace("nothing")
        if node.look is None:
            trace = Trace("unsure", doubt="its function had begun")
        else:
            session = self._agent.session
            parents = [session.session_id]
            if session.parent_session_id is not None and session.forked_from is not None:
                parents.append(session.forked_from.session_id)  # this run goes on with that one
            trace = await find_trace(begun.session_id, parents, session.store, node.look)
        return Trace("nothing") if trace.kind == "unsure" and node.repeatable else trace

    async def _ask(self, unit: Unit, doubt: str) -> Changes | None:
        """Ask a person about a node that may have had its effect: what it has changed, or None to run it.

        Raises:
            WorkflowError: nobody can be asked.
        """
        answer = await self._about(unit).ask(
            f"Run the node {unit} again",
            details=f"It was cut off, and {doubt}: it may have had its effect already. If it is not run"
            " again, the workflow goes on without what it would have changed.",
            reason="it was cut off in the middle",
        )
        if answer.by in DECIDED_BY_ITSELF:
            raise WorkflowError(
                f"{unit} was cut off, and {doubt}; {answer.message}",
                hint="resume where somebody can say whether to run it again, such as with approve=",
            )
        return None if answer.allowed else answer.input or {}


def _output(node: Node, result: object) -> Changes:
    return {node.output: result} if node.output else {}


def _deadline(node: Node) -> float:
    return float("inf") if node.timeout is None else trio.current_time() + node.timeout
