"""Logins at servers over HTTP: made once by a person, kept, renewed, forgotten."""

import base64
import hashlib
import json
import logging
import secrets
import stat
import sys
from functools import partial
from types import SimpleNamespace
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
import httpx2
import pytest
import trio

from greenroom.agents._internal import Toolbox
from greenroom.core import ConfigurationError
from greenroom.core._internal import AddressRefusedError
from greenroom.interop import MCPServer, MCPServers, Tokens
from greenroom.interop._internal import LoginRecord, MCPServerError
from greenroom.interop.mcp.login import MCPLogin
from greenroom.interop.mcp.oauth import check_address
from greenroom.interop.mcp.serve_http import serve_http
from greenroom.interop.mcp.served import ServedTools
from greenroom.interop.serving.asgi import Reply, Request, json_reply, read_body
from greenroom.runtime import AgentRuntime
from greenroom.session import InMemoryStore
from tests.interop.servers import call
from tests.interop.test_mcp_serve import add

# The SDK leaves the streams of responses to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator 'http.*:ResourceWarning")


class Authority:
    """A place to log in, in front of a server that wants its tokens."""

    def __init__(self) -> None:
        self.asked, self.renewed = 0, 0
        self.known, self.codes, self.renewals = set(), {}, set()
        self.revocation = None  # the status that it answers, where it ends logins

    def around(self, app, inner):
        async def answer(scope, receive, send):
            request = Request(scope)
            self.url = f"http://{request.header('host')}"
            handler = getattr(self, request.segments[-1].replace("-", "_"), None)
            if request.segments == ("mcp",):
                if request.header("authorization").removeprefix("Bearer ") in self.known:
                    kept = [each for each in scope["headers"] if each[0] != b"authorization"]
                    token = (b"authorization", f"Bearer {inner}".encode())
                    await app({**scope, "headers": [*kept, token]}, receive, send)
                    return
                headers = (("www-authenticate", "Bearer"),)
                reply = Reply(401, headers=headers)
            elif handler is None:
                reply = Reply(404)
            else:
                body = await read_body(request, receive, 100_000, 10)
                reply = handler(request, body)
            await reply.send(send)

        return answer

    def mcp(self, *_):  # of /.well-known/oauth-protected-resource/mcp
        return json_reply({"resource": f"{self.url}/mcp", "authorization_servers": [self.url]})

    def oauth_authorization_server(self, *_):
        places = {f"{each}_endpoint": f"{self.url}/login/{each}" for each in ("token",)}
        places["authorization_endpoint"] = f"{self.url}/login/authorize"
        places["registration_endpoint"] = f"{self.url}/login/register"
        if self.revocation:
            places["revocation_endpoint"] = f"{self.url}/login/revoke"
        return json_reply(
            {
                "issuer": self.url,
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
                **places,
            }
        )

    def register(self, _, body):
        about = {"client_id": "us", "token_endpoint_auth_method": "none"}
        return json_reply({**json.loads(body), **about}, 201)

    def authorize(self, request, _):
        self.asked += 1
        code = secrets.token_hex()
        self.codes[code] = request.query["code_challenge"]
        back = urlencode({"code": code, "state": request.query["state"]})
        place = f"{request.query['redirect_uri']}?{back}"
        return Reply(302, headers=(("location", place),))

    def revoke(self, _, body):
        given = dict(parse_qsl(body.decode()))
        assert given["client_id"] == "us"
        known = self.known if given["token_type_hint"] == "access_token" else self.renewals
        assert given["token"] in known
        if self.revocation == 200:
            known.remove(given["token"])
        return Reply(self.revocation)

    def token(self, _, body):
        given = dict(parse_qsl(body.decode()))
        if given["grant_type"] == "refresh_token":
            assert given["refresh_token"] in self.renewals
            self.renewed += 1
        else:
            digest = hashlib.sha256(given["code_verifier"].encode()).digest()
            assert self.codes.pop(given["code"]) == base64.urlsafe_b64encode(digest).decode()[:-1]
        token, renewal = secrets.token_hex(), secrets.token_hex()
        self.known.add(token)
        self.renewals.add(renewal)
        return json_reply(
            {
                "access_token": token,
                "token_type": "Bearer",
                "expires_in": 3600,
                "refresh_token": renewal,
            }
        )


@pytest.fixture
async def place():
    """An authority, and the URL of the server behind it."""
    authority = Authority()
    async with (
        AgentRuntime(InMemoryStore()) as runtime,
        trio.open_nursery() as calls,
        trio.open_nursery() as nursery,
    ):
        served = ServedTools(runtime, Toolbox.of([add]), None, calls)
        tokens, token = Tokens.make("ann")
        serve = partial(
            serve_http,
            served,
            ("127.0.0.1", 0),
            tokens=tokens,
            hosts=["127.0.0.1"],
            wrap=lambda app: authority.around(app, token),
        )
        yield authority, await nursery.start(serve)
        nursery.cancel_scope.cancel()


async def log_in(url: str) -> None:
    """Be the person and the browser; somebody else on this machine is there first."""
    async with httpx.AsyncClient(timeout=60) as browser:
        page = await browser.get(url)
        back = page.headers["location"]
        foreign = await browser.get(f"{back}x")
        assert foreign.status_code == 404
        for line in (b"GET //[ HTTP/1.1", b"GET", b"\xff \xff \xff"):
            stream = await trio.open_tcp_stream("127.0.0.1", urlsplit(back).port)
            async with stream:
                await stream.send_all(line + b"\r\n\r\n")
                assert (await stream.receive_some()).startswith(b"HTTP/1.1 404 ")
        assert (await browser.get(back)).status_code == 200


