"""Servers that others have written, and kills of ours at random moments.

`GREENROOM_MCP_EVERYTHING` is the program of npm's @modelcontextprotocol/server-everything, such as
`/tmp/x/node_modules/.bin/mcp-server-everything`, and `GREENROOM_MCP_INSPECTOR` that of
@modelcontextprotocol/inspector; `GREENROOM_MCP_KILLS` is how many kills are tried.
"""

import importlib.util
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from greenroom.core import AgentContext
from greenroom.interop import MCPServer, MCPServers
from tests.interop.servers import call, children, registry
from tests.warm_python import start_warm

INSPECTOR = os.environ.get("GREENROOM_MCP_INSPECTOR", "")
EVERYTHING = os.environ.get("GREENROOM_MCP_EVERYTHING", "")
KILLS = int(os.environ.get("GREENROOM_MCP_KILLS", "1"))
ROOT = Path(__file__).parents[2]


def real(name: str, *args: str, **options: object) -> MCPServer:
    return MCPServer.stdio(name, sys.executable, ["-m", f"mcp_server_{name}", *args], **options)


def needs_server(name: str) -> pytest.MarkDecorator:
    """Skip where a real server is missing; in an async test, the reason of a skip would be lost."""
    is_missing = importlib.util.find_spec(f"mcp_server_{name}") is None
    return pytest.mark.skipif(is_missing, reason=f"needs mcp-server-{name}")


@needs_server("time")
async def test_the_time_server() -> None:
    async with MCPServers(real("time", "--local-timezone", "UTC")) as servers:
        (status,) = servers.status
        assert set(status.tools) == {"mcp__time__get_current_time", "mcp__time__convert_time"}
        now = await call(servers, "get_current_time", server="time", timezone="Asia/Tokyo")
        assert '"timezone": "Asia/Tokyo"' in now.text
        odd = await call(servers, "get_current_time", server="time", timezone="Nowhere/At_All")
        assert odd.is_error
        missing = await call(servers, "get_current_time", server="time")
        assert missing.metadata["error"] == "InvalidInputError"


@needs_server("git")
async def test_the_git_server(tmp_path: Path) -> None:
    await trio.run_process(["git", "init", "-q", str(tmp_path)])
    (tmp_path / "new.txt").write_text("new")
    async with MCPServers(real("git", "--repository", str(tmp_path))) as servers:
        status = await call(servers, "git_status", server="git", repo_path=str(tmp_path))
        assert "new.txt" in status.text
        refused = await call(servers, "git_status", server="git", repo_path="/")
        assert refused.is_error


PAGE = b"<html><body><p>A page of ours, with words.</p></body></html>"


async def serve_page(stream: trio.SocketStream) -> None:
    data = b""
    while b"\r\n\r\n" not in data:
        more = await stream.receive_some()
        if not more:
            return
        data += more
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {len(PAGE)}\r\n"
    await stream.send_all(head.encode() + b"connection: close\r\n\r\n" + PAGE)


