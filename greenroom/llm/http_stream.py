"""Requests over HTTP and their replies, as a stream or in one piece.

Small servers ignore that a stream was requested, and answer with one JSON object. Their content
types are often wrong, for streams too, so the first bytes decide.
"""

import math
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import trio
from msgspec.structs import replace

from greenroom.core import NetworkError, Price
from greenroom.core._internal import InvalidJSONError, NetworkTimeoutError, quantity, serde
from greenroom.llm.catalog import MODELS, similar_models, without_date
from greenroom.llm.endpoint import Endpoint, ModelTimeouts, authorize, check_call
from greenroom.llm.failure import error_in_band, error_of_response, request_id, too_large
from greenroom.llm.json_fields import as_dict, as_list, decode_event
from greenroom.llm.model_errors import (
    ModelBadRequestError,
    ModelConnectionError,
    ModelConnectTimeoutError,
    ModelError,
    ModelFirstEventTimeoutError,
    ModelIdleTimeoutError,
    ModelNotFoundError,
    ModelRequestTimeoutError,
    ModelStreamError,
    ModelTimeoutError,
)
from greenroom.llm.portable_calls import restore_names
from greenroom.llm.sse import EVENT_LIMIT, SSEDecoder, SSEEvent
from greenroom.llm.stream import ModelStream, StreamEnd, StreamEvent

if TYPE_CHECKING:
    from types import TracebackType

    from greenroom.net._internal import ChunkIterator, HttpResponse, HttpTransport, Timeouts


_PREFIX = 6
"""How many bytes distinguish a stream from a whole reply, unless the answer is shorter."""

_FIELDS = (b":", b"data", b"event", b"id", b"retry")
_ERROR_LIMIT = 64 * 1024
_ERROR_SECONDS = 5.0


def is_stream(beginning: bytes, content_type: str) -> bool:
    """Whether an answer is a stream of events, judged by its content type and its first bytes.

    Example:
        >>> is_stream(b"data: ", "text/plain"), is_stream(b"<html>", "text/event-stream")
        (True, False)
    """
    if content_type.startswith("text/event-stream"):
        return not beginning.startswith((b"{", b"<"))
    return not beginning or beginning.startswith(_FIELDS)


def read_reply(body: bytes, endpoint: Endpoint) -> dict[str, object]:
    """Return the reply in an answer that is not a stream, as the provider wrote it.

    Raises:
        ModelError: the answer is an error, or is not JSON.
    """
    reply = _decode(body, endpoint)
    if _is_error(reply):
        raise error_in_band(endpoint.provider, _decode(endpoint.conceal(body), endpoint))
    return reply


def not_a_stream(endpoint: Endpoint, content_type: str, body: bytes = b"") -> ModelError:
    """Return the error of an answer that is neither a stream nor a reply, by its beginning."""
    try:
        value = serde.loads(endpoint.conceal(body))
    except InvalidJSONError:
        value = None
    if error := next(filter(_is_error, map(as_dict, [value, *as_list(value)])), None):
        return error_in_band(endpoint.provider, error)
    return ModelBadRequestError(
        f"{endpoint.provider} answered with {content_type or 'something unknown'}, "
        "not with a stream of events",
        provider=endpoint.provider,
        status=200,
        hint="check the base URL",
    )


async def _read_error(endpoint: Endpoint, response: "HttpResponse") -> ModelError:
    """Return the error of an answer whose status is not a success."""
    body = endpoint.conceal(await _read_error_body(response))
    headers = {name: endpoint.conceal_text(value) for name, value in response.headers.items()}
    status = response.status
    error = error_of_response(endpoint.provider, status, headers, body, hint=endpoint.hint)
    _suggest_model(error, endpoint)
    return error


def _suggest_model(error: ModelError, endpoint: Endpoint) -> None:
    """Add to the error of a model that does not exist what may have been meant."""
    if not isinstance(error, ModelNotFoundError) or not endpoint.model:
        return
    full = f"{endpoint.provider}:{endpoint.model}"
    near = [each for each in similar_models(full) if each.startswith(f"{endpoint.provider}:")]
    if near and without_date(full) not in MODELS:
        error.add_hint(f"did you mean {near[0]}?")
    if endpoint.provider == "ollama":
        error.add_hint(
            f"`ollama pull {endpoint.model}` gets it, and `ollama list` names the others"
        )


