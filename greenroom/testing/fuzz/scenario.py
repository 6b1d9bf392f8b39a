"""What is run again and again: an agent, what it is told, and who answers for it."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVarTuple, Unpack

from greenroom.agents import coder
from greenroom.core import ContentBlock
from greenroom.llm import ModelRequest
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.runtime import AgentHandle, AgentInternals, AgentRuntime, RuntimeLimits
from greenroom.session import AgentSession, InMemoryStore, SessionStore
from greenroom.testing.approver import ScriptedApprover
from greenroom.testing.script import ScriptedProvider, Step, call
from greenroom.tools import Tool, ToolRegistry

Ts = TypeVarTuple("Ts")

_PROBE = "Are you still there?"
_REPLIES = 50  # more than any run asks for


class Scenario:
    """An agent with everything around it, made anew for each run.

    After an interrupt the conversation goes on: let the model answer whatever comes by a function of
    the request, since a script would be out of step.

    Args:
        agent_fn: the agent, as for `AgentRuntime.spawn`.
        *args: what else it is given.
        inputs: what it is told, each after the turn of the one before; one text may stand alone.
        person: talks to the handle in place of `inputs`, for what they can't say. It may be told
            `AgentNotRunningError` at any time, and need not catch it.
        approver: answers permission requests.
        probe: what the agent is told last, to see that it still answers, and what the next one with
            the same tools is told where it has ended; by default all inputs again, so that their
            calls can be compared with those of the undisturbed run.
        store: where its session lives; by default in memory.
        limits: the bounds of the runtime; by default more chunks are kept than usual.
        workspace: the folder in which it works; by default a new and empty one.
    """

    def __init__(
        self,
        agent_fn: Callable[[AgentInternals, Unpack[Ts]], Awaitable[object]],
        *args: *Ts,
        inputs: str | Iterable[str | Iterable[ContentBlock]] = (),
        person: Callable[[AgentHandle], Awaitable[object]] | None = None,
        approver: ScriptedApprover | None = None,
        probe: str | Iterable[str | Iterable[ContentBlock]] | None = None,
        store: SessionStore | None = None,
        limits: RuntimeLimits | None = None,
        workspace: str | Path | None = None,
    ) -> None:
        """Describe it; nothing runs yet."""
        told = _contents(inputs)
        self.person = person or _Inputs(told).tell
        self.approver = approver or ScriptedApprover()
        self.probe = _contents(probe) if probe is not None else told or [_PROBE]
        self.store = store or InMemoryStore()
        self.limits = limits or RuntimeLimits(ring_chunks=100_000, ring_bytes=64 * 1024 * 1024)
        self.workspace = workspace

        def spawn(runtime: AgentRuntime) -> AgentHandle:
            return runtime.spawn(AgentSession.new("fuzzed"), agent_fn, *args)

        self.spawn = spawn
        """Starts the agent with a new session."""
        self.only_during_calls = False
        """Whether a cancel elsewhere than in a call of a tool would show nothing new."""

    @classmethod
    def of_tool(
        cls,
        tool: Tool,
        input: Mapping[str, object],  # noqa: A002 (as everywhere where a tool is called)
        *,
        workspace: str | Path | None = None,
    ) -> "Scenario":
        """Describe an agent that calls one tool with one input, and then once more.

        Make the tool anew for each scenario, with the locks, flags and connections that it keeps: so
        what one run leaves behind does not disturb the next. Every permission is given. It is
        disturbed while the first call runs.

        Args:
            tool: the tool.
            input: what it is called with, something that can be repeated.
            workspace: the folder in which it works; by default a new and empty one.

        Example:
            ```python
            cancel_at_every_checkpoint(lambda: Scenario.of_tool(Press().press, {"apples": 2}))
            ```
        """

        def answer(request: ModelRequest) -> Step:
            return "Done." if request.messages[-1].tool_results else call(tool.name, **input)

        model = ScriptedProvider(*[answer] * _REPLIES)
        tools, rules = ToolRegistry([tool]), PermissionManager([PermissionRule.allow_all()])

        async def agent(internals: AgentInternals) -> None:
            await coder(internals, model, tools, rules)

        scenario = Scenario(agent, inputs=f"Call {tool.name}.", workspace=workspace)
        scenario.only_during_calls = True
        return scenario

    def open_runtime(self) -> AgentRuntime:
        """Make the runtime in which it runs."""
        return AgentRuntime(self.store, self.limits, self.workspace or ".")


def _contents(
    inputs: str | Iterable[str | Iterable[ContentBlock]],
) -> list[str | list[ContentBlock]]:
    if isinstance(inputs, str):
        return [inputs]
    return [each if isinstance(each, str) else list(each) for each in inputs]


class _Inputs:
    """The person who tells one input after the other."""

    def __init__(self, inputs: list[str | list[ContentBlock]]) -> None:
        self._inputs = inputs

    async def tell(self, handle: AgentHandle) -> None:
        for content in self._inputs:
            await handle.ask(content)
