"""An agent as the runtime sees it: its identity, its state and its life.

`Actor` owns the parts of an agent (mailbox, turns, output, approvals, budgets, clean-ups,
subagents) and connects them. Each part declares the little that it needs of the actor in a protocol
of its own. The handle and the internals are the actor's two faces. All agents of one runtime share
a `Kernel`.
"""

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

import msgspec
import trio

from greenroom.core import (
    AgentContext,
    AgentExit,
    AgentState,
    EndStatus,
    OutputChunk,
    ResourceMap,
    SessionInUseError,
    SessionStorageError,
    StateChange,
    ToolProgress,
    TurnError,
    TurnStatus,
    Usage,
    Workspace,
)
from greenroom.core._internal import (
    Credentials,
    Hook,
    Instruments,
    InvalidJSONError,
    describe_error,
    serde,
)
from greenroom.resilience import Budget
from greenroom.runtime.approvals import Approvals, Unattended
from greenroom.runtime.artifacts import Artifacts
from greenroom.runtime.background import Background
from greenroom.runtime.budgets import Budgets, BudgetScope, RuntimeLimits
from greenroom.runtime.errors import AgentNotRunningError, RuntimeClosedError, SupervisionError
from greenroom.runtime.interruption import Cleanups, CleanupScope, Interruption
from greenroom.runtime.mailbox import ClientResults
from greenroom.runtime.output_ring import Output, OutputRing
from greenroom.runtime.results import Outcome
from greenroom.runtime.session_files import files_of
from greenroom.runtime.subagents import Children, Monitor, Report, forward_to
from greenroom.runtime.tasks import Dependent, Life, LiveTasks, error_chunk, require_loop
from greenroom.runtime.tool_runs import Gates, ToolRuns
from greenroom.runtime.turn import Turn, Turns
from greenroom.runtime.views import OwnView, View
from greenroom.session import AgentSession, SessionStore, begin_epoch
from greenroom.session._internal import holder_of

logger = logging.getLogger("greenroom.runtime")


class _Membership(Protocol):
    """An agent's place under a supervisor, as the agent sees it."""

    @property
    def path(self) -> str: ...
    @property
    def is_parked(self) -> bool: ...
    @property
    def stopped_by(self) -> SupervisionError | None: ...
    def mark_begun(self) -> None: ...
    def try_park(self) -> bool: ...
    async def wait_start(self) -> None: ...
    def mark_gone(self) -> None: ...


class HandleWait(msgspec.Struct, frozen=True, eq=False):
    """An agent waits for another, since a time of trio's clock, by a method of its handle."""

    target: "Actor"
    method: str
    since: float
    is_in_turn: bool


