"""Requests in the words of Anthropic's Messages API, version 2023-06-01, with the marks for its cache."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from msgspec import UNSET

from greenroom.core import (
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    ModelBadRequestError,
    ModelRequest,
    NamedTool,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolChoice,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    portable_name,
    serde,
)
from greenroom.llm.calls import PLAIN, CallRules, merge_tools
from greenroom.llm.conversation import MediaLimits, Turn, escape_speaker
from greenroom.llm.json_fields import extend, items, mapping, text
from greenroom.llm.strict_schema import ANTHROPIC, strict_schema
from greenroom.llm.transcript import MESSAGES, Written, WrittenTurn

# The cache serves the longest beginning that was marked before, in the order tools, system,
# messages. So the marks stand where the next request will still say the same: behind the tools,
# behind the system prompt, at the end of the user's last turn, and at the end of the one before,
# where the last request ended. The API finds a beginning that is not marked again only some 20
# blocks further on, and a reply with many calls is longer than that. Four marks are the most that
# it takes.
#
# A mark behind too few tokens (1,024 with most models) has no effect.

_FIELD = "cache_control"
_MARK = {_FIELD: {"type": "ephemeral"}}

# Thinking is refused with a mark; of kinds that are not known, nobody knows.
_MARKABLE = frozenset({"text", "image", "document", "search_result", "tool_use", "tool_result"})

_TURNS = 2


def has_no_marks(fields: Mapping[str, object]) -> bool:
    """Whether these fields of a request bring no mark of their own.

    Example:
        >>> has_no_marks({"system": "Be brief."})
        True
        >>> has_no_marks({"cache_control": {"type": "ephemeral"}})
        False
    """
    blocks = [*items(fields.get("system")), *items(fields.get("tools"))]
    return not any(_FIELD in mapping(each) for each in (fields, *blocks))


def has_mark(part: object) -> bool:
    """Whether a message or a block, as it is sent, brings a mark, at whatever depth.

    Example:
        >>> inner = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
        >>> has_mark({"role": "user", "content": [{"type": "tool_result", "content": [inner]}]})
        True
    """
    fields = mapping(part)
    inner = (*items(fields.get("content")), *items(mapping(fields.get("source")).get("content")))
    return _FIELD in fields or any(map(has_mark, inner))


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


_Known: TypeAlias = (
    TextBlock
    | ThinkingBlock
    | RedactedThinkingBlock
    | ToolUseBlock
    | ToolResultBlock
    | ImageBlock
    | DocumentBlock
)

_LIMITS = MediaLimits(image=5 * 1024 * 1024, request=32 * 1024 * 1024)
_WITHOUT_SAMPLING = "2026-10-21"
_SAMPLING = ("temperature", "top_p", "top_k")


@dataclass(frozen=True)
class MessagesDialect:
    """What Anthropic takes.

    Thinking without a signature is left out, and so is thinking that nothing follows in its
    message, since they would be refused.

    Attributes:
        model: the model's name.
        max_tokens: the most that a reply may take where the request does not say; a thinking budget
            comes on top of it then, since it counts as output.
        provider: the provider's name.
        version: the version of the API. Since 2026-10-21 it refuses sampling parameters, and
            citations in what the user says.
        limits: how large images, documents and requests may be.
    """

    model: str
    max_tokens: int
    provider: str = "anthropic"
    version: str = "2023-06-01"
    limits: MediaLimits = _LIMITS
    calls = CallRules(forbidden=PLAIN, longest_name=128)
    returns = frozenset[str]()

    def accept(self, blocks: Sequence[ContentBlock], provider: str) -> Sequence[ContentBlock]:
        """Leave out thinking that would be refused."""
        kept = [b for b in blocks if not isinstance(b, ThinkingBlock) or b.signature]
        while kept and isinstance(kept[-1], ThinkingBlock | RedactedThinkingBlock):
            kept.pop()
        return kept

    def write(self, turn: Turn) -> Sequence[Mapping[str, object]]:
        """Write a turn as one message.

        Raises:
            ModelBadRequestError: the data of a text document is not base64.
        """
        blocks = [write_block(block) for block in turn.blocks]
        if turn.role == "user" and self.version >= _WITHOUT_SAMPLING:
            blocks = [_without_citations(block) for block in blocks]
        made = {"role": turn.role, "content": blocks}
        return [extend(made, turn.fields)]

    def is_marked(self, messages: Sequence[Mapping[str, object]]) -> bool:
        """Whether written messages bring cache markers of their own."""
        return any(map(has_mark, messages))

    def body(
        self, request: ModelRequest, written: Written
    ) -> tuple[Mapping[str, object], Iterable[bytes | bytearray]]:
        """Return the fields of a streaming request, and its messages, marked for the cache.

        Raises:
            ModelBadRequestError: the schema of the output holds what Anthropic can't enforce, or
                the request has a parameter that this version of the API has not.
        """
        tools = merge_tools(list(map(write_tool, request.tools)), request.options)
        fields: dict[str, object] = {
            "model": self.model,
            "max_tokens": request.max_tokens or self.max_tokens + (request.thinking or 0),
            "messages": MESSAGES,
            "stream": True,
            **_write_settings(request, has_tools=bool(tools.get("tools"))),
            **request.options,
            **tools,
            **_output_config(request, self.provider),
        }
        if self.version >= _WITHOUT_SAMPLING:
            self._check_sampling(fields)
        is_ours = fields["messages"] is MESSAGES and not written.is_marked
        if not (request.cache and is_ours and has_no_marks(fields)):
            return fields, written.pieces()
        return mark_fields(fields), [written.settled, *mark_turns(written.latest)]

    def _check_sampling(self, fields: Mapping[str, object]) -> None:
        for name in _SAMPLING:
            if fields.get(name, UNSET) is not UNSET:
                raise ModelBadRequestError(
                    f"version {self.version} of Anthropic's API has no {name}",
                    provider=self.provider,
                    hint=f'leave it out, or make the provider with version="2023-06-01": {name} stays there',
                )


def _without_citations(block: dict[str, object]) -> dict[str, object]:
    """Leave the citations out of a text, which came from a reply and mean nothing to a user's text."""
    if block.get("type") != "text" or "citations" not in block:
        return block
    return {name: value for name, value in block.items() if name != "citations"}


