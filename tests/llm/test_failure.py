"""Errors that providers report."""

from datetime import UTC, datetime

import pytest

from greenroom.core import (
    ModelAuthenticationError,
    ModelBadRequestError,
    ModelContextTooLongError,
    ModelOverloadedError,
    ModelRateLimitError,
    ModelStreamError,
    ModelTimeoutError,
    clock,
    serde,
)
from greenroom.llm.failure import error_in_band, error_of_response
from greenroom.llm.retry_after import retry_after


def error_of(status, value, **headers):
    given = {name.replace("_", "-"): text for name, text in headers.items()}
    return error_of_response("acme", status, given, serde.dumps(value), hint="check ACME_KEY")


def said(message, **fields):
    return {"error": {"message": message} | fields}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (301, ModelBadRequestError),
        (400, ModelBadRequestError),
        (401, ModelAuthenticationError),
        (402, ModelRateLimitError),
        (403, ModelAuthenticationError),
        (404, ModelBadRequestError),
        (408, ModelTimeoutError),
        (413, ModelContextTooLongError),
        (418, ModelBadRequestError),
        (422, ModelBadRequestError),
        (429, ModelRateLimitError),
        (500, ModelOverloadedError),
        (503, ModelOverloadedError),
        (529, ModelOverloadedError),
    ],
)
def test_the_status_decides_the_kind(status, kind):
    error = error_of(status, said("no"))
    assert type(error) is kind
    assert (error.status, error.provider) == (status, "acme")
    assert error.hint


@pytest.mark.parametrize(
    "said_",
    [
        said("prompt is too long: 210000 tokens > 200000 maximum"),
        said("This model's maximum context length is 8192 tokens."),
        said("x", code="context_length_exceeded"),
        said("The input token count (1200000) exceeds the maximum number of tokens allowed"),
        said("Input tokens exceed the configured limit of 272000 tokens"),
        said("The total length of all messages is too long.", type="too_many_prompt_tokens"),
        said("the request exceeds the available context size"),
        said("Input is too long for requested model."),
        said("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
        said("Please reduce the length of the messages."),
    ],
)
def test_a_conversation_that_is_too_long_is_told_by_its_words(said_):
    assert type(error_of(400, said_)) is ModelContextTooLongError


@pytest.mark.parametrize(
    "words",
    [
        "max_tokens is too large: 99999",
        "max_tokens: 99999 > 64000, which is the maximum allowed number of output tokens",
        "max_tokens exceeds the maximum number of output tokens",
        "temperature: range is 0..1",
        "tools.0.name: String should have at most 64 characters",
        "messages: text content blocks must be non-empty",
    ],
)
def test_other_bad_requests_are_not_taken_for_too_long(words):
    assert type(error_of(400, said(words))) is ModelBadRequestError


def test_a_limit_on_tokens_per_minute_is_no_overflow():
    error = error_of(429, said("Request too large for gpt-4 on tokens per min (TPM)"))
    assert type(error) is ModelRateLimitError


@pytest.mark.parametrize("words", ["API key not valid.", "Incorrect API key provided: xai-…"])
def test_a_refused_key_may_come_as_a_bad_request(words):
    error = error_of(400, said(words))
    assert type(error) is ModelAuthenticationError
    assert error.hint == "check ACME_KEY"


@pytest.mark.parametrize(
    ("body", "message", "code"),
    [
        (b'{"type":"error","error":{"type":"e1","message":"m"}}', "m", "e1"),
        (b'{"error":{"message":"m","type":"t","code":"c"}}', "m", "c"),
        (b'{"error":{"message":"m","type":"t","code":404}}', "m", "404"),
        (b'{"error":"m","code":"c"}', "m", "c"),
        (b'{"code":"c","error":"m"}', "m", "c"),
        (b'{"detail":"m"}', "m", ""),
        (b'{"detail":[{"loc":["body"],"msg":"m"},{"msg":"n"}]}', "m; n", ""),
        (b'{"object":"error","message":"m","type":"t","code":40001}', "m", "40001"),
        (b'[{"error":{"message":"m","code":400,"status":"INVALID"}}]', "m", "400"),
        (b"<html><body><h1>Bad</h1> gateway</body></html>", "Bad gateway", ""),
        (b"plain \n text", "plain text", ""),
        (b"", "no reason given", ""),
        (b"[]", "no reason given", ""),
        (b"7", "no reason given", ""),
        (b'{"error":{"message":["odd"]}}', "no reason given", ""),
        (b"\xff\xfe", "\ufffd\ufffd", ""),
    ],
)
def test_bodies_of_every_shape_are_read(body, message, code):
    error = error_of_response("acme", 400, {}, body)
    assert error.message == f"acme answered 400: {message}"
    assert error.code == code


def test_a_message_is_one_line_of_bounded_length_without_control_characters():
    error = error_of(400, said("a\n\x1b[31mb\r\n" + "x" * 5000))
    assert "\n" not in str(error)
    assert "\x1b" not in str(error)
    assert len(error.message) < 600


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({"request_id": "r1"}, {}, "r1"),
        ({"x_request_id": "r2"}, {}, "r2"),
        ({}, {"request_id": "r3"}, "r3"),
        ({}, {}, ""),
    ],
)
def test_the_id_of_the_request_is_kept(headers, body, expected):
    assert error_of(500, body, **headers).request_id == expected


