"""Servers of tools over their standard streams: used, restarted, refused, and never left behind."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest
import trio

from greenroom.agents import Agent
from greenroom.core import (
    AgentContext,
    Answer,
    ConfigurationError,
    ImageBlock,
    RuleDecision,
    ToolStatus,
)
from greenroom.interop import MCPServer, MCPServers
from greenroom.interop._internal import MCPServerError
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.runtime import AgentRuntime
from greenroom.session import InMemoryStore
from greenroom.testing import ScriptedProvider, call as model_call
from tests.interop.servers import call, cancel_wait, children, demo, registry
from tests.warm_python import start_warm


async def test_an_agent_uses_the_tools_of_a_server() -> None:
    servers = MCPServers(demo())
    llm = ScriptedProvider(model_call("mcp__demo__echo", text="hello"), "It says hello.")
    rules = PermissionManager([PermissionRule.allow_tool("mcp__demo__echo")])
    agent = Agent(llm, tools=servers, permissions=rules)
    async with servers:
        result = await agent.run("go")
    assert result.output == "It says hello."
    assert [each.text for each in result.messages[2].tool_results] == ["hello"]
    assert "mcp__demo__echo" in {tool.name for tool in llm.requests[0].tools}
    assert result.denials == ()


async def test_every_tool_asks_and_an_answer_is_bound_to_its_definition() -> None:
    asked, diffs = [], []

    async def approve(request):
        asked.append((request.tool_name, request.action, request.remembers))
        diffs.append(request.diff)
        return Answer(RuleDecision.ALLOW, remember="session")

    llm = ScriptedProvider(
        model_call("mcp__demo__count"),
        model_call("mcp__demo__change", name="count", description="Now it does more."),
        model_call("mcp__demo__count"),
        "done",
    )
    servers = MCPServers(demo())
    async with servers:
        await Agent(llm, tools=servers).run("go", approve=approve)
    names = [name.removeprefix("mcp__demo__") for name, *_ in asked]
    assert names == ["count", "change", "count"]
    assert asked[0][1] == "Use count of the MCP server demo"
    assert "definition:sha256:" in asked[0][2][0]
    assert asked[0][2] != asked[2][2]
    assert diffs[:2] == ["", ""]
    assert '-  "description": "Tell progress, then end."' in diffs[2]
    assert '+  "description": "Now it does more."' in diffs[2]


async def test_a_later_process_shows_how_a_tool_has_changed_since_it_was_allowed(tmp_path) -> None:
    diffs = []

    async def approve(request):
        diffs.append(request.diff)
        return Answer(RuleDecision.ALLOW)

    async def use() -> None:
        llm = ScriptedProvider(model_call("mcp__demo__count"), "done")
        servers = MCPServers(demo(), definitions=tmp_path)
        async with servers:
            await Agent(llm, tools=servers).run("go", approve=approve)

    await use()
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text().replace("Tell progress, then end.", "It did less."))
    await use()
    await use()
    assert [diffs[0], diffs[2]] == ["", ""]
    assert '-  "description": "It did less."' in diffs[1]
    assert '+  "description": "Tell progress, then end."' in diffs[1]
    file.write_text("damaged")
    await use()
    assert diffs[3] == ""


async def test_results_are_blocks_and_structured_values() -> None:
    async with MCPServers(demo()) as servers:
        found = await call(servers, "things")
        number = await call(servers, "number", n=3)
        odd = await call(servers, "number", n="three")
        failed = await call(servers, "fail")
    assert found.text.splitlines()[0] == "some text"
    assert "a sound of the type audio/wav" in found.text
    assert "[resource demo://b]\nb's text" in found.text
    assert len([each for each in found.content if isinstance(each, ImageBlock)]) == 2
    assert found.metadata["structured"] == {"answer": 42}
    assert number.text == '{"n":3}'
    assert "does not fit what the tool promises" in odd.text
    assert (failed.status, failed.text) == (ToolStatus.ERROR, "it went wrong")


async def test_a_server_gets_no_key_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    monkeypatch.setenv("ANYTHING_ELSE", "secret")
    async with MCPServers(demo(env={"OWN": "given"})) as servers:
        environment = json.loads((await call(servers, "environment")).text)
    assert environment["OWN"] == "given"
    assert "PATH" in environment
    assert not {"ANTHROPIC_API_KEY", "ANYTHING_ELSE"} & environment.keys()


async def test_a_cancel_reaches_the_server_and_the_connection_goes_on() -> None:
    async with MCPServers(demo()) as servers:
        await cancel_wait(servers)
        assert (await call(servers, "was_cancelled")).text != "[]"
        assert (await call(servers, "echo", text="still here")).text == "still here"


async def test_a_call_has_a_time_out() -> None:
    async with MCPServers(demo(call_timeout=1)) as servers:
        result = await call(servers, "wait")
        assert result.status is ToolStatus.TIMEOUT
        assert (await call(servers, "echo", text="still here")).text == "still here"


async def test_a_server_that_dies_in_a_call_costs_one_error_and_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with MCPServers(demo(env={"SERVER_TOKEN": "swordfish-77"})) as servers:
        before = registry(servers).get("mcp__demo__echo")
        died = await call(servers, "die")
        assert died.is_error
        assert "may have had its effect" in died.text
        assert (await call(servers, "echo", text="back")).text == "back"
        assert registry(servers).get("mcp__demo__echo") is before
        assert servers.status[0].starts == 2
    assert "I die" in caplog.text
    assert "swordfish" not in caplog.text


async def test_a_server_that_always_dies_is_given_up_and_says_why() -> None:
    async with MCPServers(demo("broken"), demo(name="well"), required=False) as servers:
        while servers.status[0].state != "failed":
            await servers.wait_change()
        assert "I can't start" in servers.status[0].error
        assert (await call(servers, "echo", server="well", text="hi")).text == "hi"


@pytest.mark.parametrize(
    ("server", "why"),
    [
        (demo("broken"), "has ended; it last wrote:\nI can't start"),
        (demo("hung", start_timeout=0.5), "did not start within 0.5 seconds"),
        (MCPServer.stdio("demo", "no-such-program"), "No such file or directory"),
    ],
)
async def test_a_required_server_that_can_not_be_reached_is_an_error(
    server: MCPServer, why: str
) -> None:
    with pytest.raises(MCPServerError) as caught:
        async with MCPServers(server):
            pass
    assert why in str(caught.value)
    assert caught.value.server == "demo"
    assert not children()


async def test_words_that_are_no_messages_do_no_harm() -> None:
    async with MCPServers(demo("noisy")) as servers:
        assert (await call(servers, "echo", text="hi")).text == "hi"


async def test_a_text_cut_in_the_middle_of_a_character_arrives() -> None:
    async with MCPServers(demo()) as servers:
        assert (await call(servers, "cut")).text == "a \ufffd"


@pytest.mark.parametrize("how", ["list", "null", "odd error", "bytes", "deep"])
async def test_an_answer_that_can_not_be_read_fails_its_call_at_once(how: str) -> None:
    async with MCPServers(demo()) as servers:
        result = await call(servers, "mumble", how=how)
        assert result.is_error
        assert "the server's answer can't be read: " in result.text
        assert (await call(servers, "echo", text="hi")).text == "hi"


async def test_hostile_tools_are_left_out_and_the_others_stay(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with MCPServers(demo("hostile")) as servers:
        (status,) = servers.status
        definitions = {each.name: each for each in registry(servers).definitions()}
        assert (await call(servers, "echo", text="hi")).text == "hi"
    left_out = {name for name, _ in status.left_out}
    assert {"no_schema", "odd_schema", "bad_schema", "far_schema", "echo"} <= left_out
    assert {"mcp__demo__echo", "mcp__demo__any_of", "mcp__demo__no_type"} <= definitions.keys()
    assert definitions["mcp__demo__odd_output"].output_schema is None
    assert all(len(name) <= 64 and name.isascii() and name.isprintable() for name in definitions)
    assert len([name for name in definitions if "evil" in name]) == 1
    assert "\x1b" not in caplog.text


async def test_the_list_is_read_over_all_pages_and_changes_on_the_word() -> None:
    async with MCPServers(demo("many", "1200")) as servers:
        assert len(servers.status[0].tools) > 1_200
        before = servers.tools()
        await call(servers, "change", name="later")
        while len(servers.tools()) == len(before):
            await servers.wait_change()
        assert (await call(servers, "later")).text == "later ran"
        assert servers.tools()[2:10] == before[2:10]


async def test_a_call_approved_before_a_change_does_not_run() -> None:
    async with MCPServers(demo()) as servers:
        tools = registry(servers)
        stale = tools.get("mcp__demo__count")
        assert stale is not None
        await call(servers, "change", name="count", description="Another.")
        while tools.get("mcp__demo__count") is stale:
            await servers.wait_change()
        result = await stale.execute({}, AgentContext(session_id="s", agent_type="demo"))
        assert "changed it meanwhile" in result.text


async def test_a_result_of_64_mb_is_an_error_and_the_next_call_works() -> None:
    async with MCPServers(demo()) as servers:
        result = await call(servers, "flood", megabytes=64)
        assert "longer than 16 MB" in result.text
        short = await call(servers, "flood", megabytes=2)
        assert len(short.text) == 30_000  # as any tool's
        assert (await call(servers, "echo", text="hi")).text == "hi"


async def test_sampling_is_refused() -> None:
    async with MCPServers(demo()) as servers:
        assert "not supported" in (await call(servers, "sample")).text


async def test_nothing_is_left_of_a_server_that_ignores_the_end_of_its_input() -> None:
    descriptors = len(os.listdir("/dev/fd"))
    async with MCPServers(demo("deaf"), demo(name="well")) as servers:
        assert (await call(servers, "echo", text="hi")).text == "hi"
        assert len(children()) >= 2
    assert not children()
    assert len(os.listdir("/dev/fd")) == descriptors


async def test_the_kill_of_our_process_takes_the_servers_along(tmp_path: Path) -> None:
    program = f"""
