"""What can go wrong between a provider and its server: each is a typed error, in bounded time.

After each the connection pool is as it was, and the next request works.
"""

import gzip
import math
import re
from dataclasses import dataclass, field
from functools import partial

import pytest
import trio
from msgspec.structs import replace

from greenroom.core import Message, StopReason, Usage
from greenroom.core._internal import serde
from greenroom.llm import (
    BlockDelta,
    ModelAuthenticationError,
    ModelBadRequestError,
    ModelConnectionError,
    ModelError,
    ModelOverloadedError,
    ModelRateLimitError,
    ModelStreamError,
    ModelTimeouts,
    StreamEnd,
)
from greenroom.llm._internal import (
    BlockStart,
    ModelConnectTimeoutError,
    ModelFirstEventTimeoutError,
    ModelIdleTimeoutError,
    ModelRequestTimeoutError,
)
from greenroom.net import HttpClient
from tests.llm import wire
from tests.llm.server import Answer, model_server
from tests.llm.test_providers import BY_GEMINI, BY_RESPONSES, HELLO, VENDORS

SSE = {"content-type": "text/event-stream"}


APIS = [*VENDORS, BY_RESPONSES, BY_GEMINI]


@pytest.fixture(params=APIS, ids=["anthropic", "openai", "responses", "gemini"])
def vendor(request):
    return request.param


def error_event(vendor):
    error = {"error": {"type": "overloaded_error", "message": "Overloaded"}}
    return wire.sse({"type": "error"} | error)


def border(vendor):
    """The place of the first end of an event behind the first text."""
    return vendor.reply.index(b"\n\n", vendor.first) + 2


def head(status=200, **headers):
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} Here\r\n{lines}\r\n".encode()


@dataclass(frozen=True)
class Fault:
    """What the server does, given the vendor; and what comes of it."""

    name: str
    answer: object
    error: type[ModelError]
    partial: str | None = None
    says: str = ""
    timeouts: ModelTimeouts = field(default_factory=ModelTimeouts)
    retry_after: float | None = None


def stream_of(part, end="whole"):
    return lambda vendor: Answer.stream(part(vendor), end=end)


def bare(*pieces, end="cut"):
    return lambda vendor: Answer(pieces, end=end, bare=True)


