"""What a session's history holds besides the current conversation: branches and checkpoints.

Both are computed from the entries when asked for, and not kept in memory.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec

from greenroom.core import Message, SessionError
from greenroom.core._internal import Checkpoint
from greenroom.session.entries import (
    CheckpointEntry,
    CompactionEntry,
    CopiedEntry,
    Entry,
    MessageEntry,
    Replacement,
    RewindEntry,
    messages_of,
    update_values,
)
from greenroom.session.transcript import Transcript, place_error

_Beginning: TypeAlias = Literal["rewind", "compaction", "rewrite"]


class Branch(msgspec.Struct, frozen=True, eq=False):
    """The current conversation, or an earlier one as it was when it was left.

    A rewind, a compaction or a rewrite begins a branch; together they form a tree. A branch without
    a message of its own does not count.

    Attributes:
        number: its place among the branches, from 0, in the order in which they were left. It never
            changes; the current one has the last.
        begun_by: "rewind", "compaction" or "rewrite"; None for the first.
        parent: the branch that it left; None for the first.
        begins_at: how many messages of the parent's history come before that place.
        messages: those that it does not share with its parent: after a rewind, the new ones; after
            a compaction, its summary, the `kept` messages that it repeats, and the new ones; after
            a rewrite, those that it wrote, and the new ones.
        kept: how many messages a compaction repeats.
        is_current: whether it is the current conversation.
    """

    number: int
    begun_by: _Beginning | None
    parent: "Branch | None"
    begins_at: int
    messages: tuple[Message, ...]
    kept: int
    is_current: bool

    def __repr__(self) -> str:
        """Describe it without its messages and its parent, which may be long."""
        return (
            f"Branch(number={self.number}, begun_by={self.begun_by!r}, begins_at={self.begins_at},"
            f" kept={self.kept}, is_current={self.is_current})"
        )

    @property
    def history(self) -> tuple[Message, ...]:
        """The whole conversation with the shared part, as `fork(at, branch=number)` counts it."""
        pieces = [self.messages]
        branch, end = self.parent, self.shared
        while branch is not None and end:
            pieces.append(branch.messages[: max(end - branch.shared, 0)])
            end = min(end, branch.shared)
            branch = branch.parent
        return tuple(message for piece in reversed(pieces) for message in piece)

    @property
    def shared(self) -> int:
        """How many messages at its beginning are its parent's."""
        return self.begins_at if self.begun_by == "rewind" else 0


def find_branches(entries: Iterable[Entry]) -> tuple[Branch, ...]:
    """Return every branch of a history, the current one last."""
    transcript, found, start = Transcript(), list[Branch](), _BranchStart()
    for entry in entries:
        if not isinstance(entry, RewindEntry | Replacement):
            transcript.apply(entry)
            continue
        length, own = len(transcript), transcript.own
        transcript.apply(entry)
        if transcript.branch > len(found):
            found.append(start.branch(len(found), own, is_current=False))
            start = start.next(entry, length, found[-1])
        elif length > len(transcript) or isinstance(entry, Replacement):
            start = start.next(entry, length, start.parent)
    return (*found, start.branch(len(found), transcript.own, is_current=True))


def replay_branch(entries: Sequence[Entry], number: int) -> Transcript:
    """Return the conversation of a branch as it was when it was left.

    Raises:
        SessionError: there is no such branch.
    """
    transcript = Transcript()
    for place, entry in enumerate(entries):
        transcript.apply(entry)
        if transcript.branch > number >= 0:
            return Transcript(entries[:place])
    if transcript.branch != number:
        raise SessionError(
            f"there is no branch {number}: the last is {transcript.branch}",
            hint="session.read_branches() shows them",
        )
    return transcript


class _BranchStart(msgspec.Struct, frozen=True):
    """How the branch began that the entries now add to."""

    begun_by: _Beginning | None = None
    parent: Branch | None = None
    begins_at: int = 0
    kept: int = 0

    def branch(self, number: int, own: tuple[Message, ...], *, is_current: bool) -> Branch:
        return Branch(
            number, self.begun_by, self.parent, self.begins_at, own, self.kept, is_current
        )

    def next(
        self, entry: RewindEntry | Replacement, length: int, parent: Branch | None
    ) -> "_BranchStart":
        if isinstance(entry, Replacement):
            word: _Beginning = "compaction" if isinstance(entry, CompactionEntry) else "rewrite"
            return _BranchStart(word, parent, length, min(entry.keep, length))
        # The messages before that place may belong to an older branch.
        while parent is not None and parent.shared > 0 and entry.to <= parent.shared:
            parent = parent.parent
        return _BranchStart("rewind", parent, entry.to)


_COPIED = Checkpoint("", "", (), gaps=("what tools changed before it was copied is not known",))


def checkpoints_after(entries: Iterable[Entry], to: int) -> tuple[Checkpoint, ...]:
    """Return the checkpoints that a rewind to the first `to` messages has to undo, in order.

    Those are the ones recorded since the last of these messages was added, no matter what was
    rewound since. Of two records of one checkpoint, the later one counts. A copied session, such as
    a fork, has no record of what calls changed before the copy; one checkpoint stands for them and
    says so.

    Raises:
        SessionError: there are fewer messages.
    """
    places: list[int] = []  # for each message, how many checkpoints came before it
    found: dict[str, Checkpoint] = {}
    called = 0  # how many messages there were with the last reply that calls tools
    for entry in entries:
        place = len(found)
        if isinstance(entry, Replacement):  # its head takes the place of the last one replaced
            cut = max(len(places) - entry.keep, 0)
            place = places[cut - 1] if cut else 0
        update_values(places, entry, [place] * len(messages_of(entry)))
        if isinstance(entry, MessageEntry) and entry.message.tool_uses:
            called = len(places)
        elif isinstance(entry, CopiedEntry) and called:
            found[_COPIED.id] = _COPIED
            places[called:] = [len(found)] * (len(places) - called)
        elif isinstance(entry, CheckpointEntry):
            found[entry.checkpoint.id] = entry.checkpoint
    if not 0 <= to <= len(places):
        raise place_error(to, len(places))
    return tuple(found.values())[places[to - 1] if to else 0 :]
