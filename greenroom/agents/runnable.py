"""`Runnable`: an agent, or several agents as one, that can be run for one input or be a tool."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Generic

import trio
from msgspec import UNSET
from typing_extensions import TypeVar

from greenroom.agents.agent_result import AgentResult, RunReport
from greenroom.agents.agent_run import (
    AgentRun,
    Answers,
    Approve,
    RunBlock,
    RunOptions,
    open_run,
)
from greenroom.agents.bound_agent import to_json_value
from greenroom.agents.callers import find_cycle
from greenroom.agents.cut_off import is_answered
from greenroom.agents.run_context import RunState, is_instance, type_name
from greenroom.agents.session_queue import OnBusy
from greenroom.core import (
    AgentContext,
    ConfigurationError,
    ContentBlock,
    ToolError,
    ToolInfo,
    ToolResult,
    ToolUseBlock,
    TurnStatus,
)
from greenroom.core._internal import EventLoopError, serde
from greenroom.llm import ModelSettings
from greenroom.resilience import Budget
from greenroom.runtime import AgentInternals, AgentRuntime
from greenroom.runtime._internal import run_in_call
from greenroom.session import AgentSession, SessionStore
from greenroom.tools._internal import is_worker

DepsT = TypeVar("DepsT", default=None)

OutputT = TypeVar("OutputT", default=str)


def _no_budget() -> Budget | None:
    return None


def _budgets_like(budget: Budget) -> Callable[[], Budget | None]:
    """Return a function that makes budgets with the limits of this one."""
    return partial(Budget, **budget.statistics().limits)  # type: ignore[arg-type]


class AgentTool(Generic[DepsT, OutputT]):
    """A tool that gives work to an agent and returns its output; made by `as_tool`."""

    category = "agent"
    requires_permission = False  # what the agent does is judged call by call
    concurrent = True
    continues = True  # made again after a kill, the call goes on with the agent's session
    timeout = 24 * 3600.0
    parameters: dict[str, object] = {
        "type": "object",
        "properties": {
            "prompt": {
                "type": "string",
                "description": "The whole task: the agent sees nothing of this conversation",
            },
        },
        "required": ["prompt"],
        "additionalProperties": False,
    }

    def __init__(
        self,
        agent: "Runnable[DepsT, OutputT]",
        name: str,
        description: str,
        deps: DepsT | None,
        make_budget: Callable[[], Budget | None] = _no_budget,
    ) -> None:
        """Take the agent, and the name and description that a model sees."""
        if not description:
            raise ConfigurationError(
                f"a model that may call {name} must be told what it is good for",
                hint="write Agent(…, description=…), or as_tool(description=…)",
            )
        self._agent = agent
        self._deps = deps
        self._make_budget = make_budget
        self.name = name
        self.description = description

    def __repr__(self) -> str:
        return f"<tool {self.name}>"

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Return which agent gets which work."""
        return ToolInfo(f"Ask {self.name}", str(input["prompt"]))

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Run the agent, and return its output as text or JSON.

        Raises:
            ToolError: the agent waits for this call itself, or its turn did not complete.
        """
        if cycle := find_cycle(self._agent):
            raise ToolError(f"{self.name} can't be asked: it waits for this very answer ({cycle})")
        prompt, deps, budget = str(input["prompt"]), self._deps_of(context), self._make_budget()
        result = await self._agent.run(prompt, deps=deps, budget=budget)
        if result.status is not TurnStatus.COMPLETED:
            why = f": {result.error}" if result.error else ""
            told = f"{self.name} has not answered: its turn {result.status}{why}"
            raise ToolError(told) from result.error
        text = serde.to_text(to_json_value(result.output))
        return ToolResult.ok(text, session_id=result.session.session_id)

    def _deps_of(self, context: AgentContext) -> DepsT:
        """Return the deps for the agent: its own, else the caller's, if they are of its type."""
        deps: object = self._deps
        wanted = self._agent.deps_type
        state = context.resources.get(RunState)
        if deps is None and wanted is not None and state and is_instance(state.deps, wanted):
            deps = state.deps
        return deps  # type: ignore[return-value]  # `run` checks it


T = TypeVar("T")


def run_in_loop(function: Callable[[], Awaitable[T]], name: str) -> T:
    """Run an async function from code that is not async, and return its result.

    In a thread that trio started, such as that of a plain tool, it runs in trio's event loop, and
    ends with the tool call at the latest.

    Args:
        function: the function; it takes no arguments.
        name: the name of the method that calls this, such as "run_sync", for errors.

    Raises:
        EventLoopError: an event loop already runs here, which this would block; or this is the
            process of a tool, which has no agents.
        TurnError: the tool call ended first.
    """
    awaited = f"write `await agent.{name.removesuffix('_sync')}(…)`"
    if trio.lowlevel.in_trio_run():
        raise EventLoopError(f"{name}() was called in a running event loop", hint=awaited)
    if _is_in_asyncio():
        raise EventLoopError(
            f"{name}() was called in a running event loop, which is asyncio's",
            hint="write `async with RuntimeThread() as greenroom: await greenroom.run(agent, …)`",
        )
    if is_worker():
        raise EventLoopError(
            f'{name}() was called by a tool with isolation="process", where the agent is not',
            hint="leave isolation='process' out, or make the tool an async function",
        )
    if _is_in_thread_of_trio():
        return trio.from_thread.run(run_in_call, function)
    return trio.run(function)


def _is_in_asyncio() -> bool:
    """Whether asyncio runs a loop in this thread; does not import asyncio to find out."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None


def _is_in_thread_of_trio() -> bool:
    try:
        trio.from_thread.run_sync(_do_nothing)
    except RuntimeError:
        return False
    return True


def _do_nothing() -> None:
    pass


OutputT_co = TypeVar("OutputT_co", default=str, covariant=True)


class Runnable(ABC, Generic[DepsT, OutputT_co]):
    """An agent function that can also be run for one input, or be a tool of another agent.

    `Agent` is one, and so are teams of agents.
    """

    name: str
    """Its name, for people, logs and models."""
    description: str
    """What it is good for, for a model that may call it; may be empty."""
    deps_type: type[DepsT] | None
    """The type of its `deps`, or None if it takes none."""

    @property
    def identity(self) -> object:
        """The object that stands for it when a chain of waiting agents is searched for a cycle."""
        return self

    def replace_settings(self, settings: ModelSettings) -> "Runnable[DepsT, OutputT_co]":
        """Return a copy whose model is asked with these settings.

        Raises:
            ConfigurationError: it is not a single agent.
        """
        raise ConfigurationError(
            f"{self.name} is not a single agent, so it has no settings",
            hint="write Agent(…, settings=…) where its agents are made",
        )

    asks_in_doubt = False
    """Whether `run(None)` asks a person about calls of its conversation that were cut off."""

    def continues(self, call: ToolUseBlock) -> bool:
        """Whether a call that was cut off goes on when it is made again, without a question."""
        return False

    def read_answer(self, session: AgentSession) -> object:
        """Return the output in a session whose last input was answered, else `msgspec.UNSET`."""
        return session.history[-1].text if is_answered(session) else UNSET

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
        store: SessionStore | None = None,
        runtime: AgentRuntime | None = None,
        approve: Approve | None = None,
        answers: Answers | None = None,
        budget: Budget | None = None,
        settings: ModelSettings | None = None,
        on_busy: OnBusy = "error",
    ) -> AgentResult[OutputT_co]:
        """Answer one input and return the result; a failed run has a result as well.

        Args:
            input: a text, or content blocks. None goes on with a session that was interrupted, or
                whose questions are answered; calls that were cut off and may have run are asked
                about first.
            deps: passed to tools, instructions and guards in their `RunContext`.
            session: the conversation to go on with, or its id; if no session with this id is
                stored, a new one gets it. By default a new session.
            store: where the session lives; one that is kept elsewhere is refused. By default it is
                the runtime's store. If that has none, a new session lives in memory, and one given
                by its id in the folder `sessions/`.
            runtime: the runtime to run in; by default one for this run alone.
            approve: an async function of the `PermissionRequest` that returns True, False or an
                `Answer`; or "later", with which the run ends at the first question, its status is
                waiting and `result.pending` has the question. By default such calls are denied.
            answers: answers to the questions that an earlier run left open in this session. With
                `approve="later"` the run ends at the next question again; without, that is denied.
            budget: limits for the run, and for all that it runs.
            settings: how the model is asked in this run, in place of the agent's own settings;
                agents that it hands over to keep theirs.
            on_busy: what to do while another run of this event loop has the session: "error", or
                "queue", with which at most 16 runs wait for each other's ends, in order. A session
                that a spawned agent or another process has is an error in any case.

        Raises:
            ConfigurationError: the arguments contradict each other, the model can't be opened, or
                there is nothing to go on with.
            TypeError: `deps` is not of the agent's `deps_type`, or `store` is a path.
            SessionError: the session can't be loaded, or is in use (`SessionInUseError`, in another
                process `SessionLockedError`).
            SelfWaitError: with "queue": the run that has the session would wait for this one.
            Exception: an exception of one of your functions, unless it is a tool.
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
            settings=settings,
            on_busy=on_busy,
        ) as run:
            await run.finish()
        return run.result

    def run_sync(
        self,
        input: str | Iterable[ContentBlock] | None = None,  # noqa: A002 (as above)
        *,
        deps: DepsT = None,  # type: ignore[assignment]  # checked at run time
        session: AgentSession | str | None = None,
        store: SessionStore | None = None,
        approve: Approve | None = None,
        answers: Answers | None = None,
        budget: Budget | None = None,
        settings: ModelSettings | None = None,
        on_busy: OnBusy = "error",
    ) -> AgentResult[OutputT_co]:
        """Do what `run` does, for code that is not async: a script, a notebook, a plain tool.

        Raises:
            EventLoopError: an event loop already runs here.
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
                settings=settings,
                on_busy=on_busy,
            ),
            "run_sync",
        )

    def stream(
        self,
        input: str | Iterable[ContentBlock] | None = None,  # noqa: A002 (as above)
        *,
        deps: DepsT = None,  # type: ignore[assignment]  # checked at run time
        session: AgentSession | str | None = None,
        store: SessionStore | None = None,
        runtime: AgentRuntime | None = None,
        approve: Approve | None = None,
        answers: Answers | None = None,
        budget: Budget | None = None,
        settings: ModelSettings | None = None,
        on_busy: OnBusy = "error",
    ) -> AbstractAsyncContextManager[AgentRun[OutputT_co]]:
        """Do what `run` does, and read its chunks in the block; leaving it early stops everything.

        It takes the arguments of `run`, and raises the same errors.

        Example:
            ```python
            async with agent.stream("Tell me a story.") as run:
                async for piece in run.text():
                    print(piece, end="", flush=True)
            print(run.result.usage)
            ```
        """
        self._check_run(input, deps)
        report = RunReport(state=deps)
        function = self if settings is None else self.replace_settings(settings)
        opened = open_run(
            RunOptions(
                function=partial(function, deps=deps, report=report),
                report=report,
                name=self.name,
                input=input,
                session=session,
                store=store,
                runtime=runtime,
                approve=approve,
                answers=answers,
                budget=budget,
                on_busy=on_busy,
                asks=self.asks_in_doubt,
                read_answer=self.read_answer,
            ),
            AgentRun[OutputT_co],
        )
        return RunBlock(opened)

    def as_tool(
        self,
        name: str = "",
        description: str = "",
        *,
        deps: DepsT | None = None,
        budget: Budget | None = None,
    ) -> AgentTool[DepsT, OutputT_co]:
        """Return a tool with which another agent gives it work, like a `run` in a tool.

        It sees nothing of the caller's conversation. Each call begins a new session. One that a
        kill has cut off goes on in its session when the caller goes on.

        Args:
            name: by default the agent's.
            description: by default the agent's.
            deps: its deps; by default the caller's, if they are of its `deps_type`.
            budget: limits for each call, as for `run`.

        Raises:
            ConfigurationError: there is no description, which a model needs to choose the tool.
        """
        make = _no_budget if budget is None else _budgets_like(budget)
        return AgentTool(self, name or self.name, description or self.description, deps, make)

    def _check_run(self, input: object, deps: object) -> None:  # noqa: A002 (as above)
        """Refuse arguments that it can't be run with."""
        self._check_deps(deps)

    def _check_deps(self, deps: object) -> None:
        if self.deps_type is not None and not is_instance(deps, self.deps_type):
            raise TypeError(
                f"{self.name} wants deps of the type {type_name(self.deps_type)}, not {deps!r}"
            )
