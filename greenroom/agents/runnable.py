"""`Runnable`: what is run for one input: an `Agent`, or several agents as one."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Generic

from typing_extensions import TypeVar

from greenroom.agents.agent_result import AgentResult, RunReport
from greenroom.agents.agent_run import AgentRun, Answers, Approve, RunOptions, open_run
from greenroom.agents.agent_tool import AgentTool
from greenroom.agents.run_context import is_instance
from greenroom.agents.sync import run_in_loop
from greenroom.core import ContentBlock
from greenroom.resilience import Budget
from greenroom.runtime import AgentInternals, AgentRuntime
from greenroom.session import AgentSession

if TYPE_CHECKING:
    from greenroom.session import SessionStore

__all__ = ["Runnable"]

DepsT = TypeVar("DepsT", default=None)
OutputT_co = TypeVar("OutputT_co", default=str, covariant=True)


class Runnable(ABC, Generic[DepsT, OutputT_co]):
    """An agent function that can also be run for one input, and be a tool of another agent.

    `Agent` is one, and so are the patterns of several agents.
    """

    name: str
    """Its name, for people, logs and models."""
    description: str
    """What it is good for, for a model that may call it; may be empty."""
    deps_type: type[DepsT] | None
    """The type of the `deps` that it is given; None where it wants none."""

    @property
    def speaker(self) -> object:
        """Who waits for what it calls: what stands for it in a chain of agents that wait for each other."""
        return self

    @abstractmethod
    async def __call__(
        self,
        internals: AgentInternals,
        deps: DepsT = None,  # type: ignore[assignment]  # checked when it is run
        report: RunReport | None = None,
    ) -> None:
        """Answer each input: the agent function."""

    async def run(
        self,
        input: str | Iterable[ContentBlock] | None = None,  # noqa: A002 (the field's word for it)
        *,
        deps: DepsT = None,  # type: ignore[assignment]  # checked at run time
        session: AgentSession | str | None = None,
        store: "SessionStore | None" = None,
        runtime: AgentRuntime | None = None,
        approve: Approve | None = None,
        answers: Answers | None = None,
        budget: Budget | None = None,
    ) -> AgentResult[OutputT_co]:
        """Answer one input and return the result; a run that fails has a result, too.

        Args:
            input: a text, or content blocks. None goes on with a session that was interrupted, or
                whose questions are answered.
            deps: passed to tools, instructions and guards in their `RunContext`.
            session: the conversation to go on with, or its id; where none of this id is stored yet, it
                begins. By default a new one.
            store: where the session lives: by default in memory, and for a session that is named in
                the runtime's store, or in the folder `sessions/`.
            runtime: the runtime to run in; by default one for this run alone.
            approve: an async function of the `PermissionRequest` that returns True, False or an
                `Answer`; or "later": then the run ends at the first question, with the status waiting
                and the question in `result.pending`. By default such calls are denied.
            answers: answers to the questions that an earlier run has left open in this session.
            budget: limits for the run, and for all that it runs.

        Raises:
            ConfigurationError: the arguments don't go together, the model can't be opened, or there is
                nothing to go on with.
            TypeError: `deps` is not of the agent's `deps_type`.
            SessionError: the session can't be loaded, or is in use.
            Exception: what one of your functions raises, unless it is a tool.
        """
        async with self.stream(
            input,
            deps=deps,
            session=session,
            store=store,
            runtime=runtime,
            approve=approve,
            answers=answers,
            budget=budget,
        ) as run:
            await run.finish()
        return run.result

    def run_sync(
        self,
        input: str | Iterable[ContentBlock] | None = None,  # noqa: A002 (as above)
        *,
        deps: DepsT = None,  # type: ignore[assignment]  # checked at run time
        session: AgentSession | str | None = None,
        store: "SessionStore | None" = None,
        approve: Approve | None = None,
        answers: Answers | None = None,
        budget: Budget | None = None,
    ) -> AgentResult[OutputT_co]:
        """Do what `run` does, for code that is not async: a script, a notebook, a plain tool.

        Raises:
            EventLoopError: an event loop runs here already.
            Exception: as `run` says.
        """
        return run_in_loop(
            partial(
                self.run,
                input,
                deps=deps,
                session=session,
                store=store,
                approve=approve,
                answers=answers,
                budget=budget,
            ),
            "run_sync",
        )

    def stream(
        self,
        input: str | Iterable[ContentBlock] | None = None,  # noqa: A002 (as above)
        *,
        deps: DepsT = None,  # type: ignore[assignment]  # checked at run time
        session: AgentSession | str | None = None,
        store: "SessionStore | None" = None,
        runtime: AgentRuntime | None = None,
        approve: Approve | None = None,
        answers: Answers | None = None,
        budget: Budget | None = None,
    ) -> AbstractAsyncContextManager[AgentRun[OutputT_co]]:
        """Do what `run` does, and let the block read along; leaving it early stops everything.

        The arguments are those of `run`, and so is what is raised.

        Example:
            ```python
            async with agent.stream("Tell me a story.") as run:
                async for piece in run.text():
                    print(piece, end="", flush=True)
            print(run.result.usage)
            ```
        """
        self._check_run(input, deps)
        report = RunReport()
        return open_run(
            RunOptions(
                function=partial(self, deps=deps, report=report),
                report=report,
                name=self.name,
                input=input,
                session=session,
                store=store,
                runtime=runtime,
                approve=approve,
                answers=answers,
                budget=budget,
            ),
            AgentRun[OutputT_co],
        )

    def as_tool(
        self, name: str = "", description: str = "", *, deps: DepsT | None = None
    ) -> AgentTool[DepsT, OutputT_co]:
        """Make a tool of it, by which another agent can give it work; the same as a `run` in a tool.

        It sees nothing of the caller's conversation. Each call begins a session of its own.

        Args:
            name: by default the agent's.
            description: by default the agent's.
            deps: what it is given; by default the caller's, where they are of its `deps_type`.

        Raises:
            ConfigurationError: neither it nor the agent has a description, which a model needs to
                choose it.
        """
        return AgentTool(self, name or self.name, description or self.description, deps)

    def _check_run(self, input: object, deps: object) -> None:  # noqa: A002 (as above)
        """Refuse arguments with which it can't be run."""
        self._check_deps(deps)

    def _check_deps(self, deps: object) -> None:
        if self.deps_type is not None and not is_instance(deps, self.deps_type):
            raise TypeError(
                f"{self.name} wants deps of the type {self.deps_type.__name__}, not {deps!r}"
            )
