"""`WorkflowStream`: the states, steps or chunks of a running workflow."""

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, Literal, Self, TypeAlias, TypeVar

from greenroom.agents import AgentResult
from greenroom.agents._internal import AgentRun, RunReport
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
    """One run of a workflow: its first state, if it is given, its progress, and what is streamed.

    Attributes:
        answers: answers given in advance, by the unit that they are for.
        unread: functions that make the states or steps which nobody has read yet; a state is
            copied when it is read.
    """

    max_steps: int
    state: Changes | None = None
    answers: Mapping[str, Answer] = field(default_factory=dict)
    mode: StreamMode = "debug"
    report: RunReport = field(default_factory=RunReport)
    progress: WorkflowProgress[StateT] | None = None
    unread: "deque[Callable[[], StateT | WorkflowStep]]" = field(default_factory=deque)

    def take_state(self) -> Changes | None:
        """Return the first state, once."""
        state, self.state = self.state, None
        return state

    def show(self, progress: WorkflowProgress[StateT], step: WorkflowStep | None = None) -> None:
        """Have the state of a run read that begins, goes on or has taken a step, or that step."""
        self.progress = progress
        if self.mode == "values":
            self.unread.append(partial(progress.schema.make, progress.values))
        elif self.mode == "updates" and step is not None:
            self.unread.append(lambda: step)


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
    ) -> None:
        """Take the task and its agent; `Workflow.stream` does so."""
        self.handle = run.handle
        """The agent's handle."""
        self._make_run = make_run
        self._task = task
        self._run = run

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StateT | WorkflowStep | OutputChunk:
        """Return the next state, step or chunk, or raise the exception of a failed function."""
        unread = self._task.unread
        while not unread:
            try:
                chunk = await anext(self._run)
            except StopAsyncIteration:
                if not unread:
                    raise
            else:
                if self._task.mode == "debug":
                    return chunk
        return unread.popleft()()

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
