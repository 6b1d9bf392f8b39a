"""`greenroom sessions list`: which sessions there are."""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING

import trio

from greenroom.cli.recap import (
    RecapLine,
    age,
    below_home,
    counted,
    model_of,
    one_line,
    place_of,
    recap,
    title_of,
)
from greenroom.cli.stored_sessions import load_session, open_store, working_folder
from greenroom.cli.streams import NewFile, OutputWriter, Page, tell
from greenroom.core import ConfigurationError, Message, SessionError, serde, visible
from greenroom.session import AgentSession, Branch, SearchHit, SessionMetadata, SessionSearch

if TYPE_CHECKING:
    from rich.table import Table

    from greenroom.cli.arguments import SessionsOptions
    from greenroom.export import ExportFormat

_TOLD = 5

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


# ---- `greenroom sessions search`: in which session was that?

_USUAL_HITS = 20  # sessions that are found, unless more are asked for
_TOLD = 5  # damaged sessions that are told by name


async def search_sessions(options: "SessionsOptions") -> int:
    """Print the sessions that hold a text, each as it is found; the exit code is 1 after damage.

    Raises:
        SessionStorageError: the store can't be read.
        OSError: standard output can't be written.
    """
    store, page, found = open_store(options), Page(), list[SearchHit]()
    survey = await store.survey()
    search = SessionSearch(options.text, shown_sessions(survey.sessions, options), store)
    limit = options.limit or _USUAL_HITS
    while len(found) < limit and (hit := await anext(search, None)) is not None:
        found.append(hit)
        if not options.json:
            await _show(hit, options.text, page)
    if options.json:
        await page.line(_hits_as_json(found, search))
    elif not found:
        await page.text(f"Nothing was found in {_sessions(search.searched)}.")
    if len(found) == limit and not options.json:
        tell(f"the search ended at {_sessions(limit)}; --limit N looks for more")
    for error in search.damaged[:_TOLD]:
        tell(str(error))
    if len(search.damaged) > _TOLD:
        tell(f"and {_sessions(len(search.damaged) - _TOLD)} more could not be read")
    tell_damaged(survey.damaged)
    return 1 if search.damaged or survey.damaged else 0


async def _show(hit: SearchHit, text: str, page: Page) -> None:
    from rich.padding import Padding
    from rich.text import Text

    head = Text(f"{hit.session.session_id}  {age(hit.session.updated_at)}  ")
    head.append(title_of(hit.session), "bold")
    if page.columns is not None:
        head.truncate(page.columns, overflow="ellipsis")
    snippet = Text(one_line(hit.snippet))
    snippet.highlight_words([visible(text)], "bold yellow", case_sensitive=False)
    place = Text(f"{_place(hit)}: ", "dim")
    await page.show(head, Padding(Text.assemble(place, snippet), (0, 0, 0, 4), expand=False))


def _place(hit: SearchHit) -> str:
    """Say where it stands, with the numbers that `show` takes and gives."""
    if hit.at is None:
        return "title"
    more = f" and {hit.count - 1} more" if hit.count > 1 else ""
    branch = f"branch {hit.branch}, " if hit.branch is not None else ""
    return f"{branch}message {hit.at + 1}{more}"


def _hits_as_json(found: list[SearchHit], search: SessionSearch) -> bytes:
    hits = [
        {
            "session": hit.session,
            "message": None if hit.at is None else hit.at + 1,
            "branch": hit.branch,
            "count": hit.count,
            "snippet": hit.snippet,
        }
        for hit in found
    ]
    damaged = [{"session_id": error.session_id, "error": error.message} for error in search.damaged]
    return serde.encode({"hits": hits, "searched": search.searched, "damaged": damaged})


def _sessions(count: int) -> str:
    return f"{count} session{'' if count == 1 else 's'}"


# ---- `greenroom sessions show`: a conversation, to be read.


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
        await page.line(_messages_as_json(session.record, places, history[skipped:]))
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


def _messages_as_json(
    record: SessionMetadata, places: dict[str, int], messages: Sequence[Message]
) -> bytes:
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

    from greenroom.cli.painter import ColorScheme
    from greenroom.cli.render_chunk import render_recap

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


# ---- `greenroom sessions export`: a session as a text to read or to carry away.

_ENDINGS: dict[str, "ExportFormat"] = {".html": "html", ".htm": "html", ".json": "json"}


async def export_to(options: "SessionsOptions") -> int:
    """Write a session to standard output or to a new file, all of it or nothing.

    Raises:
        SessionError: the session is unknown or can't be read.
        ConfigurationError: the file exists and may not be replaced; or `--json` without a file.
        OSError: the file or standard output can't be written.
    """
    if options.json and options.output is None:
        raise ConfigurationError(
            "--json tells of the file that was written: add -o FILE",
            hint="--format json writes the session as JSON",
        )
    session = await load_session(options.session_id, open_store(options))
    if session.repair is not None:
        tell(str(session.repair))
    out = OutputWriter()
    if options.output is None:
        await _write(session, out.write, options)
        return 0
    await _write_file(session, options.output, options)
    if options.json:
        done = {"session_id": session.session_id, "messages": len(session.history)}
        await out.line(serde.encode({**done, "format": _format(options), "file": options.output}))
    return 0


async def _write_file(session: AgentSession, path: str, options: "SessionsOptions") -> None:
    file = await trio.to_thread.run_sync(NewFile, path, options.force)
    try:
        await _write(session, file.write, options)
        await trio.to_thread.run_sync(file.finish)
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(file.close)


async def _write(
    session: AgentSession, write: Callable[[str], None], options: "SessionsOptions"
) -> None:
    # Here and not above: no other verb needs a parser of Markdown.
    from greenroom.export import export_session

    await export_session(session, write, _format(options))


def _format(options: "SessionsOptions") -> "ExportFormat":
    ending = PurePath(options.output or "").suffix.lower()
    return options.format or _ENDINGS.get(ending, "markdown")
