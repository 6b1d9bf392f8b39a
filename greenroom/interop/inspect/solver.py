"""Runs an agent for a sample of a task of Inspect."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

import trio
from typing_extensions import TypeVar

from greenroom.agents import Agent, AgentResult, Runnable
from greenroom.agents._internal import to_json_value
from greenroom.core import (
    BudgetExceededError,
    ConfigurationError,
    Message,
    TurnError,
    TurnStatus,
    Usage,
)
from greenroom.core._internal import serde
from greenroom.interop.inspect.escape import Escape
from greenroom.interop.inspect.messages import read_chat, write_chat
from greenroom.interop.inspect.models import TaskModels
from greenroom.interop.inspect.task_tools import TaskTool, make_task_tools
from greenroom.resilience import Budget
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, InMemoryStore

if TYPE_CHECKING:
    from inspect_ai.model import ModelUsage
    from inspect_ai.solver import Generate, Solver, TaskState
    from inspect_ai.util import LimitExceededError

DepsT = TypeVar("DepsT", default=None)
OutputT = TypeVar("OutputT", default=str)

_FACTS = "greenroom"  # in the store of a sample


def as_solver(
    agent: Runnable[DepsT, OutputT],
    *,
    deps: DepsT = None,  # type: ignore[assignment]  # checked when it is run
    own_model: bool = False,
) -> "Solver":
    """Make a solver of Inspect of an agent, or of a team: it runs the agent for each sample.

    The model that Inspect evaluates (`--model`) answers in place of the agent's own, and of those
    of all agents that it runs, so limits, logs, the cache and costs are as for any solver. (The
    model of an agent in a team, or of one that is a tool, is opened all the same, so it has to have
    its key, or be "offline:".) The tools of the task join the agent's; Inspect runs them, under its
    approval policies. Messages of the task that stand before the input, and its system prompt, are
    part of the conversation.

    The answer is the output of the state, a value of a type as JSON. The store has under
    "greenroom" the number of `steps`, whether the answer `is_truncated`, the names of tools whose
    calls were denied, in `denials`, and `warnings`. Nobody is asked: a call that needs a person is
    denied. If the run fails, its error fails the sample.

    Args:
        agent: the agent. To get the task's tools it has to be an `Agent` with a list of `tools`.
        deps: passed to its tools, instructions and guards.
        own_model: whether the agents ask their own models. Then Inspect does not see the calls: the
            usage is in the output of the state only, and of its limits those of tokens and cost (as
            a `Budget`), messages and time hold.

    Raises:
        ConfigurationError: Inspect is not installed; when a sample is run: it runs on asyncio, or
            the agent can't have the task's tools.

    Example:
        ```python
        @task
        def sums():
            agent = Agent("anthropic:claude-…", tools=[calculator])
            samples = [Sample("What is 17 * 23?", target="391")]
            return Task(dataset=samples, solver=as_solver(agent), scorer=includes())
        ```
    """
    _require_inspect()
    from inspect_ai.solver import solver

    async def solve(state: "TaskState", generate: "Generate") -> "TaskState":
        if not trio.lowlevel.in_trio_run():
            raise ConfigurationError(  # Inspect shows no hints
                "the agent needs trio, and Inspect runs on asyncio: set the environment variable "
                "INSPECT_ASYNC_BACKEND=trio"
            )
        await _SampleRun(agent, deps, state, own=own_model).solve()
        return state

    def make() -> "Solver":
        return solve

    return solver(name=agent.name)(make)()


def _require_inspect() -> None:
    try:
        import inspect_ai  # noqa: F401
    except ImportError as error:
        raise ConfigurationError(
            "Inspect is not installed", hint="pip install 'greenroom[inspect]'"
        ) from error


class _SampleRun:
    """One run of an agent, for one sample."""

    def __init__(
        self, agent: Runnable[DepsT, OutputT], deps: DepsT, state: "TaskState", *, own: bool
    ) -> None:
        self._state = state
        self._own = own
        self._escape = Escape()
        system, self._messages = read_chat(state.messages)
        self._models = TaskModels(state, system, self._escape, own=own)
        self._agent = self._equip(agent)
        self._deps = deps

    async def solve(self) -> None:
        """Run the agent, and put into the state what it said, even if it fails.

        Raises:
            Exception: what ended the run; Inspect's own exceptions are raised as they were.
        """
        if not self._messages or self._messages[-1].role != "user":
            raise ConfigurationError(
                "the last message of a sample is the user's, for an agent to answer it"
            )
        store = InMemoryStore()
        session = AgentSession.new(self._agent.name, store=store)
        for message in self._messages[:-1]:
            session.add_message(message)
        begun = len(session.history)
        try:
            async with AgentRuntime(store) as runtime:
                runtime.resources.insert(self._models)
                result = await self._agent.run(
                    self._messages[-1].content,
                    deps=self._deps,
                    session=session,
                    runtime=runtime,
                    budget=self._make_budget(),
                )
        except Exception:
            self._escape.check()
            raise
        finally:
            self._add_messages(session.history[begun + 1 :])
        self._escape.check()
        self._check(result)
        self._put_answer(result)

    def _equip(self, agent: Runnable[DepsT, OutputT]) -> Runnable[DepsT, OutputT]:
        """Give an agent the tools of the task, and the model."""
        tools = make_task_tools(self._state.tools, self._escape)
        if not isinstance(agent, Agent):
            if tools:
                raise ConfigurationError(
                    f"{agent.name} is several agents, and can't be given the tools of the task: "
                    "leave use_tools() out"
                )
            return agent
        # With the task's model from the beginning: so its own one needs no key.
        found = agent if self._own else agent.replace_model(self._models.asked)
        return found.replace_tools(_join(found, tools)) if tools else found

    def _make_budget(self) -> Budget | None:
        """Return what is left of the sample's limits, where Inspect does not see the calls."""
        tokens, cost = self._state.token_limit, self._state.cost_limit
        if not self._own or (tokens is None and cost is None):
            return None
        left = None if tokens is None else max(tokens - self._state.token_usage, 0)
        return Budget(tokens=left, cost=cost)

    def _add_messages(self, messages: Sequence[Message]) -> None:
        self._state.messages = [*self._state.messages, *write_chat("", messages)]

    def _check(self, result: AgentResult[OutputT]) -> None:
        """Raise what ended the run, if it did not complete."""
        if result.status is TurnStatus.COMPLETED:
            return
        if isinstance(result.error, BudgetExceededError) and self._make_budget() is not None:
            raise _exceed_limit(self._state, result)
        raise result.error or TurnError(f"the run is {result.status}")

    def _put_answer(self, result: AgentResult[OutputT]) -> None:
        from inspect_ai.model import ModelOutput

        output = ModelOutput.from_content(
            model=str(self._state.model), content=serde.to_text(to_json_value(result.output))
        )
        output.usage = write_usage(result.usage)
        self._state.output = output
        self._state.store.set(
            _FACTS,
            {
                "steps": result.steps,
                "is_truncated": result.is_truncated,
                "denials": [each.tool for each in result.denials],
                "warnings": list(result.warnings),
            },
        )


