"""What is asked of a model: one request in our words, which each provider puts into its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from greenroom.core.content import TextBlock
from greenroom.core.message import Message
from greenroom.core.tooling import ToolDefinition


@dataclass(frozen=True)
class NamedTool:
    """The choice of one tool that the model must call."""

    name: str


ToolChoice: TypeAlias = Literal["auto", "any", "none"] | NamedTool
"""Whether the model may, must or must not call a tool, or which one it must call."""


@dataclass(frozen=True)
class OutputSchema:
    """The form that a reply's text must have: one JSON object that fits a JSON Schema.

    Attributes:
        name: letters, digits, `_` and `-`, at most 64; the model sees it.
        schema: a JSON Schema of type object. Each provider adapts it to the keywords that it knows,
            so the reply has to be checked against the whole schema.
    """

    name: str
    schema: Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """A request to a model; nothing is added to it on its way to the wire.

    Attributes:
        messages: the conversation so far, its last message usually the user's.
        system: the system prompt, unchanged; blocks may carry `extra` such as a cache marker.
        tools: the tools that the model may ask for.
        tool_choice: whether it may, must or must not, or which one it must.
        max_tokens: the most that the reply may take; None leaves it to the provider's default.
        temperature: the sampling temperature, where it should not be the model's default.
        top_p: the nucleus to sample from, where it should not be the model's default.
        stop_sequences: texts at which the reply stops.
        thinking: how many tokens the model may think for; 0 turns thinking off, None says nothing.
        options: fields of the provider's own request body; they have the last word.
        cache: whether the provider may mark what its cache should keep; it does so by default,
            except where the request brings marks of its own.
        output: the form that the reply must have, for providers that can enforce one;
            `generate_structured` knows which can.
        conversation: names the conversation that the request belongs to, such as a session's id, so
            that a provider can bring its requests to where its beginning is cached; may be empty.

    Example:
        >>> request = ModelRequest(messages=[Message.user("hello")], system="Be brief.")
        >>> request.tool_choice
        'auto'
    """

    messages: Sequence[Message]
    system: str | Sequence[TextBlock] = ""
    tools: Sequence[ToolDefinition] = ()
    tool_choice: ToolChoice = "auto"
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop_sequences: Sequence[str] = ()
    thinking: int | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    cache: bool = True
    output: OutputSchema | None = None
    conversation: str = ""
