"""An agent with the tools of an MCP server, and a server of tools: this file is both.

    pip install 'greenroom[mcp]'
    python examples/mcp_tools.py

The server runs as a program of its own. Every call of its tools has to be allowed: `approve` stands
for a person here, and shows what they would be asked. The model is scripted, so this needs no API
key.
"""

import sys

import trio

from greenroom import Agent, PermissionRequest
from greenroom.interop import MCPServer, MCPServers, serve_mcp
from greenroom.testing import ScriptedProvider, call


async def approve(request: PermissionRequest) -> bool:
    """Answer for a person."""
    print(f"{request.action}: {' '.join(request.details.split())}")
    return True


async def main() -> None:
    """Start the server, ask the agent, and print what it did."""
    servers = MCPServers(MCPServer.stdio("shop", sys.executable, [__file__, "serve"]))
    llm = ScriptedProvider(call("mcp__shop__price", item="lamp"), "A lamp is 30 euros.")
    agent = Agent(llm, instructions="You sell lamps.", tools=servers)
    async with servers:
        print(servers.status[0].state, servers.status[0].tools)
        result = await agent.run("How much is a lamp?", approve=approve)
    print(result.output)


def price(item: str) -> int:
    """Return the price of an item in euros."""
    return {"lamp": 30}.get(item, 10)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        trio.run(serve_mcp, [price])  # any program that speaks the protocol will do
    else:
        trio.run(main)
