"""What is to become of each file that tools changed, decided from what is on record of it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal

from greenroom.core import Checkpoint, FileChange, FileState, visible
from greenroom.tools import Packs, look_at


@dataclass(frozen=True)
class FileRestore:
    """What is to become of one file that tools changed.

    Attributes:
        path: relative to the workspace's root.
        action: it is written back, or deleted as tools made it; it is left, since somebody else
            has changed it; or what it was is lost.
        reason: why it is left or lost; else empty.
        present: how it is now.
        wanted: how it was.
    """

    path: str
    action: Literal["write", "delete", "leave", "lost"]
    reason: str = ""
    present: FileState = field(default=FileState("absent"), repr=False)
    wanted: FileState = field(default=FileState("absent"), repr=False)

    @property
    def label(self) -> str:
        """The path in one line, with hidden characters made visible."""
        return visible(self.path).replace("\n", "\\u{a}")

    def __str__(self) -> str:
        return f"{self.action} {self.label}" + (f": {self.reason}" if self.reason else "")


def gaps_of(checkpoints: Iterable[Checkpoint], root: Path) -> tuple[str, ...]:
    """Return what is not known of the changes below a root, each sentence once."""
    gaps: dict[str, None] = {}
    for each in checkpoints:
        gaps.update(dict.fromkeys(each.gaps))
        if each.changes and each.root != str(root):
            gaps[f"{len(each.changes)} files were changed in another workspace, {each.root}"] = None
    return tuple(gaps)


def judge_files(
    checkpoints: Iterable[Checkpoint], root: Path, packs: Packs
) -> tuple[FileRestore, ...]:
    """Decide about each file below the root that is not as it was. Blocks.

    Raises:
        OSError: what is kept of a session's files can't be read.
    """
    chains = _chains(each for each in checkpoints if each.root == str(root))
    files = (_judge(root, path, chain, packs) for path, chain in sorted(chains.items()))
    return tuple(each for each in files if each is not None)


def _chains(checkpoints: Iterable[Checkpoint]) -> dict[str, list[FileChange]]:
    """Return what became of each path, in order; a path that leads out of the root is none."""
    chains: dict[str, list[FileChange]] = {}
    for checkpoint in checkpoints:
        for change in checkpoint.changes:
            parts = change.path.split("/")
            if "\0" not in change.path and not {"", ".", ".."}.intersection(parts):
                chains.setdefault(change.path, []).append(change)
    return chains


def _judge(root: Path, path: str, chain: list[FileChange], packs: Packs) -> FileRestore | None:
    """Decide about one file; None where it is as it was."""
    wanted, present = chain[0].before, look_at(root / path).state
    if present.same(wanted):
        return None
    left = _why_left(chain, present)
    if left:
        return FileRestore(path, "leave", left)
    lost = _why_lost(wanted, packs)
    if lost:
        return FileRestore(path, "lost", lost)
    action: Literal["write", "delete"] = "delete" if wanted.kind == "absent" else "write"
    return FileRestore(path, action, "", present, wanted)


def _why_left(chain: list[FileChange], present: FileState) -> str:
    if any(change.after is None for change in chain):
        return "a call that changed it was cut off, and what it left is not known"
    after = chain[-1].after
    assert after is not None
    if after.problem and after.kind == "file":
        return after.problem
    if not present.same(after):
        return "somebody else has changed it since"
    for first, second in pairwise(chain):
        if first.after is None or not first.after.same(second.before):
            return "somebody else has changed it between two calls"
    return ""


def _why_lost(wanted: FileState, packs: Packs) -> str:
    if wanted.kind == "other" or wanted.problem:
        return wanted.problem
    if wanted.kind == "file" and wanted.digest not in packs:
        return "its former content is not kept, or no longer"
    return ""
