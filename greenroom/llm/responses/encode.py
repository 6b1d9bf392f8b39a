"""Requests to the Responses API, in which a conversation is a list of items."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from greenroom import core
from greenroom.core._internal import NamedTool, ToolChoice, portable_name, serde
from greenroom.llm.dialect import EncodedConversation, WriteMessages
from greenroom.llm.json_fields import as_dict, as_list, as_text, extend
from greenroom.llm.merged_messages import MediaLimits, MergedMessage
from greenroom.llm.model_errors import ModelBadRequestError
from greenroom.llm.openai.encode import choose_effort, write_cache_key, write_format
from greenroom.llm.openai.hosts import HOSTS, HostProfile
from greenroom.llm.portable_calls import CallRules, merge_tools
from greenroom.llm.request_frame import MESSAGES
from greenroom.llm.responses.decode import API
from greenroom.llm.root_schema import fold_root

_ENCRYPTED = "reasoning.encrypted_content"
CUSTOM = "custom_tool_call"
"""The kind of a call whose input is free text."""


@dataclass(frozen=True)
class ResponsesDialect:
    """The format of requests to the Responses API; nothing is stored at the vendor's.

    So reasoning is sent back encrypted, as it came. What the API refuses alone is left out:
    reasoning at the end of a reply that was cut off, and the ids of items whose reasoning is gone.

    Attributes:
        model: the model's name.
        max_tokens: the most tokens of a reply if the request does not say; None: no limit.
        host: the peculiarities of the server.
        thinks: whether the model reasons, so that its reasoning is asked for.
    """

    model: str
    max_tokens: int | None = None
    host: HostProfile = HOSTS["openai"]
    thinks: bool = True
    api = API
    bound_to = ""
    calls = CallRules(longest_id=64)
    echoed_fields = frozenset[str]()

    @property
    def provider(self) -> str:
        """The provider's name."""
        return self.host.name

    @property
    def limits(self) -> MediaLimits:
        """How large images, documents and requests may be."""
        return self.host.limits

    def accept(
        self, blocks: Sequence[core.ContentBlock], message: core.Message
    ) -> Sequence[core.ContentBlock]:
        """Leave out reasoning that would be refused, and then what refers to it."""
        if not message.provider:
            return [
                b for b in blocks if not isinstance(b, core.ThinkingBlock) or b.signature or b.extra
            ]
        kept = _leave_out_thinking(blocks)
        if len(kept) == len(blocks) and not _has_lost_thinking(message):
            return kept
        return [_without_id(block) for block in kept if not _is_of_vendor(block)]

    def write(self, message: MergedMessage) -> Sequence[Mapping[str, object]]:
        """Write a message as items: results of calls, messages, reasoning, calls."""
        if message.role == "assistant":
            items = list(write_reply(message.blocks))
        else:
            items = list(write_user_message(message.blocks, message.calls))
        if message.fields and items:
            items[-1] = extend(items[-1], message.fields)
        return items

    def is_marked(self, messages: Sequence[Mapping[str, object]], wire: bytes) -> bool:
        """Return False: the server decides itself what to cache."""
        return False

    def body(
        self, request: core.ModelRequest, *, is_marked: bool
    ) -> tuple[Mapping[str, object], WriteMessages]:
        """Return the fields of a streaming request, and its items.

        Raises:
            ModelBadRequestError: the request has a setting that this API lacks.
        """
        for name, value in (("stop", request.stop_sequences), ("seed", request.seed)):
            if value not in (None, (), []):
                raise ModelBadRequestError(
                    f"the Responses API has no {name}", provider=self.provider, hint="leave it out"
                )
        limit = request.max_tokens or self.max_tokens
        tools = merge_tools(list(map(write_tool, request.tools)), request.options)
        fields: dict[str, object] = {
            "model": self.model,
            "input": MESSAGES,
            "stream": True,
            "store": False,
            **({"include": [_ENCRYPTED]} if self.thinks else {}),
            **({"max_output_tokens": limit} if limit else {}),
            **_write_settings(request, has_tools=bool(tools.get("tools"))),
            **(write_cache_key(request) if self.host.prompt_cache_key else {}),
            **request.options,
            **tools,
        }
        return fields, EncodedConversation.pieces


