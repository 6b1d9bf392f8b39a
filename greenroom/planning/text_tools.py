"""`TextTools`: tools for a model that has none of its own, by words in the prompt and in the reply."""

from collections import OrderedDict
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace as with_fields
from itertools import takewhile

from msgspec.structs import replace

from greenroom.core import (
    ContentBlock,
    Message,
    ModelOutputError,
    ModelRequest,
    OutputSchema,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    clip,
    new_id,
    valid_unicode,
)
from greenroom.llm import (
    Announcement,
    BlockDelta,
    BlockEnd,
    BlockStart,
    LLMProvider,
    ModelStream,
    ProviderWrapper,
    StreamEnd,
    StreamEvent,
    StreamRestart,
)
from greenroom.planning.live_text import LiveText
from greenroom.planning.outcome import Action, Fault, FinalAnswer
from greenroom.planning.parse_action import Reading, read_reply
from greenroom.planning.tool_words import closing_note, in_words, system_prompt
from greenroom.resilience import current_meter

_REFORMATS = 3
_TOLD = 2_000  # characters of an observation in a chunk, and of a faulty reply that is shown again
_KEPT = 4_096  # messages whose words are kept

_REFORMAT = """Your reply could not be read: {reason}. Reply again, in one of these two forms:

Thought: …
Action: {{"tool": "NAME", "arguments": {{…}}}}

Thought: …
Final Answer: …"""
_UNREAD = {StopReason.REFUSAL, StopReason.CONTENT_FILTER, StopReason.PAUSE}
"""Why a reply ended that means nothing more; one with tool calls of its own is not read either."""

_CUT = Fault("it was cut off at its limit of tokens, so say less")


class TextTools(ProviderWrapper):
    """Lets a model without tool calls of its own use tools; a provider like any other.

    The tools of a request are listed in its system prompt. The model thinks and acts in words, as in
    ReAct; an action comes back as a `ToolUseBlock`, and results go to the model as observations. So
    any loop, session and permission works as with native tool calls, and a conversation may change
    between both. Put it around `resilient(…)`, not inside of it.

    What the model says before its action streams on; the action itself is not a text of the reply. Of a
    final answer, what was said before is thinking. Four announcements tell of each step, which an agent
    publishes as `Custom` chunks: `react.thought`, `react.action`, `react.observation` and
    `react.reformat`.

    A reply that can't be read is asked for again, with what is wrong with it, at most three times; each
    is a model call for the budgets, and none of it joins the history. Then a `ModelOutputError` says so.

    Args:
        llm: the model.

    Raises:
        TypeError: the model is only its name.

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

    def __init__(self, llm: LLMProvider) -> None:
        super().__init__(llm)
        # By the id of a message, which is that of one object as long as it is kept.
        self._in_words: OrderedDict[int, tuple[Message, Message]] = OrderedDict()

    def accepts_output(self, output: OutputSchema) -> bool:
        """Return False: a model that writes its actions as text can't write a JSON object instead."""
        return False

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[ModelStream]:
        """Send a request and stream the reply; one without tools goes on as it is.

        Raises:
            ModelOutputError: no reply could be read.
            ModelError: the request failed.
        """
        if not request.tools and not any(map(_has_calls, request.messages)):
            return self.llm.stream(request)
        messages = [self._words_of(message) for message in request.messages]
        if not request.tools:
            return self.llm.stream(with_fields(request, messages=messages))
        if note := closing_note(request):
            messages.append(Message.user(note))
        system = system_prompt(request)
        asked = with_fields(request, messages=messages, system=system, tools=(), tool_choice="auto")
        return _TextToolsStream(self.llm, request, asked)

    def _words_of(self, message: Message) -> Message:
        """Return a message without tool blocks: the same object each time, for the request encoder."""
        if message.role == "user" and not message.tool_results:
            return message
        kept = self._in_words.get(id(message))
        if kept is None:
            kept = message, replace(message, content=tuple(in_words(message)))
            self._in_words[id(message)] = kept
        self._in_words.move_to_end(id(message))
        if len(self._in_words) > _KEPT:
            self._in_words.popitem(last=False)
        return kept[1]


def _has_calls(message: Message) -> bool:
    return bool(message.tool_uses or message.tool_results)


# -- what the model says -------------------------------------------------------------------------------


