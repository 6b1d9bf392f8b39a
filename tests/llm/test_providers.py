"""Both providers against a real HTTP server."""

import logging
import math
import traceback

import pytest
import trio
import trio.testing

from greenroom.core import ConfigurationError, Message, ToolDefinition
from greenroom.core._internal import serde
from greenroom.llm import (
    AnthropicProvider,
    Endpoint,
    GeminiProvider,
    ModelAuthenticationError,
    ModelBadRequestError,
    ModelConnectionError,
    ModelError,
    ModelOverloadedError,
    ModelRateLimitError,
    ModelRequest,
    ModelStreamError,
    ModelTimeouts,
    OpenAIProvider,
    OpenAIResponsesProvider,
)
from greenroom.llm._internal import HOSTS, ModelFirstEventTimeoutError, ModelIdleTimeoutError
from greenroom.net import HttpClient
from tests.llm import wire
from tests.llm.server import Answer, model_server

KEY = "sk-Secret-0123456789"
ANTHROPIC = wire.anthropic(*wire.text_block(0, "Hel", "lo ", "😀"))
CHAT = wire.chat({"content": "Hel"}, {"content": "lo "}, {"content": "😀"})
HELLO = ModelRequest(messages=[Message.user("hi")])


class Vendor:
    """What a test needs to know of a wire format, so that one test holds for both."""

    def __init__(self, provider, reply, path, base, first):
        self.key = "ANTHROPIC" if provider is AnthropicProvider else "OPENAI"
        self.provider, self.reply, self.path, self.base = provider, reply, path, base
        self.first = first  # the bytes up to where the first text has come

    def open(self, server, **options):
        given = {"api_key": KEY, "env": {}} | options
        return self.provider("m-1", base_url=server.url + self.base, **given)


VENDORS = [
    Vendor(AnthropicProvider, ANTHROPIC, "/v1/messages", "", ANTHROPIC.index(b'"lo "') - 100),
    Vendor(OpenAIProvider, CHAT, "/v1/chat/completions", "/v1", CHAT.index(b'"lo "') - 100),
]

RESPONSES = wire.responses_stream(
    wire.message_item("msg_1", "Hello 😀"), pieces=["Hel", "lo ", "😀"]
)
BY_RESPONSES = Vendor(
    OpenAIResponsesProvider, RESPONSES, "/v1/responses", "/v1", RESPONSES.index(b'"lo "') - 100
)


GEMINI = wire.gemini(*map(wire.text_part, ("Hel", "lo ", "😀")), end="\n")
BY_GEMINI = Vendor(
    GeminiProvider,
    GEMINI,
    "/v1beta/models/m-1:streamGenerateContent?alt=sse",
    "",
    GEMINI.index(b'"lo "') - 30,
)


@pytest.fixture(params=VENDORS, ids=["anthropic", "openai"])
def vendor(request):
    return request.param


async def broken(provider):
    """Read a stream that breaks; return the stream and the error."""
    stream = None
    try:
        async with provider.stream(HELLO) as stream:
            async for _ in stream:
                pass
    except ModelError as error:
        return stream, error
    pytest.fail("the stream did not break")


async def test_a_request_reaches_the_wire_as_it_was_made(vendor):
    tool = ToolDefinition("Read", "Reads.", {"type": "object"})
    async with model_server(Answer.stream(vendor.reply)) as server:
        provider = vendor.open(server, headers={"x-more": "yes"})
        await provider.generate(
            ModelRequest(
                messages=[Message.user("hi")],
                system="Say \u2028 this.",
                tools=[tool],
                options={"service_tier": "flex"},
            )
        )
        await provider.aclose()
    sent = server.requests[0]
    assert sent.path == vendor.path
    assert sent.body["model"] == "m-1"
    assert sent.body["service_tier"] == "flex"
    assert "Say \u2028 this.".encode() in sent.content
    assert sent.headers["x-more"] == "yes"
    assert sent.headers["content-type"] == "application/json"


