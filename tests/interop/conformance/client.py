"""Our client as the one under test: `python client.py URL`, told what to do by variables.

It connects through `MCPServers`, calls each tool once through an agent, reads what else there is,
and logs in where that is wanted: the page of the login needs no person, and sends the browser back.
"""

import json
import os
import sys
import tempfile
from collections.abc import Iterator

import httpx
import trio

from greenroom.agents import Agent
from greenroom.core import Answer, PermissionRequest, RuleDecision
from greenroom.interop import MCPServer, MCPServers
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import ToolRegistry

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
SAMPLES = {
    "string": "text",
    "number": 1.5,
    "integer": 1,
    "boolean": True,
    "array": [],
    "object": {},
}


async def log_in(url: str) -> None:
    """Do what a person and a browser do: open the page, and come back."""
    async with httpx.AsyncClient(follow_redirects=True) as browser:
        await browser.get(url)


async def answer(request: PermissionRequest) -> Answer:
    """Agree, and leave all fields to their defaults."""
    return Answer(RuleDecision.ALLOW, input={} if request.fields else None)


def sample(schema: dict[str, object]) -> dict[str, object]:
    """Make arguments that fit a simple schema."""
    properties = schema.get("properties", {})
    return {name: SAMPLES.get(each.get("type"), "text") for name, each in properties.items()}


def calls(servers: MCPServers) -> Iterator[object]:
    registry = ToolRegistry()
    registry.add(servers)
    wanted = {each["name"]: each["arguments"] for each in CONTEXT.get("toolCalls", ())}
    for name, arguments in wanted.items():
        # An input that does not fit is refused before it is sent, and null is no boolean.
        wanted[name] = {key: each for key, each in arguments.items() if each is not None}
    for definition in registry.definitions():
        name = definition.name.removeprefix("mcp__demo__")
        if not wanted or name in wanted:
            yield call(definition.name, **wanted.get(name, sample(definition.parameters)))


async def main(url: str) -> None:
    server = MCPServer.http("demo", url)
    if SCENARIO.startswith("auth/"):
        server = server.with_login(
            tempfile.mkdtemp(),
            show=log_in,
            client_id=CONTEXT.get("client_id", ""),
            client_secret=CONTEXT.get("client_secret", ""),
            client_url="https://conformance-test.local/client-metadata.json",
        )
    rules = PermissionManager([PermissionRule.allow_category("network")])
    async with MCPServers(server) as servers:
        wanted = list(calls(servers))
        steps = [wanted[:], "done"] if "2322" in SCENARIO else [*wanted, *wanted[:1], "done"]
        agent = Agent(ScriptedProvider(*steps), tools=servers, permissions=rules, max_steps=50)
        result = await agent.run("go", approve=answer)
        for message in result.messages:
            for each in message.tool_results:
                print(each.text)
        for resource in await servers.list_resources():
            await servers.read_resource("demo", resource.uri)
        for prompt in await servers.list_prompts():
            given = dict.fromkeys(prompt.arguments, "text")
            await servers.get_prompt("demo", prompt.name, given)


if __name__ == "__main__":
    trio.run(main, sys.argv[-1])
