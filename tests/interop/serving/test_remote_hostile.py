"""Servers that lie, flood and dawdle: a turn of an agent elsewhere ends with a typed error.

`GREENROOM_REMOTE_HOSTILE` is how many replies are tried.
"""

import gzip
import json
import os
import random
import resource
from contextlib import asynccontextmanager

import pytest
import trio

from greenroom.core import (
    Done,
    Error,
    Exited,
    PermissionRequest,
    SubAgentOutput,
    TextDelta,
    TurnStart,
    TurnStatus,
)
from greenroom.core._internal import find_error, serde
from greenroom.interop import remote_server, remote_turn
from greenroom.net._internal import Timeouts
from tests.interop.serving.remotes import here

REPLIES = int(os.environ.get("GREENROOM_REMOTE_HOSTILE", "40"))
SEED = int(os.environ.get("GREENROOM_REMOTE_SEED", "41"))
ROUTES = ("health", "agents", "create", "turn", "turn", "turn", "result", "session", "interrupt")
ZEROS = gzip.compress(bytes(64 << 20))
MEMORY = 300 << 20  # bytes that may be added to the most that the process has had
TOGETHER = 12


def head(status=200, size=None, kind="application/json", *more):
    lines = [f"HTTP/1.1 {status} So", f"content-type: {kind}", "connection: close", *more]
    lines += [] if size is None else [f"content-length: {size}"]
    return "\r\n".join([*lines, "", ""]).encode()


def whole(value, status=200):
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return head(status, len(body)) + body


def event(chunk, position="1.1"):
    data = chunk if isinstance(chunk, bytes) else serde.encode(chunk)
    return f"id: {position}\n".encode() + b"data: " + data + b"\n\n"


class Liar:
    """A server of which one reply is a lie."""

    def __init__(self, order, elsewhere):
        self.order, self.elsewhere = order, elsewhere
        self.input_id, self.tokens = "", set()

    def choose(self):
        self.victim = self.order.choice(ROUTES)
        self.lie = self.order.choice(TURN_LIES if self.victim == "turn" else LIES)

    async def handle(self, client):
        try:
            async with client:
                await self.answer(client)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async def answer(self, client):
        data = b""
        while b"\r\n\r\n" not in data:
            if not (more := await client.receive_some()):
                return
            data += more
        top, _, body = data.partition(b"\r\n\r\n")
        lines = top.decode().split("\r\n")
        fields = {k.lower(): v for k, _, v in (each.partition(": ") for each in lines[1:])}
        self.tokens.add(fields.get("authorization"))
        while len(body) < int(fields.get("content-length", 0)):
            body += await client.receive_some()
        route = find_route(*lines[0].split(" ")[:2])
        if route == "turn":
            self.input_id = json.loads(body)["id"]
        if route == self.victim:
            await self.lie(self, client)
        else:
            await self.tell_truth(route, client)

    async def tell_truth(self, route, client):
        replies = {
            "health": {"server": "greenroom", "api": 1},
            "agents": {"agents": [{"name": "a"}]},
            "create": {"id": "s-1"},
            "result": {"status": "completed", "text": "said"},
            "interrupt": {},
            "session": {"messages": [], "children": [], "pending": []},
        }
        if route != "turn":
            await client.send_all(whole(replies[route]))
            return
        await client.send_all(head(kind="text/event-stream") + b"retry: 1000\n\n")
        needs_lie = self.victim in ("session", "interrupt")
        end = b'event: gap\ndata: {"missed": 1}\n\n' if needs_lie else event(self.done)
        await client.send_all(event(TurnStart(self.input_id)) + event(TextDelta("said")) + end)

    @property
    def done(self):
        return Done(self.input_id)


def find_route(method, path):
    path = path.partition("?")[0]
    parts = path.strip("/").split("/")
    if path == "/api/sessions":
        return "create"
    if len(parts) > 3:
        return {"inputs": "result"}.get(parts[3], parts[3])
    return {"/health": "health", "/api/agents": "agents"}.get(path, "session")


def says(value, status=200):
    async def lie(liar, client):
        await client.send_all(whole(value, status))

    return lie


def sends(make):
    async def lie(liar, client):
        await client.send_all(make(liar))

    return lie


async def flood(liar, client):
    await client.send_all(head(200, 1 << 30))
    while True:
        await client.send_all(b" " * 65_536)


async def flood_in_chunks(liar, client):
    await client.send_all(head(200, None, "application/json", "transfer-encoding: chunked"))
    while True:
        await client.send_all(b"10000\r\n" + b"[" * 65_536 + b"\r\n")


async def drip(liar, client):
    await client.send_all(head(200, 1_000))
    while True:
        await client.send_all(b" ")
        await trio.sleep(0.01)


async def hang(liar, client):
    await trio.sleep_forever()


async def close(liar, client):
    return


def redirects(status):
    async def lie(liar, client):
        extra = f"location: {liar.elsewhere}/api/agents"
        await client.send_all(head(status, 2, "application/json", extra) + b"{}")

    return lie


