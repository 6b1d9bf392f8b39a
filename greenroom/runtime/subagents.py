"""Subagents: their output in their parent's, and what the parent learns of their ends.

Monitors are here too: through one, an agent learns how any other agent ended.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

import trio

from greenroom.core import AgentExit, OutputChunk, SubAgentOutput, SubAgentResult, TurnStatus
from greenroom.core._internal import EndStatus
from greenroom.runtime.mailbox import Mailbox
from greenroom.runtime.output_ring import Output
from greenroom.runtime.results import TurnResult
from greenroom.runtime.tasks import Dependent, Flag, Reach


class Subagent(Protocol):
    """What is needed of a subagent in order to end it."""

    @property
    def session_id(self) -> str:
        """The id of its session."""

    @property
    def spawn_turn(self) -> object | None:
        """The turn of the parent that ends it."""

    @property
    def mailbox(self) -> Mailbox:
        """Where its input waits."""

    @property
    def scope(self) -> Reach:
        """All of it."""

    @property
    def ended(self) -> Flag:
        """Set at its end."""

    @property
    def outcome(self) -> object | None:
        """How it ended; None before."""

    def begin_shutdown(self, deadline: float) -> None:
        """End by this time of trio's clock."""

    def take_no_more(self) -> None:
        """Take no more input, and end once the open turn has."""

    async def wait_end(self) -> None:
        """Wait until it has ended, and nothing of it is left."""


class _Agent(Protocol):
    """What reports need of the parent, to reach it at the right time."""

    @property
    def mailbox(self) -> Mailbox:
        """Where its input waits."""

    @property
    def takes_results(self) -> bool:
        """Whether its function still runs, and is not being ended."""

    def is_open(self, turn: object) -> bool:
        """Whether this is its open turn."""


A = TypeVar("A", bound=Subagent)


class Children(Generic[A]):
    """The live subagents by session id, in the order in which they were spawned."""

    def __init__(self, parent: _Agent) -> None:
        self.reports = Reports(parent)
        self._alive: dict[str, A] = {}

    def __len__(self) -> int:
        return len(self._alive)

    def __iter__(self) -> Iterator[A]:
        return iter(tuple(self._alive.values()))

    @property
    def used_room(self) -> int:
        """How many the limit counts: those alive, and those with a result that was not taken."""
        untaken = self.reports.parent.mailbox.count(SubAgentResult)
        return len(self._alive) + len(self.reports) + untaken

    def add(self, child: A) -> None:
        """Add a subagent that was spawned."""
        self._alive[child.session_id] = child

    def remove(self, child: A) -> None:
        """Remove a subagent that has ended."""
        self._alive.pop(child.session_id, None)

    def alive(self, of_turn: object | None = None) -> list[A]:
        """Return those that are alive, or only those that one turn spawned."""
        return [child for child in self if of_turn is None or child.spawn_turn is of_turn]

    async def end(self, of_turn: object | None = None) -> None:
        """Cancel them, or only those of one turn, and wait until they are gone."""
        # Again and again: code that runs beside the turn may spawn one meanwhile.
        while alive := self.alive(of_turn):
            for child in alive:
                child.scope.cancel()
            await self._wait_ends(alive)

    async def shut_down(self, grace: float) -> None:
        """Shut all of them down at once; they share the grace."""
        await shut_down(self.alive(), trio.current_time() + grace)

    async def _wait_ends(self, children: list[A]) -> None:
        for child in children:
            if not child.ended.is_set():  # one wait is enough for those that end meanwhile
                await child.ended.wait()


_AT_ONCE = 50  # agents end together: what they use is then still in the processor's cache


async def shut_down(agents: Sequence[Subagent], deadline: float) -> None:
    """Let the open turns of all these agents finish until then, and wait until all have ended.

    A cancel takes nothing back. Most agents of many wait for input, and have ended before a
    deadline is set for each of the others.
    """
    try:
        for agent in agents:
            agent.mailbox.refuse()  # all of them, before the first can learn of it
        for first in range(0, len(agents), _AT_ONCE):
            for agent in agents[first : first + _AT_ONCE]:
                agent.take_no_more()
            # An agent that waits for input returns from its loop in one pass, and ends in the next.
            await trio.lowlevel.cancel_shielded_checkpoint()
            await trio.lowlevel.cancel_shielded_checkpoint()
        await trio.lowlevel.cancel_shielded_checkpoint()
    finally:
        left = [agent for agent in agents if agent.outcome is None]
        for agent in left:
            agent.begin_shutdown(deadline)
    for agent in left:
        if not agent.ended.is_set():  # one wait is enough for those that end meanwhile
            await agent.wait_end()


