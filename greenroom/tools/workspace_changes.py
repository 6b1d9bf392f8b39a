"""The changes of calls to the files of a workspace. It knows nothing of sessions.

A `Window` is the time in which the calls of one reply run; `WorkspaceRecorder` opens and closes it.
At the opening, the files that calls name are kept, and before a command all files are surveyed
(`Coverage`); at the closing, a comparison finds the changes.
"""

import os
import stat
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import trio

from greenroom.core import utc_now
from greenroom.core._internal import FileChange, FileState, visible
from greenroom.tools.builtin.file_access import in_thread
from greenroom.tools.builtin.file_tree import REPOSITORY_FOLDERS, IgnoreRules, rules_above
from greenroom.tools.file_contents import (
    ABSENT,
    MAX_PACK_BYTES,
    Look,
    Packs,
    PackWriter,
    StatusStamp,
    is_unicode,
    look_at,
    take_stamp,
)

MAX_FILES = 50_000
"""A workspace with more files is not surveyed."""

_MOST_SKIPPED = 1_000  # paths; a gap names a few of them


class Coverage:
    """Which files of a workspace a survey covers: all but those that git would ignore.

    Folders of version control and unreadable folders are left out too. A later survey keeps the
    rules of the first: a file that a command merely uncovered was not made by it.
    """

    def __init__(self, root: Path, left_out: Collection[str] = ()) -> None:
        """Take the root's real path, and real paths that are never entered, opened or stamped."""
        self._root = root
        self._left_out = frozenset(left_out)
        self._rules: dict[str, IgnoreRules] = {}
        self._closed: set[str] = set()
        self.skipped: set[str] = set()
        """Paths of ignored files and folders, at most 1,000."""

    def survey(self, late: threading.Event) -> dict[str, StatusStamp]:
        """Return the stamps of files and symbolic links, by path from the root with `/`.

        Call it in a thread of trio: a cancel ends it at the next folder. When it is `late`, or over
        50,000 files, it returns what it has.
        """
        top, above = rules_above(self._root, self._root)
        prefix = "" if self._root == top else f"{self._root.relative_to(top).as_posix()}/"
        found: dict[str, StatusStamp] = {}
        waiting = [("", above)]
        while waiting and not late.is_set():
            trio.from_thread.check_cancelled()
            folder, above = waiting.pop()
            rules = self._rules_of(folder, prefix, above)
            for entry in self._children(folder):
                path = folder + entry.name
                is_folder = entry.is_dir(follow_symlinks=False)
                is_repository = is_folder and entry.name in REPOSITORY_FOLDERS
                if is_repository or rules.ignores(prefix + path, is_folder):
                    self._skip(f"{path}/" if is_folder else path)
                    continue
                if entry.name in REPOSITORY_FOLDERS:
                    continue
                if self._left_out and entry.path in self._left_out:
                    continue
                if is_folder:
                    waiting.append((f"{path}/", rules))
                elif stamp := _stamp(entry):
                    found[path] = stamp
            if len(found) > MAX_FILES:
                break
        return found

    def _rules_of(self, folder: str, prefix: str, above: IgnoreRules) -> IgnoreRules:
        if folder not in self._rules:
            self._rules[folder] = above.below(self._root / folder, prefix + folder)
        return self._rules[folder]

    def _children(self, folder: str) -> Iterator["os.DirEntry[str]"]:
        path = os.path.join(self._root, folder)
        if folder in self._closed or path.rstrip("/") in self._left_out:
            return
        try:
            entries = os.scandir(path)
        except OSError:
            self._closed.add(folder)
            return
        with entries:
            yield from entries

    def _skip(self, path: str) -> None:
        if len(self.skipped) < _MOST_SKIPPED:
            self.skipped.add(path)


def _stamp(entry: "os.DirEntry[str]") -> StatusStamp | None:
    try:
        return take_stamp(entry.stat(follow_symlinks=False))
    except OSError:  # gone this moment
        return None


MAX_CHANGES = 1_000
"""Files on record for the calls of one reply; the others are only counted."""

_NOT_KEPT = "its content was not kept"
_GRAIN = 2
"""Seconds: a file changed so shortly before it was read may change again with the same stamp."""


