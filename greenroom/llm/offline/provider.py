"""The offline model: it drives the real tools by a handful of rules, without key or network."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from greenroom.core import (
    ContentBlock,
    Message,
    ModelBadRequestError,
    ModelRequest,
    Price,
    StopReason,
    TextBlock,
    ToolUseBlock,
)
from greenroom.llm.fields import mapping
from greenroom.llm.offline.answers import answer
from greenroom.llm.offline.orders import EXAMPLES, Order, parse
from greenroom.llm.output_type import ANSWER_TOOL
from greenroom.llm.replay import replay
from greenroom.llm.stream import ModelStream, collect

_WHO = "I am the offline model: a handful of rules, no language model."
_HELP = "\n".join(
    (
        _WHO,
        "I understand requests such as these:",
        "",
        *(f"- {example}" for example in EXAMPLES),
        "",
        "To talk to a language model, set ANTHROPIC_API_KEY or OPENAI_API_KEY and start again.",
    )
)


class OfflineProvider:
    """Answers a request by rules: one call of a tool, then what the tool gave.

    The same history always gives the same reply, without delay. Only tools of the request are
    called. It counts no tokens, so its messages have no usage.

    Example:
        >>> import trio
        >>> request = ModelRequest(messages=[Message.user("What is love?")])
        >>> trio.run(OfflineProvider().generate, request).text.splitlines()[0]
        'I am the offline model: a handful of rules, no language model.'
    """

    name = "offline"
    model = "rules"
    price = Price(0, 0)

    def __repr__(self) -> str:
        return "OfflineProvider()"

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[ModelStream]:
        """Answer a request, its text word by word.

        Raises:
            ModelBadRequestError: the request wants an answer of a certain form.
        """
        return replay(_reply(request))

    async def generate(self, request: ModelRequest) -> Message:
        """Answer a request.

        Raises:
            ModelBadRequestError: the request wants an answer of a certain form.
        """
        return await collect(self.stream(request))

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""


def _reply(request: ModelRequest) -> Message:
    if request.output is not None or any(tool.name == ANSWER_TOOL for tool in request.tools):
        raise ModelBadRequestError(
            "the offline model can't give an answer of a certain form",
            provider=OfflineProvider.name,
            hint="set ANTHROPIC_API_KEY or OPENAI_API_KEY, or script the answer with ScriptedProvider",
        )
    blocks = _blocks(request)
    calls = any(isinstance(block, ToolUseBlock) for block in blocks)
    return Message(
        "assistant",
        tuple(blocks),
        model=OfflineProvider.model,
        provider=OfflineProvider.name,
        stop_reason=StopReason.TOOL_USE if calls else StopReason.END_TURN,
    )


def _blocks(request: ModelRequest) -> Sequence[ContentBlock]:
    last = request.messages[-1] if request.messages else Message.user("")
    texts = [block.text for block in last.content if isinstance(block, TextBlock)]
    order = next(filter(None, map(parse, texts)), None)
    if order is not None:
        return _carry_out(order, request)
    answers = _answers(request.messages)
    return [TextBlock("\n\n".join(answers) if answers else _HELP)]


def _carry_out(order: Order, request: ModelRequest) -> Sequence[ContentBlock]:
    tools = {tool.name: tool for tool in request.tools if request.tool_choice != "none"}
    if order.tool not in tools:
        return [TextBlock(f"To {order.words} takes the tool {order.tool}, which I do not have.")]
    is_first = not any(message.role == "assistant" for message in request.messages)
    said = f"{_WHO} I will {order.words}." if is_first else f"I will {order.words}."
    count = sum(len(message.tool_uses) for message in request.messages)
    known = mapping(tools[order.tool].parameters.get("properties"))
    wishes = {name: value for name, value in order.wishes.items() if name in known}
    call = ToolUseBlock(f"offline-{count + 1}", order.tool, order.arguments | wishes)
    return [TextBlock(said), call]


def _answers(messages: Sequence[Message]) -> list[str]:
    calls = {call.id: call for message in messages[-2:] for call in message.tool_uses}
    return [
        answer(calls[result.tool_use_id], result)
        for result in (messages[-1].tool_results if messages else ())
        if result.tool_use_id in calls
    ]
