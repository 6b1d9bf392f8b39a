"""Tools with dots in their names: models know them by other names, and nobody else does."""

import random
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from greenroom import Agent, AgentRuntime, InMemoryStore, ToolEnd, ToolStart, tool
from greenroom.core import Message, ModelRequest, ToolDefinition, ToolError, ToolResultBlock
from greenroom.core._internal import NamedTool, portable_name
from greenroom.flow import Action, parse_action
from greenroom.llm import AnthropicProvider, ModelBadRequestError, OpenAIProvider
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import ToolRegistry
from tests.llm import wire
from tests.llm.server import Answer, model_server

PLAIN = re.compile("[a-zA-Z0-9_-]{1,64}")
PART = st.text("ab_-1", min_size=1, max_size=5)
NAME = st.lists(PART, min_size=1, max_size=4).map(".".join)


def definition(name):
    return ToolDefinition(name, "", {"type": "object", "properties": {}})


def anthropic_tools(body):
    calls = [block["name"] for m in body["messages"] for block in _blocks(m, "tool_use")]
    return [each["name"] for each in body["tools"]], body["tool_choice"]["name"], calls


def openai_tools(body):
    calls = [each["function"]["name"] for m in body["messages"] for each in m.get("tool_calls", ())]
    listed = [each["function"]["name"] for each in body["tools"]]
    return listed, body["tool_choice"]["function"]["name"], calls


def _blocks(message, kind):
    content = message["content"] if isinstance(message["content"], list) else []
    return [block for block in content if block["type"] == kind]


def anthropic_calls(names):
    blocks = [wire.tool_block(at, f"t{at}", name, "{}") for at, name in enumerate(names)]
    return wire.anthropic(*(event for block in blocks for event in block))


def openai_calls(names):
    return wire.chat(
        *(wire.call(at, f"t{at}", name, "{}") for at, name in enumerate(names)), finish="tool_calls"
    )


VENDORS = {
    "anthropic": (AnthropicProvider, "", anthropic_tools, anthropic_calls),
    "openai": (OpenAIProvider, "/v1", openai_tools, openai_calls),
}


@pytest.mark.parametrize("vendor", VENDORS)
async def test_every_name_comes_back_as_it_was(vendor):
    provider, base, read, write = VENDORS[vendor]
    chance = random.Random(7)
    seen = []

    def answer(request):
        seen.append(read(request.body))
        return Answer.stream(write([*seen[-1][0], "unknown__tool"]))

    async with model_server(answer) as server:
        llm = provider("m", base_url=server.url + base, api_key="k", env={})
        for _ in range(20):
            found = {portable_name(name): name for name in drawn(chance)}
            names = [*found.values()]
            asked = ModelRequest(
                messages=[Message.user("go")],
                tools=[*map(definition, names)],
                tool_choice=NamedTool(names[0]),
            )
            reply = await llm.generate(asked)
            assert [each.name for each in reply.tool_uses] == [*names, "unknown__tool"]
            results = [ToolResultBlock(each.id) for each in reply.tool_uses]
            asked = replace(asked, messages=[*asked.messages, reply, Message.user(results)])
            async with llm.stream(asked) as stream:
                async for _ in stream:
                    pass
            assert stream.partial().tool_uses == reply.tool_uses
            listed, chosen, called = seen[-1]
            assert called == [*listed, "unknown__tool"]
            assert (chosen, listed) == (listed[0], [*found])
            assert all(map(PLAIN.fullmatch, listed))
        await llm.aclose()


def drawn(chance):
    parts = ("fs", "a", "read_", "_b", "x-1", "mcp__s")
    return [
        ".".join(chance.choices(parts, k=chance.randint(1, 3))) for _ in range(chance.randint(1, 6))
    ]


@settings(max_examples=30)
@given(st.lists(NAME, min_size=1, max_size=6, unique=True))
def test_a_registry_takes_all_names_that_a_model_can_tell_apart_and_no_others(names):
    registry = ToolRegistry()
    taken = set()
    for name in names:
        if (portable := portable_name(name)) in taken:
            with pytest.raises(ToolError, match="are one name to a model"):
                registry.register(make_tool(name))
        else:
            registry.register(make_tool(name))
        taken.add(portable)
    assert {portable_name(name) for name in registry.list_tools()} == taken


def make_tool(name):
    @tool(name=name)
    async def do() -> str:
        """Do it."""
        return name

    return do


@pytest.mark.parametrize("name", [".a", "a.", "a..b", "a." + "b" * 62, "."])
def test_dots_stand_between_words_and_count_as_two(name):
    with pytest.raises(ToolError, match="not a name for a tool"):
        ToolRegistry([make_tool(name)])
    assert ToolRegistry([make_tool("a." + "b" * 61)]).list_tools()


async def test_a_provider_refuses_tools_that_its_model_could_not_tell_apart():
    llm = AnthropicProvider("m", api_key="k", env={})
    asked = ModelRequest(messages=[], tools=[definition("fs.read"), definition("fs__read")])
    with pytest.raises(ModelBadRequestError, match=r"fs\.read and fs__read have the same name"):
        await llm.generate(asked)
    await llm.aclose()


async def test_rules_chunks_and_history_know_the_name_with_dots():
    rules = PermissionManager(
        [PermissionRule.parse("fs.read", "allow"), PermissionRule.parse("fs.list", "deny")]
    )
    llm = ScriptedProvider([call("fs.read"), call("fs.list")], "done")
    agent = Agent(llm, tools=[make_tool("fs.read"), make_tool("fs.list")], permissions=rules)
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        async with agent.stream("go", runtime=runtime) as run:
            chunks = [chunk async for chunk in run]
    assert [each.name for each in chunks if isinstance(each, ToolStart)] == ["fs.read", "fs.list"]
    denied = {each.id for each in chunks if isinstance(each, ToolEnd) and each.is_error}
    uses = [use for each in run.result.messages for use in each.tool_uses]
    assert [use.name for use in uses] == ["fs.read", "fs.list"]
    assert denied == {uses[1].id}


@pytest.mark.parametrize(
    "said",
    [
        'Action: {"tool": "fs.read", "arguments": {"at": 1}}',
        'Action: fs.read\nAction Input: {"at": 1}',
    ],
)
def test_a_model_without_tool_calls_reads_and_writes_the_dots(said):
    found = parse_action(said)
    assert isinstance(found, Action)
    assert (found.tool, found.arguments) == ("fs.read", {"at": 1})
