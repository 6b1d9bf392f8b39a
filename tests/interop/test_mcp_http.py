"""Servers of tools over HTTP, in both eras of the protocol."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
import trio

from greenroom.agents import Agent
from greenroom.core import ToolProgress
from greenroom.interop import MCPServer, MCPServers
from greenroom.interop._internal import MCPServerError
from greenroom.interop.mcp import connection as mcp_connection
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.testing import ScriptedProvider, call as model_call
from tests.interop.servers import call

PROGRAM = Path(__file__).with_name("http_server.py")
# The SDK leaves the streams of responses to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator 'http.*:ResourceWarning")
HEADERS = {"Authorization": "Bearer demo"}


class Running:
    """A server over HTTP, in a process of its own."""

    def __init__(self) -> None:
        self.port = 0
        self.start()

    def start(self) -> None:
        """Start it, and anew where it was before."""
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(self.port)], stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with closing(Running()) as running:
        yield running


@pytest.fixture
def port(running: Running) -> int:
    return running.port


def demo(port: int, **options) -> MCPServer:
    return MCPServer.http("demo", f"http://127.0.0.1:{port}/mcp", **{"headers": HEADERS} | options)


@pytest.fixture(params=["auto", "legacy"])
def era(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    made = partial(mcp_connection.Client, mode=request.param)
    monkeypatch.setattr(mcp_connection, "Client", made)
    return request.param


async def test_tools_are_listed_called_and_cancelled(era: str, port: int) -> None:
    async with MCPServers(demo(port)) as servers:
        assert "mcp__demo__echo" in servers.status[0].tools
        assert (await call(servers, "echo", text="hi")).text == "hi"
        started = trio.current_time()
        with trio.move_on_after(0.2):
            await call(servers, "wait")
        assert trio.current_time() - started < 30
        assert (await call(servers, "echo", text="still here")).text == "still here"
        result = await call(servers, "flood", megabytes=20)
        assert result.is_error
        assert (await call(servers, "echo", text="still here")).text == "still here"


async def test_a_text_cut_in_the_middle_of_a_character_arrives(era: str, port: int) -> None:
    async with MCPServers(demo(port)) as servers:
        assert (await call(servers, "echo", text="a <CUT!>")).text == "a \ufffd"


async def test_progress_and_questions_arrive(era: str, port: int) -> None:
    async def decline(_: object) -> bool:
        return False

    rules = PermissionManager([PermissionRule.allow_category("network")])
    llm = ScriptedProvider([model_call("mcp__demo__count"), model_call("mcp__demo__ask")], "done")
    async with MCPServers(demo(port)) as servers:
        agent = Agent(llm, tools=servers, permissions=rules)
        async with agent.stream("go", approve=decline) as run:
            shown = [each.output async for each in run if isinstance(each, ToolProgress)]
    assert shown == ["step 1 (1 of 2)\n", "step 2 (2 of 2)\n"]
    assert [each.text for each in run.result.messages[2].tool_results] == ["counted", "decline"]


async def test_headers_may_be_made_for_each_request(era: str, port: int) -> None:
    seen = []

    async def auth(method, url, headers, body):
        seen.append((method, json.loads(body or b"{}").get("method")))
        return HEADERS

    async with MCPServers(demo(port, headers={}, auth=auth)) as servers:
        assert (await call(servers, "echo", text="hi")).text == "hi"
    assert ("POST", "tools/call") in seen


async def test_a_server_that_refuses_is_an_error(port: int) -> None:
    with pytest.raises(MCPServerError) as caught:
        async with MCPServers(demo(port, headers={"Authorization": "Bearer swordfish"})):
            pass
    assert "swordfish" not in str(caught.value)


async def test_a_server_that_is_not_there_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(MCPServerError, match="can't be reached"):
        async with MCPServers(demo(port)):
            pass


@pytest.mark.parametrize("era", ["legacy"], indirect=True)  # the other has no sessions to lose
async def test_a_server_that_was_started_anew_is_used_again(era: str, running: Running) -> None:
    async with MCPServers(demo(running.port)) as servers:
        await trio.to_thread.run_sync(running.close)
        assert (await call(servers, "echo", text="hi")).is_error
        await trio.to_thread.run_sync(running.start)
        results = [await call(servers, "echo", text="hi") for _ in range(2)]
    assert results[-1].text == "hi"
