"""The turns of one agent: the one in hand, the one before it, and the one that is about to begin."""

import logging
from typing import TYPE_CHECKING

from greenroom.core import AgentState, ConversationInput
from greenroom.runtime.outcome import TurnResult
from greenroom.runtime.turns.interruption import InterruptMode
from greenroom.runtime.turns.turn import Turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.runtime.actor import Actor

__all__ = ["Turns"]

logger = logging.getLogger("greenroom.runtime")


class Turns:
    """Which turn is open, and who waits for the end of which."""

    def __init__(self, actor: "Actor") -> None:
        """Start with none."""
        self._actor = actor
        self.count = 0
        """How many have begun."""
        self.current: Turn | None = None
        """The open turn."""
        self.last: Turn | None = None
        """The one that ended last."""
        self.taken: Turn | None = None
        """The turn whose message was taken and which is not entered yet: an interrupt counts for it."""
        # The turn of a message that was put back: an interrupt that was meant for it still is.
        self._put_back: Turn | None = None
        self.waiting: dict[str, Callable[[TurnResult | None], None]] = {}
        """Whom to tell of the end of the turn that takes an input, by the input's id."""

    def await_input(self) -> None:
        """The agent is about to wait for input: whatever it took before is answered."""
        self.drop_taken()
        if self.current is None:
            self._actor.set_state(AgentState.idle())

    def take(self, message: ConversationInput) -> None:
        """Remember a message that was taken: from now on an interrupt is meant for its turn.

        One that is taken inside a turn is part of that turn.
        """
        if self.current is None:
            again = self._put_back
            is_again = again is not None and again.message is message
            self.taken, self._put_back = again if is_again else Turn(self._actor, message), None
        else:
            self.current.inputs.append(message.id)

    def drop_taken(self) -> None:
        """Forget a message that was taken and answered without a turn."""
        if self.taken is not None:
            self.taken.interruption.drop()
            self._wake(self.taken, None)
            self.taken = None

    def put_back(self) -> None:
        """The agent's function broke off: a message that it took and did not begin waits again.

        It stands in no history yet, so that it would be lost.
        """
        if self.taken is not None:
            # An interrupt that waits for a boundary finds none in what is over.
            self.taken.interruption.at_boundary()
            self._actor.mailbox.put_back(self.taken.message)
            self._put_back, self.taken = self.taken, None

    def make(self, message: ConversationInput, *, steer: bool) -> Turn:
        """Return the turn of this message: the one that was taken, else a new one."""
        taken = self.taken
        turn = (
            taken if taken is not None and taken.message is message else Turn(self._actor, message)
        )
        turn.steer = steer
        return turn

    def open(self, turn: Turn) -> None:
        """A turn is entered."""
        if self.taken is not turn:
            self.drop_taken()
        self.taken = None
        self._actor.mailbox.forget_interrupt()
        self.current = turn
        self.count += 1
        self._actor.context.current_turn = self.count

    def close(self, turn: Turn, result: TurnResult) -> None:
        """A turn has ended: wake who waits for its result."""
        actor = self._actor
        self.current, self.last = None, turn
        actor.output.partial.clear()
        actor.children.turn_ended(result.status)
        for tool_use_id in actor.client_results.drop():
            logger.warning(
                "%s: a result came for the call %s, for which nobody waited",
                actor.signature,
                tool_use_id,
            )
        self._wake(turn, result)

    @property
    def in_flight(self) -> Turn | None:
        """The turn that an interrupt is meant for: the open one, or the one about to begin."""
        return self.current or self.taken

    def interrupt(self, mode: InterruptMode, grace: float) -> Turn | None:
        """Interrupt the turn in flight and return it; None where there is none."""
        turn = self.in_flight
        if turn is None:
            self._actor.mailbox.interrupt()
        else:
            turn.interruption.order(mode, grace)
        return turn

    def end(self) -> None:
        """No turn follows: release whoever still waits for one."""
        if self._put_back is not None:
            self._put_back.interruption.finish()
        for wake in tuple(self.waiting.values()):
            wake(None)
        self.waiting.clear()

    def _wake(self, turn: Turn, result: TurnResult | None) -> None:
        for input_id in turn.inputs:
            wake = self.waiting.pop(input_id, None)
            if wake is not None:
                wake(result)
