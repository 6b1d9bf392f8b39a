"""What a run leaves outside of its agent: files, descriptors, threads, processes, settings.

An agent's tasks end with it, whatever its tools do. Things that a tool has made or changed stay, so
`Surroundings` looks before the run and after it. To keep this exact on a busy machine, each run has
its own TMPDIR.
"""

import atexit
import gc
import os
import shutil
import sys
import sysconfig
import tempfile
import threading
import time
import warnings
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import trio

from greenroom import core
from greenroom.testing.fuzz.evidence import File, Files, Leftovers
from greenroom.testing.fuzz.process_settings import ProcessSettings

_MAX_FILES = 10_000
_MAX_DIGESTED = 1 << 20  # bytes; of a longer file the beginning and the size are compared
_MAX_CONTENT = 1 << 16  # bytes of a file whose content is kept
_MAX_CONTENTS = 1 << 23  # bytes of all that are kept at one moment
_THREAD_TIMEOUT = 0.2  # seconds of real time for a thread that is about to end
_TRIO = os.path.dirname(trio.__file__) + os.sep
_LIBRARIES = (
    "<",  # code without a file
    _TRIO,
    f"{Path(__file__).parents[2]}{os.sep}",  # our own
    *(sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")),
)


class Surroundings:
    """Watches the runs of one sweep from outside of trio, and puts back what they change."""

    def __init__(self) -> None:
        """Watch nothing yet."""
        self._keeps_frozen = _is_frozen()
        self._roots: dict[str, Path] = {}
        self._warnings: list[warnings.WarningMessage] = []
        self._settings: ProcessSettings | None = None  # each run has them put back
        self._settings_before: frozenset[str] = frozenset()

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Give the run in the block its own TMPDIR and a workspace.

        Settings that it changes are put back.
        """
        folder = tempfile.mkdtemp(dir=_temporary_root())
        default, tempfile.tempdir = tempfile.tempdir, folder
        variable, os.environ["TMPDIR"] = os.environ.get("TMPDIR"), folder
        self._roots = {"TMPDIR": Path(folder), "workspace": Path(folder + "-workspace")}
        gc.freeze()  # older objects are not of this run, and need not be searched again
        try:
            with warnings.catch_warnings(record=True) as self._warnings:
                warnings.simplefilter("always", ResourceWarning)
                self._settings = self._settings or ProcessSettings()
                try:
                    yield
                finally:
                    self._settings.restore()
        finally:
            if not self._keeps_frozen:
                gc.unfreeze()
            tempfile.tempdir = default
            del os.environ["TMPDIR"]
            os.environ.update({} if variable is None else {"TMPDIR": variable})
            shutil.rmtree(folder + "-workspace", ignore_errors=True)
            with suppress(OSError):  # it stays while something is in it that may be used later
                os.rmdir(folder)
        for each in self._warnings:
            if not issubclass(each.category, ResourceWarning):
                warnings.showwarning(each.message, each.category, each.filename, each.lineno)

    def begin(self, workspace: str | Path | None) -> Path:
        """Look before the run: anything later is new. Return its workspace, by default its own."""
        if workspace is not None:
            self._roots["workspace"] = Path(os.path.abspath(workspace))
        self._roots["workspace"].mkdir(parents=True, exist_ok=True)
        self._settings_before = frozenset(self._changed_settings())
        self._processes = _processes().keys()
        self._known_threads = {thread.ident for thread in threading.enumerate()}
        self._descriptors = _descriptors()
        return self._roots["workspace"]

    def files(self) -> Files:
        """Return the files that are there now, with the contents of those that have changed.

        Raises:
            ConfigurationError: there are more than 10,000.
        """
        found: dict[str, File] = {}
        budget = _MAX_CONTENTS
        for label, root in self._roots.items():
            for folder, folders, files in os.walk(root):
                for name in (*folders, *files):
                    path = Path(folder, name)
                    if path not in self._roots.values():
                        key = f"{label}/{path.relative_to(root)}"
                        file = _look_at(path, budget)
                        found[key] = file
                        budget -= len(file.content or b"")
                folders[:] = [n for n in folders if Path(folder, n) not in self._roots.values()]
                if len(found) > _MAX_FILES:
                    raise core.ConfigurationError(
                        f"{root} has more than {_MAX_FILES} files",
                        hint="give the scenario a small workspace",
                    )
        return found

    def leftovers(self) -> Leftovers:
        """Return everything that is there now but was not before the run."""
        gc.collect()  # so that nothing is closed later, in some other run
        processes = _processes()
        return Leftovers(
            files=self.files(),
            processes=tuple(
                processes[pid] or f"process {pid}" for pid in processes.keys() - self._processes
            ),
            # While the agent lives, threads work for it.
            threads=() if trio.lowlevel.in_trio_run() else _threads(self._known_threads),
            descriptors=tuple(sorted(name for _, name in _descriptors() - self._descriptors)),
            unclosed_resources=tuple(
                str(each.message).partition("\n")[0]
                for each in self._warnings
                if issubclass(each.category, ResourceWarning)
            ),
            settings=tuple(
                each for each in self._changed_settings() if each not in self._settings_before
            ),
        )

    def _changed_settings(self) -> Iterable[str]:
        return () if self._settings is None else self._settings.changed()


def is_user_code(filename: str) -> bool:
    """Whether this is the user's code, and not Python's, a library's or ours."""
    return not filename.startswith(_LIBRARIES)


@cache
def _temporary_root() -> str:
    """Make the folder of all TMPDIRs; it lasts as long as the process, like caches in there."""
    folder = tempfile.mkdtemp(prefix="greenroom-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _is_frozen() -> bool:
    """Whether the program has frozen what it keeps; asked once, as Python counts every object."""
    return gc.get_freeze_count() > 0


def _look_at(path: Path, budget: int) -> File:
    with suppress(OSError):  # gone meanwhile, or not for us
        if path.is_symlink():
            return File(f"link to {os.readlink(path)}")
        if path.is_file():
            size = path.stat().st_size
            with path.open("rb") as file:
                content = file.read(_MAX_DIGESTED)
            is_kept = size == len(content) <= min(_MAX_CONTENT, budget)
            return File(f"{size} bytes, {zlib.crc32(content):08x}", content if is_kept else None)
    return File("")


def _descriptors() -> set[tuple[str, str]]:
    descriptors = set()
    for fd in Path("/proc/self/fd").glob("*"):
        with suppress(OSError):  # the one that lists the folder
            descriptors.add((fd.name, os.readlink(fd)))
    return descriptors


def _threads(before: set[int | None]) -> tuple[str, ...]:
    """Name the new threads that are busy; a thread that is ending gets a moment."""
    give_up = time.monotonic() + _THREAD_TIMEOUT
    while True:
        busy = [t for t in threading.enumerate() if t.ident not in before and _is_busy(t.ident)]
        if not busy or time.monotonic() > give_up:
            return tuple(sorted(thread.name for thread in busy))
        busy[0].join(0.01)


def _is_busy(thread: int | None) -> bool:
    """Leave out threads that trio keeps for the next call."""
    frame = sys._current_frames().get(thread or 0)
    return frame is None or not (
        frame.f_code.co_name == "_work" and frame.f_code.co_filename.startswith(_TRIO)
    )


def _processes() -> dict[int, str]:
    """Return the command lines of all processes below this one by their ids.

    A process that a dead one has left behind is below this one only if something here has taken it
    in, as the launcher of `Bash` does.
    """
    commands: dict[int, str] = {}
    waiting = [os.getpid()]
    while waiting:
        for thread in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            with suppress(OSError):  # what ends meanwhile has started nothing
                for pid in map(int, thread.read_bytes().split()):
                    commands[pid] = ""
                    waiting.append(pid)
                    command = Path(f"/proc/{pid}/cmdline").read_bytes()
                    commands[pid] = command.replace(b"\0", b" ").decode("utf-8", "replace")
    return commands
