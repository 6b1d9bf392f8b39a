"""All sessions of a store at a look: those that can be listed, and those that are damaged."""

import logging
from collections.abc import Iterable

import msgspec

from greenroom.core import SessionError
from greenroom.session.metadata import SessionMetadata

__all__ = ["StoreSurvey", "newest_first"]

_log = logging.getLogger("greenroom.session")


class StoreSurvey(msgspec.Struct, frozen=True):
    """What sessions there are in a store, as far as descriptions tell; histories are not read.

    Attributes:
        sessions: the descriptions, the last changed first.
        damaged: why each of the others is left out; `session_id` says which, `hint` what to do.
    """

    sessions: tuple[SessionMetadata, ...]
    damaged: tuple[SessionError, ...]

    def logged(self) -> list[SessionMetadata]:
        """Return the descriptions, and log what is left out."""
        for error in self.damaged:
            _log.warning("session %r is left out of the list: %s", error.session_id, error)
        return list(self.sessions)


def newest_first(sessions: Iterable[SessionMetadata]) -> tuple[SessionMetadata, ...]:
    """Sort descriptions as lists show them."""
    by_time = sorted(sessions, key=lambda each: (each.updated_at, each.session_id), reverse=True)
    return tuple(by_time)
