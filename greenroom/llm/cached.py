"""`cached`: a model that gives a reply again where it was asked the same before."""

import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import fields
from hashlib import sha256

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from greenroom.core import ConfigurationError, Message, ModelRequest, StopReason, Usage
from greenroom.core._internal import InvalidJSONError, serde
from greenroom.llm.model_names import open_inner
from greenroom.llm.output_type import ANSWER_TOOL
from greenroom.llm.provider import LLMProvider, ProviderWrapper
from greenroom.llm.recorded import replay
from greenroom.llm.stream import Announcement, ModelStream, collect
from greenroom.resilience._internal import shared_time

_KEPT = frozenset({StopReason.END_TURN, StopReason.STOP_SEQUENCE, StopReason.TOOL_USE, None})
"""The ends of a whole answer; one that was cut off or refused may turn out better next time."""

_VENDOR_TOOLS = ("tools", "functions", "mcp_servers")
"""Options with tools that the vendor runs; what those do, or look up, would not happen again."""

_NO_PART_OF_REPLY = frozenset({"conversation"})
"""It chooses the machine that answers, and would make each session a stranger to the others."""


def cached(
    llm: LLMProvider | str,
    *,
    max_replies: int = 1_024,
    max_bytes: int = 64 * 1024 * 1024,
    max_age: float = 3_600.0,
    harmless_tools: Collection[str] = (),
) -> LLMProvider:
    """Make a model that gives its earlier reply where it is asked exactly the same again.

    A request is the same if all that decides its reply is: messages, system prompt, tools, settings
    and `options`. Ids, times and usage of messages, which are not sent, and the `conversation` do
    not count. A temperature above 0 does not make a difference: the same reply comes again.

    A hit is streamed as a new message, its text word by word. An announcement, `model.cached`,
    comes first. Nothing is sent and nothing is paid, so its usage is 0 tokens at no cost, and
    `saved` is what the reply had cost. To a budget it is a model call like any other.

    Only whole answers are kept, until they are `max_age` old. Beyond `max_replies` or `max_bytes`,
    those that were not used for the longest time are dropped; a reply that is larger than
    `max_bytes` alone is not kept. Nothing is written to disk.

    Two equal requests at the same time are both sent, and the reply that ends last is kept: a reply
    comes at its reader's pace, so a request that waited for another's might wait forever.

    It goes around a `resilient` model, `cached(resilient(llm))`: then a hit waits for no limit.
    Inside of one it works as well, but a hit takes its place in the limits.

    Args:
        llm: the model to ask if no reply is kept, or its name.
        max_replies: the most replies.
        max_bytes: the most bytes of all replies together, as JSON.
        max_age: seconds after which a reply is not given again.
        harmless_tools: names of tools whose calls may be repeated. A request with any other tool is
            always sent, since a reply that calls it would make it act again; so is one whose
            `options` have tools of the vendor.

    Raises:
        ConfigurationError: a bound is not above 0, `harmless_tools` is a text, or a model that is
            given by name can't be opened.

    Example:
        >>> import trio
        >>> from greenroom.llm.recorded import RecordedProvider
        >>> model = cached(RecordedProvider([Message.assistant("hello")]))
        >>> request = ModelRequest(messages=[Message.user("hi")])
        >>> [trio.run(model.generate, request).text for _ in range(3)]
        ['hello', 'hello', 'hello']
    """
    for name, bound in (("replies", max_replies), ("bytes", max_bytes), ("age", max_age)):
        if not bound > 0:
            raise ConfigurationError(f"max_{name} is {bound!r}", hint="give a number above 0")
    if isinstance(harmless_tools, str):
        raise ConfigurationError(
            f"harmless_tools is {harmless_tools!r}", hint=f"write [{harmless_tools!r}]"
        )
    return _CachedProvider(
        open_inner(llm), _Replies(max_replies, max_bytes, max_age), frozenset(harmless_tools)
    )


