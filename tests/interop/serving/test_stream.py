"""The stream of chunks: whole after any cut, told of what is lost, bounded for whoever reads."""

import os
import random
import socket
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio

from greenroom import AgentSession, InMemoryStore
from greenroom.core import OutputChunk, TextDelta
from greenroom.interop import ServerLimits, Tokens
from greenroom.runtime import RuntimeLimits
from tests.interop.serving.services import PEOPLE, echo, until, write_tokens

COUNT = 100 if os.environ.get("GREENROOM_SERVING") == "long" else 20  # sessions at once


def read_events(data):
    """Return the complete events of a stream, as (id, name, data), without comments."""
    found = []
    for block in data.split(b"\n\n")[:-1]:
        fields = dict(
            line.split(b": ", 1) for line in block.splitlines() if not line.startswith(b":")
        )
        if b"data" in fields:
            found.append(
                (
                    fields.get(b"id", b"").decode(),
                    fields.get(b"event", b"").decode(),
                    fields[b"data"],
                )
            )
    return found


class Reader:
    """Reads the stream of a session, and goes on where it was."""

    def __init__(self, service, id_, who="ann"):
        self.service, self.id_, self.who = service, id_, who
        self.position, self.events, self.news = "", [], []

    @asynccontextmanager
    async def open(self):
        """Open a stream in HTTP/1.0, whose body is the rest of the connection."""
        last = f"Last-Event-ID: {self.position}\r\n" if self.position else ""
        async with await self.service.connect() as stream:
            await stream.send_all(
                f"GET /api/stream?session={self.id_} HTTP/1.0\r\nHost: localhost\r\n{last}"
                f"Authorization: Bearer token-of-{self.who}\r\n\r\n".encode()
            )
            head = b""
            while b"\r\n\r\n" not in head:
                head += await stream.receive_some(1)
            assert head.startswith(b"HTTP/1.1 200 "), head
            yield stream

    async def read(self, *, most=1 << 40, until=lambda event: False):
        """Read so many bytes, or up to an event; what is cut off in the middle does not count."""
        data, size = b"", 0
        async with self.open() as stream:
            while size < most and (part := await stream.receive_some(min(most - size, 1 << 16))):
                size += len(part)
                *blocks, data = (data + part).split(b"\n\n")
                for event in read_events(b"\n\n".join([*blocks, b""])):
                    (self.news if event[1] in ("tree", "sessions") else self.events).append(event)
                    self.position = event[0] or self.position
                    if until(event):
                        return

    @property
    def chunks(self):
        return [data for _, name, data in self.events if not name]

    @property
    def text(self):
        decoded = (msgspec.json.decode(each, type=OutputChunk) for each in self.chunks)
        return "".join(each.text for each in decoded if isinstance(each, TextDelta))


def is_done(event):
    return b'"type":"done"' in event[2]


def is_exit(event):
    return b'"type":"exited"' in event[2]


async def test_after_a_hundred_cuts_at_random_bytes_the_chunks_are_those_of_an_uncut_reader(serve):
    order = random.Random(7)
    text = "".join(order.choice("abcdefgh é\n") for _ in range(700))
    async with serve() as service:
        id_ = await service.create("echo", text)
        cut, uncut, cuts = Reader(service, id_), Reader(service, id_), 0
        while not (cut.events and is_done(cut.events[-1])):
            await cut.read(most=order.randint(1, 1500), until=is_done)
            cuts += 1
        await uncut.read(until=is_done)
        assert cut.events == uncut.events
        assert uncut.text == text
        assert cuts >= 100


async def test_the_position_of_a_snapshot_is_where_the_chunks_go_on(serve):
    async with serve() as service, service.client() as client:
        id_ = await service.create("echo", "one")
        reader = Reader(service, id_)
        await reader.read(until=is_done)
        shown = (await client.get(f"/api/sessions/{id_}")).json()
        assert shown["position"] == reader.position
        await client.post(f"/api/sessions/{id_}/input", json={"content": "two"})
        reader = Reader(service, id_)
        reader.position = shown["position"]
        await reader.read(until=is_done)
        assert reader.text == "two"


def is_snapshot(event):
    return event[1] == "snapshot"


async def say(client, id_, text):
    """Send an input, and wait for the end of its turn."""
    sent = await client.post(f"/api/sessions/{id_}/input", json={"content": text})
    input_id = sent.json()["input_id"]
    await client.get(f"/api/sessions/{id_}/inputs/{input_id}?wait=20")


