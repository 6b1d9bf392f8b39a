"""Requests to the Gemini API, in which a message is a role and a list of parts.

Newer models refuse a request if the first call of a step has no signature of their own. So calls of
another model get the value with which Google's page lets such calls pass.

Sources: https://ai.google.dev/api/generate-content and
https://ai.google.dev/gemini-api/docs/thought-signatures
"""

import mimetypes
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import UNSET
from msgspec.structs import replace

from greenroom import core
from greenroom.core._internal import NamedTool, ToolChoice, portable_name
from greenroom.llm.dialect import EncodedConversation, WriteMessages
from greenroom.llm.gemini.calls import SIGNATURE
from greenroom.llm.gemini.decode import ASKED
from greenroom.llm.json_fields import as_dict, extend, without
from greenroom.llm.merged_messages import MediaLimits, MergedMessage
from greenroom.llm.portable_calls import CallRules
from greenroom.llm.request_frame import MESSAGES
from greenroom.llm.root_schema import fold_root

_UNCHECKED = "skip_thought_signature_validator"
"""The signature of a call that the model itself did not make."""

_OLDER = re.compile(r"gemini-[12]\b|gemma")  # models that do not check signatures
_SIGNATURES = (SIGNATURE, "thought_signature")
_LEVELS = {"none": "minimal", "xhigh": "high", "max": "high"}  # by effort; others have its name
_ROLES = {"assistant": "model", "user": "user"}


@dataclass(frozen=True)
class GeminiDialect:
    """The format of requests to the Gemini API.

    Signatures go back to the model that gave them, each with its part, and to no other model.

    Attributes:
        model: the model's name.
        max_tokens: the most tokens of a reply if the request does not say; None: no limit.
        thinks: whether the model thinks, so that it is asked to tell its thoughts.
        limits: how large images, documents and requests may be.
    """

    model: str
    max_tokens: int | None = None
    thinks: bool = True
    limits: MediaLimits = field(default_factory=MediaLimits)
    provider = "google"
    api = ""
    bound_to = ""
    calls = CallRules(longest_id=64)
    echoed_fields = frozenset[str]()

    @property
    def is_new(self) -> bool:
        """Whether it is of the third generation or later: one that checks signatures."""
        return _OLDER.match(self.model) is None

    def accept(
        self, blocks: Sequence[core.ContentBlock], message: core.Message
    ) -> Sequence[core.ContentBlock]:
        """Leave out thoughts that have no place, and the thoughts and signatures of other models.

        Thoughts of a message without a provider are sent if they came from a request.
        """
        known = [b for b in blocks if not isinstance(b, core.RedactedThinkingBlock)]
        if not message.provider:
            return [b for b in known if not isinstance(b, core.ThinkingBlock) or _has_state(b)]
        if self._may_have_given(message):
            return known
        kept = [_remove_signature(b) for b in known if not isinstance(b, core.ThinkingBlock)]
        return [b for b in kept if not isinstance(b, core.TextBlock) or b.text.strip()]

    def _may_have_given(self, message: core.Message) -> bool:
        """Whether a reply may be of this model; a server's own names say nothing."""
        names = (self.model, message.model.removeprefix("models/"))
        if self.model == message.extra.get(ASKED) or len(set(names)) == 1:
            return True
        return not all(name.startswith("gemini-") for name in names)

    def write(self, message: MergedMessage) -> Sequence[Mapping[str, object]]:
        """Write a message as one with a list of parts."""
        parts = [
            part
            for block in message.blocks
            for part in write_block(block, message.calls, nests_media=self.is_new)
        ]
        if self.is_new and message.role == "assistant":
            parts = _sign_first_call(parts, message.blocks)
        made = {"role": _ROLES[message.role], "parts": parts or [{"text": "(empty)"}]}
        return [extend(made, message.fields)]

    def is_marked(self, messages: Sequence[Mapping[str, object]], wire: bytes) -> bool:
        """Return False: the server decides itself what to cache."""
        return False

    def body(
        self, request: core.ModelRequest, *, is_marked: bool
    ) -> tuple[Mapping[str, object], WriteMessages]:
        """Return the fields of a request, and its messages.

        Options add to the objects of the same name, such as `generationConfig`, and to the tools.
        """
        tools = _merge_tools(request)
        fields: dict[str, object] = {
            "contents": MESSAGES,
            "systemInstruction": _write_system(request.system),
            "toolConfig": _write_tool_choice(request.tool_choice) if tools else {},
            "generationConfig": self._write_settings(request),
        }
        given = {name: value for name, value in fields.items() if value}
        options = {name: value for name, value in request.options.items() if name != "tools"}
        merged = {n: _drop_unset(v) for n, v in extend(given, options).items()}
        return merged | tools, EncodedConversation.pieces

    def _write_settings(self, request: core.ModelRequest) -> dict[str, object]:
        output = request.output
        fields: dict[str, object] = {
            "maxOutputTokens": request.max_tokens or self.max_tokens,
            "temperature": request.temperature,
            "topP": request.top_p,
            "seed": request.seed,
            "stopSequences": list(request.stop_sequences or ()) or None,
            "thinkingConfig": self._write_thinking(request) or None,
            "responseMimeType": "application/json" if output is not None else None,
            "responseJsonSchema": output.schema if output is not None else None,
        }
        return without(fields)

    def _write_thinking(self, request: core.ModelRequest) -> dict[str, object]:
        """Write how hard to think: as a level, or as a budget, never both."""
        effort, thinking = request.effort, request.thinking
        if effort is not None:
            return {"thinkingLevel": _LEVELS.get(effort, effort), "includeThoughts": True}
        if isinstance(thinking, int):
            shown = {"includeThoughts": True} if thinking else {}
            return {"thinkingBudget": thinking, **shown}
        return {"includeThoughts": True} if self.thinks or thinking else {}


