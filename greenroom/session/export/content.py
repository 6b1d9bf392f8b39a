"""What an export is made of: a session's description, its messages, and its subagents' the same."""

import msgspec

from greenroom.core import Message
from greenroom.session.metadata import FORKED_FROM, SessionMetadata

IMPORTED_FROM = "imported_from"
"""The key of an import's origin among the values in `metadata`."""


class SessionContent(msgspec.Struct, frozen=True):
    """A conversation, apart from any store.

    Attributes:
        metadata: its description.
        messages: its messages, in order.
        subagents: the sessions that it started, as far as they were found.
    """

    metadata: SessionMetadata
    messages: tuple[Message, ...]
    subagents: tuple["SessionContent", ...] = ()

    @property
    def title(self) -> str:
        """What it is called in lists, else its id."""
        title = self.metadata.metadata.get("title")
        words = " ".join(title.split()) if isinstance(title, str) else ""
        return words or self.metadata.session_id

    @property
    def missing(self) -> tuple[str, ...]:
        """The ids of the sessions that it started and that are not among its subagents."""
        found = {each.metadata.session_id for each in self.subagents}
        return tuple(id_ for id_ in self.metadata.child_session_ids if id_ not in found)

    @property
    def origin(self) -> tuple[str, str]:
        """The session that it was forked or imported from, and which of both; empty for neither."""
        for key, word in ((IMPORTED_FROM, "imported"), (FORKED_FROM, "forked")):
            origin = self.metadata.metadata.get(key)
            if isinstance(origin, dict) and isinstance(origin.get("session_id"), str):
                return origin["session_id"], word
        return "", ""
