"""A session's messages and the changes to them, in memory: what is said, called and answered."""

from collections.abc import Iterable, Mapping

from greenroom.core import Message
from greenroom.session.description import Description
from greenroom.session.history.entry import MessageEntry, ToolsStartedEntry
from greenroom.session.history.transcript import Transcript
from greenroom.session.metadata import SessionMetadata

__all__ = ["Conversation"]


class Conversation(Description):
    """The part of a session that `history.jsonl` holds, in memory, with its description."""

    def __init__(self, record: SessionMetadata) -> None:
        """Begin with this description, and without a message."""
        super().__init__(record)
        self._transcript = Transcript()

    @property
    def history(self) -> tuple[Message, ...]:
        """The conversation in order; the same tuple until it changes."""
        return self._transcript.messages

    def add_message(self, message: Message) -> None:
        """Add a message to the conversation, in memory.

        Raises:
            TypeError: it is no `Message`.
            InvalidJSONError: the message holds something that can't be stored.
        """
        if not isinstance(message, Message):
            raise TypeError(
                f"{message!r} is no message: write Message.user(…) or Message.assistant(…)"
            )
        self._transcript.add(MessageEntry(message))
        self._touch()

    def mark_tools_started(self, ids: Iterable[str]) -> None:
        """Record that these calls of the last reply start; save it before they do."""
        if started := tuple(ids):
            self._transcript.add(ToolsStartedEntry(started))
            self._touch()

    def withdraw_tools_started(self) -> None:
        """Take back an unsaved `mark_tools_started`: the calls did not start after all."""
        self._transcript.withdraw_started()

    def pair_tool_uses(
        self, reason: str = "interrupted", told: Mapping[str, str] | None = None
    ) -> tuple[str, ...]:
        """Answer each call of the last reply that has no result, in one message; return their ids.

        Each answer is an error that names the reason, whether the call had started, and what it had
        `told` until then.
        """
        if ids := self._transcript.pair(reason, told or {}):
            self._touch()
        return ids