def status(number, body=b'{"error": {"message": "no"}}', end="whole", **headers):
    given = {"content-type": "application/json"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    return lambda vendor: Answer((body,), number, given, end)


PAGE = b"<html><head><style>a{}</style></head><body><h1>Bad gateway</h1></body></html>"
HTML = "text/html; charset=utf-8"
LARGE = b"x" * (1 << 20)

FAULTS = [
    # Before an answer
    Fault("closed", bare(b""), ModelConnectionError, says="broke off"),
    Fault("reset", bare(b"", end="reset"), ModelConnectionError, says="broke"),
    Fault("no HTTP", bare(b"220 smtp ready\r\n"), ModelConnectionError, says="not HTTP"),
    Fault("large headers", bare(head(x=LARGE.decode())), ModelConnectionError, says="not HTTP"),
    Fault(
        "silence",
        bare(b"", end="hang"),
        ModelFirstEventTimeoutError,
        timeouts=ModelTimeouts(first_event=0.05),
    ),
    Fault(
        "headers byte by byte",
        bare(b"HTTP/1.1 200 Here\r\nx: ", b"y", end="endless"),
        ModelFirstEventTimeoutError,
        timeouts=ModelTimeouts(first_event=0.05),
    ),
    Fault(
        "a compression that nobody asked for",
        status(200, b"xx", content_encoding="br"),
        ModelConnectionError,
        says="compressed",
    ),
    # Statuses
    Fault("429", status(429), ModelRateLimitError),
    Fault("429 and a wait", status(429, retry_after="7"), ModelRateLimitError, retry_after=7.0),
    Fault("500", status(500), ModelOverloadedError),
    Fault("529", status(529), ModelOverloadedError),
    Fault("401", status(401), ModelAuthenticationError),
    Fault(
        "a page of a proxy",
        status(502, PAGE, content_type=HTML),
        ModelOverloadedError,
        says=": Bad gateway",
    ),
    Fault(
        "a redirect", status(307, location="http://127.0.0.1:9/"), ModelBadRequestError, says="307"
    ),
    Fault("an endless error", status(500, LARGE[:60_000], end="endless"), ModelOverloadedError),
    Fault(
        "an error cut short",
        status(529, b'{"error": {"mess', end="cut"),
        ModelOverloadedError,
        says="mess",
    ),
    # A success that is none
    Fault("a page", status(200, PAGE, content_type=HTML), ModelBadRequestError, says="text/html"),
    Fault(
        "a page as a stream",
        status(200, PAGE, content_type="text/event-stream"),
        ModelBadRequestError,
    ),
    Fault("nothing", lambda _: Answer.stream(), ModelStreamError, says="before the reply"),
    Fault("an error as JSON", status(200, b' {"error": {"code": 429}}'), ModelRateLimitError),
    Fault(
        "an error with half a character",
        status(200, b'{"error": {"code": 429, "message": "\\ud83d"}}'),
        ModelRateLimitError,
    ),
    Fault("a list of errors", status(200, b'[{"error": {"code": 429}}]'), ModelRateLimitError),
    Fault("JSON cut short", status(200, b'{"id": "x", "cho', end="cut"), ModelStreamError),
    Fault("damaged JSON", status(200, b'{"id": "x", "cho'), ModelStreamError, says="not JSON"),
    # In the stream
    Fault("cut in an event", stream_of(lambda v: v.reply[: v.first]), ModelStreamError, "Hel"),
    Fault("cut at a border", stream_of(lambda v: v.reply[: border(v)]), ModelStreamError, "Hello "),
    Fault(
        "no last chunk",
        stream_of(lambda v: v.reply[: border(v)], "cut"),
        ModelStreamError,
        "Hello ",
    ),
    Fault(
        "an error event",
        stream_of(lambda v: v.reply[: border(v)] + error_event(v)),
        ModelOverloadedError,
        "Hello ",
    ),
    Fault(
        "an end by a failure",
        stream_of(lambda v: re.sub(b'"(end_turn|stop|completed|STOP)"', b'"error"', v.reply)),
        ModelStreamError,
        "Hello 😀",
        says="could not complete",
    ),
    Fault(
        "an event that is not JSON",
        stream_of(lambda v: v.reply[: border(v)] + b"data: {\n\n"),
        ModelStreamError,
        "Hello ",
    ),
    Fault(
        "a compression cut short",
        lambda v: Answer(
            (gzip.compress(v.reply[: border(v)])[:-4],), headers=SSE | {"content-encoding": "gzip"}
        ),
        ModelStreamError,
        "Hello ",
        says="cut short",
    ),
    Fault(
        "chunks that are none",
        lambda v: Answer(
            (head(transfer_encoding="chunked"), b"5\r\n: x\n\n\r\nzz\r\n"),
            bare=True,
            end="cut",
        ),
        ModelStreamError,
    ),
    Fault(
        "silence after a start",
        stream_of(lambda v: v.reply[: v.first], "hang"),
        ModelIdleTimeoutError,
        "Hel",
        timeouts=ModelTimeouts(between_events=0.05),
    ),
    Fault(
        "silence after the headers",
        lambda _: Answer.stream(end="hang"),
        ModelFirstEventTimeoutError,
        timeouts=ModelTimeouts(first_event=0.05),
    ),
    Fault(
        "comments for ever",
        lambda v: Answer.stream(v.reply[: border(v)], b": still there\n\n", end="endless"),
        ModelRequestTimeoutError,
        "Hello ",
        timeouts=ModelTimeouts(request=0.15),
    ),
    Fault(
        "a whole reply for ever",
        lambda _: Answer((b'{"a": "', b"b"), headers={}, end="endless"),
        ModelRequestTimeoutError,
        timeouts=ModelTimeouts(request=0.15),
    ),
]


@pytest.mark.in_turns("vendor")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
async def test_a_fault_is_a_typed_error_and_leaves_nothing_behind(vendor, fault):
    answers = [fault.answer(vendor), Answer.stream(vendor.reply)]
    async with model_server(lambda _: answers.pop(0)) as server, HttpClient() as client:
        provider = vendor.open(server, client=client, timeouts=fault.timeouts)
        with pytest.raises(ModelError) as caught:
            await provider.generate(HELLO)
        error = caught.value
        assert type(error) is fault.error
        assert error.provider == provider.name
        assert error.hint
        assert fault.says in error.message
        assert error.retry_after == fault.retry_after
        assert client.statistics().busy == 0
        reply = await vendor.open(server, client=client).generate(HELLO)
        assert reply.text == "Hello 😀"
        assert client.statistics().idle == 1
    if fault.partial is None:
        assert error.partial is None or not error.partial.content
    else:
        assert error.partial.text == fault.partial
        assert error.partial.stop_reason is StopReason.INTERRUPTED


async def test_a_server_that_does_not_speak_tls_is_a_connection_error(vendor):
    async def greet(stream):
        await stream.send_all(b"220 this is no TLS\r\n")
        await stream.receive_some()

    async with trio.open_nursery() as nursery, HttpClient() as client:
        listeners = await nursery.start(partial(trio.serve_tcp, greet, 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        provider = vendor.provider(
            "m", base_url=f"https://127.0.0.1:{port}", api_key="k", client=client
        )
        with pytest.raises(ModelConnectionError, match="TLS"):
            await provider.generate(HELLO)
        assert client.statistics().busy == client.statistics().idle == 0
        nursery.cancel_scope.cancel()


async def test_a_tls_handshake_that_hangs_is_a_connect_time_out(vendor):
    async with model_server(Answer()) as server, HttpClient() as client:
        server.url = server.url.replace("http:", "https:")
        timeouts = ModelTimeouts(connect=0.05)
        provider = vendor.open(server, client=client, timeouts=timeouts)
        with pytest.raises(ModelConnectTimeoutError, match="no connection"):
            await provider.generate(HELLO)
        assert client.statistics().busy == 0


async def test_a_connection_closed_between_two_requests_goes_unnoticed(vendor):
    kept = [Answer.stream(vendor.reply), Answer((), bare=True, end="cut")]
    answers = [*kept, Answer.stream(vendor.reply, end="closed"), Answer.stream(vendor.reply)]
    async with model_server(lambda _: answers.pop(0)) as server, HttpClient() as client:
        provider = vendor.open(server, client=client)
        for _ in range(3):
            assert (await provider.generate(HELLO)).text == "Hello 😀"
    assert server.connections == 3
    assert len(server.requests) == 4


async def test_a_compressed_stream_is_read(vendor):
    headers = SSE | {"content-encoding": "gzip"}
    async with model_server(Answer((gzip.compress(vendor.reply),), headers=headers)) as server:
        provider = vendor.open(server)
        assert (await provider.generate(HELLO)).text == "Hello 😀"
        await provider.aclose()


@pytest.mark.in_turns("vendor")
@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream", "application/json", ""])
@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf", b"\r\n : waiting\n\n"])
async def test_a_stream_under_a_wrong_content_type_is_one(vendor, kind, before):
    data = before + vendor.reply
    pieces = [data[at : at + 1] for at in range(9)] + [data[9:]]
    async with model_server(
        Answer(tuple(pieces), headers={"content-type": kind} if kind else {})
    ) as server:
        provider = vendor.open(server)
        assert (await provider.generate(HELLO)).text == "Hello 😀"
        await provider.aclose()


# Partial replies


async def test_what_was_used_is_on_the_error_though_no_text_had_come():
    answer = Answer.stream(wire.sse(wire.message_start()))
    async with model_server(answer) as server:
        provider = VENDORS[0].open(server)
        with pytest.raises(ModelStreamError) as caught:
            await provider.generate(HELLO)
        await provider.aclose()
    assert caught.value.partial.usage == Usage(10, 1, 0)
    assert caught.value.partial.content == ()


# Plain answers to a request for a stream


class Whole:
    """A decoder of plain answers, and of nothing else."""

    def __init__(self, provider="acme"):
        self.values = []

    def feed(self, event):
        raise AssertionError(event)

    def close(self):
        raise ModelStreamError("cut")

    def whole(self, value):
        yield BlockStart(0, "text")
        yield BlockDelta(0, "text", value["text"])
        if value.get("ends", True):
            yield StreamEnd(Message.assistant(value["text"]))


def whole(server, client, decoder=Whole):
    provider = VENDORS[1].open(server, client=client)
    provider.decoder = decoder
    return provider


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream", "text/plain", ""])
async def test_a_plain_answer_is_a_reply(kind):
    body = serde.dumps({"text": "  Hello  " * 9}, pretty=True)
    pieces = (b"\r\n \xef\xbb", b"\xbf \n", *(body[at : at + 3] for at in range(0, len(body), 3)))
    answer = Answer(pieces, headers={"content-type": kind} if kind else {})
    async with model_server(answer) as server, HttpClient() as client:
        provider = whole(server, client)
        for _ in range(2):
            assert (await provider.generate(HELLO)).text == "  Hello  " * 9
    assert server.connections == 1


PLAIN = [
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "Hello 😀"}],
        "stop_reason": "end_turn",
    },
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello 😀"},
                "finish_reason": "stop",
            }
        ],
    },
]


