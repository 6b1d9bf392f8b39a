"""The engines of `WebSearch` against fakes that answer as the vendors' documentation says."""

import json
import re
from contextlib import suppress
from functools import partial
from urllib.parse import parse_qs, urlsplit

import pytest
import trio

from greenroom.core import AgentContext, ConfigurationError, ToolStatus
from greenroom.tools import ToolRegistry, WebSearch

CONTEXT = AgentContext(session_id="s-1", agent_type="test")
KEY = "BSA-sw0rdfish-1234"
HEADER = "Found on the web, by its pages' own words; nobody has checked them."


@pytest.fixture(autouse=True)
def no_proxy_variables(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


class Fake:
    """Answers every request in the same way, and keeps what was asked."""

    def __init__(self, answer, status="200 OK", **headers):
        self.body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.status, self.headers = status, headers
        self.asked = []

    async def __call__(self, stream):
        request = b""
        while b"\r\n\r\n" not in request:
            request += await stream.receive_some(65536)
        head, _, body = request.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        while length and len(body) < int(length[1]):
            body += await stream.receive_some(65536)
        self.asked.append((head.decode(), body))
        fields = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
        start = f"HTTP/1.1 {self.status}\r\nContent-Length: {len(self.body)}\r\n{fields}\r\n"
        with suppress(trio.BrokenResourceError):  # it is more than the client wants
            await stream.send_all(start.encode() + self.body)

    @property
    def path(self):
        """The path that was asked for, and its parameters."""
        parts = urlsplit(self.asked[0][0].split()[1])
        return parts.path, {name: each for name, [each] in parse_qs(parts.query).items()}

    def header(self, name):
        return re.search(rf"(?i)^{name}: (.*?)\r?$", self.asked[0][0], re.MULTILINE)[1]


async def search(make, fake, **given):
    """Search by the tool that `make` gives for the address of the fake."""
    async with trio.open_nursery() as nursery:
        with trio.fail_after(60):
            listen = partial(trio.serve_tcp, fake, 0, host="127.0.0.1")
            [listener] = await nursery.start(listen)
            url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
            tools = ToolRegistry([make(url)])
            result = await tools.execute("WebSearch", {"query": "trio & co"} | given, CONTEXT)
        nursery.cancel_scope.cancel()
    return result


def brave(url):
    return WebSearch.brave(KEY, url=url)


def tavily(url):
    return WebSearch.tavily(KEY, url=url)


ENGINES = [WebSearch.searxng, brave, tavily]
ROW = {"title": "Trio", "url": "https://trio.test/"}
FOUND = {
    WebSearch.searxng: {"query": "q", "results": [ROW | {"content": "Async.", "engine": "x"}]},
    brave: {"type": "search", "web": {"results": [ROW | {"description": "Async."}]}},
    tavily: {"query": "q", "results": [ROW | {"content": "Async.", "score": 0.9}]},
}  # fmt: skip


@pytest.mark.parametrize("make", ENGINES)
async def test_an_engine_is_asked_as_it_documents_and_its_results_are_told(make):
    fake = Fake(FOUND[make])
    result = await search(make, fake, limit=3)
    assert result.text == f"{HEADER}\n\n1. Trio\nhttps://trio.test/\nAsync."
    assert result.facts == {"urls": ["https://trio.test/"]}
    assert fake.header("Accept") == "application/json"
    expected = {
        WebSearch.searxng: ("/search", {"q": "trio & co", "format": "json"}),
        brave: ("/res/v1/web/search", {
            "q": "trio & co", "count": "3", "result_filter": "web", "text_decorations": "false",
        }),
        tavily: ("/search", {}),
    }  # fmt: skip
    assert fake.path == expected[make]
    method, body = fake.asked[0][0].split()[0], fake.asked[0][1]
    assert method == ("POST" if make is tavily else "GET")
    if make is brave:
        assert fake.header("X-Subscription-Token") == KEY
    if make is tavily:
        assert fake.header("Authorization") == f"Bearer {KEY}"
        assert fake.header("Content-Type") == "application/json"
        sent = {"query": "trio & co", "max_results": 3, "search_depth": "basic"}
        assert json.loads(body) == sent


async def test_the_address_of_a_searxng_may_end_with_its_page_and_be_below_a_path():
    fake = Fake(FOUND[WebSearch.searxng])
    await search(lambda url: WebSearch.searxng(f"{url}/searx/search/"), fake)
    assert fake.path[0] == "/searx/search"


async def test_entities_of_brave_are_read_and_no_more_than_asked_for_is_told():
    row = {"title": "A &amp; B", "url": "https://a.test", "description": "x &lt; y"}
    result = await search(brave, Fake({"web": {"results": [row] * 9}}))
    assert result.text.startswith(f"{HEADER}\n\n1. A & B\nhttps://a.test\nx < y")
    assert len(result.facts["urls"]) == 5


NOTHING = [{}, {"results": []}, {"results": None, "web": None}, {"web": {"results": {}}}]


@pytest.mark.parametrize("make", ENGINES)
async def test_an_answer_without_results_is_nothing_found_and_odd_ones_are_left_out(make):
    for answer in NOTHING:
        assert "Nothing was found" in (await search(make, Fake(answer))).text
    rows = [7, None, {"title": 1, "url": None}, {"url": "a b"}, {"url": "https://a.test"}]
    result = await search(make, Fake({"results": rows, "web": {"results": rows}}))
    assert result.facts["urls"] == ["https://a.test"]


async def test_engines_of_a_searxng_that_did_not_answer_are_named():
    answer = {"results": [], "unresponsive_engines": [["duckduckgo", "CAPTCHA"], "odd"]}
    result = await search(WebSearch.searxng, Fake(answer))
    assert result.text == "no engine of SearXNG answered: duckduckgo: CAPTCHA"


@pytest.mark.parametrize(
    ("make", "status", "answer", "says"),
    [
        (
            brave,
            "401 Unauthorized",
            {"error": {"code": "SUBSCRIPTION_TOKEN_INVALID", "detail": f"{KEY} is not valid."}},
            "Brave answered with HTTP 401: [secret] is not valid. (check the key)",
        ),
        (
            brave,
            "422 Unprocessable Entity",
            {"error": {"detail": "Unable to validate request parameter(s)"}},
            "HTTP 422: Unable to validate request parameter(s) (a query has at most 400",
        ),
        (
            tavily,
            "401 Unauthorized",
            {"detail": {"error": "Unauthorized: missing or invalid API key."}},
            "Tavily answered with HTTP 401: Unauthorized: missing or invalid API key. (check",
        ),
        (tavily, "432 Limit", {"detail": {"error": "over"}}, "HTTP 432: over (the limit of the"),
        (WebSearch.searxng, "403 Forbidden", b"<html>", "HTTP 403 (add json to search.formats"),
        (tavily, "500 Oops", b"\xff", "Tavily answered with HTTP 500"),
        (tavily, "500 Oops", {"detail": "x" * 9_999}, "characters left out"),
        (brave, "200 OK", b"<html>", "Brave did not answer with a JSON object"),
        (brave, "200 OK", [1], "Brave did not answer with a JSON object"),
        (tavily, "200 OK", b"x" * 2_000_001, "Tavily answered with more than 2,000,000 bytes"),
    ],
)
async def test_an_error_says_who_refused_and_what_to_do_and_never_the_key(
    make, status, answer, says
):
    result = await search(make, Fake(answer, status))
    assert result.status is ToolStatus.ERROR
    assert says in result.text
    assert KEY not in result.text
    assert len(result.text) < 1_000


async def test_a_limit_says_how_long_to_wait_and_a_redirect_is_not_followed():
    slow = Fake({"detail": {"error": "too many"}}, "429 Too Many", **{"Retry-After": "30"})
    says = "HTTP 429: too many; it says to wait 30 seconds (search less often, or wait)"
    assert says in (await search(tavily, slow)).text
    other = Fake(b"", "302 Found", Location="http://127.0.0.1:9/")
    result = await search(brave, other)
    assert "HTTP 302 (it has moved: write its new address into url)" in result.text
    assert len(other.asked) == 1


@pytest.mark.parametrize("make", [brave, tavily])
async def test_a_key_that_comes_back_in_a_result_is_hidden(make):
    row = {"title": f"a {KEY}", "url": f"https://a.test/{KEY}", "description": KEY, "content": KEY}
    result = await search(make, Fake({"results": [row], "web": {"results": [row]}}))
    assert KEY not in f"{result!r}{make('http://localhost:1')!r}"
    assert result.text.count("[secret]") == 3


async def test_no_answer_is_an_error_that_names_the_host():
    tools = ToolRegistry([brave("http://127.0.0.1:9")])
    result = await tools.execute("WebSearch", {"query": "x"}, CONTEXT)
    assert "127.0.0.1: the connection was refused" in result.text


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: WebSearch.searxng("file:///etc/passwd"), "the scheme 'file' is not fetched"),
        (lambda: WebSearch.searxng("http://ann:pw@a.test"), "holds a user name or a password"),
        (lambda: WebSearch.brave(" "), "Brave needs a key"),
        (lambda: WebSearch.tavily("tvly-é"), "Tavily needs a key"),
        (lambda: WebSearch.tavily("k", url="http://a.test"), "sent without encryption"),
    ],
)
def test_what_can_not_be_asked_is_refused(make, says):
    with pytest.raises(ConfigurationError, match=says) as caught:
        make()
    assert "tvly-é" not in str(caught.value)
