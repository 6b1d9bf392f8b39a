"""One model call of a turn: send the request, publish the chunks, append the reply."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import msgspec
import trio

from greenroom.core import (
    AgentState,
    ConfigurationError,
    Custom,
    Message,
    OutputChunk,
    StopReason,
    TextBlock,
    TextComplete,
    TextDelta,
    ThinkingBlock,
    ThinkingComplete,
    ThinkingDelta,
    ToolDefinition,
    UsageReport,
)
from greenroom.core._internal import OutputSchema, ToolChoice, clip
from greenroom.llm import (
    BlockDelta,
    BlockEnd,
    EstimatedCounter,
    LLMProvider,
    ModelContextTooLongError,
    ModelRequest,
    ModelSettings,
    ModelStream,
    StreamEnd,
    StreamEvent,
)
from greenroom.llm._internal import (
    Announcement,
    BlockStart,
    Notice,
    StreamRestart,
    StreamStart,
    UsageUpdate,
    find_model,
    substitute_model,
)
from greenroom.memory import Compactor
from greenroom.runtime import AgentInternals
from greenroom.runtime._internal import ModelCallScope
from greenroom.session._internal import WENT_ON
from greenroom.tools import ToolRegistry

_NO_SETTINGS = ModelSettings()


async def stream_reply(
    agent: AgentInternals,
    llm: LLMProvider | str,
    tools: ToolRegistry | None = None,
    *,
    messages: Sequence[Message] | None = None,
    instructions: str | Sequence[TextBlock] = "",
    tool_choice: ToolChoice = "auto",
    settings: ModelSettings | None = None,
    cache: bool = True,
    output: OutputSchema | None = None,
    answer_tool: ToolDefinition | None = None,
    watch: Callable[[ModelStream], ModelStream] | None = None,
    compactor: Compactor | None = None,
    on_warning: Callable[[str], None] | None = None,
) -> Message:
    """Ask the model for the next reply, stream it to the subscribers, append it to the history.

    The request holds the agent's history and these arguments, and nothing else. The provider sends
    them in its own terms, such as an effort in place of a thinking budget, and marks what its cache
    should keep, unless the request brings marks or `cache` is false.
    `messages` replace the history in the request, such as a part of it that fits the model; input
    that joins the turn at this step follows them, and the reply joins the history all the same.

    `output` is a schema for the reply, for providers that can hold it to one. For the others,
    `answer_tool` is listed with the tools: read the answer from its call.

    `watch` takes the stream of the reply and returns a stream to read in its place, such as one
    that filters it.

    `on_warning` gets a sentence about each part of the request that the provider refused, such as a
    broken image, and that was left out for that.

    A `compactor` shortens the history if it takes too much of the model's window. If the model
    reports that the request is too long, the compactor shortens it again, and the model is asked
    once more.

    Before the request, open calls are answered as not run, and the conversation is appended to the
    stored session, so it survives a kill of the process. Deltas are sent as they arrive. If a reply
    breaks off or is interrupted, the part that arrived stays in the history, and its usage is
    reported as far as the provider has told it.

    Returns:
        The complete reply; run its `tool_uses` next.

    Raises:
        TypeError: the tools are not in a `ToolRegistry`, `messages` has items that are not
            messages, or it comes with a `compactor`.
        SessionError: the session could not be stored; the model was not asked.
        ModelError: the model gave no complete reply; in a turn this ends only that turn.
        BudgetExceededError: a budget for model calls, tokens, cost or time is spent.
        ConfigurationError: a model that is given by name can't be opened; a budget limits the cost
            of a model without a price, or something that the model has not reported; or a tool has
            the name of the `answer_tool`.

    Example:
        ```python
        terse = ModelSettings(effort="low", max_tokens=500)
        reply = await stream_reply(agent, llm, tools, system="You are terse.", settings=terse)
        ```
    """
    messages = _check_arguments(tools, messages, compactor)
    llm = substitute_model(agent.context, find_model(llm, agent.context.resources))
    make = partial(
        ModelRequest,
        system=instructions,
        tools=_definitions(tools, answer_tool),
        output=output,
        tool_choice=tool_choice,
        cache=cache,
        conversation=agent.session.session_id,
    )
    settings = settings or _NO_SETTINGS
    reader = _Reader(agent, llm.model, watch, on_warning)
    return await _stream(agent, llm, make, settings, messages, reader, compactor)


async def _stream(
    agent: AgentInternals,
    llm: LLMProvider,
    make: "partial[ModelRequest]",
    settings: ModelSettings,
    messages: Sequence[Message] | None,
    reader: "_Reader",
    compactor: Compactor | None,
) -> Message:
    """Begin a step, and send the request with the history or with `messages`."""
    known = len(agent.session.history)
    agent.session.conversation.pair_tool_uses(WENT_ON)
    agent.session.set_model(llm.name, llm.model)  # even if a spent budget ends the turn here
    await agent.step()
    agent.set_state(AgentState.processing(agent.state.phase))
    history = agent.session.history  # with what has joined the turn at this step
    sent = history if messages is None else (*messages, *history[known:])
    request = settings.complete(make(messages=sent))
    if compactor is not None:
        request = await compactor.prepare_request(agent, request)
    # From here on the conversation survives a kill, and with the next flush a power cut.
    await agent.session.save(flush=False)

    count = compactor.count if compactor is not None else EstimatedCounter().count
    try:
        reply = await _ask(agent, llm, request, reader, count)
    except ModelContextTooLongError:
        if compactor is None or not await compactor.compact(
            agent, instructions=request.system, tools=request.tools
        ):
            raise
        request = replace(request, messages=agent.session.history)
        reply = await _ask(agent, llm, request, reader, count)
    if compactor is not None:
        await compactor.note_reply(agent)
    return reply


async def _ask(
    agent: AgentInternals,
    llm: LLMProvider,
    request: ModelRequest,
    reader: "_Reader",
    count: Callable[[ModelRequest], int],
) -> Message:
    async with agent.model_call(llm, request, count) as call:
        async with llm.stream(request) as stream:
            # Inside the block, since a cancel while it closes must not lose a whole reply.
            reply = call.reply = await reader.read(stream, call)
    return reply


def _check_arguments(
    tools: object,
    messages: Sequence[Message] | None,
    compactor: Compactor | None,
) -> tuple[Message, ...] | None:
    """Refuse arguments that are easily confused, and return the messages.

    They are copied: the caller may change the list while the step waits.
    """
    messages = None if messages is None else tuple(messages)
    if tools is not None and not isinstance(tools, ToolRegistry):
        raise TypeError(f"tools belong in a ToolRegistry, not in a {type(tools).__name__}")
    if messages is not None and compactor is not None:
        raise TypeError("pass messages, or a compactor, which prepares them")
    for message in messages or ():
        if not isinstance(message, Message):
            raise TypeError(f"{message!r} is not a message: write Message.user(…)")
    return messages


def _definitions(
    tools: ToolRegistry | None, answer_tool: ToolDefinition | None
) -> tuple[ToolDefinition, ...]:
    listed = tools.definitions() if tools is not None else ()
    if answer_tool is None:
        return listed
    if any(each.name == answer_tool.name for each in listed):
        raise ConfigurationError(
            f"a tool is named {answer_tool.name}, as the one that takes the answer",
            hint="give it another name",
        )
    return (*listed, answer_tool)


_WARNINGS = frozenset({"model.left_out"})
"""The announcements that are warnings about the request."""

_REVOCATIONS = frozenset({"reply.restarted", "reply.discarded"})
"""The announcements that a reply is thrown away; their chunks have its text."""

_UNSHOWN = frozenset({StreamStart, BlockStart, UsageUpdate, Notice, StreamEnd})
"""The events that make no chunk. A provider may have events of subclasses, which are looked at."""

_BATCH = 64
"""How many events are published without a pause for other tasks."""

MAX_DISCARDED = 8_192
"""Bytes of the text of a reply that is thrown away, in the chunk that says so."""


class _Reader(msgspec.Struct, frozen=True):
    """Reads the stream of a reply: publishes it, and appends it to the history, complete or not."""

    agent: AgentInternals
    model: str
    watch: Callable[[ModelStream], ModelStream] | None
    on_warning: Callable[[str], None] | None

    async def read(self, opened: ModelStream, call: ModelCallScope) -> Message:
        stream = opened if self.watch is None else self.watch(opened)
        dropped = ""  # the text of the reply that was thrown away last
        sent = 0
        texts: list[TextDelta] = []  # that arrived one after the other
        try:
            while events := await stream.take(_BATCH):
                for event in events:
                    if type(event) is BlockDelta and event.kind == "text":
                        texts.append(TextDelta(event.text))
                        continue
                    if type(event) in _UNSHOWN:
                        continue
                    self._send(texts)
                    if isinstance(event, StreamRestart):
                        call.discard(event.partial)
                        dropped = event.partial.text
                    else:
                        self._publish(event, dropped)
                self._send(texts)
                sent += len(events)
                if sent >= _BATCH:  # others have to run, even if no event waits for anything
                    sent = 0
                    await trio.lowlevel.checkpoint()
        except BaseException:
            self._keep(stream.partial(), call)
            raise
        self._keep(stream.message, call)
        return stream.message

    def _send(self, texts: list[TextDelta]) -> None:
        if texts:
            self.agent.send_nowait(*texts)
            texts.clear()

    def _publish(self, event: StreamEvent, dropped: str) -> None:
        chunk = _chunk(event)
        match event:
            case Announcement(kind, _, text) if kind in _WARNINGS and self.on_warning:
                self.on_warning(text)
            case Announcement(kind, data, text) if kind in _REVOCATIONS:
                chunk = Custom(kind, {**data, "text": _cut(dropped)}, text)
            case _:
                pass
        if chunk is not None:
            self.agent.send_nowait(chunk)

    def _keep(self, reply: Message, call: ModelCallScope) -> None:
        """Append a reply, complete or not, to the history, and report its usage, in one step."""
        if not reply.content and reply.stop_reason is StopReason.INTERRUPTED:
            call.discard(reply)
            return
        self.agent.session.add_message(reply)
        if reply.usage is not None:
            self.agent.send_nowait(UsageReport(reply.usage, model=reply.model or self.model))


def _cut(text: str) -> str:
    """Return at most 8 KB of a text."""
    data = clip(text, MAX_DISCARDED).encode("utf-8", "surrogatepass")
    return data[:MAX_DISCARDED].decode("utf-8", "ignore")


def _chunk(event: StreamEvent) -> OutputChunk | None:
    match event:
        case BlockDelta(kind="text", text=text):
            return TextDelta(text)
        case BlockDelta(kind="thinking", text=text):
            return ThinkingDelta(text)
        case BlockEnd(block=TextBlock(text=text)):
            return TextComplete(text)
        case BlockEnd(block=ThinkingBlock(thinking=text)) if text:
            return ThinkingComplete(text)
        case Announcement(kind, data, text):
            return Custom(kind, data, text)
        case _:
            return None
