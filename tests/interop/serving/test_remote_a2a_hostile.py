"""Peers of A2A that break off, lie, or send without end."""

import json
import os
import random
import time
import tracemalloc

import pytest
import trio

from greenroom import AgentRuntime, AgentSession, InMemoryStore
from greenroom.core import Done, PermissionRequest
from greenroom.interop import a2a_peer, a2a_wire, remote, remote_a2a
from greenroom.observability import Metrics, Tracer

COUNT = int(os.environ.get("GREENROOM_A2A_REPLIES", "30"))
SEED = int(os.environ.get("GREENROOM_A2A_SEED", "41"))
TOKEN = "a-secret-token"


class Peer:
    """A server that answers with the bytes that it is given, and notes what it is asked.

    Attributes:
        replies: what follows the card: functions of the request's JSON that return pieces; None
            among them breaks the connection off.
        heads: the heads of all requests.
    """

    def __init__(self):
        self.replies, self.heads, self.card = [], [], None
        self.link, self.health = "", reply(b"{}", status="404 Not Found")

    async def serve(self, task_status):
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.link = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        task_status.started(self)
        await trio.serve_listeners(self.handle, listeners)

    async def handle(self, stream):
        try:
            async with stream:
                await self.answer(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async def answer(self, stream):
        data = b""
        while b"\r\n\r\n" not in data:
            if not (part := await stream.receive_some()):
                return
            data += part
        head, _, body = data.partition(b"\r\n\r\n")
        self.heads.append(head.decode())
        length = [each for each in head.lower().splitlines() if each.startswith(b"content-length")]
        size = int(length[0].split(b":")[1]) if length else 0
        while len(body) < size:
            body += await stream.receive_some()
        path = head.split()[1]
        if path == b"/health":
            pieces = self.health
        elif path.endswith(b"agent-card.json"):
            pieces = self.card or reply(json.dumps(card(self.link)).encode())
        else:
            pieces = self.replies.pop(0)(json.loads(body))
        for piece in pieces:
            if piece is None:
                await trio.aclose_forcefully(stream)
                return
            await stream.send_all(piece)


def reply(body, *, status="200 OK", kind="application/json", **headers):
    lines = [f"HTTP/1.1 {status}", f"content-type: {kind}", "connection: close"]
    lines += [f"{key}: {value}" for key, value in headers.items()]
    return ["\r\n".join([*lines, "", ""]).encode(), body]


def card(link, **changes):
    spoken = {"url": f"{link}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    able = {"streaming": True}
    return {"name": "peer", "supportedInterfaces": [spoken], "capabilities": able, **changes}


def task(state, *, id="t", context="c", text=None):
    status = {"state": f"TASK_STATE_{state}"}
    if text is not None:
        message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": text}]}
        status["message"] = message
    return {"task": {"id": id, "contextId": context, "status": status}}


def update(state, *, id="t", context="c", **fields):
    told = task(state, id=id, context=context, **fields)["task"]
    del told["id"]
    return {"statusUpdate": {"taskId": id, **told}}


def stream(*results, end=(), id=None):
    """Return what answers with a stream of these results."""

    def answer(request):
        head = reply(b"", kind="text/event-stream")
        number = request["id"] if id is None else id
        told = [{"jsonrpc": "2.0", "id": number, "result": each} for each in results]
        return [*head, *(b"data: " + json.dumps(each).encode() + b"\n\n" for each in told), *end]

    return answer


def whole(result):
    """Return what answers with a result that is no stream."""
    return lambda request: reply(
        json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode()
    )


async def run(nursery, *replies, **settings):
    """Let an agent speak to a peer once; return the turn's result, the peer, and the agent."""
    peer = await nursery.start(Peer().serve)
    for key, value in settings.items():
        setattr(peer, key, value(peer))
    peer.replies = list(replies)
    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("far"), remote(peer.link, token=TOKEN))
        with trio.fail_after(60):
            return await handle.ask("go"), peer


@pytest.mark.parametrize(
    "replies",
    [
        [stream(task("WORKING"), end=[None])],
        [stream(task("WORKING"))],
        [stream(end=[b"data: {", None])],
        [lambda request: [None]],
    ],
)
async def test_a_connection_that_breaks_is_a_lost_turn_and_the_next_one_works(nursery, replies):
    peer = await nursery.start(Peer().serve)
    peer.replies = [*replies, stream(task("COMPLETED", text="fine"))]
    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("far"), remote(peer.link))
        with trio.fail_after(60):
            result = await handle.ask("go")
            assert (str(result.status), result.kind) == ("failed", "RemoteLostError")
            assert (await handle.ask("again")).text == "fine"


