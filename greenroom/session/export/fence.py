"""Markdown that text can't break out of: fences, code spans, quotes and words."""

import re
from functools import cache
from typing import TYPE_CHECKING

from greenroom.session.export.printed import printed

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

DEEPEST_PROSE = 60
"""So deep Markdown is parsed: lists in quotes in lists. The parser leaves out what is deeper."""

LONGEST_PROSE = 50_000
"""So many characters are parsed as Markdown; what is longer is no prose, and would take seconds."""

_SUSPECT = re.compile(r"<[A-Za-z/!?]|\]:")  # what raw HTML and a link's definition can't do without
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#&~|$!])")


def fenced(text: str, language: str = "") -> str:
    """Put text into a block of code, between fences longer than any run of backticks in it.

    Example:
        >>> print(fenced("a"))
        ```
        a
        ```
    """
    body = printed(text).removesuffix("\n")
    fence = "`" * max(3, _longest_run(body) + 1)
    return f"{fence}{language}\n{body}\n{fence}"


def code(text: str) -> str:
    """Put one line of text into a span of code.

    Example:
        >>> print(code("a"), code("`"))
        `a` `` ` ``
    """
    line = " ".join(printed(text).split())
    if not line:
        return ""
    fence = "`" * (_longest_run(line) + 1)
    blank = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{fence}{blank}{line}{blank}{fence}"


def words(text: str) -> str:
    r"""Write text so that Markdown shows it as it is, on one line.

    Example:
        >>> print(words("*not* bold"))
        \*not\* bold
    """
    return _SPECIAL.sub(r"\\\1", " ".join(printed(text).split()))


def quoted(text: str, depth: int = 1) -> str:
    """Quote text so deep, Markdown as it is; what would reach beyond its quote is shown as source.

    Raw HTML could close the quote in a page, and a link's definition would hold everywhere.

    Example:
        >>> print(quoted("# a heading"))
        > # a heading
        >>> print(quoted("</blockquote>"))
        > ```markdown
        > </blockquote>
        > ```
    """
    quote = _prefixed(printed(text).strip("\n"), depth)
    if _SUSPECT.search(quote) and not _is_contained(quote):
        return _prefixed(fenced(text, "markdown"), depth)
    return quote


def _is_contained(quote: str) -> bool:
    """Whether nothing in a quote is raw HTML or defines a link, as far as that can be told."""
    if len(quote) > LONGEST_PROSE:
        return False
    found: dict[str, object] = {}
    tokens = _parser().parse(quote, found)
    inline = [child for token in tokens for child in token.children or ()]
    kinds = {token.type for token in (*tokens, *inline)}
    is_whole = all(token.level < DEEPEST_PROSE - 1 for token in tokens)
    return is_whole and not kinds & {"html_block", "html_inline"} and not found.get("references")


def _prefixed(text: str, depth: int) -> str:
    return "\n".join(
        "> " * depth + line if line else "> " * (depth - 1) + ">" for line in text.split("\n")
    )


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"maxNesting": DEEPEST_PROSE})
