"""Waiting for a connection: without a time-out, in turn, and every place is given back."""

import math
import struct
from contextlib import asynccontextmanager, suppress
from functools import partial
from random import Random

import pytest
import trio
import trio.testing
from hypothesis import given, settings, strategies as st

from greenroom.core import ConfigurationError, NetworkError
from greenroom.core._internal import NetworkTimeoutError
from greenroom.net import HttpClient
from greenroom.net._internal import HttpStatistics, Timeouts
from greenroom.net.connection import Route
from greenroom.net.direct_connection import DirectConnection
from greenroom.net.pool import ConnectionPool

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
ROUTE = Route("http", "a.test", None)
PATIENT = Timeouts(response=math.inf, read=math.inf)  # its time to connect is the usual one


async def get(client, url, timeout=PATIENT):
    async with client.stream("GET", url, timeout=timeout) as response:
        return await response.read()


@asynccontextmanager
async def lend(pool):
    connection = await pool.take(ROUTE)
    try:
        yield
    finally:
        await pool.give_back(connection)


class Held:
    """A server that holds its answers until it is released."""

    def __init__(self):
        self.paths = []
        self.streams = []
        self.released = trio.Event()
        self._came = trio.Event()

    async def start(self, serve):
        self.server = await serve(self.reply)
        self.url = self.server.url
        return self

    async def reply(self, head, stream):
        self.paths.append(head.split(" ")[1])
        self.streams.append(stream)
        self._came.set()
        self._came = trio.Event()
        await self.released.wait()
        await stream.send_all(OK)
        return True

    async def have_come(self, number):
        """Wait until this many requests have come."""
        while len(self.paths) < number:
            await self._came.wait()


async def test_a_request_waits_for_a_connection_as_long_as_that_takes(serve, mock_clock):
    held = await Held().start(serve)
    replies = []

    async def ask(client):
        replies.append(await get(client, held.url))

    async with HttpClient() as client, trio.open_nursery() as nursery:
        for _ in range(150):
            nursery.start_soon(ask, client)
        await held.have_come(100)
        assert client.statistics() == HttpStatistics(connections=100, busy=100, idle=0, waiting=50)
        mock_clock.jump(12)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(3_600)
        await trio.testing.wait_all_tasks_blocked()
        held.released.set()
    assert replies == [b"hello"] * 150
    assert held.server.connections == 100


async def test_the_time_to_connect_begins_when_the_connection_is_attempted(
    serve, mock_clock, monkeypatch
):
    held = await Held().start(serve)
    attempted = trio.Event()
    ended = []

    async def connect(*_, **__):
        attempted.set()
        await trio.sleep_forever()

    async def ask(client):
        with pytest.raises(NetworkTimeoutError, match="no connection within 10 seconds"):
            await get(client, "http://a.test/")
        ended.append(trio.current_time())

    async with HttpClient(connections=1) as client, trio.open_nursery() as nursery:
        nursery.start_soon(get, client, held.url)
        await held.have_come(1)
        nursery.start_soon(ask, client)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(3_600)
        monkeypatch.setattr(trio, "open_tcp_stream", connect)
        held.released.set()
        await attempted.wait()
        mock_clock.jump(9)
        await trio.testing.wait_all_tasks_blocked()
        assert not ended
        mock_clock.jump(1)
    assert ended == [3_610]


async def test_a_waiting_request_that_is_given_up_leaves_the_queue_at_once(serve, mock_clock):
    held = await Held().start(serve)

    async def give_up(client):
        with trio.move_on_after(5) as scope:
            await get(client, f"{held.url}impatient")
        assert scope.cancelled_caught

    async with HttpClient(connections=1) as client, trio.open_nursery() as nursery:
        nursery.start_soon(get, client, f"{held.url}first")
        await held.have_come(1)
        nursery.start_soon(give_up, client)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(get, client, f"{held.url}second")
        await trio.testing.wait_all_tasks_blocked()
        assert client.statistics().waiting == 2
        mock_clock.jump(5)
        await trio.testing.wait_all_tasks_blocked()
        assert client.statistics().waiting == 1
        held.released.set()
    assert held.paths == ["/first", "/second"]


