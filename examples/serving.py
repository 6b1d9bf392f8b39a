"""Sessions over HTTP: a client speaks, reads the stream, and answers a question with what it saw.

It needs `pip install 'greenroom[serve]'`. Server and client are one program here; the client uses
nothing but HTTP, so it could be a page, a script or a service elsewhere.
"""

import httpx
import msgspec
import trio

from greenroom import (
    Agent,
    AgentRuntime,
    Done,
    InMemoryStore,
    OutputChunk,
    PermissionManager,
    PermissionRequest,
    PermissionRule,
    TextComplete,
)
from greenroom.interop import WebServer
from greenroom.testing import ScriptedProvider, call


def deploy(version: str) -> str:
    """Deploy a version of the shop."""
    return f"{version} is live"


async def converse(client: httpx.AsyncClient) -> None:
    reply = await client.post("/api/sessions", json={"agent": "deployer", "input": "Deploy it."})
    session = reply.json()["id"]
    with trio.CancelScope() as reading:
        async with client.stream("GET", f"/api/stream?session={session}") as stream:
            name = ""
            async for line in stream.aiter_lines():
                field, _, value = line.partition(": ")
                if field == "event":
                    name = value  # not a chunk: a snapshot, or news of the tree
                elif not line:
                    name = ""
                elif field == "data" and not name and await follow(client, session, value):
                    reading.cancel()  # the stream itself goes on, to the next turn


async def follow(client: httpx.AsyncClient, session: str, data: str) -> bool:
    """Show a chunk, and answer it if it is a question; return whether the turn has ended."""
    match msgspec.json.decode(data, type=OutputChunk):
        case PermissionRequest(request_id=request, digest=digest) as asked:
            print("asked:", asked.action, asked.input)
            path = f"/api/sessions/{session}/permissions/{request}"
            answer = {"decision": "allow", "digest": digest}
            print("answered:", (await client.post(path, json=answer)).status_code)
            print("again:", (await client.post(path, json=answer)).status_code)
        case TextComplete(text=text):
            print("said:", text)
        case Done():
            return True
        case _:
            pass
    return False


async def main() -> None:
    model = ScriptedProvider(call("deploy", version="1.2"), "Version 1.2 is live.")
    rules = PermissionManager([PermissionRule.ask_for_tool("deploy")])
    agent = Agent(model, tools=[deploy], permissions=rules, name="deployer")
    async with AgentRuntime(InMemoryStore()) as runtime, trio.open_nursery() as nursery:
        link = await nursery.start(WebServer(runtime, {"deployer": agent}).serve)
        address, _, token = link.partition("/#token=")
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=address, headers=headers, timeout=60) as client:
            await converse(client)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
