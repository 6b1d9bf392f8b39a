"""Requests to OpenAI's Chat Completions, which many other servers speak as well."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from greenroom import core
from greenroom.core._internal import (
    Effort,
    NamedTool,
    OutputSchema,
    ToolChoice,
    portable_name,
    serde,
)
from greenroom.llm.dialect import WriteMessages
from greenroom.llm.endpoint import is_same_server
from greenroom.llm.json_fields import as_list, as_text, extend
from greenroom.llm.merged_messages import MediaLimits, MergedMessage
from greenroom.llm.openai.calls import CUSTOM
from greenroom.llm.openai.hosts import HOSTS, HostProfile
from greenroom.llm.openai.reasoning import (
    CONTENT_FIELD,
    has_field,
    merge_details,
    reasoning_for_server,
)
from greenroom.llm.portable_calls import CallRules, merge_tools
from greenroom.llm.request_frame import MESSAGES
from greenroom.llm.request_rules import find_effort_of
from greenroom.llm.root_schema import fold_root
from greenroom.llm.strict_schema import OPENAI, strict_schema


def write_user_message(blocks: Sequence[core.ContentBlock]) -> list[dict[str, object]]:
    """Write a user's message: one message for each tool result, then one for the rest.

    The role "tool" allows only text, so a result's images and documents follow in the user's
    message, under a line that names the call.
    """
    results = [block for block in blocks if isinstance(block, core.ToolResultBlock)]
    parts = [part for result in results for part in _attachments(result)]
    parts += [part for block in blocks for part in _part(block)]
    made = [_tool_message(result) for result in results]
    if not parts:
        return made
    alone = len(parts) == 1 and _is_plain(parts[0])
    return [*made, {"role": "user", "content": parts[0]["text"] if alone else parts}]


def write_reply(blocks: Sequence[core.ContentBlock]) -> dict[str, object]:
    """Write an assistant's message, its reasoning under the fields in which it came."""
    calls = [_call(block) for block in blocks if isinstance(block, core.ToolUseBlock)]
    refusals = [b.text for b in blocks if isinstance(b, core.TextBlock) and _is_refusal(b)]
    parts = [part for block in blocks for part in _reply_part(block)]
    made: dict[str, object] = {"role": "assistant", "content": _content(parts)}
    if refusals:
        made["refusal"] = "".join(refusals)
    if calls:
        made["tool_calls"] = calls
    if (calls or refusals) and not parts:
        made["content"] = None
    thoughts = [block for block in blocks if isinstance(block, core.ThinkingBlock)]
    return made | _encode_reasoning(thoughts)


def _stand_in_for_reasoning(blocks: Sequence[core.ContentBlock]) -> list[core.ContentBlock]:
    """Begin a reply with calls and without reasoning with words that say what it calls.

    A server that needs reasoning refuses an empty text as well, and one that is the same each time
    misleads its models.
    """
    names = [block.name for block in blocks if isinstance(block, core.ToolUseBlock)]
    if not names or any(isinstance(block, core.ThinkingBlock) for block in blocks):
        return [*blocks]
    words = f"I call {', '.join(names)}."
    return [core.ThinkingBlock(words, extra={"field": "reasoning_content"}), *blocks]


def write_block(block: core.ContentBlock) -> dict[str, object]:
    """Write one block: a part of a content, a call, or the message of a tool's result."""
    match block:
        case core.ToolUseBlock():
            return _call(block)
        case core.ToolResultBlock():
            return _tool_message(block)
        case _:
            return next(iter(_reply_part(block)), {})


def _content(parts: list[dict[str, object]]) -> object:
    """Write a reply of nothing but text as one string, which every server accepts."""
    if all(map(_is_plain, parts)):
        return "".join(as_text(part["text"]) for part in parts)
    return parts


def _is_plain(part: dict[str, object]) -> bool:
    return part.keys() == {"type", "text"}


def _part(block: core.ContentBlock) -> Iterable[dict[str, object]]:
    match block:
        case core.TextBlock(content, extra):
            yield extend({"type": "text", "text": content}, extra)
        case core.ImageBlock():
            url = {"url": _url(block)} if block.data or block.url else {}
            yield extend({"type": "image_url", "image_url": url}, block.extra)
        case core.DocumentBlock():
            yield extend(_file(block), block.extra)
        case core.UnknownBlock(raw):
            yield raw
        case _:
            pass


