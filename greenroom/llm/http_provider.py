"""The base of providers over HTTP: a subclass encodes requests and decodes replies."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING

import trio
from msgspec.structs import replace

from greenroom.core import ConfigurationError, Message, ModelRequest, Price, ToolUseBlock
from greenroom.core._internal import InvalidJSONError, portable_name
from greenroom.llm.catalog import model_profile
from greenroom.llm.endpoint import Endpoint, ModelTimeouts
from greenroom.llm.failure import error_in_band
from greenroom.llm.http_stream import Exchange, ReplyDecoder, StreamedReply
from greenroom.llm.json_fields import decode_event
from greenroom.llm.merged_messages import DropNotices, MergedMessage, merge_messages
from greenroom.llm.model_errors import ModelBadRequestError, ModelError
from greenroom.llm.portable_calls import dotted_names, tool_use
from greenroom.llm.refused_blocks import Refusal, RefusedBlocks
from greenroom.llm.request_encoder import EncodedRequest
from greenroom.llm.request_frame import assemble
from greenroom.llm.request_rules import FittedRequest, fit_request, may_force
from greenroom.llm.sse import SSEEvent
from greenroom.llm.stream import ModelStream, collect
from greenroom.llm.windows import UNKNOWN_WINDOW, ContextWindow, check_window

if TYPE_CHECKING:
    from types import TracebackType

    from greenroom.net._internal import HttpTransport


_MOST_REFUSALS = 8
"""How often a request is sent again without what was refused; each attempt takes time."""


class HttpProvider(ABC):
    """A provider that posts JSON and reads server-sent events.

    To write one, pass an `Endpoint`, return the body of a request from `encode`, and return a
    `ReplyDecoder`, which translates the reply, from `decoder`. `merge_messages` helps to encode,
    and `decode_event`, `error_in_band` and `tool_use` to decode.
    """

    api = ""
    """The `Message.api` of its replies."""

    def __init__(
        self,
        model: str,
        endpoint: Endpoint,
        client: "HttpTransport | None",
        timeouts: ModelTimeouts | None,
        price: Price | None = None,
        connections: int | None = None,
        window: int | None = None,
    ) -> None:
        """Store the configuration; nothing is sent yet. The provider closes a client that it opens.

        Raises:
            ConfigurationError: `connections` is not a whole number of at least 1, or is passed
                together with a client, which has its own limit; or the `window` is not a number of
                tokens.
        """
        if client is not None and connections is not None:
            raise ConfigurationError(
                f"the {endpoint.provider} provider can't limit the connections of a client "
                "that is passed to it",
                hint="leave out `connections`, and make the client with HttpClient(connections=…)",
            )
        self.name = endpoint.provider
        self.model = model
        self.price = price
        self.window = check_window(window)
        self._endpoint = replace(endpoint, model=model)
        self.profile = model_profile(f"{self.name}:{model}")
        """What is known about the model."""
        self._notices = DropNotices(endpoint.provider, self.api)
        self._refused = RefusedBlocks(endpoint.provider)
        self._timeouts = timeouts or ModelTimeouts()
        self._client = client or open_client(connections)
        self._owns_client = client is None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"

    @property
    def account(self) -> str:
        """What the provider's limits count for, as a digest: the key at its host."""
        return self._endpoint.account

    def fit(self, request: ModelRequest) -> FittedRequest:
        """Return the request as this model accepts it; see `RequestRules`.

        Raises:
            ModelBadRequestError: the model would refuse it.
        """
        most = self.profile.max_output_tokens
        return fit_request(request, self.profile.rules, name=self.profile.name, max_output=most)

    def accepts_forced_tool(self, request: ModelRequest) -> bool:
        """Whether the model lets this request force a call."""
        return may_force(request, self.profile.rules)

    @abstractmethod
    def encode(self, request: ModelRequest) -> Mapping[str, object]:
        """Return the body of a streaming request."""

    @abstractmethod
    def decoder(self) -> ReplyDecoder:
        """Return a decoder for one reply."""

    def merge_messages(self, messages: Iterable[Message]) -> list[MergedMessage]:
        """Merge consecutive messages of one role, so that user and assistant alternate.

        What this provider would not understand is left out: another one's thinking, blocks of
        unknown kinds, blank text.
        """
        return merge_messages(messages, self.name)

    def portable_name(self, name: str) -> str:
        """Return the name of a tool without dots, for an API that refuses them.

        It is for the tools and for the calls of the history; the calls of a reply get the original
        names back.
        """
        return portable_name(name)

    def decode_event(self, event: SSEEvent) -> dict[str, object]:
        """Decode the JSON object of an event; for any other JSON, return an empty one.

        Raises:
            ModelStreamError: the event is not JSON, or is nested so deeply that it could not be
                sent back.
        """
        return decode_event(event.data, self.name)

    def error_in_band(self, report: object) -> ModelError:
        """Return the error that the provider reports, as JSON, in the middle of a reply."""
        return error_in_band(self.name, report)

    def tool_use(self, call_id: str, name: str, arguments: str) -> ToolUseBlock:
        """Make a call from its argument text; a text that can't be used makes the call invalid."""
        return tool_use(call_id, name, arguments)

    async def prepare(self, request: ModelRequest) -> EncodedRequest:
        """Encode a streaming request that fits the model.

        Raises:
            ModelBadRequestError: the request contains something that can't be sent.
            InvalidJSONError: it contains something that JSON can't express.
        """
        return EncodedRequest(assemble(self.encode(request)))

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[ModelStream]:
        """Send a request and stream the reply.

        If the provider refuses an image or a document, the request is sent again with a line of
        text in its place, and so are later requests; an announcement tells readers.

        Raises:
            ModelError: the request failed; raised on entering the block, or between two events.
        """
        return _Reply(partial(self._begin, request))

    async def _begin(self, request: ModelRequest) -> StreamedReply:
        """Send a request, and say what of it is not sent."""
        names = dotted_names(request.tools)
        fitted = self.fit(request)
        try:
            encoded = await self.prepare(fitted.request)
        except InvalidJSONError as error:
            raise invalid_request(error, self.name) from error
        changes = [*fitted.changes, *encoded.changes]
        if encoded.left_out:
            changes.append(
                f"not sent to {self.name}: thinking that no longer fits what comes before it"
            )
        reply, stream = await self._open(encoded.content, names)
        stream.bind(encoded.prefix)
        if notice := self._notices.notice(request, changes):
            stream.announce(notice)
        return reply

    async def _open(
        self, content: bytes, names: Mapping[str, str]
    ) -> tuple[StreamedReply, ModelStream]:
        """Send a request, if need be again without what the provider refuses of it."""
        content = self._refused.replace(content)
        refusals: list[Refusal] = []
        while True:
            exchange = Exchange(self._client, self._endpoint, content, self._timeouts)
            reply = StreamedReply(exchange, self.decoder(), self.price, names)
            try:
                stream = await reply.open()
            except ModelBadRequestError as error:
                refusal = await trio.to_thread.run_sync(self._refused.find, content, error)
                if refusal is None or len(refusals) >= _MOST_REFUSALS:
                    raise
                refusals.append(refusal)
                content = refusal.content
                continue
            for refusal in refusals:
                self._refused.remember(refusal)
                stream.announce(refusal.announcement)
            return reply, stream

    async def generate(self, request: ModelRequest) -> Message:
        """Send a request and return the complete reply.

        Raises:
            ModelError: the request failed or the reply broke off; the subclass says why.
        """
        return await collect(self.stream(request))

    async def find_window(self, *, has_replied: bool = False, load: bool = False) -> ContextWindow:
        """Return the context window that the program gave; `greenroom.llm.find_window` knows more.

        Args:
            has_replied: whether the model has replied before, so that its server has loaded it.
            load: whether to have its server load it.
        """
        return ContextWindow(self.window, "given") if self.window else UNKNOWN_WINDOW

    async def aclose(self) -> None:
        """Close the connections, unless they are those of a client that was passed."""
        if self._owns_client:
            await self._client.aclose()


def open_client(connections: int | None) -> "HttpTransport":
    """Open a client; None leaves its limit of connections at the default."""
    from greenroom.net import HttpClient

    return HttpClient() if connections is None else HttpClient(connections=connections)


def invalid_request(error: InvalidJSONError, provider: str) -> ModelBadRequestError:
    """Return the error of a request with something that JSON can't express."""
    text = f"the request can't be written as JSON: {error.message}"
    return ModelBadRequestError(text, provider=provider)


class _Reply:
    """The block in which a reply is streamed; a class, since there is one for each request."""

    def __init__(self, begin: Callable[[], Awaitable[StreamedReply]]) -> None:
        self._begin = begin

    async def __aenter__(self) -> ModelStream:
        self._reply = await self._begin()
        return await self._reply.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> bool | None:
        return await self._reply.__aexit__(kind, error, trace)
