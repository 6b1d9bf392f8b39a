"""Guards: functions that check what is said, and may change or stop it, even while it streams.

What a guard rejects exists nowhere. Text is held back until the guard has passed it and the
`window` after it, so rejected text is in no chunk, no history and no log. A guard on text gets each
piece once, with the window before it, so its cost grows only with the length of the stream.
"""

import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias

from msgspec.structs import replace
from typing_extensions import TypeVar

from greenroom.agents.errors import GuardError
from greenroom.agents.run_context import RunContext
from greenroom.core import ConfigurationError, ContentBlock, Message, TextBlock, ToolUseBlock
from greenroom.core._internal import RUNTIME, ConversationInput, serde
from greenroom.llm import BlockDelta, BlockEnd, ModelError, ModelStream, StreamEnd, StreamEvent
from greenroom.llm._internal import ANSWER_TOOL, StreamRestart, UsageUpdate
from greenroom.session import AgentSession

DepsT = TypeVar("DepsT", default=None)
DepsT_contra = TypeVar("DepsT_contra", contravariant=True, default=None)

_UNSEEN = "agent.unseen"  # a record: the ids of inputs


@dataclass(frozen=True)
class Rewrite:
    """Say this text instead of the one that the guard was given."""

    text: str


@dataclass(frozen=True)
class Reject:
    """End the turn. The reason is published; the rejected text is not."""

    reason: str


GuardResult: TypeAlias = Rewrite | Reject | None


@dataclass(frozen=True)
class Guard(Generic[DepsT_contra]):
    """A function that looks at a text before anyone else sees it.

    It takes the `RunContext` and the text, and returns None, a `Rewrite` or a `Reject`. It may be
    async, and ask another model. An exception that it raises is a bug, and ends the agent.

    Attributes:
        check: the function.
        on: "input" checks what the agent is sent, before it joins the conversation; "text" checks
            what the model writes, piece by piece as it streams, each with the `window` before it;
            "output" checks the whole last reply before anyone sees it. The last two also check, as
            JSON, a value that the model gives by a tool call. A text guard sees each piece again,
            as it was rewritten, along with the next one, so it must not change its own rewrites.
        window: with "text", how many characters are held back: the length of the longest text
            that the guard must see in one piece to recognise it.

    Raises:
        ConfigurationError: `on` is another word, or the window is negative.

    Example:
        >>> from greenroom import Agent, Guard, Reject
        >>> from greenroom.testing import ScriptedProvider
        >>> def no_keys(context, text):
        ...     return Reject("it holds a key") if "sk-" in text else None
        >>> agent = Agent(ScriptedProvider("The key is sk-1."), guards=[Guard(no_keys, on="text")])
        >>> result = agent.run_sync("What is the key?")
        >>> str(result.status), result.text, result.error.message
        ('failed', '', 'no_keys has rejected the text: it holds a key')
    """

    check: Callable[[RunContext[DepsT_contra], str], GuardResult | Awaitable[GuardResult]]
    on: Literal["input", "text", "output"] = "output"
    window: int = 200

    def __post_init__(self) -> None:
        if not callable(self.check):
            raise ConfigurationError(f"{self.check!r} is not a function of a context and a text")
        if self.on not in ("input", "text", "output"):
            raise ConfigurationError(
                f"a guard on {self.on!r}", hint='write on="input", "text" or "output"'
            )
        if isinstance(self.window, bool) or not isinstance(self.window, int) or self.window < 0:
            raise ConfigurationError(f"the window is {self.window!r}", hint="give 0 or more")

    @property
    def name(self) -> str:
        """The name of its function, for errors and chunks."""
        return str(getattr(self.check, "__name__", type(self.check).__name__))

    async def judge(self, context: RunContext[DepsT_contra], text: str) -> str:
        """Return the text, or the one to say instead.

        Raises:
            GuardError: it is rejected.
        """
        found = self.check(context, text)
        verdict = await found if inspect.isawaitable(found) else found
        match verdict:
            case None:
                return text
            case Rewrite(changed):
                return changed
            case Reject(reason):
                raise GuardError(f"{self.name} has rejected the {self.on}: {reason}")
            case _:
                raise TypeError(f"the guard {self.name} returned {type(verdict).__name__}")


