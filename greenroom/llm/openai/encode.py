"""Requests in the words of OpenAI's Chat Completions, which many other servers speak as well."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from greenroom.core import (
    ContentBlock,
    ModelRequest,
    NamedTool,
    OutputSchema,
    ToolChoice,
    ToolDefinition,
    portable_name,
    serde,
)
from greenroom.llm.conversation import Turn
from greenroom.llm.fields import extended
from greenroom.llm.media_limits import MediaLimits
from greenroom.llm.openai.hosts import HOSTS, HostProfile
from greenroom.llm.openai.messages import message_of_reply, messages_of_user
from greenroom.llm.openai.reasoning import returned
from greenroom.llm.portable_calls import CallRules
from greenroom.llm.request_encoder import MESSAGES
from greenroom.llm.strict_schema import OPENAI, strict_schema
from greenroom.llm.tool_list import merged_tools
from greenroom.llm.transcript import Written


@dataclass(frozen=True)
class ChatDialect:
    """What a server of Chat Completions takes; requests ask for the token counts too.

    A thinking budget becomes the nearest `reasoning_effort`: none, low (to 2,048 tokens), medium
    (to 8,192) or high.

    Attributes:
        model: the model's name.
        max_tokens: the most that a reply may take where the request does not say; None: no limit.
        host: what is particular to the server.
    """

    model: str
    max_tokens: int | None = None
    host: HostProfile = HOSTS["openai"]

    @property
    def calls(self) -> CallRules:
        """What the server takes as the id and the name of a call."""
        most, length = self.host.longest_call_id, self.host.call_id_length
        return CallRules(longest_id=most, id_length=length)

    @property
    def returns(self) -> frozenset[str]:
        """Which fields of its own messages the server takes back."""
        return self.host.returns

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

    def accept(self, blocks: Sequence[ContentBlock], provider: str) -> Sequence[ContentBlock]:
        """Leave out the reasoning of the server's own replies that it does not take back."""
        if provider != self.provider:
            return blocks
        kept = (returned(block, self.host.returns) for block in blocks)
        return [block for block in kept if block is not None]

    def write(self, turn: Turn) -> Sequence[Mapping[str, object]]:
        """Write a user's turn as one message for each tool result and one for the rest."""
        if turn.role == "assistant":
            return [extended(message_of_reply(turn.blocks), turn.fields)]
        *results, last = messages_of_user(turn.blocks) or [{"role": "user", "content": ""}]
        return [*results, extended(last, turn.fields) if last["role"] == "user" else last]

    def is_marked(self, messages: Sequence[Mapping[str, object]]) -> bool:
        """Say no: these servers find out themselves what to cache."""
        return False

    def body(
        self, request: ModelRequest, written: Written
    ) -> tuple[Mapping[str, object], Iterable[bytes | bytearray]]:
        """Return the fields of a streaming request, and its messages, of which the system is one."""
        limit = request.max_tokens or self.max_tokens
        tools = merged_tools(list(map(write_tool, request.tools)), request.options)
        fields: dict[str, object] = {
            "model": self.model,
            "messages": MESSAGES,
            "stream": True,
            "stream_options": {"include_usage": True},
            **({self.host.limit_field: limit} if limit else {}),
            **_write_settings(request, has_tools=bool(tools.get("tools"))),
            **(_cache_key(request) if self._has_cache_key else {}),
            **request.options,
            **tools,
        }
        return fields, [*map(serde.dumps, _system(request)), *written.pieces()]


def _write_settings(request: ModelRequest, *, has_tools: bool) -> dict[str, object]:
    """Write down the fields that were asked for, and no others."""
    fields: dict[str, object] = {
        "tool_choice": _tool_choice(request.tool_choice) if has_tools else None,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop": list(request.stop_sequences),
        "reasoning_effort": _effort(request.thinking),
        "response_format": _response_format(request.output),
    }
    return {name: value for name, value in fields.items() if value not in (None, [])}


def _cache_key(request: ModelRequest) -> dict[str, object]:
    """Name the conversation; a digest tells nothing of what it is called here."""
    if not (request.cache and request.conversation):
        return {}
    digest = hashlib.blake2b(request.conversation.encode(errors="replace"), digest_size=12)
    return {"prompt_cache_key": f"greenroom-{digest.hexdigest()}"}


def _system(request: ModelRequest) -> list[object]:
    if not request.system:
        return []
    if isinstance(request.system, str):
        return [{"role": "system", "content": request.system}]
    parts = [{"type": "text", "text": block.text} | block.extra for block in request.system]
    return [{"role": "system", "content": parts}]


def write_tool(tool: ToolDefinition) -> dict[str, object]:
    """Write a tool with its `extra`."""
    function = {
        "name": portable_name(tool.name),
        "description": tool.description,
        "parameters": tool.parameters,
    }
    return extended({"type": "function", "function": function}, tool.extra)


def _tool_choice(choice: ToolChoice) -> object:
    if isinstance(choice, NamedTool):
        return {"type": "function", "function": {"name": portable_name(choice.name)}}
    return {"auto": None, "any": "required", "none": "none"}[choice]


def _response_format(output: OutputSchema | None) -> dict[str, object] | None:
    """Ask for the form of the output, strictly where the strict mode can express its schema."""
    if output is None:
        return None
    strict = strict_schema(output.schema, OPENAI)
    form = {
        "name": output.name,
        "strict": strict is not None,
        "schema": output.schema if strict is None else strict,
    }
    return {"type": "json_schema", "json_schema": form}


def _effort(budget: int | None) -> str | None:
    if budget is None:
        return None
    efforts = (("none", 0), ("low", 2048), ("medium", 8192))
    return next((effort for effort, most in efforts if budget <= most), "high")
