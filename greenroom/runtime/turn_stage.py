"""The stages of a turn, and the table of the moves between them; `turn` has the theory."""

from enum import StrEnum
from typing import Final

from greenroom.core import TurnError


class Stage(StrEnum):
    """Where a turn is; its input's id ties it to the tasks that wait for its end."""

    QUEUED = "queued"
    """Its input was put back into the mailbox: the life that had taken it broke off."""
    TAKEN = "taken"
    """A task has the input, and is about to open the turn."""
    HANDED_ON = "handed on"
    """That task went on, and may have passed the input to another one."""
    OPEN = "open"
    """Its block runs."""
    ENDING = "ending"
    """The block was left: its subagents end, calls are answered, and the history is saved."""
    CLOSED = "closed"
    """Its end is published."""
    DROPPED = "dropped"
    """The input was answered without a turn; whoever kept it may still open one."""


_MOVES: Final[dict[Stage, frozenset[Stage]]] = {
    Stage.QUEUED: frozenset({Stage.TAKEN, Stage.DROPPED}),
    Stage.TAKEN: frozenset({Stage.HANDED_ON, Stage.OPEN, Stage.DROPPED, Stage.QUEUED}),
    Stage.HANDED_ON: frozenset({Stage.OPEN, Stage.DROPPED, Stage.QUEUED}),
    Stage.OPEN: frozenset({Stage.ENDING}),
    Stage.ENDING: frozenset({Stage.CLOSED}),
    Stage.CLOSED: frozenset(),
    Stage.DROPPED: frozenset({Stage.OPEN}),
}


def move(before: Stage, after: Stage) -> Stage:
    """Return the stage after a move.

    Raises:
        TurnError: there is no such move.
    """
    if after not in _MOVES[before]:
        raise TurnError(f"a turn that is {before} does not become {after}")
    return after


def may_open(stage: Stage) -> bool:
    """Whether a turn of this stage may still be opened."""
    return Stage.OPEN in _MOVES[stage]
