"""Lists of sessions by their descriptions, the last changed first: whole, or page by page."""

import base64
import binascii
import heapq
import math
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, TypeAlias

import msgspec

from greenroom.core._internal import InvalidJSONError, serde
from greenroom.session.description import SessionMetadata

LONGEST_PAGE = 1_000
_LATEST = (1 << 63) - 1

_Moment: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]


class SessionPage(msgspec.Struct, frozen=True):
    """Some of a store's sessions.

    Attributes:
        sessions: their descriptions, the last changed first.
        after: what to ask the next page with, or None if there is no other.
    """

    sessions: tuple[SessionMetadata, ...]
    after: str | None = None

    @staticmethod
    def of(
        sessions: Iterable[SessionMetadata],
        after: str | None = None,
        limit: int = 100,
        *,
        agent_type: str | None = None,
        archived: bool | None = None,
    ) -> "SessionPage":
        """Return a page of these sessions, given in any order; it looks at each once.

        Raises:
            ValueError: the limit is not from 1 to 1,000, or `after` is not of an earlier page.
        """
        return PageOrder(after, limit, agent_type, archived).pick(sessions)


def newest_first(sessions: Iterable[SessionMetadata]) -> tuple[SessionMetadata, ...]:
    """Sort descriptions for lists."""
    return tuple(sorted(sessions, key=_order, reverse=True))


class PageOrder(msgspec.Struct, frozen=True):
    """Which sessions a page is to have; see `SessionStore.list_page`.

    Raises:
        ValueError: the limit is not from 1 to 1,000, or `after` is not of an earlier page.
    """

    after: str | None = None
    limit: int = 100
    agent_type: str | None = None
    archived: bool | None = None
    _last: tuple[datetime, str] | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= LONGEST_PAGE:
            raise ValueError(f"limit is from 1 to {LONGEST_PAGE}, not {self.limit}")
        if self.after is not None:
            msgspec.structs.force_setattr(self, "_last", _read_place(self.after))

    @property
    def latest(self) -> int:
        """The second, since 1970, after which nothing on the page was changed."""
        return _LATEST if self._last is None else math.floor(self._last[0].timestamp())

    def accepts(self, session: SessionMetadata) -> bool:
        """Whether a session is on this page, or a later one."""
        return (
            (self.agent_type is None or session.agent_type == self.agent_type)
            and (self.archived is None or session.is_archived == self.archived)
            and (self._last is None or _order(session) < self._last)
        )

    def pick(self, sessions: Iterable[SessionMetadata]) -> SessionPage:
        """Return the page, given sessions in any order; it looks at each once."""
        accepted = filter(self.accepts, sessions)
        if isinstance(sessions, list) and len(sessions) <= 2 * self.limit:
            found = sorted(accepted, key=_order, reverse=True)  # many times as fast
        else:
            found = heapq.nlargest(self.limit + 1, accepted, key=_order)
        page = tuple(found[: self.limit])
        return SessionPage(page, _write_place(page[-1]) if len(found) > self.limit else None)


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