@pytest.mark.parametrize(("vendor", "value"), list(zip(VENDORS, PLAIN, strict=True)))
async def test_both_dialects_read_plain_answers(vendor, value):
    async with model_server(Answer.error(200, value)) as server, HttpClient() as client:
        reply = await vendor.open(server, client=client).generate(HELLO)
        assert (reply.text, reply.stop_reason) == ("Hello 😀", StopReason.END_TURN)
        await vendor.open(server, client=client).generate(HELLO)
    assert server.connections == 1


async def test_a_plain_answer_without_its_end_breaks_the_stream():
    answer = Answer((b'{"text": "Hel", "ends": false}',))
    async with model_server(answer) as server, HttpClient() as client:
        with pytest.raises(ModelStreamError, match="cut") as caught:
            await whole(server, client).generate(HELLO)
    assert caught.value.partial.text == "Hel"


async def test_a_plain_answer_to_a_decoder_of_streams_alone_is_an_error():
    class Streams:
        def __init__(self):
            self.feed = self.close = lambda *_: []

    answer = Answer((b'{"text": "Hel"}',), headers={"content-type": "application/json"})
    async with model_server(answer) as server, HttpClient() as client:
        with pytest.raises(ModelBadRequestError, match="application/json"):
            await whole(server, client, Streams).generate(HELLO)


