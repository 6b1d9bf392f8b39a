"""A conversation as one self-contained HTML page, in which no text becomes markup."""

import base64
import hashlib
import html
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from greenroom import core
from greenroom.export.content import (
    STATUS_WORDS,
    SessionContent,
    ToolCall,
    Utterance,
    describe_call,
    describe_file,
    describe_stop,
    describe_usage,
    format_value,
    is_short,
    list_facts,
    list_fields,
    list_utterances,
    make_printable,
    split_diff,
)
from greenroom.export.markdown import DEEPEST_PROSE, LONGEST_PROSE

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


def escape(text: str) -> str:
    """Write text for use between tags, or between the quotes of an attribute.

    Example:
        >>> print(escape('<b> & "c"'))
        &lt;b&gt; &amp; &quot;c&quot;
    """
    return html.escape(make_printable(text))


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

    Nothing can be clicked: addresses were chosen by a model, and by the texts that it had read. And
    nothing vanishes: if the parser would leave something out, the source is shown.

    Example:
        >>> render_prose("*so* <b>")
        '<div class="prose" dir="auto"><p><em>so</em> &lt;b&gt;</p></div>'
    """
    if len(text) <= LONGEST_PROSE:
        tokens = _parser().parse(make_printable(text))
        if all(token.level < DEEPEST_PROSE - 1 for token in tokens):
            return f'<div class="prose" dir="auto">{"".join(_render(tokens))}</div>'
    return f'<div class="plain" dir="auto">{escape(text)}</div>'


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": DEEPEST_PROSE})
    # A link's definition would vanish from the page, and could be of one message and used in none.
    return parser.enable(["table", "strikethrough"]).disable("reference")


def _render(tokens: Iterable["Token"]) -> list[str]:
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


def _tag(token: "Token") -> str:
    kind = token.type.removesuffix("_open").removesuffix("_close")
    close = "/" if token.nesting < 0 else ""
    match kind:
        case _ if token.hidden:  # a paragraph of a tight list
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


_IMAGE_TYPES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def render_file(block: core.ImageBlock | core.DocumentBlock) -> str:
    """Show an image that the session holds; name any other file or address.

    Example:
        >>> render_file(core.ImageBlock("image/png", url="https://example.com/a.png"))
        '<p class="file">Image, image/png, https://example.com/a.png</p>'
    """
    name = escape(describe_file(block))
    is_image = isinstance(block, core.ImageBlock) and block.media_type in _IMAGE_TYPES
    if is_image and _BASE64.fullmatch(block.data):
        source = f"data:{block.media_type};base64,{block.data}"
        return f'<figure><img src="{source}" alt="{name}"><figcaption>{name}</figcaption></figure>'
    return f'<p class="file">{name}</p>'


_RESULT = '<p class="label">Result</p>'
_DIFF_TAGS = {"+": ("ins", "ins"), "-": ("del", "del"), "@": ('span class="place"', "span")}


def render_call(call: ToolCall) -> str:
    """Render a call, folded unless it changed a file, to show its diff."""
    use, result = call.use, call.result
    _, diff = split_diff(result.text) if result is not None else ("", "")
    status = STATUS_WORDS[call.status]
    status = f'<span class="status">{status}</span>' if status else ""
    body = _input(use)
    if diff and result is not None:
        folded = f'<details class="input"><summary>Input</summary>{body}</details>' if body else ""
        body = render_result(result) + folded
    elif result is not None:
        body += f"{_RESULT if body else ''}{render_result(result)}"
    return (
        f'<details class="call {call.status}"{" open" if diff else ""}>'
        f"<summary><b>{escape(use.name)}</b> <code>{escape(describe_call(use.input))}</code>"
        f'{status}</summary><div class="inside">{body}</div></details>'
    )


def render_result(result: core.ToolResultBlock) -> str:
    """Render the result of a tool: its text, a diff in colour, its images and files."""
    text, diff = split_diff(result.text)
    parts = [f"<pre>{escape(text)}</pre>"] if text else []
    if diff:
        parts.append(f'<pre class="diff">{"".join(_diff_lines(diff))}</pre>')
    files = (
        each for each in result.content if isinstance(each, core.ImageBlock | core.DocumentBlock)
    )
    return "".join([*parts, *map(render_file, files)]) or '<p class="file">(nothing)</p>'


def _input(use: core.ToolUseBlock) -> str:
    fields = list_fields(use)
    rows = "".join(f"<dt>{escape(name)}</dt>{_field(text)}" for name, text in fields.items())
    if use.invalid:
        rows += f"<dt>not usable: {escape(use.invalid)}</dt>{_field(use.raw_input)}"
    return f"<dl>{rows}</dl>" if rows else ""


def _field(text: str) -> str:
    if is_short(text):
        return f'<dd class="short"><code>{escape(text)}</code></dd>'
    return f"<dd><pre>{escape(text)}</pre></dd>"


def _diff_lines(diff: str) -> Iterator[str]:
    for at, line in enumerate(diff.removesuffix("\n").split("\n")):
        # The first two name the file; from then on such a beginning is that of a changed line.
        kind = "@" if at < 2 else line[:1]
        tag, close = _DIFF_TAGS.get(kind, ("span", "span"))
        yield f"<{tag}>{escape(line)}\n</{close}>"


_ENCRYPTED = '<p class="file">Thinking, which its provider keeps to itself</p>'


def render_conversation(content: SessionContent, prefix: str = "", level: int = 2) -> Iterator[str]:
    """Render the messages of a session, piece by piece, and its subagents in their places.

    Args:
        content: the session.
        prefix: what its anchors begin with, since each must be unique in a page.
        level: the level of its headings.
    """
    waiting: defaultdict[str | None, list[SessionContent]] = defaultdict(list)
    for subagent in content.subagents:
        waiting[subagent.metadata.parent_tool_use_id].append(subagent)
    spoken: list[core.Message] = []
    for each in list_utterances(content):
        if each.is_new_speaker:
            yield _close_section(spoken)
            yield _open_section(each, prefix, level)
        spoken.append(each.message)
        yield f'<div class="message" id="{anchor(prefix, each.number)}">'
        for block in each.blocks:
            yield _block(block, each.message.role)
            # A call's id may come again in a later reply: the first one gets them.
            for subagent in waiting.pop(block.use.id, ()) if isinstance(block, ToolCall) else ():
                yield from _subagent(subagent, level + 1)
        yield f"{_note(describe_stop(each.message))}</div>\n"
    yield _close_section(spoken)
    for subagent in itertools.chain.from_iterable(waiting.values()):
        yield from _subagent(subagent, level)


def anchor(prefix: str, number: int) -> str:
    """Return the anchor of a message in the page."""
    return f"{prefix}m{number}"


def render_facts(content: SessionContent) -> str:
    """Render the facts about a session."""
    rows = (
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in list_facts(content).items()
    )
    return f'<dl class="facts">{"".join(rows)}</dl>'


def _open_section(first: Utterance, prefix: str, level: int) -> str:
    message, place, name = first.message, anchor(prefix, first.number), escape(first.speaker)
    model = f"<small>{escape(message.model)}</small>" if message.model else ""
    return (
        f'<section class="{message.role}"><h{level}><a href="#{place}">{name}</a>{model}</h{level}>'
    )


def _block(block: core.ContentBlock | ToolCall, role: str) -> str:
    match block:
        case core.TextBlock(text=text):
            return _words(text, role)
        case ToolCall():
            return render_call(block)
        case core.ToolUseBlock():
            return render_call(ToolCall(block, None))
        case core.ToolResultBlock():
            return f'<p class="label">A result without a call</p>{render_result(block)}'
        case core.ThinkingBlock(thinking=text):
            return _fold("Thinking", render_prose(text)) if text.strip() else ""
        case core.RedactedThinkingBlock():
            return _ENCRYPTED
        case core.ImageBlock() | core.DocumentBlock():
            return render_file(block)
        case core.UnknownBlock(raw=raw):
            value = f"<pre>{escape(format_value(raw))}</pre>"
            return _fold("Something of a kind unknown here", value)


def _words(text: str, role: str) -> str:
    if not text.strip():
        return ""
    # What a person typed is shown as it was typed; a model writes Markdown.
    typed = f'<div class="plain" dir="auto">{escape(text.strip())}</div>'
    return typed if role == "user" else render_prose(text)


def _fold(name: str, body: str) -> str:
    inside = f'<div class="inside">{body}</div>'
    return f'<details class="aside"><summary>{name}</summary>{inside}</details>'


def _subagent(content: SessionContent, level: int) -> Iterator[str]:
    prefix = f"{escape(content.metadata.session_id)}-"
    yield (
        f'<details class="subagent"><summary><b>Subagent</b> <span>{escape(content.title)}</span>'
        f'<span class="status">{len(content.messages):,} messages</span></summary>'
        f'<div class="inside">{render_facts(content)}\n'
    )
    yield from render_conversation(content, prefix, min(level, 6))
    yield "</div></details>\n"


def _close_section(spoken: list[core.Message]) -> str:
    """End the section of these messages, if there is one, with what they used."""
    if not spoken:
        return ""
    note = _note(describe_usage(spoken))
    spoken.clear()
    return f"{note}</section>\n"


def _note(words: str) -> str:
    return f'<p class="note">{escape(words)}</p>' if words else ""


STYLE = resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")
"""The one style sheet of a page; its policy allows no other."""

_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
# Nothing is fetched, nothing runs, nothing is sent; one style sheet, this one, and images in the
# page.
_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
_ENTRIES = 200  # of the contents; a longer list finds nothing
_WORDS = 80


def to_html(content: SessionContent) -> Iterator[str]:
    """Write a conversation as one HTML page, piece by piece.

    The page needs no network and no script, in the dark, in the light, on a telephone and on paper.
    All that was said is text in it: nothing of it becomes markup but the Markdown of replies, and
    nothing can be clicked on but the page's own contents.

    Example:
        >>> from greenroom import AgentSession, Message
        >>> session = AgentSession.new("coder")
        >>> session.add_message(Message.user("<script>"))
        >>> page = "".join(to_html(SessionContent(session.description.record, session.history)))
        >>> "<script>" in page, "&lt;script&gt;" in page
        (False, True)
    """
    title = escape(content.title)
    yield (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f'<link rel="icon" href="data:,">\n<title>{title}</title>\n<style>{STYLE}</style>\n'
        f'</head>\n<body>\n<a class="skip" href="#conversation">Skip to the conversation</a>\n'
        f"<header><h1>{title}</h1>{render_facts(content)}</header>\n"
    )
    yield _contents(content)
    yield '<main id="conversation">\n'
    yield from render_conversation(content)
    yield "</main>\n<footer>The end of the session, as it stood when it was exported.</footer>\n"
    yield "</body>\n</html>\n"


def _contents(content: SessionContent) -> str:
    """List the user's messages, unless the conversation is short."""
    prompts = [
        (number, " ".join(message.text.split()))
        for number, message in enumerate(content.messages, start=1)
        if message.role == "user" and message.text.strip()
    ]
    if len(prompts) < 3:
        return ""
    entries = "".join(
        f'<li><a href="#{anchor("", number)}">'
        f"{escape(text[:_WORDS])}{'…' * (len(text) > _WORDS)}</a></li>"
        for number, text in prompts[:_ENTRIES]
    )
    more = f"<p>… and {len(prompts) - _ENTRIES:,} more</p>" if len(prompts) > _ENTRIES else ""
    return (
        f'<nav aria-label="Contents"><details><summary>Contents</summary>'
        f"<ol>{entries}</ol>{more}</details></nav>\n"
    )
