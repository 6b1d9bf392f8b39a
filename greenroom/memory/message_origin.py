"""Where a message comes from: a person, a program, an agent or the runtime."""

from greenroom.core import RECALLED, SUMMARY, Message


def is_from_person(message: Message) -> bool:
    """Whether a person wrote it, and not a program, an agent or the runtime.

    Example:
        >>> is_from_person(Message.user("I'm vegetarian."))
        True
        >>> is_from_person(Message.user("Run the tests.", sender="plan"))
        False
    """
    return message.role == "user" and not message.sender and not message.tool_results


def is_repeated(message: Message) -> bool:
    """Whether it repeats earlier messages: a summary or recalled memories."""
    return message.sender in (SUMMARY, RECALLED)


def begins_turn(message: Message) -> bool:
    """Whether a turn begins with this message."""
    return message.role == "user" and not message.tool_results and not is_repeated(message)