async def test_what_the_ring_has_forgotten_is_a_gap_and_a_snapshot(serve):
    limits = {"limits": RuntimeLimits(ring_chunks=50)}
    async with serve(runtime_options=limits) as service, service.client() as client:
        id_ = await service.create("echo", "one")
        reader = Reader(service, id_)
        await reader.read(until=is_done)
        seen, before = len(reader.events), int(reader.position.partition(".")[2])
        await say(client, id_, "x" * 300)
        await reader.read(until=is_snapshot)
        gap, snapshot = reader.events[seen:]
        missed, after = msgspec.json.decode(gap[2])["missed"], int(snapshot[0].partition(".")[2])
        assert (gap[1], missed) == ("gap", after - before - 50)
        assert snapshot[2] == (await client.get(f"/api/sessions/{id_}")).content
        await say(client, id_, "three")
        await reader.read(until=is_done)
        assert reader.text == "onethree"


async def test_after_a_restart_of_the_server_there_is_a_gap_without_a_number(serve):
    store = InMemoryStore()
    async with serve(store=store) as service:
        id_ = await service.create("echo", "one")
        reader = Reader(service, id_)
        await reader.read(until=is_done)
        seen = len(reader.events)
    async with serve(store=store) as reader.service, reader.service.client() as client:
        shown, at_snapshot = (await client.get(f"/api/sessions/{id_}")).content, trio.Event()

        def is_end(event):
            if is_snapshot(event):
                at_snapshot.set()
            return is_done(event)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: reader.read(until=is_end))
            await at_snapshot.wait()
            await say(client, id_, "two")
    assert reader.events[seen : seen + 2] == [
        ("", "gap", b'{"missed":null}'),
        ("", "snapshot", shown),
    ]
    assert reader.text == "onetwo"


async def test_a_stream_goes_on_with_the_next_agent_of_its_session(serve):
    async with serve() as service, service.client() as client, trio.open_nursery() as nursery:
        id_ = await service.create("echo")
        reader, exited = Reader(service, id_), trio.Event()

        def is_second(event):
            if is_exit(event):
                exited.set()
            return b'"i2"' in event[2] and is_done(event)

        nursery.start_soon(lambda: reader.read(until=is_second))
        await until(lambda: _has_streams(service))
        await client.post(f"/api/sessions/{id_}/input", json={"content": "one", "id": "i1"})
        await client.get(f"/api/sessions/{id_}/inputs/i1?wait=20")
        await client.post(f"/api/sessions/{id_}/shutdown")
        await exited.wait()
        await client.post(f"/api/sessions/{id_}/input", json={"content": "two", "id": "i2"})
    assert "gap" not in {
        name for _, name, _ in reader.events[:7]
    }  # the first is read from its start
    names = [name for _, name, _ in reader.events]
    gap = names.index("gap")
    assert names[gap : gap + 2] == ["gap", "snapshot"]
    assert is_exit(reader.events[gap - 1])
    assert reader.events[gap][2] == b'{"missed":null}'


async def _has_streams(service):
    return service.server._sessions.streams


async def test_no_chunk_of_a_session_is_in_another_ones_stream(serve):
    limits = ServerLimits(per_token=COUNT)
    async with (
        serve(limits=limits) as service,
        service.client() as client,
        trio.open_nursery() as nursery,
    ):
        readers = [Reader(service, await service.create("echo")) for _ in range(COUNT)]
        for reader in readers:
            nursery.start_soon(lambda reader=reader: reader.read(until=is_done))
        for number, reader in enumerate(readers):
            await client.post(f"/api/sessions/{reader.id_}/input", json={"content": f"{number:03}"})
    assert [reader.text for reader in readers] == [f"{number:03}" for number in range(COUNT)]


