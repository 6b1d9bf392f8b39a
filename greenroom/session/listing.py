"""Lists of sessions by their descriptions, the last changed first: whole, or page by page."""

import base64
import binascii
import heapq
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, TypeAlias

import msgspec

from greenroom.core import InvalidJSONError, serde
from greenroom.session.description import SessionMetadata

LONGEST_PAGE = 1_000

_Moment: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]


class SessionPage(msgspec.Struct, frozen=True):
    """Some of a store's sessions.

    Attributes:
        sessions: their descriptions, the last changed first.
        after: what to ask the next page with, or None if there is no other.
    """

    sessions: tuple[SessionMetadata, ...]
    after: str | None = None


def newest_first(sessions: Iterable[SessionMetadata]) -> tuple[SessionMetadata, ...]:
    """Sort descriptions for lists."""
    return tuple(sorted(sessions, key=_order, reverse=True))


def page_of(
    sessions: Iterable[SessionMetadata],
    after: str | None = None,
    limit: int = 100,
    *,
    agent_type: str | None = None,
    archived: bool | None = None,
) -> SessionPage:
    """Return a page of these sessions, given in any order; it looks at each once.

    Raises:
        ValueError: the limit is not from 1 to 1,000, or `after` is not of an earlier page.
    """
    if not 1 <= limit <= LONGEST_PAGE:
        raise ValueError(f"limit is from 1 to {LONGEST_PAGE}, not {limit}")
    last = None if after is None else _read_place(after)
    wanted = (
        each
        for each in sessions
        if (agent_type is None or each.agent_type == agent_type)
        and (archived is None or each.is_archived == archived)
        and (last is None or _order(each) < last)
    )
    found = heapq.nlargest(limit + 1, wanted, key=_order)
    page = tuple(found[:limit])
    return SessionPage(page, _write_place(page[-1]) if len(found) > limit else None)


def _order(session: SessionMetadata) -> tuple[datetime, str]:
    return session.updated_at, session.session_id


def _write_place(session: SessionMetadata) -> str:
    return base64.urlsafe_b64encode(serde.encode(_order(session))).decode()


def _read_place(text: str) -> tuple[datetime, str]:
    try:
        data = base64.b64decode(text.encode(), altchars=b"-_", validate=True)
        return serde.decode(data, tuple[_Moment, str])
    except (InvalidJSONError, ValueError, binascii.Error):
        raise ValueError(f"{text[:80]!r} is not the `after` of a page of sessions") from None
