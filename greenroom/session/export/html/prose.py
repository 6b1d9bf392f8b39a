"""The Markdown of replies, as HTML that holds no markup but the few tags below."""

from collections.abc import Iterable
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

from greenroom.session.export.fence import DEEPEST_PROSE, LONGEST_PROSE
from greenroom.session.export.html.escape import escape
from greenroom.session.export.printed import printed

_TAGS = {
    "paragraph": "p",
    "bullet_list": "ul",
    "ordered_list": "ol",
    "list_item": "li",
    "blockquote": "blockquote",
    "strong": "strong",
    "em": "em",
    "s": "s",
    "thead": "thead",
    "tbody": "tbody",
    "tr": "tr",
    "th": "th",
    "td": "td",
}
_TABLE = '<div class="wide"><table>'


def render_prose(text: str) -> str:
    r"""Render Markdown. Raw HTML shows as text, an image as its name, a link with its address.

    Nothing can be clicked on: an address was chosen by a model, and by whatever that had read. And
    nothing vanishes: where the parser would leave something out, the source is shown.

    Example:
        >>> render_prose("*so* <b>")
        '<div class="prose" dir="auto"><p><em>so</em> &lt;b&gt;</p></div>'
    """
    if len(text) <= LONGEST_PROSE:
        tokens = _parser().parse(printed(text))
        if all(token.level < DEEPEST_PROSE - 1 for token in tokens):
            return f'<div class="prose" dir="auto">{"".join(_render(tokens))}</div>'
    return f'<div class="plain" dir="auto">{escape(text)}</div>'


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": DEEPEST_PROSE})
    # A link's definition would vanish from the page, and could be of one message and used in none.
    return parser.enable(["table", "strikethrough"]).disable("reference")


def _render(tokens: Iterable[Token]) -> list[str]:
    out: list[str] = []
    links: list[tuple[str, int]] = []
    for token in tokens:
        match token.type:
            case "inline":
                out += _render(token.children or ())
            case "link_open":
                links.append((escape(str(token.attrs.get("href", ""))), len(out)))
            case "link_close":
                address, start = links.pop()
                label = "".join(out[start:])
                out[start:] = [_link(label, address)]
            case _:
                out.append(_tag(token))
    return out


def _link(label: str, address: str) -> str:
    if label == address:
        return f'<span class="address">{address}</span>'
    return f'{label} <span class="address">({address})</span>'


def _tag(token: Token) -> str:
    kind = token.type.removesuffix("_open").removesuffix("_close")
    close = "/" if token.nesting < 0 else ""
    match kind:
        case _ if token.hidden:  # a paragraph of a list whose lines stand close
            return ""
        case "heading":
            return f"<{close}h{min(int(token.tag[1]) + 3, 6)}>"  # below those of the page
        case "table":
            return "</table></div>" if close else _TABLE
        case "ordered_list" if not close and "start" in token.attrs:
            return f'<ol start="{int(token.attrs["start"])}">'
        case "fence" | "code_block":
            name = f'<span class="language">{escape(token.info)}</span>' if token.info else ""
            return f"<pre>{name}<code>{escape(token.content)}</code></pre>"
        case "code_inline":
            return f"<code>{escape(token.content)}</code>"
        case "hardbreak":
            return "<br>"
        case "softbreak":
            return "\n"
        case "hr":
            return "<hr>"
        case "image":
            address = escape(str(token.attrs.get("src", "")))
            return _link(f"[image: {escape(token.content)}]", address)
        case _ if kind in _TAGS:
            return f"<{close}{_TAGS[kind]}>"
        case _:
            return escape(token.content)
