"""What serving costs: how late readers get chunks, with others that have stopped reading.

The floor is a bare stream of the same server: an ASGI application that writes to its client at
once. Each chunk says when it was sent, by the clock that all processes of a machine share.

python benchmarks/serving.py [SECONDS]
"""

import re
import socket
import statistics
import struct
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import trio

from greenroom import AgentRuntime, InMemoryStore
from greenroom.core import TextDelta
from greenroom.interop import ServerLimits, Tokens, WebServer
from greenroom.interop._internal import Role, add_token
from greenroom.interop.serving.listener import serve_app

LIVE = FROZEN = 100
RATE = 50  # chunks a second
PADDING = "x" * 6_000  # so that a reader that stops has full buffers soon
TIMEOUT = 5.0  # of a write
SENT = re.compile(rb"sent=(\d+);")


def stamp() -> str:
    return f"sent={time.monotonic_ns()}; {PADDING}"


async def ticker(agent):
    """Send chunks at a steady rate, as many as an input says."""
    async for message in agent.inputs():
        async with agent.turn(message):
            begin = trio.current_time()
            for number in range(int(message.text)):
                await trio.sleep_until(begin + number / RATE)
                await agent.send(TextDelta(stamp()))


async def bare(scope, receive, send):
    """Send chunks at a steady rate, as many as the query says."""
    head = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    begin = trio.current_time()
    for number in range(int(scope["query_string"])):
        await trio.sleep_until(begin + number / RATE)
        event = {"type": "http.response.body", "body": f"data: {stamp()}\n\n".encode()}
        await send({**event, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def serve(tokens):
    limits = ServerLimits(write_timeout=TIMEOUT, per_token=1_000)
    async with AgentRuntime(InMemoryStore()) as runtime, trio.open_nursery() as nursery:
        server = WebServer(runtime, {"ticker": ticker}, tokens=Tokens.load(tokens), limits=limits)
        start = partial(serve_app, bare, "127.0.0.1", 0, limits=limits, grace=1.0)
        print(await nursery.start(server.serve), await nursery.start(start), flush=True)


class Reader:
    """Reads a stream, and how late each chunk was."""

    def __init__(self, address, path, token):
        self.address, self.path, self.token = address, path, token
        self.delays = []

    async def connect(self):
        host, _, port = self.address.removeprefix("http://").partition(":")
        stream = await trio.open_tcp_stream(host, int(port))
        head = f"GET {self.path} HTTP/1.1\r\nHost: localhost\r\n"
        await stream.send_all(f"{head}Authorization: Bearer {self.token}\r\n\r\n".encode())
        return stream

    async def run(self, count, *, task_status=trio.TASK_STATUS_IGNORED):
        async with await self.connect() as stream:
            rest = await stream.receive_some()
            task_status.started()
            while len(self.delays) < count:
                rest += await stream.receive_some(1 << 18)
                now = time.monotonic_ns()
                end = 0
                for sent in SENT.finditer(rest):
                    self.delays.append(now - int(sent[1]))
                    end = sent.end()
                rest = rest[end:]


class Frozen:
    """A client that asks for a stream, and never reads."""

    def __init__(self, reader):
        self.own = socket.socket()
        self.own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        host, _, port = reader.address.removeprefix("http://").partition(":")
        self.own.connect((host, int(port)))
        head = f"GET {reader.path} HTTP/1.1\r\nHost: localhost\r\n"
        self.own.sendall(f"{head}Authorization: Bearer {reader.token}\r\n\r\n".encode())

    @property
    def silence(self):
        """For how many seconds nothing has come."""
        info = self.own.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        return struct.unpack_from("I", info, 52)[0] / 1000


def resident(process):
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def show(label, delays, more=""):
    ms = sorted(each / 1e6 for each in delays)
    median, last = statistics.median(ms), ms[int(len(ms) * 0.99)]
    print(f"{label:36} median {median:7.2f} ms   p99 {last:7.2f} ms   {more}", flush=True)
    return median, last


async def measure(process, ours, floor, token, seconds):
    headers = {"authorization": f"Bearer {token}"}
    count = int(seconds * RATE)
    async with httpx.AsyncClient(base_url=ours, headers=headers, timeout=30) as client:

        async def count_streams():
            return (await client.get("/health")).json()["streams"]

        async def read_ours(readers, frozen, silent):
            made = (await client.post("/api/sessions", json={"agent": "ticker"})).json()
            path = f"/api/stream?session={made['id']}"
            live = [Reader(ours, path, token) for _ in range(readers)]
            async with trio.open_nursery() as nursery:
                for each in live:
                    await nursery.start(each.run, count)
                asleep = [Frozen(live[0]) for _ in range(frozen)]
                while await count_streams() < readers + frozen:  # noqa: ASYNC110
                    await trio.sleep(0.05)
                body = {"content": str(count)}
                await client.post(f"/api/sessions/{made['id']}/input", json=body)
                while asleep and await count_streams() > readers:
                    silent[:] = [each.silence for each in asleep]
                    await trio.sleep(0.05)
                for each in asleep:
                    each.own.close()
            assert all(len(each.delays) == count for each in live)
            return [delay for each in live for delay in each.delays]

        async def read_bare():
            reader = Reader(floor, f"/?{count}", token)
            await reader.run(count)
            return reader.delays

        one, bare_one = [], []
        for _ in range(5):  # by turns, since the machine is not the same from second to second
            bare_one += await read_bare()
            one += await read_ours(1, 0, [])
        floor_median, _ = show("a bare stream", bare_one)
        median, _ = show("a stream", one)
        print(f"{'':36} {median / floor_median:.2f} times the bare one")
        _, alone = show(f"{LIVE} readers", await read_ours(LIVE, 0, []))
        before, silent = resident(process), []
        _, together = show(
            f"{LIVE} readers, {FROZEN} frozen", await read_ours(LIVE, FROZEN, silent)
        )
        print(f"{'':36} p99 {together - 2 * alone:+.1f} ms against twice that of {LIVE} alone")
        print(f"{'':36} memory {resident(process) - before:+.1f} MB")
        print(f"{'':36} the last frozen one was cut off when it had taken nothing")
        print(f"{'':36} for {max(silent):.2f} s (time-out of a write: {TIMEOUT} s)")
        await keep_apart(client, ours, token)


async def keep_apart(client, ours, token):
    """Read 100 sessions at once; each chunk of a session belongs to it."""
    found = []

    async def read(number):
        made = (await client.post("/api/sessions", json={"agent": "ticker"})).json()["id"]
        reader = Reader(ours, f"/api/stream?session={made}", token)
        async with trio.open_nursery() as nursery:
            await nursery.start(reader.run, number)
            body = {"content": str(number)}
            await client.post(f"/api/sessions/{made}/input", json=body)
        found.append(len(reader.delays) == number)

    async with trio.open_nursery() as nursery:
        for number in range(1, 101):
            nursery.start_soon(read, number)
    print(f"{'100 sessions at once':36} {sum(found)} got as many chunks as were theirs")


def main():
    if sys.argv[1:2] == ["serve"]:
        trio.run(serve, sys.argv[2])
        return
    with TemporaryDirectory() as folder:
        tokens = Path(folder) / "tokens"
        token = add_token(tokens, "ann", Role.OPERATOR)
        command = [sys.executable, __file__, "serve", str(tokens)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            ours, floor = process.stdout.readline().split()
            seconds = float(sys.argv[1]) if sys.argv[1:] else 20.0
            try:
                trio.run(measure, process, ours, floor, token, seconds)
            finally:
                process.terminate()


if __name__ == "__main__":
    main()
