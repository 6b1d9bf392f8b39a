"""Errors that providers report."""

from datetime import UTC, datetime

import pytest

from greenroom.core._internal import serde, set_clock
from greenroom.llm import (
    ModelAuthenticationError,
    ModelBadRequestError,
    ModelContextTooLongError,
    ModelOverloadedError,
    ModelRateLimitError,
    ModelStreamError,
    ModelTimeoutError,
)
from greenroom.llm._internal import (
    ModelContentFilterError,
    ModelNotFoundError,
    ModelPermissionError,
    ModelQuotaError,
)
from greenroom.llm.failure import error_in_band, error_of_response
from greenroom.llm.retry_after import read_retry_after


def error_of(status, value, **headers):
    given = {name.replace("_", "-"): text for name, text in headers.items()}
    return error_of_response("acme", status, given, serde.dumps(value), hint="check ACME_KEY")


def error_body(message, **fields):
    return {"error": {"message": message} | fields}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (301, ModelBadRequestError),
        (400, ModelBadRequestError),
        (401, ModelAuthenticationError),
        (402, ModelQuotaError),
        (403, ModelPermissionError),
        (404, ModelNotFoundError),
        (405, ModelNotFoundError),
        (408, ModelTimeoutError),
        (409, ModelBadRequestError),
        (413, ModelContextTooLongError),
        (418, ModelBadRequestError),
        (422, ModelBadRequestError),
        (429, ModelRateLimitError),
        (498, ModelOverloadedError),
        (500, ModelOverloadedError),
        (501, ModelBadRequestError),
        (502, ModelOverloadedError),
        (503, ModelOverloadedError),
        (504, ModelTimeoutError),
        (529, ModelOverloadedError),
    ],
)
def test_the_status_decides_the_kind(status, kind):
    error = error_of(status, error_body("no"))
    assert type(error) is kind
    assert (error.status, error.provider) == (status, "acme")
    assert error.hint


