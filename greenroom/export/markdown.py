"""A conversation as Markdown, to read in a terminal, in a diff, or rendered."""

import re
from collections.abc import Iterator
from functools import cache
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

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


DEEPEST_PROSE = 60
"""How deep Markdown may nest, such as lists in quotes; the parser drops anything deeper."""

LONGEST_PROSE = 50_000
"""The most characters to parse as Markdown; more are hardly prose, and would take seconds."""

_SUSPECT = re.compile(r"<[A-Za-z/!?]|\]:")  # what raw HTML and a link's definition can't do without
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#&~|$!])")


def fence_text(text: str, language: str = "") -> str:
    """Put text into a block of code, between fences longer than any run of backticks in it.

    Example:
        >>> print(fence_text("a"))
        ```
        a
        ```
    """
    body = make_printable(text).removesuffix("\n")
    fence = "`" * max(3, _longest_run(body) + 1)
    return f"{fence}{language}\n{body}\n{fence}"


def code_span(text: str) -> str:
    """Put one line of text into a span of code.

    Example:
        >>> print(code_span("a"), code_span("`"))
        `a` `` ` ``
    """
    line = " ".join(make_printable(text).split())
    if not line:
        return ""
    fence = "`" * (_longest_run(line) + 1)
    blank = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{fence}{blank}{line}{blank}{fence}"


def escape_words(text: str) -> str:
    r"""Escape text for Markdown, on one line.

    Example:
        >>> print(escape_words("*not* bold"))
        \*not\* bold
    """
    return _SPECIAL.sub(r"\\\1", " ".join(make_printable(text).split()))


def quote(text: str, depth: int = 1) -> str:
    """Quote Markdown at this depth; text that would reach beyond its quote is shown as source.

    Raw HTML could close the quote in a page, and a link's definition would hold everywhere.

    Example:
        >>> print(quote("# a heading"))
        > # a heading
        >>> print(quote("</blockquote>"))
        > ```markdown
        > </blockquote>
        > ```
    """
    quote = _prefix_lines(make_printable(text).strip("\n"), depth)
    if _SUSPECT.search(quote) and not _is_contained(quote):
        return _prefix_lines(fence_text(text, "markdown"), depth)
    return quote


def _is_contained(quote: str) -> bool:
    """Whether a quote certainly holds no raw HTML and defines no link."""
    if len(quote) > LONGEST_PROSE:
        return False
    found: dict[str, object] = {}
    tokens = _parser().parse(quote, found)
    inline = [child for token in tokens for child in token.children or ()]
    kinds = {token.type for token in (*tokens, *inline)}
    is_whole = all(token.level < DEEPEST_PROSE - 1 for token in tokens)
    return is_whole and not kinds & {"html_block", "html_inline"} and not found.get("references")


def _prefix_lines(text: str, depth: int) -> str:
    return "\n".join(
        "> " * depth + line if line else "> " * (depth - 1) + ">" for line in text.split("\n")
    )


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"maxNesting": DEEPEST_PROSE})


_LANGUAGES = {"command": "sh"}
_DEEPEST = 6  # Markdown has no heading below


def to_markdown(content: SessionContent) -> Iterator[str]:
    r"""Write a conversation as Markdown, piece by piece.

    Messages are quoted, and the inputs and results of tools are fenced, so that no text can break
    out of its place. Subagents follow their session, one level deeper.

    Example:
        >>> from greenroom import AgentSession, Message
        >>> session = AgentSession.new("coder", session_id="mine")
        >>> session.add_message(Message.user("# hello"))
        >>> pieces = list(to_markdown(SessionContent(session.description.record, session.history)))
        >>> pieces[-2:]
        ['\n## User\n', '\n> # hello\n']
    """
    return _session(content, 1)


def _session(content: SessionContent, level: int) -> Iterator[str]:
    about = [f"- {name}: {code_span(value)}" for name, value in list_facts(content).items()]
    yield f"{_heading_marks(level)} {escape_words(content.title)}\n\n" + "\n".join(about) + "\n"
    for each in list_utterances(content):
        if each.is_new_speaker:
            yield f"\n{_heading_marks(level + 1)} {escape_words(each.speaker)}\n"
        yield _utterance(each)
    for subagent in content.subagents:
        yield "\n"
        yield from _session(subagent, level + 1)


def _heading_marks(level: int) -> str:
    return "#" * min(level, _DEEPEST)


def _utterance(each: Utterance) -> str:
    notes = ", ".join(filter(None, (describe_stop(each.message), describe_usage([each.message]))))
    parts = [*map(_block, each.blocks), f"*{escape_words(notes)}*" if notes else ""]
    return "".join(f"\n{part}\n" for part in parts if part)


def _block(block: core.ContentBlock | ToolCall) -> str:
    match block:
        case core.TextBlock(text=text):
            return quote(text) if text.strip() else ""
        case ToolCall():
            return _call(block)
        case core.ToolUseBlock():
            return _call(ToolCall(block, None))
        case core.ToolResultBlock():
            return f"**A result without a call**\n\n{_result(block)}"
        case core.ThinkingBlock(thinking=text):
            return f"> *Thinking:*\n>\n{quote(text, 2)}" if text.strip() else ""
        case core.RedactedThinkingBlock():
            return "*Thinking, which its provider keeps to itself*"
        case core.ImageBlock() | core.DocumentBlock():
            return f"*{escape_words(describe_file(block))}*"
        case core.UnknownBlock(raw=raw):
            return f"*Something of a kind unknown here:*\n\n{fence_text(format_value(raw), 'json')}"


def _call(call: ToolCall) -> str:
    use, result = call.use, call.result
    head = f"**{escape_words(use.name)}** {code_span(describe_call(use.input))}".rstrip()
    status = STATUS_WORDS[call.status]
    parts = [f"{head} ({status})" if status else head, *_input(use)]
    if result is not None:
        parts += ["Result:", _result(result)]
    return "\n\n".join(parts)


def _input(use: core.ToolUseBlock) -> Iterator[str]:
    if use.invalid:
        yield f"Input that could not be used: {escape_words(use.invalid)}"
        yield fence_text(use.raw_input)
    fields = list_fields(use)
    short = {name: text for name, text in fields.items() if is_short(text)}
    if short:
        yield "\n".join(f"- {code_span(name)}: {code_span(text)}" for name, text in short.items())
    for name, text in fields.items():
        if name not in short:
            yield f"{code_span(name)}:"
            yield fence_text(text, _LANGUAGES.get(name, ""))


def _result(result: core.ToolResultBlock) -> str:
    files = [_block(each) for each in result.content if not isinstance(each, core.TextBlock)]
    text, diff = split_diff(result.text)
    parts = [fence_text(text)] if text else []
    parts += [fence_text(diff, "diff")] if diff else []
    return "\n\n".join([*parts, *files]) or "*(nothing)*"
