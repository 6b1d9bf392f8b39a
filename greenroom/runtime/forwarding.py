"""What the function of an agent that works elsewhere needs of its runtime, and its server too."""

from collections.abc import Iterator
from contextlib import contextmanager

from greenroom.core import UserInput
from greenroom.runtime.calls import Wait
from greenroom.runtime.handle import AgentHandle
from greenroom.runtime.internals import AgentInternals
from greenroom.runtime.interruption import InterruptMode, check_order
from greenroom.runtime.results import InterruptReport
from greenroom.runtime.views import View
from greenroom.session import AgentSession


def show_view(agent: AgentInternals, view: View) -> None:
    """Let the agent's handle show the conversation of another agent from now on."""
    agent._actor.elsewhere = view


def session_of(handle: AgentHandle) -> AgentSession:
    """Return the session of an agent, to look at and not to change."""
    return handle._actor.session


@contextmanager
def bound_mailbox(agent: AgentInternals, limit: int) -> Iterator[None]:
    """Let at most so many inputs wait for an agent while the block is open; more wait outside."""
    mailbox = agent._actor.mailbox
    usual = mailbox.limit
    mailbox.set_limit(min(usual, limit))
    try:
        yield
    finally:
        mailbox.set_limit(usual)


def read_turn_metadata(agent: AgentInternals, key: str) -> object:
    """Return the metadata under a key of the input that an agent's turn answers, or one above it.

    It is the nearest that has the key; None if there is none.
    """
    actor = agent._actor
    while True:
        message = None if actor.turns.current is None else actor.turns.current.message
        if isinstance(message, UserInput) and key in message.metadata:
            return message.metadata[key]
        if actor.parent is None:
            return None
        actor = actor.parent


def report_abandoned(agent: AgentInternals, what: str) -> None:
    """Name something of the open turn that could not be stopped, for the report of its end."""
    agent._actor.cleanups.abandon(what)


async def interrupt_input(
    handle: AgentHandle, input_id: str, mode: InterruptMode = "now", grace: float = 2.0
) -> InterruptReport:
    """Stop the turn that has taken an input, and no other, as `AgentHandle.interrupt` does.

    An input that still waits is withdrawn; one that is not known, or was answered, changes nothing.

    Raises:
        ValueError: the mode is unknown, or the grace negative or not a number.
    """
    check_order(mode, grace)
    actor = handle._actor
    async with Wait(actor, "interrupt"):
        if await handle.withdraw_inputs(input_id):
            return InterruptReport()
        turn = actor.turns.find(input_id)
        if turn is None:
            return InterruptReport()
        turn.interruption.order(mode, grace)
        # One that was handed on may never be opened.
        if turn is not actor.turns.current and turn.is_handed_on:
            return InterruptReport()
        return await turn.interruption.report()
