"""An agent as the runtime sees it: its identity, its state and its life.

`Actor` owns the parts of an agent (mailbox, turns, output, approvals, budgets, clean-ups,
subagents) and connects them. Each part declares the little that it needs of the actor in a protocol
of its own. The handle and the internals are the actor's two faces. All agents of one runtime share
a `Kernel`.

Most of the many agents of a process wait for input. So a part that only a turn, a question, a
subagent or an interrupt needs is made when it is first used: it is None until then under its name
with an underscore, which tells those who only want to end it that there is nothing to end.
"""

import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator

import msgspec
import trio

from greenroom.core import (
    AgentContext,
    AgentExit,
    AgentState,
    OutputChunk,
    ResourceMap,
    SessionStorageError,
    StateChange,
    ToolProgress,
    TurnError,
    TurnStatus,
    Usage,
    Workspace,
)
from greenroom.core._internal import (
    EMPTY,
    Credentials,
    Hook,
    InvalidJSONError,
    describe_error,
    quantity,
    serde,
)
from greenroom.resilience import Budget
from greenroom.runtime.approvals import Approvals, Unattended
from greenroom.runtime.artifacts import Artifacts, files_of
from greenroom.runtime.background import Background
from greenroom.runtime.budgets import Budgets, BudgetScope
from greenroom.runtime.interruption import Cleanups, CleanupScope, Interruption
from greenroom.runtime.kernel import Kernel
from greenroom.runtime.mailbox import ClientResults
from greenroom.runtime.output_ring import Output, OutputRing
from greenroom.runtime.results import Outcome, ended_error
from greenroom.runtime.subagents import Children, Monitor, Report, forward_to
from greenroom.runtime.tasks import Flag, Life, Reach, error_chunk, require_loop
from greenroom.runtime.ties import AgentFunction, Membership
from greenroom.runtime.tool_runs import ToolRuns
from greenroom.runtime.turn import Turn
from greenroom.runtime.turns import Turns
from greenroom.runtime.views import OwnView, View
from greenroom.session import AgentSession
from greenroom.session._internal import begin_epoch

logger = logging.getLogger("greenroom.runtime")


class HandleWait(msgspec.Struct, frozen=True, eq=False):
    """An agent waits for another, since a time of trio's clock, by a method of its handle."""

    target: "Actor"
    method: str
    since: float
    is_in_turn: bool