class Guards(Generic[DepsT]):
    """The guards of one agent, by what they check."""

    def __init__(
        self, guards: Sequence[Guard[DepsT]], context: Callable[[], RunContext[DepsT]]
    ) -> None:
        self._guards = guards
        self.context = context

    def of(self, on: str) -> list[Guard[DepsT]]:
        """Return the guards on one thing, in order."""
        return [guard for guard in self._guards if guard.on == on]

    async def judge(self, on: str, text: str) -> str:
        """Check a whole text with each guard in turn; return what is to be said.

        Raises:
            GuardError: a guard rejected it.
        """
        for guard in self.of(on):
            text = await guard.judge(self.context(), text)
        return text

    async def judge_input(self, message: ConversationInput | Message) -> tuple[ContentBlock, ...]:
        """Return the part of an input that joins the conversation.

        Raises:
            GuardError: a guard rejected it.
        """
        original = "".join(block.text for block in message.content if isinstance(block, TextBlock))
        text = await self.judge("input", original)
        if text == original:
            return tuple(message.content)
        others = (block for block in message.content if not isinstance(block, TextBlock))
        return (TextBlock(text), *others)

    async def judge_unseen(self, session: AgentSession) -> None:
        """Check the inputs that joined the conversation unchecked, since their check was cut short.

        A note replaces each one that is rejected now.
        """
        unseen = _read_unseen(session)
        if not unseen:
            return
        history = [
            await self._judge_again(message) if message.id in unseen else message
            for message in session.history
        ]
        session.add_record(_UNSEEN, [])
        await session.rewrite(history)

    async def _judge_again(self, message: Message) -> Message:
        try:
            return replace(message, content=await self.judge_input(message))
        except GuardError as error:
            return replace(message, content=describe_rejection(error), sender=RUNTIME)


def describe_rejection(error: GuardError) -> tuple[TextBlock]:
    """Return the note that replaces a rejected input."""
    return (TextBlock(f"[{error.message}]"),)


def note_unseen(session: AgentSession, message_id: str) -> None:
    """Note that an input has joined the conversation before the guards checked it."""
    session.add_record(_UNSEEN, [*_read_unseen(session), message_id])


def _read_unseen(session: AgentSession) -> list[str]:
    return serde.convert(session.last_record(_UNSEEN) or [], list[str])


class _GuardStage(Generic[DepsT]):
    """One guard on one text; it holds the end of it back."""

    def __init__(self, guard: Guard[DepsT], context: Callable[[], RunContext[DepsT]]) -> None:
        self._guard = guard
        self._context = context
        self._buffer = ""

    async def feed(self, text: str) -> str:
        """Check a piece; return what may be published now: all but the window."""
        text = await self._guard.judge(self._context(), self._buffer + text)
        cut = max(len(text) - self._guard.window, 0)
        self._buffer = text[cut:]
        return text[:cut]

    def end(self) -> str:
        """Return what was held back: the guard has passed all of it."""
        text, self._buffer = self._buffer, ""
        return text


class _GuardPipeline:
    """A text on its way through several guards."""

    def __init__(self, stages: list[_GuardStage[DepsT]]) -> None:
        self._stages = stages
        self._released: list[str] = []

    async def feed(self, text: str) -> str:
        for stage in self._stages:
            if not text:
                break
            text = await stage.feed(text)
        self._released.append(text)
        return text

    async def end(self) -> str:
        """Pass the rest through all guards, and return what was still held back."""
        rest = []
        for index, stage in enumerate(self._stages):
            text = stage.end()
            for later in self._stages[index + 1 :]:
                text = await later.feed(text) if text else ""
            rest.append(text)
        self._released += rest
        return "".join(rest)

    @property
    def text(self) -> str:
        """All that has passed."""
        return "".join(self._released)


