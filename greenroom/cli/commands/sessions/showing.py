"""`greenroom sessions show`: a conversation, to be read."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from greenroom.cli.commands.sessions.row import counted, model_of, one_line, place_of, title_of
from greenroom.cli.console.recap import RecapLine, recap
from greenroom.cli.drawing.page import Page
from greenroom.cli.run.conversation import load_session
from greenroom.cli.run.store import open_store
from greenroom.cli.streams.output_writer import tell
from greenroom.core import Message, SessionError, serde
from greenroom.session import Branch, SessionMetadata

if TYPE_CHECKING:
    from greenroom.cli.commands.sessions.arguments import SessionsOptions


async def show_session(options: "SessionsOptions") -> int:
    """Print a session's conversation, each message with the number that fork and rewind take.

    Raises:
        SessionError: the session is unknown, can't be read, or has no such branch.
    """
    session = await load_session(options.session_id, open_store(options))
    if session.repair is not None:
        tell(str(session.repair))
    branches = await session.branches()
    shown = _chosen(branches, options.branch)
    history = shown.history
    count = len(history)
    skipped = max(count - options.last, 0) if options.last else 0
    page = Page()
    if options.json:
        places = {"branch": shown.number, "branches": len(branches), "skipped": skipped}
        await page.line(_as_json(session.record, places, history[skipped:]))
        return 0
    if skipped and history[skipped].tool_results:
        skipped -= 1  # results are shown with their calls
    await page.text("\n".join([*_heading(session.record, count), *_others(branches, shown)]))
    if skipped:
        await page.text(f"\n… {counted(skipped, 'earlier message')} left out")
    await show_lines((line for line in recap(history) if line.at >= skipped), page, count)
    return 0


def _chosen(branches: Sequence[Branch], number: int | None) -> Branch:
    if number is None:
        return branches[-1]
    if number < len(branches):
        return branches[number]
    raise SessionError(f"there is no branch {number}: the last is {len(branches) - 1}")


def _others(branches: Sequence[Branch], shown: Branch) -> list[str]:
    if len(branches) == 1:
        return []
    last = len(branches) - 1
    which = "the current one" if shown.is_current else f"left behind; the current one is {last}"
    return [f"branch {shown.number} of 0 to {last}, {which} (--branch N shows another)"]


def _as_json(record: SessionMetadata, places: dict[str, int], messages: Sequence[Message]) -> bytes:
    """Write the description, which messages these are, and the messages."""
    head = serde.encode(record)[:-1] + b"," + serde.encode(places)[1:-1]
    return head + b',"messages":[' + b",".join(map(serde.encode, messages)) + b"]}"


def _heading(record: SessionMetadata, count: int) -> list[str]:
    facts = [
        record.session_id,
        model_of(record),
        place_of(record),
        f"{record.updated_at.astimezone():%Y-%m-%d %H:%M}",
        counted(count, "message"),
        f"fork of {one_line(origin.session_id)}" if (origin := record.forked_from) else "",
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

    from greenroom.cli.console.render_recap import render_recap
    from greenroom.cli.drawing.theme import ColorScheme

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