async def _read_error_body(response: "HttpResponse") -> bytes:
    """Read the beginning of an error's body, or as much of it as arrives in time."""
    body = bytearray()
    with trio.move_on_after(_ERROR_SECONDS):
        try:
            async for piece in response.chunks():
                body += piece
                if len(body) >= _ERROR_LIMIT:
                    break
        except NetworkError:
            pass
    return bytes(body[:_ERROR_LIMIT])


def _decode(body: bytes, endpoint: Endpoint) -> dict[str, object]:
    return decode_event(body.decode(errors="replace"), endpoint.provider)


def _is_error(reply: Mapping[str, object]) -> bool:
    return bool(reply.get("error")) or "error" in (reply.get("type"), reply.get("object"))


def _read_list(body: bytes) -> list[object]:
    """Return the list that an answer is; empty if it is none, or has an error."""
    try:
        values = as_list(serde.loads(body))
    except InvalidJSONError:
        return []
    return [] if any(map(_is_error, map(as_dict, values))) else values


REPLY_LIMIT = 512 * 1024 * 1024
"""The most bytes of a stream: some millions of deltas, far above any model's limit."""

_NO_NAMES: Mapping[str, str] = {}
_PAGE_LIMIT = 64 * 1024
_DRAIN_SECONDS = 0.25
_BLANKS = b" \t\r\n\xef\xbb\xbf"  # and the byte order mark


class ReplyDecoder(Protocol):
    """Translates the events of one reply; each new provider needs its own."""

    def feed(self, event: SSEEvent) -> Iterable[StreamEvent]:
        """Translate one event; the last one of a reply makes a `StreamEnd`.

        Raises:
            ModelError: the provider reports an error, or the event can't be read.
        """

    def close(self) -> Iterable[StreamEvent]:
        """End the reply: no more events come.

        Raises:
            ModelStreamError: the stream ended before the reply was complete.
        """


@runtime_checkable
class WholeReplyDecoder(ReplyDecoder, Protocol):
    """A decoder that also reads the replies of servers that do not stream."""

    def whole(self, value: dict[str, object]) -> Iterable[StreamEvent]:
        """Translate a reply that is one JSON object; the last event is a `StreamEnd`.

        Raises:
            ModelError: the object is not a reply.
        """


@runtime_checkable
class ListReplyDecoder(ReplyDecoder, Protocol):
    """A decoder of an API that may send all events of a stream as one JSON list."""

    reads_lists: bool

    def whole(self, value: dict[str, object] | list[object]) -> Iterable[StreamEvent]:
        """Translate a reply that is one JSON object, or a list; the last event is a `StreamEnd`.

        Raises:
            ModelError: it is not a reply.
        """


class StreamedReply:
    """A request whose reply is streamed in the block; leaving it early closes the connection.

    Args:
        exchange: the request.
        decoder: translates the events of its reply.
        price: what the provider charges.
        names: the tools' own names by those that the model uses, as `dotted_names` returns them.
    """

    def __init__(
        self,
        exchange: "Exchange",
        decoder: ReplyDecoder,
        price: Price | None = None,
        names: Mapping[str, str] = _NO_NAMES,
    ) -> None:
        self._exchange = exchange
        self._parts = decoder, exchange.timeouts, price, names
        self._stream: _HttpStream | None = None

    async def open(self) -> ModelStream:
        """Send the request, and wait for the answer; the block has to follow.

        Raises:
            ModelError: no connection, no answer in time, or an answer that is an error.
            ModelCallForbiddenError: calls of real models are forbidden.
        """
        response = await self._exchange.__aenter__()
        self._stream = stream = _HttpStream(response, self._exchange.endpoint, *self._parts)
        return stream

    async def __aenter__(self) -> ModelStream:
        return self._stream or await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> bool | None:
        try:
            if error is None and self._stream is not None:
                await self._stream.drain()
        except BaseException as failure:
            await self._exchange.__aexit__(type(failure), failure, failure.__traceback__)
            raise
        return await self._exchange.__aexit__(kind, error, trace)