async def test_requests_are_served_in_the_order_in_which_they_came(serve):
    server = await serve(OK)
    asked = []

    async def ask(client, number):
        asked.append(f"/{number}")
        await get(client, f"{server.url}{number}")

    async with HttpClient(connections=1) as client, trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(ask, client, number)
    assert [head.split(" ")[1] for head in server.requests] == asked
    assert server.connections == 1


async def test_a_thousand_get_their_place_in_turn():
    pool = ConnectionPool(10)
    asked, lent = [], []

    async def ask(number):
        asked.append(number)
        async with lend(pool):
            lent.append(number)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        for number in range(1_000):
            nursery.start_soon(ask, number)
    assert_in_turn(asked, lent, places=10)
    assert pool.statistics() == HttpStatistics(connections=10, busy=0, idle=0, waiting=0)


def assert_in_turn(asked, lent, places):
    """Who asks later may overtake only among those that have got a place in the same moment."""
    served = set(lent)
    turn = {number: at for at, number in enumerate(n for n in asked if n in served)}
    late = [abs(turn[number] - at) for at, number in enumerate(lent)]
    assert max(late, default=0) < places


ENDS = st.sampled_from(["leave", "fail", "cancel"])
VISITS = st.lists(st.tuples(ENDS, st.integers(0, 12)), max_size=40)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), VISITS)
def test_however_requests_end_all_places_are_free_and_the_rest_are_served_in_turn(places, visits):
    async def main():
        pool = ConnectionPool(places)
        asked, lent = [], []

        async def visit(number, end, passes):
            async with trio.open_nursery() as nursery:
                if end == "cancel":  # before, while or after it waits
                    nursery.start_soon(cancel, nursery.cancel_scope, passes)
                asked.append(number)
                with suppress(ZeroDivisionError):
                    async with lend(pool):
                        lent.append(number)
                        for _ in range(passes):
                            await trio.lowlevel.checkpoint()
                        if end == "fail":
                            raise ZeroDivisionError

        async with trio.open_nursery() as nursery:
            for number, (end, passes) in enumerate(visits):
                nursery.start_soon(visit, number, end, passes)
        assert_in_turn(asked, lent, places)
        assert {n for n, (end, _) in enumerate(visits) if end != "cancel"} <= set(lent)
        assert pool.statistics() == HttpStatistics(places, busy=0, idle=0, waiting=0)

    trio.run(main)


async def cancel(scope, passes):
    for _ in range(passes):
        await trio.lowlevel.checkpoint()
    scope.cancel()


@pytest.mark.parametrize("seed", range(8))
async def test_however_exchanges_end_no_connection_is_lost(serve, unused_port, seed):
    server = await serve(misbehave)
    random = Random(seed)

    async def ask(client, kind, passes, is_cancelled):
        url = f"http://127.0.0.1:{unused_port}/" if kind == "refused" else f"{server.url}{kind}"
        timeout = Timeouts(response=0.01, read=0.01) if kind in ("silent", "stalls") else PATIENT
        async with trio.open_nursery() as nursery:
            if is_cancelled:
                nursery.start_soon(cancel, nursery.cancel_scope, passes)
            with suppress(NetworkError):
                async with client.stream("GET", url, timeout=timeout) as response:
                    if kind == "early":
                        await anext(response.chunks())
                    elif kind != "unread":
                        await response.read()

    async with HttpClient(connections=3) as client:
        async with trio.open_nursery() as nursery:
            for _ in range(40):
                kind, passes = random.choice(KINDS), random.randrange(60)
                is_cancelled = kind == "hang" or random.random() < 0.2
                nursery.start_soon(ask, client, kind, passes, is_cancelled)
        left = client.statistics()
        assert (left.busy, left.waiting) == (0, 0)
        assert left.idle <= 3
        # All three places work, at the same time.
        held = await Held().start(serve)
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(get, client, held.url)
            await held.have_come(3)
            held.released.set()
    with trio.fail_after(60):
        await server.all_left()


KINDS = ("whole", "early", "unread", "cut", "reset", "silent", "stalls", "hang", "refused")