async def test_a_frozen_reader_is_gone_in_time_and_a_live_one_misses_nothing(serve):
    go = trio.Event()

    async def flood(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                for _ in range(200):
                    await agent.send(TextDelta("x" * 20_000))
                    await trio.lowlevel.checkpoint()

    limits = ServerLimits(write_timeout=0.5)
    async with serve(agents={"flood": flood}, limits=limits) as service:
        id_ = await service.create("flood")
        async with service.client() as client, trio.open_nursery() as nursery:
            with socket.create_connection((service.host, service.port)) as frozen:
                frozen.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                frozen.sendall(
                    f"GET /api/stream?session={id_} HTTP/1.1\r\nHost: localhost\r\n"
                    "Authorization: Bearer token-of-ann\r\n\r\n".encode()
                )
                await until(lambda: _has_streams(service))
                reader = Reader(service, id_)
                nursery.start_soon(lambda: reader.read(until=is_done))
                await client.post(f"/api/sessions/{id_}/input", json={"content": "go"})
                go.set()

                async def only_one_left():
                    return service.server._sessions.streams == 0

                await until(only_one_left)
        assert reader.text == "x" * 20_000 * 200


async def test_a_shutdown_ends_frozen_streams_within_its_grace(serve):
    async def flood(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                for _ in range(200):
                    await agent.send(TextDelta("x" * 20_000))

    async with serve(agents={"flood": flood}, serving={"grace": 1.0}) as service:
        id_ = await service.create("flood", "go")
        with socket.create_connection((service.host, service.port)) as frozen:
            frozen.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            frozen.sendall(
                f"GET /api/stream?session={id_} HTTP/1.1\r\nHost: localhost\r\n"
                "Authorization: Bearer token-of-ann\r\n\r\n".encode()
            )
            await until(lambda: _has_streams(service))
            await trio.sleep(0.3)
            begun = trio.current_time()
            service.cancel()
            await service.ended.wait()
            assert trio.current_time() - begun < 30


async def test_a_token_that_is_removed_ends_its_streams_within_a_second(serve, tmp_path):
    tokens = Tokens.load(write_tokens(tmp_path / "tokens"))
    async with serve(tokens=tokens) as service, service.client() as client:
        id_ = await service.create("echo")
        others = {key: line for key, line in PEOPLE.items() if key != "ann"}
        async with Reader(service, id_).open() as stream:
            write_tokens(tmp_path / "tokens", others)
            begun = trio.current_time()
            while await stream.receive_some():
                pass
            assert trio.current_time() - begun < 20  # a second, and a busy machine's
        assert (await client.get("/api/agents")).status_code == 401


async def test_streams_are_bounded_for_each_name_and_in_all(serve):
    limits = ServerLimits(streams=3, per_token=2)
    async with serve(limits=limits) as service, service.client() as client:
        id_ = await service.create("echo")
        async with Reader(service, id_).open(), Reader(service, id_).open():
            third = await client.get(f"/api/stream?session={id_}")
            assert (third.status_code, third.json()["kind"]) == (429, "too_many_streams")
        reply = Reader(service, id_)

        async def is_free():
            return service.server._sessions.streams == 0

        await until(is_free)
        async with reply.open():
            pass


@pytest.mark.parametrize(
    "position", ["x", "1", "1.x", "-1.2", "1.2.3", "9" * 41 + ".1", "1.", "١.٢"]
)
async def test_what_is_no_position_is_refused(serve, position):
    async with serve() as service, service.client() as client:
        id_ = await service.create("echo")
        query = {"session": id_, "after": position}
        assert (await client.get("/api/stream", params=query)).status_code == 400


async def test_a_quiet_stream_has_a_heartbeat(serve):
    async with serve(limits=ServerLimits(heartbeat=0.05)) as service:
        for text in (None, "one"):
            id_ = await service.create("echo", text)
            async with Reader(service, id_).open() as stream:
                data = b""
                while data.count(b": still there\n\n") < 3:
                    data += await stream.receive_some()


async def test_a_stream_tells_of_the_tree_and_of_sessions_that_change(serve):
    go = trio.Event()

    async def child(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await go.wait()

    async def parent(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                handle = agent.spawn(AgentSession.new("child"), child)
                await handle.ask("go")

    async with serve(agents={"parent": parent, "echo": echo}) as service:
        id_ = await service.create("parent")
        other, foreign = await service.create("echo"), await service.create("echo", who="bob")
        reader = Reader(service, id_)
        async with service.client() as client, trio.open_nursery() as nursery:
            nursery.start_soon(lambda: reader.read(until=is_done))
            await client.post(f"/api/sessions/{id_}/input", json={"content": "go"})

            async def has_child():
                return any(b'"agent_type":"child"' in data for _, _, data in reader.news)

            async def tells_of_other():
                return any(other.encode() in data for _, _, data in reader.news)

            await until(has_child)
            await say(client, other, "x")
            async with service.client("bob") as bob:
                await say(bob, foreign, "x")
            await until(tells_of_other)
            go.set()
    names = [name for _, name, _ in reader.news]
    assert names[:2] == ["tree", "sessions"]
    assert not any(foreign.encode() in data for _, _, data in reader.news)
    assert not any(position for position, _, _ in reader.news)
    shown = msgspec.json.decode(next(d for _, n, d in reader.news if b"child" in d and n == "tree"))
    assert shown["tree"]["children"][0]["state"]["kind"] in ("idle", "processing")
