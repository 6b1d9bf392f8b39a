"""The guard of a server: what every request must pass before an application sees it.

In this order: HTTP of version 1; a `Host` that is ours, since a page of another site may reach us
under a name of its own; an `Origin` that is ours or none; a token, unless the path needs none; and
a body that is complete, within its bounds. The application finds the caller in the scope, and the
body there at once. Headers such as `X-Forwarded-For` count for nothing.
"""

import hashlib
import ipaddress
import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import urlsplit

import trio

from greenroom.core._internal import log_error
from greenroom.interop.serving.asgi import (
    App,
    ClientGoneError,
    Event,
    Receive,
    Reply,
    Request,
    Scope,
    Send,
    read_body,
    refusal_reply,
)
from greenroom.interop.serving.limits import ServerLimits
from greenroom.interop.serving.refusals import RequestRefusedError, refusal_of
from greenroom.interop.serving.tokens import Caller, Tokens

logger = logging.getLogger("greenroom.serving")

LOCAL = ("localhost", "127.0.0.1", "[::1]")
"""The names under which a server on this machine is asked for: any other needs `hosts`."""

_CALLER = "greenroom.caller"
_METHODS = "GET, POST, DELETE"
_ALLOWED_HEADERS = (
    "authorization, accept, content-type, last-event-id, traceparent, "
    "mcp-session-id, mcp-protocol-version, mcp-method, mcp-name, a2a-version, a2a-extensions"
)
_FRESH = 0.5  # seconds for which a look at the file of tokens counts


@dataclass(frozen=True)
class Admitted:
    """A request that was let in by its head.

    Attributes:
        caller: who sends it.
        digest: the SHA-256 of the body that belongs to it.
    """

    caller: Caller
    digest: bytes


Admission: TypeAlias = Callable[[Request], Admitted]
"""Lets a request in by its head, or raises `RequestRefusedError`: signatures in place of tokens."""


class Guard:
    """An ASGI application that lets an application see only what has passed.

    Args:
        app: the application behind it.
        tokens: whom it lets in.
        hosts: the names in `Host` that are ours, without a port.
        origins: the origins of other sites whose pages may use the server, such as
            "https://desk.example.org"; its own pages need no entry.
        limits: the bounds of a request.
        is_open: whether a path needs no token.
        admission: what lets requests in that need a token, in place of tokens.
    """

    def __init__(
        self,
        app: App,
        *,
        tokens: Tokens,
        hosts: Collection[str] = LOCAL,
        origins: Iterable[str] = (),
        limits: ServerLimits | None = None,
        is_open: Callable[[Request], bool] = lambda request: False,
        admission: Admission | None = None,
    ) -> None:
        self._admission = admission
        self._app = app
        self._tokens = tokens
        self._hosts = {each.lower() for each in hosts}
        self._origins = {each.lower().rstrip("/") for each in origins}
        self._limits = limits or ServerLimits()
        self._is_open = is_open
        self._checked = float("-inf")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or refuse it."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            return
        reply = _Reply(send)
        try:
            await self._pass_on(Request(scope), receive, reply)
        except ClientGoneError:
            return
        except Exception as error:  # noqa: BLE001 (told to the client, and logged)
            refusal = refusal_of(error)
            if refusal.status == 500:
                log_error(logger, f"a request of {scope['method']} failed", error)
            if not reply.has_begun:
                await refusal_reply(refusal).send(reply.send)

    async def _pass_on(self, request: Request, receive: Receive, reply: "_Reply") -> None:
        scope = request.scope
        if not str(scope["http_version"]).startswith("1"):
            raise RequestRefusedError(505, "this server speaks HTTP/1.1", kind="http_version")
        self._check_host(request)
        origin = self._check_origin(request)
        reply.origin = origin
        if origin and request.method == "OPTIONS":
            await _allow_origin().send(reply.send)
            return
        if not self._is_open(request):
            admitted = None if self._admission is None else self._admission(request)
            if admitted is None:
                await self.refresh_tokens()
                scope[_CALLER] = self._find_caller(request)
            else:
                scope[_CALLER] = admitted.caller
            limits = self._limits
            body = await read_body(request, receive, limits.body, limits.body_timeout)
            if admitted is not None and hashlib.sha256(body).digest() != admitted.digest:
                raise RequestRefusedError(401, "the body is not the signed one", kind="signature")
            receive = _replay(body, receive)
        await self._app(scope, receive, reply.send)

    async def refresh_tokens(self) -> None:
        """Look whether the file of tokens has changed, unless somebody just did."""
        now = trio.current_time()
        if now - self._checked >= _FRESH:
            self._checked = now
            await trio.to_thread.run_sync(self._tokens.refresh)

    def _check_host(self, request: Request) -> None:
        name, is_valid = _split_port(request.header("host").lower())
        if not is_valid or name not in self._hosts:
            raise RequestRefusedError(
                421,
                "this server is not known under the name in the header Host",
                kind="host",
                hint="ask for it as localhost or 127.0.0.1, or start it with that name among its "
                "hosts (--allow-host)",
            )

    def _check_origin(self, request: Request) -> str:
        """Return the origin of the page that asks, if it is another program's; else nothing."""
        if "origin" not in request.headers:
            return ""
        origin = request.header("origin").lower()
        parts = urlsplit(origin)
        is_own = (
            parts.scheme in ("http", "https") and parts.netloc == request.header("host").lower()
        )
        if origin in self._origins:
            return origin
        if is_own and origin == f"{parts.scheme}://{parts.netloc}":
            return ""
        raise RequestRefusedError(
            403,
            "pages of this origin may not use the server",
            kind="origin",
            hint="start the server with this origin among its origins (--origin)",
        )

    def _find_caller(self, request: Request) -> Caller:
        scheme, _, token = request.header("authorization").partition(" ")
        caller = self._tokens.find(token.strip()) if scheme.lower() == "bearer" else None
        if caller is None:
            raise RequestRefusedError(
                401,
                "a valid token is needed",
                kind="token",
                hint="send it in the header Authorization, as Bearer TOKEN",
                headers=(("www-authenticate", "Bearer"),),
            )
        return caller


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address to listen at."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def caller_of(scope: Scope) -> Caller:
    """Return who sent a request that has passed the guard."""
    caller = scope[_CALLER]
    assert isinstance(caller, Caller)
    return caller


class _Reply:
    """A reply: whether it has begun, so that no second one is sent, and what browsers are told.

    Attributes:
        has_begun: whether its head is sent.
        origin: the origin of another site whose page may read it; empty without one.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False
        self.origin = ""

    async def send(self, event: Event) -> None:
        if event["type"] == "http.response.start" and self.origin:
            known = event["headers"]
            assert isinstance(known, list)
            origin = (b"access-control-allow-origin", self.origin.encode("latin-1"))
            shown = (b"access-control-expose-headers", b"mcp-session-id")
            event = {**event, "headers": [*known, origin, shown, (b"vary", b"origin")]}
        self.has_begun = True
        await self._send(event)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return what gives a body that has been read, and then what comes behind it."""
    waiting = [body]

    async def receive_again() -> Event:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return receive_again


def _allow_origin() -> Reply:
    """Make the reply to a browser that asks whether a page may send a request."""
    return Reply(
        204,
        headers=(
            ("access-control-allow-methods", _METHODS),
            ("access-control-allow-headers", _ALLOWED_HEADERS),
            ("access-control-max-age", "600"),
        ),
    )


def _split_port(host: str) -> tuple[str, bool]:
    """Return the name in a header `Host` without its port, and whether the port is one."""
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        return host, True
    return name, port.isdecimal()