async def test_a_decoder_that_never_ends_does_not_hang_the_reader():
    class Mute:
        def __init__(self):
            self.feed = self.close = lambda *_: []

    async with model_server(Answer.stream(b"data: {}\n\n")) as server, HttpClient() as client:
        with pytest.raises(ModelStreamError, match="before the reply"):
            await whole(server, client, Mute).generate(HELLO)


# Bounds


async def test_a_plain_answer_has_a_limit(monkeypatch):
    monkeypatch.setattr("greenroom.llm.http_stream.EVENT_LIMIT", 1000)
    answer = Answer((b'{"a": "', b"x" * 500), end="endless")
    async with model_server(answer) as server, HttpClient() as client:
        with pytest.raises(ModelStreamError, match="larger than 1000 bytes") as caught:
            await whole(server, client).generate(HELLO)
    assert not caught.value.retryable  # each attempt would read as much again


async def test_a_compressed_reply_is_limited_by_what_it_expands_to(vendor, monkeypatch):
    monkeypatch.setattr("greenroom.llm.http_stream.REPLY_LIMIT", 100_000)
    bomb = gzip.compress(vendor.reply[: border(vendor)] + b": x\n\n" * 400_000)
    answer = Answer((bomb,), headers=SSE | {"content-encoding": "gzip"})
    async with model_server(answer) as server, HttpClient() as client:
        with pytest.raises(ModelStreamError, match="larger than") as caught:
            await vendor.open(server, client=client).generate(HELLO)
        assert client.statistics().busy == 0
    assert caught.value.partial.text == "Hello "
    assert not caught.value.retryable


async def test_no_limit_of_the_request_is_one_that_is_left_out(vendor):
    assert ModelTimeouts().request == 3600.0
    async with model_server(Answer.stream(vendor.reply)) as server:
        for limit in (None, math.inf):
            provider = vendor.open(server, timeouts=replace(ModelTimeouts(), request=limit))
            assert (await provider.generate(HELLO)).text == "Hello 😀"
            await provider.aclose()


async def test_waiting_for_a_connection_is_no_part_of_the_request(vendor):
    go_on = trio.Event()
    async with model_server(Answer.stream(vendor.reply, after=go_on)) as server:
        client = HttpClient(connections=1)
        patient = vendor.open(server, client=client)
        hurried = vendor.open(server, client=client, timeouts=ModelTimeouts(request=5.0))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(patient.generate, HELLO)
            while not server.requests:
                await trio.lowlevel.checkpoint()
            nursery.start_soon(hurried.generate, HELLO)
            await trio.testing.wait_all_tasks_blocked()
            go_on.set()
        await client.aclose()
    assert len(server.requests) == 2
