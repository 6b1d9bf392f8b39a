"""`greenroom sessions list`: which sessions there are."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from greenroom.cli.commands.sessions.row import (
    age,
    counted,
    model_of,
    one_line,
    place_of,
    title_of,
)
from greenroom.cli.drawing.page import Page
from greenroom.cli.run.folders import below_home, working_folder
from greenroom.cli.run.store import open_store
from greenroom.cli.streams.output_writer import tell
from greenroom.core import SessionError, serde
from greenroom.session import SessionMetadata

if TYPE_CHECKING:
    from rich.table import Table

    from greenroom.cli.commands.sessions.arguments import SessionsOptions

_TOLD = 5  # damaged sessions that are named
_USUAL = 30  # rows for a person; a pipe gets all
_MODEL_FROM, _FOLDER_FROM = 110, 70  # columns of the terminal below which these are left out
_TITLE = 8  # columns that a title has at the least


async def list_sessions(options: "SessionsOptions") -> int:
    """Print the stored sessions, the last changed first; the exit code is 1 if one is left out.

    Raises:
        SessionStorageError: the store can't be read.
    """
    survey = await open_store(options).survey()
    found = shown_sessions(survey.sessions, options)
    page = Page()
    most = options.limit or (_USUAL if page.is_terminal and not options.json else len(found))
    shown = found[:most]
    if options.json:
        await page.line(b"[" + b",".join(serde.encode(each) for each in shown) + b"]")
    elif not found:
        await page.text(f"There are no sessions {'here' if options.here else 'yet'}.")
    else:
        if page.columns is None:
            await page.text(_plain(shown))
        else:
            await page.show(_table(shown, page.columns))
        if len(found) > len(shown):
            await page.text(f"{len(found) - len(shown)} more: --limit N shows more of them")
    tell_damaged(survey.damaged)
    return 1 if survey.damaged else 0


def tell_damaged(damaged: Sequence[SessionError]) -> None:
    """Say which sessions are left out, and what can be done about them."""
    for error in damaged[:_TOLD]:
        tell(f"left out: {one_line(error.session_id)}: {error}")
    if len(damaged) > _TOLD:
        tell(f"left out: {counted(len(damaged) - _TOLD, 'more session')} that can't be read")


def shown_sessions(
    sessions: Sequence[SessionMetadata], options: "SessionsOptions"
) -> list[SessionMetadata]:
    """Return those that the user wants to see: of this folder, also archived ones and subagents'.

    A subagent's session whose parent is not stored stands for itself, and so does one that was imported.
    """
    here = str(working_folder()) if options.here else None
    known = {each.session_id for each in sessions}
    return [
        each
        for each in sessions
        if (options.all or not (each.is_archived or _belongs(each, known)))
        and (here is None or each.metadata.get("workspace") == here)
    ]


def _belongs(session: SessionMetadata, known: Collection[str]) -> bool:
    """Whether a session is a part of another one that is there."""
    return session.parent_session_id in known and "imported_from" not in session.metadata


def _plain(sessions: Sequence[SessionMetadata]) -> str:
    """Lay all of it out for a pipe; thousands of rows would take a table of a terminal seconds."""
    from rich.cells import cell_len

    rows = [("session", "age", "model", "folder", "title")]
    for each in sessions:
        place = below_home(place_of(each))
        told = age(each.updated_at), model_of(each), place, title_of(each)
        rows.append((each.session_id, *told))
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    )


def _table(sessions: Sequence[SessionMetadata], columns: int) -> "Table":
    """Lay them out; on a narrow terminal the model is left out, then the folder, and titles are cut."""
    from rich.table import Table
    from rich.text import Text

    parts: list[tuple[str, Callable[[SessionMetadata], str]]] = [
        ("session", lambda each: each.session_id),
        ("age", lambda each: age(each.updated_at)),
    ]
    if columns >= _MODEL_FROM:
        parts.append(("model", model_of))
    if columns >= _FOLDER_FROM:
        parts.append(("folder", partial(_short_place, most=columns // 4)))
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    taken, rows = 0, [[Text(words(each)) for _, words in parts] for each in sessions]
    for place, (name, _) in enumerate(parts):
        table.add_column(name, no_wrap=True)
        taken += max(len(name), *(row[place].cell_len for row in rows)) + 2
    table.add_column("title", no_wrap=True)
    for row, each in zip(rows, sessions, strict=True):
        title = Text(title_of(each))
        title.truncate(max(columns - taken, _TITLE), overflow="ellipsis")
        table.add_row(*row, title)
    return table


def _short_place(session: SessionMetadata, most: int) -> str:
    """Return the folder, of which the end says most."""
    place = below_home(place_of(session))
    return place if len(place) <= most else f"…{place[1 - most :]}"
