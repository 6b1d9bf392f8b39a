"""Who speaks in a message: a person, the runtime, a summary, or the memory."""

import re

from greenroom.core import Message

__all__ = ["RECALLED", "SUMMARY", "begins_turn", "said_by_person"]

SUMMARY = "summary"
"""The `Message.sender` of the summary that a compacted conversation begins with."""

RECALLED = "memory"
"""The `Message.sender` of what was recalled."""

# The runtime has no name as a sender. What it quotes may be a model's words.
_RUNTIME = re.compile(r"\[The (sub)?agent .* has ended: |This answer can't be used:\n")


def said_by_person(message: Message) -> bool:
    """Whether a person has said it, and not a program, an agent or the runtime.

    Example:
        >>> said_by_person(Message.user("I'm vegetarian."))
        True
        >>> said_by_person(Message.user("[The subagent scout (s-1) has ended: completed]"))
        False
    """
    is_input = message.role == "user" and not message.sender and not message.tool_results
    return is_input and _RUNTIME.match(message.text) is None


def begins_turn(message: Message) -> bool:
    """Whether a turn begins with a message: one of the user's, or of a program or agent."""
    is_ours = message.sender in (SUMMARY, RECALLED)
    return message.role == "user" and not message.tool_results and not is_ours
