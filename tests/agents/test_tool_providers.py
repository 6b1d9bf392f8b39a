"""An agent with a provider of tools: a change counts from the next model call on."""

from greenroom.agents import Agent
from greenroom.core import ToolInfo, ToolResult
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.testing import ScriptedProvider, call


class Remote:
    description, category, parameters = "", "network", {"type": "object"}

    def __init__(self, name: str, provider: "Provider") -> None:
        self.name, self.provider = name, provider

    def info(self, input: object) -> ToolInfo:
        return ToolInfo(self.name)

    async def execute(self, input: object, context: object) -> ToolResult:
        self.provider.now = (Remote("second", self.provider),)
        return ToolResult.ok(f"{self.name} ran")


class Provider:
    def __init__(self) -> None:
        self.now = (Remote("first", self),)

    def tools(self):
        return self.now


async def test_the_next_step_has_the_tools_of_then() -> None:
    llm = ScriptedProvider(call("first"), call("first"), call("second"), "done")
    rules = PermissionManager([PermissionRule.allow_tool("first", "second")])
    result = await Agent(llm, tools=Provider(), permissions=rules).run("go")
    offered = [[tool.name for tool in request.tools] for request in llm.requests]
    assert offered == [["first"], ["second"], ["second"], ["second"]]
    texts = [block.text for message in result.messages for block in message.tool_results]
    assert texts[0] == "first ran"
    assert "no tool named 'first'" in texts[1]
    assert texts[2] == "second ran"


async def test_passing_a_provider_is_no_consent_to_its_calls() -> None:
    def helper() -> str:
        return "helped"

    llm = ScriptedProvider([call("first"), call("helper")], "done")
    result = await Agent(llm, tools=[helper, Provider()]).run("go")
    assert [each.tool for each in result.denials] == ["first"]