def _reply_part(block: core.ContentBlock) -> Iterable[dict[str, object]]:
    match block:
        case core.TextBlock() if _is_refusal(block):
            pass
        case core.ThinkingBlock(thinking, _, extra) if extra.get("field") == CONTENT_FIELD:
            yield {"type": "thinking", "thinking": [{"type": "text", "text": thinking}]}
        case _:
            yield from _part(block)


def _is_refusal(block: core.TextBlock) -> bool:
    return block.extra.get("refusal") is True


def _call(block: core.ToolUseBlock) -> dict[str, object]:
    if block.extra.get("type") == CUSTOM["type"]:
        made: dict[str, object] = {"name": block.name, "input": block.input.get("input", "")}
        return extend({"id": block.id, "custom": made}, block.extra)
    function = {"name": block.name, "arguments": serde.dumps(block.input).decode()}
    return extend({"id": block.id, "type": "function", "function": function}, block.extra)


def _encode_reasoning(blocks: Sequence[core.ThinkingBlock]) -> dict[str, object]:
    made: dict[str, object] = {}
    details: list[object] = []
    for block in blocks:
        field = as_text(block.extra.get("field"))
        if field and field != CONTENT_FIELD:
            made[field] = as_text(made.get(field)) + block.thinking
        details += as_list(block.extra.get("reasoning_details"))
    details = merge_details(details)
    return made | ({"reasoning_details": details} if details else {})


def _tool_message(result: core.ToolResultBlock) -> dict[str, object]:
    content: object = result.text or ("The result follows below." if _attachments(result) else "")
    if result.is_error:
        content = f"Error: {content}"
    texts = [block for block in result.content if isinstance(block, core.TextBlock)]
    if any(block.extra for block in texts):  # only parts can have fields of their own
        parts = [part for block in texts for part in _part(block)]
        content = [{"type": "text", "text": "Error:"}, *parts] if result.is_error else parts
    made: dict[str, object] = {
        "role": "tool",
        "tool_call_id": result.tool_use_id,
        "content": content,
    }
    return extend(made, result.extra)


def _attachments(result: core.ToolResultBlock) -> list[dict[str, object]]:
    attached = [block for block in result.content if not isinstance(block, core.TextBlock)]
    if not attached or "content" in result.extra:
        return []
    head: dict[str, object] = {"type": "text", "text": f"From call {result.tool_use_id}:"}
    return [head, *(part for block in attached for part in _part(block))]


def _url(block: core.ImageBlock | core.DocumentBlock) -> str:
    return block.url or f"data:{block.media_type};base64,{block.data}"


def _file(block: core.DocumentBlock) -> dict[str, object]:
    if block.url:
        # No field takes a document's address, so the model gets it as text.
        return {"type": "text", "text": f"{block.title or 'Document'}: {block.url}"}
    if not block.data:  # the provider has the file, and `extra` its id
        return {"type": "file", "file": {"filename": block.title} if block.title else {}}
    return {
        "type": "file",
        "file": {"filename": block.title or "document.pdf", "file_data": _url(block)},
    }


