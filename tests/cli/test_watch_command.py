"""`greenroom watch`: somebody looks on, and changes nothing."""

import json
import os
import tempfile
import time
from contextlib import asynccontextmanager
from functools import partial

import httpx
import pytest
import trio

from greenroom import (
    Agent,
    AgentRuntime,
    AgentSession,
    InMemoryStore,
    PermissionManager,
    PermissionRule,
    SessionNotFoundError,
)
from greenroom.cli import serve_tree
from greenroom.cli.command_options import WatchOptions
from greenroom.cli.diagnostics import live_folder
from greenroom.cli.watch_command import watch_agent
from greenroom.core import Done, Instrument, OutputChunk, SessionError
from greenroom.core._internal import serde
from greenroom.testing import ScriptedProvider, call


@pytest.fixture(autouse=True)
def folder(monkeypatch):
    """A folder whose name is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="gr-", dir="/tmp") as made:
        monkeypatch.setenv("XDG_RUNTIME_DIR", made)
        yield live_folder()


def fetch(page: str) -> str:
    """Fetch a page."""
    return f"the text of \x1b[31m{page}"


class Stage:
    """A runtime that is served, with an agent that waits for its inputs."""

    def __init__(self, runtime, handle, nursery):
        self.runtime, self.handle, self.nursery = runtime, handle, nursery

    async def has_readers(self, count):
        with trio.fail_after(60):
            while self.runtime.tree().agents[0].subscribers != count:
                await trio.testing.wait_all_tasks_blocked(0.01)

    async def watch(self, *, as_json=False):
        """Watch to the end; return the exit code."""
        return await watch_agent(WatchOptions(ids=("s-ann",), json=as_json))


@asynccontextmanager
async def open_stage(*steps, unattended="ask", instruments=(), **named):
    named = {"permissions": PermissionManager(rules=[PermissionRule.allow_all()]), **named}
    agent = Agent(ScriptedProvider(*steps), name="ann", tools=[fetch], **named)
    runtime = AgentRuntime(InMemoryStore(), instruments=instruments)
    async with runtime, trio.open_nursery() as nursery:
        nursery.start_soon(serve_tree, runtime)
        session = AgentSession.new("ann", session_id="s-ann-1")
        handle = runtime.spawn(session, agent, unattended=unattended)
        await trio.testing.wait_all_tasks_blocked()
        yield Stage(runtime, handle, nursery)
        nursery.cancel_scope.cancel()


async def test_a_reader_sees_what_is_said_and_called_until_the_end(capfd):
    ended = []
    async with open_stage([call("fetch", page="a")], "Done \x1b[31mred.") as stage:

        async def watch():
            ended.append(await stage.watch())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            await stage.has_readers(1)
            await stage.handle.ask("Fetch \x1b[31ma.")
            await stage.handle.shutdown()
    assert ended == [0]
    said = capfd.readouterr().out
    assert "> Fetch " in said
    assert "fetch" in said
    assert "the text of" in said
    assert "Done" in said
    assert "\x1b" not in said
    assert "the process of the agent" not in said


async def test_as_json_it_is_each_chunk_a_line_from_the_last_turn_on(capfd):
    async with open_stage("one", "two") as stage:
        await stage.handle.ask("First.")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(stage.watch, as_json=True))
            await stage.has_readers(1)
            chunks = stage.handle.subscribe("turn")
            await stage.handle.ask("Second.")
            await stage.handle.shutdown()
        own = [chunk async for chunk in chunks]
    lines = capfd.readouterr().out.splitlines()
    assert [serde.decode(line.encode(), OutputChunk) for line in lines] == own
    assert json.loads(lines[0])["text"] == "First."


async def test_nobody_waits_for_who_looks_on(capfd):
    """A question is denied as if nobody were there, and whoever leaves leaves no reader."""
    asks = PermissionManager(rules=[PermissionRule.ask_for_tool("fetch")])
    steps = [call("fetch", page="a")], "no"
    async with open_stage(*steps, unattended="deny", permissions=asks) as stage:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(stage.watch)
                await stage.has_readers(1)
                with trio.fail_after(60):
                    await stage.handle.ask("Go.")
                scope.cancel()
        await stage.has_readers(0)
        (result,) = (await stage.handle.history())[2].tool_results
        assert "denied" in result.text
        assert not await stage.handle.pending()
    assert "no one can be asked" in capfd.readouterr().out


async def test_who_does_not_read_holds_up_nothing():
    async with open_stage(*["word " * 2_000] * 6) as stage:
        path = next(live_folder().glob("*.sock"))
        deaf = [await trio.open_unix_socket(str(path)) for _ in range(16)]
        for each in deaf:
            await each.send_all(b"s-ann-1\n")
        await stage.has_readers(16)
        more = await trio.open_unix_socket(str(path))
        await more.send_all(b"s-ann-1\n")
        with trio.fail_after(60):
            assert await more.receive_some() == b""
            for _ in range(6):
                await stage.handle.ask("Go.")
        for each in (*deaf, more):
            await each.aclose()
        await stage.has_readers(0)


class Cut(Instrument):
    """Stops what serves a runtime in the same step in which a turn ends."""

    def on_chunk(self, agent, chunk):
        if isinstance(chunk, Done):
            self.scope.cancel()


async def test_what_was_said_last_arrives_when_the_process_ends():
    cut = Cut()
    async with open_stage("Goodbye.", instruments=[cut]) as stage:
        cut.scope = stage.nursery.cancel_scope
        path = next(live_folder().glob("*.sock"))
        async with await trio.open_unix_socket(str(path)) as stream:
            await stream.send_all(b"s-ann-1\n")
            await stage.has_readers(1)
            with trio.CancelScope(shield=True):
                async with stage.handle.subscribe("none") as chunks:
                    await stage.handle.ask("Go.")
                    said = await chunks.take()
                received = b"".join([piece async for piece in stream])
    lines = [serde.decode(line, OutputChunk) for line in received.splitlines()]
    assert lines == said[: len(lines)]
    assert isinstance(lines[-1], Done)


async def test_the_agent_that_is_meant_must_run_and_be_one():
    async with open_stage() as stage:
        other = AgentSession.new("bob", session_id="s-ann-2")
        stage.runtime.spawn(other, Agent(ScriptedProvider(), name="bob"))
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(SessionError, match="2 running agents begin with s-ann"):
            await stage.watch()
        with pytest.raises(SessionNotFoundError, match="no running agent has the session t"):
            await watch_agent(WatchOptions(ids=("t",)))


async def test_a_page_shows_it_and_does_nothing_else(capfd, monkeypatch):
    """What was said before comes from the store, then each chunk; nothing can be sent."""
    shown, links = trio.open_memory_channel(1)
    monkeypatch.setattr("greenroom.cli.watch_command.tell", shown.send_nowait)
    async with open_stage("one", "two") as stage:
        await stage.handle.ask("First.")
        store = stage.runtime.store
        monkeypatch.setattr(
            "greenroom.cli.watched_agent.open_configured_store", lambda options: store
        )
        await stage.handle.ask("Second.")
        ended = []

        async def watch():
            ended.append(await watch_agent(WatchOptions(ids=("s-ann",), web=True)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            with trio.fail_after(60):
                link = await links.receive()
            address, _, token = link.removeprefix("shown at ").partition("/#token=")
            headers = {"authorization": f"Bearer {token}"}
            async with httpx.AsyncClient(base_url=address, timeout=60, trust_env=False) as client:
                assert (await client.get("/")).status_code == 200
                assert (await client.get("/api/sessions")).status_code == 401
                client.headers = headers
                listed = (await client.get("/api/sessions")).json()["sessions"]
                assert [each["id"] for each in listed] == ["s-ann-1"]
                assert (await client.get("/api/agents")).json() == {"agents": []}
                for path in ("/api/sessions/s-ann-1/input", "/api/sessions"):
                    reply = await client.post(path, json={"content": "x"})
                    assert reply.status_code == 404
                assert (await client.get("/api/stream?session=other")).status_code == 404
                events = await read_events(client, stage)
        assert ended == [0]
    names = [name for name, _ in events]
    assert names[:2] == ["gap", "snapshot"]
    said = [each["content"][0]["text"] for each in events[1][1]["messages"]]
    assert said == ["First.", "one"]
    chunks = [data for name, data in events if not name]
    assert chunks[0]["text"] == "Second."
    assert chunks[-1]["type"] == "exited"
    assert "tree" in names


async def read_events(client, stage):
    """Read the stream until the agent ends, which it does once its tree was told."""
    events, name = [], ""
    async with client.stream("GET", "/api/stream?session=s-ann-1") as reply:
        async for line in reply.aiter_lines():
            key, _, value = line.partition(": ")
            if key == "event":
                name = value
            elif key == "data":
                events.append((name, json.loads(value)))
                if name == "tree":
                    await stage.handle.shutdown()
    return events


def test_an_agent_that_does_not_run_is_an_error_of_usage(run):
    assert run("watch", "s-none").code == 2


def test_a_headless_run_is_watched_from_another_terminal(
    start, run, terminal, project, folder, env
):
    """What is said and called stays, the tree is redrawn below, and Ctrl-C leaves it running."""
    env["XDG_RUNTIME_DIR"] = str(folder.parent)
    fifo = project / "go"
    os.mkfifo(fifo)
    words = ("-p", "run cat go", "--permission-mode", "bypass")
    running = start(*words)
    id_ = find_session(run, XDG_RUNTIME_DIR=str(folder.parent))
    program = terminal("watch", id_, XDG_RUNTIME_DIR=str(folder.parent))
    screen = program.wait_for("> run cat go", f"{id_} · executing tool: Bash")
    assert screen.count(f"{id_} · executing tool: Bash") == 1
    program.type("\x03")
    assert program.wait() == 130
    assert running.poll() is None
    program = terminal("watch", id_, XDG_RUNTIME_DIR=str(folder.parent))
    program.wait_for("executing tool: Bash")
    fifo.write_text("the fifo said so\n")
    assert program.wait() == 0
    assert "the fifo said so" in program.screen
    assert "executing tool" not in program.screen
    assert running.wait(60) == 0


def find_session(run, **variables):
    """Ask `greenroom tree` until an agent runs a tool; return its session."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        trees = run("tree", "--json", **variables).json
        for agent in trees and trees[0]["tree"]["agents"]:
            if agent["tools"]:
                return agent["session_id"]
    raise AssertionError("no agent runs a tool")
