"""Shared code of the readers of recorded requests, which must not lose a field without a typed place.

A request that was read is written again, and any difference from the original becomes `extra` or
`options`. So a reader need not know every field.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from greenroom.core import (
    ContentBlock,
    InvalidJSONError,
    Message,
    ModelRequest,
    ToolDefinition,
    UnknownBlock,
    serde,
)
from greenroom.llm.calls import PortableCalls
from greenroom.llm.conversation import turns
from greenroom.llm.json_fields import items, mapping, text
from greenroom.llm.transcript import Dialect, encode_request


def same_request(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Whether two bodies of requests, or parts of such, are the same.

    The order of fields does not count. A `content` or `system` that is text is the same as a list
    of one text block, and the `arguments` of a call are the same where they are the same JSON.

    Example:
        >>> same_request(
        ...     {"role": "user", "content": "hi"},
        ...     {"content": [{"type": "text", "text": "hi"}], "role": "user"},
        ... )
        True
    """
    return _is_same(_plain(one), _plain(other))


def _is_same(one: object, other: object) -> bool:
    """Compare JSON, where true is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return isinstance(one, bool) is isinstance(other, bool) and one == other


def _plain(value: object, field: str = "") -> object:
    if isinstance(value, Mapping):
        return {name: _plain(item, name) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, str) and field in {"content", "system"}:
        return [{"type": "text", "text": value}]
    if isinstance(value, str) and field == "arguments":
        try:
            return {"json": serde.loads(value)}
        except InvalidJSONError:
            return value
    return value


Block = TypeVar("Block", bound=ContentBlock | ToolDefinition)


def difference(made: Mapping[str, object], raw: Mapping[str, object]) -> dict[str, object]:
    """Return what `extend` has to add to one object to make it the other.

    Example:
        >>> difference({"a": 1, "b": {"c": 1}}, {"a": 2, "b": {"c": 1, "d": 2}})
        {'a': 2, 'b': {'d': 2}}
    """
    added: dict[str, object] = {}
    for name, value in raw.items():
        older = made.get(name)
        if name not in made:
            added[name] = value
        elif not same_request({name: older}, {name: value}):
            nested = isinstance(older, dict) and isinstance(value, dict) and "type" not in value
            added[name] = difference(mapping(older), mapping(value)) if nested else value
    return added | {name: UNSET for name in made if name not in raw}


def restore_block(
    block: Block, write: Callable[[Block], dict[str, object]], raw: dict[str, object]
) -> Block:
    """Give a block, or a tool, the `extra` with which it is written as it was."""
    if isinstance(block, UnknownBlock):
        return block
    return replace(block, extra={**block.extra, **difference(write(block), raw)})


def restore_message(
    dialect: Dialect, message: Message, raw: Mapping[str, object], *, alone: bool
) -> Message:
    """Give a message the fields with which it is written as it was.

    Args:
        dialect: what writes it.
        message: what was read.
        raw: what it was read from.
        alone: whether it must not be merged with its neighbours.
    """
    [turn] = turns([message], dialect.provider, dialect.accept)
    [*_, made] = dialect.write(PortableCalls(dialect.calls).rename(turn))
    fields = difference(made, raw)
    if alone and not fields:
        fields = {"role": raw["role"]}
    return replace(message, extra=fields)


def restore_request(
    dialect: Dialect,
    request: ModelRequest,
    body: Mapping[str, object],
    read_tool: Callable[[dict[str, object]], ToolDefinition | None],
) -> ModelRequest:
    """Give a request its tools, and the options with which it is written as it was."""
    raws = list(map(mapping, items(body.get("tools"))))
    tools, others = _restore_tools(raws, list(map(read_tool, raws)))
    options: dict[str, object] = {"tools": others} if others else {}
    made = mapping(serde.loads(encode_request(dialect, _with(request, options, tools))))
    if not same_request(_only(made, "tools"), _only(body, "tools")):
        tools, options = [], _only(body, "tools")
        made = mapping(serde.loads(encode_request(dialect, _with(request, options, tools))))
    asked = {name: value for name, value in body.items() if name != "messages"}
    made.pop("messages", None)
    differing = {
        name: asked.get(name, UNSET) for name in difference(made, asked) if name != "tools"
    }
    kept = _only(body, "model")
    said = items(body.get("messages"))
    if not said or not all(isinstance(message, dict) for message in said):
        kept["messages"] = body.get("messages", UNSET)
    return _with(request, options | kept | differing, tools)


def number(value: object) -> float | None:
    """Return the value if it is a number, else None."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _only(body: Mapping[str, object], name: str) -> dict[str, object]:
    return {name: body[name]} if name in body else {}


def _with(
    request: ModelRequest, options: Mapping[str, object], tools: Sequence[ToolDefinition]
) -> ModelRequest:
    return dataclasses.replace(request, options=options, tools=tools)


def _restore_tools(
    raws: Sequence[dict[str, object]], read: Sequence[ToolDefinition | None]
) -> tuple[list[ToolDefinition], list[object]]:
    """Return the tools that are typed, and the others with the places of those behind the first."""
    first = next((place for place, tool in enumerate(read) if tool is None), len(read))
    behind: Iterable[tuple[dict[str, object], ToolDefinition | None]] = zip(
        raws[first:], read[first:], strict=True
    )
    others: list[object] = [raw if tool is None else _name(raw) for raw, tool in behind]
    return [tool for tool in read if tool is not None], others


def _name(raw: Mapping[str, object]) -> dict[str, object]:
    if "function" in raw:
        return {"function": {"name": text(mapping(raw["function"]).get("name"))}}
    return {"name": text(raw.get("name"))}
