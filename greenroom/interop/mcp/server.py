"""How a server of the Model Context Protocol is reached, and the error that says it is not."""

import logging
import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Self, TypeAlias
from urllib.parse import urlsplit

from greenroom.core import ConfigurationError, NetworkError
from greenroom.interop.mcp.login import MCPLogin, ShowPage

START_TIMEOUT = 30.0
"""Seconds that a server may take until its tools are known, unless `MCPServer` says otherwise."""

CALL_TIMEOUT = 120.0
"""Seconds that one call of a server's tool may take, unless `MCPServer` says otherwise."""

RequestAuth: TypeAlias = Callable[
    [str, str, Mapping[str, str], bytes], Awaitable[Mapping[str, str]]
]
"""Authorises one request: `await auth(method, url, headers, body)` returns headers to add to it."""

# What the SDK has to say is in our errors too; without a handler it would be printed.
logging.getLogger("mcp").addHandler(logging.NullHandler())

_NAME = re.compile(r"[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*")  # no "__", which ends it in a tool's name
_LONGEST_NAME = 32
_NOTHING: Mapping[str, str] = MappingProxyType({})


class MCPServerError(NetworkError):
    """A server of tools can't be started or reached, or has ended.

    Attributes:
        server: its name.
    """

    remedy = "run the server's command by hand, or look at what it last wrote"

    def __init__(self, server: str, message: str, *, hint: str = "") -> None:
        """Say what happened to the server of this name."""
        super().__init__(f"the MCP server {server} {message}", hint=hint)
        self.server = server


def check_server_name(name: str) -> str:
    """Return why a text can't be the name of a server; empty if it can.

    Example:
        >>> check_server_name("time"), check_server_name("a__b")
        ('', 'only letters, digits, - and single _ between them are allowed')
    """
    if len(name) > _LONGEST_NAME:
        return f"it has more than {_LONGEST_NAME} characters"
    if not _NAME.fullmatch(name):
        return "only letters, digits, - and single _ between them are allowed"
    return ""


@dataclass(frozen=True, kw_only=True)
class MCPServer:
    """A server of tools: a program that is started, or one that is reached over HTTP.

    `MCPServer.stdio` and `MCPServer.http` make one.

    Attributes:
        name: what its tools are called by, `mcp__NAME__TOOL`.
        command: the program of a local server.
        args: its arguments.
        env: variables that it gets besides the few that every program needs.
        cwd: the folder that it starts in; None for ours.
        url: where a remote server is.
        headers: what every request to it carries.
        auth: returns more headers for each request.
        login: how to log in there, by OAuth.
        start_timeout: seconds until its tools are known.
        call_timeout: seconds that a call may take, without the time in which a person is asked.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=lambda: _NOTHING, repr=False)
    cwd: Path | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=lambda: _NOTHING, repr=False)
    auth: RequestAuth | None = field(default=None, repr=False)
    login: MCPLogin | None = None
    start_timeout: float = START_TIMEOUT
    call_timeout: float = CALL_TIMEOUT

    def __post_init__(self) -> None:
        if why := check_server_name(self.name):
            raise ConfigurationError(
                f"{self.name[:80]!r} can't be the name of an MCP server: {why}"
            )
        if bool(self.command) == bool(self.url):
            raise ConfigurationError(
                f"the MCP server {self.name} needs a command or a URL",
                hint="write MCPServer.stdio(name, command) or MCPServer.http(name, url)",
            )
        if self.login is not None and self.auth is not None:
            raise ConfigurationError(
                f"the MCP server {self.name} has both auth and login", hint="pass one of them"
            )
        for what, texts in (("env", self.env), ("headers", self.headers)):
            pairs = [*texts.items()]
            if not all(isinstance(each, str) for pair in pairs for each in pair):
                raise ConfigurationError(f"the {what} of the MCP server {self.name} are not texts")
            object.__setattr__(self, what, MappingProxyType(dict(pairs)))
        for what in ("start_timeout", "call_timeout"):
            seconds: float = getattr(self, what)
            if not seconds > 0 or math.isnan(seconds):
                raise ConfigurationError(f"{what} is {seconds!r}", hint="give seconds, more than 0")

    @classmethod
    def stdio(
        cls,
        name: str,
        command: str,
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] = _NOTHING,
        cwd: str | Path | None = None,
        start_timeout: float = START_TIMEOUT,
        call_timeout: float = CALL_TIMEOUT,
    ) -> Self:
        """Describe a server that is started as a program, and speaks on its standard streams.

        It gets the search path, the home folder, the language and the like, and `env`: no key or
        token of this process. It can't outlive us, and neither can anything that it starts.

        Args:
            name: what its tools are called by: at most 32 letters, digits, `-` and single `_`.
            command: the program, searched in `PATH`.
            args: its arguments.
            env: more variables.
            cwd: the folder that it starts in; by default ours.
            start_timeout: seconds until its tools are known.
            call_timeout: seconds that a call may take.

        Raises:
            ConfigurationError: an argument makes no sense.

        Example:
            >>> MCPServer.stdio("time", "uvx", ["mcp-server-time"], env={"KEY": "k"})
            MCPServer(time: uvx mcp-server-time)
        """
        if isinstance(args, str):
            raise ConfigurationError(f"args is {args!r}", hint=f"write args=[{args!r}]")
        return cls(
            name=name,
            command=command,
            args=tuple(args),
            env=env,
            cwd=None if cwd is None else Path(cwd),
            start_timeout=start_timeout,
            call_timeout=call_timeout,
        )

    @classmethod
    def http(
        cls,
        name: str,
        url: str,
        *,
        headers: Mapping[str, str] = _NOTHING,
        auth: RequestAuth | None = None,
        start_timeout: float = START_TIMEOUT,
        call_timeout: float = CALL_TIMEOUT,
    ) -> Self:
        """Describe a server that is reached over HTTP ("streamable HTTP", of either era).

        `with_login` says how to log in where a person has to.

        Args:
            name: as for `stdio`.
            url: where it is, such as "https://example.com/mcp".
            headers: what every request carries, such as an `Authorization`. They are sent to this
                server alone, and never shown.
            auth: for tokens that expire, and signatures: awaited with the method, the URL, the
                headers and the body of each request, it returns headers to add.
            start_timeout: as for `stdio`.
            call_timeout: as for `stdio`.

        Raises:
            ConfigurationError: an argument makes no sense.

        Example:
            >>> MCPServer.http("docs", "https://user:pass@example.com/mcp?key=k")
            MCPServer(docs: https://example.com/mcp)
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError(
                f"the MCP server {name[:80]} has no usable URL", hint="begin it with https://"
            )
        return cls(
            name=name,
            url=url,
            headers=headers,
            auth=auth,
            start_timeout=start_timeout,
            call_timeout=call_timeout,
        )

    def with_login(
        self,
        folder: str | Path,
        show: ShowPage | None = None,
        *,
        keyring: bool = False,
        client_id: str = "",
        client_secret: str = "",
        client_url: str = "",
        port: int = 0,
    ) -> Self:
        """Return the same server with a login, by OAuth 2.1 with PKCE, for when it asks for one.

        Without `show` nobody is asked: the tokens of an earlier login are used and renewed, and if
        there are none, the server can't be reached. `greenroom mcp login` makes one.

        Args:
            folder: where tokens are kept, each server's in a file that only the user may read.
            show: shows a person the page at which they log in.
            keyring: whether a new login is kept in the keyring of the system, and the file only
                says so; it needs `greenroom[keyring]`.
            client_id: of a client that is registered with the server already; usually that is done
                on the way, or `client_url` says who we are.
            client_secret: its secret, if it has one.
            client_url: where a document says who we are, for servers that look there.
            port: where the browser comes back to on this machine; 0 takes a free one.

        Raises:
            ConfigurationError: the server has `auth`, too.

        Example:
            >>> server = MCPServer.http("docs", "https://example.com/mcp")
            >>> server.with_login("logins", client_id="us", client_secret="s").login.port
            0
        """
        login = MCPLogin(
            folder=folder,
            show=show,
            keyring=keyring,
            client_id=client_id,
            client_secret=client_secret,
            client_url=client_url,
            port=port,
        )
        return replace(self, login=login)

    @property
    def place(self) -> str:
        """Where it is, for people: its command line, or its URL without what may be secret."""
        if self.command:
            return " ".join((self.command, *self.args))
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        return f"{parts.scheme}://{host}{parts.path}"

    def __repr__(self) -> str:
        return f"MCPServer({self.name}: {self.place})"


def require_sdk() -> None:
    """Check that the SDK of the protocol is installed.

    Raises:
        ConfigurationError: it is not; the hint says how to install it.
    """
    try:
        import mcp  # noqa: F401
    except ImportError as error:
        raise ConfigurationError(
            "the SDK of the Model Context Protocol is not installed",
            hint="pip install 'greenroom[mcp]'",
        ) from error
