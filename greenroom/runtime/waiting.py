"""What it means to wait for another agent, in one place: every handle method that waits is in a `Wait`.

A wait that could never end is refused: for the agent that calls, and an `ask` that closes a circle
of asks. While it lasts, the tree shows it, and the tool call in which it is made gives back its
concurrency slots, so that the work that it waits for can take them.
"""

from types import TracebackType
from typing import TYPE_CHECKING, Self

import trio

from greenroom.core import SelfWaitError
from greenroom.runtime.budgets.tool_slot import Pause, current_slot
from greenroom.runtime.caller import current_actor, refuse_self_wait, require_loop

if TYPE_CHECKING:
    from greenroom.runtime.actor import Actor
    from greenroom.runtime.outcome import TurnResult


class Wait:
    """The block in which an agent is waited for, by a method of its handle; `async with` opens it.

    Raises:
        EventLoopError: the caller is not in the runtime's event loop.
        SelfWaitError: the wait could never end.
    """

    def __init__(self, target: "Actor", method: str) -> None:
        """Refuse what could never end."""
        require_loop(target.runtime, f"{method}()")
        refuse_self_wait(target, f"{method}()")
        self.target = target
        self.method = method
        self.since = trio.current_time()
        self._caller = caller = current_actor()
        self._pause = Pause()
        # A tool's thread calls back from outside of the task tree, but from within the call.
        self._is_in_turn = caller is not None and (
            caller.turns.is_in_turn()
            or (caller.turns.current is not None and current_slot() is not None)
        )
        if method == "ask" and caller is not None and self._is_in_turn:
            _refuse_circle(caller, target)

    @property
    def _is_parents(self) -> bool:
        return self._caller is not None and self._caller is self.target.parent

    def learn_end(self) -> None:
        """The waiting agent has learned how the other one ended, if it has ended."""
        if self._is_parents and self.target.outcome is not None:
            self.target.report.settle()

    def learn_answer(self, answer: "TurnResult") -> None:
        """The waiting agent has got an answer."""
        if self._is_parents:
            self.target.report.answer(answer)

    async def __aenter__(self) -> Self:
        if self._caller is not None:
            self._caller.waits.append(self)
        if self._is_parents:
            self.target.report.expect()
        await self._pause.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._caller is not None:
            self._caller.waits.remove(self)
        if self._is_parents:
            self.target.report.expect_no_more()
        await self._pause.__aexit__(kind, error, trace)


def _refuse_circle(caller: "Actor", target: "Actor") -> None:
    """Refuse to ask from a turn where the target waits for the end of that turn, itself or over others."""
    # Each agent that was reached, by the one that waits for it in its turn.
    reached: dict[Actor, Actor] = {target: caller}
    found = [target]
    while found and caller not in reached:
        actor = found.pop()
        for wait in actor.waits:
            if wait._is_in_turn and wait.target not in reached:
                reached[wait.target] = actor
                found.append(wait.target)
    if caller in reached:
        chain = [caller, reached[caller]]
        while chain[-1] is not caller:
            chain.append(reached[chain[-1]])
        names = " → ".join("/".join(actor.lineage()) for actor in reversed(chain))
        raise SelfWaitError(
            f"ask() would close a circle of agents that wait for each other: {names}",
            hint="use send_input() where no answer is needed, or ask after the turn",
        )
