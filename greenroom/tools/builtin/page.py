"""Pages: what a server sent, as text for a model."""

import codecs
import re

from greenroom.core import ToolError
from greenroom.tools.builtin.html_text import html_text

_TEXT = re.compile(
    r"text/.*|application/([\w.-]+\+)?(json|xml|javascript|yaml|toml)|application/(x-)?(ndjson|sh)"
    r"|application/x-(yaml|javascript)"
)
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
# Encodings of pages; Python knows others by name that are none, and some that take for ever.
_ENCODING = re.compile(r"utf-(8|16|32)|ascii|iso8859|iso2022|cp|koi8|gb|big5|euc|shift_jis|mac")
_META = 2_048


def page_text(body: bytes, content_type: str, url: str = "") -> str:
    r"""Turn a body into text; HTML is reduced to what a reader sees.

    Bytes that the page's encoding does not explain become U+FFFD.

    Raises:
        ToolError: the body is no text.

    Example:
        >>> page_text(b"<p>caf\xe9", "text/html; charset=latin-1")
        'café'
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind and not _TEXT.fullmatch(kind):
        raise ToolError(f"this is {kind}, and only text can be fetched")
    if not kind and b"\0" in body:
        raise ToolError("this is binary data, and only text can be fetched")
    text = body.decode(_encoding(body, content_type), "replace")
    looks_like_html = not kind and text.lstrip()[:14].lower().startswith(
        ("<!doctype html", "<html")
    )
    return html_text(text, url) if kind in _HTML or looks_like_html else text


def _encoding(body: bytes, content_type: str) -> str:
    """Return the encoding that the header names, or the page's own `<meta>`; else UTF-8."""
    stated = _CHARSET.search(content_type) or _CHARSET.search(body[:_META].decode("latin-1"))
    try:
        name = codecs.lookup(stated[1]).name if stated else ""
    except LookupError:
        return "utf-8"
    return name if _ENCODING.match(name) else "utf-8"
