"""A reply on its way through the guards of an agent.

What a guard has rejected exists nowhere: text is held back until the guard has passed it, and the `window`
after it, so it is in no chunk, no history and no log. A guard on text gets each piece once, with the
window before it, and so costs as much as the stream is long.
"""

from collections.abc import Callable, Iterable
from typing import Generic

from msgspec.structs import replace
from typing_extensions import TypeVar

from greenroom.agents.guards import Guard, Guards
from greenroom.agents.run_context import RunContext
from greenroom.core import GuardError, Message, ModelError, TextBlock, ToolUseBlock, serde
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

DepsT = TypeVar("DepsT", default=None)


class _Stage(Generic[DepsT]):
    """One guard on one text: what it has passed, and what it holds back."""

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
    """A text on its way through several guards."""

    def __init__(self, stages: "list[_Stage[DepsT]]") -> None:
        self._stages: list[_Stage[DepsT]] = stages
        self._passed: list[str] = []

    async def feed(self, text: str) -> str:
        for stage in self._stages:
            if not text:
                break
            text = await stage.feed(text)
        self._passed.append(text)
        return text

    async def end(self) -> str:
        """Return what was held back, once all has passed."""
        rest = []
        for index, stage in enumerate(self._stages):
            text = stage.end()
            for later in self._stages[index + 1 :]:
                text = await later.feed(text) if text else ""
            rest.append(text)
        self._passed += rest
        return "".join(rest)

    @property
    def text(self) -> str:
        """What has passed."""
        return "".join(self._passed)


class GuardedStream(ModelStream):
    """A reply as its guards let it through; its own partial reply holds nothing else.

    Blocks of text that follow each other are one text for the guards: where one ends means nothing.
    """

    def __init__(self, stream: ModelStream, guards: Guards[DepsT], *, is_last: bool) -> None:
        """Read this stream."""
        super().__init__(stream.partial().provider)
        self._stream = stream
        self._guards = guards
        self._is_last = is_last
        self._holds_back = bool(guards.of("output"))
        self._start_anew()

    def _new_pipeline(self) -> _Pipeline:
        return _Pipeline([_Stage(each, self._guards.context) for each in self._guards.of("text")])

    def _start_anew(self) -> None:
        self._pipeline = self._new_pipeline()
        self._run: dict[int, TextBlock | None] = {}  # blocks of one text; None where one goes on
        self._fed: list[str] = []  # the pieces of that text, as they came
        self._ended: dict[int, TextBlock] = {}
        self._answers: list[BlockEnd] = []

    async def receive(self) -> Iterable[StreamEvent]:
        """Take the next event, and return what of it may be seen."""
        try:
            event = await anext(self._stream)
        except ModelError as error:
            error.partial = None  # it is what had come, and not what has passed
            raise
        match event:
            case BlockDelta(index, "text", text):
                self._run.setdefault(index, None)
                self._fed.append(text)
                return self._seen(await self._pipeline.feed(text))
            case BlockEnd(index, TextBlock() as block):
                self._run[index] = block
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
                self._start_anew()
                return (replace(event, partial=self.partial()),)
            case BlockDelta() | BlockEnd():
                return (*await self._end_text(), event)
            case _:
                return (event,)

    def _seen(self, text: str) -> Iterable[StreamEvent]:
        index = next(iter(self._run))
        return (BlockDelta(index, "text", text),) if text and not self._holds_back else ()

    async def _end_text(self) -> Iterable[StreamEvent]:
        """Let out what was held back of a text, once all of its blocks have ended."""
        order = sorted(self._run)
        blocks = [block for index in order if (block := self._run[index]) is not None]
        if not order or len(blocks) < len(order):
            return ()
        pipeline = self._pipeline
        whole, fed = "".join(block.text for block in blocks), "".join(self._fed)
        is_mixed = not whole.startswith(fed)
        if is_mixed:  # what counts are the blocks, whatever their pieces were
            pipeline, fed = self._new_pipeline(), ""
        text = await pipeline.feed(whole[len(fed) :]) + await pipeline.end()
        rest = () if is_mixed else self._seen(text)
        if pipeline.text != whole:  # and what it said of places in it goes with that
            blocks = [TextBlock(pipeline.text), *[TextBlock("")] * (len(blocks) - 1)]
        ended = dict(zip(order, blocks, strict=True))
        self._ended |= ended
        self._run, self._fed, self._pipeline = {}, [], self._new_pipeline()
        ends = (BlockEnd(index, block) for index, block in ended.items() if block.text)
        return () if self._holds_back else (*rest, *ends)

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
        is_answer = self._is_last or bool(self._answers) or not message.tool_uses
        if self._answers:
            message = await self._judge_answers(message)
        if not self._holds_back:
            return (StreamEnd(message),)
        if is_answer and (message.text or not self._answers):
            message = await self._judge_output(message)
        said = [block for block in message.content if isinstance(block, TextBlock)]
        events: list[StreamEvent] = []
        # In places of their own: one that another block has would be lost if this is cut off.
        places = (*sorted(self._ended), len(message.content))
        for index, block in zip(places, said, strict=False):
            events += [BlockDelta(index, "text", block.text), BlockEnd(index, block)]
        return (*events, StreamEnd(message))

    async def _judge_output(self, message: Message) -> Message:
        """Let the guards look at the answer."""
        judged = await self._guards.judge("output", message.text)
        if judged == message.text:
            return message
        others = (block for block in message.content if not isinstance(block, TextBlock))
        return replace(message, content=(*others, TextBlock(judged)))

    async def _judge_answers(self, message: Message) -> Message:
        """Let the guards look at what calls give as the answer."""
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