@pytest.mark.parametrize(
    ("words", "replies"),
    [
        ("another task", [stream(task("WORKING"), update("COMPLETED", id="other"))]),
        ("another task", [stream(update("COMPLETED"))]),
        ("another context", [stream(task("WORKING"), update("COMPLETED", context="x"))]),
        ("another request", [stream(task("COMPLETED"), id=99)]),
        ("no kind that we know", [stream({})]),
        ("no stream", [whole(task("COMPLETED"))]),
        ("no sense", [lambda request: reply(b"no JSON")]),
        ("no sense", [stream({"task": {"id": 3}})]),
        ("nested too deeply", [lambda request: reply(
            b'{"jsonrpc":"2.0","id":1,"result":' + b'{"a":' * 700 + b"1" + b"}" * 701)]),
        ("answers 500", [lambda request: reply(b"x", status="500 Oh")]),
        ("redirects", [lambda request: reply(b"", status="307 There", location="http://[::1]/")]),
        ("refuses: no", [lambda request: reply(
            b'{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}')]),
        ("more than 100 artifacts", [stream(task("WORKING"), *(
            {"artifactUpdate": {"taskId": "t", "contextId": "c",
                                "artifact": {"artifactId": str(n), "parts": []}}}
            for n in range(101)))]),
    ],
)  # fmt: skip
async def test_what_makes_no_sense_is_a_typed_error(nursery, words, replies):
    result, _ = await run(nursery, *replies)
    assert result.kind == "RemoteError"
    assert words in result.error, result.error


async def test_an_answer_belongs_to_its_request_whatever_was_asked_meanwhile(nursery):
    server = await nursery.start(Peer().serve)
    given = whole(task("WORKING")["task"])
    server.replies = [stream(task("WORKING"), update("COMPLETED")), given]
    peer = a2a_peer.A2APeer(server.link, TOKEN)
    await peer.find()
    message = a2a_wire.Message("m", "ROLE_USER", (a2a_wire.Part("go"),))
    with trio.fail_after(60):
        async with peer.open_stream(
            "SendStreamingMessage", a2a_wire.SendMessage(message)
        ) as events:
            asked = await peer.call("GetTask", a2a_wire.GetTask("t"), a2a_wire.Task)
            assert asked.id == "t"
            assert await events.take()
    await peer.aclose()


async def test_questions_that_nobody_answers_have_an_end(nursery, monkeypatch):
    monkeypatch.setattr(remote_a2a, "_MOST_DECLINED", 2)
    asks = stream(task("INPUT_REQUIRED", text="Sure?"))
    peer = await nursery.start(Peer().serve)
    peer.replies = [asks, asks, asks, whole(task("CANCELED")["task"])]
    async with AgentRuntime(InMemoryStore()) as runtime:
        far = remote(peer.link)
        handle = runtime.spawn(AgentSession.new("far"), far, unattended="deny")
        with trio.fail_after(60):
            result = await handle.ask("go")
    assert result.kind == "RemoteError"
    assert "again and again" in result.error
    assert peer.replies == []  # the task is cancelled there


