"""One agent as the runtime sees it, and the registry of all; the handle and the internals are its two faces."""

import logging
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias
from weakref import WeakSet

import trio

from greenroom.core import (
    AgentContext,
    AgentNotRunningError,
    AgentState,
    ConfigurationError,
    Credentials,
    EndStatus,
    Hook,
    InvalidJSONError,
    OutputChunk,
    ResourceMap,
    SessionInUseError,
    SessionStorageError,
    StateChange,
    ToolProgress,
    TurnError,
    Workspace,
    describe_error,
    serde,
)
from greenroom.runtime.approvals import Approvals
from greenroom.runtime.budget import Budgets
from greenroom.runtime.interruption import Cleanups, CleanupScope
from greenroom.runtime.mailbox import ClientResults, Mailbox
from greenroom.runtime.output import Output
from greenroom.runtime.subagents import Children, Report
from greenroom.runtime.task_tree import require_loop
from greenroom.runtime.turn import Turns

if TYPE_CHECKING:
    from greenroom.resilience import Budget
    from greenroom.runtime.calls import Wait
    from greenroom.runtime.outcome import Outcome
    from greenroom.runtime.output import Subscription
    from greenroom.runtime.runtime import AgentRuntime
    from greenroom.runtime.subagents import Monitor
    from greenroom.runtime.supervision import SupervisedAgent, Supervision
    from greenroom.runtime.turn import Turn
    from greenroom.session import AgentSession


Unattended: TypeAlias = Literal["ask", "deny", "suspend"]
"""What a permission request does while no reader can answer it: wait for one, be denied, or suspend
the turn."""

logger = logging.getLogger("greenroom.runtime")


class Life:
    """What belongs to one run of an agent's function, and is made anew for the next one."""

    def __init__(self) -> None:
        """Start with nothing run."""
        self.scope = trio.CancelScope()
        """Everything of this life; cancelling it ends the life, not the agent."""
        self.nursery: trio.Nursery | None = None
        """Where subagents live; None before the function is called, and after its end."""
        self.returned = False
        """Whether the function has returned."""
        self.value: object = None
        """What it returned."""
        self.crash: BaseException | None = None
        """What crashed it. Kept at once, so that a cancel that comes later can't take it away."""
        self.is_reported = False
        """Whether subscribers have got the `Error` of the crash."""
        self.supervisions: dict[Supervision, None] = {}
        """The supervisors that the function has made, but for those below others."""
        self.monitors: set[Monitor] = set()
        """The monitors that this life has made, and whose agents have not ended."""

    def keep(self, crash: BaseException) -> None:
        """Keep what has crashed it; the first one counts."""
        # An exception may be false: one with a length, or with a truth value of its own.
        if self.crash is None:
            self.crash = crash

    def fail(self, error: BaseException) -> None:
        """Crash it from the outside."""
        self.keep(error)
        self.scope.cancel()

    def end_monitors(self) -> None:
        """It is over: its orders are void."""
        for monitor in tuple(self.monitors):
            monitor.drop()

    def end_supervisions(self) -> None:
        """Its agents have ended: the supervisors end with them."""
        for supervision in tuple(self.supervisions):
            supervision.home_ended()


