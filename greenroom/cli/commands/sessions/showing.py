"""`greenroom sessions show`: a conversation, to be read."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from greenroom.cli.commands.sessions.row import model_of, place_of, title_of
from greenroom.cli.conversation import load_session
from greenroom.cli.page import Page
from greenroom.cli.recap import RecapLine, recap
from greenroom.cli.store import open_store
from greenroom.core import serde
from greenroom.session import AgentSession

if TYPE_CHECKING:
    from greenroom.cli.commands.sessions.arguments import SessionsOptions

__all__ = ["show_lines", "show_session"]


async def show_session(options: "SessionsOptions") -> int:
    """Print a session's conversation, each message with the number that fork and rewind take.

    Raises:
        SessionError: the session is unknown or can't be read.
    """
    session = await load_session(options.session_id, open_store(options))
    count = len(session.history)
    skipped = max(count - options.last, 0) if options.last else 0
    page = Page()
    if options.json:
        await page.line(_as_json(session, skipped))
        return 0
    await page.text("\n".join(_heading(session)))
    if skipped:
        await page.text(f"\n… {skipped} earlier messages left out")
    await show_lines((line for line in recap(session.history) if line.at >= skipped), page, count)
    return 0


def _as_json(session: AgentSession, skipped: int) -> bytes:
    """Write the description, how many messages are left out, and the others."""
    head = serde.encode(session.record)[:-1] + b',"skipped":%d' % skipped
    messages = b",".join(serde.encode(message) for message in session.history[skipped:])
    return head + b',"messages":[' + messages + b"]}"


def _heading(session: AgentSession) -> list[str]:
    record, count = session.record, len(session.history)
    facts = [
        session.session_id,
        model_of(record),
        place_of(record),
        f"{record.updated_at.astimezone():%Y-%m-%d %H:%M}",
        f"{count} message{'' if count == 1 else 's'}",
    ]
    lines = [title_of(record), " · ".join(fact for fact in facts if fact)]
    return [line for line in lines if line]


async def show_lines(lines: Iterable[RecapLine], page: Page, count: int) -> None:
    """Print what was said and done, with the messages' numbers, of which `count` is the highest.

    Raises:
        OSError: standard output can't be written.
    """
    from rich.table import Table
    from rich.text import Text

    from greenroom.cli.render_recap import render_recap
    from greenroom.cli.theme import ColorScheme

    scheme, before = ColorScheme(), -1
    for line in lines:
        row = Table.grid(padding=(0, 2, 0, 0))
        row.add_column(min_width=len(str(count)), justify="right", no_wrap=True)
        row.add_column()
        number = "" if line.at == before else str(line.at + 1)
        told = render_recap(line, scheme) if page.is_terminal else Text(str(line))
        row.add_row(Text(number, scheme.note), told)
        await page.text("")
        await page.show(row)
        before = line.at