def test_an_artifact_in_many_pieces_costs_no_more_than_they_are():
    made = a2a_wire.Artifact("a", (a2a_wire.Part("x"),), "a")
    far = object.__new__(remote_a2a._FarTask)
    far._artifacts = {}
    began = time.process_time()
    for _ in range(80_000):
        far._keep(made, appends=True)
    assert time.process_time() - began < 5  # half a minute, if each were to copy those before
    assert len(far._artifacts["a"].parts) == 80_000


def moved(**changes):
    return lambda peer: reply(json.dumps(card(peer.link, **changes)).encode())


def spoken(url, **changes):
    entry = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0", **changes}
    return moved(supportedInterfaces=[entry])


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("points elsewhere", "http://127.0.0.1:{trap}/rpc"),
        ("points elsewhere", "http://localhost:{trap}"),
        ("points elsewhere", "http://user@127.0.0.1:{own}/rpc"),
        ("points elsewhere", "https://127.0.0.1:{own}/rpc"),
        ("points elsewhere", "//127.0.0.1:{trap}"),
        ("points elsewhere", "http://127.0.0.1:{own}@127.0.0.1:{trap}/"),
        ("points elsewhere", "file:///etc/passwd"),
        ("points elsewhere", "http://[::1"),
    ],
)
async def test_a_card_that_points_elsewhere_is_refused_and_nothing_goes_there(
    nursery, words, shown
):
    trap = await nursery.start(Peer().serve)

    def make(peer):
        ports = {"trap": trap.link.rpartition(":")[2], "own": peer.link.rpartition(":")[2]}
        return spoken(shown.format(**ports))(peer)

    result, peer = await run(nursery, card=make)
    assert result.kind == "RemoteError"
    assert words in result.error
    assert trap.heads == []
    assert len(peer.heads) == 2


@pytest.mark.parametrize(
    ("words", "make"),
    [
        ("does not speak A2A", spoken("x", protocolBinding="GRPC")),
        ("does not speak A2A", spoken("x", protocolVersion="0.3")),
        ("does not speak A2A", moved(supportedInterfaces=[])),
        ("no sense", moved(supportedInterfaces=3)),
        ("no sense", lambda peer: reply(b"<html>")),
        ("more than 1 MB", lambda peer: reply(b'"' + b"a" * (1 << 20) + b'"')),
        ("redirects", lambda peer: reply(b"", status="302 x", location="http://127.0.0.1:1/")),
    ],
)
async def test_a_card_of_no_use_is_a_typed_error(nursery, words, make):
    result, _ = await run(nursery, card=make)
    assert result.kind == "RemoteError"
    assert words in result.error


def endless(piece):
    def answer(request):
        yield from reply(b"", kind="text/event-stream")
        while True:
            yield piece

    return answer


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("event without end", endless(b"data: " + b"a" * (1 << 20))),
        ("more than 4 MB", endless(b": " + b"b" * (1 << 20) + b"\n")),
        ("more than 16 MB", lambda request: reply(b" " * (17 << 20))),
    ],
)
async def test_what_has_no_end_ends_within_bounds(nursery, monkeypatch, words, answer):
    if "4 MB" in words:
        monkeypatch.setattr(a2a_peer, "_LONGEST_STREAM", 4 << 20)  # of 64, for time
    tracemalloc.start()
    try:
        result, _ = await run(nursery, answer)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.kind == "RemoteError"
    assert words in result.error
    assert most < 160 << 20


LEAVES = [None, True, 0, -1, 1e300, "", "t", "c", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED",
          "ROLE_AGENT", [], {}, "é" * 99, "\ud800", 2**70, "http://127.0.0.1:1/"]  # fmt: skip
WORDS = ["task", "message", "statusUpdate", "artifactUpdate", "id", "contextId", "taskId", "status",
         "state", "parts", "text", "raw", "url", "data", "artifact", "artifactId", "messageId",
         "role", "history", "artifacts", "append", "lastChunk", "error", "code"]  # fmt: skip


