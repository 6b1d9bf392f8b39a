"""Ask a model for a value of a type: in which mode, and what to say if the value does not fit."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, overload

from greenroom.core import (
    ConfigurationError,
    Message,
    ModelRequest,
    StopReason,
    TextBlock,
    ToolResultBlock,
)
from greenroom.core._internal import RUNTIME, NamedTool, ToolChoice
from greenroom.llm.model_errors import ModelBadRequestError, ModelOutputError
from greenroom.llm.named_models import use_model
from greenroom.llm.output_type import ANSWER_TOOL, OutputType
from greenroom.llm.provider import LLMProvider, accepts_forced_tool, accepts_output

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")

OutputMode: TypeAlias = Literal["schema", "forced tool", "offered tool"]
"""How a request asks for its type: by the provider's own JSON mode, or by a tool."""

_REFUSALS: dict[OutputMode, tuple[str, ...]] = {
    "schema": ("response_format", "output_config", "output format", "structured output", "schema"),
    "forced tool": ("tool_choice", "tool choice", "forces tool", "thinking"),
    "offered tool": (),
}
"""Words in the error of a server that does not support a mode."""


@overload
async def generate_structured(
    llm: LLMProvider | str, request: ModelRequest, type_: OutputType[T], *, retries: int = 2
) -> T: ...


@overload
async def generate_structured(
    llm: LLMProvider | str, request: ModelRequest, type_: "TypeForm[T]", *, retries: int = 2
) -> T: ...


async def generate_structured(
    llm: LLMProvider | str,
    request: ModelRequest,
    type_: "OutputType[T] | TypeForm[T]",
    *,
    retries: int = 2,
) -> T:
    """Ask a model for a value of a type, and return that value, validated.

    If the provider can enforce a JSON Schema, it does; otherwise the model has to call a tool that
    takes the value. If the server refuses one mode, the next one is tried. A reply that does not
    fit goes back to the model with a list of its mistakes. Each attempt is one model call, and each
    request extends the one before, so most of it comes from the provider's cache. The tools of the
    request stay listed, and are not run.

    Args:
        llm: the model, or its name.
        request: the question; its `max_tokens` must leave room for the value.
        type_: a pydantic model, dataclass, TypedDict, msgspec struct or plain type, or a union or
            list of these; or an `OutputType`, to make its schema once for many requests.
        retries: how often to ask again after a reply that does not fit.

    Raises:
        ModelOutputError: no attempt gave a value that fits; `errors` says what is wrong with the
            last one, and `partial` is that reply.
        ModelContentFilterError: the model, or a filter, refused to answer.
        ModelError: a request failed; the subclass says why.
        ConfigurationError: no schema can express the type, `retries` is negative, or a model that
            is given by name can't be opened.

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
    async with use_model(llm) as model:
        modes = OutputModes(model, request, output)
        while True:
            reply = await _ask(model, request, output, modes)
            try:
                return output.read(reply)
            except ModelOutputError as error:
                if not retries:
                    raise
                retries -= 1
                messages = [*request.messages, reply]
                if reply.stop_reason is not StopReason.PAUSE:  # a pause goes back as it came
                    messages.append(make_correction(reply, error.errors))
                request = replace(request, messages=messages)


async def _ask(
    llm: LLMProvider, request: ModelRequest, output: OutputType[T], modes: "OutputModes"
) -> Message:
    """Ask in the first mode that the server accepts."""
    while True:
        try:
            return await llm.generate(with_output(request, output, modes.current))
        except ModelBadRequestError as error:
            if not modes.give_up(error):
                raise


class OutputModes:
    """The modes in which a model can be asked for a type, the best one first.

    Where a model can't be made to call a tool, the tool is only offered.

    Example:
        >>> from greenroom.testing import ScriptedProvider
        >>> modes = OutputModes(ScriptedProvider("{}"), ModelRequest(messages=[]), OutputType(int))
        >>> modes.current
        'forced tool'
        >>> modes.give_up(ModelBadRequestError("tool_choice is not supported")), modes.current
        (True, 'offered tool')
    """

    def __init__(self, llm: LLMProvider, request: ModelRequest, output: OutputType[T]) -> None:
        """Find the modes that the model supports, as far as that is known."""
        is_enforced = accepts_output(llm, output.schema)
        is_forced = accepts_forced_tool(llm, request)
        modes: list[tuple[OutputMode, bool]] = [
            ("schema", is_enforced),
            ("forced tool", is_forced),
            ("offered tool", True),
        ]
        self._modes = deque(mode for mode, is_possible in modes if is_possible)

    @property
    def current(self) -> OutputMode:
        """The mode for the next request."""
        return self._modes[0]

    def give_up(self, error: ModelBadRequestError) -> bool:
        """Leave the current mode if the server refused it; return whether to ask again."""
        text = error.message.lower()
        is_about_it = any(word in text for word in _REFUSALS[self.current])
        if len(self._modes) == 1 or type(error) is not ModelBadRequestError or not is_about_it:
            return False
        self._modes.popleft()
        return True


def with_output(request: ModelRequest, output: OutputType[T], mode: OutputMode) -> ModelRequest:
    """Return the request, changed to ask for the type in this mode.

    Raises:
        ConfigurationError: a tool of the request has the name of the answer tool.
    """
    if any(tool.name == ANSWER_TOOL for tool in request.tools):
        raise ConfigurationError(
            f"a tool of the request is called {ANSWER_TOOL}, the name of the tool for the answer",
            hint="rename it",
        )
    if mode == "schema":
        return replace(request, output=output.schema, tool_choice="none")
    tools = [*request.tools, output.tool]
    choice: ToolChoice = NamedTool(ANSWER_TOOL) if mode == "forced tool" else "auto"
    return replace(request, tools=tools, tool_choice=choice, output=None)


_UNUSABLE = "This answer can't be used:"


def is_correction(message: Message) -> bool:
    """Whether a message is one of `make_correction`."""
    texts = (message.text, *(result.text for result in message.tool_results))
    return any(text.startswith(_UNUSABLE) for text in texts)


def make_correction(reply: Message, errors: Sequence[str]) -> Message:
    """Return the message that tells the model what is wrong with its reply."""
    faults = "\n".join(f"- {error}" for error in errors)
    if not reply.tool_uses:
        again = "Answer again, with the whole JSON object and nothing else."
        return Message.user(f"{_UNUSABLE}\n{faults}\n{again}", sender=RUNTIME)
    again = f"Call {ANSWER_TOOL} again, with the whole answer."
    text = TextBlock(f"{_UNUSABLE}\n{faults}\n{again}")
    return Message.user(
        [ToolResultBlock(call.id, (text,), is_error=True) for call in reply.tool_uses]
    )
