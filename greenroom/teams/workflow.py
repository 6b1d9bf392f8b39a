"""`Workflow`: functions, agents and other workflows as the nodes of a graph, over one typed state."""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic, Literal, Self, TypeAlias, TypeVar, cast

import trio

from greenroom.agents import (
    Agent,
    AgentRun,
    Answers,
    Approve,
    Runnable,
    RunOptions,
    RunReport,
    as_answer,
    open_run,
)
from greenroom.core import (
    JSON,
    Answer,
    GreenroomError,
    Message,
    OutputChunk,
    TextComplete,
    TurnError,
    TurnStatus,
    WorkflowError,
    WorkflowLimitError,
    leaves,
    serde,
)
from greenroom.planning import Trace, trace_worker
from greenroom.runtime import AgentInternals
from greenroom.session import AgentSession, SessionStore
from greenroom.teams.workflow_execution import Execution
from greenroom.teams.workflow_graph import Edge, Function, Graph, Node, is_async
from greenroom.teams.workflow_run import (
    Progress,
    WorkflowBegin,
    WorkflowRun,
    WorkflowStep,
    last_entry,
)
from greenroom.teams.workflow_state import START, Changes, StateSchema

StateT = TypeVar("StateT")

ItemT = TypeVar("ItemT")

Worker: TypeAlias = Callable[[AgentInternals], Awaitable[object]]

StreamMode: TypeAlias = Literal["values", "updates", "debug"]

MAX_STEPS = 100
_MAX_DEPTH = 20  # a workflow that is a node of itself would never end
_NO_ANSWERS: Mapping[str, Answer] = {}