async def fetch(
    client: "HttpTransport",
    endpoint: Endpoint,
    content: bytes | None,
    timeouts: ModelTimeouts,
    limit: int,
) -> bytes:
    """Send a request and return the body of its answer, at most `limit` bytes of it.

    It is posted, unless its content is None.

    Raises:
        ModelError: no connection, no answer in time, or a status that is not a success.
        ModelCallForbiddenError: calls of real models are forbidden.
    """
    async with Exchange(client, endpoint, content, timeouts) as response:
        try:
            return await response.read(limit)
        except NetworkError as error:
            raise _model_error(error, endpoint, timeouts, ModelConnectionError) from error


class Exchange:
    """A request, and in the block its answer, whose status is a success.

    It is posted, unless its content is None.

    Raises:
        ModelError: no connection, no answer in time, or a status that is not a success.
        ModelCallForbiddenError: calls of real models are forbidden.
    """

    def __init__(
        self,
        client: "HttpTransport",
        endpoint: Endpoint,
        content: bytes | None,
        timeouts: ModelTimeouts,
    ) -> None:
        self._client = client
        self._content = content
        self.endpoint = endpoint
        self.timeouts = timeouts

    async def __aenter__(self) -> "HttpResponse":
        check_call(self.endpoint, self._client)
        content, timeouts = self._content, self.timeouts
        method = "GET" if content is None else "POST"
        self.endpoint = endpoint = await authorize(self.endpoint, method, content, timeouts.connect)
        self._answer = self._client.stream(
            method,
            endpoint.url,
            headers=endpoint.headers,
            content=content,
            timeout=_find_waits(timeouts),
        )
        try:
            response = await self._answer.__aenter__()
        except NetworkError as error:
            raise _model_error(error, endpoint, timeouts, ModelConnectionError) from error
        if response.status != 200:
            async with AsyncExitStack() as stack:
                stack.push_async_exit(self)
                raise await _read_error(endpoint, response)
        return response

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> bool | None:
        return await self._answer.__aexit__(kind, error, trace)


@lru_cache(maxsize=64)
def _find_waits(timeouts: ModelTimeouts) -> "Timeouts":
    from greenroom.net._internal import Timeouts

    return Timeouts(
        connect=timeouts.connect,
        response=timeouts.first_event,
        read=timeouts.first_event,
        total=math.inf if timeouts.request is None else timeouts.request,
    )