async def test_the_key_travels_as_each_vendor_wants_it():
    async with model_server(Answer.stream(ANTHROPIC)) as server:
        provider = AnthropicProvider("m", api_key=KEY, base_url=server.url)
        await provider.generate(HELLO)
        await provider.aclose()
        env = {"ANTHROPIC_AUTH_TOKEN": "token", "ANTHROPIC_BASE_URL": f"{server.url}/v1/"}
        provider = AnthropicProvider("m", env=env)
        await provider.generate(HELLO)
        await provider.aclose()
    first, second = (request.headers for request in server.requests)
    assert first["x-api-key"] == KEY
    assert first["anthropic-version"] == "2023-06-01"
    assert "authorization" not in first
    assert second["authorization"] == "Bearer token"
    assert "x-api-key" not in second
    assert {request.path for request in server.requests} == {"/v1/messages"}


async def test_the_environment_configures_openai():
    async with model_server(Answer.stream(CHAT)) as server:
        env = {
            "OPENAI_API_KEY": f" {KEY}\n",
            "OPENAI_BASE_URL": f"{server.url}/v1/",
            "OPENAI_ORG_ID": "org-1",
            "OPENAI_PROJECT_ID": "proj-1",
        }
        provider = OpenAIProvider("m", env=env)
        await provider.generate(HELLO)
        await provider.aclose()
    headers = server.requests[0].headers
    assert headers["authorization"] == f"Bearer {KEY}"
    assert headers["openai-organization"] == "org-1"
    assert headers["openai-project"] == "proj-1"


def test_another_vendor_is_not_told_the_organisation():
    env = {"GROQ_API_KEY": "gsk-1", "OPENAI_ORG_ID": "org-1", "OPENAI_PROJECT_ID": "proj-1"}
    endpoint = OpenAIProvider("m", host=HOSTS["groq"], env=env)._endpoint
    assert not {"openai-organization", "openai-project"} & endpoint.headers.keys()


async def test_a_local_server_needs_no_key(vendor):
    async with model_server(Answer.stream(vendor.reply)) as server:
        provider = vendor.open(server, api_key=None)
        await provider.generate(HELLO)
        await provider.aclose()
    assert not {"authorization", "x-api-key"} & server.requests[0].headers.keys()


async def test_a_connection_is_used_again_after_a_complete_reply(vendor):
    async with model_server(Answer.stream(vendor.reply)) as server:
        provider = vendor.open(server)
        for _ in range(3):
            await provider.generate(HELLO)
        await provider.aclose()
    assert len(server.requests) == 3
    assert server.connections == 1


async def test_a_reply_is_complete_though_the_server_holds_the_connection_open(vendor):
    async with model_server(
        Answer.stream(vendor.reply + b"data: [DONE]\n\n", end="hang")
    ) as server:
        provider = vendor.open(server)
        assert (await provider.generate(HELLO)).text == "Hello 😀"
        await provider.aclose()


async def test_a_client_that_was_given_is_left_open(vendor):
    async with model_server(Answer.stream(vendor.reply)) as server, HttpClient() as client:
        first, second = vendor.open(server, client=client), vendor.open(server, client=client)
        await first.generate(HELLO)
        await first.aclose()
        await second.generate(HELLO)
    assert server.connections == 1


# More requests than connections


async def test_requests_beyond_the_connections_wait_without_a_time_out(vendor, mock_clock):
    all_busy, go_on = trio.Event(), trio.Event()

    def answer(_):
        if len(server.requests) == 100:
            all_busy.set()
        return Answer.stream(vendor.reply, after=go_on)

    replies = []

    async def ask():
        replies.append((await provider.generate(HELLO)).text)

    async with model_server(answer) as server:
        provider = vendor.open(server)
        async with trio.open_nursery() as nursery:
            for _ in range(150):
                nursery.start_soon(ask)
            await all_busy.wait()
            mock_clock.jump(12)
            await trio.testing.wait_all_tasks_blocked()
            go_on.set()
        await provider.aclose()
    assert replies == ["Hello 😀"] * 150
    assert server.connections == 100


async def test_the_number_of_connections_can_be_chosen(vendor):
    all_busy = trio.Event()

    def answer(_):
        if len(server.requests) == 3:
            all_busy.set()
        return Answer.stream(vendor.reply, after=all_busy)

    async with model_server(answer) as server:
        provider = vendor.open(server, connections=3)
        async with trio.open_nursery() as nursery:
            for _ in range(7):
                nursery.start_soon(provider.generate, HELLO)
        await provider.aclose()
    assert len(server.requests) == 7
    assert server.connections == 3


