"""What a request must pass before it reaches a session: over real sockets."""

import os

import pytest
import trio

from greenroom import Agent, AgentRuntime, ConfigurationError, InMemoryStore
from greenroom.interop import ServerLimits, Tokens, WebServer
from tests.interop.serving.services import exchange, status_of

AUTH = b"Authorization: Bearer token-of-ann\r\n"
IS_LONG = os.environ.get("GREENROOM_SERVING") == "long"
QUICK = ServerLimits(body_timeout=0.3, body=1000)


def head(path=b"/api/agents", *, method=b"GET", host=b"Host: localhost\r\n", auth=AUTH, more=b""):
    return (
        method + b" " + path + b" HTTP/1.1\r\n" + host + auth + more + b"Connection: close\r\n\r\n"
    )


HOSTS_AND_ORIGINS = [
    (b"Host: localhost\r\n", 200),
    (b"Host: LOCALHOST:8080\r\n", 200),
    (b"Host: 127.0.0.1:1\r\n", 200),
    (b"Host: [::1]:99\r\n", 200),
    (b"Host: evil.example\r\n", 421),
    (b"Host: localhost.evil.example\r\n", 421),
    (b"Host: localhost:x\r\n", 421),
    (b"Host: localhost@evil\r\n", 421),
    (b"Host: \r\n", 421),
    (b"Host: evil.example\r\nX-Forwarded-Host: localhost\r\n", 421),
    (b"", 400),
    (b"Host: localhost\r\nHost: localhost\r\n", 400),
    (b"Host: localhost\r\nOrigin: http://localhost\r\n", 200),
    (b"Host: localhost:81\r\nOrigin: http://localhost:81\r\n", 200),
    (b"Host: localhost\r\nOrigin: http://localhost:81\r\n", 403),
    (b"Host: localhost\r\nOrigin: https://evil.example\r\n", 403),
    (b"Host: localhost\r\nOrigin: http://localhost/x\r\n", 403),
    (b"Host: localhost\r\nOrigin: file://localhost\r\n", 403),
    (b"Host: localhost\r\nOrigin: null\r\n", 403),
    (b"Host: localhost\r\nOrigin: \r\n", 403),
    (b"Host: localhost\r\nOrigin: http://localhost\r\nOrigin: http://localhost\r\n", 403),
]


async def test_hosts_and_origins(serve):
    async with serve() as service:
        found = [
            status_of(await exchange(service, head(host=each))) for each, _ in HOSTS_AND_ORIGINS
        ]
    assert found == [status for _, status in HOSTS_AND_ORIGINS]


async def test_a_host_and_an_origin_of_ours_are_let_in_and_told_so(serve):
    async with serve(hosts=["desk.example"], origins=["https://app.example"]) as service:
        line = b"Host: desk.example\r\n"
        assert status_of(await exchange(service, head(host=line))) == 200
        assert status_of(await exchange(service, head())) == 421
        other = line + b"Origin: https://app.example\r\n"
        reply = await exchange(service, head(host=other))
        assert status_of(reply) == 200
        assert b"access-control-allow-origin: https://app.example\r\n" in reply
        asked = await exchange(service, head(method=b"OPTIONS", host=other, auth=b""))
        assert status_of(asked) == 204
        assert b"access-control-allow-headers: authorization" in asked
        refused = await exchange(service, head(host=other, auth=b""))
        assert status_of(refused) == 401
        assert b"access-control-allow-origin: https://app.example\r\n" in refused


WRONG = [
    b"",
    b"Authorization: Bearer wrong\r\n",
    b"Authorization: Bearer\r\n",
    b"Authorization: Basic token-of-ann\r\n",
    b"Authorization: token-of-ann\r\n",
    b"Cookie: token=token-of-ann\r\n",
    AUTH + b"Authorization: Bearer wrong\r\n",
]


async def test_without_a_valid_token_no_path_says_anything(serve):
    async with serve() as service:
        own = b"/api/sessions/" + (await service.create("echo")).encode()
        paths = (own, own + b"?token=token-of-ann", b"/api/sessions/none", b"/nothing", b"/metrics")
        replies = [
            await exchange(service, head(path, auth=auth)) for path in paths for auth in WRONG
        ]
    assert {status_of(each) for each in replies} == {401}
    assert len({each.partition(b"\r\n\r\n")[2] for each in replies}) == 1


async def test_health_is_open_and_says_nothing_of_sessions(serve):
    async with serve() as service, service.client(None) as client:
        reply = await client.get("/health")
        assert reply.json() == {
            "server": "greenroom", "api": 1, "version": reply.json()["version"], "status": "ok",
            "streams": 0,
        }  # fmt: skip
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert reply.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in reply.headers["content-security-policy"]
        assert "server" not in reply.headers


