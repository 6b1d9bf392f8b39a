"""Our tools as a server: listed, called, asked about, cancelled, on every transport."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest
import trio

from greenroom.agents import Agent
from greenroom.agents._internal import Toolbox
from greenroom.core import (
    AgentContext,
    Answer,
    PermissionRequest,
    RuleDecision,
    ToolProgress,
    ToolResult,
    UnknownBlock,
)
from greenroom.core._internal import PermissionEffects
from greenroom.interop import MCPServer, MCPServers
from greenroom.interop.line_reader import LineReader
from greenroom.interop.mcp import connection as mcp_connection
from greenroom.interop.mcp.form import Form
from greenroom.interop.mcp.served import ServedTools
from greenroom.interop.mcp.stdio import _claim
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.runtime import AgentRuntime
from greenroom.runtime._internal import calling_internals
from greenroom.session import InMemoryStore
from greenroom.testing import ScriptedProvider, call as model_call
from greenroom.tools import builtin_tools, tool
from tests.interop.servers import call

COLOUR = {
    "type": "object",
    "title": "colour",
    "properties": {"colour": {"type": "string"}},
    "required": ["colour"],
}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def ask(context: AgentContext) -> str:
    """Ask the person for a colour."""
    agent = calling_internals()
    assert agent is not None
    answer = await agent.request_permission("ask", "Which colour?", fields=COLOUR)
    return f"{answer.allowed} {dict(answer.input or {})}"


async def count(context: AgentContext) -> str:
    """Tell progress."""
    context.progress("one\n")
    context.progress("two\n")
    return "counted"


class Waiting:
    """A tool that waits until it is cancelled, and says so."""

    def __init__(self) -> None:
        self.began, self.ended = trio.Event(), trio.Event()

    async def wait(self) -> str:
        """Wait."""
        self.began.set()
        try:
            await trio.sleep_forever()
        finally:
            self.ended.set()
        return "never"


@pytest.fixture(params=["auto", "legacy"])
def era(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    made = partial(mcp_connection.Client, mode=request.param)
    monkeypatch.setattr(mcp_connection, "Client", made)
    return request.param


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., object]:
    """Return what serves tools to a client of ours, in this process, and connects to them."""

    @asynccontextmanager
    async def serve(*tools: object, permissions=None) -> AsyncIterator[MCPServers]:
        @asynccontextmanager
        async def connect(*_: object) -> AsyncIterator[object]:
            there, read = anyio.create_memory_object_stream(0)
            write, here = anyio.create_memory_object_stream(0)
            async with there, read, write, here, trio.open_nursery() as nursery:
                nursery.start_soon(served.serve, (here, there))
                yield read, write
                nursery.cancel_scope.cancel()

        monkeypatch.setattr(mcp_connection, "open_stdio", connect)
        async with (
            AgentRuntime(InMemoryStore(), workspace=tmp_path) as runtime,
            trio.open_nursery() as nursery,
        ):
            served = ServedTools(runtime, Toolbox.of(tools), permissions, nursery)
            async with MCPServers(MCPServer.stdio("demo", "in memory")) as servers:
                yield servers
            nursery.cancel_scope.cancel()

    return serve


async def run_calls(servers, *calls, approve=None):
    """Have an agent make these calls, one after the other, and return their results."""
    rules = PermissionManager([PermissionRule.allow_category("network")])
    llm = ScriptedProvider(*calls, "done")
    agent = Agent(llm, tools=servers, permissions=rules)
    result = await agent.run("go", approve=approve)
    return [each for message in result.messages for each in message.tool_results]


async def test_tools_are_listed_and_called(era, serve) -> None:
    async with serve(add, count) as servers:
        assert servers.status[0].tools == ("mcp__demo__add", "mcp__demo__count")
        assert (await call(servers, "add", a=1, b=2)).text == "3"
        result = await call(servers, "add", a="one", b=2)
        assert result.is_error
        assert "integer" in result.text


async def test_a_client_is_told_of_tools_that_come_during_a_call(serve, monkeypatch) -> None:
    legacy = partial(mcp_connection.Client, mode="legacy")  # where it is told without asking
    monkeypatch.setattr(mcp_connection, "Client", legacy)
    tools = [tool(add)]

    @tool
    def learn() -> str:
        """Learn another tool."""
        tools.append(tool(count))
        return "learned"

    class Growing:
        def tools(self):
            return [learn, *tools]

    async with serve(Growing(), permissions=PermissionManager(mode="bypass")) as servers:
        assert servers.status[0].tools == ("mcp__demo__add", "mcp__demo__learn")
        assert (await call(servers, "add", a=1, b=2)).text == "3"
        assert (await call(servers, "learn")).text == "learned"
        with trio.fail_after(60):
            while len(servers.status[0].tools) < 3:
                await trio.lowlevel.checkpoint()
        assert (await call(servers, "count")).text
        assert servers.status[0].tools[1] == "mcp__demo__count"


async def test_a_question_of_a_tool_is_asked_at_the_client(era, serve) -> None:
    async def answer(request):
        assert request.fields["required"] == ["colour"]
        return Answer(RuleDecision.ALLOW, input={"colour": "blue"})

    async with serve(ask) as servers:
        found = await run_calls(servers, model_call("mcp__demo__ask"), approve=answer)
    assert found[0].text == "True {'colour': 'blue'}"


async def test_what_the_rules_leave_open_is_asked_at_the_client(era, serve, tmp_path) -> None:
    asked = []

    async def answer(request):
        asked.append(request.details)
        return Answer(RuleDecision.ALLOW, input={"allow": len(asked) == 2})

    write = model_call("mcp__demo__Write", file_path="a.txt", content="new text")
    async with serve(*builtin_tools()) as servers:
        found = await run_calls(servers, write, write, approve=answer)
    assert [each.is_error for each in found] == [True, False]
    assert "new text" in asked[0]
    assert "a.txt" in asked[0]
    assert (tmp_path / "a.txt").read_text() == "new text"


async def test_without_a_person_at_the_client_it_is_denied(era, serve, tmp_path) -> None:
    rules = PermissionManager([PermissionRule.deny_tool("Read")])
    (tmp_path / "a.txt").write_text("text")
    async with serve(*builtin_tools(), permissions=rules) as servers:
        result = await call(servers, "Write", file_path="b.txt", content="x")
        assert result.is_error
        assert "did not allow" in result.text
        assert (await call(servers, "Read", file_path="a.txt")).is_error
    assert not (tmp_path / "b.txt").exists()


async def test_the_calls_of_a_client_share_what_tools_remember(era, serve, tmp_path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.txt").write_text("old")
    rules = PermissionManager([PermissionRule.allow_tool("Bash", "Edit", "Read")])
    async with serve(*builtin_tools(), permissions=rules) as servers:
        assert not (await call(servers, "Bash", command="cd sub")).is_error
        assert "old" in (await call(servers, "Read", file_path="a.txt")).text
        edit = {"file_path": "a.txt", "old_string": "old", "new_string": "new"}
        assert not (await call(servers, "Edit", **edit)).is_error
    assert (tmp_path / "sub" / "a.txt").read_text() == "new"


async def test_progress_is_shown_and_a_cancel_ends_the_call(era, serve) -> None:
    waiting = Waiting()
    async with serve(count, waiting.wait) as servers:
        rules = PermissionManager([PermissionRule.allow_category("network")])
        agent = Agent(
            ScriptedProvider(model_call("mcp__demo__count"), "done"),
            tools=servers,
            permissions=rules,
        )
        async with agent.stream("go") as run:
            shown = [each.output async for each in run if isinstance(each, ToolProgress)]
        assert shown == ["one (1)\n", "two (2)\n"]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, servers, "wait")
            await waiting.began.wait()
            nursery.cancel_scope.cancel()
        with trio.fail_after(60):
            await waiting.ended.wait()
        assert (await call(servers, "count")).text == "counted"


async def test_what_no_model_is_shown_passes_as_it_is(era, serve) -> None:
    @tool
    async def sound() -> ToolResult:
        """Make a sound."""
        raw = {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"}
        return ToolResult((UnknownBlock(raw), UnknownBlock({"type": "smell"})))

    @tool
    async def number() -> dict[str, int]:
        """Return a number as a value."""
        return {"n": 1}

    async with serve(sound, number) as servers:
        text = (await call(servers, "sound")).text
        assert "a sound of the type audio/wav" in text
        assert "smell" in text
        assert "1" in (await call(servers, "number")).text


async def test_an_agent_is_one_tool(serve) -> None:
    agent = Agent(ScriptedProvider("It rains."), name="weather", description="Knows the weather.")
    async with serve(agent.as_tool()) as servers:
        assert servers.status[0].tools == ("mcp__demo__weather",)
        assert (await call(servers, "weather", prompt="And today?")).text == "It rains."


PROGRAM = """
import trio
from greenroom.interop import serve_mcp

