"""Checkpoints: what became of files while tools ran, as values; their contents lie elsewhere."""

from typing import Literal

from greenroom.core.wire import Wire


class FileState(Wire, frozen=True):
    """How one path was at one moment.

    Attributes:
        kind: nothing there, a regular file, a symbolic link, or something else.
        mode: permission bits of a file.
        size: bytes of a file.
        digest: SHA-256 of a file's content in hex, or empty where it was not read.
        target: where a link points.
        problem: why it can't be told apart from others, or put back; else empty.

    Example:
        >>> FileState("absent").same(FileState("absent"))
        True
    """

    kind: Literal["absent", "file", "link", "other"]
    mode: int = 0
    size: int = 0
    digest: str = ""
    target: str = ""
    problem: str = ""

    def same(self, other: "FileState") -> bool:
        """Whether both are known to be alike; times do not count, and what was not read is not."""
        if self.kind != other.kind:
            return False
        if self.kind == "file":
            mine, theirs = (self.digest, self.mode), (other.digest, other.mode)
            return bool(self.digest) and mine == theirs
        return (self.target, self.problem) == (other.target, other.problem)


class FileChange(Wire, frozen=True):
    """One path before calls ran and after them.

    Attributes:
        path: relative to the workspace's root, with `/`.
        before: how it was before the first of the calls.
        after: what the calls left; None while they run, and for ever if the process died then.
    """

    path: str
    before: FileState
    after: FileState | None = None


class Checkpoint(Wire, frozen=True):
    """What the calls of one reply did to files; recorded when they start, and again when they ended.

    Attributes:
        id: the same in both records; the later one counts.
        root: the workspace's real path.
        tool_use_ids: the calls.
        changes: the files that they change.
        gaps: what is not known of their changes, a sentence each.
    """

    id: str
    root: str
    tool_use_ids: tuple[str, ...] = ()
    changes: tuple[FileChange, ...] = ()
    gaps: tuple[str, ...] = ()
