"""The evidence of one run: what its agent said and did, and what it left outside.

An agent's tasks end with it, whatever its tools do. Things that a tool has made or changed stay:
files, descriptors, threads, processes, settings of the process. So `Surroundings` looks
before the run and after it. To keep this exact on a busy machine, each run has its own TMPDIR.
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
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

import trio

from greenroom import core
from greenroom.core import Message, OutputChunk
from greenroom.runtime import InterruptReport, Outcome, Receipt, TurnResult

Files = Mapping[str, str]
"""What each path below `workspace` and `TMPDIR` holds, as a digest."""

_MAX_FILES = 10_000
_MAX_DIGESTED = 1 << 20  # bytes; of a longer file the beginning and the size are compared
_THREAD_TIMEOUT = 0.2  # seconds of real time for a thread that is about to end
_TRIO = os.path.dirname(trio.__file__) + os.sep
_LIBRARIES = (
    "<",  # code without a file
    _TRIO,
    f"{Path(__file__).parents[2]}{os.sep}",  # our own
    *(sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")),
)


@dataclass(frozen=True)
class Leftovers:
    """What a run has left behind, in words.

    Attributes:
        files: what files there are in all, also those from before.
        processes: command lines of processes that were started and still run; on Linux alone.
        threads: the names of threads that were started and still run at the end, without idle ones
            of trio's.
        descriptors: what new file descriptors are open on; on Linux alone.
        unclosed_resources: what the garbage collector had to close.
        settings: variables of the environment and the working directory, where they have changed.
            They were put back.
    """

    files: Files = field(default_factory=dict)
    processes: tuple[str, ...] = ()
    threads: tuple[str, ...] = ()
    descriptors: tuple[str, ...] = ()
    unclosed_resources: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()


class Surroundings:
    """Watches the runs of one sweep from outside of trio, and puts back what they change."""

    def __init__(self) -> None:
        """Watch nothing yet."""
        self._keeps_frozen = _is_frozen()
        self._roots: dict[str, Path] = {}
        self._warnings: list[warnings.WarningMessage] = []

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Give the run in the block its own TMPDIR and a workspace.

        Settings that it changes are put back.
        """
        folder = tempfile.mkdtemp(dir=_temporary_root())
        before, cwd = dict(os.environ), os.getcwd()
        default, tempfile.tempdir = tempfile.tempdir, folder
        os.environ["TMPDIR"] = folder
        self._roots = {"TMPDIR": Path(folder), "workspace": Path(folder + "-workspace")}
        gc.freeze()  # older objects are not of this run, and need not be searched again
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
        """Look before the run: anything later is new. Return its workspace, by default its own."""
        if workspace is not None:
            self._roots["workspace"] = Path(os.path.abspath(workspace))
        self._roots["workspace"].mkdir(parents=True, exist_ok=True)
        self._environment = dict(os.environ)
        self._cwd = os.getcwd()
        self._processes = _processes().keys()
        self._known_threads = {thread.ident for thread in threading.enumerate()}
        self._descriptors = _descriptors()
        return self._roots["workspace"]

    def files(self) -> Files:
        """Return the files that are there now, and digests of their contents.

        Raises:
            ConfigurationError: there are more than 10,000.
        """
        digests: dict[str, str] = {}
        for label, root in self._roots.items():
            for folder, folders, files in os.walk(root):
                for name in (*folders, *files):
                    path = Path(folder, name)
                    if path not in self._roots.values():
                        digests[f"{label}/{path.relative_to(root)}"] = _digest(path)
                folders[:] = [n for n in folders if Path(folder, n) not in self._roots.values()]
                if len(digests) > _MAX_FILES:
                    raise core.ConfigurationError(
                        f"{root} has more than {_MAX_FILES} files",
                        hint="give the scenario a small workspace",
                    )
        return digests

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
            settings=tuple(self._changed_settings()),
        )

    def _changed_settings(self) -> Iterator[str]:
        for name in sorted(self._environment.keys() | os.environ.keys()):
            if self._environment.get(name) != os.environ.get(name):
                yield f"the environment's {name}"
        if _cwd() != self._cwd:
            yield f"the working directory, {_cwd()}"

    def _put_back(self, environment: Mapping[str, str], cwd: str) -> None:
        os.chdir(cwd)
        for name in os.environ.keys() - environment.keys():
            del os.environ[name]
        os.environ.update(environment)


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


def _digest(path: Path) -> str:
    with suppress(OSError):  # gone meanwhile, or not for us
        if path.is_symlink():
            return f"link to {os.readlink(path)}"
        if path.is_file():
            with path.open("rb") as file:
                return f"{path.stat().st_size} bytes, {zlib.crc32(file.read(_MAX_DIGESTED)):08x}"
    return ""


def _cwd() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "which is gone"


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