def _write_settings(request: ModelRequest, *, has_tools: bool) -> dict[str, object]:
    """Write down the fields that were asked for, and no others."""
    fields = {
        "system": _system(request),
        "tool_choice": _tool_choice(request.tool_choice) if has_tools else None,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop_sequences": list(request.stop_sequences),
        "thinking": _thinking(request.thinking),
    }
    return {name: value for name, value in fields.items() if value not in (None, "", [])}


def _output_config(request: ModelRequest, provider: str) -> dict[str, object]:
    """Ask for the form of the output, beside what the options say in the same field."""
    if request.output is None:
        return {}
    schema = strict_schema(request.output.schema, ANTHROPIC)
    if schema is None:
        raise ModelBadRequestError(
            f"the schema {request.output.name} holds what {provider} can't enforce",
            provider=provider,
            hint="ask by generate_structured, which makes a tool of it then",
        )
    form: dict[str, object] = {"format": {"type": "json_schema", "schema": schema}}
    return {"output_config": form | mapping(request.options.get("output_config"))}


def _system(request: ModelRequest) -> str | list[object]:
    if isinstance(request.system, str):
        return request.system
    return [write_block(block) for block in request.system]


def write_tool(tool: ToolDefinition) -> dict[str, object]:
    """Write a tool with its `extra`."""
    made = {
        "name": portable_name(tool.name),
        "description": tool.description,
        "input_schema": tool.parameters,
    }
    return extend(made, tool.extra)


def _tool_choice(choice: ToolChoice) -> dict[str, object] | None:
    if isinstance(choice, NamedTool):
        return {"type": "tool", "name": portable_name(choice.name)}
    return None if choice == "auto" else {"type": choice}


def _thinking(budget: int | None) -> dict[str, object] | None:
    if budget is None:
        return None
    return {"type": "enabled", "budget_tokens": budget} if budget else {"type": "disabled"}


def write_block(block: ContentBlock) -> dict[str, object]:
    """Write a block with its `extra`."""
    if isinstance(block, UnknownBlock):
        return block.raw
    made = _fields(block)
    return extend(made, block.extra) if block.extra else made


def _fields(block: _Known) -> dict[str, object]:
    match block:
        case TextBlock(text):
            return {"type": "text", "text": text}
        case ThinkingBlock(thinking, signature):
            return {"type": "thinking", "thinking": thinking, "signature": signature}
        case RedactedThinkingBlock(data):
            return {"type": "redacted_thinking", "data": data}
        case ToolUseBlock(call_id, name, arguments):
            return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
        case ToolResultBlock():
            return _tool_result(block)
        case ImageBlock():
            return {"type": "image", "source": _source(block)}
        case DocumentBlock():
            title = {"title": block.title} if block.title else {}
            return {"type": "document", "source": _source(block), **title}


def _tool_result(block: ToolResultBlock) -> dict[str, object]:
    made: dict[str, object] = {"type": "tool_result", "tool_use_id": block.tool_use_id}
    content = [
        write_block(part)
        for part in block.content
        if not isinstance(part, TextBlock) or part.text.strip()
    ]
    if content:
        made["content"] = content
    if block.is_error:
        made["is_error"] = True
    return made


def _source(block: ImageBlock | DocumentBlock) -> dict[str, object]:
    if block.url:
        return {"type": "url", "url": block.url}
    if block.media_type.startswith("text/"):
        return {"type": "text", "media_type": "text/plain", "data": _plain(block.data)}
    return {"type": "base64", "media_type": block.media_type, "data": block.data}


def _plain(data: str) -> str:
    try:
        return escape_speaker(base64.b64decode(data, validate=True).decode(errors="replace"))
    except ValueError as error:
        raise ModelBadRequestError(
            f"a document's data is not base64: {error}", provider="anthropic"
        ) from error
