"""`greenroom serve`: the program as a process, its tokens, and its end by a signal."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from contextlib import asynccontextmanager
from functools import partial

import httpx
import pytest
import trio

from greenroom import AgentSession, ConfigurationError, FileStore
from greenroom.cli import main
from greenroom.cli.serve_command import read_limits
from tests.interop.serving.services import until
from tests.warm_python import WarmProcess

BOTS = """
from greenroom.core import Message, TextDelta


async def echo(agent):
    async for message in agent.inputs():
        async with agent.turn(message):
            agent.session.add_message(Message.assistant(message.text))


async def flood(agent):
    async for message in agent.inputs():
        async with agent.turn(message):
            while True:
                await agent.send(TextDelta("x" * 5_000))
"""
SECONDS = 120


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder with agents, and nobody's own files."""
    for name in ("CONFIG", "STATE", "RUNTIME"):
        folder = tmp_path / name.lower()
        folder.mkdir(mode=0o700)
        monkeypatch.setenv(f"XDG_{name}_{'DIR' if name == 'RUNTIME' else 'HOME'}", str(folder))
    work = tmp_path / "work"
    work.mkdir()
    (work / "bots.py").write_text(BOTS)
    monkeypatch.chdir(work)
    return work


@asynccontextmanager
async def serving(home, *words):
    """Start the program; yield it, and a client of what it prints."""
    command = [sys.executable, "-m", "greenroom", "serve", "--json", *words]
    nothing = subprocess.DEVNULL
    streams = {"stdin": nothing, "stdout": subprocess.PIPE, "stderr": nothing}
    with WarmProcess(command, **streams, cwd=home, env=dict(os.environ)) as process:
        try:
            line = await trio.to_thread.run_sync(process.stdout.readline)
            address, _, token = json.loads(line)["link"].partition("/#token=")
            headers = {"authorization": f"Bearer {token}"} if token else {}
            async with httpx.AsyncClient(
                base_url=address, headers=headers, timeout=SECONDS, trust_env=False
            ) as client:
                yield process, client
                process.send_signal(signal.SIGTERM)
                await end(process)
        finally:
            process.kill()


async def end(process):
    """Wait for the end of the program; return its exit code."""
    return await trio.to_thread.run_sync(process.wait, SECONDS)


def write_hooks(home):
    """Hooks that note the begin and the end of each session, and what a first input is told."""
    said = {
        "hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "be brief"}
    }
    note = f"{sys.executable} -c 'import json, sys; print(json.load(sys.stdin)[\"session_id\"])'"
    hooks = {
        "SessionStart": [{"command": f"{note} >> begun; echo '{json.dumps(said)}'", "timeout": 60}],
        "SessionEnd": [{"command": f"{note} >> ended", "timeout": 60}],
    }
    folder = home.parent / "config" / "greenroom"
    folder.mkdir(mode=0o700)
    (folder / "settings.json").write_text(json.dumps({"hooks": hooks}))
    (folder / "commands").mkdir()
    (folder / "commands" / "look.md").write_text(
        "---\nallowed-tools: Bash(touch seen)\n---\nrun touch seen"
    )


@asynccontextmanager
async def collecting(spans):
    """Take what OpenTelemetry exports in the block; yield the address."""

    async def take(stream):
        data = b""
        while b"\r\n\r\n" not in data:
            data += await stream.receive_some()
        head, _, body = data.partition(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        while len(body) < size:
            body += await stream.receive_some()
        spans.append(body)
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, take, 0, host="127.0.0.1"))
        yield f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()


