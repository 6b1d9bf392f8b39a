"""Requests to Anthropic's Messages API, with the marks for its cache."""

import base64
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec import UNSET, Struct

from greenroom import core
from greenroom.core._internal import NamedTool, OutputSchema, portable_name, serde
from greenroom.llm.dialect import EncodedConversation, EncodedMessage, WriteMessages
from greenroom.llm.json_fields import as_dict, as_list, as_text, extend
from greenroom.llm.merged_messages import WEB_IMAGES, MediaLimits, MergedMessage, escape_speaker
from greenroom.llm.model_errors import ModelBadRequestError
from greenroom.llm.portable_calls import PLAIN, CallRules, merge_tools
from greenroom.llm.request_frame import MESSAGES
from greenroom.llm.request_rules import is_same_model
from greenroom.llm.root_schema import fold_root
from greenroom.llm.strict_schema import ANTHROPIC, strict_schema

# The cache serves the longest prefix that an earlier request marked, in the order tools, system,
# messages. So the marks go where the next request will still be the same: after the tools, after
# the system prompt, after the user's last message, and after the user's message before that, where
# the last request ended. Without a mark there, the API looks for a known prefix only some 20 blocks
# back, and a reply with many calls is longer than that. The API takes at most four marks.
#
# A mark after too few tokens (1,024 with most models) has no effect.

_FIELD = "cache_control"
_MARK = {_FIELD: {"type": "ephemeral"}}

# Thinking with a mark is refused, and blocks of unknown kinds may be.
_MARKABLE = frozenset({"text", "image", "document", "search_result", "tool_use", "tool_result"})

_MARKED_MESSAGES = 2


def has_no_marks(fields: Mapping[str, object]) -> bool:
    """Whether these fields of a request have no mark of their own.

    Example:
        >>> has_no_marks({"system": "Be brief."})
        True
        >>> has_no_marks({"cache_control": {"type": "ephemeral"}})
        False
    """
    blocks = [*as_list(fields.get("system")), *as_list(fields.get("tools"))]
    return not any(_FIELD in as_dict(each) for each in (fields, *blocks))


def has_mark(part: object) -> bool:
    """Whether a message or a block, as it is sent, has a mark at any depth.

    Example:
        >>> inner = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
        >>> has_mark({"role": "user", "content": [{"type": "tool_result", "content": [inner]}]})
        True
    """
    fields = as_dict(part)
    source = as_dict(fields.get("source"))
    inner = (*as_list(fields.get("content")), *as_list(source.get("content")))
    return _FIELD in fields or any(map(has_mark, inner))


def mark_fields(fields: Mapping[str, object]) -> dict[str, object]:
    """Mark the end of the tools and of the system prompt, where there are any.

    Example:
        >>> mark_fields({"model": "m", "system": "Be brief."})["system"]
        [{'type': 'text', 'text': 'Be brief.', 'cache_control': {'type': 'ephemeral'}}]
    """
    tools = as_list(fields.get("tools"))
    system = fields.get("system")
    if isinstance(system, str):
        system = [{"type": "text", "text": system}]
    # Tools that are loaded later, when a search finds them, are not part of the prefix.
    at_once = [place for place, tool in enumerate(tools) if not as_dict(tool).get("defer_loading")]
    marked = {"tools": _mark(tools, at_once), "system": _mark_last(as_list(system))}
    return {**fields, **{name: blocks for name, blocks in marked.items() if blocks}}


def mark_messages(conversation: EncodedConversation) -> list[bytes | bytearray]:
    """Return messages as bytes, with a mark at the end of the user's last two that take one."""
    made: list[bytes | bytearray] = []
    left = _MARKED_MESSAGES
    for message in reversed(conversation.latest):
        marked = _mark_message(message) if left else b""
        if not left:
            message.with_mark = None  # newer ones have the marks now
        left -= bool(marked)
        made.append(marked or message.wire)
    return [conversation.prefix, *made[::-1]]


def _mark_message(message: EncodedMessage) -> bytes:
    """Return a user's message with its mark, or nothing if it can't have one."""
    if message.with_mark is None:
        *before, last = message.messages
        content = _mark_last(as_list(last.get("content"))) if last.get("role") == "user" else []
        marked = [*before, {**last, "content": content}] if content else []
        message.with_mark = serde.dumps(marked)[1:-1]
    return message.with_mark


def _mark_last(blocks: Sequence[object]) -> list[object]:
    """Mark the last block that can be marked; without one, return no blocks."""
    return _mark(blocks, [place for place, block in enumerate(blocks) if _can_mark(block)])


def _can_mark(block: object) -> bool:
    fields = as_dict(block)
    is_blank = fields.get("type") == "text" and not as_text(fields.get("text")).strip()
    return fields.get("type") in _MARKABLE and not is_blank


def _mark(blocks: Sequence[object], places: Sequence[int]) -> list[object]:
    """Mark the block at the last of these places; without a place, return no blocks."""
    if not places:
        return []
    at = places[-1]
    return [*blocks[:at], {**as_dict(blocks[at]), **_MARK}, *blocks[at + 1 :]]


