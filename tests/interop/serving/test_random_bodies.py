"""Bodies that make no sense are refused: the server neither fails nor logs anything."""

import json
import os
import random

from greenroom.interop.serving.route_table import ROUTES
from tests.interop.serving.test_matrix import address

COUNT = int(os.environ.get("GREENROOM_BODIES", "150"))
SEED = int(os.environ.get("GREENROOM_BODIES_SEED", "40"))
WORDS = [
    "agent", "input", "content", "id", "metadata", "sender", "mode", "grace", "decision",
    "digest", "remember", "message", "prefix", "value", "at", "is_error", "type", "text",
    "threadId", "runId", "messages", "role", "tools", "resume", "interruptId", "status", "payload",
    "toolCallId", "name", "description", "parameters",
]  # fmt: skip
LEAVES = [
    None, True, 0, -1, 1e400, 10**400, 0.5, "", "echo", "\ud800", "\0", "a" * 5000, "now", "allow",
    "session", "always", "text", [], {}, "é" * 100, "../../x", 2**63, -(2**70), float("nan"),
]  # fmt: skip


def value(order, depth=0):
    if depth > 3 or order.random() < 0.5:
        return order.choice(LEAVES)
    if order.random() < 0.3:
        return [value(order, depth + 1) for _ in range(order.randint(0, 3))]
    keys = order.choices([*WORDS, "owner", "", "\ud800"], k=order.randint(0, 4))
    return {key: value(order, depth + 1) for key in keys}


def body(order):
    """Return a body, and whether it is a JSON object that a route might take."""
    kind = order.randrange(6)
    if kind == 0:
        return order.randbytes(order.randint(1, 200))
    if kind == 1:
        return order.choice(
            [b"[" * 100_000, b'{"a":' * 50_000, b"{" * 10, b'"', b"\xff\xfe{}", b"[]"]
        )
    if kind == 2:  # a run of AG-UI, but for what it holds
        names = ("messages", "tools", "resume")
        return json.dumps(
            {"threadId": "t", "runId": "r", **{key: [value(order)] for key in names}}
        ).encode()
    text = json.dumps(value(order)).encode()
    if kind == 3 and len(text) > 1:
        cut = order.randrange(len(text))
        return text[:cut] + order.randbytes(1) + text[cut + 1 :]
    return text


def is_object(data):
    try:
        return isinstance(json.loads(data), dict)
    except (ValueError, RecursionError):
        return False


async def test_random_bodies_are_refused_and_nothing_fails(serve, caplog):
    order = random.Random(SEED)
    posts = [route for route in ROUTES if route.method == "POST" and "shutdown" not in route.path]
    async with serve(seconds=600, ag_ui=True) as service, service.client() as client:
        session = await service.create("echo")
        for _ in range(COUNT):
            route, data = order.choice(posts), body(order)
            reply = await client.post(address(route, session), content=data)
            assert reply.status_code < 500, (route.path, data)
            if reply.status_code < 400:
                assert is_object(data), (route.path, data)
            else:
                assert set(reply.json()) == {"error", "kind", "hint"}
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []
