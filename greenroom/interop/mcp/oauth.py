"""The login at a server over HTTP: the SDK's flow, with our storage, and a page for the browser.

What a server names as the place to log in is somebody else's word, and is asked with our requests:
so it has to be https, and a public address, unless the server itself is on this machine or network.
"""

import hmac
import ipaddress
import socket
from collections.abc import AsyncGenerator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import httpx2
import trio
from mcp.client.auth import OAuthClientProvider, OAuthTokenError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from greenroom.core import NetworkError
from greenroom.core._internal import (
    AddressRefusedError,
    NetworkTimeoutError,
    clip,
    describe_error,
)
from greenroom.interop.mcp.login import LoginRecord, MCPLogin, ShowPage
from greenroom.interop.mcp.server import MCPServer
from greenroom.net._internal import is_public, proxy_for, public_address

if TYPE_CHECKING:
    from mcp.client.auth.oauth2 import OAuthContext

_CALLBACK = "/callback"
_PATIENCE = 300.0  # seconds for a person to log in
_SLOW = 10.0  # seconds for a request of the browser
_MOST = 8_192  # bytes of a request of the browser
_BACK = "<!doctype html><title>greenroom</title><p>You may close this page, and go back."


class _Stored(BaseModel):
    """A login as it is kept, with what is needed to renew it."""

    tokens: OAuthToken | None = None
    expires_at: float | None = None  # seconds since 1970
    client: OAuthClientInformationFull | None = None
    metadata: OAuthMetadata | None = None
    resource: ProtectedResourceMetadata | None = None


async def open_login(server: MCPServer, login: MCPLogin) -> httpx2.Auth:
    """Make what authorises the requests to a server.

    Raises:
        ConfigurationError: the login can't be read.
    """
    record = LoginRecord.of(login, server.name, server.url)
    stored = _parse(await trio.to_thread.run_sync(record.read))
    if stored.tokens is None and login.show is None:
        return _NoLogin(server.name)
    return _make_provider(server, login, record, stored)


async def revoke_login(server: MCPServer) -> bool:
    """End a login where it was made, so that nobody can use its tokens any more.

    Returns:
        Whether that was possible; not without a login, or where none is ended.

    Raises:
        ConfigurationError: the login can't be read.
        NetworkError: the place can't be reached, took too long, or refused.
    """
    if server.login is None:
        return False
    record = LoginRecord.of(server.login, server.name, server.url)
    stored = _parse(await trio.to_thread.run_sync(record.read))
    if stored.tokens is None or stored.metadata is None:
        return False
    if (place := stored.metadata.revocation_endpoint) is None:
        return False
    context = _make_provider(server, server.login, record, stored).context
    context.client_info = stored.client
    kinds = ("refresh_token", "access_token")  # the first ends the second as well at most places
    check = partial(check_address, server.url)
    try:
        with trio.fail_after(_SLOW):
            async with httpx2.AsyncClient(event_hooks={"request": [check]}) as client:
                for kind in kinds:
                    if token := getattr(stored.tokens, kind):
                        await _revoke(client, str(place), context, {"token": token}, kind)
    except (httpx2.HTTPError, OAuthTokenError) as error:
        raise NetworkError(f"{place}: {describe_error(error)}") from error
    except trio.TooSlowError as error:
        raise NetworkTimeoutError(f"{place} did not answer", phase="total") from error
    return True


async def _revoke(
    client: httpx2.AsyncClient, place: str, context: "OAuthContext", data: dict[str, str], kind: str
) -> None:
    known = context.client_info.client_id if context.client_info else None
    given = {**data, "token_type_hint": kind, **({"client_id": known} if known else {})}
    given, headers = context.prepare_token_auth(given, {})
    async with client.stream("POST", place, data=given, headers=headers) as response:
        if response.status_code != 200:  # its body is of no use, and of any length
            raise NetworkError(f"{place} refused: {response.status_code}")


def _parse(content: dict[str, object]) -> _Stored:
    try:
        return _Stored.model_validate(content)
    except ValidationError:  # of another version, or damaged: the next login replaces it
        return _Stored()