_Known: TypeAlias = (
    core.TextBlock
    | core.ThinkingBlock
    | core.RedactedThinkingBlock
    | core.ToolUseBlock
    | core.ToolResultBlock
    | core.ImageBlock
    | core.DocumentBlock
)

_THINKING = (core.ThinkingBlock, core.RedactedThinkingBlock)

_LIMITS = MediaLimits(image=5 * 1024 * 1024, request=32 * 1024 * 1024, image_types=WEB_IMAGES)
_WITHOUT_SAMPLING = "2026-10-21"
_VERTEX_VERSION = "vertex-2023-10-16"
_SAMPLING = ("temperature", "top_p", "top_k")


class MessagesDialect(Struct, frozen=True):
    """The format of Anthropic's requests.

    Thinking without a signature, and thinking at the end of a message, would be refused, so they
    are left out.

    Attributes:
        model: the model's name.
        max_tokens: the most tokens of a reply if the request does not say; a thinking budget is
            added to it, since it counts as output.
        provider: the provider's name.
        version: the version of the API; since 2026-10-21 it refuses sampling parameters, and
            citations in user messages.
        limits: how large images, documents and requests may be.
        bound_to: the model, if its thinking is bound to what came before it; else empty.
        max_output: the most tokens that the model can write, if that is known.
        on_vertex: whether the address names the model, and the body the version of the API.
    """

    model: str
    max_tokens: int
    provider: str = "anthropic"
    version: str = "2023-06-01"
    limits: MediaLimits = _LIMITS
    bound_to: str = ""
    max_output: int | None = None
    on_vertex: bool = False
    api = ""
    calls = CallRules(forbidden=PLAIN, longest_name=128)
    echoed_fields = frozenset[str]()

    def accept(
        self, blocks: Sequence[core.ContentBlock], message: core.Message
    ) -> Sequence[core.ContentBlock]:
        """Leave out thinking that would be refused, and that of other models."""
        if not is_same_model(message.model, self.model):
            return [b for b in blocks if not isinstance(b, _THINKING)]
        kept = [b for b in blocks if not isinstance(b, core.ThinkingBlock) or b.signature]
        while kept and isinstance(kept[-1], _THINKING):
            kept.pop()
        return kept

    def write(self, message: MergedMessage) -> Sequence[Mapping[str, object]]:
        """Write a message.

        Raises:
            ModelBadRequestError: the data of a text document is not base64.
        """
        blocks = [write_block(block) for block in message.blocks]
        if message.role == "user" and self.version >= _WITHOUT_SAMPLING:
            blocks = [_without_citations(block) for block in blocks]
        made = {"role": message.role, "content": blocks}
        return [extend(made, message.fields)]

    def is_marked(self, messages: Sequence[Mapping[str, object]], wire: bytes) -> bool:
        """Whether messages as they are sent have cache markers of their own."""
        return _FIELD.encode() in wire and any(map(has_mark, messages))

    def body(
        self, request: core.ModelRequest, *, is_marked: bool
    ) -> tuple[Mapping[str, object], WriteMessages]:
        """Return the fields of a streaming request, and what writes and marks its messages.

        Raises:
            ModelBadRequestError: Anthropic can't enforce the schema of the output, or the API, or
                this version of it, does not have a parameter of the request.
        """
        tools = merge_tools(list(map(write_tool, request.tools)), request.options)
        fields: dict[str, object] = {
            **({"anthropic_version": _VERTEX_VERSION} if self.on_vertex else {"model": self.model}),
            "max_tokens": request.max_tokens or self._find_limit(request),
            "messages": MESSAGES,
            "stream": True,
            **_write_settings(request, has_tools=bool(tools.get("tools"))),
            **request.options,
            **tools,
            **_write_output_config(request, self.provider),
        }
        if request.seed is not None:
            raise ModelBadRequestError(
                "Anthropic's API has no seed", provider=self.provider, hint="leave it out"
            )
        if self.version >= _WITHOUT_SAMPLING:
            self._check_sampling(fields)
        is_ours = fields["messages"] is MESSAGES and not is_marked
        if not (request.cache and is_ours and has_no_marks(fields)):
            return fields, EncodedConversation.pieces
        return mark_fields(fields), mark_messages

    def _find_limit(self, request: core.ModelRequest) -> int:
        """Return the limit of the reply to a request without one, its thinking included."""
        limit = self.max_tokens + _read_budget(request)
        return min(limit, self.max_output or limit)

    def _check_sampling(self, fields: Mapping[str, object]) -> None:
        for name in _SAMPLING:
            if fields.get(name, UNSET) is not UNSET:
                raise ModelBadRequestError(
                    f"version {self.version} of Anthropic's API has no {name}",
                    provider=self.provider,
                    hint=f'leave it out, or use version="2023-06-01", which still has {name}',
                )


