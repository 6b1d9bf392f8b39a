"""What a host answers over HTTP: the API of a server about the agents that it has.

A host is a `WebServer` without page whose requests are signed. What would start an agent by itself
is refused: agents come by the directory, and inputs by the mailbox. Two routes are its own:
`POST /api/mailbox/SESSION` says that there may be something new, and `GET` of it waits until an
input of the agent is done, or the agent is another host's.
"""

from typing import Protocol

import trio

from greenroom.distributed.signing import HEARTBEAT, OTHER_HOST, TOO_EARLY, admit_signed
from greenroom.interop import ServerLimits, Tokens, WebServer
from greenroom.interop._internal import (
    LOCAL,
    Receive,
    Request,
    RequestRefusedError,
    Scope,
    Send,
    json_reply,
)
from greenroom.runtime import AgentInternals, AgentRuntime

LONGEST_WAIT = 20.0
"""Seconds that a request may wait for an input's end."""

_ABOUT_RUNNING = {"interrupt", "permissions", "credentials", "tool-results", "shutdown"}


class Waking(Protocol):
    """What a host does for those who ask over HTTP.

    Attributes:
        number: its number; 0 until it has one.
    """

    number: int

    def has(self, session_id: str) -> bool:
        """Whether an agent runs here."""

    def poke(self, session_id: str) -> bool:
        """Look into an agent's mailbox; whether it runs here."""

    async def wait_done(self, session_id: str, input_id: str) -> None:
        """Wait until something comes of an input of an agent, or that is not here."""


def make_server(
    runtime: AgentRuntime, waking: Waking, secret: str, host: str, names: tuple[str, ...]
) -> WebServer:
    """Return the server of a host that listens at this address, under these names."""

    def check(request: Request) -> None:
        if request.method == "GET" or request.segments[:2] == ("api", "mailbox"):
            return
        session, action = (*request.segments[2:4], "", "")[:2]
        if action not in _ABOUT_RUNNING:
            raise RequestRefusedError(
                409,
                "agents come to a host by the directory, and inputs by their mailbox",
                kind="elsewhere",
                hint="use Cluster.spawn, and RemoteAgent.send_input",
            )
        if not waking.has(session):
            raise RequestRefusedError(
                OTHER_HOST,
                "no agent of this session runs on this host",
                kind="elsewhere",
                hint="the directory says where it is",
            )
        if runtime.get(session) is None:
            raise RequestRefusedError(
                TOO_EARLY, "the agent is only starting, or has just ended", kind="starting"
            )

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        session_id = (*request.segments[2:3], "")[0]
        if request.method == "POST":
            await json_reply({"here": waking.poke(session_id)}).send(send)
            return
        with trio.move_on_after(request.number("wait", 0.0, LONGEST_WAIT)):
            await waking.wait_done(session_id, request.query.get("input", ""))
        await json_reply({"here": waking.has(session_id)}).send(send)

    return WebServer(
        runtime,
        {"elsewhere": _refuse},
        tokens=Tokens(),
        hosts=(*LOCAL, host, *names),
        limits=ServerLimits(streams=10_000, per_token=10_000, heartbeat=HEARTBEAT),
        page=False,
        admission=admit_signed(secret, lambda: waking.number, check),
        mounts={"mailbox": answer},
    )


async def _refuse(agent: AgentInternals) -> None:
    """Run nothing: no session is of this type."""
