"""Thousands of tools: found by words, called by name, and judged as what they are."""

import os

import trio

from greenroom.agents import Agent
from greenroom.core import Answer, RuleDecision
from greenroom.interop import MCPServers
from greenroom.interop.mcp.tool_search import ToolSearch
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.testing import ScriptedProvider, call as model_call
from greenroom.tools import tool
from greenroom.tools._internal import RegisteredTool
from tests.interop.servers import call, demo, registry


def tools(*names: str) -> list[RegisteredTool]:
    @tool
    async def function() -> str:
        return ""

    made = []
    for name in names:
        function.name = name
        function.description = f"It does what {name.replace('_', ' ')} says."
        made.append(RegisteredTool.of(function))
    return made


def test_the_best_come_first_and_exact_names_before_them() -> None:
    search = ToolSearch(tools("read_file", "write_file", "file_a_bug", "send_mail"))
    assert [each.name for each in search.find("write a file")][:2] == ["write_file", "file_a_bug"]
    assert [each.name for each in search.find("send_mail, read_file")][:2] == [
        "send_mail",
        "read_file",
    ]
    assert search.find("nothing like that")[:1] == []


def test_the_description_is_bounded() -> None:
    few = ToolSearch(tools("a_tool", "b_tool"))
    assert few.description.endswith("The tools: a_tool, b_tool")
    many = ToolSearch(tools(*(f"mcp__server__a_tool_with_number_{n}" for n in range(1_000))))
    assert many.description.endswith("mcp__server: 1,000 tools")


async def test_a_model_finds_a_tool_and_calls_it_and_the_call_is_judged_as_what_it_is() -> None:
    asked = []

    async def approve(request):
        asked.append((request.tool_name, request.input, request.remembers))
        return Answer(RuleDecision.ALLOW, remember="session")

    llm = ScriptedProvider(
        model_call("ToolSearch", query="return the text"),
        model_call("CallTool", name="mcp__demo__echo", arguments={"text": "a"}),
        model_call("CallTool", name="mcp__demo__echo", arguments={"text": "b"}),
        model_call("CallTool", name="mcp__demo__echo", arguments={"text": 3}),
        model_call("CallTool", name="mcp__demo__ecco", arguments={}),
        model_call("CallTool", name="Read", arguments={"file_path": "/etc/passwd"}),
        "done",
    )
    servers = MCPServers(demo(), search_above=3)
    async with servers:
        result = await Agent(llm, tools=servers).run("go", approve=approve)
    offered = {tuple(sorted(each.name for each in request.tools)) for request in llm.requests}
    assert offered == {("CallTool", "ToolSearch")}
    found, *texts = [block.text for each in result.messages for block in each.tool_results]
    assert '"name":"mcp__demo__echo"' in found.replace(" ", "")
    assert texts[:2] == ["a", "b"]
    assert "expected string" in texts[2]
    assert "Did you mean mcp__demo__echo" in texts[3]
    assert "no tool named 'Read'" in texts[4]
    ((name, given, remembers),) = asked  # once: the answer holds for the tool, not for CallTool
    assert (name, given) == ("mcp__demo__echo", {"text": "a"})
    assert "mcp__demo__echo(definition:" in remembers[0]


async def test_a_denied_tool_is_denied_behind_the_other_as_well() -> None:
    llm = ScriptedProvider(model_call("CallTool", name="mcp__demo__echo", arguments={}), "done")
    rules = PermissionManager(
        [PermissionRule.deny_tool("mcp__demo__echo"), PermissionRule.allow_all()]
    )
    servers = MCPServers(demo(), search_above=3)
    async with servers:
        result = await Agent(llm, tools=servers, permissions=rules).run("go")
    assert [each.tool for each in result.denials] == ["mcp__demo__echo"]


async def test_definitions_stay_until_the_list_changes() -> None:
    async with MCPServers(demo(), search_above=3) as servers:
        reg = registry(servers)
        before, echo = reg.definitions(), reg.get("mcp__demo__echo")
        await call(servers, "echo", text="hi")
        assert reg.definitions() == before
        changed = servers.wait_change
        async with trio.open_nursery() as nursery:
            nursery.start_soon(changed)
            await call(servers, "change", name="later")
        assert reg.definitions() != before
        assert reg.get("mcp__demo__echo") is echo
        assert (await call(servers, "later")).text == "later ran"


async def test_thousands_of_tools_are_listed_and_called() -> None:
    count = int(os.environ.get("GREENROOM_MCP_TOOLS", "2000"))
    server = demo("many", str(count), start_timeout=600)
    async with MCPServers(server, search_above=50) as servers:
        reg = registry(servers)
        assert len(servers.status[0].tools) > count
        assert len(reg.definitions()) == 2
        search = reg.get("ToolSearch")
        assert search is not None
        assert (await call(servers, "echo", text="hi")).text == "hi"
        unknown = await call(servers, "nothing")
        assert len(unknown.text) < 200
