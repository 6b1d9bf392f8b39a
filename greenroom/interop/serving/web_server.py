"""`WebServer`: the sessions of a runtime over HTTP."""

import ssl
from collections.abc import Iterable, Mapping

import trio

from greenroom._version import __version__
from greenroom.core import ConfigurationError
from greenroom.core._internal import JSON, write_to_stderr
from greenroom.interop.serving.a2a_card import card_reply, find_card, make_card
from greenroom.interop.serving.a2a_tasks import TaskBook
from greenroom.interop.serving.asgi import App, Receive, Reply, Request, Scope, Send, json_reply
from greenroom.interop.serving.calls import Call
from greenroom.interop.serving.client_tools import AgentFunction
from greenroom.interop.serving.guard import LOCAL, Admission, Guard, caller_of, is_loopback
from greenroom.interop.serving.limits import ServerLimits
from greenroom.interop.serving.listener import serve_app
from greenroom.interop.serving.page_files import is_page, show_page
from greenroom.interop.serving.refusals import forbidden, not_found
from greenroom.interop.serving.route_table import find_route
from greenroom.interop.serving.served_sessions import ServedSessions
from greenroom.interop.serving.sources import RowsOf, Sources, TextOf, TraceOf, View
from greenroom.interop.serving.tokens import Tokens, login_name
from greenroom.runtime import AgentRuntime
from greenroom.runtime._internal import check_agent_function

_PROTOCOLS = ("ag-ui", "a2a")

API = 1
"""The version of the API; a client refuses another, and 0 says that there is none."""


