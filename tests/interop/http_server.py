"""A server of tools over HTTP on a free port, which it prints: `python http_server.py`."""

import asyncio
import contextlib
import socket
import sys
from typing import Annotated

import uvicorn
from mcp.server.mcpserver import Context, Elicit, ElicitationResult, MCPServer, Resolve
from pydantic import BaseModel

server = MCPServer("demo")


class Colour(BaseModel):
    colour: str


@server.tool()
def echo(text: str) -> str:
    return text


@server.tool()
async def count(ctx: Context) -> str:
    for number in (1, 2):
        await ctx.report_progress(number, 2, f"step {number}")
    return "counted"


@server.tool()
async def wait() -> str:
    await asyncio.sleep(60)
    return "waited"


@server.tool()
def flood(megabytes: int) -> str:
    return "x" * (megabytes << 20)


def which_colour() -> Elicit[Colour]:
    return Elicit("Which colour?", Colour)


@server.tool()
async def ask(answer: Annotated[ElicitationResult[Colour], Resolve(which_colour)]) -> str:
    return answer.action


@server.tool()
def change() -> str:
    server.add_tool(lambda: "later ran", name="later")
    return "changed"


class Guarded:
    """Lets nothing in without the token."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        headers = dict(scope.get("headers", ()))
        if scope["type"] == "http" and headers.get(b"authorization") != b"Bearer demo":
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return

        async def send_cut(event):
            if event["type"] == "http.response.body":  # of the same length
                event = {**event, "body": event.get("body", b"").replace(b"<CUT!>", rb"\ud83d")}
            await send(event)

        await self.app(scope, receive, send_cut)


if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1]) if sys.argv[1:] else 0))
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(Guarded(server.streamable_http_app()), log_level="critical")
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])
