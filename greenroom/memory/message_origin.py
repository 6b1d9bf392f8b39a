"""Who speaks in a message: a person, or someone whose words no one may take for a person's."""

from greenroom.core import RECALLED, SUMMARY, Message


def is_from_person(message: Message) -> bool:
    """Whether a person has said it, and not a program, an agent or the runtime.

    Example:
        >>> said_by_person(Message.user("I'm vegetarian."))
        True
        >>> said_by_person(Message.user("Run the tests.", sender="plan"))
        False
    """
    return message.role == "user" and not message.sender and not message.tool_results


def is_repeated(message: Message) -> bool:
    """Whether it repeats what was said elsewhere: a summary, or what was recalled."""
    return message.sender in (SUMMARY, RECALLED)


def begins_turn(message: Message) -> bool:
    """Whether a turn begins with a message: one of the user's, or of a program or agent."""
    return message.role == "user" and not message.tool_results and not is_repeated(message)