class Actor:
    """One agent: its identity, its state and its life. For the thread of its event loop only."""

    has_lock = False
    """Whether it has the session's lock."""
    restarts = 0
    """How often a supervisor started it again."""
    is_killed = False
    outcome: Outcome | None = None
    restart_note = ""
    """What the next life says to the model about the one before."""
    main_task: trio.lowlevel.Task | None = None
    """The task that runs its function, once that has begun."""
    member: _Membership | None = None
    """Its place under a supervisor; set in the same step as it is spawned."""

    def __init__(
        self,
        kernel: "Kernel",
        session: AgentSession,
        *,
        parent: "Actor | None",
        name: str | None,
        unattended: Unattended,
        workspace: Workspace,
        budget: Budget | None = None,
        spawn_turn: Turn | None = None,
        reports: bool = True,
    ) -> None:
        """Made by the runtime's `spawn`, or by an agent's."""
        self.kernel = kernel
        self.limits = kernel.limits
        self.session = session
        self.view: View = OwnView(session)
        """Where its handle finds the conversation."""
        self.parent = parent
        self.name = name or session.agent_type
        self.lineage: tuple[str, ...] = (*parent.lineage, self.name) if parent else (self.name,)
        """The names from the root down to this agent."""
        self.unattended = unattended
        self.spawn_turn = spawn_turn
        """The turn of the parent that ends this agent; None for one that outlives it."""

        self.state = AgentState.idle()
        self.ended = trio.Event()
        self.scope = trio.CancelScope()
        """All lives of it."""
        self.life = Life()
        self.monitors: set[Monitor] = set()
        """The monitors that wait for its end."""
        self.waits: list[HandleWait] = []
        """Which agents it waits for by their handles, as the tree shows them."""
        # One for the whole tree, so that a person is asked once; a restart keeps it.
        self.credentials: Credentials = parent.credentials if parent else Credentials()
        self._workspace = workspace
        self._make_parts(budget, reports)
        self.context = self._make_context()
        self._stored_metadata = session.metadata

    def _make_parts(self, budget: Budget | None, reports: bool) -> None:
        """Make the parts, each below that of the parent."""
        limits, parent, spawn_turn = self.limits, self.parent, self.spawn_turn
        ring = OutputRing(limits.ring_chunks, limits.ring_bytes)
        above = parent.output if parent else None
        forward = forward_to(above, self.session_id) if above else None
        self.output: Output = Output(self, above, forward, ring, limits.partial_text)
        self.turns = Turns(self, self.output, limits.mailbox)
        self.mailbox = self.turns.mailbox
        self.client_results = ClientResults(limits.pending)
        self.approvals: Approvals = Approvals(
            self, parent.approvals if parent else None, limits.pending
        )
        self.children: Children[Actor] = Children(self)
        self.background = Background(self)
        self.artifacts = Artifacts(self)
        self.report = Report(
            parent.children.reports if parent else None, spawn_turn, is_wanted=reports
        )
        self.budgets: Budgets = Budgets(self.path, parent.budgets if parent else (), budget)
        self.cleanups: Cleanups = Cleanups(
            self,
            self.output,
            parent.cleanups if parent else None,
            spawn_turn.interruption if spawn_turn else None,
        )

    def _make_context(self) -> AgentContext:
        session = self.session
        assert session.store is not None  # bound by the runtime
        folder = session.store.folder(session.session_id)
        resources = ResourceMap(shared=self.kernel.resources)
        resources.insert(self.credentials)
        return AgentContext(
            session_id=session.session_id,
            agent_type=session.agent_type,
            name=self.name,
            lineage=self.lineage,
            parent_session_id=session.parent_session_id,
            parent_tool_use_id=session.parent_tool_use_id,
            current_turn=self.turns.count,
            workspace=self._workspace.copy(),
            metadata=session.metadata,
            resources=resources,
            spill_folder=os.path.join(folder, "output") if folder else "",
            files=files_of(session.store, session.session_id),
            on_progress=lambda call_id, text: self.publish(ToolProgress(call_id, text)),
            on_cleanup=lambda call_id, grace: CleanupScope(self.cleanups, grace, call_id),
            on_check_cleanup=self.cleanups.cut_off_calls.__contains__,
            on_abandon=self.cleanups.abandon,
            on_client_result=self.client_results.take,
            on_background=self.background.start,
            on_artifact=self.artifacts.save,
            on_run=self._make_runs().run,
        )

    def _make_runs(self) -> ToolRuns:
        kernel, record = self.kernel, self.session.conversation.add_decision
        return ToolRuns(kernel.gates, kernel.instruments, record)

    @property
    def session_id(self) -> str:
        """The id of its session."""
        return self.session.session_id

    @property
    def path(self) -> str:
        """The names from the root down to it, as one text."""
        return "/".join(self.lineage)

    def __str__(self) -> str:
        return f"{self.path} ({self.session_id})"

    @property
    def label(self) -> str:
        """How this agent is named as part of another."""
        return f"subagent {self.name} ({self.session_id})"

    @property
    def is_root(self) -> bool:
        """Whether it belongs to the runtime itself."""
        return self.parent is None

    def ancestors(self) -> "list[Actor]":
        """Return the agents above this one, its parent first."""
        line: list[Actor] = []
        actor = self.parent
        while actor is not None:
            line.append(actor)
            actor = actor.parent
        return line

    @property
    def above(self) -> "Actor | None":
        """The agent that this one is part of: its parent, or the agent that opened its runtime."""
        return self.parent or self.kernel.opened_by

    def check_loop(self, what: str) -> None:
        """Raise `EventLoopError` if the caller is in another thread or event loop."""
        require_loop(self.kernel.token, what)

    def notify(self, hook: Hook, *details: object) -> None:
        """Notify the runtime's instruments."""
        instruments = self.kernel.instruments
        if instruments.methods[hook]:  # few runtimes have any
            instruments.notify(hook, self.context, *details)

    def publish(self, chunk: OutputChunk) -> None:
        """Put a chunk into the ring, and wrapped into the rings of the agents above.

        Raises:
            EventLoopError: called outside of the runtime's event loop, as a tool's own thread may.
        """
        require_loop(self.kernel.token, "send() or progress()")
        self.output.publish(chunk)

    def set_state(self, state: AgentState) -> None:
        """Move to a state and publish it; staying in the same one publishes nothing."""
        if state == self.state:
            return
        if self.state.is_final:
            raise TurnError(f"an agent can't go from {self.state} to {state}: it has ended")
        self.state = state
        self.publish(StateChange(state))

    def publish_crash(self) -> None:
        """Publish the `Error` of a crash, once."""
        crash = self.life.crash
        if crash is not None and not self.life.is_reported:
            self.life.is_reported = True
            self.publish(error_chunk(crash))

    def refuse_if_ended(self) -> None:
        """Raise `AgentNotRunningError` if the agent has ended."""
        if self.outcome is not None:
            error = self.outcome.error
            reason = f": {describe_error(error)}" if error is not None else ""
            raise AgentNotRunningError(
                f"the agent {self} has ended: {self.outcome.status}{reason}",
                outcome=self.outcome,
                hint="spawn an agent with the loaded session to go on with it",
            ) from error

    @property
    def takes_input(self) -> bool:
        """Whether it has not begun to shut down."""
        return not self.mailbox.closed

    @property
    def takes_results(self) -> bool:
        """Whether its function still runs, and is not being ended."""
        return self.life.nursery is not None and not self.is_being_ended

    @property
    def is_being_ended(self) -> bool:
        """Whether it, or the present life of it, is cancelled."""
        return self.scope.cancel_called or self.life.scope.cancel_called

    @property
    def open_interruption(self) -> Interruption | None:
        """The interruption of the turn that is open."""
        turn = self.turns.current
        return turn.interruption if turn else None

    @property
    def interruption_in_flight(self) -> Interruption | None:
        """The interruption of the open turn, or of the one about to begin."""
        turn = self.turns.current or self.turns.in_flight  # by far the usual case first
        return turn.interruption if turn else None

    def is_open(self, turn: object) -> bool:
        """Whether this is the open turn."""
        return turn is self.turns.current

    def begin_turn(self) -> BudgetScope | None:
        """Note that a turn begins; return the budget with the first deadline, if any."""
        self.context.current_turn = self.turns.count
        return self.budgets.first_to_end

    def close_turn(self, status: TurnStatus) -> None:
        """Drop what belonged to the turn that has ended."""
        self.output.partial.clear()
        if self.approvals.digests:
            self.approvals.expect(())
        self.children.reports.end_turn(status)
        for tool_use_id in self.client_results.drop():
            logger.warning(
                "%s: a result came for the call %s, and nothing waited for it", self, tool_use_id
            )

    def expect_questions(self) -> None:
        """Expect the session's open questions to be asked again."""
        self.approvals.expect(self.session.open_questions)

    def find_suspender(self) -> Callable[[], None] | None:
        """Return what suspends the turn in which the caller runs; None outside of a turn."""
        turn = self.turns.current
        return turn.suspend_now if turn is not None and self.turns.is_in_turn() else None

    def count_usage(self, usage: Usage) -> None:
        """Count what a model call has used for the open turn and the budgets."""
        if self.turns.current is not None:
            self.turns.current.usage += usage
        self.budgets.count(usage)

    def list_running(self, turn: Turn | None = None) -> tuple[str, ...]:
        """Name the running tools and subagents, of all or of one turn, and what runs in those."""
        below = [
            what
            for child in self.children.alive(of_turn=turn)
            for what in (
                child.label,
                *(f"{what} of {child.label}" for what in child.list_running()),
            )
        ]
        return (*self.output.open_tool_labels(), *below)

    def clip_cleanups(self, deadline: float, turn: Turn) -> None:
        """Shorten the clean-ups that run here and in the subagents of a turn."""
        self.cleanups.clip(deadline, turn.interruption)

    def cleanups_below(self, of_turn: Interruption | None) -> Iterator[Cleanups]:
        """Yield the clean-ups of the subagents, or only of those that one turn spawned."""
        for child in self.children:
            turn = child.spawn_turn
            if of_turn is None or (turn is not None and turn.interruption is of_turn):
                yield child.cleanups

    def approvals_below(self) -> Iterable[Approvals]:
        """Return the requests of the subagents."""
        return (child.approvals for child in self.children)

    async def end_subagents(self, turn: Turn) -> None:
        """Cancel the subagents of a turn, and wait until they are gone."""
        await self.children.end(of_turn=turn)

    def begin_life(self) -> None:
        """Begin again: the identity, the session and what subscribers read go on."""
        self.restarts += 1
        self.output.begin_epoch(begin_epoch())  # above all of this process
        self.life = Life()
        self.turns.may_resume = True
        self.context = self._make_context()

    async def flush(self) -> None:
        """Save the session; a cancel can't cut this short, its own deadline can.

        Raises:
            SessionError: the store refused, or did not answer in time.
        """
        self._store_metadata()
        journal = self.session.journal
        if journal.is_saved:
            return
        seconds = self.limits.flush_grace
        with trio.CancelScope(shield=True, deadline=trio.current_time() + seconds) as scope:
            await journal.save()
        if scope.cancelled_caught:
            raise SessionStorageError(
                f"the session was not saved within {seconds:g} seconds",
                session_id=self.session_id,
                hint="what is not stored stays pending, and the next save stores it",
            )

    def _store_metadata(self) -> None:
        """Take what tools changed in the context's metadata into the session's."""
        for key, value in tuple(self.context.metadata.items()):
            try:
                plain = serde.plain(value, f"metadata {key!r}")
                if key not in self._stored_metadata or self._stored_metadata[key] != plain:
                    self.session.set_metadata(key, plain)
                    self._stored_metadata[key] = plain
            except InvalidJSONError as error:
                # Set past `set_metadata`: one bad value must not keep the others from the disk.
                logger.warning("%s: %s", self, error)

    def kill(self) -> None:
        """Cancel everything now; clean-up gets no time."""
        if self.outcome is None:
            self.is_killed = True
            self.cleanups.kill()
            self.scope.cancel()

    async def shut_down(self, grace: float) -> None:
        """End: take no more input, let the turn finish within the grace, then cancel."""
        self.begin_shutdown(grace)
        await self.ended.wait()

    def begin_shutdown(self, grace: float) -> None:
        """Take no more input, deny what waits for an answer, and end within the grace.

        A cancel of the task that waits for the end does not take this back.
        """
        self.scope.deadline = min(self.scope.deadline, trio.current_time() + grace)
        self.mailbox.close()
        self.approvals.check_attendance()
        if self.member is not None and self.member.is_parked:
            self.scope.cancel()

    def tell_monitors(self, outcome: Outcome) -> None:
        """Notify the monitors that this agent has ended."""
        for monitor in tuple(self.monitors):
            kind, problem = self.session.agent_type, describe_error(outcome.error)
            monitor.tell(AgentExit(self.session_id, kind, outcome.status, problem))