def test_hints_say_what_to_do():
    assert error_of(401, {}).hint == "check ACME_KEY"
    assert "model's name" in error_of(404, {}).hint
    assert "base URL" in error_of(204, {}).hint
    assert "base URL" in error_of(307, {}).hint
    assert "billing" in error_of(429, said("x", code="insufficient_quota")).hint
    assert "new session" in error_of(413, {}).hint


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (said("x", type="overloaded_error"), ModelOverloadedError),
        (said("x", type="odd", code="rate_limit_exceeded"), ModelRateLimitError),
        (said("x", code=503), ModelOverloadedError),
        (said("Token limit reached", code=400), ModelBadRequestError),
        (said("x", code=12), ModelStreamError),
        (said("x", code="9" * 5000), ModelStreamError),
        (said("x", code="0400" + "0" * 5000), ModelStreamError),
        (said("x", code="0503"), ModelStreamError),
        ({"error": "odd"}, ModelStreamError),
        (None, ModelStreamError),
    ],
)
def test_an_error_in_a_stream_is_told_by_its_body(value, kind):
    error = error_in_band("acme", value)
    assert type(error) is kind
    assert error.status is None


# How long to wait


@pytest.fixture
def _noon():
    clock.set_clock(lambda: datetime(2026, 1, 1, 12, tzinfo=UTC))
    yield
    clock.set_clock(None)


@pytest.mark.usefixtures("_noon")
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "12"}, 12.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after": "1", "retry-after-ms": "0"}, 1.0),
        ({"retry-after": "Thu, 01 Jan 2026 12:02:00 GMT"}, 120.0),
        ({"retry-after": "Thu, 01 Jan 2026 12:02:00 -0000"}, 120.0),
        ({"retry-after": "Thu, 01 Jan 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "Mon, 01 Jan 2024 00:00:00 +9999999999999"}, None),
    ],
)
def test_the_wait_is_read_in_every_form(headers, seconds):
    assert retry_after(headers) == seconds


def test_an_error_carries_the_wait():
    assert error_of(429, {}, retry_after="7").retry_after == 7.0


def test_how_long_the_provider_asks_to_wait_is_told():
    error = error_of_response("acme", 429, {"retry-after": "17"}, b"slow down")
    assert "asks to wait 17 seconds" in str(error)
    assert "asks to wait" not in str(error_of_response("acme", 429, {}, b"slow down"))
