"""A window: the time during which the calls of one reply run, and what its files were before."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from greenroom.core import FileChange, FileState, visible
from greenroom.tools.workspace.file_state import ABSENT, Look, Stamp, is_unicode, look_at
from greenroom.tools.workspace.packs import MAX_PACK_BYTES, Packs
from greenroom.tools.workspace.survey import Coverage

MAX_CHANGES = 1_000
"""Files on record for the calls of one reply; of more, only the number is."""

_NOT_KEPT = "its content was not kept"
_GRAIN = 2
"""Seconds; a file changed that shortly before it was read may change again and look the same."""


@dataclass
class Window:
    """What is known of the files before the calls ran; `changes` compares it with them now.

    Every method blocks.

    Attributes:
        root: the workspace's real path.
        coverage: which files are compared.
        begun: when it began, in seconds of wall time.
        declared: the files that calls said they would change.
        stamps: the stamps of all files, or None where they are not compared.
        states: how those files were whose content is known.
        gaps: what is not known, a sentence each.
    """

    root: Path
    coverage: Coverage
    begun: int
    declared: dict[str, Look] = field(default_factory=dict)
    stamps: dict[str, Stamp] | None = None
    states: dict[str, FileState] = field(default_factory=dict)
    gaps: list[str] = field(default_factory=list)

    def declare(self, paths: Iterable[str]) -> None:
        """Look at the files that calls say they will change, by absolute paths."""
        for path in paths:
            for real in _real_paths(path):
                self._declare(real)

    def _declare(self, real: Path) -> None:
        label = visible(str(real))
        if not real.is_relative_to(self.root) or real == self.root:
            self.gaps.append(f"{label} is outside of the workspace")
        elif label != str(real) and not is_unicode(str(real)):
            self.gaps.append(f"{label} has a name that is no Unicode")
        elif len(self.declared) < MAX_CHANGES:
            self.declared[real.relative_to(self.root).as_posix()] = self._held(look_at(real))
        else:
            self.gaps.append(f"{label} is one file more than can be on record")

    def _held(self, look: Look) -> Look:
        """Keep no more contents in memory than a pack takes."""
        held = sum(len(each.content or b"") for each in self.declared.values())
        return (
            look
            if held + len(look.content or b"") <= MAX_PACK_BYTES
            else look._replace(content=None)
        )

    def is_settled(self, stamp: Stamp) -> bool:
        """Whether a file of this stamp would show another one, had it been changed since."""
        return stamp.ctime_ns // 1_000_000_000 < self.begun - _GRAIN

    def before(self) -> tuple[FileChange, ...]:
        """Return the declared files as they are before the calls run."""
        return tuple(FileChange(path, look.state) for path, look in self.declared.items())

    def candidates(self, now: dict[str, Stamp] | None) -> list[str]:
        """Return the paths that may have changed, in order, given the stamps of all files now."""
        found = set(self.declared)
        then = self.stamps
        if then is not None and now is not None:
            found.update(path for path, stamp in now.items() if then.get(path) != stamp)
            found.update(path for path in then if path not in now)
            found.update(path for path, stamp in then.items() if not self.is_settled(stamp))
        return sorted(found)

    def change(self, path: str, packs: Packs) -> FileChange | None:
        """Compare one file with how it was; None where it is alike."""
        before, stamp = self._before(path)
        look = look_at(self.root / path)
        if before.same(look.state) or (look.stamp is not None and look.stamp == stamp):
            return None
        after = look.state
        if before is ABSENT and look.stamp is not None and self._is_old(look, packs):
            why = "it is older than the call, and may have been moved here"
            after = FileState(after.kind, after.mode, after.size, after.digest, after.target, why)
        return FileChange(path, before, after)

    def _before(self, path: str) -> tuple[FileState, Stamp | None]:
        if path in self.declared:
            look = self.declared[path]
            return look.state, None if look.state.digest else look.stamp
        stamp = (self.stamps or {}).get(path)
        if stamp is None:
            return ABSENT, None
        unknown = FileState("file", stamp.mode & 0o7777, stamp.size, problem=_NOT_KEPT)
        state = self.states.get(path)
        # Where the content is known, it decides: a stamp of a moment ago may hide a change.
        return (state, None) if state is not None else (unknown, stamp)

    def _is_old(self, look: Look, packs: Packs) -> bool:
        """Whether a file that has appeared was not made by the calls, and is kept nowhere else."""
        assert look.stamp is not None
        is_old = look.stamp.mtime_ns // 1_000_000_000 < self.begun
        return is_old and look.state.digest not in packs


def _real_paths(path: str) -> list[Path]:
    """Return a path with its folders resolved, and what it points to where it is a link."""
    if "\0" in path:  # no path at all: the tool says so
        return []
    real = Path(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    return [real, Path(os.path.realpath(real))] if real.is_symlink() else [real]
