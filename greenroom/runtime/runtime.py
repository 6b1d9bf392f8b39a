"""The runtime: it owns every agent's task, and is left only when all of them have ended."""

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVarTuple, Unpack
from weakref import WeakSet

import trio

from greenroom.core import (
    AgentNotRunningError,
    RuntimeClosedError,
    SessionInUseError,
    SubAgentSpawned,
    TurnError,
    Workspace,
)
from greenroom.runtime.actor import Actor, Unattended
from greenroom.runtime.caller import current_actor, refuse_self_wait
from greenroom.runtime.failure import is_cancelled, unwrapped
from greenroom.runtime.handle import AgentHandle
from greenroom.runtime.lifecycle import run_agent
from greenroom.runtime.limits import RuntimeLimits
from greenroom.runtime.spawn_arguments import check_agent_function, check_session
from greenroom.session import default_store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from greenroom.runtime.internals import AgentInternals
    from greenroom.session import AgentSession, SessionStore

__all__ = ["AgentRuntime"]

Ts = TypeVarTuple("Ts")

_held: "WeakSet[AgentSession]" = WeakSet()
"""The sessions that agents of this process hold: the lock can't tell two runtimes apart that were
given one object, which is open already for the second."""


class AgentRuntime:
    """Starts agents, finds them, and ends them all when its `async with` block is left.

    Leaving the block normally shuts every agent down with five seconds of grace; leaving it by an
    exception or a cancel cancels them at once. Either way nothing of them is alive afterwards. The block's own exception is raised as it
    was; only together with a KeyboardInterrupt or the like of an agent does it stand in a group.

    Args:
        store: where sessions live that have no store of their own; by default the folder
            `sessions/` under the working directory.
        limits: the bounds of every agent.
        workspace: the folder in which the agents work; by default the working directory.

    Example:
        ```python
        async with AgentRuntime() as runtime:
            handle = runtime.spawn(AgentSession.new("echo"), echo)
            print((await handle.ask("hello")).text)
        ```
    """

    def __init__(
        self,
        store: "SessionStore | None" = None,
        limits: RuntimeLimits | None = None,
        workspace: str | Path = ".",
    ) -> None:
        """Make a runtime; it opens with `async with`."""
        self.limits = limits or RuntimeLimits()
        self._store = store
        self._workspace = Path(workspace)
        self._agents: dict[str, Actor] = {}
        self._manager: AbstractAsyncContextManager[trio.Nursery] | None = None
        self._nursery: trio.Nursery | None = None
        self._open = False
        # The agent that has opened this runtime, or None.
        self._host: Actor | None = None

    async def __aenter__(self) -> Self:
        if self._manager is not None:
            raise RuntimeClosedError("a runtime is entered once", hint="make a new AgentRuntime")
        self._host = current_actor.get()
        self._manager = trio.open_nursery()
        self._nursery = await self._manager.__aenter__()
        self._open = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """End every agent; the body's own exception is re-raised as it was."""
        own = error
        if error is None:
            try:
                await self.shutdown_all()
            except BaseException as interrupted:  # noqa: BLE001 (raised again below)
                own = interrupted
        self._open = False
        own = await self._close_nursery(own)
        if own is not None and own is not error:
            raise own from own.__cause__
        return own is None

    async def _close_nursery(self, own: BaseException | None) -> BaseException | None:
        """Cancel what is left, wait for it, and return what leaves the block in the end."""
        assert self._nursery is not None
        assert self._manager is not None
        self._nursery.cancel_scope.cancel()
        # The nursery may take a cancel back that it caused itself; other errors are not its own.
        handed = own if is_cancelled(own) else None
        try:
            absorbed = await self._manager.__aexit__(
                type(handed) if handed else None, handed, handed.__traceback__ if handed else None
            )
        except BaseException as group:  # noqa: BLE001 (returned, or what it stands beside)
            failure = unwrapped(group)
            if own is None or handed is not None:
                return failure
            if not is_cancelled(failure):
                return BaseExceptionGroup("the block and an agent", [own, failure])
            return own
        return None if handed is not None and absorbed else own

    def spawn(
        self,
        session: "AgentSession",
        agent_fn: "Callable[[AgentInternals, Unpack[Ts]], Awaitable[object]]",
        *args: *Ts,
        unattended: Unattended = "ask",
        name: str | None = None,
    ) -> AgentHandle:
        """Start an agent and return its handle at once.

        Whatever fails later is in the handle's outcome; the writer lock of the session is the
        agent's first act.

        Args:
            session: the conversation that it continues; the agent becomes its only writer.
            agent_fn: an async function; its first argument is the agent's `AgentInternals`.
            *args: what else it is given, as in trio's `start_soon`.
            unattended: what happens to permission requests while nobody can answer: "ask" waits
                for somebody, "deny" denies at once.
            name: for people and logs; by default the agent's type.

        Raises:
            RuntimeClosedError: the runtime's block is not open.
            SessionInUseError: an agent with this session is running, here or in another runtime
                that was given the same object.
            TypeError: `agent_fn` is no async function.
        """
        nursery = self._open_nursery()
        self._refuse(session, agent_fn)
        session.bind(self._store or default_store())
        actor = Actor(
            self,
            session,
            parent=None,
            name=name,
            unattended=unattended,
            workspace=Workspace(self._workspace),
        )
        return self._start(actor, nursery, agent_fn, args)

    def _spawn_child(
        self,
        parent: Actor,
        session: "AgentSession",
        agent_fn: "Callable[[AgentInternals, Unpack[Ts]], Awaitable[object]]",
        args: tuple[*Ts],
        *,
        detached: bool,
        name: str | None,
    ) -> AgentHandle:
        """Start a subagent; `AgentInternals.spawn` is the way to call it."""
        root_nursery = self._open_nursery()
        if parent.nursery is None:
            raise AgentNotRunningError(
                f"the agent {parent.name} has returned, and spawns no more", outcome=parent.outcome
            )
        if parent.children.unsettled >= self.limits.subagents:
            raise TurnError(
                f"{parent.name} has {self.limits.subagents} subagents already that are alive, "
                "or whose results it has not taken",
                hint="wait for some of them, or raise RuntimeLimits.subagents",
            )
        self._refuse(session, agent_fn)
        if session.parent_session_id is None:
            session.adopt(parent.session.session_id, None)
        session.bind(parent.session.store or default_store())
        actor = Actor(
            self,
            session,
            parent=None if detached else parent,
            name=name,
            unattended=parent.unattended,
            workspace=Workspace(parent.context.workspace.root, parent.context.workspace.cwd),
        )
        nursery = root_nursery if detached else parent.nursery
        handle = self._start(actor, nursery, agent_fn, args)
        parent.session.add_child_session(session.session_id)
        if not detached:
            parent.children.add(actor)
        parent.publish(
            SubAgentSpawned(
                session.session_id,
                session.agent_type,
                actor.name,
                session.parent_tool_use_id or "",
            )
        )
        return handle

    def _start(
        self,
        actor: Actor,
        nursery: trio.Nursery,
        agent_fn: "Callable[[AgentInternals, Unpack[Ts]], Awaitable[object]]",
        args: tuple[*Ts],
    ) -> AgentHandle:
        nursery.start_soon(run_agent, actor, agent_fn, args, name=f"agent {actor.name}")
        self._agents[actor.session.session_id] = actor
        _held.add(actor.session)
        return AgentHandle(actor)

    def _open_nursery(self) -> trio.Nursery:
        if self._nursery is None or not self._open:
            raise RuntimeClosedError(
                "the runtime is not open", hint="spawn inside of `async with AgentRuntime()`"
            )
        return self._nursery

    def _refuse(self, session: "AgentSession", agent_fn: object) -> None:
        check_session(session)
        if session.session_id in self._agents or session in _held:
            raise SessionInUseError(
                f"the session {session.session_id} has a running agent",
                session_id=session.session_id,
                hint="get its handle from its runtime, or fork the session",
            )
        check_agent_function(agent_fn)

    def _forget(self, actor: Actor) -> None:
        """Take an agent that has ended out of the registry; `lifecycle` is the way to call it."""
        del self._agents[actor.session.session_id]
        _held.discard(actor.session)

    def get(self, session_id: str) -> AgentHandle | None:
        """Return the handle of a running agent, or None."""
        actor = self._agents.get(session_id)
        return None if actor is None else AgentHandle(actor)

    def is_running(self, session_id: str) -> bool:
        """Whether an agent with this session is running."""
        return session_id in self._agents

    def list_active(self) -> tuple[str, ...]:
        """Return the session ids of all running agents, subagents included, oldest first."""
        return tuple(self._agents)

    async def shutdown(self, session_id: str, grace: float = 5.0) -> None:
        """End one agent, as `AgentHandle.shutdown` does.

        Raises:
            AgentNotRunningError: no agent with this session is running.
            SelfWaitError: called from inside the agent.
        """
        handle = self.get(session_id)
        if handle is None:
            raise AgentNotRunningError(f"no agent with the session {session_id!r} is running")
        await handle.shutdown(grace)

    async def shutdown_all(self, grace: float = 5.0) -> None:
        """End every agent: all are told at once, and share the grace.

        Raises:
            SelfWaitError: called from inside an agent.
        """
        await trio.lowlevel.checkpoint()
        roots = [actor for actor in self._agents.values() if actor.parent is None]
        for actor in roots:
            refuse_self_wait(actor, "shutdown_all()")
        for actor in roots:
            actor.begin_shutdown()
        with trio.move_on_after(grace):
            for actor in roots:
                await actor.ended.wait()
        for actor in roots:
            actor.scope.cancel()
        for actor in roots:
            await actor.ended.wait()
