"""One request over HTTP and the stream of its reply: all that touches the network here."""

import math
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import trio

from greenroom.core import (
    InvalidJSONError,
    ModelBadRequestError,
    ModelConnectionError,
    ModelConnectTimeoutError,
    ModelError,
    ModelFirstEventTimeoutError,
    ModelIdleTimeoutError,
    ModelRequestTimeoutError,
    ModelStreamError,
    ModelTimeoutError,
    NetworkError,
    NetworkTimeoutError,
    Price,
    serde,
)
from greenroom.llm.calls import restore_names
from greenroom.llm.endpoint import Endpoint, ModelTimeouts, check_call
from greenroom.llm.failure import error_in_band, error_of_response, request_id, too_large
from greenroom.llm.fields import event_of, items, mapping
from greenroom.llm.sse import EVENT_LIMIT, SSEDecoder, SSEEvent
from greenroom.llm.stream import ModelStream, StreamEvent

if TYPE_CHECKING:
    from greenroom.net import ChunkIterator, HttpResponse, HttpTransport


# ---- The answer to a request for a stream that is not one: a whole reply, an error, or a page.
#
# Small servers ignore that a stream was asked for, and answer with one JSON object. The content type
# can't be relied on, of a stream neither, so the first bytes decide.

SHOWING = 6
"""As many bytes show what an answer is; fewer do at its end."""

_FIELDS = (b":", b"data", b"event", b"id", b"retry")
_ERROR_LIMIT = 64 * 1024
_ERROR_SECONDS = 5.0


def is_object(beginning: bytes) -> bool:
    """Whether an answer that begins so, blanks aside, is a JSON object: no event begins so."""
    return beginning.startswith(b"{")


def is_stream(beginning: bytes, content_type: str) -> bool:
    """Whether an answer that begins so is a stream of events, by its content type or by itself.

    Example:
        >>> is_stream(b"data: ", "text/plain"), is_stream(b"<html>", "text/event-stream")
        (True, False)
    """
    if content_type.startswith("text/event-stream"):
        return not beginning.startswith((b"{", b"<"))
    return not beginning or beginning.startswith(_FIELDS)


def reply_in(body: bytes, endpoint: Endpoint) -> dict[str, object]:
    """Return the reply that an answer is as a whole, as the provider wrote it.

    Raises:
        ModelError: it is an error that the provider reports, or is not JSON.
    """
    reply = _decode(body, endpoint)
    if _is_error(reply):
        raise error_in_band(endpoint.provider, _decode(endpoint.conceal(body), endpoint))
    return reply


def no_stream(endpoint: Endpoint, content_type: str, body: bytes = b"") -> ModelError:
    """Return the error of an answer that is not a reply, from the beginning of its body."""
    try:
        value = serde.loads(endpoint.conceal(body))
    except InvalidJSONError:
        value = None
    if any(map(_is_error, map(mapping, [value, *items(value)]))):
        return error_in_band(endpoint.provider, value)
    return ModelBadRequestError(
        f"{endpoint.provider} answered with {content_type or 'something unknown'}, "
        "not with a stream of events",
        provider=endpoint.provider,
        status=200,
        hint="check the base URL",
    )


async def refusal(endpoint: Endpoint, response: "HttpResponse") -> ModelError:
    """Return the error of an answer whose status is not a success."""
    body = endpoint.conceal(await _read_beginning(response))
    headers = {name: endpoint.conceal_text(said) for name, said in response.headers.items()}
    return error_of_response(endpoint.provider, response.status, headers, body, hint=endpoint.hint)


async def _read_beginning(response: "HttpResponse") -> bytes:
    """Read what explains an error, as far as it comes; the status holds without it."""
    body = bytearray()
    with trio.move_on_after(_ERROR_SECONDS):
        try:
            async for piece in response.chunks():
                body += piece
                if len(body) >= _ERROR_LIMIT:
                    break
        except NetworkError:
            pass  # what had come may say enough
    return bytes(body[:_ERROR_LIMIT])


def _decode(body: bytes, endpoint: Endpoint) -> dict[str, object]:
    return event_of(body.decode(errors="replace"), endpoint.provider)