def add(a: int, b: int) -> int:
    '''Add two numbers.'''
    print("a tool prints this")
    return a + b

def length(text: str) -> int:
    '''Return the length of a text.'''
    return len(text)

trio.run(serve_mcp, [add, length])
"""


async def test_a_program_serves_on_its_standard_streams(tmp_path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    server = MCPServer.stdio("demo", sys.executable, [str(tmp_path / "program.py")])
    async with MCPServers(server) as servers:
        assert (await call(servers, "add", a=1, b=2)).text == "3"
        result = await call(servers, "length", text="x" * (17 << 20))
        assert result.is_error
        assert "16 MB" in result.text
        assert (await call(servers, "length", text="x" * (1 << 20))).text == str(1 << 20)


async def test_a_message_that_can_not_be_read_is_answered(tmp_path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
    hello["clientInfo"] = {"name": "test", "version": "1"}
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).encode(),
        b'{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        rb'{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "\ud83d"}}',
        b'{"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "\xff"}}',
        b'{"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": []}',
        b'{"jsonrpc": "2.0", "method": "tools/call", "params": {"name": [[, "id": "a"}',
        b"oh",
    ]
    command = [sys.executable, str(tmp_path / "program.py")]
    run = partial(trio.run_process, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    reader, written = LineReader(), []
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            process = await nursery.start(run)
            await process.stdin.send_all(b"".join(each + b"\n" for each in lines))
            while len(written) < 6:
                written += map(json.loads, reader.feed(await process.stdout.receive_some()))
            await process.stdin.aclose()
    told = [(each["id"], each["error"]["code"]) for each in written if "error" in each]
    assert set(told) == {(2, -32602), (3, -32700), (4, -32700), ("a", -32700), (None, -32700)}


def test_what_a_tool_prints_reaches_standard_error_alone(monkeypatch, capfd) -> None:
    out = open(1, "w", closefd=False)  # noqa: SIM115
    monkeypatch.setattr(sys, "stdout", out)
    with _claim():
        print("noise of a tool")
    out.flush()
    assert capfd.readouterr() == ("", "noise of a tool\n")


def test_what_may_mislead_and_what_is_touched_is_said() -> None:
    request = PermissionRequest(
        "p",
        "Bash",
        "Run a command",
        details=f"rm x\u202ey{' ' * 3_000}z",
        cwd="/work",
        effects=PermissionEffects(writes=("/etc/hosts",), hosts=("example.com",)),
        runs_as="rm x",
        warnings=("It is long.",),
    )
    form = Form.of(request)
    assert form is not None
    assert form.text.split("\n\n") == [
        "May this call run? Run a command",
        "rm x\\u{202e}y…(3000 blanks)…z",
        "It is read as: rm x",
        "Warning: It is long.",
        "writes outside the workspace: /etc/hosts\ncontacts: example.com",
        "In /work",
    ]
    words = Form.of(PermissionRequest("p", "Ask", "Ask", details="a\u202eb", options=("c", "d")))
    assert words is not None
    assert words.text == "a\\u{202e}b"
