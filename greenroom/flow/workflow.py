"""`Workflow`: a graph of functions, agents and other workflows, over one typed state."""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Generic, Literal, Self, TypeAlias, TypeVar, cast

import trio

from greenroom.agents import (
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
    ConversationInput,
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
    utc_now,
)
from greenroom.flow.members import Member, unwrap
from greenroom.flow.resume import Trace, find_goal, find_inspection, is_go_on, trace_runnable
from greenroom.flow.unit import WorkflowBegin
from greenroom.flow.workflow_execution import WorkflowExecution
from greenroom.flow.workflow_graph import Edge, Function, Graph, Node, is_async
from greenroom.flow.workflow_run import (
    WorkflowProgress,
    WorkflowRun,
    WorkflowStep,
    last_entry,
)
from greenroom.flow.workflow_state import START, Changes, StateSchema
from greenroom.runtime import AgentInternals
from greenroom.session import AgentSession, SessionStore

StateT = TypeVar("StateT")

ItemT = TypeVar("ItemT")

StreamMode: TypeAlias = Literal["values", "updates", "debug"]

MAX_STEPS = 100
_MAX_DEPTH = 20  # a workflow that is a node of itself would never end
_NO_ANSWERS: Mapping[str, Answer] = {}


class Workflow(Generic[StateT]):
    """A graph of nodes that read one typed state, and return changes to it.

    A workflow runs in steps. In each step, all ready nodes run in parallel, each with its own copy
    of the state. Then their changes are merged in the order of the nodes, and the edges decide
    which nodes are ready next. So the result does not depend on which node is faster.

    It is also an agent function: `runtime.spawn(session, workflow)` answers each input with a run.

    Args:
        state: a msgspec struct or a TypedDict. A field of the type `Annotated[T, reducer]` may be
            updated several times in one step: `reducer(old, update)` returns the new value. Any
            other field is set.
        input: when the workflow runs as an agent, the field that gets the text of an input; by
            default the text is a state as JSON.
        output: when it runs as an agent, the field that is the result; by default the whole state.
        name: the name for people, logs and sessions.

    Raises:
        WorkflowError: a node, an edge or a field is invalid.

    Example:
        >>> import operator
        >>> from typing import Annotated, TypedDict
        >>> import trio
        >>> from greenroom.flow import END, START, Workflow
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
        fn: "Callable[[StateT], Awaitable[object]]"
        " | Callable[[StateT, ItemT], Awaitable[object]]"
        " | Member",
        *,
        input: str = "",  # noqa: A002 (the field's word for it)
        output: str = "",
        timeout: float | None = None,
        repeatable: bool = False,
    ) -> Self:
        """Add a node: an async function of the state, or with `input` an agent function.

        A function returns a dict of the fields that it changes, or None. An agent, a workflow or
        any other agent function gets a field as its input, as text or JSON, and the result of its
        turn is written to a field.

        Args:
            name: its name in edges and records.
            fn: the function or agent.
            input: the field that is the agent's input.
            output: the field that gets the agent's result.
            timeout: seconds that the node, or each of its items, may take; after that the run
                fails.
            repeatable: whether it may be run again after it was cut off. By default a person has to
                approve that if the function had begun, or if a call of the agent had started.

        Raises:
            WorkflowError: the name is taken, a field is unknown, or `fn` is not an async function.
        """
        inner = unwrap(fn)
        is_agent = bool(input or output) or isinstance(inner, Runnable | Workflow)
        if not is_agent and not is_async(fn):
            raise WorkflowError(f"{name}: {fn!r} is not an async function of the state")
        if timeout is not None and not timeout > 0:
            raise WorkflowError(f"{name} has a timeout of {timeout}", hint="give it more than 0")
        for each in filter(None, (input, output)):
            self._schema.field(each, name)
        self._editable_graph().add(
            Node(
                name=name,
                run=cast("Function", fn),
                inspect=find_inspection(fn) if is_agent else None,
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
        """Add an edge from a node or START to a node or END, always or on a condition."""
        self._editable_graph().connect(source, Edge(target, when))
        return self

    def route(self, source: str, fn: Callable[[StateT], str | Iterable[str]]) -> Self:
        """Add an edge from a node to the node or nodes that a function of the state names.

        If its annotation lists them, as in `-> Literal["write", "END"]`, only these count as
        reachable.
        """
        self._editable_graph().connect(source, Edge(route=fn))
        return self

    def each(self, name: str, over: str, concurrency: int = 5) -> Self:
        """Run a node once for each item of a list, at most `concurrency` at once.

        Its function gets `(state, item)`, its agent the item as input. A field that they set needs
        a reducer; the updates are in the order of the items.
        """
        self._schema.field(over, name)
        if concurrency < 1:
            raise WorkflowError(
                f"the concurrency of {name} is {concurrency}", hint="1 runs one after the other"
            )
        self._editable_graph().repeat_for_each(name, over, concurrency)
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
            raise WorkflowError(f"{self.name} was already built", hint="make another one")
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

        In a tool call or task of an agent, it is a subagent of that agent, as with `Agent.run`.

        Args:
            state: the first state. With `resume` it is used only if the session has no run yet.
            session: the session that records the steps, or its id; by default a new one in memory.
            store: the store of the session.
            resume: continue the last run of the session, at its current step.
            max_steps: the most steps, including those before a resume.
            approve: answers questions, as for `Agent.run`. With "later" the run ends at the first
                question without an answer.
            answers: answers given in advance, by the name of the node that they are for.

        Raises:
            WorkflowLimitError: a cycle does not end, or a node took too long.
            WorkflowError: a node failed, or may not be run again without asking a person; or there
                is nothing to resume.
            SessionError: the session can't be loaded or saved, or is in use.
            Exception: one of your functions raised it.
        """
        async with self.stream(
            state,
            mode="debug",  # the cheapest: no states and steps are prepared for reading
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
            mode: what the stream yields: with "values", the state at the beginning and after each
                step; with "updates", each `WorkflowStep`; with "debug", all chunks of its agent and
                subagents.
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
            raise WorkflowError(f"there is an answer for {unknown[0]!r}, which is not a node")
        task = _RunTask(self, state, resume, max_steps, given, keeps_values=mode == "values")
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

    def inspect(self, session: AgentSession) -> Trace:
        """Find out what a nested run that was cut off left behind."""
        return trace_runnable(session)

    def load(self, session: AgentSession) -> WorkflowRun[StateT] | None:
        """Return the progress of the last run in a session, even while it runs; None without a run.

        Raises:
            WorkflowError: it does not fit this workflow.
        """
        progress = WorkflowProgress.load(self._schema, session)
        return None if progress is None else _as_run(progress, session)

    async def __call__(self, agent: AgentInternals, max_steps: int = MAX_STEPS) -> None:
        """Run once for each input: the agent function for `runtime.spawn(session, workflow)`.

        To continue an unfinished run, send the same input again.
        """
        self.build()
        async for message in agent.inputs():
            async with agent.turn(message) as turn:
                progress, execution = self._open_turn(agent, message)
                await execution.run(max_steps)
                turn.set_result(result := self._result(progress))
                text = serde.to_text(result)
                agent.session.add_message(Message.assistant(text))
                await agent.send(TextComplete(text))

    def _open_turn(
        self, agent: AgentInternals, message: ConversationInput
    ) -> tuple[WorkflowProgress[StateT], WorkflowExecution[StateT]]:
        """Begin a run with an input, or continue the last one, if told to or begun with it."""
        if is_go_on(message) and last_entry(agent.session) is not None:
            return self._open_run(agent, None, resume=True)
        state = self._schema.begin(self._read_input(find_goal(agent.session, message)))
        return self._open_run(agent, state, resume=self._has_open_run(agent, state))

    def _read_input(self, text: str) -> object:
        return {self._input: text} if self._input else serde.loads(text)

    def _result(self, progress: WorkflowProgress[StateT]) -> JSON:
        return self._schema.plain(progress.values_now, self._output)

    def _has_open_run(self, agent: AgentInternals, state: Changes) -> bool:
        """Whether the last run began with this state and is unfinished."""
        last = last_entry(agent.session)
        if last is None or not last.next:
            return False
        progress = WorkflowProgress.load(self._schema, agent.session)
        return progress is not None and progress.begin.state == state

    def _open_run(
        self,
        agent: AgentInternals,
        state: object,
        *,
        resume: bool,
        answers: Mapping[str, Answer] = _NO_ANSWERS,
    ) -> tuple[WorkflowProgress[StateT], WorkflowExecution[StateT]]:
        """Continue the last run of the session, or begin a new one.

        Raises:
            WorkflowLimitError: agents are nested too deep.
            WorkflowError: there is no run to continue, or the last run does not fit this workflow.
        """
        if len(agent.lineage) > _MAX_DEPTH:
            chain = " → ".join(agent.lineage)
            raise WorkflowLimitError(f"agents are nested more than {_MAX_DEPTH} deep: {chain}")
        progress = WorkflowProgress.load(self._schema, agent.session) if resume else None
        if progress is not None:
            for name in progress.ready:
                if name not in self._graph.nodes:
                    raise WorkflowError(
                        f"the stored run continues with {name!r}, which is not a node"
                    )
            return progress, WorkflowExecution(agent, self._graph, progress, answers)
        if state is None:
            message = f"{agent.session.session_id} has no run to resume"
            raise WorkflowError(message, hint="pass a state")
        first = self._schema.begin(state)
        values = self._schema.merge({}, [(START, first)])
        ready = self._graph.follow([START], lambda: self._schema.make(values))
        last = last_entry(agent.session)
        begin = WorkflowBegin(first, ready, last.run + 1 if last else 1, utc_now())
        progress = WorkflowProgress(self._schema, begin)
        execution = WorkflowExecution(agent, self._graph, progress, answers)
        execution.begin(begin)
        return progress, execution


@dataclass
class _RunTask(Generic[StateT]):
    """The task of the agent of one run: carry the workflow out, and keep its progress."""

    workflow: Workflow[StateT]
    state: object
    resume: bool
    max_steps: int
    answers: Mapping[str, Answer]
    keeps_values: bool
    report: RunReport = field(default_factory=RunReport)
    progress: WorkflowProgress[StateT] | None = None
    earlier_steps: int = 0  # steps from before a resume

    async def run(self, agent: AgentInternals) -> None:
        async for message in agent.inputs():
            async with agent.turn(message):
                try:
                    self.progress, execution = self.workflow._open_run(
                        agent, self.state, resume=self.resume, answers=self.answers
                    )
                    self.earlier_steps = len(self.progress.steps)
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
    """A running workflow: an async iterator over states, steps or chunks.

    `Workflow.stream` makes it. A slow reader gets all states and steps, but may miss chunks, and
    then gets `Lagged`.
    """

    def __init__(self, task: _RunTask[StateT], run: AgentRun[None], mode: StreamMode) -> None:
        """Take the task and its agent; `Workflow.stream` does so."""
        self._task = task
        self._run = run
        self._mode = mode
        self._read_count = 0
        self._buffer = deque[StateT | WorkflowStep | OutputChunk]()
        self._is_over = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StateT | WorkflowStep | OutputChunk:
        """Return the next state, step or chunk, or raise the exception of a failed function."""
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
            begin = max(self._read_count, self._task.earlier_steps)
            self._read_count = len(progress.steps)
            return progress.steps[begin:]
        begin, self._read_count = self._read_count, len(progress.values)
        return map(progress.schema.make, progress.values[begin:])

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
            raise TurnError(f"the workflow did not begin: it was {result.status}")
        run = _as_run(progress, result.session)
        return replace(run, status=result.status, pending=result.pending)


def _as_run(progress: WorkflowProgress[StateT], session: AgentSession) -> WorkflowRun[StateT]:
    return WorkflowRun(
        state=progress.state(),
        steps=tuple(progress.steps),
        status=TurnStatus.INTERRUPTED if progress.ready else TurnStatus.COMPLETED,
        next=progress.ready,
        session=session,
    )