class _HttpStream(ModelStream):
    """The stream of a reply that comes over HTTP."""

    def __init__(
        self,
        response: "HttpResponse",
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
        self._chunks: ChunkIterator | None = response.chunks()  # None after the last one
        self._headers = response.headers
        self._size = 0
        self._has_begun = False
        self._is_closed = False

    async def receive(self) -> Iterable[StreamEvent]:
        """Return what has arrived; an error behind it is kept for the call after this one."""
        try:
            if not self._has_begun:
                self._has_begun = True
                return self._restore_names(await self._begin())
            while not self._events:
                if self._is_closed:
                    raise ModelStreamError("the stream ended before the reply was complete")
                if self._chunks is None:
                    self._is_closed = True
                    return self._restore_names(list(self._decoder.close()))
                piece = await self._next_piece()
                self._events.extend(
                    self._lines.close() if piece is None else self._lines.feed(piece)
                )
        except ModelError as error:
            self._describe(error)
            raise
        return self._restore_names(self._translate_all())

    def _restore_names(self, events: Iterable[StreamEvent]) -> Iterable[StreamEvent]:
        return [restore_names(each, self._names) for each in events] if self._names else events

    def _translate_all(self) -> list[StreamEvent]:
        """Translate what has arrived, up to the end of the reply, or to an error."""
        waiting = self._events
        events: list[StreamEvent] = []
        try:
            while waiting and len(events) < self.wanted:
                event = waiting.popleft()
                concealed: SSEEvent | None = None
                try:
                    events += list(self._decoder.feed(event))
                except ModelError:
                    if (concealed := self._conceal(event)) is None:
                        raise
                if concealed is not None:  # not above: an error keeps the one that it replaces
                    events += list(self._decoder.feed(concealed))
                if events and type(events[-1]) is StreamEnd:
                    break
        except ModelError as error:
            self._describe(error)
            if not events:
                raise
            self._late = error
        return events

    def _describe(self, error: ModelError) -> None:
        """Add to an error what is known here."""
        error.provider = self._endpoint.provider
        found = error.request_id or self._endpoint.conceal_text(request_id(self._headers))
        error.request_id = found
        _suggest_model(error, self._endpoint)

    async def drain(self) -> None:
        """Read a complete reply to the end of its body, so the connection can be used again."""
        if getattr(self._chunks, "has_come", False):  # a transport of others may not tell
            return
        with trio.move_on_after(_DRAIN_SECONDS), suppress(ModelError):
            while self._draft.is_complete and self._chunks is not None:
                await self._next_piece()

    async def _begin(self) -> Iterable[StreamEvent]:
        """Find out whether the answer is a stream; if it is not, translate it as a whole."""
        body = await self._read(_PREFIX)
        content_type = self._headers.get("content-type", "")
        if is_stream(body, content_type.lower()):
            self._events.extend(self._lines.feed(body))
            return ()
        if body.startswith(b"{"):  # no event begins like that
            body = await self._read(EVENT_LIMIT, body)
            if len(body) >= EVENT_LIMIT:
                raise too_large(f"the reply is larger than {EVENT_LIMIT} bytes")
            reply = read_reply(body, self._endpoint)
            if isinstance(self._decoder, WholeReplyDecoder):
                return list(self._decoder.whole(reply))
        if body.startswith(b"[") and isinstance(self._decoder, ListReplyDecoder):
            body = await self._read(EVENT_LIMIT, body)
            if values := _read_list(body):
                return list(self._decoder.whole(values))
        body = await self._read(_PAGE_LIMIT, body)
        concealed = self._endpoint.conceal_text(content_type).lower()
        raise not_a_stream(self._endpoint, concealed, body)

    def _conceal(self, event: SSEEvent) -> SSEEvent | None:
        """Remove the key from an event that reports an error; None if it is not in there."""
        concealed = self._endpoint.conceal(event.data.encode()).decode()
        return None if concealed == event.data else replace(event, data=concealed)

    async def _read(self, size: int, beginning: bytes = b"") -> bytes:
        """Read on to this size or to the end of the answer; skip blanks at its beginning."""
        body = bytearray(beginning)
        while len(body) < size and (piece := await self._next_piece()) is not None:
            body += piece if body else piece.lstrip(_BLANKS)
        return bytes(body)

    async def _next_piece(self) -> bytes | None:
        """Return the next piece of the body, or None at its end."""
        if self._chunks is None:
            return None
        try:
            piece = await anext(self._chunks)
        except StopAsyncIteration:
            self._chunks = None
            return None
        except NetworkError as error:
            has_begun = bool(self._size)
            raise _model_error(
                error, self._endpoint, self._timeouts, ModelStreamError, has_begun=has_begun
            ) from error
        self._chunks.timeout = self._timeouts.between_events
        self._size += len(piece)
        if self._size > REPLY_LIMIT:
            raise too_large(f"the reply is larger than {REPLY_LIMIT} bytes")
        return piece


def _model_error(
    error: NetworkError,
    endpoint: Endpoint,
    timeouts: ModelTimeouts,
    broken: type[ModelError],
    *,
    has_begun: bool = False,
) -> ModelError:
    """Turn a network error into a model error, of class `broken` for a broken connection."""
    provider = endpoint.provider
    if not isinstance(error, NetworkTimeoutError):
        text = f"the connection to {provider} failed: {error.message}"
        return broken(text, provider=provider, hint=error.hint or broken.remedy)
    kind: type[ModelTimeoutError] = ModelTimeoutError
    text = f"{provider} did not answer in time: {error.message}"
    if error.phase == "connect":
        kind = ModelConnectTimeoutError
    elif error.phase == "response":
        kind = ModelFirstEventTimeoutError
    elif error.phase == "read":
        kind = ModelIdleTimeoutError if has_begun else ModelFirstEventTimeoutError
        limit = timeouts.between_events if has_begun else timeouts.first_event
        text = f"{provider} sent nothing for {quantity(limit, 'second')}"
    elif error.phase == "total":
        kind = ModelRequestTimeoutError
        text = f"{provider} did not complete the reply within {timeouts.request or 0:g} seconds"
    return kind(text, provider=provider, hint=kind.remedy)