_in_use: "WeakSet[AgentSession]" = WeakSet()
"""The sessions of this process's agents. The writer lock can't protect one session object that was
given to two runtimes: the second finds it open."""


class Registry:
    """All agents of a runtime from spawn to end, subagents included, oldest first."""

    def __init__(self) -> None:
        self._agents: dict[str, Actor] = {}
        self.spawned = 0
        """How many agents were ever added."""
        self.most = 0
        """How many there were at once, at the most."""
        self.ended: Counter[EndStatus] = Counter()
        """How many have ended, by how they did."""

    def __len__(self) -> int:
        return len(self._agents)

    def __iter__(self) -> Iterator[Actor]:
        return iter(tuple(self._agents.values()))

    def get(self, session_id: str) -> Actor | None:
        """Return the agent with this session, or None."""
        return self._agents.get(session_id)

    @property
    def roots(self) -> list[Actor]:
        """The agents that belong to the runtime itself."""
        return [actor for actor in self if actor.parent is None]

    def refuse(self, session: AgentSession) -> None:
        """Refuse a session that has a running agent.

        Raises:
            SessionInUseError: an agent with this session is running, here or in another runtime.
        """
        if session.session_id in self._agents or session in _in_use:
            raise SessionInUseError(
                f"the session {session.session_id} has a running agent",
                session_id=session.session_id,
                pid=os.getpid(),
                holder=holder_of(session.store),
                hint="get its handle from its runtime, or fork the session",
            )

    def add(self, actor: Actor) -> None:
        """Add an agent that was spawned."""
        self._agents[actor.session.session_id] = actor
        _in_use.add(actor.session)
        self.spawned += 1
        self.most = max(self.most, len(self._agents))

    def forget(self, actor: Actor) -> None:
        """Remove an agent that has ended."""
        del self._agents[actor.session.session_id]
        _in_use.discard(actor.session)
        if actor.outcome is not None:
            self.ended[actor.outcome.status] += 1


