"""Marks that tell Anthropic's cache which beginnings of a request it should keep.

The cache serves the longest beginning that was marked before, in the order tools, system, messages.
So the marks stand where the next request will still say the same: behind the tools, behind the system
prompt, at the end of the user's last turn, and at the end of the one before, where the last request
ended. The API finds a beginning that is not marked again only some 20 blocks further on, and a reply
with many calls is longer than that. Four marks are the most that it takes.

A mark behind too few tokens (1,024 with most models) has no effect.
"""

from collections.abc import Mapping, Sequence

from greenroom.core import serde
from greenroom.llm.fields import items, mapping, text
from greenroom.llm.transcript import WrittenTurn

_FIELD = "cache_control"
_MARK = {_FIELD: {"type": "ephemeral"}}

# Thinking is refused with a mark; of kinds that are not known, nobody knows.
_MARKABLE = frozenset({"text", "image", "document", "search_result", "tool_use", "tool_result"})

_TURNS = 2


def leaves_marks_to_us(fields: Mapping[str, object]) -> bool:
    """Whether these fields of a request bring no mark of their own.

    Example:
        >>> leaves_marks_to_us({"system": "Be brief."})
        True
        >>> leaves_marks_to_us({"cache_control": {"type": "ephemeral"}})
        False
    """
    blocks = [*items(fields.get("system")), *items(fields.get("tools"))]
    return not any(_FIELD in mapping(each) for each in (fields, *blocks))


def marks_itself(part: object) -> bool:
    """Whether a message or a block, as it is sent, brings a mark, at whatever depth.

    Example:
        >>> inner = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
        >>> marks_itself({"role": "user", "content": [{"type": "tool_result", "content": [inner]}]})
        True
    """
    fields = mapping(part)
    inner = (*items(fields.get("content")), *items(mapping(fields.get("source")).get("content")))
    return _FIELD in fields or any(map(marks_itself, inner))


def mark_fields(fields: Mapping[str, object]) -> dict[str, object]:
    """Mark the end of the tools and of the system prompt, where there are any.

    Example:
        >>> mark_fields({"model": "m", "system": "Be brief."})["system"]
        [{'type': 'text', 'text': 'Be brief.', 'cache_control': {'type': 'ephemeral'}}]
    """
    tools = items(fields.get("tools"))
    system = fields.get("system")
    if isinstance(system, str):
        system = [{"type": "text", "text": system}]
    # A tool that is loaded when it is searched for is not in the beginning.
    at_once = [place for place, tool in enumerate(tools) if not mapping(tool).get("defer_loading")]
    marked = {"tools": _mark(tools, at_once), "system": _mark_last(items(system))}
    return {**fields, **{name: blocks for name, blocks in marked.items() if blocks}}


def mark_turns(turns: Sequence[WrittenTurn]) -> list[bytes]:
    """Return turns as bytes, with a mark at the end of the user's last two that take one."""
    made: list[bytes] = []
    left = _TURNS
    for turn in reversed(turns):
        marked = _mark_turn(turn) if left else b""
        left -= bool(marked)
        made.append(marked or turn.wire)
    return made[::-1]


def _mark_turn(turn: WrittenTurn) -> bytes:
    """Return a turn of the user with its mark; empty where it is another's, or takes none."""
    *before, last = turn.messages
    content = _mark_last(items(last.get("content")))
    if not content or last.get("role") != "user":
        return b""
    return serde.dumps([*before, {**last, "content": content}])[1:-1]


def _mark_last(blocks: Sequence[object]) -> list[object]:
    """Mark the last block that can be marked; return none where none can."""
    return _mark(blocks, [place for place, block in enumerate(blocks) if _can_mark(block)])


def _can_mark(block: object) -> bool:
    fields = mapping(block)
    is_blank = fields.get("type") == "text" and not text(fields.get("text")).strip()
    return fields.get("type") in _MARKABLE and not is_blank


def _mark(blocks: Sequence[object], places: Sequence[int]) -> list[object]:
    """Mark the block at the last of these places; return none where there is no place."""
    if not places:
        return []
    at = places[-1]
    return [*blocks[:at], {**mapping(blocks[at]), **_MARK}, *blocks[at + 1 :]]
