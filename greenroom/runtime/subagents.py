"""What an agent hears of others: of the ends of its subagents, and of those that it monitors."""

from typing import TYPE_CHECKING

import trio

from greenroom.core import (
    AgentExit,
    AgentNotRunningError,
    EndStatus,
    MailboxFullError,
    SelfWaitError,
    SubAgentResult,
    TurnStatus,
    describe_error,
)
from greenroom.runtime.task_tree import require_loop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from greenroom.runtime.actor import Actor
    from greenroom.runtime.outcome import TurnResult
    from greenroom.runtime.turn import Turn


class Children:
    """The live subagents by session id, in the order in which they were spawned."""

    def __init__(self, parent: "Actor") -> None:
        """Start with none."""
        self._parent = parent
        self._alive: dict[str, Actor] = {}
        # Of subagents that ended before the turn that spawned them, which may still wait for them.
        self._held: list[Report] = []

    def __len__(self) -> int:
        return len(self._alive)

    def __iter__(self) -> "Iterator[Actor]":
        return iter(tuple(self._alive.values()))

    @property
    def unsettled(self) -> int:
        """How many are alive, or have a result that was not taken: what the limit counts."""
        return len(self._alive) + len(self._held) + self._parent.mailbox.count(SubAgentResult)

    def add(self, child: "Actor") -> None:
        """A subagent was spawned."""
        self._alive[child.session.session_id] = child

    def remove(self, child: "Actor") -> None:
        """A subagent has ended."""
        del self._alive[child.session.session_id]

    def alive(self, of_turn: "Turn | None" = None) -> list["Actor"]:
        """Return those that are alive, or only those that one turn spawned."""
        return [child for child in self if of_turn is None or child.spawn_turn is of_turn]

    async def end(self, of_turn: "Turn | None" = None) -> None:
        """Cancel them, or only those of one turn, and wait until they are gone."""
        # Again and again: code that runs beside the turn may spawn one meanwhile.
        while alive := self.alive(of_turn):
            for child in alive:
                child.scope.cancel()
            for child in alive:
                await child.ended.wait()

    async def shut_down(self, grace: float) -> None:
        """Shut all of them down at once; they share the grace."""
        async with trio.open_nursery() as nursery:
            for child in self:
                nursery.start_soon(child.shut_down, grace)

    def hold(self, report: "Report") -> None:
        """Keep a report until the open turn has ended."""
        self._held.append(report)

    def release(self, report: "Report") -> None:
        """Keep a report no longer: its subagent's end is known."""
        if report in self._held:
            self._held.remove(report)

    def turn_ended(self, status: TurnStatus) -> None:
        """The turn has ended: what it left unheard becomes input if it completed."""
        held, self._held = self._held, []
        for report in held:
            if status is TurnStatus.COMPLETED:
                report.send()
            else:
                report.settle()


class Report:
    """What a parent is yet to hear of its subagent's end: the one place that knows.

    It is sent as input unless the parent does not want it, or has learned it through the handle: by
    waiting for the end, or by asking, where the subagent then completes and has said no more.
    """

    def __init__(self, child: "Actor", *, is_wanted: bool) -> None:
        """Begin with nothing to tell."""
        self._child = child
        self._is_wanted = is_wanted
        self._waiting = 0
        self._answer: tuple[str, str] | None = None
        self._result: SubAgentResult | None = None
        self._is_sent = False

    def expect(self) -> None:
        """The parent begins to wait for the subagent, and may learn of its end by that."""
        self._waiting += 1

    def expect_no_more(self) -> None:
        """One of its waits is over."""
        self._waiting -= 1
        self.send()

    def answer(self, answer: "TurnResult") -> None:
        """The parent has got an answer of the subagent; an end that says the same is not news."""
        self._answer = _said(answer)

    def settle(self) -> None:
        """The parent has learned of the end, or is not to: take back what is held, or waits as input."""
        self._is_wanted = False
        parent = self._child.parent
        if parent is not None and self._result is not None:
            parent.children.release(self)
            if self._is_sent:
                parent.mailbox.remove(self._result)

    def end(self, result: SubAgentResult) -> None:
        """The subagent has ended."""
        self._result = result
        self.send()

    def send(self) -> None:
        """Send the result, once, if there is one that the parent is to hear.

        Until the turn that spawned the subagent has ended, the parent may still come to wait for it.
        """
        result, parent = self._result, self._child.parent
        if result is None or parent is None or self._is_sent or self._waiting:
            return
        is_known = result.status is EndStatus.COMPLETED and _said(result) == self._answer
        # A parent whose function is over ends its subagents itself, and takes no more input.
        if not self._is_wanted or is_known or not parent.takes_results:
            return
        turn = self._child.spawn_turn
        if turn is not None and turn is parent.turns.current:
            parent.children.hold(self)
        else:
            self._is_sent = True
            parent.mailbox.put_result(result)


def _said(result: "TurnResult | SubAgentResult") -> tuple[str, str]:
    """Return what a subagent has said, for people and for programs; unlike 1, True is True here."""
    return result.text, repr(result.value)


# -- monitors: one agent is told, as input, that another one has ended -------------------------------


class Monitor:
    """A standing order: one `AgentExit`, when the agent has ended for good.

    It takes no part in what happens to the other agent, and has no part in it: neither ends with
    the other. It ends with this run of the function of the agent that gave it.
    """

    def __init__(self, watcher: "Actor", watched: "Actor") -> None:
        """Made by `AgentInternals.monitor`."""
        self._watcher = watcher
        self._watched = watched
        self._message: AgentExit | None = None
        watcher.life.monitors.add(self)
        watched.monitors.add(self)

    def cancel(self) -> None:
        """Call it off: from now on no `AgentExit` comes of it, also none that waits already.

        Raises:
            EventLoopError: called outside of the runtime's event loop.
        """
        require_loop(self._watcher.runtime, "cancel()")
        self.drop()
        if self._message is not None:
            self._watcher.mailbox.remove(self._message)

    def drop(self) -> None:
        """Watch no longer; what waits already stays."""
        self._watcher.life.monitors.discard(self)
        self._watched.monitors.discard(self)

    def tell(self) -> None:
        """The agent has ended: say so, once."""
        self.drop()
        session, outcome = self._watched.session, self._watched.outcome
        assert outcome is not None  # it has ended
        self._message = AgentExit(
            session.session_id, session.agent_type, outcome.status, describe_error(outcome.error)
        )
        self._watcher.mailbox.put_result(self._message)


def monitor(watcher: "Actor", watched: "Actor") -> Monitor:
    """Make a monitor; `AgentInternals.monitor` says what may be raised."""
    require_loop(watcher.runtime, "monitor()")
    if watched is watcher:
        raise SelfWaitError("an agent can't be told of its own end: it has ended then")
    if watcher.life.nursery is None:
        raise AgentNotRunningError(
            f"the agent {watcher.name} has returned, and monitors no more", outcome=watcher.outcome
        )
    limit = watcher.limits.monitors
    if len(watcher.life.monitors) + watcher.mailbox.count(AgentExit) >= limit:
        raise MailboxFullError(
            f"{watcher.name} monitors {limit} agents already, or has not taken word of their ends",
            hint="cancel some of its monitors, or raise RuntimeLimits.monitors",
        )
    made = Monitor(watcher, watched)
    if watched.outcome is not None:
        made.tell()
    return made
