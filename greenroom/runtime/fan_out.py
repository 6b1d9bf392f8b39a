"""Fan-out: one agent for each of several prompts, a few of them alive at once.

Theory of operation
===================

A prompt is *waiting* in a deque, *asked* (an agent of its own lives), or *answered* (its place in
`results` is set). `run_each` takes waiting prompts; each spawns its agent, asks it, and shuts it
down before the next is taken: so there are never more agents than that. When there are enough
answers, the scope around all of it is cancelled, and later answers are not kept: the places of
those prompts hold None.

A cancel may fall into an agent's answer or into its shutdown, whether it comes from outside or from
enough answers. Either way that agent is ended, shielded and without a grace, and the deque is
emptied, so that no other prompt is begun. Only then does `run` return or raise.

An agent that crashes is an answer with the status failed; it ends nothing else. What does raise,
such as a refused spawn, ends all agents, and leaves `fan_out` as that one error. A crash of the
process leaves the sessions of the agents in the store, and no record of the fan-out, which starts
afresh.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Literal, TypeAlias, TypeVar, TypeVarTuple, Unpack, overload

import trio

from greenroom.core import ContentBlock, TurnError, TurnStatus
from greenroom.core._internal import describe_error, leaves
from greenroom.runtime.agent_runtime import AgentRuntime
from greenroom.runtime.calls import Pause
from greenroom.runtime.errors import AgentNotRunningError
from greenroom.runtime.handle import AgentHandle
from greenroom.runtime.internals import AgentInternals
from greenroom.runtime.mailbox import user_input
from greenroom.runtime.results import Outcome, TurnResult
from greenroom.runtime.spawning import check_agent_function
from greenroom.runtime.tasks import is_cancelled
from greenroom.session import AgentSession

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

Prompt: TypeAlias = str | Iterable[ContentBlock]


@overload
async def fan_out(
    spawner: AgentInternals | AgentRuntime,
    agent_fn: Callable[[AgentInternals, Unpack[Ts]], Awaitable[object]],
    *args: *Ts,
    inputs: Iterable[Prompt],
    agent_type: str = ...,
    concurrency: int = ...,
    until: Literal["all"] = ...,
) -> list[TurnResult]: ...


@overload
async def fan_out(
    spawner: AgentInternals | AgentRuntime,
    agent_fn: Callable[[AgentInternals, Unpack[Ts]], Awaitable[object]],
    *args: *Ts,
    inputs: Iterable[Prompt],
    agent_type: str = ...,
    concurrency: int = ...,
    until: Literal["first_failure"] | int,
) -> list[TurnResult | None]: ...


async def fan_out(
    spawner: AgentInternals | AgentRuntime,
    agent_fn: Callable[[AgentInternals, Unpack[Ts]], Awaitable[object]],
    *args: *Ts,
    inputs: Iterable[Prompt],
    agent_type: str = "worker",
    concurrency: int = 5,
    until: Literal["all", "first_failure"] | int = "all",
) -> list[TurnResult] | list[TurnResult | None]:
    """Ask one new agent per input, at most `concurrency` at once, and return their answers.

    The results are in the order of the inputs, and equal ones get an agent each. An agent is
    shut down when it has answered, and cancelled when it is no longer needed. However this ends, by
    a result, an error or a cancel, none of its agents is alive afterwards.

    A failure is a value: a turn that failed or was interrupted is a result with that status, and so
    is an agent that crashed or ended without an answer (failed, with the reason in `error`).

    Args:
        spawner: under whom the agents live. Under an agent they are its subagents, so an interrupt
            of its turn ends them, and their answers do not come again as a `SubAgentResult`.
            Under a runtime they are roots whose handles nothing has, so permission requests
            are denied.
        agent_fn: the function of every agent; it should take its prompt with `agent.inputs()`.
        *args: its other arguments.
        inputs: the input of each agent, as in `AgentHandle.ask`.
        agent_type: the type of their sessions; they are called "worker 1", "worker 2" and so on.
        concurrency: how many are alive at once. Under an agent that has room for fewer subagents
            (`RuntimeLimits.subagents`) it is that many.
        until: "all" waits for every result; "first_failure" until one is anything but completed; a
            number until so many have completed, or all have ended. The places of the others,
            cancelled or never begun, hold None.

    Raises:
        ValueError: `concurrency` or `until` is below 1, or `until` is another word.
        TurnError: the agent has no room for another subagent.
        AgentNotRunningError: the agent's function has returned.
        RuntimeClosedError: the runtime has been left.
        InvalidJSONError: something in an input can't be stored.
        TypeError: `agent_fn` is not an async function, `inputs` is a single one, something in one
            is not a block, or `spawner` is something else, such as a handle.

    Example:
        ```python
        answers = await fan_out(agent, reviewer, llm, inputs=files, concurrency=3)
        print([answer.text for answer in answers])
        ```
    """
    check_agent_function(agent_fn)
    _check(spawner, inputs, concurrency, until)

    def spawn(number: int) -> AgentHandle:
        session, name = AgentSession.new(agent_type), f"{agent_type} {number}"
        if isinstance(spawner, AgentRuntime):
            return spawner.spawn(session, agent_fn, *args, unattended="deny", name=name)
        return spawner.spawn(session, agent_fn, *args, report=False, name=name)

    # All of them are checked before the first agent begins.
    fan = _Fan(spawn, [user_input(prompt).content for prompt in inputs], until)
    await fan.run(min(concurrency, _room(spawner)))
    return fan.results


def _check(spawner: object, inputs: object, concurrency: int, until: str | int) -> None:
    if not isinstance(spawner, AgentInternals | AgentRuntime):
        raise TypeError(f"fan_out wants an agent's internals or a runtime first, not {spawner!r}")
    if isinstance(inputs, str):
        raise TypeError(f"prompts are several: write prompts=[{inputs!r}]")
    if concurrency < 1:
        raise ValueError(f"concurrency must be 1 or more, not {concurrency}")
    if until not in {"all", "first_failure"} and (isinstance(until, str) or until < 1):
        raise ValueError(f"until must be 'all', 'first_failure' or a number from 1, not {until!r}")


def _room(spawner: AgentInternals | AgentRuntime) -> float:
    """Return how many agents may be spawned; if none, the first spawn raises."""
    if isinstance(spawner, AgentRuntime):
        return float("inf")
    return max(1, spawner.subagent_room)


class _Fan:
    """One fan-out while it runs."""

    def __init__(
        self,
        spawn: Callable[[int], AgentHandle],
        prompts: list[tuple[ContentBlock, ...]],
        until: str | int,
    ) -> None:
        self._spawn = spawn
        self._until = until
        # Shared by all workers; a free one takes the next. Emptied at the end, however that comes.
        self._rest = deque(enumerate(prompts))
        self._is_enough = False
        self._completed = 0
        self.results: list[TurnResult | None] = [None] * len(prompts)

    async def run(self, width: float) -> None:
        """Ask as many agents at once as may be alive, until every prompt has its place."""
        await trio.lowlevel.checkpoint()
        # One wait for all: agents that a cancel leaves to be ended must not wait for a slot.
        async with Pause():
            try:
                with trio.CancelScope() as all_prompts:
                    await run_each(self._take, partial(self._answer, all_prompts), width)
            finally:
                self._rest.clear()

    def _take(self) -> tuple[int, tuple[ContentBlock, ...]] | None:
        return self._rest.popleft() if self._rest else None

    async def _answer(
        self, all_prompts: trio.CancelScope, asked: tuple[int, tuple[ContentBlock, ...]]
    ) -> None:
        index, prompt = asked
        handle = self._spawn(index + 1)
        try:
            self._keep(index, await try_ask(handle, prompt))
            if self._is_enough:
                all_prompts.cancel()
            await handle.shutdown()
        except BaseException:
            self._rest.clear()
            raise
        finally:
            with trio.CancelScope(shield=True):
                await handle.shutdown(grace=0)

    def _keep(self, index: int, result: TurnResult) -> None:
        if self._is_enough:
            return
        self.results[index] = result
        is_completed = result.status is TurnStatus.COMPLETED
        self._completed += is_completed
        self._is_enough = self._completed == self._until or (
            self._until == "first_failure" and not is_completed
        )


async def run_each(
    take: Callable[[], T | None], work: Callable[[T], Awaitable[None]], concurrency: float
) -> None:
    """Take items and work on them, some side by side, until none is left and none is worked on.

    Args:
        take: returns the next item, or None if there is none now; it is called again whenever an
            item has been worked on, so an item may make others ready.
        work: works on one item.
        concurrency: how many are worked on at once.

    Raises:
        Exception: what `work` raised; the others are cancelled. A group only if several did.
    """
    running = 0
    ready = deque[T]()

    def start(nursery: trio.Nursery) -> None:
        nonlocal running
        while running < concurrency and (item := take()) is not None:
            running += 1
            ready.append(item)
            nursery.start_soon(run, nursery)

    async def run(nursery: trio.Nursery) -> None:
        nonlocal running
        if nursery.cancel_scope.cancel_called:
            return
        await work(ready.popleft())  # trio starts tasks in any order; this is the first of them
        running -= 1
        start(nursery)

    try:
        async with trio.open_nursery() as nursery:
            start(nursery)
    except BaseExceptionGroup as group:
        found = leaves(group)
        if len(found) > 1 and not is_cancelled(group):
            raise  # a cancel beside a failure goes further
        raise found[0] from found[0].__cause__


async def try_ask(
    handle: AgentHandle,
    content: Prompt,
    timeout: float | None = None,
    *,
    sender: str = "",
    metadata: Mapping[str, object] | None = None,
) -> TurnResult:
    """Do what `AgentHandle.ask` does, with a result also for an agent that ends without an answer.

    Where it crashes, ends, or opens no turn for this, the status is failed, with the reason in
    `error`.

    Raises:
        SelfWaitError: and others, as `ask` raises for a wrong call.
    """
    try:
        return await handle.ask(content, timeout, sender=sender, metadata=metadata)
    except AgentNotRunningError as error:
        outcome = error.outcome
        cause = outcome.error if isinstance(outcome, Outcome) else None
        problem, kind = (describe_error(cause), type(cause).__name__) if cause else ("", "")
        return TurnResult(TurnStatus.FAILED, error=problem or str(error), kind=kind)
    except TurnError as error:
        return TurnResult(TurnStatus.FAILED, error=str(error), kind=type(error).__name__)