@pytest.mark.parametrize("provider", [AnthropicProvider, OpenAIProvider])
def test_a_number_of_connections_that_can_not_be_used_is_refused(provider):
    with pytest.raises(ConfigurationError, match="at least 1, not 0"):
        provider("m", api_key=KEY, connections=0)
    with pytest.raises(
        ConfigurationError, match="can't limit the connections of a client"
    ) as caught:
        provider("m", api_key=KEY, connections=5, client=HttpClient())
    assert "HttpClient(connections=" in caught.value.hint


# Streams that break


async def test_a_stream_that_is_reset_is_an_error_and_never_a_reply(vendor):
    async with model_server(Answer.stream(vendor.reply[: vendor.first], end="reset")) as server:
        provider = vendor.open(server)
        _, error = await broken(provider)
        await provider.aclose()
    # The reset may overtake the answer.
    assert type(error) in (ModelStreamError, ModelConnectionError)
    assert error.provider == provider.name
    assert error.hint


async def test_a_complete_reply_stands_though_the_connection_breaks_after_it(vendor):
    async with model_server(Answer.stream(vendor.reply, end="cut")) as server:
        provider = vendor.open(server)
        assert (await provider.generate(HELLO)).text == "Hello 😀"
        await provider.aclose()


async def test_a_stream_that_breaks_off_names_the_request(vendor):
    headers = {"content-type": "text/event-stream", "x-request-id": "req_7"}
    async with model_server(Answer((), headers=headers)) as server:
        provider = vendor.open(server)
        _, error = await broken(provider)
        await provider.aclose()
    assert error.request_id == "req_7"


async def test_what_precedes_an_error_in_the_same_piece_is_still_given():
    failed = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    data = wire.sse(wire.message_start(), *wire.text_block(0, "Hel"), failed)
    async with model_server(Answer.stream(data)) as server:
        provider = AnthropicProvider("m", base_url=server.url, env={})
        stream, error = await broken(provider)
        assert type(error) is ModelOverloadedError
        assert stream.partial().text == "Hel"
        await provider.aclose()


async def test_an_event_without_end_is_refused(vendor, monkeypatch):
    monkeypatch.setattr("greenroom.llm.http_stream.REPLY_LIMIT", 1000)
    async with model_server(Answer.stream(*[b": comment\n"] * 200, end="hang")) as server:
        provider = vendor.open(server)
        with pytest.raises(ModelStreamError, match="larger than 1000 bytes"):
            await provider.generate(HELLO)
        await provider.aclose()


# Errors of every kind


@pytest.mark.parametrize("status", [200, 400])
async def test_a_server_that_repeats_the_key_in_its_headers_gets_no_error_to_quote_it(
    vendor, status
):
    said = {"content-type": f"text/{KEY}", "x-request-id": f"id-{KEY}"}
    async with model_server(Answer((b"hello",), status, said)) as server:
        provider = vendor.open(server)
        with pytest.raises(ModelBadRequestError) as caught:
            await provider.generate(HELLO)
        await provider.aclose()
    assert KEY.lower() not in f"{caught.value} {vars(caught.value)}".lower()
    assert caught.value.request_id == "id-[key]"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ModelBadRequestError),
        (401, ModelAuthenticationError),
        (429, ModelRateLimitError),
        (529, ModelOverloadedError),
    ],
)
async def test_an_error_status_is_typed_with_all_that_the_provider_said(vendor, status, kind):
    body = {"error": {"type": "some_error", "message": f"no: {KEY}"}}
    answer = Answer.error(status, body, request_id="req_1", retry_after="3")
    async with model_server(answer) as server:
        provider = vendor.open(server)
        with pytest.raises(kind, match=r"answered \d+: no: \[key\]") as caught:
            await provider.generate(HELLO)
        await provider.aclose()
    error = caught.value
    assert (error.status, error.code, error.request_id) == (status, "some_error", "req_1")
    assert error.retry_after == 3.0
    assert KEY not in str(error)


async def test_an_error_within_a_stream_shows_the_key_nowhere(vendor):
    failed = wire.sse({"type": "error", "error": {"type": "some_error", "message": f"no: {KEY}"}})
    async with model_server(Answer.stream(failed)) as server:
        provider = vendor.open(server)
        _, error = await broken(provider)
        await provider.aclose()
    assert "no: [key]" in str(error)
    assert KEY not in "".join(traceback.format_exception(error))  # nor any error behind it