def _leave_out_thinking(blocks: Sequence[core.ContentBlock]) -> list[core.ContentBlock]:
    """Leave out reasoning without its secret, or without the item that came after it.

    A text without its item is not as it came: it was cut off, or a guard has changed it.
    """
    kept: list[core.ContentBlock] = []
    is_followed = False
    for block in reversed(blocks):
        if not isinstance(block, core.ThinkingBlock):
            is_followed = not isinstance(block, core.TextBlock) or "item" in block.extra
        elif not (block.signature and is_followed):
            continue
        kept.append(block)
    return kept[::-1]


def _has_lost_thinking(message: core.Message) -> bool:
    """Whether a reply has tokens of reasoning and no reasoning, since a compaction left it out."""
    thoughts = message.usage and message.usage.reasoning_tokens
    return bool(thoughts) and not any(isinstance(b, core.ThinkingBlock) for b in message.content)


def _is_of_vendor(block: core.ContentBlock) -> bool:
    """Whether an item is of a tool that the vendor ran, which can't be sent without its id."""
    return isinstance(block, core.UnknownBlock) and "id" in block.raw and "call_id" not in block.raw


def write_reply(blocks: Sequence[core.ContentBlock]) -> Iterator[dict[str, object]]:
    """Write a reply as the items that it came as; the parts of a message are one item again."""
    for item_id, group in groupby(blocks, _find_message):
        if item_id is None:
            yield from map(write_item, group)
            continue
        parts = [block for block in group if isinstance(block, core.TextBlock)]
        item = as_dict(parts[0].extra.get("item"))
        content = list(map(write_part, parts))
        yield {"type": "message", "role": "assistant", "content": content, **item}


def _find_message(block: core.ContentBlock) -> object:
    """Return the id of the message that a text is a part of; None for any other item."""
    if not isinstance(block, core.TextBlock):
        return None
    return as_text(as_dict(block.extra.get("item")).get("id"))


def write_item(block: core.ContentBlock) -> dict[str, object]:
    """Write a block that is an item of its own."""
    match block:
        case core.ThinkingBlock(_, signature, extra):
            encrypted = {"encrypted_content": signature} if signature else {}
            return {"type": "reasoning", "summary": [], **encrypted, **extra}
        case core.ToolUseBlock() if block.extra.get("type") == CUSTOM:
            text = block.input.get("input", "")
            return extend({"call_id": block.id, "name": block.name, "input": text}, block.extra)
        case core.ToolUseBlock():
            made = {
                "type": "function_call",
                "call_id": block.id,
                "name": block.name,
                "arguments": serde.dumps(block.input).decode(),
            }
            return extend(made, block.extra)
        case core.ToolResultBlock():
            return _write_result(block)
        case core.UnknownBlock(raw):
            return raw
        case _:
            return {"type": "message", "role": "user", "content": list(write_input(block))}


def write_part(block: core.TextBlock) -> dict[str, object]:
    """Write a part of a reply's message."""
    extra = {name: value for name, value in block.extra.items() if name != "item"}
    if extra.get("type") == "refusal":
        return extend({"type": "refusal", "refusal": block.text}, extra)
    return extend({"type": "output_text", "text": block.text}, extra)


def _without_id(block: core.ContentBlock) -> core.ContentBlock:
    """Return a block without the id of its item, which names the reasoning that it had."""
    match block:
        case core.TextBlock(text, extra):
            item = {k: v for k, v in as_dict(extra.get("item")).items() if k != "id"}
            return core.TextBlock(text, {**extra, "item": item})
        case core.ToolUseBlock(extra=extra):
            kept = {k: v for k, v in extra.items() if k != "id"}
            return core.ToolUseBlock(
                block.id, block.name, block.input, block.invalid, block.raw_input, kept
            )
        case _:
            return block


