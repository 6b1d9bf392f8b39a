"""One web page as text; every host on the way is checked before it is contacted."""

import codecs
import re
from html.parser import HTMLParser
from urllib.parse import urljoin

import trio

from greenroom.core import ToolError, ToolResult
from greenroom.fs._internal import find_encoding, find_mark, is_binary
from greenroom.net import HttpClient
from greenroom.net._internal import (
    HttpResponse,
    Timeouts,
    check_url,
    is_same_host,
    port_of,
    proxy_for,
    public_address,
    redirect_target,
)

_SILENT = frozenset({"script", "style", "noscript", "template", "svg", "iframe", "object"})
_BLOCKS = frozenset(
    [
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "br",
        "dd",
        "details",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hr",
        "legend",
        "li",
        "main",
        "nav",
        "ol",
        "p",
        "pre",
        "section",
        "summary",
        "table",
        "tbody",
        "tfoot",
        "thead",
        "title",
        "tr",
        "ul",
    ]
)
_PIECE = 65_536


def html_text(html: str, base: str = "") -> str:
    """Reduce a page to its text, with Markdown's marks for headings, list items, links and code.

    Links become absolute by the page's URL, `base`. The time is proportional to the page's length,
    whatever it holds; the rest of an unfinished tag or comment is left out.

    Example:
        >>> print(html_text("<script>a</script><h1>B &amp; C</h1><p>See <a href='/d'>D</a>.</p>"))
        # B & C
        <BLANKLINE>
        See [D](/d).
    """
    reader = _PageReader(base)
    try:
        # Pieces and no close(): at the end the parser would try each unfinished construct again.
        for start in range(0, len(html), _PIECE):
            reader.feed(html[start : start + _PIECE])
    except AssertionError:  # html.parser's way to refuse a marked section that it does not know
        reader.handle_data("\n[the rest of the page can't be read]")
    return reader.text()


class _PageReader(HTMLParser):
    """Collects text; `_silent` counts the open elements whose text is not shown."""

    def __init__(self, base: str) -> None:
        super().__init__(convert_charrefs=True)
        self._base = base
        self._parts: list[str] = []
        self._silent = 0
        self._verbatim = 0
        self._links: list[str] = []

    def text(self) -> str:
        lines = "".join(self._parts).split("\n")
        text = "\n".join(line.rstrip(" \t") for line in lines)
        return re.sub(r"\n{3,}", "\n\n", text).strip()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SILENT:
            self._silent += 1
        if self._silent:
            return
        if tag in _BLOCKS:
            self._break(tag)
        attributes = dict(attrs)
        if tag == "pre":
            self._verbatim += 1
        elif tag == "a":
            self._links.append(self._target(attributes.get("href") or ""))
            if self._links[-1]:
                self._parts.append("[")
        elif tag == "img" and attributes.get("alt"):
            self._parts.append(f"![{attributes['alt']}]")
        elif tag in ("td", "th"):
            self._parts.append(" | ")

    def handle_endtag(self, tag: str) -> None:
        if tag in _SILENT:
            self._silent = max(self._silent - 1, 0)
        elif self._silent:
            return
        elif tag == "a" and self._links:
            target = self._links.pop()
            if target:
                self._parts.append(f"]({target})")
        elif tag in _BLOCKS:
            self._end_block(tag)

    def handle_data(self, data: str) -> None:
        if self._silent:
            return
        if not self._verbatim:
            data = re.sub(r"\s+", " ", data)
            if self._parts and self._parts[-1].endswith(("\n", " ")):
                data = data.lstrip()
        if data:
            self._parts.append(data)

    def _target(self, href: str) -> str:
        if not href or href.startswith(("#", "javascript:", "data:")):
            return ""
        try:
            return urljoin(self._base, href)
        except ValueError:
            return href

    def _break(self, tag: str) -> None:
        if tag[0] == "h" and tag[1:].isdigit():
            self._parts.append(f"\n\n{'#' * int(tag[1:])} ")
        elif tag == "li":
            self._parts.append("\n- ")
        elif tag == "pre":
            self._parts.append("\n\n```\n")
        else:
            self._parts.append("\n" if tag in ("br", "tr", "dt", "dd", "div") else "\n\n")

    def _end_block(self, tag: str) -> None:
        if tag == "pre" and self._verbatim:
            self._verbatim -= 1
            self._parts.append("\n```\n\n")
        elif tag not in ("li", "br", "dt", "dd", "tr"):
            self._parts.append("\n" if tag == "div" else "\n\n")


