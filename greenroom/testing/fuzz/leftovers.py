"""What a run can leave behind outside of its agent, and how to see it.

An agent's tasks end with it, whatever its tools do. What a tool has made or changed elsewhere does
not: files, descriptors, threads, processes, locks, settings of the process. So one looks before the
run and after it. To keep this exact on a busy machine, each run has a TMPDIR of its own.
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
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from operator import call, itemgetter
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import TypeAlias
from weakref import WeakKeyDictionary

import msgspec
import trio

from greenroom.core import ConfigurationError

Files = Mapping[str, str]
"""What each path below `workspace` and `TMPDIR` holds, as a digest."""

_MAX_FILES = 10_000
_MAX_OBJECTS = 20_000  # that are searched for locks
_WHOLE = 1 << 20  # bytes; of a longer file the beginning and the size are compared
_PATIENCE = 0.2  # seconds of real time for a thread that is about to end
_TRIO = os.path.dirname(trio.__file__) + os.sep
_LIBRARIES = (
    "<",  # code without a file
    _TRIO,
    f"{Path(__file__).parents[2]}{os.sep}",  # our own
    *(sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")),
)
_THREAD_LOCK = type(threading.Lock())
_LOCKS = (trio.Lock, trio.Semaphore, trio.CapacityLimiter, _THREAD_LOCK)
_FUNCTIONS = (FunctionType, BuiltinFunctionType, type)
_Replaced: TypeAlias = tuple[ModuleType, str, object]

_LEAVES = (str, bytes, int, float, type, ModuleType, CodeType, msgspec.Struct, trio.lowlevel.Task)


@dataclass(frozen=True)
class Leftovers:
    """What is there that was not before, in words; empty where there is nothing.

    Attributes:
        files: what files there are in all, also those from before.
        processes: command lines of processes that were started and still run; on Linux alone.
        threads: the names of threads that were started and still run at the end, without idle ones
            of trio's.
        descriptors: what new file descriptors are open on; on Linux alone.
        unclosed: what nobody had closed, so that the garbage collector did.
        locks: how often each lock or limit of trio or `threading` is taken, by the way that leads to
            it from the scenario; a semaphore counts down from zero.
        settings: variables of the environment, the working directory and functions of modules that
            have changed. They were put back.
    """

    files: Files = field(default_factory=dict)
    processes: tuple[str, ...] = ()
    threads: tuple[str, ...] = ()
    descriptors: tuple[str, ...] = ()
    unclosed: tuple[str, ...] = ()
    locks: Mapping[str, int] = field(default_factory=dict)
    settings: tuple[str, ...] = ()


class Surroundings:
    """Watches the runs of one sweep from outside of trio, and puts back what they change."""

    def __init__(self) -> None:
        """Remember what functions there are; nothing is watched yet."""
        self._functions = _Functions()
        self._keeps_frozen = _is_frozen()
        self._roots: dict[str, Path] = {}
        self._warnings: list[warnings.WarningMessage] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Give the run in the block a TMPDIR of its own, and a workspace that it may have.

        Settings that it changes are put back.
        """
        folder = tempfile.mkdtemp(dir=_shelf())
        before, cwd = dict(os.environ), os.getcwd()
        default, tempfile.tempdir = tempfile.tempdir, folder
        os.environ["TMPDIR"] = folder
        self._roots = {"TMPDIR": Path(folder), "workspace": Path(folder + "-workspace")}
        gc.freeze()  # what was there before is none of this run's, and need not be searched again
        try:
            with warnings.catch_warnings(record=True) as self._warnings:
                warnings.simplefilter("always", ResourceWarning)
                yield
        finally:
            if not self._keeps_frozen:
                gc.unfreeze()
            tempfile.tempdir = default
            self._put_back(before, cwd)
            shutil.rmtree(folder + "-workspace", ignore_errors=True)
            with suppress(OSError):  # it stays while something is in it that may be used later
                os.rmdir(folder)
        for each in self._warnings:
            if not issubclass(each.category, ResourceWarning):
                warnings.showwarning(each.message, each.category, each.filename, each.lineno)

    def begin(self, workspace: str | Path | None) -> Path:
        """Look before the run: what comes later is new. Return its workspace, by default an own."""
        if workspace is not None:
            self._roots["workspace"] = Path(os.path.abspath(workspace))
        self._roots["workspace"].mkdir(parents=True, exist_ok=True)
        self._environment = dict(os.environ)
        self._cwd = os.getcwd()
        self._replaced: list[_Replaced] | None = None
        self._processes = _processes().keys()
        self._known_threads = {thread.ident for thread in threading.enumerate()}
        self._descriptors = _descriptors()
        return self._roots["workspace"]

    def files(self) -> Files:
        """Look what files there are now, and what they hold.

        Raises:
            ConfigurationError: there are more than 10,000.
        """
        found: dict[str, str] = {}
        for label, root in self._roots.items():
            for folder, folders, files in os.walk(root):
                for name in (*folders, *files):
                    path = Path(folder, name)
                    if path not in self._roots.values():
                        found[f"{label}/{path.relative_to(root)}"] = _digest(path)
                folders[:] = [n for n in folders if Path(folder, n) not in self._roots.values()]
                if len(found) > _MAX_FILES:
                    raise ConfigurationError(
                        f"{root} has more than {_MAX_FILES} files",
                        hint="give the scenario a small workspace of its own",
                    )
        return found

    def leftovers(self, scenario: object) -> Leftovers:
        """Look what is there now that was not before."""
        gc.collect()  # so that nothing is closed later, in some other run
        processes = _processes()
        if self._replaced is None:  # once in a run: it takes time
            self._replaced = self._functions.find_replaced()
        return Leftovers(
            files=self.files(),
            processes=tuple(
                processes[pid] or f"process {pid}" for pid in processes.keys() - self._processes
            ),
            # While the agent lives, threads work for it.
            threads=() if trio.lowlevel.in_trio_run() else _threads(self._known_threads),
            descriptors=tuple(sorted(name for _, name in _descriptors() - self._descriptors)),
            unclosed=tuple(
                str(each.message).partition("\n")[0]
                for each in self._warnings
                if issubclass(each.category, ResourceWarning)
            ),
            locks=_locks(scenario),
            settings=tuple(self._changed_settings()),
        )

    def _changed_settings(self) -> Iterator[str]:
        for name in sorted(self._environment.keys() | os.environ.keys()):
            if self._environment.get(name) != os.environ.get(name):
                yield f"the environment's {name}"
        if _cwd() != self._cwd:
            yield f"the working directory, {_cwd()}"
        for module, name, _ in self._replaced or ():
            yield f"{module.__name__}.{name}"

    def _put_back(self, environment: Mapping[str, str], cwd: str) -> None:
        for module, name, function in self._replaced or ():
            setattr(module, name, function)
        os.chdir(cwd)
        for name in os.environ.keys() - environment.keys():
            del os.environ[name]
        os.environ.update(environment)


