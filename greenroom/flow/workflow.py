"""`Workflow`: a graph of functions, agents and other workflows, over one typed state."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Generic, Self, TypeAlias, TypedDict, TypeVar, Unpack, cast

from msgspec import UNSET

from greenroom.agents import AgentResult, Runnable
from greenroom.agents._internal import (
    AgentRun,
    Answers,
    Approve,
    OnBusy,
    RunBlock,
    RunOptions,
    RunReport,
    as_answer,
    open_run,
    read_capabilities,
    run_in_loop,
)
from greenroom.core import Answer, TurnStatus, utc_now
from greenroom.core._internal import JSON, is_async, serde, strip_partials
from greenroom.flow.errors import WorkflowError
from greenroom.flow.graph import is_above_zero, is_count, suggest
from greenroom.flow.pattern import TeamTurn, answer_inputs
from greenroom.flow.resume import find_inspection
from greenroom.flow.unit import WorkflowBegin
from greenroom.flow.workflow_execution import WorkflowExecution
from greenroom.flow.workflow_graph import Edge, Function, Graph, Node
from greenroom.flow.workflow_run import WorkflowProgress, WorkflowRun, last_entry
from greenroom.flow.workflow_state import START, Changes, StateSchema
from greenroom.flow.workflow_stream import RunTask, StreamMode, WorkflowStream
from greenroom.llm import ModelSettings
from greenroom.resilience import Budget
from greenroom.runtime import AgentInternals, AgentRuntime
from greenroom.session import AgentSession, SessionStore

if TYPE_CHECKING:
    from greenroom.flow.members import Member

StateT = TypeVar("StateT")

ItemT = TypeVar("ItemT")

Input: TypeAlias = StateT | Mapping[str, object] | str | None

MAX_STEPS = 100


def _check_steps(max_steps: int) -> int:
    """Return a limit of steps; raise a `WorkflowError` if it is not a whole number."""
    if not is_count(max_steps, 0):
        raise WorkflowError(f"max_steps is {max_steps!r}", hint="give a whole number")
    return max_steps


class WorkflowOptions(TypedDict, total=False):
    """The arguments of a run of a workflow: those of `Agent.run`, and `max_steps`.

    Attributes:
        answers: answers given in advance, by the name of the node that they are for.
        settings: refused: give them to its agents.
        max_steps: the most steps, with those before it was cut off; by default the workflow's own.
    """

    deps: object
    session: AgentSession | str | None
    store: SessionStore | None
    runtime: AgentRuntime | None
    approve: Approve | None
    answers: Answers | None
    budget: Budget | None
    settings: ModelSettings | None
    on_busy: OnBusy
    max_steps: int | None


class Workflow(Runnable[object, object], Generic[StateT]):
    """A graph of nodes that read one typed state, and return changes to it.

    A workflow runs in steps. In each step, all ready nodes run in parallel, each with its own copy
    of the state. Then their changes are merged in the order of the nodes, and the edges decide
    which nodes are ready next. So the result does not depend on which node is faster.

    It runs, nests and is delegated to like an `Agent`. A run that was cut off goes on by
    `run(None, session=id)`.

    Args:
        state: a msgspec struct or a TypedDict. A field of the type `Annotated[T, reducer]` may be
            updated several times in one step: `reducer(old, update)` returns the new value.
        input: the field that a text as input is for; by default the text is a state as JSON.
        output: the field that is the output; by default the whole state.
        name: the name for people, logs, models and sessions.
        description: what it is good for, for a model that may call it.
        capabilities: words for what it is good at, from which an orchestrator chooses an agent.
        max_steps: the most steps of a run.

    Raises:
        WorkflowError: a node, an edge or a field is invalid.
        ConfigurationError: `capabilities` is a string instead of a list.

    Example:
        >>> from typing import TypedDict
        >>> from greenroom.flow.workflow_state import END, START
        >>> class State(TypedDict):
        ...     number: int
        >>> async def double(state: State) -> dict[str, object]:
        ...     return {"number": state["number"] * 2}
        >>> workflow = Workflow(State).node("double", double).edge(START, "double")
        >>> _ = workflow.route("double", lambda state: END if state["number"] > 30 else "double")
        >>> workflow.run_sync({"number": 5}).state
        {'number': 40}
    """

    def __init__(
        self,
        state: type[StateT],
        *,
        input: str = "",  # noqa: A002 (the field's word for it)
        output: str = "",
        name: str = "workflow",
        description: str = "",
        capabilities: Iterable[str] = (),
        max_steps: int = MAX_STEPS,
    ) -> None:
        self.name = name
        self.description = description
        self.capabilities = read_capabilities(capabilities)
        self.deps_type = None  # each agent checks its own
        self._max_steps = _check_steps(max_steps)
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

        A function returns a dict of the fields that it changes, or None. An agent gets a field as
        its input, as text or JSON, and the result of its turn is written to a field.

        Args:
            name: its name in edges and records.
            fn: the function or agent.
            input: the field that is the agent's input.
            output: the field that gets the agent's result.
            timeout: seconds that the node, or each of its items, may take; then the run fails.
            repeatable: whether it may be run again after it was cut off. By default a person has to
                approve that if the function had begun, or if a call of the agent had started.

        Raises:
            WorkflowError: the name is taken, a field is unknown, or `fn` is not an async function.
        """
        inner = strip_partials(fn)
        is_agent = bool(input or output) or isinstance(inner, Runnable)
        if not is_agent and not is_async(fn):
            raise WorkflowError(f"{name}: {fn!r} is not an async function of the state")
        if timeout is not None and not is_above_zero(timeout):
            hint = "give it seconds, more than 0"
            raise WorkflowError(f"{name} has a timeout of {timeout!r}", hint=hint)
        for each in filter(None, (input, output)):
            self._schema.field(each, name)
        inspect = find_inspection(fn) if is_agent else None
        node = Node(name, cast("Function", fn), inspect, input, output, timeout, repeatable)
        self._editable_graph().add(node)
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
        if not is_count(concurrency):
            raise WorkflowError(
                f"the concurrency of {name} is {concurrency!r}", hint="1 runs one after the other"
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

    def to_mermaid(self) -> str:
        """Draw it as a Mermaid flowchart; what depends on a condition or a route is dotted."""
        return self._graph.to_mermaid()

    def _editable_graph(self) -> Graph[StateT]:
        if self._is_built:
            raise WorkflowError(f"{self.name} was already built", hint="make another one")
        return self._graph

    async def run(  # type: ignore[override]  # the input may be a state, and so is the result
        self,
        input: Input[StateT] = None,  # noqa: A002 (as above)
        **options: Unpack[WorkflowOptions],
    ) -> WorkflowRun[StateT]:
        """Run it to its end, and return the last state; a failed run has a result as well.

        The options are those of `Agent.run`, and `max_steps`; see `WorkflowOptions`.

        Args:
            input: the first state, or the text of its `input` field. None goes on with the last run
                of the session, at its current step.

        Raises:
            WorkflowError: the graph or the first state is invalid.
            ConfigurationError: the arguments contradict each other, or there is nothing to go on
                with.
            SessionError: the session can't be loaded, or is in use.
            Exception: one of your functions raised it.
        """
        # the cheapest mode: no states and steps are prepared for reading
        async with self.stream(input, mode="debug", **options) as stream:
            await stream.finish()
        return stream.result

    def run_sync(  # type: ignore[override]  # as `run`
        self,
        input: Input[StateT] = None,  # noqa: A002 (as above)
        **options: Unpack[WorkflowOptions],
    ) -> WorkflowRun[StateT]:
        """Do what `run` does, for code that is not async; an `EventLoopError` within a loop."""
        return run_in_loop(partial(self.run, input, **options), "run_sync")

    def stream(  # type: ignore[override]  # as `run`
        self,
        input: Input[StateT] = None,  # noqa: A002 (as above)
        *,
        mode: StreamMode = "values",
        **options: Unpack[WorkflowOptions],
    ) -> AbstractAsyncContextManager[WorkflowStream[StateT]]:
        """Run like `run`, and stream the progress to the block; leaving it early stops the run.

        `mode` says what the stream yields: with "values", the state at the beginning and after each
        step; with "updates", each `WorkflowStep`; with "debug", all chunks of its agent and
        subagents.
        """
        return RunBlock(self._open_stream(input, mode, options))

    @asynccontextmanager
    async def _open_stream(
        self,
        input: Input[StateT],  # noqa: A002 (as above)
        mode: StreamMode,
        options: WorkflowOptions,
    ) -> AsyncIterator[WorkflowStream[StateT]]:
        if mode not in ("values", "updates", "debug"):
            raise WorkflowError(
                f"mode={mode!r} is not a mode", hint="write values, updates or debug"
            )
        known = WorkflowOptions.__optional_keys__
        if unknown := options.keys() - known:
            name = min(unknown)
            near = suggest(name, known)
            raise TypeError(f"{self.name} has no option {name!r}" + (f": {near}" if near else ""))
        self.build()
        if (settings := options.pop("settings", None)) is not None:
            self.replace_settings(settings)
        text, state = self._read_first(input)
        given = self._read_answers(options.pop("answers", None))
        limit, deps = options.pop("max_steps", None), options.pop("deps", None)
        limit = self._max_steps if limit is None else _check_steps(limit)
        task = RunTask[StateT](limit, state, given, mode)
        run_options = RunOptions(
            function=partial(self, deps=deps, report=task.report, task=task),
            report=task.report,
            name=self.name,
            input=text,
            has_more=lambda session: last_entry(session) is not None,
            **options,  # type: ignore[misc]  # those that it does not know were taken out
        )
        async with open_run(run_options, AgentRun[object]) as run:
            yield WorkflowStream(self.make_run, task, run)

    def _read_first(self, given: Input[StateT]) -> tuple[str | None, Changes | None]:
        """Return the text of an input, and the first state."""
        if given is None:
            return None, None
        if isinstance(given, str):
            return given, self._schema.begin(self._read_input(given))
        state = self._schema.begin(given)
        return serde.encode(state).decode(), state

    def _read_answers(self, answers: Answers | None) -> dict[str, Answer]:
        given = {unit: as_answer(answer) for unit, answer in (answers or {}).items()}
        if unknown := [each for each in given if each.partition("[")[0] not in self._graph.nodes]:
            raise WorkflowError(f"there is an answer for {unknown[0]!r}, which is not a node")
        return given

    def load(self, session: AgentSession) -> WorkflowRun[StateT] | None:
        """Return the progress of the last run in a session, even while it runs; None without a run.

        Raises:
            WorkflowError: it does not fit this workflow.
        """
        progress = WorkflowProgress.load(self._schema, session)
        if progress is None:
            return None
        status = TurnStatus.INTERRUPTED if progress.ready else TurnStatus.COMPLETED
        value = UNSET if progress.ready else self._result(progress)
        result = AgentResult[object](status=status, session=session, value=value)
        return self.make_run(result, progress)

    def read_answer(self, session: AgentSession) -> object:
        """Return the output of the last run of a session, else `msgspec.UNSET`."""
        progress = WorkflowProgress.load(self._schema, session)
        return UNSET if progress is None or progress.ready else self._result(progress)

    def make_run(
        self, result: AgentResult[object], progress: WorkflowProgress[StateT] | None
    ) -> WorkflowRun[StateT]:
        """Return the result of a run with its progress, whose state is that after its last step."""
        facts = {each.name: getattr(result, each.name) for each in fields(result)}
        if progress is None:
            return WorkflowRun(**{**facts, "steps": (), "state": cast("StateT", None)}, next=())
        if result.value is not UNSET:
            facts["value"] = self._read_output(progress)
        facts |= {"steps": tuple(progress.steps), "state": progress.state()}
        return WorkflowRun(**facts, next=progress.ready)

    def _read_output(self, progress: WorkflowProgress[StateT]) -> object:
        if self._output:
            return self._schema.read(progress.values, self._output)
        return progress.state()

    async def __call__(
        self,
        internals: AgentInternals,
        deps: object = None,
        report: RunReport | None = None,
        task: RunTask[StateT] | None = None,
    ) -> None:
        """Run once for each input: the agent function, for `runtime.spawn(session, workflow)`.

        To continue an unfinished run, send the same input again. `run` passes a `task`.
        """
        self.build()
        work = partial(self._work, task or RunTask(self._max_steps))
        await answer_inputs(self, internals, work, deps=deps, report=report)

    async def _work(self, task: RunTask[StateT], turn: TeamTurn) -> JSON:
        """Continue the last run if the input asks for that, or begin one; take its steps."""
        session, state = turn.agent.session, task.take_state()
        last, progress = last_entry(session), None
        if last is not None and (turn.goes_on or (state is None and last.next)):
            progress = WorkflowProgress.load(self._schema, session)
        if progress is None or not turn.goes_on:  # else the first state is on record
            if state is None:
                state = self._schema.begin(self._read_input(turn.message.text))
            if progress is not None and progress.begin.state != state:
                progress = None  # it is about another state
        is_new = progress is None
        if progress is None:
            progress = self._begin(session, state or {}, last.run + 1 if last else 1)
        elif gone := [name for name in progress.ready if name not in self._graph.nodes]:
            raise WorkflowError(f"the stored run continues with {gone[0]!r}, which is not a node")
        task.show(progress)
        execution = WorkflowExecution(turn, self._graph, progress, task)
        if is_new:
            execution.begin()
        await execution.run()
        return self._result(progress)

    def _begin(
        self, session: AgentSession, first: Changes, number: int
    ) -> WorkflowProgress[StateT]:
        values = self._schema.merge({}, [(START, first)])
        ready = self._graph.follow([START], lambda: self._schema.make(values))
        begin = WorkflowBegin(first, ready, number, utc_now())
        return WorkflowProgress(self._schema, session, begin)

    def _read_input(self, text: str) -> object:
        """Return the first state in a text: the JSON of one, or the value of its `input` field."""
        if self._input:
            return {self._input: text}
        try:
            return serde.loads(text)
        except serde.InvalidJSONError as error:
            hint = "name the field that a text is for: Workflow(…, input='text')"
            raise WorkflowError(f"the first state is {error.message}", hint=hint) from error

    def _result(self, progress: WorkflowProgress[StateT]) -> JSON:
        return self._schema.plain(progress.values, self._output)