@dataclass
class Window:
    """The files as they were before the calls of one reply ran; `change` compares one with now.

    Every method blocks.

    Attributes:
        root: the workspace's real path.
        coverage: which files are compared.
        begun: when it began, in seconds of wall time.
        declared: the files that calls said they would change.
        stamps: the stamps of all files, or None if they are not compared.
        states: the states of the files whose content is known.
        gaps: what is unknown, a sentence each.
    """

    root: Path
    coverage: Coverage
    begun: int
    declared: dict[str, Look] = field(default_factory=dict)
    stamps: dict[str, StatusStamp] | None = None
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
            self.gaps.append(f"{label} has a name that is not Unicode")
        elif len(self.declared) < MAX_CHANGES:
            path = real.relative_to(self.root).as_posix()
            self.declared[path] = self._limit_content(look_at(real))
        else:
            self.gaps.append(f"{label} is one file more than can be on record")

    def _limit_content(self, look: Look) -> Look:
        """Keep no more contents in memory than fit into a pack."""
        size = sum(len(each.content or b"") for each in (*self.declared.values(), look))
        return look if size <= MAX_PACK_BYTES else look._replace(content=None)

    def is_settled(self, stamp: StatusStamp) -> bool:
        """Whether any change of the file since would show in its stamp."""
        return stamp.ctime_ns // 1_000_000_000 < self.begun - _GRAIN

    def before(self) -> tuple[FileChange, ...]:
        """Return the declared files as they are before the calls run."""
        return tuple(FileChange(path, look.state) for path, look in self.declared.items())

    def candidates(self, now: dict[str, StatusStamp] | None) -> list[str]:
        """Return the paths that may have changed, sorted, given the stamps of all files now."""
        found = set(self.declared)
        then = self.stamps
        if then is not None and now is not None:
            found.update(path for path, stamp in now.items() if then.get(path) != stamp)
            found.update(path for path in then if path not in now)
            found.update(path for path, stamp in then.items() if not self.is_settled(stamp))
        return sorted(found)

    def change(self, path: str, packs: Packs) -> FileChange | None:
        """Compare one file with its former state; None if it has not changed."""
        before, stamp = self._before(path)
        look = look_at(self.root / path)
        if before.same(look.state) or (look.stamp is not None and look.stamp == stamp):
            return None
        after = look.state
        if before is ABSENT and look.stamp is not None and self._is_old(look, packs):
            why = "it is older than the call, and may have been moved here"
            after = FileState(after.kind, after.mode, after.size, after.digest, after.target, why)
        return FileChange(path, before, after)

    def _before(self, path: str) -> tuple[FileState, StatusStamp | None]:
        if path in self.declared:
            look = self.declared[path]
            return look.state, None if look.state.digest else look.stamp
        stamp = (self.stamps or {}).get(path)
        if stamp is None:
            return ABSENT, None
        unknown = FileState("file", stamp.mode & 0o7777, stamp.size, problem=_NOT_KEPT)
        state = self.states.get(path)
        # A known content decides, as a stamp of a moment ago may hide a change.
        return (state, None) if state is not None else (unknown, stamp)

    def _is_old(self, look: Look, packs: Packs) -> bool:
        """Whether a new file is older than the calls, and its content is not in the packs."""
        assert look.stamp is not None
        is_old = look.stamp.mtime_ns // 1_000_000_000 < self.begun
        return is_old and look.state.digest not in packs


