"""A server on loopback, with tokens of several people, and agents that do as they are told."""

import hashlib
import os
from contextlib import asynccontextmanager

import httpx
import trio

from greenroom import Agent, AgentRuntime, InMemoryStore
from greenroom.interop import ServerLimits, Tokens, WebServer
from greenroom.interop._internal import Role
from greenroom.testing import ScriptedProvider

PEOPLE = {
    "ann": ("ann", Role.OPERATOR),
    "bob": ("bob", Role.OPERATOR),
    "ann-viewer": ("ann", Role.VIEWER),
    "root": ("root", Role.ADMIN),
    "auditor": ("eve", Role.AUDITOR),
}
"""Whose token is which: its name and role. The token itself is `token-of-` and the key."""


def write_tokens(path, people=PEOPLE):
    """Write a file of tokens, as `greenroom serve token` does."""
    lines = [
        f"{name} {role} {hashlib.sha256(f'token-of-{key}'.encode()).hexdigest()}\n"
        for key, (name, role) in people.items()
    ]
    with open(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as file:
        file.write("# who may come in\n\n" + "".join(lines))
    return path


async def echo(agent):
    """Answer with what was said, letter by letter."""
    from greenroom.core import Message, TextComplete, TextDelta

    async for message in agent.inputs():
        async with agent.turn(message):
            for letter in message.text:
                await agent.send(TextDelta(letter))
            await agent.send(TextComplete(message.text))
            agent.session.add_message(Message.assistant(message.text))


async def asker(agent):
    """Ask for each input whether it may run, and say what was decided."""
    from greenroom.core import Message

    async for message in agent.inputs():
        async with agent.turn(message):
            answer = await agent.request_permission("Deploy", "deploy it", digest="d-1")
            text = f"{answer.decision}: {answer.message} by {answer.by}"
            agent.session.add_message(Message.assistant(text))


def scripted(*replies, **options):
    return Agent(ScriptedProvider(*replies), name="scripted", **options)


class Service:
    """What a test has of a server."""

    def __init__(self, runtime, server):
        self.runtime, self.server, self.link = runtime, server, ""
        self.ended, self._scope = trio.Event(), trio.CancelScope()

    @property
    def host(self):
        return self.link.removeprefix("http://").split(":")[0]

    @property
    def port(self):
        return int(self.link.removeprefix("http://").split(":")[1])

    async def run(self, port, options, *, task_status):
        with self._scope:
            await self.server.serve(port=port, task_status=task_status, **options)
        self.ended.set()

    def cancel(self):
        self._scope.cancel()

    def client(self, who="ann", **options):
        headers = {"authorization": f"Bearer token-of-{who}"} if who else {}
        return httpx.AsyncClient(
            base_url=self.link,
            headers=headers,
            timeout=60,
            trust_env=False,
            verify=False,
            **options,
        )

    async def create(self, agent, text=None, who="ann"):
        """Make a session; return its id."""
        async with self.client(who) as client:
            body = {"agent": agent} if text is None else {"agent": agent, "input": text}
            reply = await client.post("/api/sessions", json=body)
        assert reply.status_code == 201, reply.text
        return reply.json()["id"]

    async def connect(self):
        return await trio.open_tcp_stream(self.host, self.port)


@asynccontextmanager
async def open_service(
    folder, *, store=None, agents=None, tokens=None, port=0, limits=None, **options
):
    """Run a runtime and a server on it for the block."""
    tokens = tokens or Tokens.load(write_tokens(folder / "tokens"))
    agents = agents or {"echo": echo, "asker": asker}
    runtime_options = options.pop("runtime_options", {})
    serving = options.pop("serving", {})
    seconds = options.pop("seconds", 60)  # no test here may hang
    limits = limits or ServerLimits()
    runtime = AgentRuntime(store or InMemoryStore(), **runtime_options)
    with trio.fail_after(seconds):
        async with runtime:
            server = WebServer(runtime, agents, tokens=tokens, limits=limits, **options)
            async with trio.open_nursery() as nursery:
                service = Service(runtime, server)
                service.link = await nursery.start(service.run, port, serving)
                yield service
                service.cancel()
                await service.ended.wait()


async def exchange(service, data, timeout=60):
    """Send bytes on a connection of their own, and return all that comes back until it ends."""
    with trio.fail_after(timeout):
        async with await service.connect() as stream:
            await stream.send_all(data)
            parts = []
            while part := await stream.receive_some():
                parts.append(part)
            return b"".join(parts)


async def until(found, *, timeout=60):
    """Call an async function until it returns something true, and return that."""
    with trio.fail_after(timeout):
        while True:
            if value := await found():
                return value
            await trio.sleep(0.01)


def status_of(reply):
    return int(reply.split(b" ", 2)[1])