def forward_to(parent: Output, session_id: str) -> Callable[[OutputChunk], None]:
    """Return a function that shows a subagent's chunks in its parent's output."""
    return lambda chunk: parent.publish(SubAgentOutput(session_id, chunk))


class Reports:
    """The reports on subagents that ended before the turn that spawned them.

    That turn may still wait for them.
    """

    def __init__(self, parent: _Agent) -> None:
        self.parent = parent
        self._deferred: list[Report] = []

    def __len__(self) -> int:
        return len(self._deferred)

    def defer(self, report: "Report") -> None:
        """Keep a report until the open turn has ended."""
        self._deferred.append(report)

    def drop(self, report: "Report") -> None:
        """Drop a deferred report: the end of its subagent is known."""
        if report in self._deferred:
            self._deferred.remove(report)

    def end_turn(self, status: TurnStatus) -> None:
        """Send the deferred reports if the turn completed; else withdraw them."""
        reports, self._deferred = self._deferred, []
        for report in reports:
            if status is TurnStatus.COMPLETED:
                report.send()
            else:
                report.withdraw()


class Report:
    """What a parent is yet to learn of its subagent's end.

    It is sent as input unless the parent does not want it, or has learned it through the handle: by
    waiting for the end, or by asking, if the subagent then completes and has said no more.
    """

    def __init__(
        self, reports: Reports | None, spawn_turn: object | None, *, is_wanted: bool
    ) -> None:
        """Begin with nothing to tell; `reports` are those of the parent, None for a root."""
        self._reports = reports
        self._spawn_turn = spawn_turn
        self._is_wanted = is_wanted
        self._waits = 0
        self._answer: tuple[str, str] | None = None
        self._result: SubAgentResult | None = None
        self._is_sent = False

    def begin_wait(self) -> None:
        """Note that the parent waits for the subagent, and may learn of its end in this way."""
        self._waits += 1

    def end_wait(self) -> None:
        """Note that one of the parent's waits is over."""
        self._waits -= 1
        self.send()

    def add_answer(self, answer: TurnResult) -> None:
        """Note an answer that the parent got; an end that says the same is not news."""
        self._answer = _content_of(answer)

    def withdraw(self) -> None:
        """Take the report back: the parent knows of the end already, or is not to."""
        self._is_wanted = False
        if self._reports is not None and self._result is not None:
            self._reports.drop(self)
            if self._is_sent:
                self._reports.parent.mailbox.remove(self._result)

    def end(self, result: SubAgentResult) -> None:
        """Report the end of the subagent."""
        self._result = result
        self.send()

    def send(self) -> None:
        """Send the result, once, if there is one that the parent is to learn.

        It is deferred to the end of the turn that spawned the subagent, which may still wait.
        """
        result, reports = self._result, self._reports
        if result is None or reports is None or self._is_sent or self._waits:
            return
        parent = reports.parent
        is_known = result.status is EndStatus.COMPLETED and _content_of(result) == self._answer
        # A parent whose function is over ends its subagents itself, and takes no more input.
        if not self._is_wanted or is_known or not parent.takes_results:
            return
        if self._spawn_turn is not None and parent.is_open(self._spawn_turn):
            reports.defer(self)
        else:
            self._is_sent = True
            parent.mailbox.put_result(result)


def _content_of(result: TurnResult | SubAgentResult) -> tuple[str, str]:
    """Return an answer for comparison: its text, and its value, of which True is not 1."""
    return result.text, repr(result.value)


class Monitor:
    """Sends one `AgentExit` to an agent when another has ended for good.

    Neither agent ends with the other. The monitor ends with this run of its agent's function.
    """

    def __init__(
        self,
        mine: dict[Dependent, None],
        theirs: "dict[Monitor, None]",
        mailbox: Mailbox,
        check_loop: Callable[[str], None],
    ) -> None:
        """Made by `AgentInternals.monitor`, with the sets of monitors of both agents."""
        self._mine, self._theirs = mine, theirs
        self._mailbox = mailbox
        self._check_loop = check_loop
        self._message: AgentExit | None = None
        mine[self] = theirs[self] = None

    def cancel(self) -> None:
        """Cancel the monitor: no `AgentExit` comes of it, and one that waits is taken back.

        Raises:
            EventLoopError: called outside of the runtime's event loop.
        """
        self._check_loop("cancel()")
        self.on_host_end()
        if self._message is not None:
            self._mailbox.remove(self._message)

    def on_host_end(self) -> None:
        """Watch no longer; an `AgentExit` that waits already stays."""
        self._mine.pop(self, None)
        self._theirs.pop(self, None)

    def tell(self, message: AgentExit) -> None:
        """Send the message that the agent has ended, once."""
        self.on_host_end()
        self._message = message
        self._mailbox.put_result(message)
