"""The subagents of one agent: which are alive, and what those that ended have to report."""

from typing import TYPE_CHECKING

import trio

from greenroom.core import EndStatus, SubAgentResult, TurnStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from greenroom.runtime.actor import Actor
    from greenroom.runtime.turns.turn import Turn

__all__ = ["Children"]


class Children:
    """The live subagents by session id, in the order in which they were spawned."""

    def __init__(self, parent: "Actor") -> None:
        """Start with none."""
        self._parent = parent
        self._alive: dict[str, Actor] = {}
        # Results of subagents that ended before the turn that spawned them.
        self._held: list[tuple[Actor, SubAgentResult]] = []

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

    def report(self, child: "Actor", result: SubAgentResult) -> None:
        """Pass a subagent's result on as input, unless the agent has it: by waiting, or by asking.

        Until the turn that spawned it has ended, the agent may still come to wait for it.
        """
        is_known = result.status is EndStatus.COMPLETED and result.text == child.told
        if child.is_collected or is_known:
            return
        if child.spawn_turn is not None and child.spawn_turn is self._parent.turns.current:
            self._held.append((child, result))
        else:
            self._parent.mailbox.put_result(result)

    def turn_ended(self, status: TurnStatus) -> None:
        """The turn has ended: results that nobody waited for become input if it completed."""
        held, self._held = self._held, []
        for child, result in held:
            if status is TurnStatus.COMPLETED and not child.is_collected:
                self._parent.mailbox.put_result(result)
