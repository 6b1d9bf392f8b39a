"""Commands that read stored sessions: `greenroom sessions list`, `search`, `show` and `export`."""

import os
import secrets
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING

import trio

from greenroom.cli.command_options import SessionsOptions
from greenroom.cli.formatting import (
    RecapLine,
    age,
    model_of,
    one_line,
    place_of,
    recap,
    shorten_home,
    title_of,
)
from greenroom.cli.stdio import OutputWriter, tell
from greenroom.cli.stored_sessions import load_session, open_store, working_folder
from greenroom.core import ConfigurationError, Message, SessionError
from greenroom.core._internal import quantity, serde, visible
from greenroom.fs._internal import durable
from greenroom.session import AgentSession, SessionMetadata
from greenroom.session._internal import Branch, SearchHit, SessionSearch

if TYPE_CHECKING:
    from greenroom.export._internal import ExportFormat

_MAX_NAMED = 5  # damaged sessions that are named
_DEFAULT_ROWS = 30  # rows for a person; a pipe gets all
_MODEL_FROM, _FOLDER_FROM = 110, 70  # columns of the terminal below which these are left out
_MIN_TITLE = 8  # columns that a title has at the least


async def list_sessions(options: SessionsOptions) -> int:
    """Print the stored sessions, the last changed first; the exit code is 1 if one is left out.

    Raises:
        SessionStorageError: the store can't be read.
    """
    survey = await open_store(options).survey()
    sessions = _select(survey.sessions, options)
    page = OutputWriter()
    most = options.limit or (
        _DEFAULT_ROWS if page.is_terminal and not options.json else len(sessions)
    )
    listed = sessions[:most]
    if options.json:
        await page.line(b"[" + b",".join(serde.encode(each) for each in listed) + b"]")
    elif not sessions:
        await page.text(f"There are no sessions {'here' if options.here else 'yet'}.")
    else:
        await page.text(_table(listed, page.columns))
        if len(sessions) > len(listed):
            await page.text(f"{len(sessions) - len(listed)} more: --limit N shows more of them")
    _report_damaged(survey.damaged)
    return 1 if survey.damaged else 0


def _report_damaged(damaged: Sequence[SessionError]) -> None:
    """Say which sessions are left out, and what can be done about them."""
    for error in damaged[:_MAX_NAMED]:
        tell(f"left out: {one_line(error.session_id)}: {error}")
    if len(damaged) > _MAX_NAMED:
        tell(f"left out: {quantity(len(damaged) - _MAX_NAMED, 'more session')} that can't be read")


def _select(sessions: Sequence[SessionMetadata], options: SessionsOptions) -> list[SessionMetadata]:
    """Return the sessions that the options select: by folder, archived ones, subagents'.

    A subagent's session is hidden with its parent's, unless that is missing or it was imported
    alone.
    """
    here = str(working_folder()) if options.here else None
    known = {each.session_id for each in sessions}
    return [
        each
        for each in sessions
        if (options.all or not (each.is_archived or _is_with_parent(each, known)))
        and (here is None or each.metadata.get("workspace") == here)
    ]


def _is_with_parent(session: SessionMetadata, known: Collection[str]) -> bool:
    return session.parent_session_id in known and "imported_from" not in session.metadata