def _is_error(reply: Mapping[str, object]) -> bool:
    return bool(reply.get("error")) or "error" in (reply.get("type"), reply.get("object"))


REPLY_LIMIT = 512 * 1024 * 1024
"""The most bytes that a stream may take: some millions of deltas, far above any model's limit."""

_NO_NAMES: Mapping[str, str] = {}
_PAGE_LIMIT = 64 * 1024
_DRAIN_SECONDS = 0.25
_BLANKS = b" \t\r\n\xef\xbb\xbf"  # and the byte order mark


class ReplyDecoder(Protocol):
    """Translates the events of one reply; what a new provider has to write, besides its requests."""

    def feed(self, event: SSEEvent) -> Iterable[StreamEvent]:
        """Translate one event; the last one of a reply gives a `StreamEnd`.

        Raises:
            ModelError: the provider reports an error, or the event can't be read.
        """

    def close(self) -> Iterable[StreamEvent]:
        """Take note that no more events come.

        Raises:
            ModelStreamError: the stream ended before the reply was complete.
        """


@runtime_checkable
class WholeReplyDecoder(ReplyDecoder, Protocol):
    """A decoder that reads plain answers as well, of servers that do not stream."""

    def whole(self, value: dict[str, object]) -> Iterable[StreamEvent]:
        """Translate a reply that came as one JSON object; the last event is a `StreamEnd`.

        Raises:
            ModelError: the object is not a reply.
        """


