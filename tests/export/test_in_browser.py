"""The page in a real browser, on whose way lies a server that hears of every address in it."""

import contextlib
import shutil
from functools import partial

import pytest
import trio

from greenroom.core import ImageBlock, Message, TextBlock, ThinkingBlock, ToolUseBlock
from greenroom.export.html import to_html
from tests.export.talk import EVERYTHING, content, reply, result, user

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
SECONDS = 60
HOSTILE = (
    '<img src="http://one.test/a.png"> ![a](http://two.test/a.png) <http://three.test/> '
    "</title></style></pre></details><script>document.title = 'taken'</script>"
    '<link rel="stylesheet" href="http://four.test/a.css"><style>@import "http://five.test";</style>'
    "\n\n<iframe src='http://six.test/'></iframe>\n\n[b](http://seven.test 'c')"
)

pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no browser")


async def visit(page, profile):
    """Load a page; return what was asked for, of whatever host, and the title in the end."""
    asked = []

    async def answer(stream):
        with contextlib.suppress(trio.BrokenResourceError):
            request = bytes(await stream.receive_some(65_536))
            if request:
                asked.append(request)
            body = page.encode() if request.startswith(b"GET /page ") else b""
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n"
            await stream.send_all(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)

    with trio.fail_after(SECONDS):
        async with trio.open_nursery() as nursery:
            serve = partial(trio.serve_tcp, answer, 0, host="127.0.0.1")
            [listener] = await nursery.start(serve)
            port = listener.socket.getsockname()[1]
            done = await trio.run_process(
                [
                    BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
                    "--disable-background-networking", "--disable-component-update",
                    "--disable-sync", f"--user-data-dir={profile}",
                    f"--host-resolver-rules=MAP *.test 127.0.0.1:{port}",
                    "--virtual-time-budget=2000", "--dump-dom", f"http://page.test:{port}/page",
                ],
                capture_stdout=True,
                capture_stderr=True,
            )  # fmt: skip
            nursery.cancel_scope.cancel()
    paths = [request.split(b"\r\n")[0].decode("latin-1") for request in asked]
    title = done.stdout.decode().partition("<title>")[2].partition("</title>")[0]
    return paths, title


async def test_a_page_makes_no_request_and_runs_nothing(tmp_path):
    said = (
        Message.user(HOSTILE),
        reply(
            ThinkingBlock(HOSTILE),
            TextBlock(HOSTILE),
            ToolUseBlock("h", HOSTILE, {HOSTILE: HOSTILE}),
        ),
        user(result("h", HOSTILE), ImageBlock("image/png", url="http://eight.test/a.png")),
    )
    page = "".join(to_html(content(*EVERYTHING, *said, metadata={"title": f"A talk {HOSTILE}"})))
    paths, title = await visit(page, tmp_path)
    assert paths == ["GET /page HTTP/1.1"]
    assert title.startswith("A talk &lt;img")


async def test_a_page_that_does_is_noticed(tmp_path):
    paths, title = await visit(f"<title>A talk</title>{HOSTILE}", tmp_path)
    assert {"GET /a.png HTTP/1.1", "GET /a.css HTTP/1.1"} <= set(paths)
    assert title == "taken"