def _without_citations(block: dict[str, object]) -> dict[str, object]:
    """Leave out the citations of a text from a reply: a user's text can't have any."""
    if block.get("type") != "text" or "citations" not in block:
        return block
    return {name: value for name, value in block.items() if name != "citations"}


def _write_settings(request: core.ModelRequest, *, has_tools: bool) -> dict[str, object]:
    """Return the fields that the request sets."""
    fields = {
        "system": _write_system(request),
        "tool_choice": _write_tool_choice(request) if has_tools else None,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop_sequences": list(request.stop_sequences),
        "thinking": _write_thinking(request),
    }
    return {name: value for name, value in fields.items() if value not in (None, "", [])}


def _write_output_config(request: core.ModelRequest, provider: str) -> dict[str, object]:
    """Ask for an effort and a format, next to what the options put into the same field."""
    effort = {} if request.effort in (None, "none") else {"effort": request.effort}
    form = {} if request.output is None else {"format": _write_format(request.output, provider)}
    config = {**effort, **form, **as_dict(request.options.get("output_config"))}
    return {"output_config": config} if effort or form else {}


def _write_format(output: OutputSchema, provider: str) -> dict[str, object]:
    schema = strict_schema(output.schema, ANTHROPIC)
    if schema is None:
        raise ModelBadRequestError(
            f"{provider} can't enforce the schema {output.name}",
            provider=provider,
            hint="use generate_structured, which turns such a schema into a tool",
        )
    return {"type": "json_schema", "schema": schema}


def _write_system(request: core.ModelRequest) -> str | list[object]:
    if isinstance(request.system, str):
        return request.system
    return [write_block(block) for block in request.system]


def write_tool(tool: core.ToolDefinition) -> dict[str, object]:
    """Write a tool with its `extra`."""
    made = {
        "name": portable_name(tool.name),
        "description": tool.description,
        "input_schema": fold_root(tool.parameters),
    }
    return extend(made, tool.extra)


def _write_tool_choice(request: core.ModelRequest) -> dict[str, object] | None:
    choice = request.tool_choice
    apart = {} if request.parallel_tools is not False else {"disable_parallel_tool_use": True}
    if isinstance(choice, NamedTool):
        return {"type": "tool", "name": portable_name(choice.name), **apart}
    if choice == "none" or (choice == "auto" and not apart):
        return None if choice == "auto" else {"type": choice}
    return {"type": choice, **apart}


def _read_budget(request: core.ModelRequest) -> int:
    return request.thinking if isinstance(request.thinking, int) else 0


def _write_thinking(request: core.ModelRequest) -> dict[str, object] | None:
    """Write whether and how to think, as far as the request says; no effort turns it off."""
    how = 0 if request.thinking is None and request.effort == "none" else request.thinking
    if how is None or isinstance(how, str):
        return None if how is None else {"type": how}
    return {"type": "enabled", "budget_tokens": how} if how else {"type": "disabled"}


def write_block(block: core.ContentBlock) -> dict[str, object]:
    """Write a block with its `extra`."""
    if isinstance(block, core.UnknownBlock):
        return block.raw
    made = _write_fields(block)
    return extend(made, block.extra) if block.extra else made


def _write_fields(block: _Known) -> dict[str, object]:
    match block:
        case core.TextBlock(text):
            return {"type": "text", "text": text}
        case core.ThinkingBlock(thinking, signature):
            return {"type": "thinking", "thinking": thinking, "signature": signature}
        case core.RedactedThinkingBlock(data):
            return {"type": "redacted_thinking", "data": data}
        case core.ToolUseBlock(call_id, name, arguments):
            return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
        case core.ToolResultBlock():
            return _write_result(block)
        case core.ImageBlock():
            return {"type": "image", "source": _write_source(block)}
        case core.DocumentBlock():
            title = {"title": block.title} if block.title else {}
            return {"type": "document", "source": _write_source(block), **title}


def _write_result(block: core.ToolResultBlock) -> dict[str, object]:
    made: dict[str, object] = {"type": "tool_result", "tool_use_id": block.tool_use_id}
    content = [
        write_block(part)
        for part in block.content
        if not isinstance(part, core.TextBlock) or part.text.strip()
    ]
    if content:
        made["content"] = content
    if block.is_error:
        made["is_error"] = True
    return made


def _write_source(block: core.ImageBlock | core.DocumentBlock) -> dict[str, object]:
    if block.url:
        return {"type": "url", "url": block.url}
    if block.media_type.startswith("text/"):
        return {"type": "text", "media_type": "text/plain", "data": _decode_text(block.data)}
    return {"type": "base64", "media_type": block.media_type, "data": block.data}


def _decode_text(data: str) -> str:
    try:
        return escape_speaker(base64.b64decode(data, validate=True).decode(errors="replace"))
    except ValueError as error:
        raise ModelBadRequestError(
            f"a document's data is not base64: {error}", provider="anthropic"
        ) from error