class _CachedProvider(ProviderWrapper):
    """A model, and its replies."""

    def __init__(
        self, llm: LLMProvider, replies: "_Replies", harmless_tools: frozenset[str]
    ) -> None:
        super().__init__(llm)
        self._replies = replies
        self._harmless = harmless_tools | {ANSWER_TOOL}

    def __repr__(self) -> str:
        return f"cached({self.llm!r})"

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStream]:
        key = self._key(request)
        if (found := self._find(key)) is not None:
            async with found:
                yield found
            return
        async with self.llm.stream(request) as stream:
            yield stream
            self._keep(key, stream.partial())

    async def generate(self, request: ModelRequest) -> Message:
        key = self._key(request)
        if (found := self._find(key)) is not None:
            return await collect(found)
        reply = await self.llm.generate(request)  # which may do more than read a stream
        self._keep(key, reply)
        return reply

    def _key(self, request: ModelRequest) -> bytes | None:
        """Return the key of a request, or None if it must be sent."""
        if any(request.options.get(name) for name in _VENDOR_TOOLS):
            return None
        if not self._harmless.issuperset(tool.name for tool in request.tools):
            return None
        try:
            return request_key(self.llm, request)
        except InvalidJSONError:
            return None  # the provider explains what is wrong with it

    def _find(self, key: bytes | None) -> ModelStream | None:
        """Return the stream of a hit, or None."""
        found = None if key is None else self._replies.find(key)
        if found is None:
            return None
        reply = serde.decode(found.content, Message)
        tokens = reply.usage.total if reply.usage else 0
        stream = replay(replace(reply, usage=_usage_of_hit(reply.usage)))
        data: dict[str, object] = {"provider": self.name, "model": self.model}
        data |= {"seconds": found.age, "tokens": tokens}
        text = f"the reply is {found.age:.0f} s old and comes from the cache; nothing was sent"
        stream.announce(Announcement("model.cached", data, text))
        return stream

    def _keep(self, key: bytes | None, reply: Message) -> None:
        if key is not None and reply.stop_reason in _KEPT:
            with suppress(InvalidJSONError):
                self._replies.keep(key, serde.encode(reply))


def request_key(llm: LLMProvider, request: ModelRequest) -> bytes:
    """Return a digest of all that decides the reply of this model to a request.

    Raises:
        InvalidJSONError: the request has something that JSON can't express.
    """
    names = (each.name for each in fields(request) if each.name not in _NO_PART_OF_REPLY)
    parts: dict[str, object] = {name: getattr(request, name) for name in names}
    parts["messages"] = [
        replace(message, id="", created_at=None, usage=None) for message in request.messages
    ]
    parts["options"] = _mark_unset(request.options)
    model = [llm.name, llm.model, getattr(llm, "api", "")]
    return sha256(serde.encode([model, parts])).digest()


def _mark_unset(value: object) -> object:
    """Return options as JSON: an object becomes a list of pairs, and `UNSET` a mark."""
    if isinstance(value, Mapping):
        return {"pairs": [(name, _mark_unset(each)) for name, each in value.items()]}
    if isinstance(value, list | tuple):
        return [_mark_unset(each) for each in value]
    return {"unset": True} if value is UNSET else value


def _usage_of_hit(usage: Usage | None) -> Usage:
    """Return the usage of a reply that was not paid for again: 0, which is not "not reported"."""
    if usage is None or usage.cost is None:
        return Usage(0, 0)
    return Usage(0, 0, cost=0.0, saved=usage.cost)


class _Found(msgspec.Struct, frozen=True):
    content: bytes
    age: float


class _Replies:
    """Replies as JSON, with bounds; for any event loops and threads."""

    def __init__(self, most: int, most_bytes: int, max_age: float) -> None:
        self._most, self._most_bytes, self._max_age = most, most_bytes, max_age
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, tuple[bytes, float]] = OrderedDict()
        self._size = 0

    def find(self, key: bytes) -> _Found | None:
        """Return a reply, and count it as used; one that is too old is dropped."""
        with self._lock:
            if key not in self._kept:
                return None
            content, since = self._kept[key]
            age = shared_time() - since
            if age >= self._max_age:
                self._drop(key)
                return None
            self._kept.move_to_end(key)
            return _Found(content, age)

    def keep(self, key: bytes, content: bytes) -> None:
        """Keep a reply, and drop the ones that were not used for the longest time."""
        with self._lock:
            if key in self._kept:
                self._drop(key)
            if len(content) > self._most_bytes:
                return
            self._kept[key] = content, shared_time()
            self._size += len(content)
            while len(self._kept) > self._most or self._size > self._most_bytes:
                self._drop(next(iter(self._kept)))

    def _drop(self, key: bytes) -> None:
        content, _ = self._kept.pop(key)
        self._size -= len(content)
