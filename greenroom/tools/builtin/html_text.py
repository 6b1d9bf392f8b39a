"""HTML to text: what a page says, without what only a browser needs."""

import re
from html.parser import HTMLParser
from urllib.parse import urljoin

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

    Links are made absolute by the page's own URL, `base`.

    Takes time in proportion to the page's length, whatever the page holds; what stands in a tag or
    comment that never ends is left out.

    Example:
        >>> print(html_text("<script>a</script><h1>B &amp; C</h1><p>See <a href='/d'>D</a>.</p>"))
        # B & C
        <BLANKLINE>
        See [D](/d).
    """
    reader = _Reader(base)
    try:
        # Pieces and no close(): at the end the parser would try each unfinished construct anew.
        for start in range(0, len(html), _PIECE):
            reader.feed(html[start : start + _PIECE])
    except AssertionError:  # html.parser's way to refuse a marked section that it does not know
        reader.handle_data("\n[the rest of the page can't be read]")
    return reader.text()


class _Reader(HTMLParser):
    """Collects text; `_silent` counts the open elements whose text nobody reads."""

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