class WebServer:
    """Serves the sessions of a runtime over HTTP: people and programs read, speak and answer.

    Each session belongs to the name of the token that made it, and only that name, or an admin,
    finds it. An input to a session without a running agent starts the agent of its type. A question
    waits as long as an operator is there, and `away` seconds longer; then its turn is suspended,
    and the answer resumes it, whenever it comes.

    Everything runs in the runtime's event loop: enter the runtime first. `app` is an ASGI
    application for a server of yours, which must run it on trio; `serve` listens by itself, which
    needs the extra `greenroom[serve]`.

    Args:
        runtime: runs the agents, and has the store of the sessions.
        agents: what is served, by the type of the sessions: each is an async function that takes
            the agent's internals alone, such as an `Agent`.
        tokens: who may come in; None makes one token for an operator, for this machine alone.
        hosts: the names in the header `Host` that are ours.
        origins: the origins of other sites whose pages may use the server.
        away: seconds after the last operator for which an open question waits.
        owner: the name that has the sessions which belong to nobody, such as those of the
            terminal; None for the name of the token that it makes, else for admins alone.
        limits: the bounds of the server.
        page: whether it also serves the page for browsers, at `/`.
        ag_ui: whether clients of AG-UI may run the agents, by `POST /ag-ui`.
        a2a: whether clients of A2A may run the agents, at `/a2a`.
        card: fields of the cards for A2A that replace ours, such as `supportedInterfaces` where
            clients know the server by another address.
        api: whether it serves the API itself; without it there is nothing but AG-UI and A2A.
        trace: returns the spans of a session.
        metrics: has figures as text, such as `Metrics`.
        audit: returns the lines of the audit.
        ledger: has the costs, such as a `Ledger` that counts since the start; None reads the
            record of the sessions in the store, for each request.
        hosts_view: returns the hosts that agents run on.
        admission: lets requests in by something else than tokens, as hosts of a cluster do.
        mounts: applications behind the same guard, by the name that follows `/api/` in a path.

    Raises:
        TypeError: something in `agents` is not an agent function.
        ConfigurationError: no agent is given, or `agents` is not a mapping.

    Example:
        ```python
        async with AgentRuntime(FileStore("sessions")) as runtime:
            server = WebServer(runtime, {"helper": Agent("anthropic:", name="helper")})
            await server.serve(port=8080)
        ```
    """

    def __init__(
        self,
        runtime: AgentRuntime,
        agents: Mapping[str, AgentFunction],
        *,
        tokens: Tokens | None = None,
        hosts: Iterable[str] = LOCAL,
        origins: Iterable[str] = (),
        away: float = 300.0,
        owner: str | None = None,
        limits: ServerLimits | None = None,
        page: bool = True,
        ag_ui: bool = False,
        a2a: bool = False,
        card: Mapping[str, JSON] | None = None,
        api: bool = True,
        trace: TraceOf | None = None,
        metrics: TextOf | None = None,
        audit: View | None = None,
        ledger: RowsOf | None = None,
        hosts_view: View | None = None,
        admission: Admission | None = None,
        mounts: Mapping[str, App] | None = None,
    ) -> None:
        _check_agents(agents)
        self.limits = limits or ServerLimits()
        self._own_token = ""
        if tokens is None:
            owner = owner or login_name()
            tokens, self._own_token = Tokens.make(owner)
        sources = Sources(
            trace=trace, metrics=metrics, audit=audit, ledger=ledger, hosts_view=hosts_view
        )
        self._sessions = ServedSessions(
            runtime,
            agents,
            self.limits,
            away,
            owner or "",
            sources,
            tokens,
            ag_ui,
            TaskBook(runtime) if a2a else None,
            card or {},
        )
        self._has_api = api
        self._is_closing = False
        self._has_page = page
        self._guard = Guard(
            self._answer,
            tokens=tokens,
            hosts=tuple(hosts),
            origins=origins,
            limits=self.limits,
            is_open=self._is_open,
            admission=admission,
        )
        self._mounts = dict(mounts or {})

    @property
    def app(self) -> App:
        """The server as an ASGI application, to be run on trio in the runtime's event loop."""
        return self._guard

    async def serve(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        grace: float = 3.0,
        tls: ssl.SSLContext | None = None,
        task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Listen until this is cancelled; what is in hand then has `grace` seconds to end.

        Without tokens it prints the link with the token that it has made to standard error.

        Args:
            host: the address to listen at.
            port: the port; 0 takes a free one.
            grace: seconds for requests in hand once this is cancelled; streams end at once.
            tls: a context of the standard library for a server, which makes it `https`.
            task_status: for `nursery.start`, which returns the link: `http://HOST:PORT`, with
                `/#token=TOKEN` if it has made the token.

        Raises:
            ConfigurationError: the address can't be had, or is not this machine's alone and there
                are no tokens, or hypercorn is not installed.
        """
        if self._own_token and not is_loopback(host):
            raise ConfigurationError(
                f"without tokens a server listens on this machine alone, not at {host}",
                hint="`greenroom serve token NAME ROLE` makes a file of tokens for Tokens.load",
            )
        await serve_app(
            self.app,
            host,
            port,
            limits=self.limits,
            grace=grace,
            tls=tls,
            on_open=self._open,
            on_close=self._close,
            task_status=task_status,
        )

    def _open(self, address: str) -> str:
        """Return the link to the server, and print it if it has a token of our making."""
        self._is_closing = False
        if not self._own_token:
            return address
        link = f"{address}/#token={self._own_token}"
        write_to_stderr(f"serving at {link}")  # not to the log, which has no tokens
        return link

    def _close(self) -> None:
        self._is_closing = True
        self._sessions.end_streams()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what has passed the guard."""
        request = Request(scope)
        if self._is_open(request):
            await (await self._answer_open(request)).send(send)
            return
        if not self._has_api and request.segments[0] not in _PROTOCOLS:
            raise not_found("this server has no API", "it serves agents by their protocols alone")
        folder, _, rest = "/".join(request.segments).partition("/")
        mounted = self._mounts.get(rest.partition("/")[0]) if folder == "api" else None
        if mounted is not None:
            await mounted(scope, receive, send)
            return
        route, names = find_route(request.method, request.segments)
        caller = caller_of(scope)
        if not caller.role.allows(route.role):
            raise forbidden(f"this needs the role {route.role}, and the token's is {caller.role}")
        event = await receive()
        body = event["body"]
        assert isinstance(body, bytes)
        call = Call(request, caller, names, body, receive, send)
        answer = await route.handler(self._sessions, call)
        if answer is not None:
            await answer.send(send)

    def _is_open(self, request: Request) -> bool:
        """Whether a request needs no token."""
        is_shown = self._has_page and is_page(request)
        return is_shown or _is_health(request) or self._find_card(request) is not None

    async def _answer_open(self, request: Request) -> Reply:
        """Answer a request that needs no token."""
        if _is_health(request):
            return json_reply(self._health())
        name = self._find_card(request)
        if name is None:
            return await show_page(request)
        agents, changes = self._sessions.agents, self._sessions.card
        is_first = name == next(iter(agents))
        return card_reply(
            make_card(request, name, agents[name], is_first=is_first, changes=changes)
        )

    def _find_card(self, request: Request) -> str | None:
        """Return the name of the agent whose card is asked for, if it is one."""
        if self._sessions.tasks is None or request.method not in ("GET", "HEAD"):
            return None
        return find_card(request.segments, tuple(self._sessions.agents))

    def _health(self) -> dict[str, object]:
        return {
            "server": "greenroom",
            "api": API if self._has_api else 0,
            "version": __version__,
            "status": "closing" if self._is_closing else "ok",
            "streams": self._sessions.streams,
        }


def _check_agents(agents: Mapping[str, AgentFunction]) -> None:
    hint = 'write WebServer(runtime, {"helper": helper})'
    if not isinstance(agents, Mapping):
        shown = type(agents).__name__
        raise ConfigurationError(f"agents= takes agents by their names, not {shown}", hint=hint)
    if not agents:
        raise ConfigurationError("a server needs an agent", hint=hint)
    for function in agents.values():
        check_agent_function(function)


def _is_health(request: Request) -> bool:
    return request.segments == ("health",) and request.method in ("GET", "HEAD")
