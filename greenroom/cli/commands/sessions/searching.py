"""`greenroom sessions search`: in which session was that?"""

from typing import TYPE_CHECKING

from greenroom.cli.commands.sessions.listing import shown_sessions, tell_damaged
from greenroom.cli.commands.sessions.row import age, one_line, title_of
from greenroom.cli.drawing.page import Page
from greenroom.cli.run.store import open_store
from greenroom.cli.streams.output_writer import tell
from greenroom.core import serde, visible
from greenroom.session import SearchHit, SessionSearch

if TYPE_CHECKING:
    from greenroom.cli.commands.sessions.arguments import SessionsOptions

_USUAL = 20  # sessions that are found, unless more are asked for
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
    limit = options.limit or _USUAL
    while len(found) < limit and (hit := await anext(search, None)) is not None:
        found.append(hit)
        if not options.json:
            await _show(hit, options.text, page)
    if options.json:
        await page.line(_as_json(found, search))
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


def _as_json(found: list[SearchHit], search: SessionSearch) -> bytes:
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
