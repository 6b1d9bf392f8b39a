"""What a list to choose from tells of a session."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from greenroom.cli.commands.sessions.row import below_home, one_line, place_of, title_of
from greenroom.session import SessionMetadata

__all__ = ["Entry", "age_words", "entries_of"]

_AGES = (
    (timedelta(days=365), "y"),
    (timedelta(days=60), "mo"),
    (timedelta(days=14), "w"),
    (timedelta(days=1), "d"),
    (timedelta(hours=1), "h"),
    (timedelta(minutes=1), "m"),
)
_UNITS = {"mo": timedelta(days=30), "w": timedelta(days=7)}


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
    return [_entry(each, here) for each in sessions if each.parent_session_id is None]


def _entry(session: SessionMetadata, here: str) -> Entry:
    return Entry(
        session_id=session.session_id,
        title=title_of(session),
        model=one_line(session.model),
        folder=below_home(place_of(session)),
        changed=session.updated_at,
        is_here=session.metadata.get("workspace") == here,
    )


def age_words(changed: datetime, now: datetime) -> str:
    """Say how long ago something was, in four letters at the most.

    Example:
        >>> from datetime import UTC, datetime
        >>> noon = datetime(2026, 1, 14, 12, tzinfo=UTC)
        >>> age_words(noon.replace(hour=9), noon), age_words(noon.replace(month=12, year=2025), noon)
        ('3h', '4w')
    """
    passed = now - changed
    for least, unit in _AGES:
        if passed >= least:
            return f"{min(passed // _UNITS.get(unit, least), 999)}{unit}"
    return "now"