@pytest.mark.parametrize(
    ("url", "key", "shown"),
    [
        ("https://a.test", "k", "a block of bricks"),
        ("https://a.test", "block", "a block of bricks"),
        ("https://a.test", "a block of", "[key] bricks"),
        ("https://a.test", "a block o", "[key]f bricks"),
        ("http://localhost:11434", "of bricks", "a block of bricks"),
        ("http://10.0.0.7", "a block of", "a block of bricks"),
    ],
)
def test_errors_stay_readable_where_the_key_is_short_or_a_word(url, key, shown):
    endpoint = Endpoint("acme", url, {}, (key,))
    assert endpoint.conceal(b"a block of bricks").decode() == shown


def test_each_key_is_removed_once():
    secrets = ("sk-secret", "sk-secret-0123", "sk-secret/1")
    endpoint = Endpoint("acme", "https://a.test", {}, secrets)
    assert endpoint.conceal(rb"sk-secret-0123 sk-secret/1 sk-secret\/1 sk-secret") == (
        b"[key] [key] [key] [key]"
    )


@pytest.mark.parametrize("key", [KEY, "sk/" + KEY])
async def test_an_error_in_the_stream_never_shows_the_key(vendor, key):
    error = {"message": f"{'x' * 230} {key} {'y' * 600}", "code": key, "type": key}
    report = serde.dumps({"type": "error", "error": error, "request_id": key})
    event = b"event: error\ndata: " + report.replace(b"/", b"\\/") + b"\n\n"
    async with model_server(Answer.stream(event)) as server:
        provider = vendor.open(server, api_key=key)
        with pytest.raises(ModelStreamError) as caught:
            await provider.generate(HELLO)
        await provider.aclose()
    shown = "".join(traceback.format_exception(caught.value)) + repr(vars(caught.value))
    assert "[key]" in caught.value.message
    assert caught.value.code == "[key]"
    assert caught.value.request_id == "[key]"
    assert key[:8] not in shown


async def test_a_reply_that_quotes_the_key_is_left_as_it_came(vendor):
    reply = vendor.reply.replace(b"Hel", KEY.encode())
    async with model_server(Answer.stream(reply)) as server:
        provider = vendor.open(server)
        assert KEY in (await provider.generate(HELLO)).text
        await provider.aclose()


async def test_a_refused_key_names_the_variable_to_look_at(vendor):
    async with model_server(Answer.error(401, {})) as server:
        provider = vendor.open(server)
        with pytest.raises(ModelAuthenticationError) as caught:
            await provider.generate(HELLO)
        await provider.aclose()
    assert caught.value.hint == f"check {vendor.key}_API_KEY"


async def test_an_unknown_model_says_where_to_look(vendor):
    async with model_server(Answer.error(404, {"error": {"message": "model: m-1"}})) as server:
        provider = vendor.open(server)
        with pytest.raises(ModelBadRequestError) as caught:
            await provider.generate(HELLO)
        await provider.aclose()
    assert "model's name" in caught.value.hint


async def test_a_wait_asked_for_with_a_success_is_passed_over(vendor):
    headers = {"content-type": "text/event-stream", "retry-after": "24"}
    async with model_server(Answer((vendor.reply,), headers=headers)) as server:
        provider = vendor.open(server)
        assert (await provider.generate(HELLO)).text == "Hello 😀"
        await provider.aclose()


async def test_an_error_whose_body_breaks_off_keeps_its_status(vendor):
    answer = Answer((b'{"error": {"mess',), 503, {"content-type": "application/json"}, "cut")
    async with model_server(answer) as server:
        provider = vendor.open(server)
        with pytest.raises(ModelOverloadedError, match="503"):
            await provider.generate(HELLO)
        await provider.aclose()


async def test_a_page_in_place_of_a_stream_points_at_the_base_url(vendor):
    answer = Answer((b"<html>Log in</html>",), 200, {"content-type": "text/html; charset=utf-8"})
    async with model_server(answer) as server:
        provider = vendor.open(server)
        with pytest.raises(ModelBadRequestError, match="text/html") as caught:
            await provider.generate(HELLO)
        await provider.aclose()
    assert "base URL" in caught.value.hint


