"""Tool calls and their results come in pairs: which calls lack one, and what to answer for them.

A model's API refuses a conversation in which a call has no result before the next reply, or a result
has no call in the reply before it. The runtime makes neither. A loop of one's own may, an import may,
and a history may have lost a part. Nothing that is stored is changed for that, and no place in the
conversation moves: what is missing is added to the message that is there, as a transcript takes it in.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from greenroom.core import (
    Message,
    SessionError,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)

WENT_ON = "the conversation went on without it"
"""Why a call that was left open is answered before the next message or reply."""

STARTED = "the call had started, and its outcome is unknown"
_NOT_STARTED = "the call was not started"
NOT_ON_RECORD = "its result is not on record"


def unanswered(messages: Sequence[Message]) -> tuple[str, ...]:
    """Return the ids of the `open_calls`."""
    return tuple(call.id for call in open_calls(messages))


def open_calls(messages: Sequence[Message]) -> tuple[ToolUseBlock, ...]:
    """Return the last reply's calls that no later message answers, in order.

    Providers reuse ids from turn to turn, so a result counts only for the reply just before it.
    """
    results: Counter[str] = Counter()
    calls: list[ToolUseBlock] = []
    replies = False
    for message in reversed(messages):
        if message.role == "assistant":
            replies = True
            calls = [*message.tool_uses, *calls]
        elif replies:
            break
        else:
            results.update(result.tool_use_id for result in message.tool_results)
    return tuple(call for call in calls if not _take(results, call.id))


def answer_calls(
    ids: Iterable[str], started: Collection[str], reason: str, outputs: Mapping[str, str]
) -> Message:
    """Make the user's message that answers these calls with an error, so that each has a result."""

    def answer(id_: str) -> str:
        output = f". Its output until then:\n{outputs[id_]}" if outputs.get(id_) else ""
        return f"{reason}: {STARTED if id_ in started else _NOT_STARTED}{output}"

    return Message.user(
        ToolResultBlock(id_, (TextBlock(answer(id_)),), is_error=True) for id_ in ids
    )


def is_stand_in(result: ToolResultBlock) -> bool:
    """Whether this is not a result of a tool, but what `answer_calls` gave in its place."""
    return _tells(result, STARTED, _NOT_STARTED, NOT_ON_RECORD)


def may_have_run(result: ToolResultBlock) -> bool:
    """Whether this stands in for the result of a call that had started, so that it may have had its effect."""
    return _tells(result, STARTED, NOT_ON_RECORD)


def _tells(result: ToolResultBlock, *fates: str) -> bool:
    first = result.text.partition(". Its output until then:\n")[0]
    return result.is_error and first.endswith(tuple(f": {fate}" for fate in fates))


def _take(results: Counter[str], call: str) -> bool:
    results[call] -= 1
    return results[call] >= 0


# -- Where a conversation may be cut, so that what stays behind a summary is one that a model accepts.


def count_kept(messages: Sequence[Message], keep: int) -> int:
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
        TypeError: it is not a message.
        SessionError: it is not a user's, says nothing, or holds a call or a result.
    """
    if not isinstance(summary, Message):
        raise TypeError(f"{summary!r} is not a summary: write a text or Message.user(…)")
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
