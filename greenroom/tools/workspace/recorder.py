"""The recorder: keeps what calls may change before they run, and tells afterwards what they did."""

import stat
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import trio

from greenroom.core import FileChange, FileState, clock, visible
from greenroom.tools.file_threads import in_thread
from greenroom.tools.workspace.file_state import Look, Stamp, is_unicode, look_at
from greenroom.tools.workspace.packs import Packs, PackWriter
from greenroom.tools.workspace.survey import MAX_FILES, Coverage
from greenroom.tools.workspace.window import MAX_CHANGES, Window

MAX_COPIED_BYTES = 256_000
"""Of files that no call has named, those up to this size are kept before a command runs."""
MAX_SECONDS = 2.0
"""For one survey, and for keeping or reading what it found."""

_NAMED = 5  # of the paths that are not looked at

_NOT_COMPARED = "what commands changed is not known: it is too much to compare"

T = TypeVar("T")


class WorkspaceRecorder:
    """Records what the calls of one agent do to the files below a root.

    Files that calls name are kept up to 10 MB each. Before a command, whose files nobody can name,
    all files are stamped, and those of up to 256 KB kept, 32 MB at the most; a file that was kept
    and has not changed costs its stamp alone from then on.
    """

    def __init__(
        self, root: Path, packs: Packs, *, left_out: Collection[str] = (), flush: bool = True
    ) -> None:
        """Take the root's real path, where contents are kept, and folders not to look into."""
        self._root = root
        self._packs = packs
        self._left_out = left_out
        self._flush = flush
        self._known: dict[str, tuple[Stamp, FileState]] = {}
        self._too_large = ""
        self.failure = ""
        """Why the last window could not be opened as it should, or empty."""

    async def open(self, paths: Iterable[str], *, compares: bool) -> Window:
        """Look at these files, and with `compares` at all, before calls run; what fails is a gap."""
        begun = int(clock.now().timestamp())
        window = Window(self._root, Coverage(self._root, self._left_out), begun)
        self.failure = ""
        await in_thread(lambda: window.declare(paths))
        if compares:
            await _in_time(lambda late: self._survey(window, late))
        await _in_time(lambda late: self._keep(window, late))
        return window

    async def close(self, window: Window) -> tuple[FileChange, ...]:
        """Compare the files with how they were; what is not known is added to the window's gaps."""
        now = None
        if window.stamps is not None:
            now = await _in_time(lambda late: _survey_again(window, late))
            if passed_over := sorted(window.coverage.passed_over):
                window.gaps.append(_not_looked_at(passed_over))
        return await _in_time(lambda late: self._compare(window, now, late))

    def _survey(self, window: Window, late: threading.Event) -> None:
        """Stamp all files; a workspace that was too large once is not tried again."""
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
        """Keep contents in one new pack: of the files that calls name, then of all others."""
        try:
            with self._packs.writing(flush=self._flush) as writer:
                for path, look in window.declared.items():
                    window.declared[path] = _kept(look, writer)
                has_room = True
                for path, stamp in (window.stamps or {}).items():
                    trio.from_thread.check_cancelled()
                    if (known := self._kept_state(path, stamp)) is not None:
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

    def _keep_one(self, window: Window, path: str, stamp: Stamp, writer: PackWriter) -> bool:
        """Take in how a file is; return whether there is room for more."""
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

    def _kept_state(self, path: str, stamp: Stamp) -> FileState | None:
        """Return how a file is that was kept before and has not changed; else None."""
        known, state = self._known.get(path, (None, FileState("absent")))
        if known != stamp or (state.kind == "file" and state.digest not in self._packs):
            return None
        return state

    def _compare(
        self, window: Window, now: dict[str, Stamp] | None, late: threading.Event
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
                window.gaps.append(f"{visible(path)} was changed, and its name is no Unicode")
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


def _not_looked_at(paths: Sequence[str]) -> str:
    """Say that commands may have changed what git ignores or keeps for itself."""
    named = ", ".join(visible(path) for path in paths[:_NAMED])
    more = f" and {len(paths) - _NAMED:,} more" if len(paths) > _NAMED else ""
    return f"what commands changed in ignored files and repositories is not known: {named}{more}"


def _survey_again(window: Window, late: threading.Event) -> dict[str, Stamp] | None:
    """Stamp all files when the calls have ended, or say that there was no time for all of them."""
    found = window.coverage.survey(late)
    if late.is_set() or len(found) > MAX_FILES:
        window.gaps.append(_NOT_COMPARED)
        return None
    return found


def _kept(look: Look, writer: PackWriter) -> Look:
    """Keep a content, and hold it in memory no longer."""
    if look.content is not None:
        writer.add(look.state.digest, look.content)
    return Look(look.state, look.stamp)


async def _in_time(work: Callable[[threading.Event], T]) -> T:
    """Run work in a thread, and let it know when its time is up."""
    late = threading.Event()

    async def ring() -> None:
        await trio.sleep(MAX_SECONDS)
        late.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ring)
        done = await in_thread(lambda: work(late))
        nursery.cancel_scope.cancel()
    return done
