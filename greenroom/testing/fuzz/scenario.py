"""What is run again and again: an agent, what it is told, and who answers for it."""

from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TypeVarTuple, Unpack

from greenroom.core import ContentBlock
from greenroom.runtime import AgentHandle, AgentInternals, AgentRuntime, RuntimeLimits
from greenroom.session import AgentSession, MemoryStore, SessionStore
from greenroom.testing.approver import ScriptedApprover

__all__ = ["Scenario"]

Ts = TypeVarTuple("Ts")


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
        probe: what the agent is told last, to see that it still answers.
        store: where its session lives; by default in memory.
        limits: the bounds of the runtime; by default more chunks are kept than usual.
        workspace: the folder in which it works.
    """

    def __init__(
        self,
        agent_fn: Callable[[AgentInternals, Unpack[Ts]], Awaitable[object]],
        *args: *Ts,
        inputs: str | Iterable[str | Iterable[ContentBlock]] = (),
        person: Callable[[AgentHandle], Awaitable[object]] | None = None,
        approver: ScriptedApprover | None = None,
        probe: str = "Are you still there?",
        store: SessionStore | None = None,
        limits: RuntimeLimits | None = None,
        workspace: str | Path = ".",
    ) -> None:
        """Describe it; nothing runs yet."""
        self.person = person or _Inputs([inputs] if isinstance(inputs, str) else inputs).tell
        self.approver = approver or ScriptedApprover()
        self.probe = probe
        self.store = store or MemoryStore()
        self.limits = limits or RuntimeLimits(ring_chunks=100_000, ring_bytes=64 * 1024 * 1024)
        self.workspace = workspace

        def spawn(runtime: AgentRuntime) -> AgentHandle:
            return runtime.spawn(AgentSession.new("fuzzed"), agent_fn, *args)

        self.spawn = spawn
        """Starts the agent with a new session."""

    def open_runtime(self) -> AgentRuntime:
        """Make the runtime in which it runs."""
        return AgentRuntime(self.store, self.limits, self.workspace)


class _Inputs:
    """The person who tells one input after the other."""

    def __init__(self, inputs: Iterable[str | Iterable[ContentBlock]]) -> None:
        self._inputs = list(inputs)

    async def tell(self, handle: AgentHandle) -> None:
        for content in self._inputs:
            await handle.ask(content)
