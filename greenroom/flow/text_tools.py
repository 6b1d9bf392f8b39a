"""`TextTools`: tools for a model without native tool calls, in the text of its prompt and replies.

The prompt describes the tools and the format of a call; messages with calls and results are
rewritten in that format. While a reply streams, `LiveText` finds what can be shown before the reply
can be parsed; `parse_action` parses it once it is complete.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace as with_fields
from itertools import takewhile

from msgspec.structs import replace

from greenroom.core import (
    ContentBlock,
    Message,
    ModelRequest,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
)
from greenroom.core._internal import (
    REFUSALS,
    NamedTool,
    OutputSchema,
    clip,
    new_id,
    serde,
    valid_unicode,
)
from greenroom.flow.observation import describe_failure
from greenroom.flow.parse_action import (
    EVENT,
    Action,
    Fault,
    FinalAnswer,
    ParsedReply,
    open_mark,
    parse_reply,
    thought_end,
)
from greenroom.llm import (
    BlockDelta,
    BlockEnd,
    LLMProvider,
    ModelOutputError,
    ModelStream,
    ProviderWrapper,
    StreamEnd,
    StreamEvent,
)
from greenroom.llm._internal import Announcement, BlockStart, StreamRestart, open_inner
from greenroom.resilience import Backoff, Retry
from greenroom.resilience._internal import Attempts

_MOST = 3  # requests to reformat
_RETRY = Retry(attempts=_MOST + 1, backoff=Backoff(first=0.0), retryable=lambda error: True)
_CACHE_SIZE = 4_096  # messages whose conversion is cached
_MAX_SHOWN = 2_000  # characters of an observation in a chunk, or of an unreadable reply

_REFORMAT = """Your reply could not be read: {reason}. Reply again, in one of these two forms:

Thought: …
Action: {{"tool": "NAME", "arguments": {{…}}}}

Thought: …
Final Answer: …"""
_NOT_PARSED = REFUSALS | {StopReason.PAUSE}
"""Stop reasons of replies that are not parsed; neither are replies with native tool calls."""

_CUT = Fault("it was cut off at its limit of tokens, so say less")


class TextTools(ProviderWrapper):
    """A provider that lets a model without native tool calls use tools.

    The tools of a request are listed in its system prompt. The model thinks and acts in plain text,
    as in ReAct; an action becomes a `ToolUseBlock`, and results are sent to the model as
    observations. Loops, sessions and permissions work as with native tool calls, and a conversation
    can switch between both. Wrap it around `resilient(…)`, not the other way round.

    Text before an action is streamed; text before a final answer becomes thinking. An agent
    publishes each step as a `Custom` chunk: `react.thought`, `react.action`, `react.observation`
    and `react.reformat`.

    If a reply can't be parsed, the model is told why and asked again, at most three times; each
    attempt counts as a model call, and none of it is added to the history.

    Args:
        llm: the model, or its name.

    Raises:
        TypeError: the model is given by name.

    Example:
        >>> import trio
        >>> from greenroom.testing import ScriptedProvider
        >>> llm = TextTools(ScriptedProvider("I add. Action: {'tool': 'add', 'args': {'a': 1}}"))
        >>> from greenroom.core import ToolDefinition
        >>> add = ToolDefinition("add", "Adds.", {"type": "object"})
        >>> request = ModelRequest(messages=[Message.user("?")], tools=[add])
        >>> trio.run(llm.generate, request).tool_uses[0].input
        {'a': 1}
    """

    def __init__(self, llm: LLMProvider | str) -> None:
        super().__init__(open_inner(llm))
        # By the id() of a message, which stays valid while the cache holds the message.
        self._cache: OrderedDict[int, tuple[Message, Message]] = OrderedDict()

    def accepts_output(self, output: OutputSchema) -> bool:
        """Return False: a model that writes actions as text can't write a JSON object instead."""
        return False

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[ModelStream]:
        """Send a request and stream the reply; a request without tools is passed on unchanged.

        Raises:
            ModelOutputError: no reply could be parsed.
            ModelError: the request failed.
        """
        has_calls = any(each.tool_uses or each.tool_results for each in request.messages)
        if not request.tools and not has_calls:
            return self.llm.stream(request)
        messages = [self._convert(message) for message in request.messages]
        if not request.tools:
            return self.llm.stream(with_fields(request, messages=messages))
        if note := closing_note(request):
            messages.append(Message.user(note))
        system = system_prompt(request)
        asked = with_fields(request, messages=messages, system=system, tools=(), tool_choice="auto")
        return _TextToolsStream(self.llm, request, asked)

    def _convert(self, message: Message) -> Message:
        """Return a message without tool blocks; always the same object, for the request encoder."""
        if message.role == "user" and not message.tool_results:
            return message
        if id(message) not in self._cache:
            content = tuple(convert_to_text(message))
            self._cache[id(message)] = message, replace(message, content=content)
        self._cache.move_to_end(id(message))
        if len(self._cache) > _CACHE_SIZE:
            self._cache.popitem(last=False)
        return self._cache[id(message)][1]


