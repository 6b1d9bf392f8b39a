"""`auth`: headers for each request, such as signatures, and what happens where they don't come."""

import hashlib
import traceback

import pytest
import trio
import trio.testing

from greenroom.core import Message
from greenroom.llm import (
    AnthropicProvider,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelError,
    ModelRequest,
    ModelTimeouts,
    OpenAIProvider,
    OpenAIResponsesProvider,
    resilient,
)
from greenroom.llm._internal import ModelCallForbiddenError, ModelConnectTimeoutError
from greenroom.resilience import Backoff, Retry
from tests.llm.server import Answer, model_server
from tests.llm.test_providers import BY_RESPONSES, HELLO, VENDORS

TOKEN = "ya29.secret-0123456789"
ENV = {"ANTHROPIC_API_KEY": "sk-ant-env-123456", "OPENAI_API_KEY": "sk-env-123456"}


@pytest.fixture(params=[*VENDORS, BY_RESPONSES], ids=["anthropic", "openai", "responses"])
def vendor(request):
    return request.param


def open_at(vendor, server, auth, **options):
    """Open a provider without a key, though the environment has one."""
    return vendor.open(server, api_key=None, env=ENV, auth=auth, **options)


async def bearer(method, url, headers, body):
    return {"Authorization": f"Bearer {TOKEN}"}


async def error_of(provider, kind=ModelError):
    with pytest.raises(kind) as caught:
        await provider.generate(HELLO)
    await provider.aclose()
    return caught.value


async def test_what_is_signed_is_what_is_sent(vendor):
    signed = []

    async def sign(method, url, headers, body):
        signed.append((method, url, headers))
        return {"X-Signature": hashlib.sha256(body).hexdigest(), "X-More": "mine"}

    async with model_server(Answer.stream(vendor.reply)) as server:
        provider = open_at(vendor, server, sign, headers={"x-more": "theirs", "x-kept": "yes"})
        await provider.generate(HELLO)
        await provider.aclose()
        [sent] = server.requests
        [(method, url, headers)] = signed
        assert (method, url) == ("POST", server.url + vendor.path)
        assert headers["x-more"] == "theirs"
    assert sent.headers["x-signature"] == hashlib.sha256(sent.content).hexdigest()
    assert (sent.headers["x-more"], sent.headers["x-kept"]) == ("mine", "yes")
    assert not {"authorization", "x-api-key"} & sent.headers.keys()  # no key of the environment


async def test_each_attempt_asks_again(vendor):
    tokens = iter(["token-1", "token-2", "token-3"])

    async def auth(method, url, headers, body):
        return {"authorization": next(tokens)}

    answers = iter([Answer.error(503, {}), Answer.error(529, {}), Answer.stream(vendor.reply)])
    async with model_server(lambda _request: next(answers)) as server:
        retry = Retry(backoff=Backoff(first=0.0))
        model = resilient(open_at(vendor, server, auth), retry=retry)
        assert (await model.generate(HELLO)).text == "Hello 😀"
        await model.aclose()
        sent = [each.headers["authorization"] for each in server.requests]
    assert sent == ["token-1", "token-2", "token-3"]


async def test_an_error_of_it_is_of_authentication_with_its_cause_and_without_its_text(vendor):
    async def auth(method, url, headers, body):
        raise RuntimeError(f"can't renew {TOKEN}")

    async with model_server(Answer.stream(vendor.reply)) as server:
        error = await error_of(open_at(vendor, server, auth), ModelAuthenticationError)
        assert server.requests == []
    assert isinstance(error.__cause__, RuntimeError)
    assert "RuntimeError" in str(error)
    assert TOKEN not in str(error)
    assert error.provider
    assert not error.retryable


async def test_a_model_error_of_it_passes_so_that_it_can_be_retried(vendor):
    async def auth(method, url, headers, body):
        raise ModelConnectionError("the metadata server is away")

    async with model_server(Answer.stream(vendor.reply)) as server:
        error = await error_of(open_at(vendor, server, auth), ModelConnectionError)
    assert error.retryable
    assert error.provider


@pytest.mark.parametrize(
    "returned", [None, ["a"], {"a": None}, {"a": "ü-123456789"}, {"a": "b\r\nc: d"}, {1: "a"}]
)
async def test_what_is_no_header_is_refused(returned):
    async def auth(method, url, headers, body):
        return returned

    async with model_server(Answer()) as server:
        error = await error_of(open_at(VENDORS[0], server, auth), ModelAuthenticationError)
        assert server.requests == []
    assert "ü" not in f"{error}{error.hint}"


async def test_it_has_the_time_of_a_connection(vendor, mock_clock):
    mock_clock.autojump_threshold = 0

    async def auth(method, url, headers, body):
        await trio.sleep_forever()

    provider = vendor.provider(
        "m-1",
        base_url="https://llm.example",
        auth=auth,
        env={},
        timeouts=ModelTimeouts(connect=7),
        client=Replay(),
    )
    error = await error_of(provider, ModelConnectTimeoutError)
    assert trio.current_time() == 7
    assert "`auth`" in str(error)
    assert error.retryable


