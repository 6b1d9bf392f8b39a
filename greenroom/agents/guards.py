"""Guards: functions that look at what is said, to pass it, change it or stop it.

What a guard has rejected exists nowhere: text is held back until the guard has passed it, and the `window`
behind it, so it stands in no chunk, no history and no log. A guard on text gets each piece once, with the
window before it, and so costs as much as the stream is long.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias

from msgspec.structs import replace
from typing_extensions import TypeVar

from greenroom.agents.run_context import RunContext
from greenroom.core import (
    ConfigurationError,
    ContentBlock,
    GuardError,
    Message,
    ModelError,
    TextBlock,
    ToolUseBlock,
    serde,
)
from greenroom.llm import (
    ANSWER_TOOL,
    BlockDelta,
    BlockEnd,
    ModelStream,
    StreamEnd,
    StreamEvent,
    StreamRestart,
    UsageUpdate,
)

if TYPE_CHECKING:
    from greenroom.core import ConversationInput

__all__ = ["Guard", "GuardedStream", "Guards", "Reject", "Rewrite"]

DepsT_contra = TypeVar("DepsT_contra", contravariant=True, default=None)
DepsT = TypeVar("DepsT", default=None)


@dataclass(frozen=True)
class Rewrite:
    """Say this instead of what the guard was given."""

    text: str


@dataclass(frozen=True)
class Reject:
    """End the turn; the reason is told, what was rejected is not."""

    reason: str


Verdict: TypeAlias = Rewrite | Reject | None


@dataclass(frozen=True)
class Guard(Generic[DepsT_contra]):
    """A function that looks at a text before anybody else sees it.

    It is given the `RunContext` and the text, and returns None, a `Rewrite` or a `Reject`; it may be
    async, and ask another model. What it raises itself is a bug, and ends the agent.

    Attributes:
        check: the function.
        on: "input" looks at what the agent is told, before it joins the conversation; "text" at what the
            model writes, piece by piece while it comes, each with the `window` before it; "output" at the
            whole of the last reply, which nobody sees before.
        window: with "text", how much is held back: what has to be seen in one piece to be recognised may
            be so many characters long.

    Raises:
        ConfigurationError: `on` is another word, or the window negative.

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

    check: Callable[[RunContext[DepsT_contra], str], Verdict | Awaitable[Verdict]]
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
        """What it is called, in errors and chunks: its function's name."""
        return str(getattr(self.check, "__name__", type(self.check).__name__))

    async def judge(self, context: RunContext[DepsT_contra], text: str) -> str:
        """Return the text, or what is to be said instead.

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
    """The guards of one agent, by what they look at."""

    def __init__(
        self, guards: Sequence[Guard[DepsT]], context: Callable[[], RunContext[DepsT]]
    ) -> None:
        """Take guards, and what makes their context."""
        self._guards = guards
        self._context = context

    def of(self, on: str) -> list[Guard[DepsT]]:
        """Return those that look at one thing, in their order."""
        return [guard for guard in self._guards if guard.on == on]

    async def judge(self, on: str, text: str) -> str:
        """Let them look at a whole text, one after the other.

        Raises:
            GuardError: one has rejected it.
        """
        for guard in self.of(on):
            text = await guard.judge(self._context(), text)
        return text

    async def judge_input(self, message: "ConversationInput") -> tuple[ContentBlock, ...]:
        """Return what of an input joins the conversation.

        Raises:
            GuardError: nothing does.
        """
        said = "".join(block.text for block in message.content if isinstance(block, TextBlock))
        text = await self.judge("input", said)
        if text == said:
            return tuple(message.content)
        others = (block for block in message.content if not isinstance(block, TextBlock))
        return (TextBlock(text), *others)

    def watch(self, stream: ModelStream) -> ModelStream:
        """Return the stream that readers get of a reply."""
        return GuardedStream(stream, self)

    def pipeline(self) -> "_Pipeline":
        """Make the way of one block of text through the guards that look at text."""
        return _Pipeline([_Stage(guard, self._context) for guard in self.of("text")])


class _Stage(Generic[DepsT]):
    """One guard on one block of text: what it has passed, and what it holds back."""

    def __init__(self, guard: Guard[DepsT], context: Callable[[], RunContext[DepsT]]) -> None:
        self._guard = guard
        self._context = context
        self._held = ""

    async def feed(self, text: str) -> str:
        """Take a piece; return what may be seen now: all but the window."""
        seen = await self._guard.judge(self._context(), self._held + text)
        cut = max(len(seen) - self._guard.window, 0)
        self._held = seen[cut:]
        return seen[:cut]

    def end(self) -> str:
        """Return what was held back, all of which has passed."""
        held, self._held = self._held, ""
        return held


class _Pipeline:
    """A block of text on its way through several guards."""

    def __init__(self, stages: "list[_Stage[DepsT]]") -> None:
        self._stages: list[_Stage[DepsT]] = stages
        self._given: list[str] = []
        self._passed: list[str] = []

    async def feed(self, text: str) -> str:
        self._given.append(text)
        for stage in self._stages:
            if not text:
                break
            text = await stage.feed(text)
        self._passed.append(text)
        return text

    def is_part_of(self, whole: str) -> bool:
        """Whether the block begins with what was given."""
        return whole.startswith("".join(self._given))

    async def end(self, whole: str) -> str:
        """Take the rest of the block, given the whole of it; return what may be seen at last."""
        given = sum(map(len, self._given))
        rest = [await self.feed(whole[given:])] if len(whole) > given else []
        for index, stage in enumerate(self._stages):
            text = stage.end()
            for later in self._stages[index + 1 :]:
                text = await later.feed(text) if text else ""
            rest.append(text)
            self._passed.append(text)
        return "".join(rest)

    @property
    def text(self) -> str:
        """What has passed."""
        return "".join(self._passed)


class GuardedStream(ModelStream):
    """A reply as its guards let it through; its own partial reply holds nothing else."""

    def __init__(self, stream: ModelStream, guards: Guards[DepsT]) -> None:
        """Read this stream."""
        super().__init__(stream.partial().provider)
        self._stream = stream
        self._guards = guards
        self._holds_back = bool(guards.of("output"))
        self._blocks: dict[int, _Pipeline] = {}
        self._ended: dict[int, TextBlock] = {}
        self._answer: BlockEnd | None = None

    async def receive(self) -> Iterable[StreamEvent]:
        """Take the next event, and return what of it may be seen."""
        try:
            event = await anext(self._stream)
        except ModelError as error:
            error.partial = None  # it is what had come, and not what has passed
            raise
        match event:
            case BlockDelta(index, "text", text):
                return self._seen(index, await self._block(index).feed(text))
            case BlockEnd(index, TextBlock() as block):
                return await self._end_block(index, block)
            case BlockEnd(block=ToolUseBlock(name=name)) if (
                self._holds_back and name == ANSWER_TOOL
            ):
                self._answer = event
                return ()
            case UsageUpdate():
                usage = self._stream.partial().usage  # with its cost
                return (event if usage is None else UsageUpdate(usage),)
            case StreamEnd():
                return await self._end(self._stream.message)
            case StreamRestart():
                self._blocks, self._ended, self._answer = {}, {}, None
                return (replace(event, partial=self.partial()),)
            case _:
                return (event,)

    def _block(self, index: int) -> _Pipeline:
        return self._blocks.setdefault(index, self._guards.pipeline())

    def _seen(self, index: int, text: str) -> Iterable[StreamEvent]:
        return (BlockDelta(index, "text", text),) if text and not self._holds_back else ()

    async def _end_block(self, index: int, block: TextBlock) -> Iterable[StreamEvent]:
        pipeline = self._block(index)
        is_whole = pipeline.is_part_of(block.text)
        if not is_whole:  # what counts is the block, whatever its pieces were
            pipeline = self._guards.pipeline()
        text = await pipeline.end(block.text)
        rest = self._seen(index, text) if is_whole else ()
        ended = self._ended[index] = _with_text(block, pipeline.text)
        return () if self._holds_back else (*rest, BlockEnd(index, ended))

    async def _end(self, message: Message) -> Iterable[StreamEvent]:
        """Put what has passed in the place of what was written."""
        passed = [self._ended[index] for index in sorted(self._ended)]
        count = sum(isinstance(block, TextBlock) for block in message.content)
        if count != len(passed):
            raise GuardError("the model's reply is not what its stream has said")
        texts = iter(passed)
        content = tuple(
            next(texts) if isinstance(block, TextBlock) else block for block in message.content
        )
        message = replace(message, content=tuple(each for each in content if each != TextBlock("")))
        if not self._holds_back:
            return (StreamEnd(message),)
        if not message.tool_uses or self._answer is not None:
            message = await self._judge_output(message)
        said = [block for block in message.content if isinstance(block, TextBlock)]
        events: list[StreamEvent] = []
        for index, block in enumerate(said):
            events += [BlockDelta(index, "text", block.text), BlockEnd(index, block)]
        return (*events, StreamEnd(message))

    async def _judge_output(self, message: Message) -> Message:
        """Let the guards look at the answer: the text, or the input of the call that gives it."""
        answers = [block for block in message.tool_uses if block.name == ANSWER_TOOL]
        text = serde.dumps(answers[0].input).decode() if answers else message.text
        judged = await self._guards.judge("output", text)
        if judged == text:
            return message
        others = (block for block in message.content if not isinstance(block, TextBlock))
        if not answers:
            return replace(message, content=(*others, TextBlock(judged)))
        changed = replace(answers[0], input=serde.loads_object(judged))
        blocks = (changed if block is answers[0] else block for block in message.content)
        return replace(message, content=tuple(blocks))


def _with_text(block: TextBlock, text: str) -> TextBlock:
    """Return the block with another text; what it says of places in its text goes with that."""
    return block if text == block.text else TextBlock(text)
