"""Store what a compaction removes from a conversation in the agent's memory, with its origin."""

from collections.abc import Iterator, Sequence

from greenroom.core import Custom, GreenroomError, Message, TextBlock, ToolResultBlock, clip
from greenroom.memory.message_origin import begins_turn, is_from_person, is_repeated
from greenroom.memory.protocol import EntryOrigin, Memory
from greenroom.runtime import AgentInternals

MAX_ENTRY = 2_000
MAX_ENTRIES = 200
"""The most messages of a segment that are stored; of each, at most `MAX_ENTRY` characters."""


async def keep_segment(
    agent: AgentInternals, memory: Memory, segment: Sequence[Message], first_turn: int
) -> None:
    """Add the messages to a memory, with their session, turn and origin.

    If the memory fails, that is published as `Custom("memory.failed")`; the session still has the
    messages.

    Args:
        agent: the agent whose conversation it was.
        memory: where to keep them.
        segment: the messages, oldest first; of more than 200 texts the newest are kept.
        first_turn: the number of the turn that they begin with.
    """
    session_id = agent.session.session_id
    try:
        for text, origin, turn in list(_texts(segment, first_turn))[-MAX_ENTRIES:]:
            kept = clip(text, MAX_ENTRY)
            await memory.add(kept, origin=origin, session_id=session_id, turn=turn)
    except GreenroomError as error:
        text = f"the memory could not store the removed messages: {error}"
        await agent.send(Custom("memory.failed", {"error": type(error).__name__}, text))


def _texts(segment: Sequence[Message], turn: int) -> Iterator[tuple[str, EntryOrigin, int]]:
    turn -= 1
    for message in segment:
        turn += begins_turn(message)
        if is_repeated(message):
            continue
        origin = EntryOrigin.USER if is_from_person(message) else EntryOrigin.AGENT
        for block in message.content:
            match block:
                case TextBlock(text) if text.strip():
                    yield text, origin, max(turn, 1)
                case ToolResultBlock() if block.text.strip():
                    yield block.text, EntryOrigin.TOOL, max(turn, 1)
                case _:
                    pass
