"""Tool calls and their results come in pairs: which calls lack one, and what to answer for them."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from greenroom.core import Message, TextBlock, ToolResultBlock, ToolUseBlock

__all__ = ["WENT_ON", "answer_unanswered", "is_stand_in", "open_calls", "unanswered"]

WENT_ON = "the conversation went on without it"
"""Why a call that was left open is answered before the next message or reply."""

_STARTED = "the call had started, and its outcome is unknown"
_NOT_STARTED = "the call was not started"


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


def answer_unanswered(
    ids: Iterable[str], started: Collection[str], reason: str, told: Mapping[str, str]
) -> Message:
    """Make the user's message that answers these calls with an error, so that each has a result."""

    def answer(id_: str) -> str:
        said = f". Its output until then:\n{told[id_]}" if told.get(id_) else ""
        return f"{reason}: {_fate(id_ in started)}{said}"

    return Message.user(
        ToolResultBlock(id_, (TextBlock(answer(id_)),), is_error=True) for id_ in ids
    )


def is_stand_in(result: ToolResultBlock) -> bool:
    """Whether this is no result of a tool, but what `answer_unanswered` gave in its place."""
    first = result.text.partition(". Its output until then:\n")[0]
    return result.is_error and first.endswith((f": {_STARTED}", f": {_NOT_STARTED}"))


def _take(results: Counter[str], call: str) -> bool:
    results[call] -= 1
    return results[call] >= 0


def _fate(started: bool) -> str:
    return _STARTED if started else _NOT_STARTED
