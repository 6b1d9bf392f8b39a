"""Who speaks in a message that no person has sent: a summary, or the memory."""

from greenroom.core import Message

__all__ = ["RECALLED", "SUMMARY", "begins_turn"]

SUMMARY = "summary"
"""The `Message.sender` of the summary that a compacted conversation begins with."""

RECALLED = "memory"
"""The `Message.sender` of what was recalled."""


def begins_turn(message: Message) -> bool:
    """Whether a turn begins with a message: one of the user's, or of a program or agent."""
    is_ours = message.sender in (SUMMARY, RECALLED)
    return message.role == "user" and not message.tool_results and not is_ours