class _NoLogin(httpx2.Auth):
    """Says what to do where a server wants a login."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        response = yield request
        if response.status_code == 401:
            raise LoginError(self._name)


class LoginError(Exception):
    """A server wants a login, and there is none; the text says what to do."""

    def __init__(self, name: str, why: str = "") -> None:
        """Say why, and how to log in at the server of this name."""
        told = f"wants a login: {why}" if why else "wants a login"
        super().__init__(f"{told} (greenroom mcp login {name})")


def _make_provider(
    server: MCPServer, login: MCPLogin, record: LoginRecord, stored: _Stored
) -> OAuthClientProvider:
    port = login.port or _port_of(stored.client) or _free_port()
    browser = _Browser(server.name, login.show, port)
    storage = _Storage(record, stored, login, browser.url)
    provider = OAuthClientProvider(
        server.url,
        OAuthClientMetadata(client_name="greenroom", redirect_uris=[AnyUrl(browser.url)]),
        storage,
        browser.show,
        browser.wait,
        client_metadata_url=login.client_url or None,
    )
    storage.context = context = provider.context
    context.token_expiry_time = stored.expires_at
    context.oauth_metadata, context.protected_resource_metadata = stored.metadata, stored.resource
    if stored.resource is not None and stored.resource.authorization_servers:
        context.auth_server_url = str(stored.resource.authorization_servers[0])
    return provider


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _port_of(client: OAuthClientInformationFull | None) -> int:
    """Return the port that a client was registered with, since some servers insist on it."""
    known = client.redirect_uris if client is not None else None
    return (known[0].port or 0) if known else 0


class _Storage:
    """Keeps what the SDK hands over, with what it needs to renew a login in a later process."""

    def __init__(self, record: LoginRecord, stored: _Stored, login: MCPLogin, back: str) -> None:
        self._record, self._stored, self._login, self._back = record, stored, login, back
        self.context: OAuthContext | None = None

    async def get_tokens(self) -> OAuthToken | None:
        await trio.lowlevel.checkpoint()
        return self._stored.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        context = self.context
        assert context is not None  # set where the provider is made
        self._stored = _Stored(
            tokens=tokens,
            expires_at=context.token_expiry_time,
            client=context.client_info,
            metadata=context.oauth_metadata,
            resource=context.protected_resource_metadata,
        )
        await self._save()

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        await trio.lowlevel.checkpoint()
        login = self._login
        if not login.client_id:
            return self._stored.client
        method = "client_secret_basic" if login.client_secret else "none"
        return OAuthClientInformationFull(
            client_id=login.client_id,
            client_secret=login.client_secret or None,
            redirect_uris=[AnyUrl(self._back)],
            token_endpoint_auth_method=method,
        )

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._stored = self._stored.model_copy(update={"client": client_info})
        await self._save()

    async def _save(self) -> None:
        content = self._stored.model_dump(mode="json", exclude_none=True)
        await trio.to_thread.run_sync(self._record.write, content)


class _Browser:
    """Shows a person where to log in, and takes the browser back on this machine."""

    def __init__(self, name: str, show: ShowPage | None, port: int) -> None:
        self._name, self._show, self._port = name, show, port
        self._page = ""
        self.url = f"http://127.0.0.1:{port}{_CALLBACK}"

    async def show(self, url: str) -> None:
        """Note the page; it is shown when there is somebody at the place to come back to."""
        await trio.lowlevel.checkpoint()
        if self._show is None:
            raise LoginError(self._name)
        self._page = url

    async def wait(self) -> AuthorizationCodeResult:
        """Show the page, and wait until the browser comes back with its answer.

        Raises:
            LoginError: it came back with a refusal, or not in time.
        """
        show, send, receive = self._show, *trio.open_memory_channel[dict[str, str]](1)
        assert show is not None  # checked above
        try:
            listeners = await trio.open_tcp_listeners(self._port, host="127.0.0.1")
        except OSError as error:
            why = f"the port {self._port}, where the browser comes back to, is taken"
            raise LoginError(self._name, why) from error
        found: dict[str, str] = {}
        answer = partial(self._answer, send)
        with trio.move_on_after(_PATIENCE):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.serve_listeners, answer, listeners)
                nursery.start_soon(show, self._page)
                found = await receive.receive()
                nursery.cancel_scope.cancel()
        if "code" not in found:
            raise LoginError(self._name, clip(found.get("error", "nobody has logged in"), 200))
        return AuthorizationCodeResult(
            code=found["code"], state=found["state"], iss=found.get("iss")
        )

    async def _answer(
        self, send: trio.MemorySendChannel[dict[str, str]], stream: trio.SocketStream
    ) -> None:
        """Answer a request; only one that knows what the page was given can be the browser's."""
        data = b""
        with trio.move_on_after(_SLOW), suppress(trio.BrokenResourceError):
            async with stream:
                while b"\r\n\r\n" not in data and len(data) < _MOST:
                    more = await stream.receive_some(_MOST)
                    if not more:
                        return
                    data += more
                target = data.split(b" ", 2)[1].decode("latin-1") if data.count(b" ") > 1 else ""
                given = _read_query(target)
                is_back = target.partition("?")[0] == _CALLBACK and _is_equal(
                    given.get("state", ""), _read_query(self._page).get("state", "")
                )
                status, body = ("200 OK", _BACK) if is_back else ("404 Not Found", "")
                await stream.send_all(_reply(status, body))
                if is_back:
                    with suppress(trio.WouldBlock):  # it has come back already
                        send.send_nowait(given)


def _is_equal(one: str, other: str) -> bool:
    return bool(other) and hmac.compare_digest(one.encode(), other.encode())


def _read_query(url: str) -> dict[str, str]:
    try:
        found = parse_qs(urlsplit(url).query, max_num_fields=20)
    except ValueError:
        return {}
    return {name: values[0] for name, values in found.items()}


def _reply(status: str, body: str) -> bytes:
    head = (
        f"HTTP/1.1 {status}",
        "content-type: text/html; charset=utf-8",
        f"content-length: {len(body.encode())}",
        "content-security-policy: default-src 'none'; frame-ancestors 'none'",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
        "connection: close",
    )
    return "\r\n".join((*head, "", body)).encode()


async def check_address(server: str, request: httpx2.Request) -> None:
    """Refuse a request to another place than the server, unless it is https and public.

    A server on this machine or network may name places there as well.

    Raises:
        AddressRefusedError: it may not be asked.
    """
    own, url = httpx2.URL(server), request.url
    if (own.scheme, own.host, own.port) == (url.scheme, url.host, url.port):
        return
    if await _is_local(own.host):
        return
    if url.scheme != "https":
        raise AddressRefusedError(f"{url.host} is to be asked without encryption")
    proxied = proxy_for(url.scheme, url.host) is not None
    await public_address(url.host, url.port or 443, proxied=proxied)


async def _is_local(host: str) -> bool:
    try:
        return not is_public(str(ipaddress.ip_address(host)))
    except ValueError:
        try:
            await public_address(host, 443, proxied=True)
        except AddressRefusedError:
            return True
    return False
