"""The client against real servers on the loopback interface: happy, cut, slow, dead, hostile."""

import gzip
import math
from random import Random

import pytest
import trio

from greenroom.core import ConfigurationError, NetworkError
from greenroom.core._internal import NetworkTimeoutError
from greenroom.net import HttpClient
from greenroom.net._internal import Timeouts

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Kind: plain\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data):
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


@pytest.fixture
async def client():
    async with HttpClient() as client:
        yield client


async def get(client, url, **options):
    with trio.fail_after(60):
        async with client.stream("GET", url, **options) as response:
            return await response.read()


async def test_a_response_has_status_headers_in_any_case_and_a_body(client, serve):
    server = await serve(OK)
    async with client.stream("GET", server.url, headers={"X-Key": "k"}) as response:
        assert response.status == 200
        assert response.headers["x-KIND"] == "plain"
        assert response.url == server.url
        assert repr(response) == "<HttpResponse 200>"
        assert await response.read() == b"hello"
    assert "X-Key: k" in server.requests[0]
    assert "Accept-Encoding: gzip\r\n" in server.requests[0] + "\r\n"


async def test_a_body_is_sent(client, serve):
    server = await serve(OK)
    with trio.fail_after(60):
        async with client.stream("POST", server.url, content=b"{}") as response:
            await response.read()
    assert server.requests[0].startswith("POST / HTTP/1.1")
    assert server.bodies == [b"{}"]


async def test_a_connection_whose_body_was_read_is_used_again(client, serve):
    server = await serve(OK)
    for _ in range(3):
        assert await get(client, server.url) == b"hello"
    assert (server.connections, len(server.requests)) == (1, 3)


async def test_chunks_arrive_before_the_body_ends(client, serve):
    more = trio.Event()

    async def reply(_, stream):
        await stream.send_all(CHUNKED + chunk(b"one"))
        await more.wait()
        await stream.send_all(chunk(b"two") + chunk(b""))

    server = await serve(reply)
    with trio.fail_after(60):
        async with client.stream("GET", server.url) as response:
            chunks = response.chunks()
            assert await anext(chunks) == b"one"
            more.set()
            assert [piece async for piece in chunks] == [b"two"]
            assert [piece async for piece in response.chunks()] == []


async def test_a_half_read_body_leaves_nothing_behind(client, serve):
    server = await serve(CHUNKED + chunk(b"one") + chunk(b"two"))
    with trio.fail_after(60):
        async with client.stream("GET", server.url) as response:
            chunks = response.chunks()
            assert (await anext(chunks)).startswith(b"one")
        with pytest.raises(trio.ClosedResourceError):
            await anext(chunks)
    # A generator left to the garbage collector would warn, and warnings fail the test.


async def test_a_cancelled_read_ends_at_once_and_the_client_goes_on(client, serve):
    async def reply(_, stream):
        await stream.send_all(CHUNKED + chunk(b"one"))
        await trio.sleep_forever()

    server = await serve(reply)
    with trio.CancelScope() as scope:
        async with client.stream("GET", server.url) as response:
            async for _ in response.chunks():
                scope.cancel()
    assert scope.cancelled_caught
    assert await get(client, (await serve(OK)).url) == b"hello"


async def test_a_body_is_read_up_to_the_limit_only(client, serve):
    server = await serve(CHUNKED + chunk(b"x" * 100) * 10)
    async with client.stream("GET", server.url) as response:
        assert await response.read(limit=250) == b"x" * 250


async def test_gzip_is_undone_in_bounded_pieces(client, serve):
    body = gzip.compress(b"\0" * 10_000_000)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
    server = await serve(head.encode() + body)
    async with client.stream("GET", server.url) as response:
        sizes = [len(piece) async for piece in response.chunks()]
    assert sum(sizes) == 10_000_000
    assert max(sizes) <= 65_536


@pytest.mark.parametrize("body", [b"no gzip at all", gzip.compress(b"x" * 1000, mtime=0)[:-12]])
async def test_a_broken_compression_is_a_network_error(client, serve, body):
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
    server = await serve(head.encode() + body)
    with pytest.raises(NetworkError, match="compress"):
        await get(client, server.url)


def gzipped(body):
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@pytest.mark.parametrize("empty", [0, 1, 5_000])
async def test_a_gzip_of_several_members_is_read_to_its_end(client, serve, empty):
    members = [b"first ", *[b""] * empty, b"second" * 50_000, b" third"]
    server = await serve(gzipped(b"".join(map(gzip.compress, members))))
    assert await get(client, server.url) == b"".join(members)


async def test_the_members_of_a_gzip_may_come_byte_by_byte(client, serve):
    body = gzip.compress(b"first ") + gzip.compress(b"second")
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
    pieces = b"".join(chunk(bytes([byte])) for byte in body)
    server = await serve(head + pieces + chunk(b""))
    assert await get(client, server.url) == b"first second"


@pytest.mark.parametrize("garbage", [b"\0", b"\x1f", b"\0" * 100_000, b"<html>"])
async def test_what_is_no_gzip_behind_a_gzip_is_refused(client, serve, garbage):
    server = await serve(gzipped(gzip.compress(b"hi") + garbage))
    with pytest.raises(NetworkError, match="compress"):
        await get(client, server.url)


