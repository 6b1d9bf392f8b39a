"""How much a conversation loses without a message, where not all of it fits.

What a person said counts most, first of all the first that they said, which is usually the task.
Then come answers and the words of others. Calls and their results count least: an answer says what
came of them, and they can be made again.
"""

from collections.abc import Sequence
from enum import IntEnum

from greenroom.core import Message
from greenroom.core._internal import RUNTIME, SUMMARY


class Importance(IntEnum):
    """How important a part of a conversation is; the least important is left out first."""

    STEP = 0
    """A call or its result, or a note of the runtime."""
    WORDS = 1
    """An answer, or what a program or an agent said."""
    PERSON = 2
    """What a person said."""
    TASK = 3
    """The first that a person said, and a summary."""


def rate(message: Message) -> Importance:
    """Return the importance of a message, wherever it stands.

    Example:
        >>> rate(Message.user("Sum up a.txt.")).name, rate(Message.assistant("Done.")).name
        ('PERSON', 'WORDS')
    """
    if message.tool_uses or message.tool_results or message.sender == RUNTIME:
        return Importance.STEP
    if message.sender == SUMMARY:
        return Importance.TASK
    return Importance.WORDS if message.role == "assistant" or message.sender else Importance.PERSON


def rate_all(units: Sequence[Sequence[Message]]) -> list[Importance]:
    """Return the importance of each unit of a conversation: that of its most important message."""
    ratings = [max(map(rate, unit)) for unit in units]
    if Importance.PERSON in ratings:
        ratings[ratings.index(Importance.PERSON)] = Importance.TASK
    return ratings


def choose(ratings: Sequence[int], costs: Sequence[int], room: float) -> list[int]:
    """Choose what fits: the most important first, and of the equally important the newest.

    What does not fit is passed over, so that one long message does not push out all others.

    Args:
        ratings: the importance of each part, oldest first.
        costs: the tokens of each.
        room: the tokens that there are.

    Returns:
        The places of what is kept, in order.

    Example:
        >>> choose([2, 0, 0, 1], [5, 1, 1, 2], 8)
        [0, 2, 3]
    """
    kept = []
    for place in sorted(range(len(ratings)), key=lambda place: (-ratings[place], -place)):
        if costs[place] <= room:
            room -= costs[place]
            kept.append(place)
    return sorted(kept)