class Actor:
    """One agent: its identity, its state and its life. For the thread of its event loop only."""

    __slots__ = (
        "_approvals",
        "_background",
        "_budgets",
        "_children",
        "_cleanups",
        "_client_results",
        "_context",
        "_credentials",
        "_report",
        "_reports",
        "_stored_metadata",
        "_workspace",
        "arguments",
        "elsewhere",
        "ended",
        "function",
        "has_lock",
        "is_killed",
        "kernel",
        "life",
        "limits",
        "lineage",
        "mailbox",
        "main_task",
        "member",
        "monitors",
        "name",
        "outcome",
        "output",
        "parent",
        "restart_note",
        "restarts",
        "scope",
        "session",
        "session_id",
        "spawn_turn",
        "state",
        "turns",
        "unattended",
        "waits",
    )

    has_lock: bool
    """Whether it has the session's lock."""
    restarts: int
    """How often a supervisor started it again."""
    restart_note: str
    """What the next life says to the model about the one before."""
    function: AgentFunction
    """Its function, and what that is given after the internals; set as it is started."""
    arguments: tuple[object, ...]
    main_task: trio.lowlevel.Task | None
    """The task that runs its function, once that has begun."""
    member: Membership | None
    """Its place under a supervisor; set in the same step as it is spawned."""
    elsewhere: View | None
    """Where its conversation is, if not in its session."""

    def __init__(
        self,
        kernel: Kernel["Actor"],
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
        self.session_id = session.session_id
        self.parent = parent
        self.name = name or session.agent_type
        self.lineage: tuple[str, ...] = (*parent.lineage, self.name) if parent else (self.name,)
        """The names from the root down to this agent."""
        self.unattended = unattended
        self.spawn_turn = spawn_turn
        """The turn of the parent that ends this agent; None for one that outlives it."""

        self.has_lock = False
        self.restarts = 0
        self.is_killed = False
        self.outcome: Outcome | None = None
        self.restart_note = ""
        self.main_task = None
        self.member = None
        self.elsewhere = None
        self.state = AgentState.idle()
        self.ended = Flag()
        self.scope = Reach()
        """All that runs of it."""
        self.life = Life()
        self.monitors: dict[Monitor, None] = {}
        """The monitors that wait for its end."""
        self.waits: dict[HandleWait, None] = {}
        """Which agents it waits for by their handles, as the tree shows them."""
        self._workspace = workspace
        self._reports = reports
        self._credentials: Credentials | None = None
        self._context: AgentContext | None = None
        self._stored_metadata: dict[str, object] = EMPTY
        self._approvals: Approvals | None = None
        self._children: Children[Actor] | None = None
        self._client_results: ClientResults | None = None
        self._background: Background | None = None
        self._cleanups: Cleanups | None = None
        self._report: Report | None = None
        self._make_parts(budget)

    def _make_parts(self, budget: Budget | None) -> None:
        """Make the parts that each agent uses, each below that of the parent."""
        limits, parent = self.limits, self.parent
        ring = OutputRing(limits.ring_chunks, limits.ring_bytes)
        above = parent.output if parent else None
        forward = forward_to(above, self.session_id) if above else None
        self.output: Output = Output(
            self, above, forward, ring, limits.partial_text, self.kernel.instruments.methods
        )
        self.turns = Turns(self, self.output, limits.mailbox)
        self.mailbox = self.turns.mailbox
        budgets_above = tuple(parent._budgets or ()) if parent else ()
        self._budgets: Budgets | None = None
        if budgets_above or budget is not None:
            self._budgets = Budgets(self.path, budgets_above, budget)
        if questions := self.session.open_questions:
            self.approvals.expect(questions)

    def call(self) -> Awaitable[object]:
        """Call its function, for one life."""
        return self.function(self.kernel.make_internals(self), *self.arguments)

    @property
    def view(self) -> View:
        """Where its handle finds the conversation."""
        return self.elsewhere or OwnView(self.session)

    @property
    def budgets(self) -> Budgets:
        """The budgets that count for it: those it was spawned under, and its own."""
        if self._budgets is None:
            self._budgets = Budgets(self.path)
        return self._budgets

    @property
    def credentials(self) -> Credentials:
        """What a person has given, once for the whole tree of agents; a restart keeps it."""
        if self._credentials is None:
            self._credentials = self.parent.credentials if self.parent else Credentials()
        return self._credentials

    @property
    def approvals(self) -> Approvals:
        """Its open requests, and who can answer them."""
        if self._approvals is None:
            above = self.parent.approvals if self.parent else None
            self._approvals = Approvals(self, above, self.limits.pending)
        return self._approvals

    @property
    def children(self) -> "Children[Actor]":
        """The subagents that are alive."""
        if self._children is None:
            self._children = Children(self)
        return self._children

    @property
    def client_results(self) -> ClientResults:
        """The results of the tools that its client runs."""
        if self._client_results is None:
            self._client_results = ClientResults(self.limits.pending)
        return self._client_results

    @property
    def background(self) -> Background:
        """What runs beside its turns."""
        if self._background is None:
            self._background = Background(self)
        return self._background

    @property
    def cleanups(self) -> Cleanups:
        """The clean-ups that run in it, and until when they may."""
        if self._cleanups is None:
            above = self.parent.cleanups if self.parent else None
            spawned_in = self.spawn_turn.interruption if self.spawn_turn else None
            self._cleanups = Cleanups(self, self.output, above, spawned_in)
        return self._cleanups

    @property
    def report(self) -> Report:
        """What its parent is yet to learn of its end."""
        if self._report is None:
            reports = self.parent.children.reports if self.parent else None
            self._report = Report(reports, self.spawn_turn, is_wanted=self._reports)
        return self._report

    @property
    def context(self) -> AgentContext:
        """What its tools are given, one for each life."""
        if self._context is None:
            self._context = self._make_context()
            self._stored_metadata = self.session.metadata
        return self._context

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
            on_artifact=Artifacts(self).save,
            on_run=ToolRuns(
                self.kernel.gates, self.kernel.instruments, session.conversation.add_decision
            ).run,
        )

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
        line = [self]
        while (above := line[-1].parent) is not None:
            line.append(above)
        return line[1:]

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

    def publish(self, *chunks: OutputChunk) -> None:
        """Put chunks into the ring, and wrapped into the rings of the agents above.

        Raises:
            EventLoopError: called outside of the runtime's event loop, as a tool's own thread may.
        """
        require_loop(self.kernel.token, "send() or progress()")
        self.output.publish(*chunks)

    def set_state(self, state: AgentState) -> None:
        """Move to a state and publish it; staying in the same one publishes nothing."""
        if state == self.state:
            return
        if self.state.is_final:
            raise TurnError(f"an agent can't go from {self.state} to {state}: it has ended")
        self.state = state
        self.output.publish(StateChange(state))

    def publish_crash(self) -> None:
        """Publish the `Error` of a crash, once."""
        crash = self.life.crash
        if crash is not None and not self.life.is_reported:
            self.life.is_reported = True
            self.output.publish(error_chunk(crash))

    def refuse_if_ended(self) -> None:
        """Raise `AgentNotRunningError` if the agent has ended."""
        if self.outcome is not None:
            raise ended_error(str(self), self.outcome) from self.outcome.error

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
        return self.scope.is_cancelled or self.life.is_cut_off

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
        if self._context is not None:
            self._context.current_turn = self.turns.count
        return self._budgets.first_to_end if self._budgets is not None else None

    def close_turn(self, status: TurnStatus) -> None:
        """Drop what belonged to the turn that has ended."""
        self.output.clear_partial()
        if self._approvals is not None and self._approvals.digests:
            self._approvals.expect(())
        if self._children is not None:
            self._children.reports.end_turn(status)
        for tool_use_id in self._client_results.drop() if self._client_results is not None else ():
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
        if self._children is None:
            return tuple(self.output.open_tool_labels())
        below = [
            what
            for child in self._children.alive(of_turn=turn)
            for what in (
                child.label,
                *(f"{what} of {child.label}" for what in child.list_running()),
            )
        ]
        return (*self.output.open_tool_labels(), *below)

    def clip_cleanups(self, deadline: float, turn: Turn) -> None:
        """Shorten the clean-ups that run here and in the subagents of a turn."""
        if self._cleanups is not None or self._children is not None:
            self.cleanups.clip(deadline, turn.interruption)

    def cleanups_below(self, of_turn: Interruption | None) -> Iterator[Cleanups]:
        """Yield the clean-ups of the subagents, or only of those that one turn spawned."""
        for child in self._children or ():
            turn = child.spawn_turn
            if of_turn is None or (turn is not None and turn.interruption is of_turn):
                yield child.cleanups

    def approvals_below(self) -> Iterable[Approvals]:
        """Return the requests of the subagents."""
        return (child.approvals for child in self._children or ())

    async def end_subagents(self, turn: Turn) -> None:
        """Cancel the subagents of a turn, and wait until they are gone; a cancel waits, too."""
        if self._children:
            with trio.CancelScope(shield=True):
                await self._children.end(of_turn=turn)

    async def end_all_subagents(self, grace: float | None) -> None:
        """End all subagents and what runs in the background, the former with this time if any."""
        if self._background is not None:
            self._background.end()
        if self._children:
            if grace is not None:
                await self._children.shut_down(grace)
            with trio.CancelScope(shield=True):
                await self._children.end()

    def drop_resources(self) -> None:
        """Drop what its tools have left among its resources, such as a temporary folder."""
        if self._context is not None:
            self._context.resources.clear()

    @property
    def abandoned(self) -> tuple[str, ...]:
        """What could not be stopped, in it and below."""
        return () if self._cleanups is None else tuple(self._cleanups.abandoned)

    @property
    def is_settled(self) -> bool:
        """Whether its end leaves nothing to drop and nothing to save, such as a missing result."""
        if self._context is not None:  # whose metadata may have changed
            return False
        transcript = self.session.conversation.transcript
        return self.session.journal.is_saved and not (transcript.count and transcript.open_calls)

    @property
    def leaves_behind(self) -> bool:
        """Whether a function that returns now leaves tasks, a turn or subagents behind."""
        life, tasks = self.life, self.life.tasks
        rest = self.turns.current or self._children or self._background or life.supervisions
        return bool(rest or (tasks is not None and tasks.count))

    def end_budgets(self) -> None:
        """Close the budgets and the tool calls that the agent's function never left."""
        if self._budgets is not None:
            self._budgets.end_life()

    def begin_life(self) -> None:
        """Begin again: the identity, the session and what subscribers read go on."""
        self.restarts += 1
        self.output.begin_epoch(begin_epoch())  # above all of this process
        self.life = Life()
        self.turns.may_resume = True
        self._context = None

    async def flush(self) -> None:
        """Save the session; a cancel can't cut this short, its own deadline can.

        Raises:
            SessionError: the store refused, or did not answer in time.
        """
        self._store_metadata()
        journal = self.session.journal
        if journal.is_saved:
            return
        with trio.move_on_after(self.limits.flush_grace, shield=True) as scope:
            await journal.save()
        if scope.cancelled_caught:
            raise SessionStorageError(
                f"the session was not saved within {quantity(self.limits.flush_grace, 'second')}",
                session_id=self.session_id,
                hint="what is not stored stays pending, and the next save stores it",
            )

    def _store_metadata(self) -> None:
        """Take what tools changed in the context's metadata into the session's."""
        if self._context is None:
            return
        for key, value in tuple(self._context.metadata.items()):
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

    async def wait_end(self) -> None:
        """Wait until it has ended, and nothing of it is left."""
        await self.ended.wait()
        # trio closes a generator that the function has dropped in a task of its own, in this pass.
        await trio.lowlevel.cancel_shielded_checkpoint()

    def begin_shutdown(self, deadline: float) -> None:
        """End by this time of trio's clock; a cancel of who waits for that takes nothing back."""
        self.scope.end_by(deadline)
        self.take_no_more()

    def take_no_more(self) -> None:
        """Take no more input, deny what waits for an answer, and end once the open turn has."""
        self.mailbox.close()
        if self._approvals is not None:
            self._approvals.check_attendance()
        if self.member is not None and self.member.is_parked:
            self.scope.cancel()

    def tell_monitors(self, outcome: Outcome) -> None:
        """Notify the monitors that this agent has ended."""
        for monitor in tuple(self.monitors):
            kind, problem = self.session.agent_type, describe_error(outcome.error)
            monitor.tell(AgentExit(self.session_id, kind, outcome.status, problem))