class _TextToolsStream(ModelStream):
    """A reply in words as one with tool calls; it may take several attempts."""

    def __init__(self, llm: LLMProvider, request: ModelRequest, asked: ModelRequest) -> None:
        super().__init__(llm.name)
        self._llm = llm
        self._tools = {tool.name: tool for tool in request.tools}
        self._must_answer = request.tool_choice == "none"
        self._first = self._request = asked
        self._reformats = 0
        self._is_over = False  # this attempt
        self._failure: ModelOutputError | None = None
        self._inner: ModelStream | None = None
        self._live = LiveText()
        self._places: dict[object, int] = {}
        told = takewhile(lambda message: message.role == "user", reversed(request.messages))
        for message in reversed([*told]):
            self._ready.extend(map(_about_observation, message.tool_results))

    async def receive(self) -> Iterable[StreamEvent]:
        """Give the next events of the model in our words.

        Raises:
            ModelOutputError: no reply could be read.
            ModelError: the request failed.
            BudgetExceededError: nothing is left for another attempt.
        """
        if self._failure is not None:
            raise self._failure
        if self._is_over:
            current_meter().check_attempt()
            await self.exit_stack.aclose()
            self._inner, self._live, self._places, self._is_over = None, LiveText(), {}, False
            current_meter().begin_attempt()
        if self._inner is None:
            self._inner = await self.exit_stack.enter_async_context(self._llm.stream(self._request))
        event = await anext(self._inner)
        match event:
            case BlockDelta(_, "text", text):
                return self._say(text)
            case BlockStart(_, "text") | BlockEnd(_, TextBlock()):
                return ()
            case BlockStart(index) | BlockDelta(index) | BlockEnd(index):
                return (replace(event, index=self._place(index)),)
            case StreamRestart():
                self._live, self._places = LiveText(), {}
                return (event,)
            case StreamEnd():
                return self._read(self._inner.message)
            case _:
                return (event,)

    def partial(self) -> Message:
        """Return what has been read so far; an action that is not complete is left out."""
        made = super().partial()
        if made.usage is None or self._inner is None:
            return made
        return replace(made, usage=self._inner.partial().usage)  # with its cost

    def _place(self, key: object) -> int:
        """Return the index of a block: those of the model in their order, and ours between them."""
        return self._places.setdefault(key, len(self._places))

    def _say(self, piece: str) -> list[StreamEvent]:
        said, answer = self._live.add(piece)
        events: list[StreamEvent] = []
        if said:
            events.append(BlockDelta(self._place("said"), "text", said))
        if answer:
            events.append(BlockDelta(self._place("answer"), "text", answer))
        return events

    def _read(self, message: Message) -> list[StreamEvent]:
        """Say what a complete reply comes to."""
        events: list[StreamEvent] = []
        if rest := self._live.rest():
            events.append(BlockDelta(self._place("said"), "text", rest))
        if message.tool_uses or message.stop_reason in _UNREAD:
            if message.text:
                events.append(BlockEnd(self._place("said"), TextBlock(message.text)))
            return [*events, StreamEnd(message)]
        reading = self._read_reply(message)
        outcome = reading.outcome
        if isinstance(outcome, Fault):
            return self._ask_again(message, outcome)
        others = [block for block in message.content if not isinstance(block, TextBlock)]
        said = _keep_text(reading)
        made = self._make_block(outcome)
        if said is not None:
            events.append(BlockEnd(self._place("said"), said))
        is_new = said is not None or "answer" in self._places
        events.append(BlockEnd(self._place("answer" if is_new else "said"), made))
        is_call = isinstance(made, ToolUseBlock)
        content = (*others, *filter(None, (said, made)))
        stop = StopReason.TOOL_USE if is_call else message.stop_reason
        end = StreamEnd(replace(message, content=content, stop_reason=stop))
        return [*events, *_about_step(outcome, made), end]

    def _read_reply(self, message: Message) -> Reading:
        """Read a reply, knowing why it ended and what it was to be."""
        text = valid_unicode(message.text)
        reading = read_reply(text)
        is_cut = message.stop_reason is StopReason.MAX_TOKENS and reading.end >= len(text.rstrip())
        if is_cut and not isinstance(reading.outcome, FinalAnswer):
            # Whatever is missing at the end of an action may have been an argument.
            return with_fields(reading, outcome=_CUT)
        if isinstance(reading.outcome, Fault) and self._must_answer and text.strip():
            return Reading(FinalAnswer(text.strip()), "", 0, len(text))
        return reading

    def _make_block(self, outcome: Action | FinalAnswer) -> ContentBlock:
        """Make the block of an action or answer; a plain input is that of a tool's only parameter."""
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
        """Ask for the reply in a form that can be read, at most three times; then give up."""
        if self._reformats == _REFORMATS:
            error = ModelOutputError(
                f"{_REFORMATS + 1} replies of {self._llm.model} could not be read: {fault.reason}",
                errors=(fault.reason,),
                provider=self._llm.name,
                hint="give fewer tools, or a model that follows the format",
            )
            error.partial = message
            self._failure = error
            return [StreamRestart(message)]
        self._reformats += 1
        self._is_over = True
        again = _REFORMAT.format(reason=fault.reason)
        shown = Message.assistant(clip(message.text.strip(), _TOLD) or "(empty)")
        messages = [*self._first.messages, shown, Message.user(again)]
        self._request = with_fields(self._first, messages=messages)
        text = f"the reply could not be read: {fault.reason}; asked again"
        data = {"reason": fault.reason, "attempt": self._reformats, "attempts": _REFORMATS}
        # Readers drop what they have shown of it.
        begins = _tell("reply.restarted", provider=self._llm.name, model=self._llm.model)
        return [StreamRestart(message), begins, _tell("react.reformat", text, **data)]


def _keep_text(reading: Reading) -> ContentBlock | None:
    """Return what was said before an action as text, and before an answer as a thought."""
    if not reading.before:
        return None
    is_action = isinstance(reading.outcome, Action)
    return TextBlock(reading.before) if is_action else ThinkingBlock(reading.before)


def _about_step(outcome: Action | FinalAnswer, made: ContentBlock) -> Iterable[Announcement]:
    if outcome.thought:
        yield _tell("react.thought", text=clip(outcome.thought, _TOLD))
    if isinstance(made, ToolUseBlock):
        yield _tell("react.action", id=made.id, tool=made.name, arguments=made.input)


def _about_observation(result: ToolResultBlock) -> Announcement:
    text = clip(result.text, _TOLD)
    return _tell("react.observation", id=result.tool_use_id, text=text, is_error=result.is_error)


def _tell(kind: str, line: str = "", /, **data: object) -> Announcement:
    return Announcement(kind, data, line)