def write_block(
    block: core.ContentBlock,
    calls: Mapping[str, core.ToolUseBlock],
    *,
    nests_media: bool = True,
) -> Iterator[dict[str, object]]:
    """Write the parts of a block.

    Args:
        block: the block.
        calls: the calls that results answer.
        nests_media: whether the images of a result are parts of it, or come after it.
    """
    match block:
        case core.TextBlock(text, extra):
            yield extend({"text": text}, extra)
        case core.ThinkingBlock(thinking, signature, extra):
            signed = {SIGNATURE: signature} if signature else {}
            yield extend({"text": thinking, "thought": True, **signed}, extra)
        case core.ToolUseBlock(call_id, name):
            call = {"id": call_id, "name": name, "args": block.input}
            yield extend({"functionCall": call}, block.extra)
        case core.ToolResultBlock():
            media = [part for each in block.content for part in _write_media(each)]
            if any("parts" in as_dict(value) for value in block.extra.values()):
                media = []  # they were sent as they are in `extra`
            nested = [part for part in media if nests_media and "text" not in part]
            yield _write_result(block, calls, nested)
            yield from (part for part in media if part not in nested)
        case core.UnknownBlock(raw):
            yield raw
        case _:
            yield from _write_media(block)


def _write_result(
    result: core.ToolResultBlock,
    calls: Mapping[str, core.ToolUseBlock],
    media: Sequence[dict[str, object]],
) -> dict[str, object]:
    call = calls.get(result.tool_use_id)
    made: dict[str, object] = {
        "id": result.tool_use_id,
        "name": call.name if call else "unnamed",
        "response": {"error" if result.is_error else "output": result.text},
        **({"parts": list(media)} if media else {}),
    }
    return extend({"functionResponse": made}, result.extra)