@pytest.mark.parametrize("head", [b"", b"Content-Encoding: gzip\r\n"])
async def test_others_run_between_the_pieces_of_a_body_however_small(client, serve, head):
    body = gzip.compress(Random(1).randbytes(100_000)) if head else b"x" * 100_000
    begin = b"HTTP/1.1 200 OK\r\n" + head + b"Transfer-Encoding: chunked\r\n\r\n"
    pieces = b"".join(chunk(bytes([byte])) for byte in body)
    server = await serve(begin + pieces + chunk(b""))
    turns = 0

    async def count():
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with client.stream("GET", server.url) as response:
        chunks = response.chunks()
        await anext(chunks)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count)
            await trio.lowlevel.checkpoint()
            before = turns
            async for _ in chunks:
                pass
            nursery.cancel_scope.cancel()
    assert turns - before >= len(body) // 20_000


async def test_what_answers_head_has_no_body_to_be_cut_short(client, serve):
    answer = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 99\r\n\r\n"
    server = await serve(answer)
    for _ in range(2):
        async with client.stream("HEAD", server.url) as response:
            assert await response.read() == b""
    assert server.connections == 1


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "zstd"])
async def test_a_compression_we_did_not_ask_for_is_refused(client, serve, encoding):
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: 1\r\n\r\nx"
    server = await serve(head.encode())
    with pytest.raises(NetworkError, match="did not ask for"):
        await get(client, server.url)


async def test_a_dead_port_says_that_the_connection_was_refused(client, unused_port):
    with pytest.raises(NetworkError, match=r"^127\.0\.0\.1: the connection was refused"):
        await get(client, f"http://127.0.0.1:{unused_port}/")


async def test_an_unknown_name_says_so(client, monkeypatch):
    import socket

    async def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(trio.socket, "getaddrinfo", unknown)
    with pytest.raises(NetworkError, match=r"^nowhere\.invalid: the name is not known"):
        await get(client, "http://nowhere.invalid/")


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"no http\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
        CHUNKED + chunk(b"hello"),
    ],
)
async def test_an_answer_that_breaks_off_is_a_network_error(client, serve, reply):
    async def cut(_, stream):
        await stream.send_all(reply)
        await stream.aclose()

    server = await serve(cut)
    with pytest.raises(NetworkError, match=r"^127\.0\.0\.1: ") as caught:
        await get(client, server.url)
    assert not isinstance(caught.value, NetworkTimeoutError)


async def test_a_reset_connection_is_a_network_error(client, serve):
    import socket
    import struct

    async def reset(_, stream):
        await stream.send_all(CHUNKED + chunk(b"hello"))
        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        stream.socket.close()

    server = await serve(reset)
    with pytest.raises(NetworkError, match=r"^127\.0\.0\.1: "):
        await get(client, server.url)


async def test_no_headers_in_time_is_a_timeout(client, serve):
    async def silent(_, stream):
        await trio.sleep_forever()

    server = await serve(silent)
    timeout = Timeouts(connect=60, response=0.03)  # the answer is waited for once it is connected
    with pytest.raises(NetworkTimeoutError, match=r"no answer within 0\.03 seconds"):
        await get(client, server.url, timeout=timeout)


async def test_a_body_that_stalls_is_a_timeout(client, serve):
    async def stalls(_, stream):
        await stream.send_all(CHUNKED + chunk(b"one"))
        await trio.sleep_forever()

    server = await serve(stalls)
    with pytest.raises(NetworkTimeoutError, match=r"nothing came for 0\.05 seconds"):
        await get(client, server.url, timeout=Timeouts(read=0.05))


async def test_timeouts_may_be_infinite(client, serve):
    server = await serve(OK)
    forever = Timeouts(connect=math.inf, response=math.inf, read=math.inf)
    assert await get(client, server.url, timeout=forever) == b"hello"


@pytest.mark.parametrize("url", ["ftp://host/", "nonsense", "http://", "http://[::1/"])
async def test_what_is_no_web_url_is_refused(client, url):
    with pytest.raises(NetworkError, match="not a URL that can be fetched"):
        await get(client, url)


@pytest.mark.parametrize("value", ["secret\n", "secret\u2026", "secret\x00"])
async def test_a_header_that_can_not_be_sent_is_refused_without_showing_it(client, value):
    with pytest.raises(ConfigurationError, match="x-api-key") as caught:
        await get(client, "http://127.0.0.1:9/", headers={"x-api-key": value})
    assert "secret" not in str(caught.value)


async def test_a_closed_client_opens_again(client, serve):
    server = await serve(OK)
    assert await get(client, server.url) == b"hello"
    await client.aclose()
    assert await get(client, server.url) == b"hello"
    assert server.connections == 2


async def test_a_pinned_address_is_connected_to_while_the_name_stays(client, serve):
    server = await serve(OK)
    url = f"http://example.test:{server.port}/path"
    for _ in range(2):
        assert await get(client, url, address="127.0.0.1") == b"hello"
    assert server.connections == 2
    assert f"Host: example.test:{server.port}" in server.requests[0]


def test_an_ipv6_address_can_be_pinned():
    from greenroom.net.httpx_connection import _pin, httpx

    request = httpx.Request("GET", "https://example.test:8443/path")
    _pin(request, "2606:4700::1111")
    assert str(request.url) == "https://[2606:4700::1111]:8443/path"
    assert request.headers["Host"] == "example.test:8443"
    assert request.extensions["sni_hostname"] == "example.test"
