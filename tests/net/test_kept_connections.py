"""Connections that the server gives up just when a request is sent on them."""

import struct

import pytest
import trio

from greenroom.core import NetworkError
from greenroom.core._internal import NetworkTimeoutError
from greenroom.net import HttpClient
from greenroom.net._internal import Timeouts

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


@pytest.fixture
async def client():
    async with HttpClient() as client:
        yield client


USUAL = Timeouts()


async def post(client, url, timeout=USUAL):
    async with client.stream("POST", url, content=b"body", timeout=timeout) as response:
        return await response.read()


class Fickle:
    """Answers, but for those requests, counted from 1, that it gives up in the way of `end`."""

    def __init__(self, given_up, end=b""):
        self.given_up, self.end = given_up, end
        self.asked = 0

    async def __call__(self, _, stream):
        self.asked += 1
        if self.asked not in self.given_up:
            await stream.send_all(OK)
            return True
        if self.end is None:  # reset
            stream.setsockopt(
                trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
        elif self.end:
            await stream.send_all(self.end)
        await trio.aclose_forcefully(stream)
        return False


@pytest.mark.parametrize("end", [b"", None])
async def test_a_request_on_a_connection_that_was_given_up_is_sent_on_a_new_one(client, serve, end):
    server = await serve(Fickle({2, 4}, end))
    for _ in range(3):
        assert await post(client, server.url) == b"hello"
    assert server.bodies == [b"body"] * 5
    assert server.connections == 3
    assert client.statistics().idle == 1


@pytest.mark.parametrize(
    ("given_up", "end", "asked"),
    [
        ({1}, b"", 1),  # the connection was new, so the server had taken the request
        ({2, 3}, b"", 3),  # once is enough
        ({2}, b"HTTP/1.1 2", 2),  # it had begun to answer
        ({2}, b"nonsense\r\n\r\n", 2),
    ],
)
async def test_what_the_server_may_have_taken_is_not_sent_again(
    client, serve, given_up, end, asked
):
    fickle = Fickle(given_up, end)
    server = await serve(fickle)
    for _ in range(min(given_up) - 1):
        await post(client, server.url)
    with pytest.raises(NetworkError, match="broke off"):
        await post(client, server.url)
    assert fickle.asked == asked
    assert await post(client, server.url) == b"hello"
    assert client.statistics().busy == 0


async def test_what_the_server_thought_about_is_not_sent_again(client, serve, monkeypatch):
    monkeypatch.setattr("greenroom.net.direct_connection.AT_ONCE", -1.0)
    fickle = Fickle({2})
    server = await serve(fickle)
    await post(client, server.url)
    with pytest.raises(NetworkError, match="broke off"):
        await post(client, server.url)
    assert fickle.asked == 2


async def test_a_client_that_is_closed_meanwhile_sends_nothing_again(serve):
    client = HttpClient()
    asked = 0

    async def closes(_, stream):
        nonlocal asked
        asked += 1
        if asked == 2:
            await client.aclose()
            return False
        await stream.send_all(OK)
        return True

    server = await serve(closes)
    await post(client, server.url)
    with pytest.raises(NetworkError):
        await post(client, server.url)
    await server.all_left()
    assert asked == 2


# All of it in time


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe"])
async def test_an_exchange_ends_at_its_limit_in_whatever_phase(client, serve, sent):
    async def stalls(_, stream):
        await stream.send_all(sent)
        await trio.sleep_forever()

    server = await serve(stalls)
    with pytest.raises(NetworkTimeoutError, match="not complete in time") as caught:
        await post(client, server.url, Timeouts(total=0.05))
    assert caught.value.phase == "total"


async def test_pieces_that_keep_coming_do_not_move_the_limit(client, serve):
    async def drips(_, stream):
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while True:
            await stream.send_all(b"x")
            await trio.sleep(0.005)

    server = await serve(drips)
    with pytest.raises(NetworkTimeoutError) as caught:
        await post(client, server.url, Timeouts(read=10, total=0.1))
    assert caught.value.phase == "total"
    await server.all_left()
    assert client.statistics().busy == 0


async def test_each_phase_has_its_name(client, serve):
    async def never(_, stream):
        await trio.sleep_forever()

    server = await serve(never)
    with pytest.raises(NetworkTimeoutError) as caught:
        await post(client, server.url, Timeouts(response=0.02))
    assert caught.value.phase == "response"
    with pytest.raises(NetworkTimeoutError) as caught:
        await post(client, "https://" + server.url.partition("//")[2], Timeouts(connect=0.02))
    assert caught.value.phase == "connect"


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"


@pytest.mark.parametrize(("sent", "has_come"), [(CHUNKED + b"0\r\n\r\n", True), (CHUNKED, False)])
async def test_a_body_tells_whether_all_of_it_has_come(client, serve, sent, has_come):
    async def answer(_, stream):
        await stream.send_all(sent)
        return True

    server = await serve(answer)
    async with client.stream("GET", server.url) as response:
        assert await anext(response.chunks()) == b"hello"
        assert response.chunks().has_come is has_come
    # Nobody has to read on to the end of a body that has come, so that its connection is kept.
    assert client.statistics().idle == has_come
