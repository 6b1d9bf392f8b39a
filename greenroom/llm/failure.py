"""Errors that providers report, made ours: the class by status and body, and what to do about it.

Bodies come in many shapes, most of them close to OpenAI's or Anthropic's `{"error": {…}}`; others put
a text under `error`, `detail` or `message`, wrap the object in a list, or send HTML. A conversation
that is too long has no status of its own: it is a plain 400 in several wordings.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from greenroom.core import (
    InvalidJSONError,
    ModelAuthenticationError,
    ModelBadRequestError,
    ModelContextTooLongError,
    ModelError,
    ModelOverloadedError,
    ModelRateLimitError,
    ModelStreamError,
    ModelTimeoutError,
    clip,
    serde,
    visible,
)
from greenroom.llm.fields import integer, items, mapping, text
from greenroom.llm.retry_after import retry_after

__all__ = ["error_in_band", "error_of_response", "request_id"]

_TOO_LONG = re.compile(
    r"context[ _](length|window|size|limit)|maximum context|reduce the length"
    r"|prompt[ _](is )?too long|too_many_prompt_tokens|request_too_large"
    r"|\b(input|messages|prompt|request)\b.{0,20} too (long|large)"
    r"|\b(input|prompt) token(s|\b).{0,40}exceed",
    re.IGNORECASE,
)
_BAD_KEY = re.compile(
    r"\bapi[ _-]?key\b.{0,40}(invalid|incorrect|not valid|missing)"
    r"|\b(invalid|incorrect|missing)\b.{0,20}\bapi[ _-]?key",
    re.IGNORECASE,
)

_KINDS: dict[str, type[ModelError]] = {
    "authentication_error": ModelAuthenticationError,
    "permission_error": ModelAuthenticationError,
    "billing_error": ModelRateLimitError,
    "rate_limit_error": ModelRateLimitError,
    "rate_limit_exceeded": ModelRateLimitError,
    "insufficient_quota": ModelRateLimitError,
    "overloaded_error": ModelOverloadedError,
    "api_error": ModelOverloadedError,
    "server_error": ModelOverloadedError,
    "internal_server_error": ModelOverloadedError,
    "timeout_error": ModelTimeoutError,
    "invalid_request_error": ModelBadRequestError,
    "not_found_error": ModelBadRequestError,
    "request_too_large": ModelContextTooLongError,
}
"""Kinds that providers name in a body, where no status says more."""

_STATUSES: dict[int, type[ModelError]] = {
    401: ModelAuthenticationError,
    402: ModelRateLimitError,
    403: ModelAuthenticationError,
    408: ModelTimeoutError,
    413: ModelContextTooLongError,
    429: ModelRateLimitError,
}

_HINTS: dict[type[ModelError], str] = {
    ModelAuthenticationError: "check the key, and what it may use",
    ModelRateLimitError: "wait, or check the plan and its limits with the provider",
    ModelOverloadedError: "try again later",
    ModelContextTooLongError: "start a new session, or send less",
    ModelTimeoutError: "try again",
    ModelBadRequestError: "the request must be changed; sending it again will not help",
    ModelStreamError: "try again",
}


@dataclass(frozen=True)
class _Complaint:
    """What a body says: a text for people, and the provider's own names for the error."""

    message: str = ""
    kind: str = ""
    code: str = ""
    request_id: str = ""


def error_of_response(
    provider: str, status: int, headers: Mapping[str, str], body: bytes, *, hint: str = ""
) -> ModelError:
    """Make the error of a response that is none of success.

    Args:
        provider: the provider's name.
        status: the HTTP status.
        headers: the response's headers, their names in lower case.
        body: the beginning of the body, in whatever shape.
        hint: what to do where the key is refused; it names where the key comes from.
    """
    complaint = _read(body)
    kind = _kind_by_status(status, complaint)
    wait = retry_after(headers)
    todo = _hint(kind, status, complaint, hint)
    return kind(
        f"{provider} answered {status}: {complaint.message or 'no reason given'}",
        provider=provider,
        status=status,
        code=complaint.code or complaint.kind,
        request_id=request_id(headers) or complaint.request_id,
        retry_after=wait,
        hint=f"{todo}; it asks to wait {wait:g} seconds" if wait else todo,
    )


def error_in_band(provider: str, value: object) -> ModelError:
    """Make the error that stands, as this JSON, in a stream whose status was a success."""
    complaint = _complaint(value)
    kind = _kind_in_band(complaint)
    return kind(
        f"{provider} broke off the reply: {complaint.message or 'no reason given'}",
        provider=provider,
        code=complaint.code or complaint.kind,
        request_id=complaint.request_id,
        hint=_HINTS[kind],
    )


def request_id(headers: Mapping[str, str]) -> str:
    """Return the provider's id of the request, which its support asks for; empty if there is none."""
    return headers.get("request-id", "") or headers.get("x-request-id", "")


def _kind_by_status(status: int, complaint: _Complaint) -> type[ModelError]:
    if status in {400, 413, 422, 500} and _is_too_long(complaint):
        return ModelContextTooLongError
    if status == 400 and _BAD_KEY.search(complaint.message):
        return ModelAuthenticationError
    if status >= 500:
        return ModelOverloadedError
    return _STATUSES.get(status, ModelBadRequestError)


def _kind_in_band(complaint: _Complaint) -> type[ModelError]:
    if _is_too_long(complaint):
        return ModelContextTooLongError
    for name in (complaint.kind, complaint.code):
        if name in _KINDS:
            return _KINDS[name]
    if re.fullmatch("[45][0-9]{2}", complaint.code):
        return _kind_by_status(int(complaint.code), complaint)
    return ModelStreamError


def _is_too_long(complaint: _Complaint) -> bool:
    said = (complaint.message, complaint.kind, complaint.code)
    return any(_TOO_LONG.search(part) for part in said)


def _hint(kind: type[ModelError], status: int, complaint: _Complaint, own: str) -> str:
    if kind is ModelAuthenticationError and own:
        return own
    if status == 404 or status < 300:
        return "check the model's name and the base URL"
    if status < 400:
        return "check the base URL: a redirect is not followed, since it would carry the key along"
    if complaint.code == "insufficient_quota" or status == 402:
        return "the quota is spent: check the plan and the billing with the provider"
    return _HINTS[kind]


def _read(body: bytes) -> _Complaint:
    try:
        return _complaint(serde.loads(body))
    except InvalidJSONError:
        plain = re.sub(r"<[^<>]{0,1000}>", " ", body[:4000].decode(errors="replace"))
        return _Complaint(_line(plain))


def _complaint(value: object) -> _Complaint:
    if isinstance(value, list):
        return _complaint(value[0]) if value else _Complaint()
    outer = mapping(value)
    inner = mapping(outer.get("error")) or outer
    said = (outer.get("error"), inner.get("message"), inner.get("detail"), outer.get("message"))
    return _Complaint(
        _line(next(filter(None, map(_words, said)), "")),
        text(inner.get("type")),
        _name(inner.get("code")) or _name(outer.get("code")),
        text(outer.get("request_id")),
    )


def _words(said: object) -> str:
    """Find the text in what should be one; FastAPI sends a list of objects with `msg`."""
    if isinstance(said, list):
        return "; ".join(text(mapping(item).get("msg")) for item in items(said))
    return text(said)


def _name(code: object) -> str:
    number = integer(code)
    return text(code) if number is None else str(number)


def _line(said: str) -> str:
    return visible(clip(" ".join(said.split()), 500)).replace("\n", " ")