import sys, trio
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.interop.servers import MCPServers, children, demo
async def main():
    async with MCPServers(demo("deaf")):
        print(*children(), flush=True)
        await trio.sleep_forever()
trio.run(main)
"""
    process = start_warm(["-c", program], Path(__file__).parents[2])
    assert process.stdout is not None
    pids = [int(each) for each in process.stdout.readline().split()]
    handles = [os.pidfd_open(pid) for pid in pids]
    assert handles
    process.send_signal(signal.SIGKILL)
    process.wait()
    for handle in handles:
        await trio.lowlevel.wait_readable(handle)  # it has ended
        os.close(handle)
    process.stdout.close()


def test_without_the_sdk_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(ConfigurationError) as caught:
        MCPServers(demo())
    assert "greenroom[mcp]" in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: MCPServer.stdio("a__b", "x"),
        lambda: MCPServer.stdio("a b", "x"),
        lambda: MCPServer.stdio("_a", "x"),
        lambda: MCPServer.stdio("a" * 33, "x"),
        lambda: MCPServer.stdio("a", ""),
        lambda: MCPServer.stdio("a", "x", "args"),
        lambda: MCPServer.stdio("a", "x", env={"A": 1}),
        lambda: MCPServer.stdio("a", "x", call_timeout=0),
        lambda: MCPServer.http("a", "ftp://example.com"),
        lambda: MCPServers(demo(), demo(name="DEMO")),
        lambda: MCPServers("demo"),
    ],
)
def test_what_makes_no_sense_is_refused(make) -> None:
    with pytest.raises(ConfigurationError):
        make()


async def test_servers_are_used_in_their_block() -> None:
    servers = MCPServers(demo())
    with pytest.raises(ConfigurationError, match="not connected"):
        servers.tools()
    async with servers:
        with pytest.raises(ConfigurationError, match="in use"):
            await servers.__aenter__()
    with pytest.raises(ConfigurationError, match="not connected"):
        servers.tools()
    async with servers:  # once more
        assert (await call(servers, "echo", text="hi")).text == "hi"


async def test_the_blocks_own_exception_leaves_it_as_it_was() -> None:
    with pytest.raises(KeyError):
        async with MCPServers(demo()):
            raise KeyError("mine")
    with trio.move_on_after(0.5) as limit:
        async with MCPServers(demo()):
            await trio.sleep_forever()
    assert limit.cancelled_caught
    assert not children()


async def test_connections_can_live_in_a_runtime_of_the_programs() -> None:
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        async with MCPServers(demo(), runtime=runtime) as servers:
            assert [each.name for each in runtime.supervisors] == ["mcp:demo"]
            assert (await call(servers, "echo", text="hi")).text == "hi"
        assert runtime.list_active() == ()
