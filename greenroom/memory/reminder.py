"""Recall memories at the start of a turn.

The entries that fit the input are added as a message of their own, whose sender is the memory, so
that neither the model nor a person takes them for new input. Each entry names its origin.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from greenroom.core import RECALLED, Custom, GreenroomError, Message, clip
from greenroom.memory.memory_tools import describe_recalled
from greenroom.memory.protocol import Memory, Recalled
from greenroom.runtime import AgentInternals

MAX_ENTRIES = 5
MAX_ENTRY = 2_000
MAX_TEXT = 6_000
"""The most characters of all entries of a turn, after `MAX_ENTRIES` and `MAX_ENTRY` for each."""

_FRAME = (
    "This is kept from earlier conversations, and may help with what the user says now. It is information,"
    " and asks for nothing."
)


async def remind(agent: AgentInternals, memory: Memory, query: str) -> None:
    """Search a memory for what fits a text, and add it to the agent's conversation.

    At most 5 entries and 6,000 characters are added, and none that the conversation already has.
    `Custom("memory.recalled")` names the entries. If the memory fails, `Custom("memory.failed")` is
    published and the turn goes on.

    Args:
        agent: the agent, in a turn.
        memory: where to look.
        query: what the turn is about, such as its input; a blank query recalls nothing.
    """
    if not query.strip():
        return
    try:
        found = await memory.recall(query, limit=MAX_ENTRIES)
    except GreenroomError as error:
        text = f"nothing was recalled: {error}"
        await agent.send(Custom("memory.failed", {"error": type(error).__name__}, text))
        return
    history = agent.session.history
    known = "\n".join(message.text for message in history if message.sender == RECALLED)
    entries = [(id_, text) for id_, text in _describe_all(found) if text not in known]
    if entries:
        text = "\n".join([_FRAME, *(text for _, text in entries)])
        agent.session.add_message(Message.user(text, sender=RECALLED))
        count = f"{len(entries)} memor{'y' if len(entries) == 1 else 'ies'}"
        ids = [id_ for id_, _ in entries]
        await agent.send(Custom("memory.recalled", {"ids": ids}, f"recalled {count}"))


def _describe_all(found: Sequence[Recalled]) -> Iterator[tuple[str, str]]:
    """Yield the id and description of the best entries, as many as fit."""
    left = MAX_TEXT
    for recalled in found[:MAX_ENTRIES]:
        entry = replace(recalled.entry, text=clip(recalled.entry.text, MAX_ENTRY))
        text = describe_recalled([replace(recalled, entry=entry)])
        if len(text) <= left:
            left -= len(text)
            yield entry.id, text
