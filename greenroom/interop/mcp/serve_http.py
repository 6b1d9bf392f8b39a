"""Our tools over HTTP, behind the guard that serving uses: a name that is ours, and a token."""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Never, cast

import trio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from greenroom.core import ConfigurationError
from greenroom.core._internal import write_to_stderr
from greenroom.interop.mcp.served import ServedTools
from greenroom.interop.serving.asgi import App, Receive, Request, Scope, Send
from greenroom.interop.serving.guard import Guard, caller_of, is_loopback
from greenroom.interop.serving.limits import ServerLimits
from greenroom.interop.serving.listener import serve_app
from greenroom.interop.serving.refusals import forbidden, not_found
from greenroom.interop.serving.tokens import Caller, Role, Tokens, login_name
from greenroom.runtime._internal import run_each

PATH = "mcp"
"""Where the tools are, below the server's address."""

_GRACE = 3.0  # seconds for requests in hand at the end
_LOOK = 0.5  # seconds between two looks at the file of tokens


async def serve_http(
    served: ServedTools,
    address: tuple[str, int],
    *,
    tokens: Tokens | None,
    hosts: Iterable[str],
    origins: Iterable[str] = (),
    limits: ServerLimits | None = None,
    wrap: Callable[[App], App] = lambda app: app,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Listen until this is cancelled.

    Args:
        served: the tools.
        address: the host and the port; port 0 takes a free one.
        tokens: who may come in; None makes a token for this machine alone, and prints it.
        hosts: the names in the header `Host` that are ours.
        origins: the origins of other sites whose pages may call the tools.
        limits: the bounds of the server.
        wrap: put around the guard; for tests.
        task_status: told the URL.

    Raises:
        ConfigurationError: the address can't be had, or is not this machine's alone and there are
            no tokens, or hypercorn is not installed.
    """
    limits, own = limits or ServerLimits(), ""
    if tokens is None:
        if not is_loopback(address[0]):
            raise ConfigurationError(
                f"without tokens a server listens on this machine alone, not at {address[0]}",
                hint="`greenroom serve token NAME ROLE` makes a file of tokens for Tokens.load",
            )
        tokens, own = Tokens.make(login_name())
    sessions = StreamableHTTPSessionManager(
        served.server,
        max_request_body_size=limits.body,
        session_idle_timeout=limits.idle_agent,
        max_sessions=limits.sessions,
    )
    front = _Front(sessions)

    def open_at(link: str) -> str:
        url = f"{link}/{PATH}"
        if own:
            write_to_stderr(f"serving at {url}, to requests with the header")
            write_to_stderr(f"Authorization: Bearer {own}")
        return url

    guard = Guard(front, tokens=tokens, hosts=tuple(hosts), origins=origins, limits=limits)

    async def listen() -> None:
        await serve_app(
            wrap(guard),
            *address,
            limits=limits,
            grace=_GRACE,
            on_open=open_at,
            on_close=front.end_streams,
            task_status=task_status,
        )

    works: list[Callable[[], Awaitable[None]]] = [listen]
    if tokens.may_change:
        works.append(partial(front.end_removed, tokens))
    waiting = iter(works)
    async with sessions.run():
        await run_each(lambda: next(waiting, None), lambda work: work(), len(works))


class _Front:
    """Passes what the guard has let in to the SDK, which learns who it is, and no token."""

    def __init__(self, sessions: StreamableHTTPSessionManager) -> None:
        self._sessions = sessions
        self._streams: dict[trio.CancelScope, Caller] = {}

    def end_streams(self) -> None:
        """End the requests that only wait for news."""
        for each in self._streams:
            each.cancel()

    async def end_removed(self, tokens: Tokens) -> Never:
        """End those of tokens that are removed from their file."""
        while True:
            await trio.sleep(_LOOK)  # a file says nothing when it changes
            if not self._streams:
                continue
            await trio.to_thread.run_sync(tokens.refresh)
            for each, caller in self._streams.items():
                if not tokens.knows(caller):
                    each.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, caller = Request(scope), caller_of(scope)
        if request.segments != (PATH,):
            raise not_found(f"the tools are at /{PATH}")
        if not caller.role.allows(Role.OPERATOR):
            raise forbidden(f"this needs the role operator, and the token's is {caller.role}")
        known = cast("list[tuple[bytes, bytes]]", scope["headers"])
        headers = [each for each in known if each[0].lower() != b"authorization"]
        user = AuthenticatedUser(AccessToken(token="", client_id=caller.digest, scopes=[]))
        scope = {**scope, "headers": headers, "user": user}
        with trio.CancelScope() as standing:
            if request.method == "GET":
                self._streams[standing] = caller
            try:
                # Our types of ASGI are simpler than the SDK's.
                await self._sessions.handle_request(scope, receive, send)  # type: ignore[arg-type]
            finally:
                self._streams.pop(standing, None)