def connect(url: str, **login: object) -> MCPServers:
    return MCPServers(MCPServer.http("demo", url).with_login(**login))


async def test_a_person_logs_in_once_and_later_runs_renew_it(place, tmp_path, caplog) -> None:
    authority, url = place
    with pytest.raises(MCPServerError, match=r"wants a login \(greenroom mcp login demo\)"):
        async with connect(url, folder=tmp_path):
            pass
    assert (authority.asked, [*tmp_path.iterdir()]) == (0, [])
    async with connect(url, folder=tmp_path, show=log_in) as servers:
        assert (await call(servers, "add", a=1, b=2)).text == "3"
    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    async with connect(url, folder=tmp_path) as servers:
        assert (await call(servers, "add", a=2, b=2)).text == "4"
    assert (authority.asked, authority.renewed) == (1, 0)
    kept = json.loads(file.read_text())
    file.write_text(json.dumps({**kept, "expires_at": 1}))
    async with connect(url, folder=tmp_path) as servers:
        assert (await call(servers, "add", a=3, b=2)).text == "5"
    assert authority.asked == 1
    assert authority.renewed == 1
    told = caplog.text
    assert not [each for each in (*authority.known, *authority.renewals) if each in told]
    record = LoginRecord.of(MCPLogin(folder=tmp_path), "demo", url)
    assert record.remove()
    assert not record.remove()
    with pytest.raises(MCPServerError, match="wants a login"):
        async with connect(url, folder=tmp_path):
            pass


async def test_a_login_that_no_longer_counts_is_wanted_again_and_nothing_is_printed(
    place, tmp_path, monkeypatch, capfd
) -> None:
    authority, url = place
    async with connect(url, folder=tmp_path, show=log_in):
        pass
    authority.known.clear()
    monkeypatch.setattr(logging.root, "handlers", [])  # as in a program that configures none
    with pytest.raises(MCPServerError, match="wants a login"):
        async with connect(url, folder=tmp_path):
            pass
    assert capfd.readouterr().err == ""


async def test_a_login_that_nobody_makes_ends_in_time(place, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("greenroom.interop.mcp.oauth._PATIENCE", 0.01)

    async def look_away(_: str) -> None:
        await trio.lowlevel.checkpoint()

    with pytest.raises(MCPServerError, match="nobody has logged in"):
        async with connect(place[1], folder=tmp_path, show=look_away):
            pass


@pytest.mark.parametrize(
    ("server", "place", "is_asked"),
    [
        ("https://1.1.1.1/mcp", "http://1.1.1.1/login", False),
        ("https://1.1.1.1/mcp", "https://169.254.169.254/token", False),
        ("https://1.1.1.1/mcp", "https://127.0.0.1/token", False),
        ("https://1.1.1.1/mcp", "https://1.0.0.1/token", True),
        ("https://1.1.1.1/mcp", "https://1.1.1.1/token", True),
        ("http://127.0.0.1:80/mcp", "http://127.0.0.1:81/token", True),
    ],
)
async def test_only_public_places_are_asked_for_a_public_server(server, place, is_asked) -> None:
    try:
        await check_address(server, httpx2.Request("POST", place))
    except AddressRefusedError:
        assert not is_asked
    else:
        assert is_asked


def test_a_login_may_be_in_the_keyring(tmp_path, monkeypatch) -> None:
    kept = {}

    def delete(service, name):
        if (service, name) not in kept:
            raise RuntimeError("no such password")
        del kept[service, name]

    fake = SimpleNamespace(
        set_password=lambda service, name, value: kept.update({(service, name): value}),
        get_password=lambda service, name: kept.get((service, name)),
        delete_password=delete,
        errors=SimpleNamespace(KeyringError=RuntimeError),
    )
    monkeypatch.setitem(sys.modules, "keyring", fake)
    record = LoginRecord.of(MCPLogin(folder=tmp_path, keyring=True), "demo", "https://a.example")
    record.write({"tokens": "secret"})
    assert "secret" not in record.path.read_text()
    assert LoginRecord.of(MCPLogin(folder=tmp_path), "demo", "https://a.example").read() == {
        "tokens": "secret"
    }
    assert LoginRecord.of(MCPLogin(folder=tmp_path), "demo", "https://b.example").read() == {}
    assert record.remove()
    assert kept == {}
    record.write({"tokens": "secret"})
    kept.clear()  # by a person, in a program of the system
    assert record.read() == {}
    assert record.remove()
    assert not record.remove()


def test_a_login_that_cannot_be_removed_is_said_to_be_there(tmp_path) -> None:
    record = LoginRecord.of(MCPLogin(folder=tmp_path), "demo", "https://a.example")
    record.path.mkdir()
    with pytest.raises(ConfigurationError, match="can't be removed"):
        record.remove()


def test_a_login_that_others_may_read_is_not_used(tmp_path) -> None:
    record = LoginRecord.of(MCPLogin(folder=tmp_path), "demo", "https://a.example")
    record.write({})
    record.path.chmod(0o644)
    with pytest.raises(ConfigurationError, match="may be read by others"):
        record.read()
