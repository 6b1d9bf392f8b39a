"""Errors that providers report as exceptions: the class, from status and body, and what to do.

Most bodies resemble OpenAI's or Anthropic's `{"error": {…}}`; others have a text under `error`,
`detail` or `message`, or an object in a list, or are HTML. A conversation that is too long has no
status of its own: it is a plain 400 in several wordings.
"""

import re
from collections.abc import Mapping

import msgspec

from greenroom.core._internal import InvalidJSONError, clip, compile_later, quantity, serde, visible
from greenroom.llm.json_fields import as_dict, as_int, as_list, as_text
from greenroom.llm.model_errors import (
    ModelAuthenticationError,
    ModelBadRequestError,
    ModelContentFilterError,
    ModelContextTooLongError,
    ModelError,
    ModelNotFoundError,
    ModelOverloadedError,
    ModelPermissionError,
    ModelQuotaError,
    ModelRateLimitError,
    ModelStreamError,
    ModelTimeoutError,
)
from greenroom.llm.retry_after import read_duration, read_retry_after, read_should_retry

_Kind = type[ModelError]

_SIGNS: tuple[tuple[_Kind, frozenset[int], str], ...] = (
    (
        ModelContextTooLongError,
        frozenset({400, 413, 422, 500}),
        r"context[ _](length|window|size|limit)|maximum (context|prompt|model) length"
        r"|reduce the length|prompt[ _](is )?too long|too_many_prompt_tokens|request_too_large"
        r"|\b(input|messages|prompt|request)\b.{0,20} too (long|large)"
        r"|\b(input|prompt) token(s|\b).{0,40}exceed|exceed.{0,20} token limit"
        r"|prompt exceeds max|range of input length|longer than the maximum model"
        r"|\bn_keep\b.{0,40}\bn_ctx\b"  # LM Studio
        r"|(input|prompt) token count is \d+ but|too many tokens: total|exceeds the model limit"
        r"|`inputs`( tokens \+ `max_new_tokens`)? must (be <=|have less than)",  # Hugging Face
    ),
    (
        ModelQuotaError,
        frozenset({400, 403, 429}),
        r"insufficient[ _](quota|balance|credit|funds)|billing_(error|not_active|hard_limit)"
        r"|credit balance is too low|(monthly|spending|total|key) limit (exceeded|reached)"
        r"|monthly spending limit|exceeded_current_quota|(any|no|out of|all available) credits"
        r"|exceeded your current quota(?![\s\S]*resource_exhausted)|account is not active",
    ),
    (
        ModelContentFilterError,
        frozenset({400, 403, 422, 451}),
        r"content[ _-]?filter|content[ _](policy|management policy)|responsibleaipolicyviolation"
        r"|usage (policy|policies|guidelines)|data_inspection_failed|content exists risk"
        r"|(input|prompt|request|content|message)\b.{0,40}\b(was|were|been) flagged|flagged_input"
        r"|safety (system|check)|unsafe or sensitive",
    ),
    (
        ModelAuthenticationError,
        frozenset({400}),
        r"\b(api|subscription)[ _-]?key\b.{0,40}(invalid|incorrect|not valid|missing)"
        r"|\b(invalid|incorrect|missing)\b.{0,20}\b(api|subscription)[ _-]?key",
    ),
    (
        ModelNotFoundError,
        frozenset({400, 422}),
        r"\bmodel\b.{0,200}\b(does not exist|not exist|not found|decommissioned)"
        r"|\bmodel_(not_found|not_available|not_supported|decommissioned)|not a valid model"
        r"|\b(unknown|invalid|no such)[ _]model\b|invalid model name"
        r"|\bmodel\b.{0,200}\bnot supported by any provider",
    ),
    (ModelOverloadedError, frozenset({429}), r"\b(engine_)?overloaded(\b|_)"),
)
"""Errors that are recognised by their text and status; the first row that matches counts.

The statuses keep apart errors with the same words: a limit of tokens per minute does not limit the
context.
"""

_NAMES: dict[str, _Kind] = {
    "authentication_error": ModelAuthenticationError,
    "unauthenticated": ModelAuthenticationError,
    "invalid_api_key": ModelAuthenticationError,
    "api_key_invalid": ModelAuthenticationError,
    "permission_error": ModelPermissionError,
    "permission_denied": ModelPermissionError,
    "rate_limit_error": ModelRateLimitError,
    "rate_limit_exceeded": ModelRateLimitError,
    "resource_exhausted": ModelRateLimitError,
    "overloaded_error": ModelOverloadedError,
    "api_error": ModelOverloadedError,
    "server_error": ModelOverloadedError,
    "internal_server_error": ModelOverloadedError,
    "internal": ModelOverloadedError,
    "unavailable": ModelOverloadedError,
    "timeout_error": ModelTimeoutError,
    "deadline_exceeded": ModelTimeoutError,
    "not_found_error": ModelNotFoundError,
    "not_found": ModelNotFoundError,
    "invalid_request_error": ModelBadRequestError,
    "invalid_argument": ModelBadRequestError,
}
"""Errors by the providers' names for them, in lower case, if the status does not decide."""