@asynccontextmanager
async def exchange(
    client: "HttpTransport",
    endpoint: Endpoint,
    content: bytes,
    decoder: ReplyDecoder,
    timeouts: ModelTimeouts,
    price: Price | None = None,
    names: Mapping[str, str] = _NO_NAMES,
) -> AsyncIterator[ModelStream]:
    """Post a request and stream its reply; leaving the block early closes the connection.

    `names` are those of tools that the model calls otherwise, as `dotted_names` gives them.

    Raises:
        ModelError: no connection, no answer in time, or an answer that is an error.
        ModelCallForbiddenError: calls of real models are forbidden, and this is one.
    """
    async with AsyncExitStack() as stack:
        stream = _HttpStream(endpoint, decoder, timeouts, price, names)
        await stream.open(client, content, stack)
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
        names: Mapping[str, str],
    ) -> None:
        super().__init__(endpoint.provider, price)
        self._names = names
        self._endpoint = endpoint
        self._decoder = decoder
        self._timeouts = timeouts
        self._lines = SSEDecoder()
        self._events: deque[SSEEvent] = deque()
        self._chunks: ChunkIterator | None = None  # None once they have ended
        self._content_type = ""
        self._size = 0
        self._has_begun = False
        self._is_closed = False
        self._request_id = ""

    async def open(self, client: "HttpTransport", content: bytes, stack: AsyncExitStack) -> None:
        """Send the request and wait for an answer whose status is a success."""
        from greenroom.net import Timeouts

        endpoint, waits = self._endpoint, self._timeouts
        check_call(endpoint, client)
        request = client.stream(
            "POST",
            endpoint.url,
            headers=endpoint.headers,
            content=content,
            timeout=Timeouts(
                connect=waits.connect,
                response=waits.first_event,
                read=waits.first_event,
                total=math.inf if waits.request is None else waits.request,
            ),
        )
        try:
            response = await stack.enter_async_context(request)
        except NetworkError as error:
            raise self._failure(error, ModelConnectionError) from error
        if response.status != 200:
            raise await refusal(endpoint, response)
        self._request_id = endpoint.conceal_text(request_id(response.headers))
        said = response.headers.get("content-type", "")
        self._content_type = endpoint.conceal_text(said).lower()
        self._chunks = response.chunks()

    async def receive(self) -> Iterable[StreamEvent]:
        """Translate the next event alone, so that what precedes an error is still given."""
        events = await self._receive()
        return [restore_names(each, self._names) for each in events] if self._names else events

    async def _receive(self) -> Iterable[StreamEvent]:
        try:
            if not self._has_begun:
                self._has_begun = True
                return await self._begin()
            while not self._events:
                if self._is_closed:
                    raise ModelStreamError("the stream ended before the reply was complete")
                if self._chunks is None:
                    self._is_closed = True
                    return list(self._decoder.close())
                await self._receive_events()
            return self._translate(self._events.popleft())
        except ModelError as error:
            error.provider = self._endpoint.provider
            error.request_id = error.request_id or self._request_id
            raise

    async def drain(self) -> None:
        """Read a complete reply to the end of its body, so that the connection can be used again.

        A connection that breaks now has done its work.
        """
        with trio.move_on_after(_DRAIN_SECONDS), suppress(ModelError):
            while self._draft.ended and self._chunks is not None:
                await self._next_piece()

    async def _begin(self) -> Iterable[StreamEvent]:
        """Read what shows whether the answer is a stream; a whole reply is translated at once."""
        body = await self._read(SHOWING)
        if is_stream(body, self._content_type):
            self._events.extend(self._lines.feed(body))
            return ()
        if is_object(body):
            body = await self._read(EVENT_LIMIT, body)
            if len(body) >= EVENT_LIMIT:
                raise too_large(f"the reply is larger than {EVENT_LIMIT} bytes")
            reply = reply_in(body, self._endpoint)
            if isinstance(self._decoder, WholeReplyDecoder):
                return list(self._decoder.whole(reply))
        body = await self._read(_PAGE_LIMIT, body)
        raise no_stream(self._endpoint, self._content_type, body)

    def _translate(self, event: SSEEvent) -> Iterable[StreamEvent]:
        """Translate an event; only an error that it reports is kept from quoting the key."""
        try:
            return list(self._decoder.feed(event))
        except ModelError:
            concealed = self._endpoint.conceal(event.data.encode()).decode()
            if concealed == event.data:
                raise
        return list(self._decoder.feed(replace(event, data=concealed)))  # the error without the key

    async def _receive_events(self) -> None:
        piece = await self._next_piece()
        self._events.extend(self._lines.close() if piece is None else self._lines.feed(piece))

    async def _read(self, enough: int, beginning: bytes = b"") -> bytes:
        """Read on until there is enough, or the answer has ended; leave out blanks before it."""
        found = bytearray(beginning)
        while len(found) < enough and (piece := await self._next_piece()) is not None:
            found += piece if found else piece.lstrip(_BLANKS)
        return bytes(found)

    async def _next_piece(self) -> bytes | None:
        """Wait for the next piece of the body; None is its end."""
        if self._chunks is None:
            return None
        try:
            piece = await anext(self._chunks)
        except StopAsyncIteration:
            self._chunks = None
            return None
        except NetworkError as error:
            raise self._failure(error, ModelStreamError) from error
        self._chunks.timeout = self._timeouts.between_events
        self._size += len(piece)
        if self._size > REPLY_LIMIT:
            raise too_large(f"the reply is larger than {REPLY_LIMIT} bytes")
        return piece

    def _failure(self, error: NetworkError, broken: type[ModelError]) -> ModelError:
        """Turn an error of the network into a model's; `broken` is the one of a failed connection."""
        provider = self._endpoint.provider
        if isinstance(error, NetworkTimeoutError):
            return self._time_out(error)
        said = f"the connection to {provider} failed: {error.message}"
        return broken(said, provider=provider, hint=error.hint or broken.remedy)

    def _time_out(self, error: NetworkTimeoutError) -> ModelTimeoutError:
        provider, waits = self._endpoint.provider, self._timeouts
        kind: type[ModelTimeoutError] = ModelTimeoutError
        said = f"{provider} did not answer in time: {error.message}"
        if error.phase == "connect":
            kind = ModelConnectTimeoutError
        elif error.phase == "response":
            kind = ModelFirstEventTimeoutError
        elif error.phase == "read":
            kind = ModelIdleTimeoutError if self._size else ModelFirstEventTimeoutError
            limit = waits.between_events if self._size else waits.first_event
            said = f"{provider} sent nothing for {limit:g} seconds"
        elif error.phase == "total":
            kind = ModelRequestTimeoutError
            said = f"{provider} did not complete the reply within {waits.request or 0:g} seconds"
        return kind(said, provider=provider, hint=kind.remedy)
