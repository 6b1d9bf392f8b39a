"""What a list to choose from tells of a session."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from greenroom.cli.commands.sessions.row import one_line, place_of, title_of
from greenroom.cli.run.folders import below_home
from greenroom.session import SessionMetadata


@dataclass(frozen=True, slots=True)
class Entry:
    """A session that can be chosen; no text in it holds anything that a terminal would obey.

    Attributes:
        session_id: its id.
        title: the words that it began with, on one line.
        model: the model last used, or empty.
        folder: where it was used last, or empty.
        changed: when it was last changed.
        is_here: whether it was used last in the working directory.
    """

    session_id: str
    title: str
    model: str
    folder: str
    changed: datetime
    is_here: bool


def entries_of(sessions: Iterable[SessionMetadata], workspace: Path) -> list[Entry]:
    """Return what can be chosen, in the order given: no subagents, which go on with their parent."""
    here = str(workspace)
    return [
        _entry(each, here)
        for each in sessions
        if each.parent_session_id is None or "imported_from" in each.metadata
    ]


def _entry(session: SessionMetadata, here: str) -> Entry:
    return Entry(
        session_id=session.session_id,
        title=title_of(session),
        model=one_line(session.model),
        folder=below_home(place_of(session)),
        changed=session.updated_at,
        is_here=session.metadata.get("workspace") == here,
    )