class _TextToolsStream(ModelStream):
    """Turns a reply in plain text into one with tool calls, possibly after several attempts."""

    def __init__(self, llm: LLMProvider, request: ModelRequest, asked: ModelRequest) -> None:
        super().__init__(llm.name)
        self._llm = llm
        self._tools = {tool.name: tool for tool in request.tools}
        self._must_answer = request.tool_choice == "none"
        self._first = self._request = asked
        self._attempts: Attempts | None = None  # from the first reply that can't be read on
        self._is_over = False  # this attempt
        self._failure: ModelOutputError | None = None
        self._inner: ModelStream | None = None
        self._live = LiveText()
        self._indexes: dict[object, int] = {}
        results = takewhile(lambda message: message.role == "user", reversed(request.messages))
        for message in reversed([*results]):
            self._ready.extend(map(_announce_observation, message.tool_results))

    async def receive(self) -> Iterable[StreamEvent]:
        """Return the next events, converted."""
        if self._failure is not None:
            raise self._failure
        if self._is_over and self._attempts is not None:
            self._attempts.check()
            await self.exit_stack.aclose()
            self._inner, self._live, self._indexes, self._is_over = None, LiveText(), {}, False
            await self._attempts.wait(0)
        inner = self._inner
        if inner is None:
            opening = self._llm.stream(self._request)
            inner = self._inner = await self.exit_stack.enter_async_context(opening)
        events = await inner.take(self.wanted)
        return [made for event in events for made in self._convert(event, inner)]

    def _convert(self, event: StreamEvent, inner: ModelStream) -> Iterable[StreamEvent]:
        match event:
            case BlockDelta(_, "text", text):
                return self._show(text)
            case BlockStart(_, "text") | BlockEnd(_, TextBlock()):
                return ()
            case BlockStart(index) | BlockDelta(index) | BlockEnd(index):
                return (replace(event, index=self._index(index)),)
            case StreamRestart():
                self._live, self._indexes = LiveText(), {}
                return (event,)
            case StreamEnd():
                return self._read(inner.message)
            case _:
                return (event,)

    def partial(self) -> Message:
        """Return the reply so far, without an incomplete action."""
        made = super().partial()
        if made.usage is None or self._inner is None:
            return made
        return replace(made, usage=self._inner.partial().usage)  # includes its cost

    def _index(self, key: object) -> int:
        """Return the index of a block, assigned in order of first use."""
        return self._indexes.setdefault(key, len(self._indexes))

    def _show(self, piece: str) -> list[StreamEvent]:
        shown = zip(("said", "answer"), self._live.add(piece), strict=True)
        return [BlockDelta(self._index(block), "text", text) for block, text in shown if text]

    def _read(self, message: Message) -> list[StreamEvent]:
        """Parse a complete reply, and return the events that end it."""
        events: list[StreamEvent] = []
        if rest := self._live.rest():
            events.append(BlockDelta(self._index("said"), "text", rest))
        if message.tool_uses or message.stop_reason in _NOT_PARSED:
            if message.text:
                events.append(BlockEnd(self._index("said"), TextBlock(message.text)))
            return [*events, StreamEnd(message)]
        parsed = self._parse_reply(message)
        outcome = parsed.outcome
        if isinstance(outcome, Fault):
            return self._ask_again(message, outcome)
        others = [block for block in message.content if not isinstance(block, TextBlock)]
        made = self._make_block(outcome)
        is_call = isinstance(made, ToolUseBlock)
        kind = TextBlock if is_call else ThinkingBlock  # what precedes an answer is a thought
        said = [kind(parsed.before)] if parsed.before else []
        events += [BlockEnd(self._index("said"), block) for block in said]
        is_new = bool(said) or "answer" in self._indexes
        events.append(BlockEnd(self._index("answer" if is_new else "said"), made))
        content = (*others, *said, made)
        stop = StopReason.TOOL_USE if is_call else message.stop_reason
        end = StreamEnd(replace(message, content=content, stop_reason=stop))
        return [*events, *_announce_step(outcome, made), end]

    def _parse_reply(self, message: Message) -> ParsedReply:
        """Parse a reply, considering its stop reason and the tool choice."""
        text = valid_unicode(message.text)
        parsed = parse_reply(text)
        is_cut = message.stop_reason is StopReason.MAX_TOKENS and parsed.end >= len(text.rstrip())
        if is_cut and not isinstance(parsed.outcome, FinalAnswer):
            # An argument may be missing at the end of the action.
            return with_fields(parsed, outcome=_CUT)
        if isinstance(parsed.outcome, Fault) and self._must_answer and text.strip():
            return ParsedReply(FinalAnswer(text.strip()), "", 0, len(text))
        return parsed

    def _make_block(self, outcome: Action | FinalAnswer) -> ContentBlock:
        """Return the block of an action or answer; plain text becomes the tool's only parameter."""
        if isinstance(outcome, FinalAnswer):
            return TextBlock(outcome.text)
        tool = self._tools.get(outcome.tool)
        known = tool.parameters.get("properties") if tool else None
        arguments = outcome.arguments
        if isinstance(known, dict) and set(arguments) == {"input"} and "input" not in known:
            needed = tool.parameters.get("required") if tool else None
            names = needed if isinstance(needed, list) and needed else [*known]
            if len(names) == 1:
                arguments = {str(names[0]): arguments["input"]}
        return ToolUseBlock(new_id("call"), outcome.tool, arguments)

    def _ask_again(self, message: Message, fault: Fault) -> list[StreamEvent]:
        """Ask for the reply in a readable format, at most three times; then give up."""
        attempts = self._attempts = self._attempts or Attempts(_RETRY, nests=False)
        count = attempts.number
        error = ModelOutputError(
            f"{count} replies of {self._llm.model} could not be read: {fault.reason}",
            errors=(fault.reason,),
            provider=self._llm.name,
            hint="give fewer tools, or a model that follows the format",
        )
        if attempts.plan(error) is None:
            error.partial = message
            self._failure = error
            facts = {"provider": message.provider, "model": message.model}
            text = f"the reply could not be read: {fault.reason}"
            return [StreamRestart(message), _announcement("reply.discarded", text, **facts)]
        self._is_over = True
        again = _REFORMAT.format(reason=fault.reason)
        shown = Message.assistant(clip(message.text.strip(), _MAX_SHOWN) or "(empty)")
        messages = [*self._first.messages, shown, Message.user(again)]
        self._request = with_fields(self._first, messages=messages)
        text = f"the reply could not be read: {fault.reason}; asked again"
        data = {"reason": fault.reason, "attempt": count, "attempts": _MOST}
        # Subscribers drop what they have shown of the reply.
        begins = _announcement("reply.restarted", provider=self._llm.name, model=self._llm.model)
        return [StreamRestart(message), begins, _announcement("react.reformat", text, **data)]


