"""The runtime: it owns every agent's task, and is left only when all of them have ended."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVarTuple, Unpack

import trio

from greenroom.core import ResourceMap
from greenroom.core._internal import EventLoopError, Instruments
from greenroom.resilience import Backoff, Budget
from greenroom.runtime.actor import Actor
from greenroom.runtime.approvals import Unattended
from greenroom.runtime.calls import current_actor, refuse_self_wait
from greenroom.runtime.errors import AgentNotRunningError, RuntimeClosedError
from greenroom.runtime.handle import AgentHandle
from greenroom.runtime.internals import AgentInternals
from greenroom.runtime.interruption import check_grace
from greenroom.runtime.introspection import (
    DumpFile,
    RuntimeStatistics,
    RuntimeTree,
    dump_on_signal,
    take_tree,
    write_dump,
)
from greenroom.runtime.kernel import Kernel
from greenroom.runtime.limits import RuntimeLimits
from greenroom.runtime.restarts import AgentHost, Strategy, Supervision
from greenroom.runtime.spawning import spawn_root
from greenroom.runtime.subagents import shut_down
from greenroom.runtime.supervisor import Supervisor, make_supervisor
from greenroom.runtime.tasks import is_cancelled, require_loop, unwrap
from greenroom.runtime.tool_runs import Gates
from greenroom.runtime.watchdog import Watchdog, leave_watchdog, watch_loop
from greenroom.session import AgentSession, SessionStore
from greenroom.session._internal import check_store

logger = logging.getLogger("greenroom.runtime")

Ts = TypeVarTuple("Ts")


class AgentRuntime:
    """Starts agents, finds them, and ends them all when its `async with` block is left.

    Leaving the block normally shuts every agent down with five seconds of grace; leaving it by an
    exception or a cancel cancels them at once. Either way, nothing of them is alive afterwards. The
    block's own exception is raised as it was; it is in a group only together with a
    KeyboardInterrupt or the like of an agent.

    Args:
        store: where sessions live that have no store of their own; by default the folder
            `sessions/` under the working directory.
        limits: the bounds of every agent.
        workspace: the folder in which the agents work; by default the working directory.
        instruments: objects that watch the agents, see `greenroom.Instrument`.
        gates: objects that refuse calls of tools, see `greenroom.core.Gate`; those with hooks watch
            the agents as well.

    Example:
        ```python
        async with AgentRuntime() as runtime:
            handle = runtime.spawn(AgentSession.new("echo"), echo)
            print((await handle.ask("hello")).text)
        ```
    """

    def __init__(
        self,
        store: SessionStore | None = None,
        limits: RuntimeLimits | None = None,
        workspace: str | Path = ".",
        instruments: Iterable[object] = (),
        gates: Iterable[object] = (),
    ) -> None:
        """Make a runtime; it opens with `async with`. A path in place of a store is a TypeError."""
        check_store(store)
        checked, watching = Gates(gates), Instruments()
        for gate in checked:
            watching.add_gate(gate)
        for instrument in instruments:
            watching.add(instrument)
        self._kernel = kernel = Kernel[Actor](
            limits or RuntimeLimits(),
            checked,
            watching,
            store,
            workspace,
            AgentInternals,
        )
        self.limits = kernel.limits
        self.resources: ResourceMap = kernel.resources
        """Objects for all agents, found by `context.resources.get`. Those with an `aclose()` are
        closed after the last agent has ended."""
        self.instruments: Instruments = kernel.instruments
        """What watches the agents; use `add` and `remove` at any time."""
        self._watchdog: Watchdog | None = None
        self._manager: AbstractAsyncContextManager[trio.Nursery] | None = None

    @property
    def store(self) -> SessionStore | None:
        """Where sessions live that have no store of their own; None for the default folder."""
        return self._kernel.store

    @trio.lowlevel.enable_ki_protection  # nothing of what it opens is left behind half open
    async def __aenter__(self) -> Self:
        if self._manager is not None:
            raise RuntimeClosedError("a runtime is entered once", hint="make a new AgentRuntime")
        kernel = self._kernel
        kernel.token = _current_loop()
        kernel.opened_by = current_actor()
        if kernel.opened_by is not None:
            kernel.gates.put_before(kernel.opened_by.kernel.gates)
        self._watch()
        kernel.live_tasks.start()
        self._manager = trio.open_nursery()
        kernel.nursery = await self._manager.__aenter__()
        kernel.is_open = True
        return self

    @trio.lowlevel.enable_ki_protection  # nor when it closes
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
        self._kernel.is_open = False
        own = await self._close_nursery(own)
        for supervision in tuple(self._kernel.supervisions):
            supervision.on_host_end()
        try:
            await close_resources(self.resources, self.limits.flush_grace)
        finally:
            self._kernel.live_tasks.stop()
            self._unwatch()
        if own is not None and own is not error:
            raise own from own.__cause__
        return own is None

    async def _close_nursery(self, own: BaseException | None) -> BaseException | None:
        """Cancel the remaining agents, wait for them, and return what leaves the block."""
        assert self._kernel.nursery is not None
        assert self._manager is not None
        self._kernel.nursery.cancel_scope.cancel()
        # The nursery may take a cancel back that it caused itself; other errors are not its own.
        handed = own if is_cancelled(own) else None
        try:
            absorbed = await self._manager.__aexit__(
                type(handed) if handed else None, handed, handed.__traceback__ if handed else None
            )
        except BaseException as group:  # noqa: BLE001 (returned, alone or in a group)
            failure = unwrap(group)
            if own is None or handed is not None:
                return failure
            if not is_cancelled(failure):
                return BaseExceptionGroup("the block and an agent", [own, failure])
            return own
        return None if handed is not None and absorbed else own

    def _watch(self) -> None:
        if self.limits.watchdog is not None:
            self._watchdog = watch_loop(self.limits.watchdog)

    def _unwatch(self) -> None:
        if self._watchdog is not None and self.limits.watchdog is not None:
            leave_watchdog(self._watchdog, self.limits.watchdog)

    def spawn(
        self,
        session: AgentSession,
        agent_fn: Callable[[AgentInternals, Unpack[Ts]], Awaitable[object]],
        *args: *Ts,
        unattended: Unattended = "ask",
        name: str | None = None,
        budget: Budget | None = None,
    ) -> AgentHandle:
        """Start an agent and return its handle at once.

        Whatever fails later is in the handle's outcome; the writer lock of the session is the
        agent's first act.

        Args:
            session: the conversation that it continues; the agent becomes its only writer.
            agent_fn: an async function; its first argument is the agent's `AgentInternals`.
            *args: its other arguments, as in trio's `start_soon`.
            unattended: what happens to permission requests while no reader can answer: "ask" waits
                for one, "deny" denies at once, "suspend" suspends the turn (`Turn.suspend`),
                so that a later run can ask again; a subagent's request is denied then.
            name: for people and logs; by default the agent's type.
            budget: a bound for the agent and all below it; its seconds count from now on. Agents
                that are given the same object share it.

        Raises:
            RuntimeClosedError: the runtime's block is not open.
            SessionInUseError: an agent with this session is running, here or in another runtime
                that was given the same object.
            ConfigurationError: the session is kept elsewhere than in the runtime's store; one in
                memory may be.
            EventLoopError: called from another thread.
            TypeError: `agent_fn` is not an async function, or `budget` not a `Budget`.
        """
        return spawn_root(
            self._kernel,
            session,
            agent_fn,
            args,
            unattended=unattended,
            name=name,
            budget=budget,
        )

    def supervisor(
        self,
        strategy: Strategy = "one_for_one",
        *,
        intensity: int = 3,
        period: float = 5.0,
        backoff: Backoff | None = None,
        name: str = "supervisor",
    ) -> Supervisor:
        """Make a supervisor, whose agents are started again when they crash.

        Args:
            strategy: who is started again: the child that crashed ("one_for_one"), it and those
                started after it ("rest_for_one"), or all ("one_for_all").
            intensity: restarts that may happen within the period; one more, and it gives up: it
                ends all of its agents, which `Supervisor.wait` returns. Siblings go on.
            period: seconds that the intensity is about.
            backoff: how long to wait before a restart; the n-th of the child, or of the group,
                within the period gets the n-th delay. By default 0.1 s, doubling, with jitter.
            name: for people and logs.

        Raises:
            RuntimeClosedError: the runtime's block is not open.
            ConfigurationError: an argument makes no sense.
        """
        return make_supervisor(
            AgentHost(self._kernel, None),
            strategy,
            intensity=intensity,
            period=period,
            backoff=backoff,
            name=name,
        )

    @property
    def supervisors(self) -> tuple[Supervisor, ...]:
        """The supervisors that belong to the runtime itself, oldest first; `children` leads on."""
        supervisions = self._kernel.supervisions
        return tuple(Supervisor(each) for each in supervisions if isinstance(each, Supervision))

    def get(self, session_id: str) -> AgentHandle | None:
        """Return the handle of a running agent, or None."""
        actor = self._kernel.registry.get(session_id)
        return None if actor is None else AgentHandle(actor)

    def is_running(self, session_id: str) -> bool:
        """Whether an agent with this session is running."""
        return self._kernel.registry.get(session_id) is not None

    def list_active(self) -> tuple[str, ...]:
        """Return the session ids of all running agents, subagents included, oldest first."""
        return tuple(actor.session_id for actor in self._kernel.registry)

    async def shutdown(self, session_id: str, grace: float = 5.0) -> None:
        """End one agent, as `AgentHandle.shutdown` does.

        Raises:
            AgentNotRunningError: no agent with this session is running.
            SelfWaitError: called from inside the agent.
            ValueError: the grace is negative, or not a number.
        """
        handle = self.get(session_id)
        if handle is None:
            raise AgentNotRunningError(f"no agent with the session {session_id!r} is running")
        await handle.shutdown(grace)

    async def shutdown_all(self, grace: float = 5.0) -> None:
        """End every agent: all begin at once, and share the grace. A cancel takes nothing back.

        Raises:
            EventLoopError: called outside of the runtime's event loop.
            SelfWaitError: called from inside an agent.
            ValueError: the grace is negative, or not a number.
        """
        check_grace(grace)
        require_loop(self._kernel.token, "shutdown_all()")
        await trio.lowlevel.checkpoint()
        roots = self._kernel.registry.roots
        for actor in roots if current_actor() is not None else ():
            refuse_self_wait(actor, "shutdown_all()")
        await shut_down(roots, trio.current_time() + grace)

    def tree(self, limit: int = 1000) -> RuntimeTree:
        """Describe what every agent is doing right now; `print` draws the result as a tree.

        Args:
            limit: agents that are described at the most; the others are counted.
        """
        return take_tree(self._kernel.registry, limit)

    def statistics(self) -> RuntimeStatistics:
        """Return figures about the runtime."""
        registry, watchdog = self._kernel.registry, self._watchdog
        return RuntimeStatistics(
            running=len(registry),
            most_running=registry.most,
            spawned=registry.spawned,
            ended=dict(registry.ended),
            blocked=watchdog.blocked if watchdog else 0,
            longest_block=watchdog.longest if watchdog else 0.0,
        )

    def dump(self, file: DumpFile | None = None) -> None:
        """Write the tree, and below it where each task of each agent waits.

        At most 1,000 agents and about a million characters of stacks; the rest is counted. It holds
        names, file names and source lines, but nothing that the agents talk about.

        Args:
            file: an open text file; by default the standard error of the moment.
        """
        write_dump(self._kernel.registry, file)

    def dump_on_signal(
        self, number: int, file: DumpFile | None = None
    ) -> AbstractContextManager[None]:
        """Write the dump whenever a signal comes, as long as the `with` block is open.

        It works while the event loop is blocked too, as long as that is in Python code or in a call
        that a signal interrupts; it then shows which. Leaving the block puts the former handler
        back. A dump that can't be written is logged.

        Args:
            number: the signal, such as `signal.SIGUSR1`.
            file: as in `dump`.

        Raises:
            ConfigurationError: this is not the main thread, or the signal can't be handled.

        Example:
            ```python
            with runtime.dump_on_signal(signal.SIGUSR1):
                await handle.wait()  # and elsewhere: kill -USR1 PID
            ```
        """
        return dump_on_signal(self._kernel.registry, number, file)


@trio.lowlevel.disable_ki_protection  # the program's own code
async def close_resources(resources: ResourceMap, grace: float) -> None:
    """Close each value that has an `aclose()`, the newest first; a cancel can't cut this short.

    One that fails, or does not answer within `grace` seconds, is logged and stops no other.
    """
    for value in reversed(tuple(resources)):
        close = getattr(value, "aclose", None)
        if not inspect.iscoroutinefunction(close):
            continue
        with trio.CancelScope(shield=True, deadline=trio.current_time() + grace) as scope:
            try:
                await close()
            except Exception:
                logger.exception("%s could not be closed", type(value).__name__)
        if scope.cancelled_caught:
            logger.error("%s was not closed within %g seconds", type(value).__name__, grace)
    resources.clear()


def _current_loop() -> trio.lowlevel.TrioToken:
    try:
        return trio.lowlevel.current_trio_token()
    except RuntimeError:
        raise EventLoopError(
            "a runtime was entered where no trio event loop runs",
            hint="start the program with trio.run(main); in asyncio, write "
            "`async with RuntimeThread() as greenroom: await greenroom.run(agent, …)`",
        ) from None
