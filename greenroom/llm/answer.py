"""The answer to a request for a stream that is not one: a whole reply, an error, or a page.

Small servers ignore that a stream was asked for, and answer with one JSON object. The content type
can't be relied on, of a stream neither, so the first bytes decide.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import trio

from greenroom.core import InvalidJSONError, ModelBadRequestError, ModelError, NetworkError, serde
from greenroom.llm.endpoint import Endpoint
from greenroom.llm.failure import error_in_band, error_of_response
from greenroom.llm.fields import event_of, items, mapping

if TYPE_CHECKING:
    from greenroom.net import HttpResponse

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
    body = endpoint.conceal(await _beginning(response))
    headers = {name: endpoint.conceal_text(said) for name, said in response.headers.items()}
    return error_of_response(endpoint.provider, response.status, headers, body, hint=endpoint.hint)


async def _beginning(response: "HttpResponse") -> bytes:
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
