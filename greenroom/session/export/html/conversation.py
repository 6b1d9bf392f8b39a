"""What was said, in a page: a section for each side's turn, subagents where they were called."""

import itertools
from collections.abc import Iterable, Iterator

from greenroom.core import (
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    Message,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from greenroom.session.export.call import Call
from greenroom.session.export.content import SessionContent
from greenroom.session.export.facts import facts
from greenroom.session.export.html.escape import escape
from greenroom.session.export.html.media import render_file
from greenroom.session.export.html.prose import render_prose
from greenroom.session.export.html.tool_call import render_call, render_result, render_value
from greenroom.session.export.printed import stop_words, usage_words
from greenroom.session.export.said import Said, said

_ENCRYPTED = '<p class="file">Thinking, which its provider keeps to itself</p>'


def render_conversation(content: SessionContent, prefix: str = "", level: int = 2) -> Iterator[str]:
    """Render the messages of a session, piece by piece, and its subagents in their places.

    Args:
        content: the session.
        prefix: what its anchors begin with, since each stands once in a page.
        level: the level of its headings.
    """
    waiting, speaker, spoken = _by_call(content.subagents), ("", ""), list[Message]()
    for each in said(content.messages):
        role = each.message.role
        last, speaker = speaker, (role, each.speaker(content.metadata.agent_type))
        if speaker != last:
            yield _closing(spoken)
            yield _opening(each, speaker[1], prefix, level)
        spoken.append(each.message)
        yield f'<div class="message" id="{anchor(prefix, each.number)}">'
        for block in each.blocks:
            yield _block(block, role)
            # A call's id may come again in a later reply: the first one gets them.
            for subagent in waiting.pop(block.use.id, ()) if isinstance(block, Call) else ():
                yield from _subagent(subagent, level + 1)
        yield f"{_note(stop_words(each.message))}</div>\n"
    yield _closing(spoken)
    for subagent in itertools.chain.from_iterable(waiting.values()):
        yield from _subagent(subagent, level)


def anchor(prefix: str, number: int) -> str:
    """Name the place of a message in the page."""
    return f"{prefix}m{number}"


def render_facts(content: SessionContent) -> str:
    """Render what is known about a session."""
    rows = (
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in facts(content).items()
    )
    return f'<dl class="facts">{"".join(rows)}</dl>'


def _opening(first: Said, speaker: str, prefix: str, level: int) -> str:
    message, place, name = first.message, anchor(prefix, first.number), escape(speaker)
    model = f"<small>{escape(message.model)}</small>" if message.model else ""
    return (
        f'<section class="{message.role}"><h{level}><a href="#{place}">{name}</a>{model}</h{level}>'
    )


def _block(block: ContentBlock | Call, role: str) -> str:
    match block:
        case TextBlock(text=text):
            return _words(text, role)
        case Call():
            return render_call(block)
        case ToolUseBlock():
            return render_call(Call(block, None))
        case ToolResultBlock():
            return f'<p class="label">A result without a call</p>{render_result(block)}'
        case ThinkingBlock(thinking=text):
            return _folded("Thinking", render_prose(text)) if text.strip() else ""
        case RedactedThinkingBlock():
            return _ENCRYPTED
        case ImageBlock() | DocumentBlock():
            return render_file(block)
        case UnknownBlock(raw=raw):
            return _folded("Something of a kind unknown here", render_value(raw))


def _words(text: str, role: str) -> str:
    if not text.strip():
        return ""
    # What a person typed is shown as it was typed; a model writes Markdown.
    typed = f'<div class="plain" dir="auto">{escape(text.strip())}</div>'
    return typed if role == "user" else render_prose(text)


def _folded(name: str, body: str) -> str:
    return f'<details class="aside"><summary>{name}</summary><div class="inside">{body}</div></details>'


def _by_call(subagents: Iterable[SessionContent]) -> dict[str | None, list[SessionContent]]:
    found: dict[str | None, list[SessionContent]] = {}
    for subagent in subagents:
        found.setdefault(subagent.metadata.parent_tool_use_id, []).append(subagent)
    return found


def _subagent(content: SessionContent, level: int) -> Iterator[str]:
    prefix = f"{escape(content.metadata.session_id)}-"
    yield (
        f'<details class="subagent"><summary><b>Subagent</b> <span>{escape(content.title)}</span>'
        f'<span class="status">{len(content.messages):,} messages</span></summary>'
        f'<div class="inside">{render_facts(content)}\n'
    )
    yield from render_conversation(content, prefix, min(level, 6))
    yield "</div></details>\n"


def _closing(spoken: list[Message]) -> str:
    """End the section of these messages, if there is one, with what they used."""
    if not spoken:
        return ""
    note = _note(usage_words(spoken))
    spoken.clear()
    return f"{note}</section>\n"


def _note(words: str) -> str:
    return f'<p class="note">{escape(words)}</p>' if words else ""
