"""Everything that a reader needs of an agent at one moment, to go on from there with its chunks."""

import msgspec

from greenroom.core import AgentState, Message, PermissionRequest, Usage
from greenroom.runtime.handle import AgentHandle
from greenroom.runtime.introspection import AgentNode, describe_below, find_pending
from greenroom.runtime.output_ring import Position
from greenroom.runtime.results import TurnResult


class AgentSnapshot(msgspec.Struct, frozen=True):
    """An agent at one moment.

    Attributes:
        state: its state.
        messages: the conversation.
        partial: the end of the reply that is being written.
        pending: open questions, its own and those below it, and those of a suspended turn.
        usage: what all model calls of the session have used.
        children: the sessions of the subagents that it ever had.
        metadata: the metadata of its session.
        position: where its chunks go on.
        is_suspended: whether its last turn waits for an answer, and no task does.
    """

    state: AgentState
    messages: tuple[Message, ...]
    partial: str
    pending: tuple[PermissionRequest, ...]
    usage: Usage
    children: tuple[str, ...]
    metadata: dict[str, object]
    position: Position
    is_suspended: bool


def take_snapshot(handle: AgentHandle) -> AgentSnapshot:
    """Look at an agent, without a checkpoint between two looks."""
    actor = handle._actor
    session, output = actor.session, actor.output
    asked = find_pending(actor)
    known = {each.request_id for each in asked}
    stored = (each.request for each in session.open_questions if each.request_id not in known)
    suspended = tuple(each for each in stored if each is not None)
    return AgentSnapshot(
        state=actor.state,
        messages=session.history,
        partial=output.partial,
        pending=(*asked, *suspended),
        usage=session.used.usage,
        children=session.child_session_ids,
        metadata=session.metadata,
        position=(output.epoch, output.ring.next),
        is_suspended=bool(suspended) and actor.turns.current is None,
    )


def find_result(handle: AgentHandle, input_id: str) -> TurnResult | None:
    """Return the result of the turn that took an input, if it has ended and is kept."""
    return handle._actor.turns.answers.find(input_id)


def awaits_turn(handle: AgentHandle, input_id: str) -> bool:
    """Whether an input waits for its turn, or for the end of that."""
    return handle._is_on_its_way(input_id)


def takes_input(handle: AgentHandle) -> bool:
    """Whether an agent has not begun to end."""
    return handle._actor.takes_input


def take_branch(handle: AgentHandle, limit: int) -> AgentNode:
    """Describe an agent and those below it, at most `limit` of them, as they are now."""
    return describe_below(handle._actor, limit)