@dataclass(frozen=True)
class ChatDialect:
    """The format of requests to a server of Chat Completions; they ask for token counts too.

    A thinking budget becomes the nearest effort: none, low (to 2,048 tokens), medium (to 8,192) or
    high.

    Attributes:
        model: the model's name.
        max_tokens: the most tokens of a reply if the request does not say; None: no limit.
        host: the peculiarities of the server.
    """

    model: str
    max_tokens: int | None = None
    host: HostProfile = HOSTS["openai"]
    api = ""
    bound_to = ""

    @property
    def calls(self) -> CallRules:
        """The ids and names of calls that the server accepts."""
        most, length = self.host.longest_call_id, self.host.call_id_length
        return CallRules(longest_id=most, id_length=length)

    @property
    def echoed_fields(self) -> frozenset[str]:
        """The fields of its own messages that the server accepts back."""
        return self.host.echoed_fields

    @property
    def limits(self) -> MediaLimits:
        """How large images, documents and requests may be."""
        return self.host.limits

    @property
    def provider(self) -> str:
        """The provider's name."""
        return self.host.name

    @property
    def _has_cache_key(self) -> bool:
        models = self.host.prompt_cache_key
        return models is not None and models.search(self.model) is not None

    def accept(
        self, blocks: Sequence[core.ContentBlock], message: core.Message
    ) -> Sequence[core.ContentBlock]:
        """Leave out reasoning that has no field, and what the server does not accept back."""
        if not message.provider:
            return [block for block in blocks if has_field(block)]
        if is_same_server(message.provider, self.provider):
            kept = (reasoning_for_server(block, self.host.echoed_fields) for block in blocks)
            accepted = [block for block in kept if block is not None]
        else:
            accepted = [block for block in blocks if has_field(block)]
        return _stand_in_for_reasoning(accepted) if self.host.needs_reasoning else accepted

    def write(self, message: MergedMessage) -> Sequence[Mapping[str, object]]:
        """Write a user's message as one message for each tool result and one for the rest."""
        if message.role == "assistant":
            return [extend(write_reply(message.blocks), message.fields)]
        *results, last = write_user_message(message.blocks) or [{"role": "user", "content": ""}]
        return [*results, extend(last, message.fields) if last["role"] == "user" else last]

    def is_marked(self, messages: Sequence[Mapping[str, object]], wire: bytes) -> bool:
        """Return False: these servers decide themselves what to cache."""
        return False

    def body(
        self, request: core.ModelRequest, *, is_marked: bool
    ) -> tuple[Mapping[str, object], WriteMessages]:
        """Return the fields of a streaming request, and its messages with the system prompt."""
        limit = request.max_tokens or self.max_tokens
        tools = merge_tools(list(map(write_tool, request.tools)), request.options)
        fields: dict[str, object] = {
            "model": self.model,
            "messages": MESSAGES,
            "stream": True,
            **({self.host.limit_field: limit} if limit else {}),
            **_write_settings(request, has_tools=bool(tools.get("tools"))),
            **(write_cache_key(request) if self._has_cache_key else {}),
            **request.options,
            **_write_stream_options(request.options),
            **tools,
        }
        system = list(map(serde.dumps, _write_system(request)))
        return fields, lambda conversation: [*system, *conversation.pieces()]


def _write_settings(request: core.ModelRequest, *, has_tools: bool) -> dict[str, object]:
    """Return the fields that the request sets."""
    form = None if request.output is None else write_format(request.output)
    fields: dict[str, object] = {
        "tool_choice": _write_tool_choice(request.tool_choice) if has_tools else None,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop": list(request.stop_sequences),
        "reasoning_effort": choose_effort(request),
        "seed": request.seed,
        "parallel_tool_calls": request.parallel_tools if has_tools else None,
        "response_format": form and {"type": "json_schema", "json_schema": form},
    }
    return {name: value for name, value in fields.items() if value not in (None, [])}


def _write_stream_options(options: Mapping[str, object]) -> dict[str, object]:
    """Ask for token counts, beside what the options put into the same field."""
    given = options.get("stream_options", {})
    if isinstance(given, Mapping):
        given = {"include_usage": True, **given}
    return {"stream_options": given}


def write_cache_key(request: core.ModelRequest) -> dict[str, object]:
    """Name the conversation by a digest, which does not reveal the session's id."""
    if not (request.cache and request.conversation):
        return {}
    digest = hashlib.blake2b(request.conversation.encode(errors="replace"), digest_size=12)
    return {"prompt_cache_key": f"greenroom-{digest.hexdigest()}"}


def _write_system(request: core.ModelRequest) -> list[object]:
    if not request.system:
        return []
    if isinstance(request.system, str):
        return [{"role": "system", "content": request.system}]
    parts = [{"type": "text", "text": block.text} | block.extra for block in request.system]
    return [{"role": "system", "content": parts}]


def write_tool(tool: core.ToolDefinition) -> dict[str, object]:
    """Write a tool with its `extra`."""
    function = {
        "name": portable_name(tool.name),
        "description": tool.description,
        "parameters": fold_root(tool.parameters),
    }
    return extend({"type": "function", "function": function}, tool.extra)


def _write_tool_choice(choice: ToolChoice) -> object:
    if isinstance(choice, NamedTool):
        return {"type": "function", "function": {"name": portable_name(choice.name)}}
    return {"auto": None, "any": "required", "none": "none"}[choice]


def write_format(output: OutputSchema) -> dict[str, object]:
    """Write the format of the output, strictly if the strict mode can express its schema."""
    strict = strict_schema(output.schema, OPENAI)
    return {
        "name": output.name,
        "strict": strict is not None,
        "schema": output.schema if strict is None else strict,
    }


def choose_effort(request: core.ModelRequest) -> Effort | None:
    """Return the effort of a request, or that of its thinking budget."""
    if request.effort is None and request.thinking is not None:
        return find_effort_of(request.thinking)
    return request.effort