def _write_media(block: core.ContentBlock) -> Iterator[dict[str, object]]:
    """Write an image or a document, behind a line with its title if it has one."""
    if isinstance(block, core.UnknownBlock):
        yield block.raw
    if not isinstance(block, core.ImageBlock | core.DocumentBlock):
        return
    if isinstance(block, core.DocumentBlock) and block.title:
        yield {"text": f"Document: {block.title}"}
    made: dict[str, object] = {}
    if block.data:
        made = {"inlineData": {"mimeType": block.media_type, "data": block.data}}
    elif block.url:
        kind = block.media_type or mimetypes.guess_type(block.url)[0]
        made = {"fileData": {"fileUri": block.url, **({"mimeType": kind} if kind else {})}}
    if made or block.extra:
        yield extend(made, block.extra)


def _sign_first_call(
    parts: list[dict[str, object]], blocks: Sequence[core.ContentBlock]
) -> list[dict[str, object]]:
    """Sign the first call of a reply, unless it is signed or was sent like that."""
    place = next((at for at, part in enumerate(parts) if "functionCall" in part), None)
    first = next((block for block in blocks if isinstance(block, core.ToolUseBlock)), None)
    if place is None or first is None or any(name in first.extra for name in _SIGNATURES):
        return parts
    return [*parts[:place], {**parts[place], SIGNATURE: _UNCHECKED}, *parts[place + 1 :]]


def _has_state(block: core.ThinkingBlock) -> bool:
    return bool(block.signature or block.extra)


def _remove_signature(block: core.ContentBlock) -> core.ContentBlock:
    """Return a block without its signature."""
    match block:
        case core.UnknownBlock(raw):
            return core.UnknownBlock({k: v for k, v in raw.items() if k not in _SIGNATURES})
        case core.TextBlock(extra=extra) | core.ToolUseBlock(extra=extra):
            return replace(block, extra={k: v for k, v in extra.items() if k not in _SIGNATURES})
        case _:
            return block


def _write_system(system: str | Sequence[core.TextBlock]) -> dict[str, object]:
    blocks = [core.TextBlock(system)] if isinstance(system, str) and system else system
    parts = [extend({"text": b.text}, b.extra) for b in blocks if isinstance(b, core.TextBlock)]
    return {"parts": parts} if parts else {}


def write_tool(tool: core.ToolDefinition) -> dict[str, object]:
    """Write a tool with its `extra`."""
    made = {
        "name": portable_name(tool.name),
        "description": tool.description,
        "parametersJsonSchema": fold_root(tool.parameters),
        **({"responseJsonSchema": tool.output_schema} if tool.output_schema else {}),
    }
    return extend(made, tool.extra)


def _merge_tools(request: core.ModelRequest) -> dict[str, object]:
    """Return the field `tools`, if any: our own functions, and the tools of the options."""
    extra = request.options.get("tools")
    own: list[object] = []
    if request.tools:
        own.append({"functionDeclarations": list(map(write_tool, request.tools))})
    if extra is None and "tools" not in request.options:
        return {"tools": own} if own else {}
    return {"tools": [*own, *extra] if isinstance(extra, list | tuple) else extra}


def _write_tool_choice(choice: ToolChoice) -> dict[str, object]:
    if isinstance(choice, NamedTool):
        names = [portable_name(choice.name)]
        return {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": names}}
    mode = {"auto": "", "any": "ANY", "none": "NONE"}[choice]
    return {"functionCallingConfig": {"mode": mode}} if mode else {}


def _drop_unset(value: object) -> object:
    """Return a value without the fields of its objects that are `UNSET`."""
    if not isinstance(value, dict):
        return value
    return {name: _drop_unset(item) for name, item in value.items() if item is not UNSET}


def list_contents(value: object) -> list[dict[str, object]]:
    """Return the messages of `contents`, which may be one message or a text."""
    if isinstance(value, str):
        return [{"role": "user", "parts": [{"text": value}]}]
    return list(map(as_dict, value if isinstance(value, list) else [value] if value else []))
