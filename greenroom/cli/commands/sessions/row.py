"""What lists tell of a session, in words that no title can forge."""

from datetime import datetime, timedelta

from greenroom.core import clock, visible
from greenroom.session import SessionMetadata

_LONGEST = 200  # letters of a title or a folder
_DAYS = 14  # then a date says more


def one_line(value: object) -> str:
    r"""Show a text in one line, cut where it is long, with nothing in it that a terminal obeys.

    Example:
        >>> one_line("two\nlines \x1b[2J")
        'two lines \\u{1b}[2J'
    """
    text = " ".join(str(value)[: 4 * _LONGEST].split())
    return visible(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")


def title_of(session: SessionMetadata) -> str:
    """Return the words that name a session, and what kind of one it is where nothing else does."""
    title = one_line(session.metadata.get("title") or "")
    kinds = ["archived"] if session.is_archived else []
    if session.forked_from is not None:
        kinds.append("fork")
    if session.parent_session_id is not None:
        kinds.append("subagent")
    elif not title:
        kinds.append(one_line(session.agent_type))
    return f"{title} ({', '.join(kinds)})".strip() if kinds else title


def model_of(session: SessionMetadata) -> str:
    """Return the model that a session used last, in the form in which `--model` takes it."""
    return one_line(f"{session.provider}:{session.model}") if session.provider else ""


def place_of(session: SessionMetadata) -> str:
    """Return the folder that a session was used in last."""
    return one_line(session.metadata.get("workspace", ""))


def age(moment: datetime) -> str:
    """Say how long ago that was: in minutes, hours or days, or else its date."""
    passed = clock.now() - moment
    if passed < timedelta(minutes=1):
        return "now"
    if passed < timedelta(hours=1):
        return f"{passed // timedelta(minutes=1)} min"
    if passed < timedelta(days=1):
        return f"{passed // timedelta(hours=1)} h"
    if passed < timedelta(days=_DAYS):
        return f"{passed.days} d"
    return f"{moment.astimezone():%Y-%m-%d}"


def counted(count: int, what: str) -> str:
    """Write a number of things.

    Example:
        >>> counted(2, "file")
        '2 files'
    """
    return f"{count} {what}{'' if count == 1 else 's'}"