async def test_the_coding_agent_is_served_with_hooks_a_log_and_traces(home, monkeypatch):
    write_hooks(home)
    spans = []
    async with collecting(spans) as address:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        async with serving(home, "--log", "log", "--otel") as (process, client):
            made = []
            for words in ("/look", "hello"):
                body = {"agent": "coder", "input": words}
                made.append((await client.post("/api/sessions", json=body)).json())
            for each in made:
                path = f"/api/sessions/{each['id']}/inputs/{each['input_id']}?wait=20"
                assert (await client.get(path)).json()["status"] == "completed"
            assert (await client.get("/api/cost")).status_code == 200
            spans_here = (await client.get(f"/api/sessions/{made[0]['id']}/trace")).json()["spans"]
            assert "invoke_agent" in spans_here[0]["name"]
            token = client.headers["authorization"].partition(" ")[2]
    assert process.returncode == 0
    assert any(b"invoke_agent" in each for each in spans)
    ids = sorted(each["id"] for each in made)
    assert sorted((home / "begun").read_text().split()) == ids
    assert sorted((home / "ended").read_text().split()) == ids
    store = FileStore(home.parent / "state" / "greenroom" / "sessions")
    for each in made:
        session = await AgentSession.load(each["id"], store=store)
        assert repr(session.history).count("be brief") == 1
    assert session.metadata["title"] == "hello"
    assert (home / "seen").exists()  # which the command allows in its session
    assert "greenroom" in (home / "log").read_text()
    found = [each for each in home.parent.rglob("*") if each.is_file()]
    assert not [each for each in found if token.encode() in each.read_bytes()]


async def test_a_signal_ends_it_in_time_with_fifty_streams_some_of_them_frozen(home):
    words = ("bots:echo", "bots:flood", "--sessions", str(home / "kept"), "--grace", "2")
    async with serving(home, *words) as (process, client):
        token = client.headers["authorization"]
        made = []
        for agent in ("echo", "flood"):
            reply = await client.post("/api/sessions", json={"agent": agent, "input": "go"})
            made.append(reply.json()["id"])
        streams = []
        for number in range(50):
            own = socket.create_connection((client.base_url.host, client.base_url.port))
            streams.append(own)
            session = made[1] if number < 4 else made[0]
            own.sendall(
                f"GET /api/stream?session={session} HTTP/1.1\r\nHost: localhost\r\n"
                f"Authorization: {token}\r\n\r\n".encode()
            )

        async def are_open():
            return (await client.get("/health")).json()["streams"] == 50

        await until(are_open)
        await trio.sleep(0.5)  # the four that nobody reads fill their buffers
        process.send_signal(signal.SIGTERM)
        assert await end(process) == 0
        for own in streams:
            own.close()
    for id_ in made:
        await AgentSession.load(id_, store=FileStore(home / "kept"))


async def test_a_token_of_the_file_is_used_and_a_server_starts_again_at_its_port(home, capfd):
    assert await trio.to_thread.run_sync(main, ["serve", "token", "ann", "operator"]) == 0
    token = capfd.readouterr().out.strip()
    path = home.parent / "config" / "greenroom" / "tokens"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert token not in path.read_text()
    async with serving(home, "bots:echo") as (_, client):
        port = client.base_url.port
        assert (await client.get("/api/agents")).status_code == 401
        client.headers["authorization"] = f"Bearer {token}"
        id_ = (await client.post("/api/sessions", json={"agent": "echo"})).json()["id"]
    words = ("bots:echo", "--port", str(port), "--token-file", str(path), "--a2a")
    async with serving(home, *words) as (_, client):
        client.headers["authorization"] = f"Bearer {token}"
        assert client.base_url.port == port
        listed = (await client.get("/api/sessions")).json()["sessions"]
        assert [each["id"] for each in listed] == [id_]
        card = (await client.get("/.well-known/agent-card.json")).json()
        assert card["supportedInterfaces"][0]["url"].endswith("/a2a")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["token", "ann"], "name and a role"),
        (["token", "ann", "boss"], "viewer, operator"),
        (["token", "rules", "admin"], "no person"),
        (["--permission-mode", "bypass"], "bypass"),
        (["--limit", "streams"], "NAME=N"),
        (["--limit", "streams=0"], "NAME=N"),
        (["--limit", "other=1"], "NAME=N"),
        (["--token-file", "none"], "can't be read"),
        (["nobots:echo"], "can't be imported"),
        (["bots:echo", "--host", "0.0.0.0"], "this machine alone"),
        (["bots:echo", "--host", "192.0.2.1", "--token-file", "tokens"], "can't be read"),
    ],
)
def test_what_makes_no_sense_is_one_line(home, capfd, words, said):
    assert main(["serve", *words]) == 2
    errors = capfd.readouterr().err
    assert said in errors
    assert "Traceback" not in errors


def test_limits_are_given_by_their_names():
    limits = read_limits(("streams=5", "write_timeout=1.5"))
    assert (limits.streams, limits.write_timeout) == (5, 1.5)
    with pytest.raises(ConfigurationError):
        read_limits(("streams=x",))
