"""The page around a conversation: title, description, contents."""

import base64
import hashlib
from collections.abc import Iterator

from greenroom.session.export.content import SessionContent
from greenroom.session.export.html.conversation import anchor, render_conversation, render_facts
from greenroom.session.export.html.escape import escape
from greenroom.session.export.html.style import STYLE

_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
# Nothing is fetched, nothing runs, nothing is sent; one style sheet, this one, and images in the page.
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
        >>> page = "".join(to_html(SessionContent(session.record, session.history)))
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
        f'<link rel="icon" href="data:,">\n<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n'
        f'<body>\n<a class="skip" href="#conversation">Skip to the conversation</a>\n'
        f"<header><h1>{title}</h1>{render_facts(content)}</header>\n"
    )
    yield _contents(content)
    yield '<main id="conversation">\n'
    yield from render_conversation(content)
    yield "</main>\n<footer>The end of the session, as it stood when it was exported.</footer>\n"
    yield "</body>\n</html>\n"


def _contents(content: SessionContent) -> str:
    """List what the user said, for a conversation that has more than fits on a screen."""
    prompts = [
        (number, " ".join(message.text.split()))
        for number, message in enumerate(content.messages, start=1)
        if message.role == "user" and message.text.strip()
    ]
    if len(prompts) < 3:
        return ""
    entries = "".join(
        f'<li><a href="#{anchor("", number)}">{escape(text[:_WORDS])}{"…" * (len(text) > _WORDS)}</a></li>'
        for number, text in prompts[:_ENTRIES]
    )
    more = f"<p>… and {len(prompts) - _ENTRIES:,} more</p>" if len(prompts) > _ENTRIES else ""
    return (
        f'<nav aria-label="Contents"><details><summary>Contents</summary>'
        f"<ol>{entries}</ol>{more}</details></nav>\n"
    )
