"""`WorkflowStream`: the states, steps or chunks of a running workflow."""

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, Self, TypeAlias, TypeVar

from greenroom.agents import AgentResult, AgentRun
from greenroom.agents._internal import RunReport
from greenroom.core import Answer, OutputChunk
from greenroom.flow.workflow_run import WorkflowProgress, WorkflowRun, WorkflowStep
from greenroom.flow.workflow_state import Changes

StateT = TypeVar("StateT")

StreamMode: TypeAlias = Literal["values", "updates", "debug"]

MakeRun: TypeAlias = Callable[
    [AgentResult[object], WorkflowProgress[StateT] | None], WorkflowRun[StateT]
]
"""Makes the result of a workflow of the result of its agent."""


@dataclass
class RunTask(Generic[StateT]):
    """One run of a workflow: its first state, if it is given, and its progress."""

    max_steps: int
    state: Changes | None = None
    answers: Mapping[str, Answer] = field(default_factory=dict)
    keeps_values: bool = False
    report: RunReport = field(default_factory=RunReport)
    progress: WorkflowProgress[StateT] | None = None
    earlier_steps: int = 0  # steps from before it was cut off

    def take_state(self) -> Changes | None:
        """Return the first state, once."""
        state, self.state = self.state, None
        return state

    def begin(self, progress: WorkflowProgress[StateT]) -> None:
        """Take the progress of the run that begins or goes on."""
        self.progress, self.earlier_steps = progress, len(progress.steps)
        progress.keeps_values = self.keeps_values


class WorkflowStream(Generic[StateT]):
    """A running workflow: an async iterator over states, steps or chunks.

    `Workflow.stream` makes it. A slow reader gets all states and steps, but may miss chunks, and
    then gets `Lagged`.
    """

    def __init__(
        self,
        make_run: MakeRun[StateT],
        task: RunTask[StateT],
        run: AgentRun[object],
        mode: StreamMode,
    ) -> None:
        """Take the task and its agent; `Workflow.stream` does so."""
        self.handle = run.handle
        """The agent's handle."""
        self._make_run = make_run
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

    def text(self) -> AsyncIterator[str]:
        """Iterate over the text that models write, piece by piece."""
        return self._run.text()

    async def finish(self) -> None:
        """Read it to the end, if only the result matters."""
        await self._run.finish()

    @property
    def result(self) -> WorkflowRun[StateT]:
        """The run, available after reading to the end or leaving the block.

        Raises:
            TurnError: the run is not over.
        """
        return self._make_run(self._run.result, self._task.progress)
