"""Agents elsewhere for tests: a forwarding agent, what it tells, and what stands between."""

import json
import re
from contextlib import asynccontextmanager

import msgspec
import trio

from greenroom import AgentRuntime, AgentSession, InMemoryStore
from greenroom.core import TextDelta
from greenroom.interop import remote

IDS = re.compile(r"\b(?:i|p|s|m|r)-[0-9a-z]{12}\b")
OWN = {"waited", "metadata", "total", "host", "lineage", "cwd", "by", "created_at", "seconds"}


async def keep(reader, chunks):
    async for chunk in reader:
        chunks.append(chunk)


@asynccontextmanager
async def here(target, **options):
    """Run a forwarding agent, with a person who answers; yield its handle and what is told."""
    chunks = []
    async with AgentRuntime(InMemoryStore()) as runtime, trio.open_nursery() as nursery:
        session = options.pop("own", None) or AgentSession.new("far")
        function = remote(target, token="token-of-ann", **options)
        handle = runtime.spawn(session, function)

        async def read(task_status):
            async with handle.subscribe("all", answers=True) as reader:
                task_status.started()
                await keep(reader, chunks)

        await nursery.start(read)
        yield handle, chunks
        nursery.cancel_scope.cancel()


def plain(chunks):
    """Return what each turn says, but for times, ids and who is where, in one order.

    Calls run side by side, so their chunks come in any. A question of an agent below the far one
    is asked here as one of the agent here.
    """

    def clean(value):
        if isinstance(value, dict):
            return {key: clean(each) for key, each in value.items() if key not in OWN}
        if isinstance(value, list | tuple):
            return [clean(each) for each in value]
        return IDS.sub("ID", value) if isinstance(value, str) else value

    turns = [[]]
    for each in map(clean, msgspec.to_builtins(chunks)):
        inner = each.get("chunk", each)
        told = inner if inner["type"].startswith("permission") else each
        if told["type"] == "turn_start":
            turns.append([])
        elif told["type"] != "state_change":
            turns[-1].append(json.dumps(told, sort_keys=True))
    return [sorted(each) for each in turns]


def find_far(service, kind):
    """Return the handle of the far agent of this type."""
    known = map(service.runtime.get, service.runtime.list_active())
    return next(each for each in known if each.agent_type == kind)


class Proxy:
    """Stands between, and cuts connections: after so many bytes, or all at once."""

    def __init__(self, service, order):
        self.service, self.order, self.is_open = service, order, True
        self.cuts = 0

    async def serve(self, task_status):
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        task_status.started(f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}")
        await trio.serve_listeners(self.handle, listeners)

    async def handle(self, client):
        if not self.is_open:
            await trio.aclose_forcefully(client)
            return
        try:
            async with (
                client,
                await self.service.connect() as server,
                trio.open_nursery() as nursery,
            ):
                nursery.start_soon(self.copy, client, server, 1 << 40, nursery)
                most = self.order.randint(200, 4_000)
                await self.copy(server, client, most, nursery)
                self.cuts += 1
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async def copy(self, source, target, most, nursery):
        while most > 0 and (data := await source.receive_some(min(most, 4096))):
            most -= len(data)
            await target.send_all(data)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def standing_between(service, proxy):
    """Run a proxy before a server for the block; yield its address."""
    service.server._guard._hosts.add("127.0.0.1")
    async with trio.open_nursery() as nursery:
        yield await nursery.start(proxy.serve)
        nursery.cancel_scope.cancel()


def told_text(chunks):
    return "".join(each.text for each in chunks if isinstance(each, TextDelta))


class Partition:
    """Stands between, and parts the two sides: by cutting, holding, or dropping what is sent.

    Held bytes go on when it is over; connections whose bytes were dropped end then.
    """

    def __init__(self, service):
        self.service, self.kind, self.begun = service, "", 0
        self._plan = None
        self._over = trio.Event()
        self._scopes = set()
        self._nursery = None

    def plan(self, kind, way, after, seconds):
        """Part them once so many bytes have gone this way, for so long."""
        self._plan = [kind, way, after, seconds]

    def begin(self, kind, seconds=None):
        self.kind, self._over, self.begun = kind, trio.Event(), self.begun + 1
        if kind == "cut":
            self.end_connections()
        if seconds is not None:
            self._nursery.start_soon(self.end_later, seconds)

    async def end_later(self, seconds):
        await trio.sleep(seconds)
        self.end()

    def end(self):
        if self.kind == "drop":
            self.end_connections()
        self.kind = ""
        self._over.set()

    def end_connections(self):
        for scope in self._scopes:
            scope.cancel()

    async def serve(self, task_status):
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        async with trio.open_nursery() as self._nursery:
            task_status.started(f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}")
            await trio.serve_listeners(self.handle, listeners)

    async def handle(self, client):
        try:
            with trio.CancelScope() as scope:
                self._scopes.add(scope)
                if self.kind == "cut":
                    return
                async with await self.service.connect() as server, trio.open_nursery() as nursery:
                    nursery.start_soon(self.copy, client, server, "up", nursery)
                    await self.copy(server, client, "down", nursery)
        except* (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            pass
        finally:
            self._scopes.discard(scope)
            await trio.aclose_forcefully(client)

    async def copy(self, source, target, way, nursery):
        while data := await source.receive_some(4096):
            if self._plan and self._plan[1] == way and not self.kind:
                self._plan[2] -= len(data)
                if self._plan[2] <= 0:
                    kind, _, over, seconds = self._plan
                    self._plan = None
                    await target.send_all(data[:over] if over else data)
                    data = data[over:] if over else b""
                    self.begin(kind, seconds)
            if self.kind == "drop":
                continue
            if self.kind == "hold":
                await self._over.wait()
            await target.send_all(data)
        nursery.cancel_scope.cancel()
