"""What the environment says: proxies, trusted certificates, and the one line that names httpx."""

import ast
import re
import ssl
import urllib.request
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

import greenroom.net
from greenroom.core import ConfigurationError, NetworkError
from greenroom.core._internal import NetworkTimeoutError
from greenroom.net import HttpClient, tls
from greenroom.net._internal import Timeouts, proxy_for

PEM = Path(__file__).with_name("server.pem")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"


async def get(url, **options):
    with trio.fail_after(60):
        async with HttpClient() as client, client.stream("GET", url, **options) as response:
            return await response.read()


@pytest.fixture
async def secure_port(nursery):
    """Serve TLS, with a certificate for example.test and 127.0.0.1."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)

    async def handle(stream):
        try:
            await stream.receive_some(65536)
            await stream.send_all(OK)
        except trio.BrokenResourceError:
            pass  # the client did not trust us

    start = partial(
        trio.serve_ssl_over_tcp, handle, 0, context, host="127.0.0.1", https_compatible=True
    )
    listeners = await nursery.start(start)
    return listeners[0].transport_listener.socket.getsockname()[1]


async def test_a_certificate_of_ssl_cert_file_is_trusted(secure_port, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(PEM))
    assert await get(f"https://127.0.0.1:{secure_port}/") == b"hello"


async def test_a_tls_connection_carries_one_request_after_another(nursery, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    connections = []
    ended = trio.Event()

    async def handle(stream):
        connections.append(stream)
        for _ in range(3 if len(connections) == 1 else 1):
            await stream.receive_some(65536)
            await stream.send_all(OK.replace(b"Connection: close\r\n", b""))
        await stream.aclose()  # while it is kept: the next request needs another connection
        ended.set()

    start = partial(
        trio.serve_ssl_over_tcp, handle, 0, context, host="127.0.0.1", https_compatible=True
    )
    listeners = await nursery.start(start)
    port = listeners[0].transport_listener.socket.getsockname()[1]
    async with HttpClient() as client:
        for number in range(4):
            async with client.stream("GET", f"https://127.0.0.1:{port}/") as response:
                assert await response.read() == b"hello"
            if number == 2:
                await ended.wait()
                await trio.testing.wait_all_tasks_blocked()
    assert len(connections) == 2


async def test_a_certificate_that_nobody_vouches_for_is_refused_with_a_hint(
    secure_port, monkeypatch
):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    with pytest.raises(NetworkError, match=r"its certificate is not trusted .*SSL_CERT_FILE"):
        await get(f"https://127.0.0.1:{secure_port}/")


async def test_behind_a_pinned_address_the_certificate_must_be_the_names(secure_port, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(PEM))
    url = f"https://example.test:{secure_port}/"
    assert await get(url, address="127.0.0.1") == b"hello"
    with pytest.raises(NetworkError, match=r"other\.test: its certificate is not trusted"):
        await get(f"https://other.test:{secure_port}/", address="127.0.0.1")


async def test_tls_with_a_server_that_speaks_none_says_so(nursery):
    async def plain(stream):
        await stream.receive_some(65536)
        await stream.send_all(OK)

    listeners = await nursery.start(partial(trio.serve_tcp, plain, 0, host="127.0.0.1"))
    port = listeners[0].socket.getsockname()[1]
    with pytest.raises(NetworkError, match="no TLS connection"):
        await get(f"https://127.0.0.1:{port}/")


@pytest.mark.parametrize("content", [None, "no certificate"])
async def test_certificates_that_can_not_be_loaded_are_a_clear_error(
    tmp_path, monkeypatch, content
):
    file = tmp_path / "ca.pem"
    if content:
        file.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with pytest.raises(ConfigurationError, match=r"ca\.pem can't be loaded: .*SSL_CERT_FILE"):
        await get("https://127.0.0.1:9/")


async def test_the_trusted_certificates_are_loaded_once_however_many_ask(monkeypatch):
    contexts = []

    async def ask():
        contexts.append(await tls.tls_context())

    monkeypatch.setattr(tls, "_contexts", {})
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(ask)
    assert len(set(contexts)) == 1


async def test_http_goes_through_the_proxy_that_the_environment_names(serve, monkeypatch):
    proxy = await serve(OK)
    monkeypatch.setenv("HTTP_PROXY", f"127.0.0.1:{proxy.port}")
    assert await get("http://behind.test/x", address="10.0.0.1") == b"hello"
    assert proxy.requests[0].startswith("GET http://behind.test/x HTTP/1.1")
    assert "Host: behind.test" in proxy.requests[0]


async def test_https_goes_through_a_tunnel(serve, secure_port, monkeypatch):
    async def tunnel(head, stream):
        other = await trio.open_tcp_stream("127.0.0.1", secure_port)
        await stream.send_all(b"HTTP/1.1 200 Connected\r\n\r\n")

        async def pump(source, sink):
            async for data in source:
                await sink.send_all(data)
            nursery.cancel_scope.cancel()

        async with other, trio.open_nursery() as nursery:
            nursery.start_soon(pump, stream, other)
            nursery.start_soon(pump, other, stream)

    proxy = await serve(tunnel)
    monkeypatch.setenv("HTTPS_PROXY", proxy.url)
    monkeypatch.setenv("SSL_CERT_FILE", str(PEM))
    assert await get("https://example.test/") == b"hello"
    assert proxy.requests[0].startswith("CONNECT example.test:443 HTTP/1.1")


async def test_to_ask_a_proxy_for_a_tunnel_belongs_to_connecting(serve, monkeypatch):
    async def silent(_, stream):
        await stream.receive_some()

    proxy = await serve(silent)
    monkeypatch.setenv("HTTPS_PROXY", proxy.url)
    with pytest.raises(NetworkTimeoutError, match=r"no connection within 0\.05 seconds"):
        await get("https://example.test/", timeout=Timeouts(connect=0.05))


async def test_a_proxy_that_refuses_is_named_without_its_password(serve, monkeypatch):
    proxy = await serve(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
    monkeypatch.setenv("HTTPS_PROXY", f"http://user:secret@127.0.0.1:{proxy.port}")
    with pytest.raises(NetworkError, match="the proxy refused") as caught:
        await get("https://behind.test/")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("proxy", ["ldap://user:secret@host", "http://user:secret@host:x"])
async def test_a_proxy_that_can_not_be_used_is_a_clear_error(monkeypatch, proxy):
    monkeypatch.setenv("HTTP_PROXY", proxy)
    with pytest.raises(ConfigurationError, match="the proxy that the environment names") as caught:
        await get("http://behind.test/")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "no_proxy", "direct"),
    [
        ("a.test", "", False),
        ("a.test", "*", True),
        ("a.test", "b.test, A.test", True),
        ("x.a.test", "a.test", True),
        ("x.a.test", ".a.test", True),
        ("x.a.test", "*.a.test", True),
        ("xa.test", "a.test", False),
        ("a.test", "a.test:8080", True),
        ("10.1.2.3", "10.0.0.0/8", True),
        ("11.1.2.3", "10.0.0.0/8", False),
        ("127.0.0.1", "127.0.0.1", True),
        ("::1", "[::1]", True),
        ("::1", "127.0.0.1", False),
    ],
)
def test_no_proxy_lists_what_is_contacted_directly(monkeypatch, host, no_proxy, direct):
    monkeypatch.setenv("HTTP_PROXY", "proxy.test:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    assert proxy_for("http", host) == (None if direct else "http://proxy.test:3128")
    assert proxy_for("https", host) is None


async def test_what_no_proxy_covers_goes_round_the_proxy(serve, monkeypatch, unused_port):
    server = await serve(OK)
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{unused_port}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.0/24")
    assert await get(server.url) == b"hello"
    assert server.requests[0].startswith("GET / HTTP/1.1")


async def test_the_proxy_is_looked_up_when_a_connection_is_made(serve, monkeypatch):
    kept = OK.replace(b"Connection: close\r\n", b"")
    server, proxy = await serve(kept), await serve(OK)
    with trio.fail_after(60):
        async with HttpClient() as client:
            for _ in range(2):
                async with client.stream("GET", server.url) as response:
                    assert await response.read() == b"hello"
                monkeypatch.setenv("HTTP_PROXY", proxy.url)
            assert (server.connections, proxy.requests) == (1, [])
            await client.aclose()
            async with client.stream("GET", server.url, address="10.0.0.1") as response:
                assert await response.read() == b"hello"
    assert len(server.requests) == 2
    assert proxy.requests[0].startswith(f"GET {server.url} HTTP/1.1")


@pytest.mark.parametrize("small", [None, "", "http://small.test:1"])
@pytest.mark.parametrize("capital", [None, "", "http://capital.test:1"])
@pytest.mark.parametrize("in_cgi", [False, True])
def test_a_variable_counts_as_it_does_for_urllib(monkeypatch, small, capital, in_cgi):
    settings = {"http_proxy": small, "HTTP_PROXY": capital, "REQUEST_METHOD": in_cgi and "GET"}
    for name, value in settings.items():
        if value is None or value is False:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    expected = urllib.request.getproxies_environment().get("http")
    assert proxy_for("http", "far.test") == expected


def test_all_proxy_stands_in_for_both(monkeypatch):
    monkeypatch.setenv("ALL_PROXY", "socks5://proxy.test:1080")
    assert proxy_for("https", "a.test") == "socks5://proxy.test:1080"


def test_one_module_names_the_http_library():
    root = Path(greenroom.net.__file__).parents[1]
    naming = [
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if (text := path.read_text(encoding="utf-8")) and re.search("httpx|httpcore", text)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        and (getattr(node, "module", None) or node.names[0].name).split(".")[0]
        in ("httpx", "httpx2", "httpcore")
    ]
    # The SDK for servers of tools brings httpx2, and takes its clients and raises its errors.
    ours = [each for each in naming if not each.startswith("interop/mcp/")]
    assert ours == ["net/httpx_connection.py"]


def test_every_error_of_the_library_is_mapped():
    from greenroom.net.httpx_connection import httpx, map_errors

    def subclasses(kind):
        return {kind, *(leaf for child in kind.__subclasses__() for leaf in subclasses(child))}

    for kind in subclasses(httpx.RequestError):
        with pytest.raises(NetworkError, match=r"^a\.test: ") as caught, map_errors("a.test"):
            raise kind("Bearer secret")
        assert "secret" not in str(caught.value)
        assert caught.value.__suppress_context__
