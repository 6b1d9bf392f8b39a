"""Where a conversation may be cut, so that what stays behind a summary is one that a model accepts."""

from collections.abc import Sequence

from greenroom.core import Message, SessionError, TextBlock, ToolResultBlock, ToolUseBlock
from greenroom.session.history.pairing import unanswered


def kept(messages: Sequence[Message], keep: int) -> int:
    """Return how many of the last messages stay, so that at least `keep` of them do.

    It is more where the place is between a call and its result, or where calls still wait for theirs:
    then the reply that made them stays as well.

    Raises:
        SessionError: the number is negative, or all messages would stay.
    """
    if keep < 0:
        raise SessionError(f"{keep} messages can't be kept")
    cut = _cut(messages, max(len(messages) - keep, 0))
    if cut == 0:
        raise SessionError(
            f"there is nothing to compact: of {len(messages)} messages, {keep} are to be kept",
            hint="keep fewer; a reply that calls tools stays together with the results",
        )
    return len(messages) - cut


def check_summary(summary: Message) -> Message:
    """See that a conversation may begin with this message.

    Raises:
        TypeError: it is no message.
        SessionError: it is no user's, says nothing, or holds a call or a result.
    """
    if not isinstance(summary, Message):
        raise TypeError(f"{summary!r} is no summary: write a text or Message.user(…)")
    stray = any(isinstance(block, ToolUseBlock | ToolResultBlock) for block in summary.content)
    is_blank = not any(not isinstance(b, TextBlock) or b.text.strip() for b in summary.content)
    if summary.role != "user" or stray or is_blank:
        raise SessionError(
            f"no conversation can begin with this summary: {summary!r:.200}",
            hint="write a text, or Message.user(…) without calls and results of tools",
        )
    return summary


def _cut(messages: Sequence[Message], cut: int) -> int:
    """Return the last place up to this one that parts no call from its result."""
    at = cut - 1
    while at >= 0 and messages[at].role == "user":
        at -= 1
    call = cut  # the first message before the cut with calls of that reply, which may be several
    while at >= 0 and messages[at].role == "assistant":
        call = at if messages[at].tool_uses else call
        at -= 1
    if call == cut:
        return cut
    end = cut
    goes_on = messages[cut - 1].role == "assistant"  # it may, behind the cut
    for role in ("assistant", "user") if goes_on else ("user",):
        while end < len(messages) and messages[end].role == role:
            end += 1
    answered = any(message.tool_results for message in messages[cut:end])
    waits = end == len(messages) and unanswered(messages[call:])
    return call if answered or waits else cut