class Workflow(Generic[StateT]):
    """A graph of nodes that read one typed state, and return what of it they change.

    A workflow runs in steps. In each step, all ready nodes run in parallel, each with its own copy
    of the state. Then their changes are merged in the order of the nodes, and the edges decide
    which nodes are ready next. So the result does not depend on which node is faster.

    It is also an agent function: `runtime.spawn(session, workflow)` answers each input with a run.

    Args:
        state: a msgspec struct or a TypedDict. A field whose type is `Annotated[T, reducer]` takes
            several updates in one step: `reducer(old, update)` returns the new value. Any other is
            set.
        input: as an agent, the field that gets the text of an input; by default the text is a state
            as JSON.
        output: as an agent, the field that is the result; by default the whole state is.
        name: the name for people, logs and sessions.

    Raises:
        WorkflowError: a node, an edge or a field is invalid.

    Example:
        >>> import operator
        >>> from typing import Annotated, TypedDict
        >>> import trio
        >>> from greenroom.teams import END, START, Workflow
        >>> class State(TypedDict):
        ...     number: int
        ...     log: Annotated[list[str], operator.add]
        >>> async def double(state: State) -> dict[str, object]:
        ...     return {"number": state["number"] * 2, "log": ["doubled"]}
        >>> workflow = Workflow(State).node("double", double).edge(START, "double")
        >>> workflow = workflow.edge("double", "double", when=lambda state: state["number"] < 30)
        >>> workflow = workflow.edge("double", END, when=lambda state: state["number"] >= 30)
        >>> run = trio.run(workflow.run, {"number": 5, "log": []})
        >>> run.state, len(run.steps)
        ({'number': 40, 'log': ['doubled', 'doubled', 'doubled']}, 3)
    """

    def __init__(
        self,
        state: type[StateT],
        *,
        input: str = "",  # noqa: A002 (the field's word for it)
        output: str = "",
        name: str = "workflow",
    ) -> None:
        """Create a workflow without nodes."""
        self.name = name
        self._schema = StateSchema(state)
        self._graph = Graph[StateT]()
        self._input = input
        self._output = output
        self._is_built = False
        for each in filter(None, (input, output)):
            self._schema.field(each, name)

    def node(
        self,
        name: str,
        fn: "Callable[[StateT], Awaitable[object]] | Callable[[StateT, ItemT], Awaitable[object]] | Worker",
        *,
        input: str = "",  # noqa: A002 (the field's word for it)
        output: str = "",
        timeout: float | None = None,
        repeatable: bool = False,
    ) -> Self:
        """Add a node: an async function of the state, or with `input` an agent function.

        A function returns a dict of the fields that it changes, or None. An agent, a workflow or
        any other agent function gets a field as its input, as text or JSON, and the result of its
        turn goes to a field.

        Args:
            name: its name in edges and records.
            fn: the function or agent.
            input: the field that is the agent's input.
            output: the field that gets the agent's result.
            timeout: seconds that the node, or each of its items, may take; after that the run
                fails.
            repeatable: whether it can safely be run again after it was cut off. By default a person
                has to approve that if the function had begun, or if a call of the agent had
                started.

        Raises:
            WorkflowError: the name is taken, a field is unknown, or `fn` is not an async function.
        """
        inner = fn.func if isinstance(fn, partial) else fn
        is_agent = bool(input or output) or isinstance(inner, Runnable | Workflow)
        if not is_agent and not is_async(fn):
            raise WorkflowError(f"{name}: {fn!r} is not an async function of the state")
        if timeout is not None and not timeout > 0:
            raise WorkflowError(f"{name} has {timeout} seconds", hint="give it more than none")
        for each in filter(None, (input, output)):
            self._schema.field(each, name)
        look = trace_worker
        if isinstance(inner, Workflow):
            look = inner._trace_run
        elif isinstance(inner, Agent):
            look = _trace_agent
        self._editable_graph().add(
            Node(
                name=name,
                run=cast("Function", fn),
                look=look if is_agent else None,
                goes_on=not isinstance(inner, Workflow),
                input=input,
                output=output,
                timeout=timeout,
                repeatable=repeatable,
            )
        )
        return self

    def edge(
        self, source: str, target: str, when: Callable[[StateT], object] | None = None
    ) -> Self:
        """Add an edge from a node or START to a node or END, optionally with a condition on the state."""
        self._editable_graph().connect(source, Edge(target, when))
        return self

    def route(self, source: str, fn: Callable[[StateT], str | Iterable[str]]) -> Self:
        """Add an edge from a node to the node or nodes that a function of the state names.

        If its annotation lists them, as in `-> Literal["write", "END"]`, only these count as
        reachable.
        """
        self._editable_graph().connect(source, Edge(route=fn))
        return self

    def each(self, name: str, over: str, limit: int = 5) -> Self:
        """Let a node run once for each item of a list, at most `limit` at once.

        Its function gets `(state, item)`, its agent the item as input. A field that they set needs
        a reducer; the updates come in the order of the items.
        """
        self._schema.field(over, name)
        if limit < 1:
            raise WorkflowError(
                f"the limit of {name} is {limit}", hint="1 runs one after the other"
            )
        self._editable_graph().spread(name, over, limit)
        return self

    def build(self) -> Self:
        """Check the whole graph and make it final; the first run does so, too.

        Raises:
            WorkflowError: an edge names an unknown node, a node can't be reached from START, or END
                can't be reached from a node.
        """
        if not self._is_built:
            self._graph.check()
            self._is_built = True
        return self

    def _editable_graph(self) -> Graph[StateT]:
        if self._is_built:
            raise WorkflowError(f"{self.name} has been built already", hint="make another one")
        return self._graph

    async def run(
        self,
        state: StateT | Mapping[str, object] | None = None,
        *,
        session: AgentSession | str | None = None,
        store: SessionStore | None = None,
        resume: bool = False,
        max_steps: int = MAX_STEPS,
        approve: Approve | None = None,
        answers: Answers | None = None,
    ) -> WorkflowRun[StateT]:
        """Run it to its end, and return the last state.

        In a tool call or task of an agent it is a subagent of that, as `Agent.run` is.

        Args:
            state: the first state. With `resume` it counts only where the session has no run yet.
            session: where the steps are on record, or its id; by default a new one, in memory.
            store: where the session lives.
            resume: go on with the last run of the session, at the step where it was.
            max_steps: how many steps it may take, those before a resume included.
            approve: who is asked, as for `Agent.run`. With "later" the run ends at the first
                question that has no answer.
            answers: answers given ahead, by the names of the nodes that ask or are asked about.

        Raises:
            WorkflowLimitError: a cycle does not end, or a node has taken too long.
            WorkflowError: a node has failed, or can't be run again unasked; or there is nothing to
                resume.
            SessionError: the session can't be loaded or saved, or is in use.
            Exception: what a function of yours has raised.
        """
        async with self.stream(
            state,
            mode="debug",  # makes no states or steps that nobody reads
            session=session,
            store=store,
            resume=resume,
            max_steps=max_steps,
            approve=approve,
            answers=answers,
        ) as stream:
            await stream._run.finish()
        return stream.result

    @asynccontextmanager
    async def stream(
        self,
        state: StateT | Mapping[str, object] | None = None,
        *,
        mode: StreamMode = "values",
        session: AgentSession | str | None = None,
        store: SessionStore | None = None,
        resume: bool = False,
        max_steps: int = MAX_STEPS,
        approve: Approve | None = None,
        answers: Answers | None = None,
    ) -> AsyncIterator["WorkflowStream[StateT]"]:
        """Run like `run`, and stream the progress to the block; leaving it early stops the run.

        Args:
            state: as for `run`, as are the others.
            mode: what is read: "values", the state at the beginning and behind each step;
                "updates", each `WorkflowStep`; or "debug", all chunks of its agent and of those
                below.
            session: as above.
            store: as above.
            resume: as above.
            max_steps: as above.
            approve: as above.
            answers: as above.
        """
        if mode not in ("values", "updates", "debug"):
            raise WorkflowError(
                f"mode={mode!r} is not a mode", hint="write values, updates or debug"
            )
        self.build()
        given = {unit: as_answer(answer) for unit, answer in (answers or {}).items()}
        if unknown := [each for each in given if each.partition("[")[0] not in self._graph.nodes]:
            raise WorkflowError(f"answers for {unknown[0]!r}, and there is no such node")
        task = _Task(self, state, resume, max_steps, given, keeps_values=mode == "values")
        options = RunOptions(
            function=task.run,
            report=task.report,
            name=self.name,
            input=f"Run {self.name}.",
            session=session,
            store=store,
            approve=approve,
        )
        async with open_run(options, AgentRun[None]) as run:
            yield WorkflowStream(task, run, mode)

    def load(self, session: AgentSession) -> WorkflowRun[StateT] | None:
        """Return the progress of the last run in a session, even while it runs; None without a run.

        Raises:
            WorkflowError: it does not fit this workflow.
        """
        progress = Progress.load(self._schema, session)
        return None if progress is None else _as_run(progress, session)

    async def __call__(self, agent: AgentInternals, max_steps: int = MAX_STEPS) -> None:
        """Run once for each input: the agent function for `runtime.spawn(session, workflow)`.

        To continue an unfinished run, send the same input again.
        """
        self.build()
        async for message in agent.inputs():
            async with agent.turn(message) as turn:
                state = self._schema.begin(self._read_input(message.text))
                progress, execution = self._open_run(
                    agent, state, resume=self._has_open_run(agent, state)
                )
                await execution.run(max_steps)
                turn.set_result(result := self._result(progress))
                if isinstance(result, str):
                    agent.session.add_message(Message.assistant(result))
                    await agent.send(TextComplete(result))

    def _read_input(self, text: str) -> object:
        return {self._input: text} if self._input else serde.loads(text)

    def _result(self, progress: Progress[StateT]) -> JSON:
        return self._schema.plain(progress.values_now, self._output)

    def _has_open_run(self, agent: AgentInternals, state: Changes) -> bool:
        """Whether the last run began with this state and is unfinished."""
        last = last_entry(agent.session)
        if last is None or not last.next:
            return False
        progress = Progress.load(self._schema, agent.session)
        return progress is not None and progress.begin.state == state

    def _open_run(
        self,
        agent: AgentInternals,
        state: object,
        *,
        resume: bool,
        answers: Mapping[str, Answer] = _NO_ANSWERS,
    ) -> tuple[Progress[StateT], Execution[StateT]]:
        """Continue the last run of the session, or begin a new one.

        Raises:
            WorkflowLimitError: it runs inside of too many others.
            WorkflowError: there is nothing to go on with, or the last run does not fit this
                workflow.
        """
        if len(agent.lineage) > _MAX_DEPTH:
            way = " → ".join(agent.lineage)
            raise WorkflowLimitError(f"{_MAX_DEPTH} agents run inside of each other: {way}")
        progress = Progress.load(self._schema, agent.session) if resume else None
        if progress is not None:
            for name in progress.ready:
                if name not in self._graph.nodes:
                    message = f"the stored run goes on with {name!r}, and there is no such node"
                    raise WorkflowError(message)
            return progress, Execution(agent, self._graph, progress, answers)
        if state is None:
            message = f"{agent.session.session_id} has no run to resume"
            raise WorkflowError(message, hint="pass a state")
        first = self._schema.begin(state)
        values = self._schema.merge({}, [(START, first)])
        ready = self._graph.follow([START], lambda: self._schema.make(values))
        last = last_entry(agent.session)
        begin = WorkflowBegin(first, ready, last.run + 1 if last else 1)
        progress = Progress(self._schema, begin)
        execution = Execution(agent, self._graph, progress, answers)
        execution.begin(begin)
        return progress, execution

    def _trace_run(self, session: AgentSession) -> Trace:
        """Inspect the session of a nested run that was cut off: it can continue, or has its result."""
        progress = Progress.load(self._schema, session)
        if progress is None or progress.ready:
            return Trace("nothing", session)
        return Trace("result", result=self._result(progress))