_STATUSES: dict[int, _Kind] = {
    401: ModelAuthenticationError,
    402: ModelQuotaError,
    403: ModelPermissionError,
    404: ModelNotFoundError,
    405: ModelNotFoundError,
    408: ModelTimeoutError,
    410: ModelNotFoundError,
    413: ModelContextTooLongError,
    429: ModelRateLimitError,
    498: ModelOverloadedError,  # the spare capacity of Groq's cheaper tier is used up
    501: ModelBadRequestError,
    504: ModelTimeoutError,
    505: ModelBadRequestError,
    524: ModelTimeoutError,
}

_TEMPORARY = {409, 425}
"""Statuses of a request that is refused only temporarily: Conflict, and Too Early."""

_TOO_LARGE_FOR_A_MINUTE = compile_later(r"request too large", re.IGNORECASE)
"""A request that exceeds the tokens per minute on its own is refused after any wait."""


class _Complaint(msgspec.Struct, frozen=True):
    """An error's body: its message, and the provider's names for the error."""

    message: str = ""
    kind: str = ""
    code: str = ""
    names: tuple[str, ...] = ()  # all of them, in lower case
    request_id: str = ""
    wait: float | None = None
    param: str = ""


def error_of_response(
    provider: str, status: int, headers: Mapping[str, str], body: bytes, *, hint: str = ""
) -> ModelError:
    """Return the error of a response whose status is not a success.

    It is `retryable` as its class says, unless the provider or the status says otherwise.

    Args:
        provider: the provider's name.
        status: the HTTP status.
        headers: the response's headers, their names in lower case.
        body: the beginning of the body, in any format.
        hint: what to do if the key is refused, such as which variable to check.
    """
    complaint = _read(body)
    kind = _kind_of(status, complaint)
    wait = read_retry_after(headers)
    error = kind(
        f"{provider} answered {status}: {complaint.message or 'no reason given'}",
        provider=provider,
        status=status,
        code=complaint.code or complaint.kind,
        request_id=request_id(headers) or complaint.request_id,
        retry_after=complaint.wait if wait is None else wait,
    )
    error.param = complaint.param
    return _advise(error, complaint, read_should_retry(headers), hint)


def error_in_band(provider: str, value: object) -> ModelError:
    """Return the error that a provider reports as JSON in a successful response."""
    complaint = _complaint(value)
    error = _kind_in_band(complaint)(
        f"{provider} broke off the reply: {complaint.message or 'no reason given'}",
        provider=provider,
        code=complaint.code or complaint.kind,
        request_id=complaint.request_id,
        retry_after=complaint.wait,
    )
    return _advise(error, complaint, None, "")


def too_large(text: str, provider: str = "") -> ModelStreamError:
    """Return the error of a reply that exceeds a limit, as every attempt would."""
    return _final(text, provider, "no model replies at such length: check the base URL")


def not_a_reply(provider: str) -> ModelStreamError:
    """Return the error of a JSON answer that is neither a reply nor an error."""
    text = f"{provider} answered with JSON that is not a reply"
    return _final(text, provider, "check the base URL")


def incomplete_reply(provider: str) -> ModelStreamError:
    """Return the error of a stream that ended before its reply was complete."""
    text = f"{provider} ended the stream before the reply was complete"
    return ModelStreamError(text, provider=provider, hint="try again")


def unassignable_piece(provider: str) -> ModelStreamError:
    """Return the error of a reply with a piece that belongs to none of its blocks."""
    text = f"{provider} sent a piece of a reply that belongs to none of its blocks"
    return ModelStreamError(text, provider=provider, hint="try again")


_FAILURES = compile_later(
    "error|fail|malformed|insufficient|overload|unavailable|timed?_?out|abort|cancel|interrupt",
    re.IGNORECASE,
)


def failed_reply(provider: str, reason: str, details: object = None) -> ModelStreamError | None:
    """Return the error of a reply that ended for this reason, or None if it may be complete.

    Args:
        provider: the provider's name.
        reason: the provider's word for the end of the reply, such as "error"; may be empty.
        details: what it says about an error besides, if anything.

    Example:
        >>> failed_reply("acme", "insufficient_system_resource").retryable
        True
        >>> failed_reply("acme", "stop") is None
        True
    """
    if not (details or _FAILURES.search(reason)):
        return None
    complaint = _complaint(details)
    said = complaint.message or reason or "no reason given"
    return ModelStreamError(
        f"{provider} could not complete the reply: {said}",
        provider=provider,
        code=complaint.code or complaint.kind or reason,
        retry_after=complaint.wait,
        hint=ModelStreamError.remedy,
    )