LIES = [
    *(says(each) for each in (b"", b"nonsense", b"[" * 100_000, b"\xff\xfe", b'{"id": "\\ud800"}')),
    *(says(each) for each in ([], 5, None, "x", {}, {"id": 5}, {"id": ""}, {"id": "x" * 100_000})),
    *(says(each) for each in ({"agents": []}, {"agents": [{}]}, {"server": "other", "api": 1})),
    *(says({"status": each}) for each in ("open", "waiting", "failed", "interrupted", "what")),
    *(says({"status": "failed", "error": "x" * 1_000_000, "kind": each}) for each in
      ("AgentCrashError", "ModelError", "KeyboardInterrupt", "BudgetExceededError", "../../x")),
    *(says({"error": "no" * 1_000_000, "hint": 5}, each) for each in (400, 401, 403, 404, 500)),
    *(says({}, each) for each in (204, 206, 304, 429, 503)),
    *(redirects(each) for each in (301, 302, 303, 307, 308)),
    sends(lambda _: b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n{}"),
    sends(lambda _: b"SSH-2.0-OpenSSH\r\n"),
    sends(lambda _: b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 100_000 + b"\r\n"),
    sends(lambda _: head(200, len(ZEROS), "application/json", "content-encoding: gzip") + ZEROS),
    flood, flood_in_chunks, drip, hang, close,
]  # fmt: skip


def streams(*make):
    """Begin a stream as it should be, and then say something else."""

    async def lie(liar, client):
        await client.send_all(head(kind="text/event-stream"))
        await client.send_all(event(TurnStart(liar.input_id)))
        for each in make:
            await client.send_all(each(liar) if callable(each) else each)

    return lie


async def stream_for_ever(liar, client):
    await client.send_all(head(kind="text/event-stream"))
    await client.send_all(event(TurnStart(liar.input_id)))
    while True:
        await client.send_all(event(TextDelta("x" * 1_000)) * 50)


async def stream_one_line(liar, client):
    await client.send_all(head(kind="text/event-stream") + b"data: ")
    while True:
        await client.send_all(b"x" * 65_536)


async def beat_for_ever(liar, client):
    await client.send_all(head(kind="text/event-stream"))
    while True:
        await client.send_all(b": beat\n\n" * 100)
        await trio.sleep(0.01)


def deep(chunk, levels=500):
    for _ in range(levels):
        chunk = SubAgentOutput("s-2", chunk)
    return chunk


TURN_LIES = [
    *LIES,
    stream_for_ever, stream_one_line, beat_for_ever,
    streams(b"data: nonsense\n\n"),
    streams(b'data: {"type": "newer", "x": 1}\n\n', lambda liar: event(liar.done)),
    streams(b'data: {"type": "text_delta", "text": 5}\n\n'),
    streams(b'data: {"type": 5}\n\n'),
    streams(b"event: gap\ndata: []\n\n"),
    streams(b'event: gap\ndata: {"missed": "many"}\n\n'),
    streams(b"event: snapshot\ndata: {\"messages\": 5}\n\n"),
    streams(event(Done("i-other"))),
    streams(lambda liar: event(liar.done) + b"event: result\ndata: {}\n\n"),
    streams(lambda liar: event(liar.done) + b"event: result\ndata: " + b"x" * 100_000 + b"\n\n"),
    streams(b'event: result\ndata: {"status": "completed", "text": "early"}\n\n'),
    streams(event(TextDelta("x"), "9" * 10_000)),
    streams(event(TextDelta("x"), "not a position")),
    streams(event(Exited("crashed", "I died"))),
    streams(event(Error("no", "AgentCrashError")), lambda liar: event(liar.done)),
    streams(lambda liar: event(deep(Done(liar.input_id)))),
    streams(*(event(PermissionRequest(f"p-{n}", "Bash", "run")) for n in range(2_000))),
    streams(event(PermissionRequest("../../x" * 1_000, "Bash", "run"))),
    streams(event(TextDelta("\x1b]0;owned\x07")), lambda liar: event(liar.done)),
]  # fmt: skip


@asynccontextmanager
async def lying(order):
    """Run the liar, and another server to which nothing may go; yield it and its address."""
    visits = []

    async def take(stream):
        visits.append(stream)

    async with trio.open_nursery() as nursery:
        other = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
        nursery.start_soon(trio.serve_listeners, take, [other])
        liar = Liar(order, f"http://127.0.0.1:{other.socket.getsockname()[1]}")
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, liar.handle, listeners)
        yield liar, f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()
    assert visits == []  # nobody was sent to another origin


@pytest.fixture
def hurried(monkeypatch):
    """Bounds of a tenth of a second, in place of those of a minute."""
    short = Timeouts(connect=1, response=0.1, read=0.1, total=0.2)
    monkeypatch.setattr(remote_server, "LOST", 0.1)
    monkeypatch.setattr(remote_server, "_ONE", short)
    monkeypatch.setattr(remote_server, "_STREAM", Timeouts(connect=1, response=0.1, read=0.1))
    monkeypatch.setattr(remote_server, "_PAUSES", (0.01, 0.05))
    monkeypatch.setattr(remote_turn, "_GRACE", 0.05)


async def ask_liar(order, kinds):
    """Have a turn with a server of which one reply is a lie."""
    async with lying(order) as (liar, link), here(link) as (handle, _):
        liar.choose()
        with trio.fail_after(60):
            result = await handle.ask("go", timeout=0.4)
        why = (liar.victim, liar.lie, result)
        if result.status is TurnStatus.FAILED:
            assert find_error(result.kind) is not None, why
            assert len(result.error) <= 2_500, why
            assert "token-of-ann" not in result.error, why
        assert handle.state.kind == "idle", why
        assert liar.tokens <= {"Bearer token-of-ann"}
        kinds.add(result.kind)


async def test_whatever_a_server_answers_the_turn_ends_and_the_agent_lives(hurried):
    order, kinds, limiter = random.Random(SEED), set(), trio.CapacityLimiter(TOGETHER)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    async def try_one(number):
        async with limiter:
            await ask_liar(random.Random(number), kinds)

    async with trio.open_nursery() as nursery:
        for _ in range(REPLIES):
            nursery.start_soon(try_one, order.getrandbits(32))
    assert "RemoteError" in kinds
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * 1024 < MEMORY