async def test_a_body_that_is_too_long_is_refused_by_its_length_and_by_its_parts(serve):
    async with serve(limits=QUICK) as service:
        post = b"/api/sessions"
        length = head(post, method=b"POST", more=b"Content-Length: 67108864\r\n")
        assert status_of(await exchange(service, length)) == 413
        chunked = head(post, method=b"POST", more=b"Transfer-Encoding: chunked\r\n")
        part = b"400\r\n" + b"x" * 1024 + b"\r\n"
        assert status_of(await exchange(service, chunked + part)) == 413


@pytest.mark.parametrize("chunked", [False, True])
async def test_64_mb_are_refused_and_never_held(serve, chunked):
    async with serve() as service:
        more = b"Transfer-Encoding: chunked\r\n" if chunked else b"Content-Length: 67108864\r\n"
        part = b"100000\r\n%b\r\n" % bytes(1 << 20) if chunked else bytes(1 << 20)
        async with await service.connect() as stream, trio.open_nursery() as nursery:

            async def flood():
                try:
                    await stream.send_all(head(b"/api/sessions", method=b"POST", more=more))
                    for _ in range(64):
                        await stream.send_all(part)
                except trio.BrokenResourceError:
                    pass

            nursery.start_soon(flood)
            assert status_of(bytes(await stream.receive_some())) == 413
        async with service.client() as client:
            assert (await client.get("/api/agents")).status_code == 200


async def test_slow_heads_and_bodies_are_closed(serve):
    limits, seconds = (None, 15) if IS_LONG else (QUICK, 30)
    async with serve(limits=limits) as service:
        slow_head = b"GET /api/agents HTTP/1.1\r\nHost: loc"
        slow_body = head(b"/api/sessions", method=b"POST", more=b"Content-Length: 100\r\n") + b"{"
        for data, status in ((slow_head, None), (b"", None), (slow_body, 408)):
            begun = trio.current_time()
            reply = await exchange(service, data, seconds)
            print(f"closed after {trio.current_time() - begun:.1f} s")
            assert (status_of(reply) if reply else None) == status
        long = b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000
        assert status_of(await exchange(service, long)) in (400, 431)


async def test_a_client_that_sends_on_for_ever_is_cut_off(serve):
    async with serve(limits=QUICK) as service, await service.connect() as stream:
        more = b"Transfer-Encoding: chunked\r\n"
        await stream.send_all(head(b"/api/sessions", method=b"POST", more=more))
        part = b"400\r\n" + b"x" * 1024 + b"\r\n"
        with trio.fail_after(60), pytest.raises(trio.BrokenResourceError):
            await send_for_ever(stream, part)


async def send_for_ever(stream, part):
    while True:
        await stream.send_all(part)


@pytest.mark.parametrize(
    "data",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET\r\n\r\n",
        b"\r\n\r\n\r\n\r\n",
        head(more=b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
        b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    ],
)
async def test_other_protocols_reach_nothing_and_end(serve, data):
    async with serve(limits=QUICK) as service:
        reply = await exchange(service, data)
        assert b"echo" not in reply
        async with service.client() as client:
            assert (await client.get("/api/agents")).status_code == 200


async def test_without_tokens_it_serves_this_machine_alone_and_prints_its_token(
    serve, capfd, caplog, tmp_path
):
    own, _ = Tokens.make("unused")
    async with serve(tokens=own) as service:
        server = WebServer(service.runtime, service.server._sessions.agents)
        with pytest.raises(ConfigurationError, match="this machine alone"):
            await server.serve("0.0.0.0")
        async with trio.open_nursery() as nursery:
            link = await nursery.start(server.serve)
            token = link.partition("/#token=")[2]
            assert link in capfd.readouterr().err
            assert token not in caplog.text
            service.link = link.partition("/#")[0]
            async with service.client(None) as client:
                headers = {"authorization": f"Bearer {token}"}
                assert (await client.get("/api/agents", headers=headers)).status_code == 200
            nursery.cancel_scope.cancel()


def test_agents_that_have_no_names_are_refused_with_how_to_name_them():
    agent = Agent("offline:", name="helper")
    with pytest.raises(ConfigurationError, match=r"by their names, not Agent \(write WebServer"):
        WebServer(AgentRuntime(InMemoryStore()), agent)
    with pytest.raises(ConfigurationError, match="needs an agent"):
        WebServer(AgentRuntime(InMemoryStore()), {})