_TEXT = re.compile(
    r"text/.*|application/([\w.-]+\+)?(json|xml|javascript|yaml|toml)|application/(x-)?(ndjson|sh)"
    r"|application/x-(yaml|javascript)"
)
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_OWN_WORD = re.compile(
    rb"<meta\b[^>]*?\bcharset\s*=\s*[\"']?\s*([\w.:-]+)"
    rb"|\A\s*<\?xml\b[^>]*?\bencoding\s*=\s*[\"']([\w.:-]+)",
    re.IGNORECASE,
)
# Encodings of pages; Python has others that are not of text, and some that take forever.
_ENCODING = re.compile(r"utf-(8|16|32)|ascii|iso8859|iso2022|cp|koi8|gb|big5|euc|shift_jis|mac")
# Where browsers read a name in another way than Python, as pages are written for them.
_AS_BROWSERS = {
    **dict.fromkeys(("ascii", "iso8859-1"), "cp1252"),
    **dict.fromkeys(("shift_jis", "x-sjis", "windows-31j"), "cp932"),
    **dict.fromkeys(("gb2312", "gbk", "x-gbk"), "gb18030"),
    **dict.fromkeys(("euc_kr", "windows-949"), "cp949"),
    **dict.fromkeys(("tis-620", "iso8859-11", "windows-874"), "cp874"),
    "iso8859-9": "cp1254",
    "iso-8859-8-i": "iso8859-8",
    "x-euc-jp": "euc_jp",
    "big5": "big5hkscs",
}
_START = 2_048


def page_text(body: bytes, content_type: str, url: str = "") -> str:
    r"""Turn a body into text; HTML is reduced to what a reader sees.

    Bytes that are invalid in the page's encoding become U+FFFD.

    Raises:
        ToolError: the body is not text.

    Example:
        >>> page_text(b"<p>caf\xe9", "text/html; charset=latin-1")
        'café'
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind and not _TEXT.fullmatch(kind):
        raise ToolError(f"this is {kind}, and only text can be fetched")
    if not kind and is_binary(body):
        raise ToolError("this is binary data, and only text can be fetched")
    text = body[len(find_mark(body)) :].decode(_find_encoding(body, kind, content_type), "replace")
    looks_like_html = not kind and text.lstrip()[:14].lower().startswith(
        ("<!doctype html", "<html")
    )
    return html_text(text, url) if kind in _HTML or looks_like_html else text


def _find_encoding(body: bytes, kind: str, content_type: str) -> str:
    """Return the encoding by the mark, by the header or by the page's own word; else UTF-8."""
    if marked := find_encoding(body):
        return marked
    if stated := _CHARSET.search(content_type):
        return _browser_encoding(stated[1])
    if kind and kind not in _HTML and not kind.endswith("xml"):
        return "utf-8"
    own = _OWN_WORD.search(body[:_START])
    found = _browser_encoding((own[1] or own[2]).decode()) if own else "utf-8"
    # What was readable as ASCII is in neither of the others.
    return "utf-8" if found.startswith(("utf-16", "utf-32")) else found


def _browser_encoding(label: str) -> str:
    """Return Python's name of the encoding that a browser takes for a label."""
    try:
        name = codecs.lookup(label).name
    except LookupError:
        name = label.lower()
    name = _AS_BROWSERS.get(name, name)
    try:
        return name if _ENCODING.match(codecs.lookup(name).name) else "utf-8"
    except LookupError:
        return "utf-8"


_MAX_BYTES = 2_000_000
_MAX_REDIRECTS = 5
_MAX_ERROR = 2_000
_TIMEOUTS = Timeouts(connect=10.0, response=20.0, read=20.0)
_HEADERS = {"Accept": "text/html, text/*;q=0.9, application/json;q=0.9, */*;q=0.1"}


async def fetch(url: str, limit: int, *, allow_private: bool) -> ToolResult:
    """Return the first `limit` characters of a page, or its new address on another host.

    Raises:
        NetworkError: the URL or a host is refused, or the host can't be reached.
        ToolError: the page is not text, or redirects too often.
    """
    async with HttpClient() as client:
        for _ in range(_MAX_REDIRECTS + 1):
            address = await _address(url, allow_private=allow_private)
            async with client.stream(
                "GET", url, headers=_HEADERS, address=address, timeout=_TIMEOUTS
            ) as response:
                target = redirect_target(url, response.status, response.headers.get("location", ""))
                if target is None:
                    return await _result(url, response, limit)
            if not is_same_host(url, target):
                return ToolResult.ok(
                    f"{url} has moved to another host. To follow it, fetch {target}",
                    location=target,
                )
            url = target
    raise ToolError(f"{url} redirects more than {_MAX_REDIRECTS} times")


async def _address(url: str, *, allow_private: bool) -> str | None:
    """Return the checked address to connect to, or None if any address is allowed."""
    parts = check_url(url)
    if allow_private:
        return None
    host = parts.hostname or ""
    proxied = proxy_for(parts.scheme, host) is not None
    return await public_address(host, port_of(parts), proxied=proxied)


async def _result(url: str, response: HttpResponse, limit: int) -> ToolResult:
    body = await response.read(_MAX_BYTES + 1)
    kind = response.headers.get("content-type", "")
    text = await trio.to_thread.run_sync(
        page_text, body[:_MAX_BYTES], kind, url, abandon_on_cancel=True
    )
    if response.status >= 400:
        return ToolResult.error(
            f"{url} answered with HTTP {response.status}.\n{text[:_MAX_ERROR]}",
            http_status=response.status,
        )
    if len(body) > _MAX_BYTES:
        text += f"\n… the page is longer than {_MAX_BYTES:,} bytes; the rest was not fetched"
    if len(text) > limit:
        text = f"{text[:limit]}\n… {len(text):,} characters in all; max_characters asks for more"
    return ToolResult.ok(text or "The page is empty.", url=url, http_status=response.status)
