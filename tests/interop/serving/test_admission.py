"""Requests that something else than tokens lets in, and what stands behind the same guard."""

import hashlib

import trio

from greenroom import AgentRuntime, InMemoryStore
from greenroom.interop import Tokens, WebServer
from greenroom.interop._internal import Admitted, Caller, RequestRefusedError, Role, json_reply


def admit(request):
    if request.header("x-seal") != "ours":
        raise RequestRefusedError(401, "no seal", kind="seal")
    return Admitted(Caller("ann", Role.ADMIN, ""), hashlib.sha256(b"{}").digest())


async def echo(agent):
    async for _ in agent.inputs():
        pass


async def answer(scope, receive, send):
    await json_reply({"path": scope["path"]}).send(send)


async def ask(app, path, seal="ours", body=b"{}"):
    sent = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(event):
        sent.append(event)

    headers = [(b"host", b"localhost"), (b"x-seal", seal.encode())]
    scope = {"type": "http", "http_version": "1.1", "method": "POST", "path": path}
    await app({**scope, "headers": headers, "query_string": b""}, receive, send)
    return sent[0]["status"]


async def test_a_sealed_request_passes_with_its_own_body_alone():
    async with AgentRuntime(InMemoryStore()) as runtime:
        server = WebServer(
            runtime,
            {"echo": echo},
            tokens=Tokens(),
            admission=admit,
            mounts={"mailbox": answer},
        )
        with trio.fail_after(60):
            assert await ask(server.app, "/api/mailbox/one") == 200
            assert await ask(server.app, "/api/mailbox") == 200
            assert await ask(server.app, "/api/mailboxes") == 404
            assert await ask(server.app, "/mailbox/one") == 404
            assert await ask(server.app, "/api/mailbox/one", seal="theirs") == 401
            assert await ask(server.app, "/api/mailbox/one", body=b"[]") == 401
            assert await ask(server.app, "/api") == 404