def _join(agent: Agent[DepsT, OutputT], tools: list[TaskTool]) -> list[object]:
    if callable(agent.tools):
        raise ConfigurationError(
            f"the tools of {agent.name} are a function, and can't be joined with those of the "
            "task: write tools=[…], or leave use_tools() out"
        )
    own: Iterable[object] = agent.tools  # type: ignore[assignment]  # the agent has made a list
    return [*own, *tools]


def _exceed_limit(state: "TaskState", result: AgentResult[OutputT]) -> "LimitExceededError":
    """Make Inspect's own error of a budget that is spent."""
    from inspect_ai.util import LimitExceededError

    what: Literal["token", "cost"] = "cost" if "cost" in str(result.error) else "token"
    limit = state.cost_limit if what == "cost" else state.token_limit
    value = result.usage.cost if what == "cost" else result.usage.total
    return LimitExceededError(what, value=value or 0, limit=limit or 0, message=str(result.error))


def write_usage(usage: Usage) -> "ModelUsage":
    """Return tokens as Inspect counts them."""
    from inspect_ai.model import ModelUsage

    return ModelUsage(
        input_tokens=usage.input_tokens or 0,
        output_tokens=usage.output_tokens or 0,
        total_tokens=usage.total,
        input_tokens_cache_read=usage.cache_read_tokens,
        input_tokens_cache_write=usage.cache_write_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        total_cost=usage.cost,
    )
