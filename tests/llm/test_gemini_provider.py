"""The Gemini API over HTTP: where the key goes, what errors mean, and answers in one piece."""

import pytest

from greenroom.core import ConfigurationError, Message
from greenroom.core._internal import OutputSchema, serde
from greenroom.llm import (
    GeminiProvider,
    ModelAuthenticationError,
    ModelContextTooLongError,
    ModelRateLimitError,
    ModelRequest,
    ModelStreamError,
)
from greenroom.llm._internal import ModelNotFoundError
from greenroom.llm.failure import error_of_response
from tests.llm import wire
from tests.llm.server import Answer, model_server

HELLO = ModelRequest(messages=[Message.user("hi")])
REPLY = wire.gemini(wire.text_part("Hello"))
KEY = "AIzaSecret0123456789"


async def ask(server, **options):
    llm = GeminiProvider("gemini-3.8-flash", **options)
    try:
        return await llm.generate(HELLO)
    finally:
        await llm.aclose()


async def give_token(method, url, headers, body):
    return {"authorization": "Bearer token-123"}


async def test_the_key_travels_in_a_header_and_never_in_the_address():
    async with model_server(Answer.stream(REPLY)) as server:
        both = {"GOOGLE_API_KEY": KEY, "GEMINI_API_KEY": "other"}
        await ask(server, env=both | {"GOOGLE_GEMINI_BASE_URL": f"{server.url}/"})
        await ask(server, env={"GEMINI_API_KEY": KEY}, base_url=server.url)
        await ask(server, env={}, base_url=f"{server.url}/v1/publishers/google")
        vertex = f"{server.url}/v1/publishers/google/models/"
        await ask(server, env=both, base_url=vertex, auth=give_token)
    first, second, third, fourth = server.requests
    path = "/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse"
    assert first.path == second.path == path
    assert third.path == fourth.path == path.replace("v1beta", "v1/publishers/google")
    assert first.headers["x-goog-api-key"] == second.headers["x-goog-api-key"] == KEY
    assert "x-goog-api-key" not in third.headers.keys() | fourth.headers.keys()
    assert fourth.headers["authorization"] == "Bearer token-123"
    assert all(KEY not in request.path for request in server.requests)


def test_without_a_key_the_error_names_its_variable():
    with pytest.raises(ConfigurationError, match="no key for google") as missing:
        GeminiProvider("gemini-3.8-flash", env={})
    assert "GEMINI_API_KEY" in missing.value.hint


def details(code, status, message, *given):
    return serde.dumps(
        {"error": {"code": code, "message": message, "status": status, "details": list(given)}}
    )


INFO = "type.googleapis.com/google.rpc.ErrorInfo"
WAIT = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "48s"}


@pytest.mark.parametrize(
    ("status", "body", "kind", "wait"),
    [
        (
            400,
            details(
                400,
                "INVALID_ARGUMENT",
                "API key not valid. Please pass a valid API key.",
                {"@type": INFO, "reason": "API_KEY_INVALID"},
            ),
            ModelAuthenticationError,
            None,
        ),
        (
            400,
            details(400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum (8)."),
            ModelContextTooLongError,
            None,
        ),
        (
            429,
            details(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.", WAIT),
            ModelRateLimitError,
            48.0,
        ),
        (404, details(404, "NOT_FOUND", "models/m is not found"), ModelNotFoundError, None),
    ],
)
def test_an_error_in_google_s_form_is_typed(status, body, kind, wait):
    error = error_of_response("google", status, {}, body)
    assert (type(error), error.retry_after) == (kind, wait)


async def test_a_model_that_does_not_exist_is_told_the_nearest_one():
    answer = Answer.error(404, {"error": {"code": 404, "status": "NOT_FOUND", "message": "no"}})
    async with model_server(answer) as server:
        llm = GeminiProvider("gemini-3.8-flahs", api_key="k", base_url=server.url)
        with pytest.raises(ModelNotFoundError) as missing:
            await llm.generate(HELLO)
        await llm.aclose()
    assert "did you mean google:gemini-3.8-flash?" in missing.value.hint


JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    "value",
    [
        wire.gemini_response(wire.text_part("Hello"), finish="STOP"),
        wire.gemini_responses(*map(wire.text_part, ("Hel", "lo"))),
    ],
)
async def test_an_answer_in_one_piece_is_a_reply(value):
    body = serde.dumps(value, pretty=True)
    pieces = tuple(body[at : at + 7] for at in range(0, len(body), 7))
    async with model_server(Answer(pieces, headers=JSON)) as server:
        assert (await ask(server, api_key="k", base_url=server.url)).text == "Hello"


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ([{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}], ModelRateLimitError),
        (
            [wire.gemini_response(), {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}],
            ModelRateLimitError,
        ),
        (wire.gemini_responses(wire.text_part("Hello"), finish=""), ModelStreamError),
        ([{"models": []}], ModelStreamError),
    ],
)
async def test_a_list_that_is_not_a_reply_is_an_error(value, kind):
    async with model_server(Answer((serde.dumps(value),), headers=JSON)) as server:
        with pytest.raises(kind):
            await ask(server, api_key="k", base_url=server.url)


def test_a_schema_is_taken_by_models_that_take_it_with_tools():
    output = OutputSchema("Answer", {"type": "object"})
    for name, takes in (("gemini-3.8-flash", True), ("gemini-2.5-pro", False)):
        assert GeminiProvider(name, api_key="k", env={}).accepts_output(output) is takes