def _announce_step(outcome: Action | FinalAnswer, made: ContentBlock) -> Iterable[Announcement]:
    if outcome.thought:
        yield _announcement("react.thought", text=clip(outcome.thought, _MAX_SHOWN))
    if isinstance(made, ToolUseBlock):
        yield _announcement("react.action", id=made.id, tool=made.name, arguments=made.input)


def _announce_observation(result: ToolResultBlock) -> Announcement:
    text = clip(result.text, _MAX_SHOWN)
    return _announcement(
        "react.observation", id=result.tool_use_id, text=text, is_error=result.is_error
    )


def _announcement(kind: str, line: str = "", /, **data: object) -> Announcement:
    return Announcement(kind, data, line)


_FORMAT = """You work with tools. To call one, write a thought and one action, and then stop:

Thought: what you want to find out or do next
Action: {"tool": "NAME", "arguments": {"KEY": "VALUE"}}

An action is one JSON object. You are then told its result as "Observation: …"; never write an
observation yourself. When you know the answer, write:

Thought: why you are done
Final Answer: the answer

The tools, each with the JSON Schema of its arguments:
"""


def system_prompt(request: ModelRequest) -> str | Sequence[TextBlock]:
    """Return the system prompt of a request with its tools and the format of calls."""
    tools = "\n".join(map(_describe, request.tools))
    if isinstance(request.system, str):
        return "\n\n".join(filter(None, (request.system, _FORMAT + tools)))
    return (*request.system, TextBlock(_FORMAT + tools))