def change(order, value, depth=0):
    """Change something in a value that makes sense."""
    if depth > 5 or order.random() < 0.15:
        return order.choice(LEAVES)
    if isinstance(value, dict) and value:
        key = order.choice([*value, order.choice(WORDS)])
        return {**value, key: change(order, value.get(key), depth + 1)}
    if isinstance(value, list) and value:
        place = order.randrange(len(value))
        return [*value[:place], change(order, value[place], depth + 1), *value[place + 1 :]]
    return order.choice(LEAVES)


def hostile(order):
    """Return a random answer: of good parts, of which some are changed or cut."""
    told = [task("SUBMITTED"), update("WORKING", text="on it"),
            {"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": {
                "artifactId": "a", "name": "../a", "parts": [{"text": "x"}]}}},
            update("COMPLETED", text="done")]  # fmt: skip
    for _ in range(order.randint(0, 3)):
        place = order.randrange(len(told))
        told[place] = change(order, told[place])
    order.random() < 0.2 and order.shuffle(told)

    def answer(request):
        whole = b"".join(stream(*told)(request))
        if order.random() < 0.3:
            whole = whole[: order.randrange(len(whole))]
        if order.random() < 0.2:
            place = order.randrange(len(whole))
            whole = whole[:place] + order.randbytes(2) + whole[place + 2 :]
        return [whole]

    return answer


async def test_random_replies_end_in_a_result_or_a_typed_error(nursery, caplog):
    order = random.Random(SEED)
    trap = await nursery.start(Peer().serve)
    LEAVES.append(trap.link)
    peer = await nursery.start(Peer().serve)
    kinds = set()
    async with AgentRuntime(InMemoryStore()) as runtime:
        for _ in range(COUNT):
            # A question has nobody who could answer it, so it is denied, and answered by a task.
            peer.replies = [hostile(order), stream(task("COMPLETED", text="x"))]
            handle = runtime.spawn(
                AgentSession.new("far"), remote(peer.link, token=TOKEN), unattended="deny"
            )
            with trio.fail_after(60):
                result = await handle.ask("go")
                await handle.shutdown()
            kinds.add(result.kind)
    LEAVES.pop()
    assert kinds <= {"", "RemoteError", "RemoteLostError"}
    assert trap.heads == []
    assert all(f"Bearer {TOKEN}" in each for each in peer.heads)
    assert [each for each in caplog.records if each.levelname == "ERROR"] == []


async def test_a_question_is_shown_within_bounds(nursery):
    peer = await nursery.start(Peer().serve)
    peer.replies = [stream(task("INPUT_REQUIRED", text="Which?\n" + "a" * 100_000)),
                    stream(task("INPUT_REQUIRED", text="b" * 100_000)),
                    stream(task("COMPLETED", text="fine"))]  # fmt: skip
    asked = []
    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("far"), remote(peer.link))
        async with handle.subscribe("none", answers=True) as reader:
            await handle.send_input("go")
            async for chunk in reader:
                if isinstance(chunk, PermissionRequest):
                    asked.append(chunk)
                    await handle.respond_permission(chunk.request_id, "allow", message="x")
                elif isinstance(chunk, Done):
                    break
    assert [each.action[:7] for each in asked] == ["Which?", "bbbbbbb"]
    assert all(len(each.action) <= 500 and len(each.details) <= 20_000 for each in asked)


async def test_the_far_turn_is_a_part_of_the_trace_here(nursery):
    peer = await nursery.start(Peer().serve)
    peer.replies = [stream(task("COMPLETED", text="fine"))]
    tracer = Tracer(Metrics())
    async with AgentRuntime(InMemoryStore(), instruments=[tracer]) as runtime:
        handle = runtime.spawn(AgentSession.new("far"), remote(peer.link))
        assert (await handle.ask("go")).text == "fine"
    assert "\ntraceparent: 00-" in peer.heads[-1]
    assert "authorization" not in peer.heads[-1].lower()