@needs_server("fetch")
async def test_the_fetch_server() -> None:
    # It reads pages with node where it finds that, which it would have install something first.
    env = {"PATH": str(Path(sys.executable).parent)}
    server = real("fetch", "--allow-private-ips", "--ignore-robots-txt", env=env)
    async with (
        MCPServers(server) as servers,
        trio.open_nursery() as nursery,
    ):
        serve = partial(trio.serve_tcp, serve_page, 0, host="127.0.0.1")
        (listener,) = await nursery.start(serve)
        url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}/page"
        assert "A page of ours" in (await call(servers, "fetch", server="fetch", url=url)).text
        assert (await call(servers, "fetch", server="fetch", url="ftp://127.0.0.1/")).is_error
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def everything(transport: str) -> AsyncIterator[MCPServer]:
    """Describe npm's server of everything; over HTTP it is started first."""
    if transport == "stdio":
        yield MCPServer.stdio("demo", EVERYTHING, ["stdio"])
        return
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    process = await trio.lowlevel.open_process(
        [EVERYTHING, "streamableHttp"],
        env={**os.environ, "PORT": str(port)},
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        told = b""
        while b"listening" not in told:
            told += await process.stderr.receive_some()
        yield MCPServer.http("demo", f"http://127.0.0.1:{port}/mcp")
    finally:
        process.kill()
        await process.wait()
        await process.stderr.aclose()


@pytest.mark.filterwarnings("ignore:Async generator 'http.*:ResourceWarning")  # of the SDK
@pytest.mark.skipif(not EVERYTHING, reason="needs npm's server-everything; see above")
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_the_server_of_everything(transport: str) -> None:
    async with everything(transport) as server, MCPServers(server) as servers:
        tools = {each.removeprefix("mcp__demo__") for each in servers.status[0].tools}
        assert (await call(servers, "echo", message="hi")).text == "Echo: hi"
        images = "get-tiny-image" if "get-tiny-image" in tools else "getTinyImage"
        assert any(
            type(each).__name__ == "ImageBlock" for each in (await call(servers, images)).content
        )
        long = "trigger-long-running-operation"
        shown: list[str] = []
        context = AgentContext(session_id="s", agent_type="demo").with_tool_use_id("t")
        context.on_progress = lambda _, text: shown.append(text)
        name = f"mcp__demo__{long if long in tools else 'longRunningOperation'}"
        await registry(servers).execute(name, {"duration": 1, "steps": 4}, context)
        assert len(shown) >= 3
        began = trio.current_time()
        with trio.move_on_after(0.3):
            await registry(servers).execute(name, {"duration": 60, "steps": 4}, context)
        assert trio.current_time() - began < 30
        assert (await call(servers, "echo", message="hi")).text == "Echo: hi"
    assert not children()


@asynccontextmanager
async def offered(transport: str, folder: Path, env: dict[str, str]) -> AsyncIterator[list[str]]:
    """Offer our tools; yield what the inspector has to be told."""
    command = [sys.executable, "-m", "greenroom", "mcp", "serve", "--no-agent", "--allow", "Read"]
    if transport == "stdio":
        yield command
        return
    process = await trio.lowlevel.open_process(
        [*command, "--http", "127.0.0.1:0"], env=env, cwd=folder, stderr=subprocess.PIPE
    )
    try:
        told = b""
        assert process.stderr is not None
        while b"Bearer" not in told or told[-1:] != b"\n":
            told += await process.stderr.receive_some()
        url, header = re.search(rb"at (\S+), .*(Authorization: .*)\n", told, re.DOTALL).groups()
        yield [url.decode(), "--transport", "http", "--header", header.decode()]
    finally:
        process.terminate()
        await process.wait()
        await process.stderr.aclose()


@pytest.mark.skipif(not INSPECTOR, reason="needs npm's inspector; see above")
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_the_inspector_lists_and_calls_our_tools(transport: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("some text")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    async with offered(transport, tmp_path, env) as target:

        async def ask(*words: str) -> dict[str, object]:
            done = await trio.run_process(
                [INSPECTOR, "--cli", *target, *words], capture_stdout=True, cwd=tmp_path, env=env
            )
            return json.loads(done.stdout)

        listed = await ask("--method", "tools/list")
        assert {"Read", "Bash"} <= {each["name"] for each in listed["tools"]}
        words = ["--method", "tools/call", "--tool-name", "Read", "--tool-arg", "file_path=a.txt"]
        assert "some text" in (await ask(*words))["content"][0]["text"]


PROGRAM = """
import os, sys, trio
sys.path.insert(0, {root!r})
from greenroom.agents import Agent
from greenroom.interop import MCPServers
from greenroom.permissions import PermissionManager
from greenroom.session import AgentSession, FileStore
from greenroom.testing import ScriptedProvider, call
from tests.interop.servers import children, demo
async def main():
    servers = MCPServers(demo("deaf"), demo(name="well"))
    rules = PermissionManager(mode="bypass")
    async with servers:
        print(*children(), flush=True)
        for number in range(1000):
            llm = ScriptedProvider([call("mcp__demo__echo", text="a"), call("mcp__well__wait")] * 9)
            agent = Agent(llm, tools=servers, permissions=rules)
            session = AgentSession.new("agent", session_id=f"s-{{number}}")
            with trio.move_on_after(0.3):
                await agent.run("go", session=session, store=FileStore({store!r}))
            with open({counts!r}, "a") as file:
                print(len(os.listdir("/proc/self/fd")), file=file)
trio.run(main)
"""


@pytest.mark.parametrize("seed", range(KILLS))
async def test_after_a_kill_at_any_moment_nothing_is_left_and_sessions_load(
    seed: int, tmp_path: Path
) -> None:
    from greenroom.session import AgentSession, FileStore

    chance = random.Random(seed)
    counts, store = tmp_path / "counts", tmp_path / "sessions"
    source = PROGRAM.format(root=str(ROOT), store=str(store), counts=str(counts))
    process = start_warm(["-c", source], ROOT)
    assert process.stdout is not None
    handles = []
    for pid in map(int, process.stdout.readline().split()):
        try:
            handles.append(os.pidfd_open(pid))
        except ProcessLookupError:
            continue  # a helper of the start, which has ended
    await trio.sleep(chance.random())  # the moment is what is tried
    process.send_signal(chance.choice([signal.SIGKILL, signal.SIGINT, signal.SIGTERM]))
    process.wait(60)
    with trio.fail_after(60):
        for handle in handles:
            await trio.lowlevel.wait_readable(handle)  # it has ended
            os.close(handle)
    process.stdout.close()
    kept = FileStore(store)
    for each in await AgentSession.list_all(store=kept):
        await AgentSession.load(each.session_id, store=kept)
    open_files = [*map(int, counts.read_text().split())] if counts.exists() else [0]
    # No interrupt has left a descriptor, though one may be about to be closed.
    assert max(open_files) - min(open_files) <= 1, open_files