async def misbehave(head, stream):
    """Answer as the path says; return whether another request can follow."""
    kind = head.split(" ")[1].strip("/")
    if kind in ("hang", "silent"):
        await stream.receive_some()  # until the client leaves
    elif kind == "reset":
        linger = struct.pack("ii", 1, 0)
        stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, linger)
    elif kind in ("cut", "stalls"):
        await stream.send_all(OK[:-2])
        if kind == "stalls":
            await stream.receive_some()
    else:
        await stream.send_all(OK)
        return True
    stream.socket.close()
    return False


async def test_a_request_cancelled_as_soon_as_it_is_connected_leaves_no_connection(
    serve, monkeypatch
):
    server = await serve(OK)
    connect = trio.open_tcp_stream

    async def connect_and_cancel(*args, **options):
        stream = await connect(*args, **options)
        scope.cancel()
        return stream

    async with HttpClient(connections=1) as client:
        with monkeypatch.context() as patch:
            patch.setattr(trio, "open_tcp_stream", connect_and_cancel)
            with trio.CancelScope() as scope:
                await get(client, server.url)
        assert scope.cancelled_caught
        with trio.fail_after(60):
            await server.all_left()
            assert await get(client, server.url) == b"hello"


async def test_a_cancelled_tls_handshake_leaves_no_connection(nursery):
    greeted, left = trio.Event(), trio.Event()

    async def silent(stream):
        await stream.receive_some()
        greeted.set()
        assert await stream.receive_some() == b""
        left.set()

    port = await serve_tcp(nursery, silent)
    async with HttpClient() as client, trio.open_nursery() as requests:
        requests.start_soon(get, client, f"https://127.0.0.1:{port}/")
        await greeted.wait()
        requests.cancel_scope.cancel()
    with trio.fail_after(60):
        await left.wait()


async def test_connections_are_kept_however_many_are_busy(serve):
    held = await Held().start(serve)
    async with HttpClient() as client:
        for _ in range(3):
            held.paths.clear()
            held.released = trio.Event()
            async with trio.open_nursery() as nursery:
                for _ in range(40):
                    nursery.start_soon(get, client, held.url)
                await held.have_come(40)
                held.released.set()
            assert client.statistics().idle == 40
    assert held.server.connections == 40


async def test_idle_connections_count_and_the_one_used_longest_ago_goes_first(serve):
    first, second, third = [await serve(OK) for _ in range(3)]
    async with HttpClient(connections=2) as client:
        for server in (first, second, first, third):
            await get(client, server.url)
            assert client.statistics().idle <= 2
        with trio.fail_after(60):
            await second.all_left()
        await get(client, first.url)
    assert (first.connections, second.connections, third.connections) == (1, 1, 1)


async def test_the_connection_that_was_used_last_is_taken_first_so_that_others_can_expire(serve):
    held = await Held().start(serve)
    async with HttpClient() as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(get, client, held.url)
            nursery.start_soon(get, client, held.url)
            await held.have_come(2)
            held.released.set()
        for _ in range(4):
            await get(client, held.url)
    assert len(set(held.streams[2:])) == 1


async def test_a_connection_that_was_idle_too_long_is_closed(serve, monkeypatch):
    server, other = await serve(OK), await serve(OK)
    async with HttpClient() as client:
        await get(client, server.url)
        monkeypatch.setattr("greenroom.net.pool._IDLE_SECONDS", -1.0)
        await get(client, other.url)
        with trio.fail_after(60):
            await server.all_left()
        await get(client, server.url)
    assert server.connections == 2


async def test_a_connection_that_the_server_closed_while_it_was_idle_is_replaced(serve):
    closed = trio.Event()

    async def reply_and_close(_, stream):
        await stream.send_all(OK)
        stream.socket.close()
        closed.set()

    server = await serve(reply_and_close)
    async with HttpClient() as client:
        for _ in range(2):
            assert await get(client, server.url) == b"hello"
            await closed.wait()
    assert server.connections == 2


async def test_a_connection_that_the_server_wants_closed_is_not_kept(serve):
    server = await serve(OK.replace(b"Content", b"Connection: close\r\nContent"))
    async with HttpClient() as client:
        assert await get(client, server.url) == b"hello"
        assert client.statistics().idle == 0