def write_user_message(
    blocks: Sequence[core.ContentBlock], calls: Mapping[str, core.ToolUseBlock]
) -> Iterator[dict[str, object]]:
    """Write a user's message: an item for each result of these calls, then one with the rest."""
    parts = list[object]()
    for block in blocks:
        match block:
            case core.ToolResultBlock():
                yield _write_result(block, calls.get(block.tool_use_id))
            case core.UnknownBlock(raw) if "type" in raw and not _is_part(raw):
                yield raw
            case _:
                parts += write_input(block)
    if parts:
        yield {"type": "message", "role": "user", "content": parts}


def _is_part(raw: Mapping[str, object]) -> bool:
    return as_text(raw.get("type")).startswith("input_")


def _write_result(
    result: core.ToolResultBlock, call: core.ToolUseBlock | None = None
) -> dict[str, object]:
    parts = [part for block in result.content for part in write_input(block)]
    is_text = all(as_dict(part).get("type") == "input_text" for part in parts)
    output: object = result.text if is_text else parts
    if result.is_error:
        output = f"Error: {output}" if isinstance(output, str) else [*_ERROR, *parts]
    is_custom = call is not None and call.extra.get("type") == CUSTOM
    made: dict[str, object] = {
        "type": f"{CUSTOM}_output" if is_custom else "function_call_output",
        "call_id": result.tool_use_id,
        "output": output,
    }
    return extend(made, result.extra)


_ERROR: list[object] = [{"type": "input_text", "text": "Error:"}]


def write_input(block: core.ContentBlock) -> Iterator[dict[str, object]]:
    """Write a part of a user's message or of a result, if the block is one."""
    match block:
        case core.TextBlock(text, extra):
            yield extend({"type": "input_text", "text": text}, extra)
        case core.ImageBlock():
            yield extend({"type": "input_image", **_write_address(block, "image_url")}, block.extra)
        case core.DocumentBlock() if block.url:
            yield extend({"type": "input_file", "file_url": block.url}, block.extra)
        case core.DocumentBlock():
            name = {"filename": block.title or "document.pdf"} if block.data else {}
            made = {"type": "input_file", **name, **_write_address(block, "file_data")}
            yield extend(made, block.extra)
        case core.UnknownBlock(raw):
            yield raw
        case _:
            pass


def _write_address(block: core.ImageBlock | core.DocumentBlock, field: str) -> dict[str, object]:
    data = f"data:{block.media_type};base64,{block.data}" if block.data else ""
    address = block.url or data
    return {field: address} if address else {}  # else the provider has it, and `extra` its id


def _write_settings(request: core.ModelRequest, *, has_tools: bool) -> dict[str, object]:
    effort = choose_effort(request)
    form = None if request.output is None else write_format(request.output)
    fields: dict[str, object] = {
        "instructions": _write_system(request.system),
        "tool_choice": _write_tool_choice(request.tool_choice) if has_tools else None,
        "parallel_tool_calls": request.parallel_tools if has_tools else None,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "reasoning": {"effort": effort} if effort else None,
        "text": form and {"format": {"type": "json_schema", **form}},
    }
    return {name: value for name, value in fields.items() if value not in (None, "")}


def _write_system(system: str | Sequence[core.TextBlock]) -> str:
    return system if isinstance(system, str) else "\n\n".join(block.text for block in system)


def write_tool(tool: core.ToolDefinition) -> dict[str, object]:
    """Write a tool with its `extra`."""
    made = {
        "type": "function",
        "name": portable_name(tool.name),
        "description": tool.description,
        "parameters": fold_root(tool.parameters),
        "strict": False,
    }
    return extend(made, tool.extra)


def _write_tool_choice(choice: ToolChoice) -> object:
    if isinstance(choice, NamedTool):
        return {"type": "function", "name": portable_name(choice.name)}
    return {"auto": None, "any": "required", "none": "none"}[choice]


def list_items(value: object) -> list[dict[str, object]]:
    """Return the items of an input, which may be a text."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    return list(map(as_dict, as_list(value)))