async def test_an_error_object_under_a_status_of_success_is_that_error(vendor):
    body = {"error": {"message": "slow down", "code": 429}}
    async with model_server(Answer.error(200, body)) as server:
        provider = vendor.open(server)
        with pytest.raises(ModelRateLimitError, match="slow down"):
            await provider.generate(HELLO)
        await provider.aclose()


async def test_a_server_that_is_not_there_is_a_connection_error(vendor):
    async with model_server(Answer()) as server:
        pass
    provider = vendor.open(server)
    with pytest.raises(ModelConnectionError, match="connection to") as caught:
        await provider.generate(HELLO)
    await provider.aclose()
    assert caught.value.hint


async def test_what_json_can_not_hold_is_refused_before_it_is_sent(vendor):
    async with model_server(Answer()) as server:
        provider = vendor.open(server)
        with pytest.raises(ModelBadRequestError, match="JSON"):
            await provider.generate(ModelRequest(messages=(), options={"x": object()}))
        await provider.aclose()
    assert server.requests == []


# Time-outs


async def test_a_server_that_says_nothing_is_given_up(vendor):
    timeouts = ModelTimeouts(first_event=0.05)
    async with model_server(Answer.stream(end="hang")) as server:
        provider = vendor.open(server, timeouts=timeouts)
        with pytest.raises(ModelFirstEventTimeoutError, match=r"nothing for 0\.05 seconds"):
            await provider.generate(HELLO)
        await server.client_left.wait()
        await provider.aclose()


async def test_a_server_that_falls_silent_is_given_up_and_the_text_kept(vendor):
    timeouts = ModelTimeouts(first_event=math.inf, between_events=0.05)
    answer = Answer.stream(vendor.reply[: vendor.first], end="hang")
    async with model_server(answer) as server:
        provider = vendor.open(server, timeouts=timeouts)
        stream, error = await broken(provider)
        assert type(error) is ModelIdleTimeoutError
        assert stream.partial().text == "Hel"
        await provider.aclose()


async def test_a_server_that_takes_the_request_and_never_answers_is_given_up(vendor):
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    timeouts = ModelTimeouts(first_event=0.05)
    provider = vendor.provider("m", base_url=f"http://127.0.0.1:{port}", env={}, timeouts=timeouts)
    with pytest.raises(ModelFirstEventTimeoutError, match="in time"):
        await provider.generate(HELLO)
    await provider.aclose()
    await listeners[0].aclose()


# Keys


@pytest.mark.parametrize("provider", [AnthropicProvider, OpenAIProvider])
def test_a_missing_key_says_in_one_line_what_to_set(provider):
    with pytest.raises(ConfigurationError) as caught:
        provider("m", env={})
    assert "\n" not in str(caught.value)
    assert "_API_KEY" in caught.value.hint


@pytest.mark.parametrize("provider", [AnthropicProvider, OpenAIProvider])
@pytest.mark.parametrize("key", ["sk-\n1", "sk-…", "sk-\x00"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(provider, key):
    with pytest.raises(ConfigurationError) as caught:
        provider("m", api_key=f"{key}{KEY}")
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("provider", [AnthropicProvider, OpenAIProvider])
@pytest.mark.parametrize(
    "url", ["api.example.com", "ftp://a/b", "http://", f"//{KEY}@a", "http://[::1"]
)
def test_a_base_url_that_is_none_is_refused_without_being_shown(provider, url):
    with pytest.raises(ConfigurationError, match="base URL") as caught:
        provider("m", api_key=KEY, base_url=url)
    assert KEY not in str(caught.value)


async def test_the_key_stands_in_no_repr_and_no_log(vendor, caplog):
    caplog.set_level(logging.DEBUG)
    async with model_server(Answer.error(401, {"error": {"message": KEY}})) as server:
        provider = vendor.open(server)
        with pytest.raises(ModelAuthenticationError) as caught:
            await provider.generate(HELLO)
        await provider.aclose()
    assert repr(provider) == f"{vendor.provider.__name__}('m-1')"
    assert KEY not in repr(vars(provider)) + repr(caught.value) + str(caught.value)
    assert KEY not in caplog.text