async def test_closing_the_client_breaks_what_runs_and_what_waits_goes_on(serve):
    held = await Held().start(serve)
    ends = []

    async def ask(client, name):
        try:
            ends.append((name, await get(client, f"{held.url}{name}")))
        except NetworkError:
            ends.append((name, "broken"))

    async with HttpClient(connections=1) as client, trio.open_nursery() as nursery:
        nursery.start_soon(ask, client, "first")
        await held.have_come(1)
        nursery.start_soon(ask, client, "second")
        await trio.testing.wait_all_tasks_blocked()
        await client.aclose()
        await held.have_come(2)
        held.released.set()
    assert ends == [("first", "broken"), ("second", b"hello")]
    assert held.paths == ["/first", "/second"]


async def test_a_connection_made_while_the_client_closes_is_not_kept(serve, monkeypatch):
    server = await serve(OK)
    connect = trio.open_tcp_stream

    async def connect_late(*args, **options):
        await client.aclose()
        return await connect(*args, **options)

    monkeypatch.setattr(trio, "open_tcp_stream", connect_late)
    client = HttpClient()
    with pytest.raises(NetworkError, match="the client was closed"):
        await get(client, server.url)
    assert client.statistics().idle == 0
    with trio.fail_after(60):
        await server.all_left()


async def test_closing_the_client_breaks_a_request_that_makes_room_for_itself(serve, monkeypatch):
    first, second = await serve(OK), await serve(OK)
    close = DirectConnection.aclose

    async def close_all(connection):
        monkeypatch.setattr(DirectConnection, "aclose", close)
        await close(connection)
        await client.aclose()

    async with HttpClient(connections=1) as client:
        await get(client, first.url)
        monkeypatch.setattr(DirectConnection, "aclose", close_all)
        with pytest.raises(NetworkError, match="the client was closed"):
            await get(client, second.url)
        assert await get(client, second.url) == b"hello"


async def test_closing_the_client_ends_a_tls_handshake(nursery):
    greeted = trio.Event()

    async def silent(stream):
        await stream.receive_some()
        greeted.set()
        await stream.receive_some()

    port = await serve_tcp(nursery, silent)

    async def ask(client):
        with pytest.raises(NetworkError, match="the client was closed"):
            await get(client, f"https://127.0.0.1:{port}/")

    async with HttpClient() as client, trio.open_nursery() as requests:
        requests.start_soon(ask, client)
        await greeted.wait()
        await client.aclose()
    assert client.statistics().idle == 0


async def serve_tcp(nursery, handle):
    listeners = await nursery.start(partial(trio.serve_tcp, handle, 0, host="127.0.0.1"))
    return listeners[0].socket.getsockname()[1]


async def test_a_client_serves_one_run_after_the_other_and_closes_what_the_first_left_idle(serve):
    server = await serve(OK)
    client = HttpClient()  # outside of the runs that use it

    async def in_threads():
        for _ in range(2):
            body = await trio.to_thread.run_sync(trio.run, get, client, server.url)
            assert body == b"hello"

    with trio.fail_after(60):
        await in_threads()
    assert server.connections == 2
    assert client.statistics().idle == 1
    await client.aclose()


async def test_what_a_run_that_is_over_has_never_given_back_is_closed(serve):
    server = await serve(OK)
    client = HttpClient(connections=1)

    async def keep():
        await client.stream("GET", server.url).__aenter__()

    with trio.fail_after(60):
        await trio.to_thread.run_sync(trio.run, keep)
        assert client.statistics().busy == 1
        assert await trio.to_thread.run_sync(trio.run, get, client, server.url) == b"hello"
    assert server.connections == 2
    assert client.statistics() == HttpStatistics(1, busy=0, idle=1, waiting=0)
    await client.aclose()
    await server.all_left()


async def test_a_client_that_is_busy_in_another_run_says_so(serve):
    server = await serve(OK)
    async with HttpClient() as client, client.stream("GET", server.url) as response:
        with pytest.raises(ConfigurationError, match=r"in use in another run .*for each run"):
            await trio.to_thread.run_sync(trio.run, get, client, server.url)
        assert await response.read() == b"hello"


@pytest.mark.parametrize("connections", [0, -1, 2.5, math.inf, "5", None])
def test_a_limit_that_is_none_is_refused(connections):
    with pytest.raises(ConfigurationError, match="connections must be a whole number of at least"):
        HttpClient(connections=connections)