class GuardedStream(ModelStream):
    """A reply as its guards pass it; its partial reply holds nothing else.

    To the guards, blocks of text that follow each other are a single text.
    """

    def __init__(self, stream: ModelStream, guards: Guards[DepsT], *, is_last: bool) -> None:
        super().__init__(stream.partial().provider)
        self._stream = stream
        self._guards = guards
        self._is_last = is_last
        self._holds_back = bool(guards.of("output"))
        # A guard may take its time, and what it has passed must not wait with what it looks at.
        self._passes_at_once = not guards.of("text")
        self._taken: deque[StreamEvent] = deque()
        self._start_over()

    def _new_pipeline(self) -> _GuardPipeline:
        return _GuardPipeline(
            [_GuardStage(each, self._guards.context) for each in self._guards.of("text")]
        )

    def _start_over(self) -> None:
        self._pipeline = self._new_pipeline()
        # The blocks of the present text, None for one that has not ended, and its pieces.
        self._open_blocks: dict[int, TextBlock | None] = {}
        self._pieces: list[str] = []
        self._blocks: dict[int, TextBlock] = {}
        self._answers: list[BlockEnd] = []

    async def receive(self) -> Iterable[StreamEvent]:
        """Take the next events, and return those that may be published now."""
        taken = self._taken
        if not taken:
            try:
                taken.extend(await self._stream.take(self.wanted if self._passes_at_once else 1))
            except ModelError as error:
                error.partial = None  # the guards have not passed all of it
                raise
        passed: list[StreamEvent] = []
        # The guards on the output are asked at the end, and nothing waits for their answer.
        while taken and not (passed and isinstance(taken[0], StreamEnd)):
            passed += await self._pass(taken.popleft())
        return passed

    async def _pass(self, event: StreamEvent) -> Iterable[StreamEvent]:
        """Return what may be published with an event."""
        match event:
            case BlockDelta(index, "text", text):
                self._open_blocks.setdefault(index, None)
                self._pieces.append(text)
                return self._release(await self._pipeline.feed(text))
            case BlockEnd(index, TextBlock() as block):
                self._open_blocks[index] = block
                return ()
            case BlockEnd(block=ToolUseBlock(name=name)) if name == ANSWER_TOOL:
                self._answers.append(event)
                return await self._end_text()
            case UsageUpdate():
                usage = self._stream.partial().usage  # with its cost
                return (event if usage is None else UsageUpdate(usage),)
            case StreamEnd():
                return (*await self._end_text(), *await self._end(self._stream.message))
            case StreamRestart():
                self._start_over()
                passed = super().partial()
                usage = event.partial.usage
                return (replace(event, partial=replace(passed, usage=usage)),)
            case BlockDelta() | BlockEnd():
                return (*await self._end_text(), event)
            case _:
                return (event,)

    def partial(self) -> Message:
        """Return what the guards have passed so far; what the rest has cost counts as well."""
        inner = self._stream.partial()
        return replace(super().partial(), usage=inner.usage, prefix=inner.prefix)

    def _release(self, text: str) -> Iterable[StreamEvent]:
        index = next(iter(self._open_blocks))
        return (BlockDelta(index, "text", text),) if text and not self._holds_back else ()

    async def _end_text(self) -> Iterable[StreamEvent]:
        """Publish the rest of a text once all its blocks have ended."""
        order = sorted(self._open_blocks)
        blocks = [block for index in order if (block := self._open_blocks[index]) is not None]
        if not order or len(blocks) < len(order):
            return ()
        pipeline = self._pipeline
        whole, checked = "".join(block.text for block in blocks), "".join(self._pieces)
        is_mixed = not whole.startswith(checked)
        if is_mixed:  # the blocks count, whatever their pieces were
            pipeline, checked = self._new_pipeline(), ""
        text = await pipeline.feed(whole[len(checked) :]) + await pipeline.end()
        rest = () if is_mixed else self._release(text)
        if pipeline.text != whole:  # citations refer to places in the old text, so they go as well
            blocks = [TextBlock(pipeline.text), *[TextBlock("")] * (len(blocks) - 1)]
        ended = dict(zip(order, blocks, strict=True))
        self._blocks |= ended
        self._open_blocks, self._pieces, self._pipeline = {}, [], self._new_pipeline()
        ends = (BlockEnd(index, block) for index, block in ended.items() if block.text)
        return () if self._holds_back else (*rest, *ends)

    async def _end(self, message: Message) -> Iterable[StreamEvent]:
        """Replace the texts that the model wrote by what the guards passed."""
        passed = [self._blocks[index] for index in sorted(self._blocks)]
        count = sum(isinstance(block, TextBlock) for block in message.content)
        if count != len(passed):
            raise GuardError("the model's reply differs from its stream")
        texts = iter(passed)
        content = tuple(
            next(texts) if isinstance(block, TextBlock) else block for block in message.content
        )
        message = replace(message, content=tuple(each for each in content if each != TextBlock("")))
        is_answer = self._is_last or bool(self._answers) or not message.tool_uses
        if self._answers:
            message = await self._judge_answers(message)
        if not self._holds_back:
            return (StreamEnd(message),)
        if is_answer and (message.text or not self._answers):
            message = await self._judge_output(message)
        return (*self._release_texts(message), StreamEnd(message))

    def _release_texts(self, message: Message) -> Iterable[StreamEvent]:
        """Return the events of the texts that were held back for the guards on the output."""
        blocks = [block for block in message.content if isinstance(block, TextBlock)]
        # Each at an index of its own: one that another block has would be lost on a cut.
        places = (*sorted(self._blocks), len(message.content))
        for index, block in zip(places, blocks, strict=False):
            yield BlockDelta(index, "text", block.text)
            yield BlockEnd(index, block)

    async def _judge_output(self, message: Message) -> Message:
        """Check the answer."""
        judged = await self._guards.judge("output", message.text)
        if judged == message.text:
            return message
        others = (block for block in message.content if not isinstance(block, TextBlock))
        return replace(message, content=(*others, TextBlock(judged)))

    async def _judge_answers(self, message: Message) -> Message:
        """Check the answers that are given by calls."""
        content = [
            await self._judge_call(block)
            if isinstance(block, ToolUseBlock) and block.name == ANSWER_TOOL
            else block
            for block in message.content
        ]
        return replace(message, content=tuple(content))

    async def _judge_call(self, call: ToolUseBlock) -> ToolUseBlock:
        text = call.raw_input if call.invalid else serde.dumps(call.input).decode()
        judged = await self._guards.judge("output", await self._guards.judge("text", text))
        if judged == text:
            return call
        if call.invalid:
            return replace(call, raw_input=judged)
        return replace(call, input=serde.loads_object(judged))