@pytest.mark.parametrize(
    "said_",
    [
        error_body("prompt is too long: 210000 tokens > 200000 maximum"),
        error_body("This model's maximum context length is 8192 tokens."),
        error_body("x", code="context_length_exceeded"),
        error_body("The input token count (1200000) exceeds the maximum number of tokens allowed"),
        error_body("Input tokens exceed the configured limit of 272000 tokens"),
        error_body("The total length of all messages is too long.", type="too_many_prompt_tokens"),
        error_body("the request exceeds the available context size"),
        error_body("Input is too long for requested model."),
        error_body("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
        error_body("Please reduce the length of the messages."),
        error_body("This model's maximum prompt length is 131072 but the request contains 187654"),
        error_body("Invalid request: Your request exceeded model token limit: 8192"),
        error_body("the input token count is 40000 but model only supports up to 32768."),
        error_body("too many tokens: total number of tokens in the prompt cannot exceed 4081"),
        error_body("`inputs` must have less than 4096 tokens. Given: 5000"),
        error_body("`inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5000 and 10"),
        error_body("The total number of tokens (prompt and max_tokens) exceeds the model limit"),
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
        "Unsupported value: 'messages[0].role' does not support 'developer' with this model.",
        "This model does not support effort level 'xhigh'.",
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        "Invalid file data: 'input[3].output[0].file_data'.",
        "No tool output found for tool call call-a.",
    ],
)
def test_other_bad_requests_are_not_taken_for_too_long(words):
    assert type(error_of(400, error_body(words))) is ModelBadRequestError


def test_a_limit_on_tokens_per_minute_is_no_overflow():
    error = error_of(429, error_body("Request too large for gpt-4 on tokens per min (TPM)"))
    assert type(error) is ModelRateLimitError
    assert not error.retryable
    assert "send less" in error.hint


FILTERED = {"innererror": {"code": "ResponsibleAIPolicyViolation"}}


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        # The quota or the credit is spent, under whatever status.
        (429, error_body("x", code="insufficient_quota"), ModelQuotaError),
        (429, error_body("x", type="insufficient_quota"), ModelQuotaError),
        (
            429,
            error_body("You exceeded your current quota, please check your plan."),
            ModelQuotaError,
        ),
        (429, error_body("x", type="exceeded_current_quota_error"), ModelQuotaError),
        (403, error_body("x", type="billing_error"), ModelQuotaError),
        (400, error_body("Your credit balance is too low to access the API."), ModelQuotaError),
        (402, error_body("Insufficient Balance"), ModelQuotaError),
        (403, error_body("Key limit exceeded (total limit)"), ModelQuotaError),
        (403, {"code": "x", "error": "Your team has used all available credits"}, ModelQuotaError),
        # The same words for a limit that is renewed within a minute.
        (
            429,
            error_body("You exceeded your current quota.", status="RESOURCE_EXHAUSTED"),
            ModelRateLimitError,
        ),
        # A model or an address that is not there.
        (404, error_body("x", type="not_found_error"), ModelNotFoundError),
        (400, error_body("x", code="model_not_found"), ModelNotFoundError),
        (400, error_body("The requested model 'm' does not exist."), ModelNotFoundError),
        (400, error_body("Model Not Exist"), ModelNotFoundError),
        (400, error_body("acme/m is not a valid model ID"), ModelNotFoundError),
        (400, {"message": "Invalid model: m", "type": "invalid_model"}, ModelNotFoundError),
        (400, {"code": "invalid argument", "error": "Model not found: m"}, ModelNotFoundError),
        # A content filter.
        (400, error_body("x", code="content_filter"), ModelContentFilterError),
        (400, error_body("x", **FILTERED), ModelContentFilterError),
        (400, error_body("Azure OpenAI's content management policy"), ModelContentFilterError),
        (400, error_body("Output blocked by content filtering policy"), ModelContentFilterError),
        (400, error_body("x", code="content_policy_violation"), ModelContentFilterError),
        (
            403,
            error_body("It requires moderation. Your input was flagged."),
            ModelContentFilterError,
        ),
        (400, error_body("Content Exists Risk"), ModelContentFilterError),
        # A key that is refused, or that may not do this.
        (403, error_body("x", type="permission_error"), ModelPermissionError),
        (403, error_body("The API key is missing a scope."), ModelPermissionError),
        (400, error_body("x", type="permission_error"), ModelPermissionError),
        (403, {"error_code": "PERMISSION_DENIED", "message": "x"}, ModelPermissionError),
        (400, error_body("x", details=[{"reason": "API_KEY_INVALID"}]), ModelAuthenticationError),
        # Names that say more than the status, and one that does not.
        (429, error_body("x", type="engine_overloaded_error"), ModelOverloadedError),
        (400, error_body("x", type="rate_limit_error"), ModelRateLimitError),
        (401, error_body("Unauthorized", type="api_error"), ModelAuthenticationError),
        (400, error_body("x", type="api_error"), ModelBadRequestError),
        (500, error_body("prompt is too long"), ModelContextTooLongError),
    ],
)
def test_the_body_says_more_than_the_status(status, body, kind):
    error = error_of(status, body)
    assert type(error) is kind
    assert error.retryable is kind.retryable
    assert error.hint.startswith(
        "check ACME_KEY" if kind is ModelAuthenticationError else kind.remedy
    )


@pytest.mark.parametrize(
    ("status", "should", "retryable"),
    [
        (400, None, False),
        (400, "true", True),
        (409, None, True),
        (409, "false", False),
        (429, None, True),
        (429, "false", False),
        (429, "perhaps", True),
        (500, "false", False),
        (501, None, False),
        (529, "true", True),
    ],
)
def test_the_provider_and_the_status_say_whether_to_try_again(status, should, retryable):
    error = error_of(status, error_body("no"), **({"x_should_retry": should} if should else {}))
    assert error.retryable is retryable
    assert ("will not" in error.hint) is (not retryable)
    assert type(error).retryable == type(error)("fresh").retryable


@pytest.mark.parametrize("words", ["API key not valid.", "Incorrect API key provided: xai-…"])
def test_a_refused_key_may_come_as_a_bad_request(words):
    error = error_of(400, error_body(words))
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
        (b"<style>a{b:c}</style><title>Bad</title><script>if(a<b)", "Bad", ""),
        (b'{"success":false,"errors":[{"code":7003,"message":"m"}]}', "m", "7003"),
        (b'{"error":{"message":"m","code":502,"metadata":{"raw":"n"}}}', "m: n", "502"),
        (b'{"error_code":"c","message":"m"}', "m", "c"),
        (b"plain \n text", "plain text", ""),
        (b"", "no reason given", ""),
        (b"[]", "no reason given", ""),
        (b"7", "no reason given", ""),
        (b'{"error":{"message":["odd"]}}', "no reason given", ""),
        (b"[" * 1000 + b"]" * 1000, "no reason given", ""),
        (b"\xff\xfe", "\ufffd\ufffd", ""),
    ],
)
def test_bodies_of_every_shape_are_read(body, message, code):
    error = error_of_response("acme", 400, {}, body)
    assert error.message == f"acme answered 400: {message}"
    assert error.code == code