class Replay:
    """A client that no request may reach."""

    is_replay = True


async def test_a_time_out_of_its_own_is_an_error_of_its_own(vendor):
    async def auth(method, url, headers, body):
        raise trio.TooSlowError

    async with model_server(Answer.stream(vendor.reply)) as server:
        error = await error_of(open_at(vendor, server, auth), ModelAuthenticationError)
    assert isinstance(error.__cause__, trio.TooSlowError)


async def test_a_cancel_reaches_it_and_nothing_is_sent(vendor):
    began, ended = trio.Event(), trio.Event()

    async def auth(method, url, headers, body):
        began.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    async with model_server(Answer.stream(vendor.reply)) as server:
        provider = open_at(vendor, server, auth)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(provider.generate, HELLO)
            await began.wait()
            nursery.cancel_scope.cancel()
        assert ended.is_set()
        assert server.requests == []
        await provider.aclose()


@pytest.mark.parametrize("status", [400, 401, 404, 500])
async def test_a_server_that_repeats_the_headers_puts_no_secret_into_an_error(vendor, status):
    async def auth(method, url, headers, body):
        return {
            "authorization": f"AWS4-HMAC-SHA256 Credential={TOKEN}, Signature=0123456789abcdef",
            "x-amz-security-token": "FwoGZXIvYXdz-0123456789",
        }

    def repeat(request):
        sent = [request.headers["authorization"], request.headers["x-amz-security-token"]]
        text = f"refused {sent[0]} and {sent[1]}; the signature {sent[0].rpartition(' ')[2]}"
        return Answer.error(status, {"error": {"message": text, "type": "x"}}, x_request_id=sent[1])

    async with model_server(repeat) as server:
        error = await error_of(open_at(vendor, server, auth))
    told = "".join(traceback.format_exception(error)) + error.request_id + error.hint
    assert "refused" in told
    for secret in (TOKEN, "0123456789abcdef", "FwoGZXIvYXdz"):
        assert secret not in told


async def test_headers_do_not_follow_a_redirect(vendor):
    async with model_server(Answer.stream(vendor.reply)) as other:
        away = Answer((), 307, {"location": f"{other.url}{vendor.path}"})
        async with model_server(away) as server:
            error = await error_of(open_at(vendor, server, bearer))
            assert server.requests[0].headers["authorization"] == f"Bearer {TOKEN}"
        assert error.status == 307
        assert other.requests == []


async def test_where_calls_are_forbidden_nothing_is_signed(vendor, monkeypatch):
    monkeypatch.setenv("GREENROOM_FORBID_MODEL_CALLS", "1")
    asked = []

    async def auth(method, url, headers, body):
        asked.append(url)
        return {}

    provider = vendor.provider("m-1", base_url="https://llm.example", auth=auth, env={})
    with pytest.raises(ModelCallForbiddenError):
        await provider.generate(HELLO)
    await provider.aclose()
    assert asked == []


VERTEX = "/v1/projects/p/locations/global/publishers/anthropic/models"


async def test_claude_on_vertex_has_the_model_in_the_path():
    anthropic = VENDORS[0]
    count = Answer((b'{"input_tokens": 7}',), 200, {"content-type": "application/json"})

    def answer(request):
        return count if "count-tokens" in request.path else Answer.stream(anthropic.reply)

    async with model_server(answer) as server:
        provider = AnthropicProvider(
            "claude-haiku-4-5@20251001", base_url=server.url + VERTEX, auth=bearer, env=ENV
        )
        request = ModelRequest(
            messages=[Message.user("hi")], options={"metadata": {"user_id": "u"}}
        )
        assert (await provider.generate(request)).text == "Hello 😀"
        assert await provider.count_tokens(request) == 7
        await provider.aclose()
        sent, counted = server.requests
    assert sent.path == f"{VERTEX}/claude-haiku-4-5@20251001:streamRawPredict"
    assert "model" not in sent.body
    assert sent.body["anthropic_version"] == "vertex-2023-10-16"
    assert sent.body["stream"] is True
    assert counted.path == f"{VERTEX}/count-tokens:rawPredict"
    assert counted.body["model"] == "claude-haiku-4-5@20251001"
    assert {each.headers["authorization"] for each in (sent, counted)} == {f"Bearer {TOKEN}"}


def test_a_model_on_vertex_is_the_one_of_the_catalogue():
    base = f"https://aiplatform.googleapis.com{VERTEX}"
    provider = AnthropicProvider("claude-haiku-4-5@20251001", base_url=base, auth=bearer, env={})
    assert provider.profile.context_window == 200_000


@pytest.mark.parametrize("kind", [AnthropicProvider, OpenAIProvider, OpenAIResponsesProvider])
def test_it_is_never_shown(kind):
    provider = kind("m", auth=bearer, env={})
    assert "bearer" not in repr(provider) + repr(provider._endpoint)
