"""Models for tests: one that follows a script, an embedder without a model, a ban on real calls."""

import math
import os
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

import trio

from greenroom import core
from greenroom.core import Message, TextBlock, ToolUseBlock
from greenroom.core._internal import clip, is_async, new_id
from greenroom.llm import BlockEnd, ModelRequest, ModelStream, StreamEnd, StreamEvent
from greenroom.llm._internal import FORBID_VARIABLE, collect, events_of, replay

_QUOTED = 300  # characters of a message, in an error


@dataclass(frozen=True)
class Reply:
    """One scripted reply.

    Attributes:
        content: its blocks, or a text.
        usage: the tokens that it reports.
        stop_reason: why it ended; by default "tool_use" where it has calls, else "end_turn".
        hangs: whether the stream never ends: after the last delta it waits to be cancelled.
        error: the error to break off with after the last delta, or None.
        seconds: how long it takes, on trio's clock: an equal part of it before each event.
    """

    content: str | Iterable[core.ContentBlock] = ""
    usage: core.Usage = core.Usage(10, 5)  # noqa: RUF009 (a frozen value)
    stop_reason: core.StopReason | None = None
    hangs: bool = False
    error: core.GreenroomError | None = None
    seconds: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a time that makes no sense.

        Raises:
            ConfigurationError: `seconds` is negative, or not a number.
        """
        if not 0 <= self.seconds < math.inf:
            raise core.ConfigurationError(f"a reply can't take {self.seconds!r} seconds")

    def message(self, provider: str, model: str) -> Message:
        """Return this reply as a message."""
        blocks = Message.assistant(self.content).content
        calls = any(isinstance(block, ToolUseBlock) for block in blocks)
        reason = core.StopReason.TOOL_USE if calls else core.StopReason.END_TURN
        return Message(
            "assistant",
            tuple(block for block in blocks if block != TextBlock("")),
            model=model,
            provider=provider,
            stop_reason=self.stop_reason or reason,
            usage=self.usage,
        )


Step: TypeAlias = (
    str
    | Reply
    | Message
    | ToolUseBlock
    | list[core.ContentBlock]
    | Callable[[ModelRequest], "Step"]
)
"""A step of a script: a text, a reply, a stored message of an assistant, one call, blocks, or a
function of the request."""


def call(name: str, /, **arguments: object) -> ToolUseBlock:
    """Make a tool call with a new id, for a script.

    Example:
        >>> call("Read", file_path="a.py").input
        {'file_path': 'a.py'}
    """
    return ToolUseBlock(new_id("toolu"), name, dict(arguments))


class ScriptedProvider:
    """A model without a network: each request takes the next step of the script.

    `requests` holds what it was asked. When the script is used up it raises `GreenroomError`, as a
    broken model would: in an agent that fails the turn, and `ask(...)` returns a result whose
    status is failed and whose error says that the script is used up.

    Example:
        >>> model = ScriptedProvider("hello")
        >>> trio.run(model.generate, ModelRequest(messages=[Message.user("hi")])).text
        'hello'
    """

    def __init__(
        self,
        *script: Step,
        name: str = "scripted",
        model: str = "script",
        price: core.Price | None = None,
    ) -> None:
        """Take the steps in order, and what their tokens cost.

        Raises:
            ConfigurationError: something is not a step of a script.
        """
        for step in script:
            is_value = isinstance(step, str | Reply | Message | ToolUseBlock | list)
            if not is_value and (not callable(step) or is_async(step)):
                raise core.ConfigurationError(
                    f"{step!r} is not a step of a script",
                    hint="write a text, a Reply, call(…), a list of blocks, or a plain function",
                )
            if isinstance(step, Message) and step.role != "assistant":
                raise core.ConfigurationError(
                    f"a message of a {step.role} is not a step of a script",
                    hint="pass the messages of a history whose role is assistant",
                )
        self.name = name
        self.model = model
        self.price = price
        self.requests: list[ModelRequest] = []
        self._script = deque(script)

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStream]:
        """Give the next step of the script.

        Raises:
            GreenroomError: the script is used up, or the step says to break off.
        """
        await trio.lowlevel.checkpoint()
        self.requests.append(request)
        if not self._script:
            raise core.GreenroomError(
                f"the script of {self.name} is used up",
                hint=f"this was request {len(self.requests)}, and each takes a step: after the "
                f"calls of tools, a turn asks once more{_describe_end(request)}",
            )
        step = self._script.popleft()
        while callable(step):
            step = step(request)
        if isinstance(step, Message):
            yield replay(step)
        else:
            yield _ScriptedStream(self, _reply(step))

    async def generate(self, request: ModelRequest) -> Message:
        """Give the next step of the script as a complete message."""
        return await collect(self.stream(request))

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""
        await trio.lowlevel.checkpoint()


def _describe_end(request: ModelRequest) -> str:
    """Quote what the request ends with: it may say that the reply before did not fit."""
    last = request.messages[-1].text if request.messages else ""
    return f"; this one ends with: {clip(' '.join(last.split()), _QUOTED)}" if last else ""


def _reply(step: Step) -> Reply:
    if isinstance(step, Reply):
        return step
    if isinstance(step, ToolUseBlock):
        return Reply([step])
    assert not callable(step)  # unfolded by the caller
    assert not isinstance(step, Message)  # replayed as it is
    return Reply(step)


class _ScriptedStream(ModelStream):
    """The events of one reply, which may hang or break off before its end."""

    def __init__(self, provider: ScriptedProvider, reply: Reply) -> None:
        super().__init__(provider.name, provider.price)
        self._reply = reply
        message = reply.message(provider.name, provider.model)
        self._last = len(message.content) - 1
        self._events = deque(events_of(message))
        self._pause = reply.seconds / len(self._events)

    async def receive(self) -> Iterable[StreamEvent]:
        if self._pause:
            await trio.sleep(self._pause)
        # As from a socket: a cancel that comes after the piece does not take the piece away.
        arrived = trio.Event()
        trio.lowlevel.current_trio_token().run_sync_soon(arrived.set)
        await arrived.wait()
        event = self._events.popleft()
        # The last block is cut in its middle: its deltas have come, its end has not.
        if isinstance(event, StreamEnd) or (
            isinstance(event, BlockEnd) and event.index == self._last
        ):
            if self._reply.error is not None:
                raise self._reply.error
            if self._reply.hangs:
                await trio.sleep_forever()
        return (event,)


class HashEmbedder:
    """Turns texts into vectors without a model: texts that share words are close to each other.

    The same text always gives the same vector, in any process and on any machine. `synonyms` makes
    words mean the same, so that a test can tell meaning from words.

    Args:
        size: how many numbers a vector has, at least two.
        synonyms: words of which all but the first count as the first, such as `[("dog", "hound")]`.

    Example:
        >>> import trio
        >>> embedder = HashEmbedder(size=64, synonyms=[("dog", "hound")])
        >>> one, other = trio.run(embedder.embed, ["a hound", "a dog"])
        >>> len(one), one == other
        (64, True)
    """

    def __init__(self, size: int = 256, synonyms: Sequence[Sequence[str]] = ()) -> None:
        self.name = f"hash-{size}"
        self.size = size
        self.calls = 0
        """How often it was asked, for a test to look at."""
        self._canonical_words = {word: words[0] for words in synonyms for word in words}

    async def embed(self, texts: Sequence[str], /) -> list[list[float]]:
        """Return a vector for each text."""
        self.calls += 1
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self.size
        vector[0] = 0.01  # the direction of a text without words, or whose words cancel out
        for word in re.findall(r"\w+", text.casefold()):
            digest = blake2b(self._canonical_words.get(word, word).encode(), digest_size=5).digest()
            place = 1 + int.from_bytes(digest[:4], "big") % (self.size - 1)
            vector[place] += 1.0 if digest[4] & 1 else -1.0
        return vector


@contextmanager
def forbid_model_calls() -> Iterator[None]:
    """Forbid calls of real models inside the block, in this process and in those that it starts.

    Whatever would send a request to a host that is not this machine raises
    `ModelCallForbiddenError` before anything is sent. Scripted, recorded and offline models go on
    working, and so do servers on 127.0.0.1 and cassettes that replay.

    It sets `GREENROOM_FORBID_MODEL_CALLS`, which holds for the whole process.

    Example:
        >>> import trio
        >>> from greenroom import Message
        >>> from greenroom.llm import AnthropicProvider
        >>> from greenroom.llm import ModelRequest
        >>> llm = AnthropicProvider("claude-sonnet-5-5", api_key="sk-ant-1", env={})
        >>> with forbid_model_calls():
        ...     trio.run(llm.generate, ModelRequest(messages=(Message.user("Hello."),)))
        Traceback (most recent call last):
        greenroom.llm.model_errors.ModelCallForbiddenError: a request would have gone to ...
    """
    before = os.environ.get(FORBID_VARIABLE)
    os.environ[FORBID_VARIABLE] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(FORBID_VARIABLE, None)
        else:
            os.environ[FORBID_VARIABLE] = before
