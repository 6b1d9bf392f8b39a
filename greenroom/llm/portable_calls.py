"""Tool calls as strict APIs take them: names and ids in their alphabet, and each id used once.

A model may call what no tool can be named, such as `multi_tool_use.parallel`, and servers begin to
count at `call_0` again with each reply. In a history both would be refused for ever.
"""

import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterable

from msgspec.structs import replace

from greenroom.core import ContentBlock, ToolResultBlock, ToolUseBlock
from greenroom.llm.conversation import Turn

__all__ = ["PLAIN", "portable_calls"]

PLAIN = re.compile(r"[^a-zA-Z0-9_-]")
"""The characters that neither a name nor, for the strictest, an id may hold."""

_LONGEST_NAME = 64
_LONGEST_ID = 40


def portable_calls(turns: Iterable[Turn], forbidden: re.Pattern[str] | None = None) -> list[Turn]:
    """Rename what an API would refuse; the same beginning of a history always gives the same names.

    A call and its result keep a common id. Where an id comes again, a result belongs to the first
    call of the turn before it that has none yet.

    Args:
        turns: the conversation.
        forbidden: characters that an id may not hold; each becomes `_`.

    Example:
        >>> calls = (ToolUseBlock("a.b", "multi_tool_use.parallel"), ToolUseBlock("a_b", ""))
        >>> for call in portable_calls([Turn("assistant", calls)], PLAIN)[0].blocks:
        ...     print(call.id, call.name)
        a_b multi_tool_use_parallel
        a_b_2 unnamed
    """
    renaming = _Renaming(forbidden)
    return [Turn(turn.role, renaming.of(turn)) for turn in turns]


class _Renaming:
    """The ids given so far, in the order of the conversation."""

    def __init__(self, forbidden: re.Pattern[str] | None) -> None:
        self._forbidden = forbidden
        self._taken: set[str] = set()
        self._uses: Counter[str] = Counter()
        self._latest: dict[str, str] = {}
        self._unanswered: defaultdict[str, deque[str]] = defaultdict(deque)

    def of(self, turn: Turn) -> tuple[ContentBlock, ...]:
        if turn.role == "assistant":
            self._unanswered.clear()
        return tuple(map(self._renamed, turn.blocks))

    def _renamed(self, block: ContentBlock) -> ContentBlock:
        match block:
            case ToolUseBlock():
                name = PLAIN.sub("_", block.name)[:_LONGEST_NAME] or "unnamed"
                return replace(block, id=self._call(block.id), name=name)
            case ToolResultBlock():
                return replace(block, tool_use_id=self._result(block.tool_use_id))
            case _:
                return block

    def _call(self, call_id: str) -> str:
        given = self._free(call_id)
        self._latest[call_id] = given
        self._unanswered[call_id].append(given)
        return given

    def _result(self, call_id: str) -> str:
        if self._unanswered[call_id]:
            return self._unanswered[call_id].popleft()
        return self._latest.get(call_id) or self._call(call_id)

    def _free(self, call_id: str) -> str:
        """Return an id that no other call has, as close as can be to what it was."""
        plain = self._forbidden.sub("_", call_id) if self._forbidden else call_id
        given = wanted = plain[:_LONGEST_ID] or "call"
        while given in self._taken:
            self._uses[wanted] += 1
            suffix = f"_{self._uses[wanted] + 1}"
            given = wanted[: _LONGEST_ID - len(suffix)] + suffix
        self._taken.add(given)
        return given
