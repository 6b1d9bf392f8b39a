"""The answer of an `Agent`: when a reply is one, and the value that it gives."""

from typing import Generic, TypeVar

from msgspec import UNSET, to_builtins

from greenroom.core import (
    Message,
    ModelOutputError,
    TextBlock,
    ToolDefinition,
    ToolResultBlock,
    serde,
)
from greenroom.llm import (
    ANSWER_TOOL,
    LLMProvider,
    ModelRequest,
    NamedTool,
    OutputSchema,
    OutputType,
    ToolChoice,
    ask_again,
    output_ways,
)

T = TypeVar("T")

_NOT_RUN = "This call was not run: the answer was given."


def plain(value: object) -> object:
    """Return a value as what JSON can express, as pydantic or msgspec writes it, else as its text."""
    from pydantic_core import to_json

    if type(value) is str:
        return value
    return serde.loads(to_json(value, inf_nan_mode="strings", fallback=_builtins))


def _builtins(value: object) -> object:
    try:
        return to_builtins(value)
    except TypeError:
        return str(value)


class TextAnswer:
    """A text: the model answers by not calling anything more."""

    schema = tool = None

    def choice(self, *, has_tools: bool, is_last: bool) -> ToolChoice:
        """Let the model call no more tools at the last step."""
        return "none" if is_last and has_tools else "auto"

    def is_in(self, reply: Message) -> bool:
        """Whether the model calls nothing."""
        return not reply.tool_uses

    def read(self, reply: Message, *, is_last: bool) -> tuple[object, Message | None]:
        """Return the text of the reply."""
        return reply.text, None


class TypedAnswer(Generic[T]):
    """A value of a type: how a request asks for it, and how a reply gives it.

    Where the provider can hold its replies to a schema, the last reply is such a text. Elsewhere the model
    is offered a tool that takes the value, and is made to call it where it has nothing else to call.
    """

    def __init__(self, output: OutputType[T], llm: LLMProvider, retries: int) -> None:
        """Choose the way that this provider can be asked in."""
        self._output = output
        self._by_schema = output_ways(llm, ModelRequest(messages=()), output)[0] == "schema"
        self._retries = retries
        self._is_asked_again = False

    @property
    def schema(self) -> OutputSchema | None:
        """What the provider holds its replies to."""
        return self._output.schema if self._by_schema else None

    @property
    def tool(self) -> ToolDefinition | None:
        """The tool that takes the value."""
        return None if self._by_schema else self._output.tool

    def choice(self, *, has_tools: bool, is_last: bool) -> ToolChoice:
        """Say which tools the model may, must or must not call at this step."""
        if self._by_schema:
            return "none" if is_last and has_tools else "auto"
        must = is_last or self._is_asked_again or not has_tools
        return NamedTool(ANSWER_TOOL) if must else "auto"

    def is_in(self, reply: Message) -> bool:
        """Whether a reply means to give the answer."""
        calls = [call.name for call in reply.tool_uses]
        return not calls or ANSWER_TOOL in calls

    def read(self, reply: Message, *, is_last: bool) -> tuple[object, Message | None]:
        """Return the value of a reply, and the message that answers its calls or names its mistakes.

        Where it is `msgspec.UNSET`, the model is to answer again.

        Raises:
            ModelOutputError: the reply does not fit, and the model can't be asked again.
            ModelContentFilterError: the model, or a filter, refused to answer.
        """
        answer = [call for call in reply.tool_uses if call.name == ANSWER_TOOL]
        others = [call for call in reply.tool_uses if call.name != ANSWER_TOOL]
        try:
            value = self._output.read(reply)
        except ModelOutputError as error:
            if self._retries < 1 or is_last:
                raise
            self._retries -= 1
            self._is_asked_again = True
            return UNSET, ask_again(reply, error.errors)
        blocks = [ToolResultBlock(call.id, (TextBlock("Taken."),)) for call in answer]
        blocks += [
            ToolResultBlock(call.id, (TextBlock(_NOT_RUN),), is_error=True) for call in others
        ]
        return value, Message.user(blocks) if blocks else None
