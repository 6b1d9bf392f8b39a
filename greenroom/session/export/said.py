"""A conversation as it is read: each tool call stands together with its result."""

from collections.abc import Iterator, Sequence

import msgspec

from greenroom.core import ContentBlock, Message, ToolResultBlock, ToolUseBlock
from greenroom.session.export.call import Call


class Said(msgspec.Struct, frozen=True):
    """What one side said at once.

    Attributes:
        number: the place of the message in the history, from 1.
        message: the message.
        blocks: its blocks. Calls have their results with them, so those are missing where they came.
    """

    number: int
    message: Message
    blocks: tuple[ContentBlock | Call, ...]

    def speaker(self, agent_type: str) -> str:
        """Say who said it, in a conversation with an agent of this type."""
        is_reply = self.message.role == "assistant"
        return self.message.sender or (agent_type if is_reply else "User")


def said(messages: Sequence[Message]) -> Iterator[Said]:
    """Go through a conversation; messages that hold nothing but results of calls are passed over.

    Example:
        >>> [each.number for each in said([Message.user("hello"), Message.assistant("Hi!")])]
        [1, 2]
    """
    claimed: list[ToolResultBlock] = []
    for number, message in enumerate(messages, start=1):
        blocks: tuple[ContentBlock | Call, ...]
        if message.role == "assistant":
            calls = dict(_answered(message, messages, number))
            claimed = [call.result for call in calls.values() if call.result is not None]
            blocks = tuple(calls.get(at, block) for at, block in enumerate(message.content))
        else:
            blocks = tuple(block for block in message.content if not _is_in(block, claimed))
        if blocks or message.role == "assistant":
            yield Said(number, message, blocks)


def _answered(
    message: Message, messages: Sequence[Message], number: int
) -> Iterator[tuple[int, Call]]:
    """Give each call of a reply, by its place, the first result of its id that is left for it."""
    results = _results_after(messages, number)
    for at, block in enumerate(message.content):
        if isinstance(block, ToolUseBlock):
            result = next((each for each in results if each.tool_use_id == block.id), None)
            if result is not None:
                results = [each for each in results if each is not result]
            yield at, Call(block, result)


def _results_after(messages: Sequence[Message], number: int) -> list[ToolResultBlock]:
    """Return what answers the reply of this number: all results before the next one."""
    found: list[ToolResultBlock] = []
    for at in range(number, len(messages)):
        if messages[at].role == "assistant":
            break
        found += messages[at].tool_results
    return found


def _is_in(block: ContentBlock, claimed: Sequence[ToolResultBlock]) -> bool:
    # By identity: two results may well be equal, and one of them belong to no call.
    return any(block is each for each in claimed)
