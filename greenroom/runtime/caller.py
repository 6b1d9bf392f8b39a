"""Who is calling: the agent in whose task tree a piece of code runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from greenroom.core import SelfWaitError

if TYPE_CHECKING:
    from greenroom.runtime.actor import Actor

__all__ = ["Wait", "collecting", "current_actor", "refuse_self_wait", "told", "waiting"]

current_actor: ContextVar["Actor | None"] = ContextVar("greenroom_actor", default=None)
"""The agent in whose task tree the code runs, or None outside of any."""


def refuse_self_wait(actor: "Actor", what: str) -> None:
    """Raise `SelfWaitError` where the caller is part of what it would wait for."""
    caller = current_actor.get()
    while caller is not None:
        if caller is actor:
            raise SelfWaitError(
                f"{what} would wait for the agent that calls it",
                hint="use interrupt_nowait() or kill(), or call it from outside of the agent",
            )
        # A root may live in a runtime that another agent has opened: it is part of that one.
        caller = caller.parent or caller.runtime._host


@dataclass(frozen=True, eq=False)
class Wait:
    """An agent waits for another one: by which method of its handle, and since when."""

    method: str
    target: "Actor"
    since: float


@contextmanager
def waiting(target: "Actor", method: str) -> Iterator[None]:
    """Wait for an agent; where another agent does so, the tree shows it there."""
    caller = current_actor.get()
    if caller is None:
        yield
        return
    wait = Wait(method, target, trio.current_time())
    caller.waits.append(wait)
    try:
        yield
    finally:
        caller.waits.remove(wait)


@contextmanager
def collecting(child: "Actor") -> Iterator[None]:
    """Wait for an agent; what its parent learns that way need not come to it as input too."""
    if child.parent is None or current_actor.get() is not child.parent:
        yield
        return
    before, child.is_collected = child.is_collected, True
    try:
        yield
    except BaseException:
        child.is_collected = before
        raise


def told(child: "Actor", text: str) -> None:
    """An agent has answered whoever calls; to its parent, its end is news only if it says more."""
    if child.parent is not None and current_actor.get() is child.parent:
        child.is_collected, child.told = False, text
