"""One request over HTTP and the stream of its reply: all that touches the network here."""

import math
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import trio

from greenroom.core import (
    InvalidJSONError,
    ModelBadRequestError,
    ModelConnectionError,
    ModelError,
    ModelStreamError,
    ModelTimeoutError,
    NetworkError,
    NetworkTimeoutError,
    Price,
    serde,
)
from greenroom.llm.endpoint import Endpoint
from greenroom.llm.events import StreamEvent
from greenroom.llm.failure import error_in_band, error_of_response, request_id
from greenroom.llm.fields import mapping
from greenroom.llm.sse import SSEDecoder, SSEEvent
from greenroom.llm.stream import ModelStream
from greenroom.llm.timeouts import ModelTimeouts

if TYPE_CHECKING:
    from greenroom.net import HttpClient, HttpResponse

__all__ = ["ReplyDecoder", "exchange"]

REPLY_LIMIT = 256 * 1024 * 1024
"""The most bytes that one reply may take: far above any model's output limit."""

_ERROR_LIMIT = 64 * 1024
_ERROR_SECONDS = 5.0
_DRAIN_SECONDS = 0.25


class ReplyDecoder(Protocol):
    """Translates the events of one reply; what a new provider has to write, besides its requests."""

    def feed(self, event: SSEEvent) -> Iterable[StreamEvent]:
        """Translate one event; the last one of a reply gives a `StreamEnd`.

        Raises:
            ModelError: the provider reports an error, or the event can't be read.
        """
        ...

    def close(self) -> Iterable[StreamEvent]:
        """Take note that no more events come.

        Raises:
            ModelStreamError: the stream ended before the reply was complete.
        """
        ...


@asynccontextmanager
async def exchange(
    client: "HttpClient",
    endpoint: Endpoint,
    body: Mapping[str, object],
    decoder: ReplyDecoder,
    timeouts: ModelTimeouts,
    price: Price | None = None,
) -> AsyncIterator[ModelStream]:
    """Post a request and stream its reply; leaving the block early closes the connection.

    Raises:
        ModelError: no connection, no answer in time, or an answer that is an error.
    """
    async with AsyncExitStack() as stack:
        stream = _HttpStream(endpoint, decoder, timeouts, price)
        await stream.open(client, _encoded(endpoint, body), stack)
        yield stream
        await stream.drain()


class _HttpStream(ModelStream):
    """The stream of a reply that comes over HTTP."""

    def __init__(
        self,
        endpoint: Endpoint,
        decoder: ReplyDecoder,
        timeouts: ModelTimeouts,
        price: Price | None,
    ) -> None:
        super().__init__(endpoint.provider, price)
        self._endpoint = endpoint
        self._decoder = decoder
        self._timeouts = timeouts
        self._lines = SSEDecoder()
        self._events: deque[SSEEvent] = deque()
        self._chunks: AsyncIterator[bytes] | None = None  # None once they have ended
        self._size = 0
        self._request_id = ""

    async def open(self, client: "HttpClient", content: bytes, stack: AsyncExitStack) -> None:
        """Send the request and wait for an answer that is a stream."""
        from greenroom.net import Timeouts

        endpoint, waits = self._endpoint, self._timeouts
        request = client.stream(
            "POST",
            endpoint.url,
            headers=endpoint.headers,
            content=content,
            timeout=Timeouts(connect=waits.connect, response=waits.first_event, read=math.inf),
        )
        with _as_model_errors(endpoint.provider, ModelConnectionError):
            response = await stack.enter_async_context(request)
        await _check(endpoint, response)
        self._request_id = request_id(response.headers)
        self._chunks = response.chunks()

    async def receive(self) -> Iterable[StreamEvent]:
        """Translate the next event alone, so that what precedes an error is still given."""
        try:
            while not self._events:
                if self._chunks is None:
                    return self._decoder.close()
                self._events.extend(await self._receive_events(self._chunks))
            return self._translated(self._events.popleft())
        except ModelError as error:
            error.provider = self._endpoint.provider
            error.request_id = error.request_id or self._request_id
            raise

    def _translated(self, event: SSEEvent) -> Iterable[StreamEvent]:
        """Translate an event; only an error that it reports is kept from quoting the key."""
        try:
            return self._decoder.feed(event)
        except ModelError:
            concealed = self._endpoint.conceal(event.data.encode()).decode()
            if concealed == event.data:
                raise
        return self._decoder.feed(replace(event, data=concealed))  # the same error, without the key

    async def drain(self) -> None:
        """Read a complete reply to the end of its body, so that the connection can be used again.

        A connection that breaks now has done its work.
        """
        with trio.move_on_after(_DRAIN_SECONDS), suppress(ModelError):
            while self._draft.ended and self._chunks is not None:
                await self._receive_events(self._chunks)

    async def _receive_events(self, chunks: AsyncIterator[bytes]) -> list[SSEEvent]:
        data = await self._next_piece(chunks)
        if data is None:
            self._chunks = None
            return self._lines.close()
        self._size += len(data)
        if self._size > REPLY_LIMIT:
            raise ModelStreamError(f"the reply is larger than {REPLY_LIMIT} bytes")
        return self._lines.feed(data)

    async def _next_piece(self, chunks: AsyncIterator[bytes]) -> bytes | None:
        provider, waits = self._endpoint.provider, self._timeouts
        limit = waits.between_events if self._size else waits.first_event
        with trio.move_on_after(limit), _as_model_errors(provider, ModelStreamError):
            return await anext(chunks, None)
        raise ModelTimeoutError(
            f"{provider} sent nothing for {limit:g} seconds", provider=provider, hint="try again"
        )


async def _check(endpoint: Endpoint, response: "HttpResponse") -> None:
    """Let a response pass that is a stream of events."""
    kind = response.headers.get("content-type", "")
    is_stream = not kind.startswith(("text/html", "application/json"))
    if response.status == 200 and is_stream:
        return
    body = endpoint.conceal(await _beginning(response))
    if response.status != 200:
        raise error_of_response(
            endpoint.provider, response.status, response.headers, body, hint=endpoint.hint
        )
    raise _no_stream(endpoint.provider, kind, body)


async def _beginning(response: "HttpResponse") -> bytes:
    """Read what explains an error; the status stands, even if this does not come."""
    with trio.move_on_after(_ERROR_SECONDS), suppress(NetworkError):
        return await response.read(_ERROR_LIMIT)
    return b""


def _no_stream(provider: str, kind: str, body: bytes) -> ModelError:
    try:
        value = serde.loads(body)
    except InvalidJSONError:
        value = None
    if mapping(value).get("error"):
        return error_in_band(provider, value)
    return ModelBadRequestError(
        f"{provider} answered with {kind}, not with a stream of events",
        provider=provider,
        status=200,
        hint="check the base URL",
    )


def _encoded(endpoint: Endpoint, body: Mapping[str, object]) -> bytes:
    try:
        return serde.dumps(body)
    except InvalidJSONError as error:
        raise ModelBadRequestError(
            f"the request can't be written as JSON: {error.message}", provider=endpoint.provider
        ) from error


@contextmanager
def _as_model_errors(provider: str, broken: type[ModelError]) -> Iterator[None]:
    """Turn the network's errors into a model's; `broken` is the one for a failed connection."""
    try:
        yield
    except NetworkTimeoutError as error:
        raise ModelTimeoutError(
            f"{provider} did not answer in time: {error.message}",
            provider=provider,
            hint=error.hint,
        ) from error
    except NetworkError as error:
        raise broken(
            f"the connection to {provider} failed: {error.message}",
            provider=provider,
            hint=error.hint,
        ) from error