def _real_paths(path: str) -> list[Path]:
    """Return a path with its folders resolved, and its target if it is a link."""
    if "\0" in path:  # not a path: the tool says so
        return []
    real = Path(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    return [real, Path(os.path.realpath(real))] if real.is_symlink() else [real]


MAX_COPIED_BYTES = 256_000
"""Files up to this size are kept before a command runs, even if no call names them."""
MAX_SECONDS = 2.0
"""Time for one survey, and for keeping or comparing its files."""

_NAMED = 5  # of the skipped paths

_NOT_COMPARED = "what commands changed is not known: it is too much to compare"

T = TypeVar("T")


class WorkspaceRecorder:
    """Records what the calls of one agent do to the files below a root.

    Files that calls name are kept, up to 10 MB each. A command does not name its files, so before
    one all files are stamped, and those up to 256 KB kept, at most 32 MB. Later, an unchanged file
    costs only its stamp.
    """

    def __init__(
        self, root: Path, packs: Packs, *, left_out: Collection[str] = (), flush: bool = True
    ) -> None:
        """Take the root's real path, the packs for contents, and real paths to leave alone."""
        self._root = root
        self._packs = packs
        self._left_out = left_out
        self._flush = flush
        self._known: dict[str, tuple[StatusStamp, FileState]] = {}
        self._too_large = ""
        self.failure = ""
        """Why the last window was not opened completely, or empty."""

    async def open(self, paths: Iterable[str], *, compares: bool) -> Window:
        """Look at these files before calls run, with `compares` at all; failures become gaps."""
        begun = int(utc_now().timestamp())
        window = Window(self._root, Coverage(self._root, self._left_out), begun)
        self.failure = ""
        await in_thread(lambda: window.declare(paths))
        if compares:
            await _in_time(lambda late: self._survey(window, late))
        await _in_time(lambda late: self._keep(window, late))
        return window

    async def close(self, window: Window) -> tuple[FileChange, ...]:
        """Compare the files with their former states; adds what is unknown to the window's gaps."""
        now = None
        if window.stamps is not None:
            now = await _in_time(lambda late: _survey_again(window, late))
            if skipped := sorted(window.coverage.skipped):
                window.gaps.append(_describe_skipped(skipped))
        return await _in_time(lambda late: self._compare(window, now, late))

    def _survey(self, window: Window, late: threading.Event) -> None:
        """Stamp all files; a workspace that was once too large is not tried again."""
        if not self._too_large:
            stamps = window.coverage.survey(late)
            if late.is_set():
                self._too_large = f"takes more than {MAX_SECONDS:g} seconds to look through"
            elif len(stamps) > MAX_FILES:
                self._too_large = f"has more than {MAX_FILES:,} files"
            else:
                window.stamps = stamps
                known = self._known
                self._known = {path: known[path] for path in known if path in stamps}
        if self._too_large:
            self._fail(window, f"what commands change is not known: {self._root} {self._too_large}")

    def _keep(self, window: Window, late: threading.Event) -> None:
        """Keep contents in a new pack: of the files that calls name, then of all others."""
        try:
            with self._packs.new_pack(flush=self._flush) as writer:
                for path, look in window.declared.items():
                    window.declared[path] = _keep_content(look, writer)
                has_room = True
                for path, stamp in (window.stamps or {}).items():
                    trio.from_thread.check_cancelled()
                    if (known := self._find_known_state(path, stamp)) is not None:
                        window.states[path] = known
                    elif has_room and not late.is_set():
                        has_room = self._keep_one(window, path, stamp, writer)
            self._packs.trim()
        except OSError as error:
            self._known.clear()
            self._fail(window, f"former contents are not kept: {error.strerror or error}")

    def _fail(self, window: Window, why: str) -> None:
        self.failure = why
        window.gaps.append(why)

    def _keep_one(self, window: Window, path: str, stamp: StatusStamp, writer: PackWriter) -> bool:
        """Keep the state and content of a file; return whether there is room for more."""
        is_small = stamp.size <= MAX_COPIED_BYTES
        if not is_small or stat.S_IFMT(stamp.mode) not in _COPIED:
            return True
        look = look_at(self._root / path)
        if look.content is not None and not writer.add(look.state.digest, look.content):
            return False
        if look.stamp is not None and not look.state.problem:
            window.states[path] = look.state
            if window.is_settled(look.stamp):
                self._known[path] = look.stamp, look.state
        return True

    def _find_known_state(self, path: str, stamp: StatusStamp) -> FileState | None:
        """Return the state of a file that was kept before and has not changed; else None."""
        known, state = self._known.get(path, (None, FileState("absent")))
        if known != stamp or (state.kind == "file" and state.digest not in self._packs):
            return None
        return state

    def _compare(
        self, window: Window, now: dict[str, StatusStamp] | None, late: threading.Event
    ) -> tuple[FileChange, ...]:
        found: list[FileChange] = []
        more, skipped = 0, False
        for path in window.candidates(now):
            trio.from_thread.check_cancelled()
            if late.is_set() and path not in window.declared:
                skipped = True
            elif (change := window.change(path, self._packs)) is None:
                continue
            elif not is_unicode(path):
                window.gaps.append(f"{visible(path)} was changed, and its name is not Unicode")
            elif len(found) < MAX_CHANGES:
                found.append(change)
            else:
                more += 1
        if skipped:
            window.gaps.append("there was no time to read every file that commands changed")
        if more:
            window.gaps.append(f"{more:,} more files were changed, and are not on record")
        return tuple(found)


_COPIED = (stat.S_IFREG, stat.S_IFLNK)


def _describe_skipped(paths: Sequence[str]) -> str:
    """Say that commands may have changed ignored files and repositories."""
    named = ", ".join(visible(path) for path in paths[:_NAMED])
    more = f" and {len(paths) - _NAMED:,} more" if len(paths) > _NAMED else ""
    return f"what commands changed in ignored files and repositories is not known: {named}{more}"


def _survey_again(window: Window, late: threading.Event) -> dict[str, StatusStamp] | None:
    """Stamp all files after the calls, or note that there was no time for it."""
    found = window.coverage.survey(late)
    if late.is_set() or len(found) > MAX_FILES:
        window.gaps.append(_NOT_COMPARED)
        return None
    return found


def _keep_content(look: Look, writer: PackWriter) -> Look:
    """Write a content to the pack, and drop it from memory."""
    if look.content is not None:
        writer.add(look.state.digest, look.content)
    return Look(look.state, look.stamp)


async def _in_time(work: Callable[[threading.Event], T]) -> T:
    """Run work in a thread, and set an event for it when its time is up."""
    late = threading.Event()

    async def set_late() -> None:
        await trio.sleep(MAX_SECONDS)
        late.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(set_late)
        done = await in_thread(lambda: work(late))
        nursery.cancel_scope.cancel()
    return done
