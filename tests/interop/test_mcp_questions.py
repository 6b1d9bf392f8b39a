"""What a server asks in the middle of a call: a question for the person of that call."""

import json

import pytest
import trio
import trio.testing

from greenroom.agents import Agent
from greenroom.core import Answer, PermissionRequest, RuleDecision, ToolProgress
from greenroom.interop import MCPServers
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.testing import ScriptedProvider, call as model_call
from tests.interop.servers import call, demo

RULES = PermissionManager([PermissionRule.allow_tool("mcp__demo__ask", "mcp__demo__count")])
ALLOW, DENY = RuleDecision.ALLOW, RuleDecision.DENY


async def ask(approve, *, call_timeout: float = 30.0, **input):
    """Let the server ask; return what it got for an answer."""
    servers = MCPServers(demo(call_timeout=call_timeout))
    llm = ScriptedProvider(model_call("mcp__demo__ask", **input), "done")
    with trio.fail_after(60):
        async with servers:
            agent = Agent(llm, tools=servers, permissions=RULES)
            result = await agent.run("go", approve=approve)
    (block,) = result.messages[2].tool_results
    return block.text if block.is_error else json.loads(block.text)


async def decline(_: PermissionRequest) -> Answer:
    return Answer(DENY, by="user")


async def test_the_answer_has_the_fields_that_the_server_asks_for() -> None:
    seen: list[PermissionRequest] = []

    async def approve(request: PermissionRequest) -> Answer:
        seen.append(request)
        return Answer(ALLOW, input={"colour": "blue"})

    answer = await ask(approve)
    assert answer == {"action": "accept", "content": {"colour": "blue"}}
    (request,) = seen
    assert request.action == "Answer a question of the MCP server demo"
    assert request.details == "Which colour?"
    assert request.fields is not None
    assert request.fields["required"] == ["colour"]


async def test_what_the_answer_leaves_out_has_the_servers_default() -> None:
    properties = {"colour": {"type": "string", "default": "red"}, "shade": {"type": "string"}}

    async def approve(_: PermissionRequest) -> Answer:
        return Answer(ALLOW, input={"shade": "dark"})

    answer = await ask(approve, schema={"type": "object", "properties": properties})
    assert answer["content"] == {"colour": "red", "shade": "dark"}


async def test_a_form_whose_answer_the_protocol_cannot_hold_ends_without_one() -> None:
    properties = {"colour": {"type": "string", "default": {"red": {}}}}

    async def approve(_: PermissionRequest) -> Answer:
        return Answer(ALLOW, input={})

    answer = await ask(approve, schema={"type": "object", "properties": properties})
    assert answer == {"action": "cancel"}


@pytest.mark.parametrize(("approve", "action"), [(decline, "decline"), (None, "cancel")])
async def test_a_no_and_nobody_are_told_apart(approve, action: str) -> None:
    assert (await ask(approve))["action"] == action


async def test_a_page_is_shown_and_opened_by_the_person() -> None:
    async def approve(request: PermissionRequest) -> Answer:
        assert request.details.endswith("https://example.com/consent")
        assert request.fields is None
        return Answer(ALLOW)

    assert (await ask(approve, url="https://example.com/consent"))["action"] == "accept"


async def test_the_time_of_the_call_stands_still_while_a_person_thinks() -> None:
    async def approve(request: PermissionRequest) -> Answer:
        await trio.sleep(1.5)
        return Answer(ALLOW, input={"colour": "red"})

    assert (await ask(approve, call_timeout=1.0))["content"] == {"colour": "red"}


async def test_a_program_that_calls_a_tool_itself_is_not_asked() -> None:
    async with MCPServers(demo()) as servers:
        assert json.loads((await call(servers, "ask")).text)["action"] == "cancel"


async def test_progress_is_shown() -> None:
    servers = MCPServers(demo())
    llm = ScriptedProvider(model_call("mcp__demo__count"), "done")
    async with servers, Agent(llm, tools=servers, permissions=RULES).stream("go") as run:
        shown = [each.output async for each in run if isinstance(each, ToolProgress)]
    assert shown == ["step 1 (1 of 2)\n", "step 2 (2 of 2)\n"]


async def test_with_calls_of_several_agents_nobody_is_asked() -> None:
    asked = []

    async def approve(request: PermissionRequest) -> Answer:
        asked.append(request)
        return Answer(ALLOW, input={"colour": "red"})

    rules = PermissionManager([PermissionRule.allow_category("network")])
    waiting = ScriptedProvider(model_call("mcp__demo__wait"))
    asking = ScriptedProvider(model_call("mcp__demo__ask"), "done")
    servers = MCPServers(demo())
    async with servers, trio.open_nursery() as nursery:
        first = Agent(waiting, tools=servers, permissions=rules)
        nursery.start_soon(first.run, "go")
        (connection,) = servers._connections
        while not connection._open_calls:  # until its call is on the way
            await trio.testing.wait_all_tasks_blocked()
        second = Agent(asking, tools=servers, permissions=rules)
        result = await second.run("go", approve=approve)
        nursery.cancel_scope.cancel()
    (block,) = result.messages[2].tool_results
    assert json.loads(block.text)["action"] == "cancel"
    assert asked == []
