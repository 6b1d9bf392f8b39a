"""Asking a model for a value of a type: how the request says so, and again where the reply does not fit."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, overload

from greenroom.core import (
    RUNTIME,
    ConfigurationError,
    Message,
    ModelBadRequestError,
    ModelOutputError,
    ModelRequest,
    NamedTool,
    StopReason,
    TextBlock,
    ToolChoice,
    ToolResultBlock,
)
from greenroom.llm.output_type import ANSWER_TOOL, OutputType
from greenroom.llm.provider import KnowsSchemas, LLMProvider

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")

OutputWay: TypeAlias = Literal["schema", "forced tool", "offered tool"]
"""How a request asks for its type: by the provider's own JSON mode, or by a tool that takes it."""

_REFUSALS: dict[OutputWay, tuple[str, ...]] = {
    "schema": ("response_format", "output_config", "output format", "structured output", "schema"),
    "forced tool": ("tool_choice", "tool choice", "forces tool", "thinking"),
    "offered tool": (),
}
"""What the complaint of a server names that does not take a way of asking."""


@overload
async def generate_structured(
    llm: LLMProvider, request: ModelRequest, type_: OutputType[T], *, retries: int = 2
) -> T: ...


@overload
async def generate_structured(
    llm: LLMProvider, request: ModelRequest, type_: "TypeForm[T]", *, retries: int = 2
) -> T: ...


async def generate_structured(
    llm: LLMProvider,
    request: ModelRequest,
    type_: "OutputType[T] | TypeForm[T]",
    *,
    retries: int = 2,
) -> T:
    """Ask a model for a value of a type, and return that value, validated.

    Where the provider can hold its replies to a JSON Schema, it does; elsewhere the model has to call
    a tool that takes the value. A server that refuses one way of asking is asked in the next. A reply
    that does not fit goes back to the model with what is wrong with it; each attempt is one model
    call, and each request extends the one before, so that the provider's cache serves it. The tools
    of the request stay listed, and are not run.

    Args:
        llm: the model.
        request: what is asked. Give it a `max_tokens` that has room for the value.
        type_: a pydantic model, dataclass, TypedDict, msgspec struct or plain type, or a union or list
            of these; or an `OutputType`, to make its schema once for many requests.
        retries: how often a reply that does not fit is asked for again.

    Raises:
        ModelOutputError: no attempt gave a value that fits; `errors` says what is wrong with the last
            one, and `partial` is that reply.
        ModelContentFilterError: the model, or a filter, refused to answer.
        ModelError: a request failed; the subclass says why.
        ConfigurationError: no schema can express the type, or `retries` is negative.

    Example:
        >>> import trio
        >>> from greenroom.testing import ScriptedProvider
        >>> llm = ScriptedProvider('{"value": 42}')
        >>> request = ModelRequest(messages=[Message.user("Six times seven?")])
        >>> trio.run(generate_structured, llm, request, int)
        42
    """
    if retries < 0:
        raise ConfigurationError(f"retries is {retries}", hint="0 asks once")
    output = type_ if isinstance(type_, OutputType) else OutputType(type_)
    ways = deque(output_ways(llm, request, output))
    while True:
        reply = await _ask(llm, request, output, ways)
        try:
            return output.read(reply)
        except ModelOutputError as error:
            if not retries:
                raise
            retries -= 1
            said = [*request.messages, reply]
            if reply.stop_reason is not StopReason.PAUSE:  # a pause goes back as it came
                said.append(ask_again(reply, error.errors))
            request = replace(request, messages=said)


async def _ask(
    llm: LLMProvider, request: ModelRequest, output: OutputType[T], ways: deque[OutputWay]
) -> Message:
    """Ask in the first of the ways that the server takes; drop those that it refuses."""
    while True:
        try:
            return await llm.generate(ask_for(request, output, ways[0]))
        except ModelBadRequestError as error:
            said = error.message.lower()
            is_about_it = any(word in said for word in _REFUSALS[ways[0]])
            if len(ways) == 1 or type(error) is not ModelBadRequestError or not is_about_it:
                raise
            ways.popleft()


def output_ways(
    llm: LLMProvider, request: ModelRequest, output: OutputType[T]
) -> Sequence[OutputWay]:
    """Return how this provider can be asked for the type, the best way first.

    A model that thinks can't be forced to call a tool; it is told to.
    """
    ways: list[OutputWay] = (
        ["offered tool"] if request.thinking else ["forced tool", "offered tool"]
    )
    if isinstance(llm, KnowsSchemas) and llm.accepts_output(output.schema):
        return ["schema", *ways]
    return ways


def ask_for(request: ModelRequest, output: OutputType[T], way: OutputWay) -> ModelRequest:
    """Return the request that asks for the type in this way.

    Raises:
        ConfigurationError: a tool of the request has the name of the one that gives the answer.
    """
    if any(tool.name == ANSWER_TOOL for tool in request.tools):
        raise ConfigurationError(
            f"a tool of the request is called {ANSWER_TOOL}, as the one that gives the answer",
            hint="rename it",
        )
    if way == "schema":
        return replace(request, output=output.schema, tool_choice="none")
    tools = [*request.tools, output.tool]
    choice: ToolChoice = NamedTool(ANSWER_TOOL) if way == "forced tool" else "auto"
    return replace(request, tools=tools, tool_choice=choice, output=None)


_UNUSABLE = "This answer can't be used:"


def asks_again(message: Message) -> bool:
    """Whether a message was made by `ask_again`."""
    texts = (message.text, *(result.text for result in message.tool_results))
    return any(text.startswith(_UNUSABLE) for text in texts)


def ask_again(reply: Message, errors: Sequence[str]) -> Message:
    """Make the message that tells the model what is wrong with its reply."""
    faults = "\n".join(f"- {error}" for error in errors)
    if not reply.tool_uses:
        again = "Answer again, with the whole JSON object and nothing else."
        return Message.user(f"{_UNUSABLE}\n{faults}\n{again}", sender=RUNTIME)
    again = f"Call {ANSWER_TOOL} again, with the whole answer."
    text = TextBlock(f"{_UNUSABLE}\n{faults}\n{again}")
    return Message.user(
        [ToolResultBlock(call.id, (text,), is_error=True) for call in reply.tool_uses]
    )