def is_yours(filename: str) -> bool:
    """Tell whether this is code of the user's, and not Python's, a library's or our own."""
    return not filename.startswith(_LIBRARIES)


@cache
def _shelf() -> str:
    """Make the folder of all TMPDIRs; it lasts as long as the process, as what is cached there."""
    folder = tempfile.mkdtemp(prefix="greenroom-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _is_frozen() -> bool:
    """Tell whether the program has frozen what it keeps; asked once, as Python counts every object."""
    return gc.get_freeze_count() > 0


def _digest(path: Path) -> str:
    with suppress(OSError):  # gone meanwhile, or not for us
        if path.is_symlink():
            return f"link to {os.readlink(path)}"
        if path.is_file():
            with path.open("rb") as file:
                return f"{path.stat().st_size} bytes, {zlib.crc32(file.read(_WHOLE)):08x}"
    return ""


def _cwd() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "which is gone"


def _descriptors() -> set[tuple[str, str]]:
    found = set()
    for fd in Path("/proc/self/fd").glob("*"):
        with suppress(OSError):  # the one that lists the folder
            found.add((fd.name, os.readlink(fd)))
    return found


def _threads(before: set[int | None]) -> tuple[str, ...]:
    """Name the threads that have been started and do something; one that ends has a moment."""
    give_up = time.monotonic() + _PATIENCE
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
    found: dict[int, str] = {}
    waiting = [os.getpid()]
    while waiting:
        for thread in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            with suppress(OSError):  # what ends meanwhile has started nothing
                for pid in map(int, thread.read_bytes().split()):
                    found[pid] = ""
                    waiting.append(pid)
                    command = Path(f"/proc/{pid}/cmdline").read_bytes()
                    found[pid] = command.replace(b"\0", b" ").decode("utf-8", "replace")
    return found


# -- functions of modules ---------------------------------------------------------------------------


class _Functions:
    """The functions and classes of all modules that are loaded, to see which are replaced later."""

    def __init__(self) -> None:
        modules = {each for each in list(sys.modules.values()) if isinstance(each, ModuleType)}
        self._modules = [
            (module, defined)
            for module in modules - {warnings}
            if (defined := _look_at(module)).by_name
        ]
        self._variables = [vars(module) for module, _ in self._modules]
        self._look_ups = [defined.look_up for _, defined in self._modules]
        self._values = [defined.values for _, defined in self._modules]

    def find_replaced(self) -> list[_Replaced]:
        """Return what was replaced: the module, the name, and what it was."""
        with suppress(KeyError):  # one was deleted
            # No step of Python for each: there may be ten thousand modules.
            if list(map(call, self._look_ups, self._variables)) == self._values:
                return []
        return [
            (module, name, value)
            for module, defined in self._modules
            for name, value in defined.by_name.items()
            if vars(module).get(name) is not value
        ]


class _Defined:
    """The functions and classes that a module defines; of one of the user's, those it imports too."""

    def __init__(self, module: ModuleType, is_users: bool) -> None:
        self._variables = len(vars(module))
        self.by_name: Mapping[str, object] = {
            name: value
            for name, value in vars(module).items()
            if issubclass(type(value), _FUNCTIONS)  # `isinstance` would load what is loaded lazily
            and (is_users or getattr(value, "__module__", "") == module.__name__)
        }
        self.look_up = itemgetter("__name__", *self.by_name)
        """Takes all of them, and a name that is always there, from the module's variables."""
        self.values = self.look_up(vars(module))

    def is_as_it_was(self, module: ModuleType) -> bool:
        """Tell whether nothing was added, taken away or replaced."""
        variables = vars(module)
        with suppress(KeyError):
            return len(variables) == self._variables and self.look_up(variables) == self.values
        return False


_LIBRARY_MODULES = WeakKeyDictionary[ModuleType, _Defined]()
"""What was seen in modules of libraries, which hardly change from one sweep to the next."""


def _look_at(module: ModuleType) -> _Defined:
    if is_yours(getattr(module, "__file__", None) or "<"):
        return _Defined(module, is_users=True)
    defined = _LIBRARY_MODULES.get(module)
    if defined is None or not defined.is_as_it_was(module):
        defined = _LIBRARY_MODULES[module] = _Defined(module, is_users=False)
    return defined


# -- locks ------------------------------------------------------------------------------------------


def _locks(scenario: object) -> dict[str, int]:
    """Find the locks and limits that a scenario's agent and tools can reach, and how they are taken."""
    found: dict[str, int] = {}
    seen: dict[int, object] = {}  # kept, so that no id is given twice
    waiting = deque[tuple[str, object]]([("scenario", scenario)])
    while waiting and len(seen) < _MAX_OBJECTS:
        way, each = waiting.popleft()
        if id(each) in seen or isinstance(each, _LEAVES):
            continue
        seen[id(each)] = each
        if isinstance(each, _LOCKS):
            found[f"{way} ({type(each).__name__})"] = _taken(each)
        else:
            waiting += [(f"{way}.{name}" if name else way, part) for name, part in _parts(each)]
    return found


def _taken(lock: object) -> int:
    if isinstance(lock, trio.Semaphore):
        return -lock.value
    if isinstance(lock, trio.CapacityLimiter):
        return lock.borrowed_tokens
    assert isinstance(lock, (trio.Lock, _THREAD_LOCK))
    return int(lock.locked())


def _parts(each: object) -> Iterable[tuple[str, object]]:
    """Give what an object holds, with the name by which it does."""
    if isinstance(each, dict):
        return [(key if isinstance(key, str) else "", each[key]) for key in list(each)]
    if isinstance(each, FunctionType):
        return _used_by(each)
    own = getattr(each, "__dict__", None)
    if isinstance(own, dict):
        return [*own.items(), *(("", part) for part in gc.get_referents(each) if part is not own)]
    return [("", part) for part in gc.get_referents(each)]


def _used_by(function: FunctionType) -> Iterator[tuple[str, object]]:
    """Give what a function closes over, and the global names that it uses if it is the user's."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # not bound yet
            yield name, cell.cell_contents
    for default in function.__defaults__ or ():
        yield "", default
    yield from vars(function).items()
    if is_yours(function.__code__.co_filename):
        for name in _names(function.__code__):
            if name in function.__globals__:
                yield name, function.__globals__[name]


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)