class Actor:
    """The state of one agent. Only its own tasks and the trio thread touch it."""

    def __init__(
        self,
        runtime: "AgentRuntime",
        session: "AgentSession",
        *,
        parent: "Actor | None",
        name: str | None,
        unattended: Unattended,
        workspace: Workspace,
        budget: "Budget | None" = None,
        spawn_turn: "Turn | None" = None,
        reports: bool = True,
    ) -> None:
        """Made by the runtime's `spawn`, or by an agent's."""
        limits = runtime.limits
        self.runtime = runtime
        self.limits: RuntimeLimits = limits
        self.session = session
        self.parent = parent
        self.name = name or session.agent_type
        self.unattended = unattended
        self.epoch = 1
        self.turns = Turns(self)
        self.mailbox = Mailbox(limits.mailbox, self.turns.take, self.turns.resume)
        self.output = Output(self)
        self.approvals = Approvals(self, limits.pending)
        self.client_results = ClientResults(limits.pending)
        self.subscriptions: set[Subscription] = set()
        self.state = AgentState.idle()
        # The turn of the parent with which this agent is cancelled; None for one that outlives it.
        self.spawn_turn = spawn_turn
        self.report = Report(self, is_wanted=reports)
        self.children = Children(self)
        self.budgets = Budgets(self, budget)
        self.cleanups = Cleanups(self)
        self.scope = trio.CancelScope()
        self.life = Life()
        self.member: SupervisedAgent | None = None
        """Its place under a supervisor; set in the same step as it is spawned."""
        self.monitors: set[Monitor] = set()
        """The monitors that wait for its end."""
        self.note = ""
        """What the next life tells the model about the one before."""
        # The task that runs the agent's function, once it has begun.
        self.task: trio.lowlevel.Task | None = None
        # The agents that this one waits for by their handles, as the tree shows them.
        self.waits: list[Wait] = []
        self.opened = False
        self.killed = False
        self.ended = trio.Event()
        self.outcome: Outcome | None = None
        # One for the whole tree, so that a person is asked once; a restart keeps it.
        self.credentials: Credentials = parent.credentials if parent else Credentials()
        self._workspace = workspace
        self.context = self._make_context()
        self._kept_metadata = session.metadata

    def _make_context(self) -> AgentContext:
        session, workspace = self.session, self._workspace
        assert session.store is not None  # bound by the runtime
        folder = session.store.folder(session.session_id)
        resources = ResourceMap(shared=self.runtime.resources)
        resources.insert(self.credentials)
        return AgentContext(
            session_id=session.session_id,
            agent_type=session.agent_type,
            name=self.name,
            lineage=self.lineage(),
            parent_session_id=session.parent_session_id,
            parent_tool_use_id=session.parent_tool_use_id,
            current_turn=self.turns.count,
            workspace=workspace.copy(),
            metadata=dict(session.metadata),
            resources=resources,
            spill_folder=os.path.join(folder, "output") if folder else "",
            on_progress=lambda call_id, text: self.publish(ToolProgress(call_id, text)),
            on_cleanup=lambda call_id, grace: CleanupScope(self.cleanups, grace, call_id),
            on_abandon=self.cleanups.abandon,
            on_client_result=self.client_results.take,
        )

    # -- lives ----------------------------------------------------------------------------------

    @property
    def restarts(self) -> int:
        """How often a supervisor started it again."""
        return self.epoch - 1

    def begin_life(self) -> None:
        """Begin again: the identity, the session and what subscribers read go on."""
        self.epoch += 1
        self.life = Life()
        self.turns.may_resume = True
        self.context = self._make_context()

    @property
    def takes_results(self) -> bool:
        """Whether its function still runs, and is not being ended."""
        return self.life.nursery is not None and not (
            self.life.scope.cancel_called or self.scope.cancel_called
        )

    # -- lineage --------------------------------------------------------------------------------

    def ancestors(self) -> list["Actor"]:
        """Return the agents above this one, its parent first."""
        line: list[Actor] = []
        actor = self.parent
        while actor is not None:
            line.append(actor)
            actor = actor.parent
        return line

    def lineage(self) -> tuple[str, ...]:
        """Return the names from the root down to this agent."""
        return tuple(actor.name for actor in reversed([self, *self.ancestors()]))

    def notify(self, hook: Hook, *details: object) -> None:
        """Tell the runtime's instruments of something that this agent does."""
        self.runtime.instruments.notify(hook, self.context, *details)

    @property
    def signature(self) -> str:
        """How the log names it: the names from the root down to it, and its session."""
        return f"{'/'.join(self.lineage())} ({self.session.session_id})"

    def refuse_if_ended(self) -> None:
        """Raise `AgentNotRunningError` where the agent has ended."""
        if self.outcome is not None:
            error = self.outcome.error
            reason = f": {describe_error(error)}" if error is not None else ""
            raise AgentNotRunningError(
                f"the agent {self.signature} has ended: {self.outcome.status}{reason}",
                outcome=self.outcome,
                hint="spawn an agent with the loaded session to go on with it",
            ) from error

    # -- output ---------------------------------------------------------------------------------

    def publish(self, chunk: OutputChunk) -> None:
        """Put a chunk into the ring, and wrapped into the rings of the agents above.

        Raises:
            EventLoopError: called outside of the runtime's event loop, as a tool's own thread may.
        """
        require_loop(self.runtime, "send() or progress()")
        self.output.publish(chunk)

    def set_state(self, state: AgentState) -> None:
        """Move to a state and publish it; staying in the same one publishes nothing."""
        if state == self.state:
            return
        if not self.state.may_become(state):
            raise TurnError(f"an agent can't go from {self.state} to {state}")
        self.state = state
        self.publish(StateChange(state))

    @property
    def label(self) -> str:
        """How this agent is named as part of another."""
        return f"subagent {self.name} ({self.session.session_id})"

    def running(self, turn: "Turn | None" = None) -> tuple[str, ...]:
        """Name what runs here, or only in a turn: the tools, the subagents, and what runs in those."""
        below = [
            what
            for child in self.children.alive(of_turn=turn)
            for what in (child.label, *(f"{what} of {child.label}" for what in child.running()))
        ]
        return (*self.output.open_tool_labels(), *below)

    # -- the end --------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Save the session; a cancel can't cut this short, its own deadline can.

        Raises:
            SessionError: the store refused, or did not answer in time.
        """
        self._keep_metadata()
        if self.session.is_saved:
            return
        seconds = self.limits.flush_grace
        with trio.CancelScope(shield=True, deadline=trio.current_time() + seconds) as scope:
            await self.session.save()
        if scope.cancelled_caught:
            raise SessionStorageError(
                f"the session was not saved within {seconds:g} seconds",
                session_id=self.session.session_id,
                hint="what is not stored stays pending, and the next save stores it",
            )

    def _keep_metadata(self) -> None:
        """Take what tools changed in the context's metadata into the session's."""
        for key, value in tuple(self.context.metadata.items()):
            try:
                plain = serde.plain(value, f"metadata {key!r}")
                if key not in self._kept_metadata or self._kept_metadata[key] != plain:
                    self.session.set_metadata(key, plain)
                    self._kept_metadata[key] = plain
            except InvalidJSONError as error:
                # Set past `set_metadata`: one bad value must not keep the others from the disk.
                logger.warning("%s: %s", self.signature, error)

    def kill(self) -> None:
        """Cancel everything now; clean-up gets no time."""
        if self.outcome is not None:
            return
        self.killed = True
        self.cleanups.clip(trio.current_time())
        self.scope.cancel()

    async def shut_down(self, grace: float) -> None:
        """Take no more input, let the turn finish within the grace, then cancel; wait for the end."""
        self.begin_shutdown(grace)
        await self.ended.wait()

    def begin_shutdown(self, grace: float) -> None:
        """Take no more input, and end within the grace, also if whoever waits for that is cancelled.

        Whoever waits for a person's answer is denied.
        """
        self.scope.deadline = min(self.scope.deadline, trio.current_time() + grace)
        self.mailbox.close()
        self.approvals.check_attendance()
        if self.member is not None and self.member.is_parked:
            self.scope.cancel()


# -- what one agent may hold -------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RuntimeLimits:
    """How much one agent may hold before something waits, is refused, or is forgotten.

    Attributes:
        mailbox: inputs that may wait; `send_input` then waits for room, its twin raises. Word
            of other agents always finds room: `subagents` and `monitors` bound it.
        ring_chunks: output chunks kept for late and slow readers; older ones are forgotten, and a
            reader who still wanted them gets `Lagged`. A turn with 2,000 deltas fits.
        ring_bytes: the same bound in bytes, by an estimate of each chunk's size.
        subagents: subagents of one agent that are alive, or whose result it has not taken.
        monitors: agents that one agent monitors, or of whose end it has not taken word.
        pending: permission requests, and results of client-run tools, held at once by one agent.
        partial_text: characters of an unfinished reply that `partial_text()` can still give.
        flush_grace: seconds for a save at the end of a turn or of an agent, and for the subagents of
            an agent that has returned.
        permission_timeout: seconds until an unanswered permission request counts as denied, or
            None to wait for as long as somebody may answer.
        watchdog: seconds that one call may hold up the event loop before the log names it; None for
            no watchdog. Runtimes in one event loop share one, and the lowest of theirs holds.

    Raises:
        ConfigurationError: a bound is below 1, or a time below 0 or not a number.
    """

    mailbox: int = 64
    ring_chunks: int = 4096
    ring_bytes: int = 4 * 1024 * 1024
    subagents: int = 64
    monitors: int = 1024
    pending: int = 64
    partial_text: int = 100_000
    flush_grace: float = 5.0
    permission_timeout: float | None = None
    watchdog: float | None = 1.0

    def __post_init__(self) -> None:
        """Refuse bounds under which nothing could work."""
        for name in (
            "mailbox",
            "ring_chunks",
            "ring_bytes",
            "subagents",
            "monitors",
            "pending",
            "partial_text",
        ):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"RuntimeLimits.{name} must be 1 or more")
        if not all(seconds >= 0 for seconds in (self.flush_grace, self.permission_timeout or 0.0)):
            raise ConfigurationError("times in RuntimeLimits must be numbers from 0")
        if self.watchdog is not None and not 0 < self.watchdog < float("inf"):
            raise ConfigurationError(
                "RuntimeLimits.watchdog must be above 0", hint="None turns the watchdog off"
            )


# -- all agents of a runtime, by their session ids ---------------------------------------------------

_held: "WeakSet[AgentSession]" = WeakSet()
"""The sessions that agents of this process hold: the lock can't tell two runtimes apart that were
given one object, which is open already for the second."""


class Registry:
    """Every agent from its spawn to its end, subagents included, oldest first."""

    def __init__(self) -> None:
        """Start empty."""
        self._agents: dict[str, Actor] = {}
        self.spawned = 0
        """How many agents were ever added."""
        self.most = 0
        """How many there were at once, at the most."""
        self.ended: Counter[EndStatus] = Counter()
        """How many have ended, by how they did."""

    def __len__(self) -> int:
        return len(self._agents)

    def __iter__(self) -> Iterator["Actor"]:
        return iter(tuple(self._agents.values()))

    def get(self, session_id: str) -> "Actor | None":
        """Return the agent with this session, or None."""
        return self._agents.get(session_id)

    @property
    def roots(self) -> list["Actor"]:
        """The agents that belong to the runtime itself."""
        return [actor for actor in self if actor.parent is None]

    def refuse(self, session: "AgentSession") -> None:
        """Refuse a session that runs.

        Raises:
            SessionInUseError: an agent with this session is running, here or in another runtime.
        """
        if session.session_id in self._agents or session in _held:
            raise SessionInUseError(
                f"the session {session.session_id} has a running agent",
                session_id=session.session_id,
                hint="get its handle from its runtime, or fork the session",
            )

    def add(self, actor: "Actor") -> None:
        """An agent was spawned."""
        self._agents[actor.session.session_id] = actor
        _held.add(actor.session)
        self.spawned += 1
        self.most = max(self.most, len(self._agents))

    def forget(self, actor: "Actor") -> None:
        """An agent has ended."""
        del self._agents[actor.session.session_id]
        _held.discard(actor.session)
        if actor.outcome is not None:
            self.ended[actor.outcome.status] += 1