def test_a_message_is_one_line_of_bounded_length_without_control_characters():
    error = error_of(400, error_body("a\n\x1b[31mb\r\n" + "x" * 5000))
    assert "\n" not in str(error)
    assert "\x1b" not in str(error)
    assert len(error.message) < 600


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({"request_id": "r1"}, {}, "r1"),
        ({"x_request_id": "r2"}, {}, "r2"),
        ({"apim_request_id": "r4"}, {}, "r4"),
        ({"cf_ray": "r5"}, {"request_id": "r3"}, "r5"),
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
    assert "billing" in error_of(429, error_body("x", code="insufficient_quota")).hint
    assert "new session" in error_of(413, {}).hint


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (error_body("x", type="overloaded_error"), ModelOverloadedError),
        (error_body("x", type="odd", code="rate_limit_exceeded"), ModelRateLimitError),
        (error_body("x", code=503), ModelOverloadedError),
        (error_body("Token limit reached", code=400), ModelBadRequestError),
        (error_body("x", code="content_filter"), ModelContentFilterError),
        (error_body("x", code=402), ModelQuotaError),
        (error_body("x", status="UNAVAILABLE", code=503), ModelOverloadedError),
        (error_body("x", code=12), ModelStreamError),
        (error_body("x", code="9" * 5000), ModelStreamError),
        (error_body("x", code="0400" + "0" * 5000), ModelStreamError),
        (error_body("x", code="0503"), ModelStreamError),
        ({"error": "odd"}, ModelStreamError),
        (None, ModelStreamError),
    ],
)
def test_an_error_in_a_stream_is_told_by_its_body(value, kind):
    error = error_in_band("acme", value)
    assert type(error) is kind
    assert error.status is None


# How long to wait


def _limit(reset, value, left="0"):
    return {reset: value, reset.replace("reset", "remaining"): left}


@pytest.fixture
def _noon():
    set_clock(lambda: datetime(2026, 1, 1, 12, tzinfo=UTC))
    yield
    set_clock(None)


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
        ({"retry-after": "1e300"}, 86_400.0),
        ({"retry-after": "Thu, 01 Jan 2099 12:02:00 GMT"}, 86_400.0),
        (_limit("anthropic-ratelimit-tokens-reset", "2026-01-01T12:00:30Z"), 30.0),
        (_limit("anthropic-ratelimit-requests-reset", "2026-01-01T11:00:00Z"), 0.0),
        (_limit("anthropic-ratelimit-tokens-reset", "2026-01-01T12:00:30Z", left="1"), None),
        (_limit("anthropic-ratelimit-tokens-reset", "9999-99-99T12:00:30Z"), None),
        (_limit("anthropic-ratelimit-unified-5h-reset", "1767268860"), 60.0),
        (_limit("x-ratelimit-reset-requests", "1s"), 1.0),
        (_limit("x-ratelimit-reset-tokens", "6m0s"), 360.0),
        (_limit("x-ratelimit-reset-tokens", "120ms"), 0.12),
        (_limit("x-ratelimit-reset-tokens", "999999999999999h"), 86_400.0),
        (_limit("x-ratelimit-reset-tokens", "1h" * 100), None),
        (_limit("x-ratelimit-reset-tokens", "120ms", left=""), None),
        (_limit("x-ratelimit-reset", "1767268860000"), 60.0),
        (_limit("x-ratelimit-reset-requests", "1s") | {"retry-after": "5"}, 5.0),
        (
            _limit("x-ratelimit-reset-requests", "1s") | _limit("x-ratelimit-reset-tokens", "2s"),
            2.0,
        ),
        ({"x-ratelimit-reset-requests": "1s"}, None),
    ],
)
def test_the_wait_is_read_in_every_form(headers, seconds):
    assert read_retry_after(headers) == seconds


def test_an_error_carries_the_wait():
    assert error_of(429, {}, retry_after="7").retry_after == 7.0


def test_a_wait_may_be_in_the_body():
    delay = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "48s"}
    error = error_of(429, error_body("x", details=[{"links": []}, delay]))
    assert error.retry_after == 48.0
    assert error_of(429, error_body("x", details=[{"retryDelay": "soon"}])).retry_after is None


def test_how_long_the_provider_asks_to_wait_is_told():
    error = error_of_response("acme", 429, {"retry-after": "17"}, b"slow down")
    assert "asks to wait 17 seconds" in str(error)
    assert "asks to wait" not in str(error_of_response("acme", 429, {}, b"slow down"))