def _table(sessions: Sequence[SessionMetadata], columns: int | None) -> str:
    """Lay sessions out in columns.

    A narrow terminal shows no model, and a narrower one no folder; titles are cut. A pipe gets all.
    """
    from rich.cells import cell_len, set_cell_size

    width = columns or sys.maxsize
    parts: list[tuple[str, Callable[[SessionMetadata], str]]] = [
        ("session", lambda each: each.session_id),
        ("age", lambda each: age(each.updated_at)),
    ]
    if width >= _MODEL_FROM:
        parts.append(("model", model_of))
    if width >= _FOLDER_FROM:
        parts.append(("folder", partial(_short_place, most=width // 4)))
    rows = [
        [name for name, _ in parts],
        *([write(each) for _, write in parts] for each in sessions),
    ]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    room = max(width - sum(widths) - 2 * len(widths), _MIN_TITLE)
    lines = []
    for row, title in zip(rows, ["title", *map(title_of, sessions)], strict=True):
        cells = [f"{set_cell_size(cell, most)}  " for cell, most in zip(row, widths, strict=True)]
        cut = title if cell_len(title) <= room else f"{set_cell_size(title, room - 1)}…"
        lines.append("".join(cells) + cut)
    return "\n".join(lines)


def _short_place(session: SessionMetadata, most: int) -> str:
    """Return the folder, shortened at its beginning."""
    place = shorten_home(place_of(session))
    return place if len(place) <= most else f"…{place[1 - most :]}"


_DEFAULT_HITS = 20  # sessions that are found, unless more are asked for


async def search_sessions(options: SessionsOptions) -> int:
    """Print the sessions that contain a text, each as it is found; the exit code is 1 after damage.

    Raises:
        SessionStorageError: the store can't be read.
        OSError: standard output can't be written.
    """
    store, page, hits = open_store(options), OutputWriter(), list[SearchHit]()
    survey = await store.survey()
    search = SessionSearch(options.text, _select(survey.sessions, options), store)
    limit = options.limit or _DEFAULT_HITS
    while len(hits) < limit and (hit := await anext(search, None)) is not None:
        hits.append(hit)
        if not options.json:
            await _show(hit, options.text, page)
    if options.json:
        await page.line(_hits_as_json(hits, search))
    elif not hits:
        await page.text(f"Nothing was found in {quantity(search.searched, 'session')}.")
    if len(hits) == limit and not options.json:
        tell(f"the search ended at {quantity(limit, 'session')}; --limit N looks for more")
    for error in search.damaged[:_MAX_NAMED]:
        tell(str(error))
    if len(search.damaged) > _MAX_NAMED:
        tell(f"{quantity(len(search.damaged) - _MAX_NAMED, 'more session')} could not be read")
    _report_damaged(survey.damaged)
    return 1 if search.damaged or survey.damaged else 0


async def _show(hit: SearchHit, text: str, page: OutputWriter) -> None:
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
    """Say where the text is, with the numbers that `show` takes and prints."""
    if hit.at is None:
        return "title"
    more = f" and {hit.count - 1} more" if hit.count > 1 else ""
    branch = f"branch {hit.branch}, " if hit.branch is not None else ""
    return f"{branch}message {hit.at + 1}{more}"


def _hits_as_json(hits: list[SearchHit], search: SessionSearch) -> bytes:
    rows = [
        {
            "session": hit.session,
            "message": None if hit.at is None else hit.at + 1,
            "branch": hit.branch,
            "count": hit.count,
            "snippet": hit.snippet,
        }
        for hit in hits
    ]
    damaged = [{"session_id": error.session_id, "error": error.message} for error in search.damaged]
    return serde.encode({"hits": rows, "searched": search.searched, "damaged": damaged})


async def show_session(options: SessionsOptions) -> int:
    """Print a session's conversation, each message with the number that fork and rewind take.

    Raises:
        SessionError: the session is unknown, can't be read, or has no such branch.
    """
    session = await load_session(options.session_id, open_store(options))
    if session.repair is not None:
        tell(str(session.repair))
    branches = await session.read_branches()
    branch = _find_branch(branches, options.branch)
    history = branch.history
    count = len(history)
    skipped = max(count - options.last, 0) if options.last else 0
    page = OutputWriter()
    if options.json:
        places = {"branch": branch.number, "branches": len(branches), "skipped": skipped}
        await page.line(_messages_as_json(session.description.record, places, history[skipped:]))
        return 0
    if skipped and history[skipped].tool_results:
        skipped -= 1  # results are shown with their calls
    heading = _describe(session.description.record, count) + _describe_branch(branches, branch)
    await page.text("\n".join(heading))
    if skipped:
        await page.text(f"\n… {quantity(skipped, 'earlier message')} left out")
    await show_lines((line for line in recap(history) if line.at >= skipped), page, count)
    return 0


def _find_branch(branches: Sequence[Branch], number: int | None) -> Branch:
    if number is None:
        return branches[-1]
    if number < len(branches):
        return branches[number]
    raise SessionError(f"there is no branch {number}: the last is {len(branches) - 1}")


def _describe_branch(branches: Sequence[Branch], branch: Branch) -> list[str]:
    if len(branches) == 1:
        return []
    last = len(branches) - 1
    which = "the current one" if branch.is_current else f"not the current one, which is {last}"
    return [f"branch {branch.number} of 0 to {last}, {which} (--branch N shows another)"]


def _messages_as_json(
    record: SessionMetadata, places: dict[str, int], messages: Sequence[Message]
) -> bytes:
    """Write the description, which messages these are, and the messages."""
    head = serde.encode(record)[:-1] + b"," + serde.encode(places)[1:-1]
    return head + b',"messages":[' + b",".join(map(serde.encode, messages)) + b"]}"


def _describe(record: SessionMetadata, count: int) -> list[str]:
    facts = [
        record.session_id,
        model_of(record),
        place_of(record),
        f"{record.updated_at.astimezone():%Y-%m-%d %H:%M}",
        quantity(count, "message"),
        f"fork of {one_line(origin.session_id)}" if (origin := record.forked_from) else "",
    ]
    lines = [title_of(record), " · ".join(fact for fact in facts if fact)]
    return [line for line in lines if line]


async def show_lines(lines: Iterable[RecapLine], page: OutputWriter, count: int) -> None:
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
        rendered = render_recap(line, scheme) if page.is_terminal else Text(str(line))
        row.add_row(Text(number, scheme.note), rendered)
        await page.text("")
        await page.show(row)
        before = line.at


_ENDINGS: dict[str, "ExportFormat"] = {".html": "html", ".htm": "html", ".json": "json"}


async def export_to(options: SessionsOptions) -> int:
    """Write a session to standard output or to a new file, all of it or nothing.

    Raises:
        SessionError: the session is unknown or can't be read.
        ConfigurationError: the file exists and may not be replaced; or `--json` without a file.
        OSError: the file or standard output can't be written.
    """
    if options.json and options.output is None:
        raise ConfigurationError(
            "--json describes the file that is written: add -o FILE",
            hint="--format json writes the session as JSON",
        )
    session = await load_session(options.session_id, open_store(options))
    if session.repair is not None:
        tell(str(session.repair))
    out = OutputWriter()
    if options.output is None:
        await _write(session, out.write, options)
        return 0
    pieces = list[str]()
    await _write(session, pieces.append, options)
    write = partial(write_new_file, options.output, "".join(pieces), force=options.force)
    await trio.to_thread.run_sync(write)
    if options.json:
        done = {"session_id": session.session_id, "messages": len(session.history)}
        await out.line(serde.encode({**done, "format": _format(options), "file": options.output}))
    return 0


async def _write(
    session: AgentSession, write: Callable[[str], None], options: SessionsOptions
) -> None:
    # Here and not above: no other verb needs a parser of Markdown.
    from greenroom.export import export_session

    await export_session(session, write, _format(options))


def _format(options: SessionsOptions) -> "ExportFormat":
    ending = PurePath(options.output or "").suffix.lower()
    return options.format or _ENDINGS.get(ending, "markdown")


def write_new_file(path: str, text: str, *, force: bool) -> None:
    """Write a file that only this user can read, whole or not at all; it blocks.

    Args:
        path: where.
        text: what it says.
        force: whether it may replace an existing file.

    Raises:
        ConfigurationError: the file exists, and `force` is not set.
        OSError: the disk refused.
    """
    path, data = os.path.abspath(path), text.encode("utf-8", "replace")
    if force:
        durable.write_file(path, data)
        return
    if os.path.lexists(path):
        raise _exists_error(path)
    folder, name = os.path.split(path)
    own = os.path.join(folder, f".{name[:60]}.{secrets.token_hex(8)}")
    try:
        durable.write_file(own, data)
        try:
            os.link(own, path)
        except FileExistsError:  # there is a file by now
            raise _exists_error(path) from None
        except OSError:  # a file system without links
            os.replace(own, path)
    except OSError as error:
        error.filename, error.filename2 = path, None
        raise
    finally:
        with suppress(FileNotFoundError):
            os.unlink(own)


def _exists_error(path: str) -> ConfigurationError:
    return ConfigurationError(f"{path} exists", hint="--force replaces it")