def _describe(tool: ToolDefinition) -> str:
    return f"- {tool.name}: {tool.description}\n  {serde.dumps(tool.parameters).decode()}"


def closing_note(request: ModelRequest) -> str:
    """Return a note for the end of the prompt if the tool choice is not "auto", else no text."""
    match request.tool_choice:
        case "none":
            return "[You can't call tools any more. Write your Final Answer.]"
        case "any":
            return "[Call a tool now.]"
        case NamedTool(name):
            return f"[Call the tool {name} now.]"
        case _:
            return ""


def convert_to_text(message: Message) -> Iterable[ContentBlock]:
    """Yield the blocks of a message, with tool blocks as text in the format of the prompt."""
    is_answer = message.role == "assistant" and not message.tool_uses
    is_answer &= message.stop_reason is not StopReason.INTERRUPTED
    for place, block in enumerate(message.content):
        line = "\n" if place else ""
        match block:
            case ToolUseBlock(name=name):
                arguments = block.raw_input or serde.dumps(block.input).decode()
                tool = serde.dumps(name).decode()
                yield TextBlock(f'{line}Action: {{"tool": {tool}, "arguments": {arguments}}}')
            case ToolResultBlock():
                said = describe_failure(block.text) if block.is_error else block.text
                yield TextBlock(f"{line}Observation: {said}")
                yield from (part for part in block.content if not isinstance(part, TextBlock))
            case ThinkingBlock(thinking=thought) if not (block.signature or block.extra):
                # No provider needs a thought back that is not signed.
                yield TextBlock(f"{thought}\n")
            case TextBlock(text) if is_answer:
                yield replace(block, text=f"Final Answer: {text}")
            case TextBlock(text) if line and message.tool_results:
                yield replace(block, text=line + text)
            case _:
                yield block


_LOOKAHEAD = 60
"""How many characters are held back, since they may be the beginning of a label."""

_CONTEXT = 8  # characters before that decide whether a label may begin here


class LiveText:
    r"""Splits the pieces of a streamed reply into the text before an action, and the answer.

    The text comes a few words late. Anything that may be an action is held back, with all that
    follows.

    Example:
        >>> live = LiveText()
        >>> live.add("I add them. Action: {"), live.add('"tool": "add"')
        (('I add them.', ''), ('', ''))
        >>> live = LiveText()
        >>> live.add("I know it.\nFinal Answer: 3"), live.add(" or 4")
        (('I know it.\n', '3'), ('', ' or 4'))
    """

    def __init__(self) -> None:
        self._text = ""  # what was not shown yet, after a little context
        self._position = 0
        self._mode = "said"  # or "held", "answer"
        self._until = EVENT  # or the end of thoughts
        self._mark: str | None = (
            None  # the mark that the label opened; None once the answer has begun
        )

    def add(self, piece: str) -> tuple[str, str]:
        """Add a piece; return the text and the part of the answer that can be shown now."""
        if self._mode == "held":
            return "", ""
        self._text += piece
        said = self._advance() if self._mode == "said" else ""
        return said, self._take_answer() if self._mode == "answer" else ""

    def rest(self) -> str:
        """Return the text that was held back, at the end of a reply without an action or answer."""
        return self._text[self._position :] if self._mode == "said" and self._until is EVENT else ""

    def _advance(self) -> str:
        """Return the text up to the next event, or up to what may become one."""
        said, at = "", self._position
        while found := self._until.search(self._text, at):
            at = found.end()
            if self._until is not EVENT:
                self._until, self._position = EVENT, at
            elif found.lastgroup not in {"observation", "mention"}:
                said += self._text[self._position : found.start()]
                self._position = at
                if found.lastgroup != "think":
                    self._mode = "answer" if found.lastgroup == "final" else "held"
                    self._mark = open_mark(found[0])
                    return said
                self._until = thought_end(found)
        end = max(self._position, len(self._text) - _LOOKAHEAD)
        if self._until is EVENT:
            said += self._text[self._position : end]
        begin = max(0, end - _CONTEXT)
        self._text, self._position = self._text[begin:], end - begin
        return said

    def _take_answer(self) -> str:
        text = self._text[self._position :]
        self._text, self._position = "", 0
        if self._mark is None:
            return text
        text = text.lstrip()
        if self._mark.startswith(text):
            self._text = text  # nothing yet, or the beginning of the closing mark
            return ""
        text, self._mark = text.removeprefix(self._mark).lstrip(), None
        return text
