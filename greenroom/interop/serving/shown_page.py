"""The page of one agent that runs in another process: it shows, and nothing can be done with it."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import trio

from greenroom.core._internal import serde
from greenroom.interop.serving.asgi import (
    Receive,
    Request,
    Scope,
    Send,
    end_with_client,
    json_reply,
    send_head,
)
from greenroom.interop.serving.guard import Guard
from greenroom.interop.serving.limits import ServerLimits
from greenroom.interop.serving.listener import serve_app
from greenroom.interop.serving.page_files import is_page, show_page
from greenroom.interop.serving.refusals import not_found
from greenroom.interop.serving.tokens import Role, Tokens

_HEAD = (("content-type", "text/event-stream"), ("x-accel-buffering", "no"))
_BEAT = b": still there\n\n"
_STREAMS = 8  # of pages that are open


class ShownAgent(Protocol):
    """An agent to look at, wherever it runs."""

    @property
    def session_id(self) -> str:
        """Its session."""

    def describe(self) -> Mapping[str, object]:
        """Return what the list of sessions says of it."""

    def open(self) -> AbstractAsyncContextManager["trio.MemoryReceiveChannel[tuple[str, bytes]]"]:
        """Give the block the events of its stream: the name, empty for a chunk, and the JSON.

        Raises:
            OSError: its process has ended.
        """


async def serve_shown(
    agent: ShownAgent, *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve the page of an agent on this machine alone, until this is cancelled.

    Args:
        agent: what it shows.
        task_status: for `nursery.start`, which returns the link, with the token in it.

    Raises:
        ConfigurationError: hypercorn is not installed, or the address can't be had.
    """
    limits = ServerLimits(streams=_STREAMS)
    tokens, token = Tokens.make("watch", Role.VIEWER)
    shown = _Shown(agent, limits)
    guard = Guard(shown, tokens=tokens, limits=limits, is_open=is_page)
    await serve_app(
        guard,
        "127.0.0.1",
        0,
        limits=limits,
        grace=1.0,
        on_open=lambda address: f"{address}/#token={token}",
        on_close=shown.end,
        task_status=task_status,
    )


class _Shown:
    """The few routes that the page needs to show one session."""

    def __init__(self, agent: ShownAgent, limits: ServerLimits) -> None:
        self._agent = agent
        self._limits = limits
        self._streams = set[trio.CancelScope]()

    def end(self) -> None:
        for scope in self._streams:
            scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        if is_page(request):
            await (await show_page(request)).send(send)
            return
        await receive()  # the body, of which nothing has any
        match request.method, request.segments:
            case "GET", ("api", "agents"):
                reply: dict[str, object] = {"agents": []}
            case "GET", ("api", "sessions"):
                reply = {"sessions": [self._agent.describe()], "after": None}
            case "GET", ("api", "stream") if request.query.get("session") == self._agent.session_id:
                await self._stream(receive, send)
                return
            case _:
                raise not_found("this page shows an agent, and does nothing else")
        await json_reply(reply).send(send)

    async def _stream(self, receive: Receive, send: Send) -> None:
        if len(self._streams) >= self._limits.streams:
            raise not_found("too many pages are open", "close one")
        scope = trio.CancelScope()
        self._streams.add(scope)
        try:
            async with self._agent.open() as events:
                await send_head(send, 200, _HEAD)
                with scope:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(end_with_client, receive, scope)
                        await self._pass_on(events, send)
                        nursery.cancel_scope.cancel()
            await send({"type": "http.response.body", "body": b""})
        except OSError as error:
            raise not_found("the process of the agent has ended") from error
        finally:
            self._streams.discard(scope)

    async def _pass_on(
        self, events: "trio.MemoryReceiveChannel[tuple[str, bytes]]", send: Send
    ) -> None:
        while True:
            data = _BEAT
            with trio.move_on_after(self._limits.heartbeat):
                try:
                    name, body = await events.receive()
                except trio.EndOfChannel:
                    return
                data = b"event: %b\ndata: %b\n\n" % (name.encode(), body)
            await send({"type": "http.response.body", "body": data, "more_body": True})


def write_snapshot(
    session_id: str, agent: str, *, title: str = "", messages: object = (), state: object = None
) -> bytes:
    """Write how a session is now, in the form of `GET /api/sessions/ID`, without a position."""
    return serde.encode(
        {
            "id": session_id,
            "agent": agent,
            "title": title,
            "state": state or {"kind": "idle"},
            "messages": messages,
            "partial": "",
            "pending": (),
            "usage": {},
            "children": (),
            "position": None,
        }
    )