def _final(text: str, provider: str, hint: str) -> ModelStreamError:
    error = ModelStreamError(text, provider=provider, hint=hint)
    error.retryable = False
    return error


def request_id(headers: Mapping[str, str]) -> str:
    """Return the provider's id of the request, or an empty text."""
    names = ("request-id", "x-request-id", "apim-request-id", "x-amzn-requestid", "cf-ray")
    return next(filter(None, (headers.get(name, "") for name in names)), "")


def _kind_of(status: int, complaint: _Complaint) -> _Kind:
    """Return the class of an error: by its text if that is known, else by its status."""
    if kind := _by_text(complaint, status):
        return kind
    if status in _STATUSES:
        return _STATUSES[status]
    if status >= 500:
        return ModelOverloadedError
    kind = _by_name(complaint) if status >= 400 else None
    # Some servers call every error an `api_error`.
    return ModelBadRequestError if kind in (None, ModelOverloadedError) else kind


def _kind_in_band(complaint: _Complaint) -> _Kind:
    kind = _by_text(complaint) or _by_name(complaint)
    if kind is None and re.fullmatch("[45][0-9]{2}", complaint.code):
        return _kind_of(int(complaint.code), complaint)
    return kind or ModelStreamError


def _by_text(complaint: _Complaint, status: int | None = None) -> _Kind | None:
    text = "\n".join((complaint.message, *complaint.names))
    for kind, statuses, pattern in _SIGNS:
        if (status is None or status in statuses) and re.search(pattern, text, re.IGNORECASE):
            return kind
    return None


def _by_name(complaint: _Complaint) -> _Kind | None:
    return next((_NAMES[name] for name in complaint.names if name in _NAMES), None)


def _advise(
    error: ModelError, complaint: _Complaint, should: bool | None, key_hint: str
) -> ModelError:
    """Set the hint, and whether the error is retryable if its class does not decide."""
    if error.status in _TEMPORARY and should is None:
        should = True
    if error.status == 429 and _TOO_LARGE_FOR_A_MINUTE.search(complaint.message):
        should = False
    if should is not None:
        error.retryable = should
    error.hint = _hint(error, key_hint)
    if error.retry_after and error.retryable:
        error.hint += f"; it asks to wait {quantity(error.retry_after, 'second')}"
    return error


def _hint(error: ModelError, key_hint: str) -> str:
    kind, status = type(error), error.status
    if kind is ModelAuthenticationError and key_hint:
        return key_hint
    if status is not None and status < 300:
        return "check the model's name and the base URL"
    if status is not None and status < 400:
        return "check the base URL: a redirect is not followed, since it would carry the key along"
    if error.retryable is kind.retryable:
        return kind.remedy
    if error.retryable:
        return "try again"
    return "trying again will not help: send less, or ask the provider"


def _read(body: bytes) -> _Complaint:
    try:
        return _complaint(serde.loads(body))
    except InvalidJSONError:
        page = body[:4000].decode(errors="replace")
        content = re.sub(r"(?is)<(script|style)\b.*?(</\1>|\Z)", " ", page)
        return _Complaint(_line(re.sub(r"<[^<>]{0,1000}>", " ", content)))


def _complaint(value: object) -> _Complaint:
    outer = as_dict(next(iter(as_list(value)), value))  # Google wraps it in a list
    several = as_list(outer.get("errors"))[:1]
    inner = next(filter(None, map(as_dict, (outer.get("error"), *several))), outer)
    texts = (outer.get("error"), inner.get("message"), inner.get("detail"), outer.get("message"))
    raw = as_text(as_dict(inner.get("metadata")).get("raw"))  # the error that OpenRouter received
    message = ": ".join(filter(None, (next(filter(None, map(_message, texts)), ""), raw)))
    details = [as_dict(item) for item in as_list(inner.get("details"))]
    code = _name(inner.get("code")) or _name(outer.get("code")) or as_text(outer.get("error_code"))
    inmost = as_dict(inner.get("innererror") or inner.get("inner_error"))
    kind = as_text(inner.get("type"))
    others = (inner.get("status"), inmost.get("code"), *(each.get("reason") for each in details))
    names = (kind, code, *map(as_text, others))
    waits = (read_duration(as_text(detail.get("retryDelay"))) for detail in details)
    return _Complaint(
        _line(message),
        kind,
        code,
        tuple(name.lower() for name in names if name),
        as_text(outer.get("request_id")),
        next(filter(None, waits), None),
        _line(as_text(inner.get("param"))),
    )


def _message(value: object) -> str:
    """Return a message that is a text or, from FastAPI, a list of objects with `msg`."""
    if isinstance(value, list):
        return "; ".join(as_text(as_dict(item).get("msg")) for item in value)
    return as_text(value)


def _name(code: object) -> str:
    number = as_int(code)
    return as_text(code) if number is None else str(number)


def _line(text: str) -> str:
    return visible(clip(" ".join(text.split()), 500)).replace("\n", " ")