@dataclass
class _Task(Generic[StateT]):
    """The agent of one run."""

    workflow: Workflow[StateT]
    state: object
    resume: bool
    max_steps: int
    answers: Mapping[str, Answer]
    keeps_values: bool
    report: RunReport = field(default_factory=RunReport)
    progress: Progress[StateT] | None = None
    first: int = 0  # steps that earlier runs have taken

    async def run(self, agent: AgentInternals) -> None:
        async for message in agent.inputs():
            async with agent.turn(message):
                try:
                    self.progress, execution = self.workflow._open_run(
                        agent, self.state, resume=self.resume, answers=self.answers
                    )
                    self.first = len(self.progress.steps)
                    self.progress.keeps_values = self.keeps_values
                    await execution.run(self.max_steps)
                except BaseException as error:
                    self._record_failure(leaves(error))
                    raise

    def _record_failure(self, errors: Sequence[BaseException]) -> None:
        typed = (GreenroomError, trio.Cancelled)
        self.report.error = next((e for e in errors if isinstance(e, GreenroomError)), None)
        self.report.has_crashed = any(not isinstance(each, typed) for each in errors)


class WorkflowStream(Generic[StateT]):
    """A run while it goes on: an async iterator over states, steps or chunks; made by `Workflow.stream`.

    States and steps are all read, however late; of chunks a slow reader misses some, and gets
    `Lagged`.
    """

    def __init__(self, task: _Task[StateT], run: AgentRun[None], mode: StreamMode) -> None:
        """Made by `Workflow.stream`."""
        self._task = task
        self._run = run
        self._mode = mode
        self._read_count = 0
        self._buffer = deque[StateT | WorkflowStep | OutputChunk]()
        self._is_over = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StateT | WorkflowStep | OutputChunk:
        """Return the next state, step or chunk; raises what has made the run fail by a bug."""
        while not self._buffer:
            if self._is_over:
                raise StopAsyncIteration
            try:
                chunk = await anext(self._run)
            except StopAsyncIteration:
                self._is_over = True
            else:
                if self._mode == "debug":
                    return chunk
            self._buffer += self._read_new()
        return self._buffer.popleft()

    def _read_new(self) -> Iterable[StateT | WorkflowStep]:
        progress = self._task.progress
        if progress is None or self._mode == "debug":
            return ()
        if self._mode == "updates":
            seen, self._read_count = max(self._read_count, self._task.first), len(progress.steps)
            return progress.steps[seen:]
        seen, self._read_count = self._read_count, len(progress.values)
        return map(progress.schema.make, progress.values[seen:])

    @property
    def result(self) -> WorkflowRun[StateT]:
        """The run, available after reading to the end or leaving the block.

        Raises:
            TurnError: the run is not over, or ended before it began.
            GreenroomError: the run failed.
        """
        result, progress = self._run.result, self._task.progress
        if result.error is not None:
            raise result.error
        if progress is None:
            raise TurnError(f"the workflow has not begun: it was {result.status}")
        run = _as_run(progress, result.session)
        return replace(run, status=result.status, pending=result.pending)


def _as_run(progress: Progress[StateT], session: AgentSession) -> WorkflowRun[StateT]:
    return WorkflowRun(
        state=progress.state(),
        steps=tuple(progress.steps),
        status=TurnStatus.INTERRUPTED if progress.ready else TurnStatus.COMPLETED,
        next=progress.ready,
        session=session,
    )


def _trace_agent(session: AgentSession) -> Trace:
    """Inspect the session of an `Agent`, which does nothing before it uses its model."""
    return trace_worker(session) if session.model else Trace("nothing", session)
