"""Prompts: what a model was asked, read out of a trace, and what takes up its tokens."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, cast

from greenroom.core import (
    ContentBlock,
    Message,
    ModelRequest,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
)
from greenroom.core._internal import SUMMARY, NamedTool, OutputSchema, ToolChoice
from greenroom.llm import EstimatedCounter
from greenroom.observability import semconv as names
from greenroom.observability.content import read_message
from greenroom.observability.spans import Span

_CHOICES = ("any", "none")


class Section(NamedTuple):
    """A part of a request, and about how many tokens it takes."""

    name: str
    tokens: int


def prompt_sections(request: ModelRequest) -> tuple[Section, ...]:
    """Say what fills a request: system, tools, summary, inputs, replies, calls and results.

    The tokens are estimated, each part alone; a part that the request lacks is left out.

    Example:
        >>> request = ModelRequest(messages=[Message.user("How much is it?")], system="Be brief.")
        >>> [section.name for section in prompt_sections(request)]
        ['system', 'inputs']
    """
    parts: dict[str, list[Message]] = {
        "summary": [],
        "inputs": [],
        "replies": [],
        "calls": [],
        "results": [],
    }
    for message in request.messages:
        for name, content in _split(message).items():
            if content:
                parts[name].append(Message(message.role, tuple(content)))
    counter = EstimatedCounter()
    found = {
        "system": ModelRequest(messages=(), system=request.system),
        "tools": ModelRequest(messages=(), tools=request.tools),
    }
    found |= {name: ModelRequest(messages=each) for name, each in parts.items()}
    nothing = counter.count(ModelRequest(messages=()))
    counted = [Section(name, counter.count(each) - nothing) for name, each in found.items()]
    return tuple(each for each in counted if each.tokens > 0)


def _split(message: Message) -> dict[str, list[ContentBlock]]:
    if message.sender == SUMMARY:
        return {"summary": list(message.content)}
    found: dict[str, list[ContentBlock]] = {}
    other = "replies" if message.role == "assistant" else "inputs"
    for block in message.content:
        is_call, is_result = isinstance(block, ToolUseBlock), isinstance(block, ToolResultBlock)
        name = "calls" if is_call else "results" if is_result else other
        found.setdefault(name, []).append(block)
    return found


def list_requests(spans: Iterable[Span], session_id: str) -> list[Span]:
    """Return the spans of what a session's agent asked its model, in order."""
    return [
        each
        for each in spans
        if each.kind == "model" and each.session_id == session_id and not was_asked_again(each)
    ]


def was_asked_again(span: Span) -> bool:
    """Whether the reply was asked for again in another form: then that is a span of its own."""
    shows = names.INPUT_MESSAGES in span.attributes
    return shows and span.status == "ok" and names.OUTPUT_MESSAGES not in span.attributes


def read_request(span: Span) -> ModelRequest:
    """Make the request of a span with content; what the trace hides or lacks stays so."""
    facts = span.attributes
    tools = cast("Iterable[Mapping[str, object]]", facts.get(names.TOOL_DEFINITIONS, ()))
    written = cast("Iterable[Mapping[str, object]]", facts.get(names.INPUT_MESSAGES, ()))
    system = cast("Iterable[Mapping[str, object]]", facts.get(names.SYSTEM, ()))
    schema = cast("Mapping[str, object] | None", facts.get(names.OUTPUT_SCHEMA))
    given = {
        field: facts[name]
        for field, name in {
            "max_tokens": names.MAX_TOKENS,
            "temperature": names.TEMPERATURE,
            "top_p": names.TOP_P,
            "seed": names.SEED,
            "stop_sequences": names.STOP_SEQUENCES,
            "effort": names.EFFORT,
            "thinking": names.THINKING,
            "parallel_tools": names.PARALLEL_TOOLS,
            "options": names.OPTIONS,
        }.items()
        if name in facts
    }
    return ModelRequest(
        messages=[read_message(each) for each in written],
        system="\n\n".join(str(each.get("content", "")) for each in system),
        tools=[
            ToolDefinition(
                str(each["name"]),
                str(each["description"]),
                dict(cast("Mapping[str, object]", each["parameters"])),
            )
            for each in tools
        ],
        tool_choice=_read_choice(facts.get(names.TOOL_CHOICE)),
        output=OutputSchema("answer", schema) if schema else None,
        **given,  # type: ignore[arg-type]  # as they were written
    )


def _read_choice(value: object) -> ToolChoice:
    if value is None:
        return "auto"
    return cast("ToolChoice", value) if value in _CHOICES else NamedTool(str(value))