class Kernel:
    """What all agents of one runtime share."""

    def __init__(
        self,
        limits: RuntimeLimits,
        gates: Gates,
        instruments: Instruments,
        store: SessionStore | None,
        workspace: Path,
        make_internals: Callable[[Actor], object],
    ) -> None:
        """Made with its runtime, whose block is not open yet."""
        self.limits = limits
        self.gates = gates
        self.instruments = instruments
        self.store = store
        self.workspace = workspace
        self.make_internals = make_internals
        """Makes what an agent function is given first."""
        self.resources = ResourceMap()
        self.registry = Registry()
        self.live_tasks = LiveTasks()
        """The tasks of the agents that are alive."""
        self.supervisions: dict[Dependent, None] = {}
        """The supervisors that belong to the runtime itself."""
        self.is_open = False
        self.nursery: trio.Nursery | None = None
        """The nursery of the agents that belong to the runtime itself."""
        self.token: trio.lowlevel.TrioToken | None = None
        """The event loop in which it is open."""
        self.opened_by: Actor | None = None
        """The agent that has opened this runtime, or None."""

    def require_nursery(self) -> trio.Nursery:
        """Return the nursery, or raise `RuntimeClosedError`."""
        if self.nursery is None or not self.is_open:
            raise RuntimeClosedError(
                "the runtime is not open", hint="use it inside of its `async with` block"
            )
        require_loop(self.token, "spawn()")
        return self.nursery
