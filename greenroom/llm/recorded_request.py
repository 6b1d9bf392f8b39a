"""Requests read back from recorded bodies; `read_request` of each API builds on this.

No field may be lost, even if it has no typed place. So a request that was read is encoded again,
and any difference from the original becomes `extra` or `options`.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from greenroom.core import ContentBlock, Message, ModelRequest, ToolDefinition, UnknownBlock
from greenroom.core._internal import InvalidJSONError, serde
from greenroom.llm.dialect import Dialect
from greenroom.llm.json_fields import as_dict, as_list, as_text
from greenroom.llm.merged_messages import merge_messages
from greenroom.llm.portable_calls import PortableCalls
from greenroom.llm.request_encoder import encode_request


def same_request(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Whether two bodies of requests, or two parts of them, are the same.

    The order of fields does not count. A `content` or `system` that is text is the same as a list
    of one text block, and the `arguments` of calls are compared as JSON.

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
    if isinstance(value, str) and field == "input":
        return [{"role": "user", "content": _plain(value, "content")}]
    if isinstance(value, str) and field == "arguments":
        try:
            return {"json": serde.loads(value)}
        except InvalidJSONError:
            return value
    return value


Block = TypeVar("Block", bound=ContentBlock | ToolDefinition)


def find_difference(made: Mapping[str, object], raw: Mapping[str, object]) -> dict[str, object]:
    """Return what `extend` has to add to one object to make it the other.

    Example:
        >>> find_difference({"a": 1, "b": {"c": 1}}, {"a": 2, "b": {"c": 1, "d": 2}})
        {'a': 2, 'b': {'d': 2}}
    """
    changes: dict[str, object] = {}
    for name, value in raw.items():
        older = made.get(name)
        if name not in made:
            changes[name] = value
        elif not same_request({name: older}, {name: value}):
            nested = isinstance(older, dict) and isinstance(value, dict) and "type" not in value
            changes[name] = find_difference(as_dict(older), as_dict(value)) if nested else value
    return changes | {name: UNSET for name in made if name not in raw}


def restore_block(
    block: Block, write: Callable[[Block], dict[str, object]], raw: dict[str, object]
) -> Block:
    """Add to a block, or a tool, the `extra` that makes it encode as it was."""
    if isinstance(block, UnknownBlock):
        return block
    return replace(block, extra={**block.extra, **find_difference(write(block), raw)})


def restore_message(
    dialect: Dialect, message: Message, raw: Mapping[str, object], *, alone: bool
) -> Message:
    """Add to a message the fields that make it encode as it was.

    Args:
        dialect: the format of the provider.
        message: the message as it was read.
        raw: the JSON that it was read from.
        alone: whether it must not be merged with its neighbours.
    """
    [merged] = merge_messages([message], dialect.provider, dialect.accept)
    [*_, made] = dialect.write(PortableCalls(dialect.calls).rename(merged))
    fields = find_difference(made, raw)
    if alone and not fields:
        fields = {"role": raw["role"]}
    return replace(message, extra=fields)


ReadTools: TypeAlias = tuple[list[ToolDefinition], list[object]]
"""The typed tools of a request, and those for its options."""


def restore_request(
    dialect: Dialect,
    request: ModelRequest,
    body: Mapping[str, object],
    read_tools: Callable[[Sequence[dict[str, object]]], ReadTools],
    *,
    messages: str = "messages",
    nested: bool = False,
) -> ModelRequest:
    """Add to a request its tools, and the options that make it encode as it was.

    Args:
        dialect: the format of the provider.
        request: the request without its tools.
        body: the JSON that it was read from.
        read_tools: reads its tools, such as a `partial` of `read_named_tools`.
        messages: the field that has the conversation.
        nested: whether options add to the objects in the body, or replace them.
    """
    tools, others = read_tools(list(map(as_dict, as_list(body.get("tools")))))
    options: dict[str, object] = {"tools": others} if others else {}
    made = as_dict(serde.loads(encode_request(dialect, _with(request, options, tools))))
    if not same_request(_only(made, "tools"), _only(body, "tools")):
        tools, options = [], _only(body, "tools")
        made = as_dict(serde.loads(encode_request(dialect, _with(request, options, tools))))
    fields = {name: value for name, value in body.items() if name != messages}
    made.pop(messages, None)
    different = {
        name: value if nested else fields.get(name, UNSET)
        for name, value in find_difference(made, fields).items()
        if name != "tools"
    }
    verbatim = _only(body, "model")
    given = body.get(messages)
    items = [{}] if isinstance(given, str) and messages == "input" else as_list(given)
    if not items or not all(isinstance(each, dict) for each in items):
        verbatim[messages] = body.get(messages, UNSET)
    return _with(request, options | verbatim | different, tools)


def _only(body: Mapping[str, object], name: str) -> dict[str, object]:
    return {name: body[name]} if name in body else {}


def _with(
    request: ModelRequest, options: Mapping[str, object], tools: Sequence[ToolDefinition]
) -> ModelRequest:
    return dataclasses.replace(request, options=options, tools=tools)


def read_named_tools(
    read_tool: Callable[[dict[str, object]], ToolDefinition | None],
    raws: Sequence[dict[str, object]],
) -> ReadTools:
    """Return the typed tools, and the others with the names of the typed ones among them."""
    tools = list(map(read_tool, raws))
    first = next((place for place, tool in enumerate(tools) if tool is None), len(tools))
    rest = list(zip(raws, tools, strict=True))[first:]
    others: list[object] = [raw if tool is None else _name(raw) for raw, tool in rest]
    return [tool for tool in tools if tool is not None], others


def _name(raw: Mapping[str, object]) -> dict[str, object]:
    if "function" in raw:
        return {"function": {"name": as_text(as_dict(raw["function"]).get("name"))}}
    return {"name": as_text(raw.get("name"))}