Mode: TypeAlias = Literal["interrupt", "after_step", "shutdown", "kill", "cancel"]
"""What is done to the agent: a turn is interrupted, at once or after its step; the agent is shut
down, or killed; or the whole runtime is cancelled from outside."""


@dataclass(frozen=True)
class AcknowledgedInput:
    """An input for which the runtime gave a receipt."""

    receipt: Receipt
    text: str


@dataclass(frozen=True)
class InterruptMoment:
    """What was true in the moment in which `interrupt()` returned.

    Attributes:
        report: what it returned.
        before: how many chunks the agent had published when it was interrupted.
        after: how many it had published when that returned.
        history: the conversation then.
    """

    report: InterruptReport
    before: int
    after: int
    history: tuple[Message, ...]


@dataclass(frozen=True)
class EndedCall:
    """A call of a tool that is over.

    Attributes:
        call: the tool and its input, such as `bake(loaves=2)`.
        result: what it gave; None where it was cut off.
        seconds: how long it took, on a clock that jumps; 0 on a real one.
    """

    call: str
    result: core.ToolResult | None
    seconds: float


@dataclass(frozen=True)
class Trial:
    """One run of a scenario, after its end.

    Attributes:
        mode: what was done to it; None where nothing was.
        checkpoint: where; 0 where nothing was.
        where: the task of that checkpoint and the lines in which it stood; empty where the run was
            over before that.
        checkpoints: how many the run had in all.
        worth_trying: those of them at which a cancel can show something; empty for all.
        session_id: the agent's session.
        outcome: what `wait()` returned; None if it never did.
        state: its last state, as the handle shows it.
        history: its conversation in memory.
        stored_histories: the conversations that the store holds, by session id, its subagents' too.
        damaged: the faults of stored conversations, by session id.
        all_chunks: all that the agent published, its subagents' chunks wrapped among its own.
        streams: the same chunks by the session id of the agent that speaks, none of them wrapped.
        alive: tasks that its agents have started and that were alive when `wait()` returned, or
            when the runtime was left.
        running: sessions that the runtime still called running after that.
        pending: permission requests that were still open then.
        stuck: calls that had not returned by the time limit, such as "ask" or "wait".
        acknowledged_inputs: inputs for which there was a receipt.
        interrupt: what `interrupt()` returned with, where there was one.
        probe: the result of the last input, which shows that the agent still answers, or where it
            has ended the next one with the same tools; None where there was no result, as after a
            kill.
        calls: how each call of a tool ended, before the probe.
        calls_again: how each call ended that the probe led to.
        successor: the session of the next agent; empty where there was none.
        files_before: what files there were before the run.
        files_after_calls: what files there were after each call of a tool; where nothing was done.
        leftovers: what was left once the disturbance was over, before the probe.
        leftovers_at_end: what was left at the end, outside of trio.
        control: the same scenario undisturbed; None where this is that run.
    """

    mode: Mode | None
    checkpoint: int
    where: str
    checkpoints: int
    worth_trying: tuple[int, ...]
    session_id: str
    outcome: Outcome | None
    state: core.AgentState
    history: tuple[Message, ...]
    stored_histories: Mapping[str, tuple[Message, ...]]
    damaged: Mapping[str, str]
    all_chunks: tuple[OutputChunk, ...]
    streams: Mapping[str, tuple[OutputChunk, ...]]
    alive: tuple[str, ...]
    running: tuple[str, ...]
    pending: tuple[core.PermissionRequest, ...]
    stuck: tuple[str, ...]
    acknowledged_inputs: tuple[AcknowledgedInput, ...]
    interrupt: InterruptMoment | None
    probe: TurnResult | None
    calls: tuple[EndedCall, ...]
    calls_again: tuple[EndedCall, ...]
    successor: str
    files_before: Files
    files_after_calls: tuple[Files, ...]
    leftovers: Leftovers
    leftovers_at_end: Leftovers = field(default_factory=Leftovers)
    control: "Trial | None" = None

    @property
    def chunks(self) -> tuple[OutputChunk, ...]:
        """The agent's own chunks."""
        return self.streams[self.session_id]

    @property
    def undelivered_ids(self) -> frozenset[str]:
        """The ids of inputs that the agent never took, as its outcome says."""
        messages = self.outcome.undelivered if self.outcome else ()
        return frozenset(m.id for m in messages if isinstance(m, core.ConversationInput))


def streams_of(
    session_id: str, chunks: Iterable[OutputChunk]
) -> dict[str, tuple[OutputChunk, ...]]:
    """Take the chunks of an agent's subagents, of any depth, out of its own."""
    streams: dict[str, list[OutputChunk]] = {session_id: []}
    for chunk in chunks:
        speaker = session_id
        while isinstance(chunk, core.SubAgentOutput):
            speaker, chunk = chunk.session_id, chunk.chunk  # noqa: PLW2901 (unwrapped layer by layer)
        streams.setdefault(speaker, []).append(chunk)
    return {speaker: tuple(stream) for speaker, stream in streams.items()}
