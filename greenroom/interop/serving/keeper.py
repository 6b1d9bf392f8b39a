"""The agent that sits in for people: it attends the served agents, and ends those that idle.

Theory of operation
===================

A question of a served agent must not be decided by a connection that breaks. So this agent attends
each of them (`AgentHandle.attend`) while an operator has a stream of its session open, and `away`
seconds after the last request of one. Then it leaves its seat: since a served agent is spawned with
`unattended="suspend"`, an open question suspends its turn, and is never denied by absence. It comes
back with the next operator, and stays while there are subagents or tools that run: their questions
can't be asked again by a later agent, and without anybody they would be denied.

It is an agent of the same runtime, and so ends with it, whoever serves the application, and before
any agent is cancelled: a shutdown closes its mailbox first of all, as it does that of every agent.
"""

from collections.abc import Awaitable, Callable
from functools import partial

import trio

from greenroom.core._internal import StateKind
from greenroom.interop.serving.limits import ServerLimits
from greenroom.interop.serving.served_session import ServedSession
from greenroom.runtime import AgentHandle, AgentInternals, AgentRuntime
from greenroom.runtime._internal import take_branch
from greenroom.session import AgentSession, InMemoryStore

NAME = "web-server"
"""The name and the type of the agent that keeps a server's sessions."""

_GRACE = 5.0  # seconds for an agent that idles to end


class Keeper:
    """Minds the agents of a server, by an agent of its own that is started with the first."""

    def __init__(self, runtime: AgentRuntime, limits: ServerLimits, away: float) -> None:
        """Mind agents of a runtime."""
        self._runtime = runtime
        self._limits = limits
        self._away = away
        self._nursery: trio.Nursery | None = None
        self._waiting: list[Callable[[], Awaitable[None]]] = []

    def mind(self, served: ServedSession, handle: AgentHandle) -> None:
        """Attend an agent, soon, and end it in time; `wait_seat` waits for the first.

        Raises:
            RuntimeClosedError: the runtime is not open.
        """
        served.handle, served.outcome = handle, None
        served.leave_seat()
        self.begin(partial(self._mind, served, handle))

    def begin(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do something in a task that ends with the runtime at the latest.

        Raises:
            RuntimeClosedError: the runtime is not open.
        """
        if self._nursery is not None:
            self._nursery.start_soon(work)
            return
        self._waiting.append(work)
        if len(self._waiting) == 1:
            session = AgentSession.new(NAME, store=InMemoryStore())
            self._runtime.spawn(session, self._keep, name=NAME)

    async def _keep(self, agent: AgentInternals) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for work in self._waiting:
                nursery.start_soon(work)
            self._waiting.clear()
            try:
                async for _ in agent.inputs():
                    pass  # nobody talks to it; this ends with the runtime
            finally:
                self._nursery = None
                nursery.cancel_scope.cancel()

    async def _mind(self, served: ServedSession, handle: AgentHandle) -> None:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._attend, served, handle)
                outcome = await handle.wait()
                if served.handle is handle:
                    served.outcome = outcome
                nursery.cancel_scope.cancel()
        finally:
            served.take_seat()  # nobody waits for it now

    async def _attend(self, served: ServedSession, handle: AgentHandle) -> None:
        while True:
            if self._find_end(served, handle) > trio.current_time():
                async with handle.attend():
                    served.take_seat()
                    await self._wait_end(served, handle)
                    served.leave_seat()
            with trio.move_on_after(self._limits.idle_agent) as scope:
                await served.wait_change()
            is_idle = handle.state.kind is StateKind.IDLE and not served.streams
            if scope.cancelled_caught and is_idle:
                await handle.shutdown(_GRACE)

    async def _wait_end(self, served: ServedSession, handle: AgentHandle) -> None:
        """Wait until nobody has to sit in any more."""
        while (end := self._find_end(served, handle)) > trio.current_time():
            with trio.move_on_at(end):
                await served.wait_change()

    def _find_end(self, served: ServedSession, handle: AgentHandle) -> float:
        """Return until when somebody has to sit in, by trio's clock.

        A subagent's turn can't be suspended, and a tool that runs is not run again, so without
        anybody their questions would be denied: somebody is there as long as there are any.
        """
        agent = take_branch(handle, 2)
        if agent.children or agent.tools:
            return float("inf")
        return served.find_away(self._away)
