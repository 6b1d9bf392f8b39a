"""WebFetch against a server on the loopback, and against those who would lead it astray."""

import gzip
import socket
from contextlib import suppress

import pytest
import trio

from greenroom.core import AgentContext, Contact, ToolStatus
from greenroom.tools import ToolRegistry, WebFetch


@pytest.fixture(autouse=True)
def no_proxy_variables(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def answer(body=b"", status="200 OK", **headers):
    fields = {"Content-Length": str(len(body)), "Connection": "close"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


@pytest.fixture
async def serve(nursery):
    """Return a function that serves answers by path, and gives the URL of its root."""

    async def start(pages):
        async def handle(stream):
            request = b""
            while b"\r\n\r\n" not in request:
                request += await stream.receive_some(65536)
            path = request.split()[1].decode()
            with suppress(trio.BrokenResourceError):  # the client has read enough
                await stream.send_all(pages.get(path, answer(status="404 Not Found")))

        async def listen(task_status):
            await trio.serve_tcp(handle, 0, host="127.0.0.1", task_status=task_status)

        listeners = await nursery.start(listen)
        return f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"

    return start


async def fetch(url, tool=None, **more):
    registry = ToolRegistry([tool or WebFetch(allow_private=True)])
    context = AgentContext(session_id="s-1", agent_type="test")
    with trio.fail_after(60):
        return await registry.execute("WebFetch", {"url": url, **more}, context)


def test_it_states_what_it_contacts():
    tool = ToolRegistry([WebFetch()]).get("WebFetch")
    assert (tool.category, tool.concurrent, tool.requires_permission) == ("network", True, True)
    assert tool.effects({"url": "http://a.test/"}, None) == (Contact("http://a.test/"),)
    assert tool.info({"url": "http://a.test/"}).details == "http://a.test/"


async def test_a_page_comes_as_text(serve):
    page = gzip.compress("<h1>Tést</h1><a href='b'>B</a>".encode())
    url = await serve(
        {"/a/": answer(page, Content_Type="text/html; charset=utf-8", Content_Encoding="gzip")}
    )
    result = await fetch(f"{url}/a/")
    assert result.text == f"# Tést\n\n[B]({url}/a/b)"
    assert result.facts == {"url": f"{url}/a/", "http_status": 200}


@pytest.mark.parametrize("limit", [100, 100.0])
async def test_a_text_is_cut_to_what_was_asked_for(serve, limit):
    url = await serve({"/": answer(b"x" * 30_000, Content_Type="text/plain")})
    result = await fetch(f"{url}/", max_characters=limit)
    assert result.text == "x" * 100 + "\n… 30,000 characters in all; max_characters asks for more"
    assert len((await fetch(f"{url}/")).text) < 20_100


async def test_a_huge_page_is_not_read_to_its_end(serve):
    url = await serve({"/": answer(b"x" * 5_000_000, Content_Type="text/plain")})
    result = await fetch(f"{url}/", max_characters=3_000_000)
    assert "spill_file" in result.metadata
    assert result.text.endswith("the page is longer than 2,000,000 bytes; the rest was not fetched")


async def test_an_empty_page_says_so(serve):
    url = await serve({"/": answer(Content_Type="text/html")})
    assert (await fetch(f"{url}/")).text == "The page is empty."


async def test_what_is_no_text_is_refused(serve):
    url = await serve({"/": answer(b"\x89PNG", Content_Type="image/png")})
    result = await fetch(f"{url}/")
    assert (result.status, result.text) == (
        ToolStatus.ERROR,
        "this is image/png, and only text can be fetched",
    )


async def test_an_error_status_is_an_error_with_what_the_server_said(serve):
    url = await serve({"/": answer(b"no such page", "404 Not Found", Content_Type="text/plain")})
    result = await fetch(f"{url}/")
    assert result.is_error
    assert result.text == f"{url}/ answered with HTTP 404.\nno such page"


async def test_redirects_on_the_same_host_are_followed(serve):
    url = await serve(
        {
            "/": answer(status="302 Found", Location="/a"),
            "/a": answer(status="308 Permanent Redirect", Location="b"),
            "/b": answer(b"here", Content_Type="text/plain"),
        }
    )
    result = await fetch(f"{url}/")
    assert (result.text, result.metadata["url"]) == ("here", f"{url}/b")


async def test_a_redirect_to_another_host_is_told_and_not_followed(serve):
    url = await serve({"/": answer(status="302 Found", Location="http://other.test/x")})
    result = await fetch(f"{url}/")
    assert not result.is_error
    assert "moved to another host" in result.text
    assert result.metadata["location"] == "http://other.test/x"


@pytest.mark.parametrize("location", ["file:///etc/passwd", "http://u:p@a.test/", "http://[x/"])
async def test_a_redirect_to_what_is_not_fetched_is_an_error(serve, location):
    url = await serve({"/": answer(status="302 Found", Location=location)})
    assert (await fetch(f"{url}/")).is_error


async def test_redirects_end(serve):
    url = await serve({"/": answer(status="302 Found", Location="/")})
    result = await fetch(f"{url}/")
    assert result.is_error
    assert "redirects more than 5 times" in result.text


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://localhost/",
        "http://2130706433/",
        "http://[::ffff:7f00:1]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[fd00:ec2::254]/",
        "http://0.0.0.0/",
    ],
)
async def test_private_hosts_are_refused(url):
    result = await fetch(url, WebFetch())
    assert result.is_error
    assert "not a public address" in result.text


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://a.test/", "http://u:p@a.test/", "x"])
async def test_other_urls_are_refused(url):
    assert (await fetch(url)).is_error


async def test_the_connection_goes_to_the_address_that_was_judged(serve, monkeypatch):
    from greenroom.tools.builtin import web_page as module

    url = await serve({"/": answer(b"pinned", Content_Type="text/plain")})
    lookups = []

    async def judged(host, port, *, proxied):
        lookups.append(host)
        return "127.0.0.1"

    async def getaddrinfo(host, *_, **__):
        assert host == "127.0.0.1", "a second look-up could lead elsewhere"
        port = int(url.rpartition(":")[2])
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(module, "public_address", judged)
    monkeypatch.setattr(trio.socket, "getaddrinfo", getaddrinfo)
    result = await fetch(url.replace("127.0.0.1", "rebind.test") + "/", WebFetch())
    assert result.text == "pinned"
    assert lookups == ["rebind.test"]


async def test_each_redirect_is_judged_anew(serve, monkeypatch):
    from greenroom.core._internal import AddressRefusedError
    from greenroom.tools.builtin import web_page as module

    url = await serve({"/": answer(status="302 Found", Location="/next")})
    addresses = ["127.0.0.1"]

    async def judged(host, port, *, proxied):
        if not addresses:
            raise AddressRefusedError(f"{host} is at 127.0.0.1, which is not a public address")
        return addresses.pop()

    monkeypatch.setattr(module, "public_address", judged)
    result = await fetch(f"{url}/", WebFetch())
    assert result.is_error
    assert "not a public address" in result.text


async def test_a_dead_host_is_told_in_plain_words():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    result = await fetch(f"http://127.0.0.1:{port}/")
    assert result.text == (
        "127.0.0.1: the connection was refused (is the server running on that port?)"
    )
