"""What an agent elsewhere costs: its handle's calls, beside bare requests to the same server.

The floor is a bare POST of an input, by a client that keeps its connection and does not wait for
the turn. `handle.ask` is the input, the chunks of its turn, and the result.

python benchmarks/remote.py [CALLS]
"""

import statistics
import subprocess
import sys
import time
from functools import partial

import trio

from greenroom import AgentRuntime, AgentSession, InMemoryStore
from greenroom.core import Message, TextDelta
from greenroom.core._internal import serde
from greenroom.interop import WebServer, remote
from greenroom.net import HttpClient

CALLS = 300
MOST = 2.0  # times the floor


async def echo(agent):
    """Answer at once."""
    async for message in agent.inputs():
        async with agent.turn(message):
            await agent.send(TextDelta(message.text))
            agent.session.add_message(Message.assistant(message.text))


async def serve():
    async with AgentRuntime(InMemoryStore()) as runtime, trio.open_nursery() as nursery:
        print(await nursery.start(WebServer(runtime, {"echo": echo}).serve), flush=True)


class Bare:
    """Bare requests to the server, on a connection that is kept."""

    def __init__(self, address, token):
        self.address, self.client = address, HttpClient()
        self.headers = {"authorization": f"Bearer {token}"}

    async def send(self, method, path, body=None):
        content = None if body is None else serde.encode(body)
        url = f"{self.address}{path}"
        async with self.client.stream(method, url, headers=self.headers, content=content) as reply:
            data = await reply.read()
            assert reply.status < 300, data
            return serde.loads(data)

    async def open(self):
        made = await self.send("POST", "/api/sessions", {"agent": "echo"})
        self.path = f"/api/sessions/{made['id']}"

    async def post(self):
        self.sent = await self.send("POST", f"{self.path}/input", {"content": "hello"})

    async def look(self):
        await self.send("GET", f"{self.path}/inputs/{self.sent['input_id']}?wait=30")

    async def read(self):
        await self.send("GET", self.path)


async def clock(times, name, call):
    begin = time.perf_counter()
    await call()
    times.setdefault(name, []).append((time.perf_counter() - begin) * 1000)


async def measure(address, token, calls):
    """Make each call in turn; return the milliseconds that they took, by their names."""
    times, bare = {}, Bare(address, token)
    await bare.open()
    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("far"), remote(address, token=token))
        await handle.ask("hello")
        for _ in range(calls):
            begin = time.perf_counter()
            await clock(times, "POST", bare.post)
            await bare.look()
            times.setdefault("POST and result", []).append((time.perf_counter() - begin) * 1000)
            await clock(times, "GET of a session", bare.read)
            await clock(times, "handle.ask", partial(handle.ask, "hello"))
            await clock(times, "handle.history", handle.history)
    await bare.client.aclose()
    return times


def show(times) -> bool:
    """Print what each call took; return whether none of the handle's took too long."""
    is_good, halves = True, {name: statistics.median(each) for name, each in times.items()}
    for name, half in halves.items():
        last = sorted(times[name])[int(len(times[name]) * 0.95)]
        ratio = half / halves["POST"]
        print(f"{name:<18} p50 {half:7.2f} ms   p95 {last:7.2f} ms   {ratio:5.2f} times a POST")
        is_good = is_good and (ratio <= MOST or not name.startswith("handle"))
    return is_good


def main() -> int:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else CALLS
    command = [sys.executable, __file__, "serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            link = process.stdout.readline().decode().strip()
            address, _, token = link.partition("/#token=")
            times = trio.run(measure, address, token, calls)
        finally:
            process.kill()
    return 0 if show(times) else 1


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        trio.run(serve)
    else:
        sys.exit(main())
