"""A child process that can't outlive us, whatever it does.

Every process that a tool starts stands behind a `launcher`, which watches a pipe from us, its
lifeline. When the pipe closes, because we let go of the process or because this very process was
killed, the launcher kills everything that the command has started and ends.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeAlias, cast

import trio

from greenroom.core import ToolError
from greenroom.tools.process import launcher

Cleanup: TypeAlias = Callable[[float], AbstractContextManager[object]]
"""Opens the scope for the clean-up, as `AgentContext.cleanup` does."""

_CLEANUP_GRACE = 3.0
_LAST_MOMENT = 1.0
_WAKE_SECONDS = 0.1
_CHUNK = 65_536
_DRAIN_LIMIT = 1 << 20
_BEGIN = re.compile(rb"(\d{1,10})\n")
_END = re.compile(rb"(-?\d{1,10})?\n(gone|left)\n(.*)", re.DOTALL)


def no_cleanup(_: float) -> AbstractContextManager[object]:
    """Open no scope: the clean-up is shielded for three seconds at the most."""
    return nullcontext()


def signal_name(number: int) -> str:
    """Name a signal, such as `SIGKILL`.

    Example:
        >>> signal_name(9), signal_name(4000)
        ('SIGKILL', 'unnamed')
    """
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unnamed"


@dataclass(frozen=True)
class Report:
    """What the launcher told, as far as it got; a command may have meddled with it.

    Attributes:
        pid: the command's process id, or None where it did not begin.
        complete: whether the launcher has told everything.
        code: the command's exit code; negative where a signal of that number killed it; None where
            it was stopped before its end.
        left: whether something that it started may still run.
        note: what it wrote to the file descriptor `launcher.NOTE_FD`, or why it did not begin.
    """

    pid: int | None
    complete: bool = False
    code: int | None = None
    left: bool = False
    note: bytes = b""

    @classmethod
    def parse(cls, data: bytes) -> "Report":
        """Read what the launcher wrote; it may end anywhere."""
        begun = _BEGIN.match(data)
        if begun is None:
            return cls(None, note=data)
        ended = _END.fullmatch(data, begun.end())
        if ended is None:
            return cls(int(begun[1]), left=True)
        code, state, note = ended.groups()
        return cls(int(begun[1]), True, int(code) if code else None, state == b"left", note)

    def signal_group(self, number: int) -> None:
        """Send a signal to the command's process group."""
        if self.pid:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)


class ContainedProcess:
    """A command behind its launcher, from `start` to `aclose`; nothing of it outlives either of us."""

    def __init__(self, process: trio.Process) -> None:
        """Take over a launcher that was just started."""
        self._process = process
        self._told = bytearray()
        self._report: Report | None = None
        self.rest = b""
        """The output that nobody has read, known once it is closed."""

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        cwd: Path | None,
        environment: Mapping[str, str],
        pass_fds: Sequence[int] = (),
    ) -> Self:
        """Start a command; its standard input is empty, its output and error output are merged.

        Args:
            command: the program, found along `PATH`, and its arguments.
            cwd: the folder it starts in; None for ours.
            environment: its whole environment.
            pass_fds: file descriptors that it inherits.

        Raises:
            ToolError: the process could not be started.
        """
        own = {k: v for k, v in os.environ.items() if k.startswith(("LD_", "DYLD_"))}
        try:
            process = await trio.lowlevel.open_process(
                [sys.executable, "-I", "-S", launcher.__file__, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=cwd,
                env={**environment, **own},
                pass_fds=pass_fds,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise ToolError(f"can't start {command[0]} in {cwd or '.'}: {error}") from error
        return cls(process)

    @property
    def has_ended(self) -> bool:
        """Whether the command and all that it started has ended by itself, or was closed."""
        return self._process.returncode is not None

    async def follow(self, on_output: Callable[[bytes], None]) -> None:
        """Pass the output on as it comes, until the command and all that it started has ended.

        Not until the output ends: a process that could not be killed may hold that open.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_read, _stream(self._process.stdout), on_output)
            nursery.start_soon(_read, _stream(self._process.stderr), self._listen)
            await self._process.wait()
            nursery.cancel_scope.cancel()

    def read_output(self) -> bytes:
        """Return the output that is there already, without waiting for more."""
        return _drain(_stream(self._process.stdout))

    async def aclose(self, cleanup: Cleanup = no_cleanup, *, notice: float = 0.0) -> Report:
        """Kill what runs, wait until all of it is gone, and return what the launcher told.

        Args:
            cleanup: opens the scope for it; a cancel can't cut it short.
            notice: seconds between a SIGTERM to the command's group and the end of all; with 0 it
                is killed at once.
        """
        lifeline = _stream(self._process.stdin)
        with cleanup(_CLEANUP_GRACE) as scope:
            # Where no runtime gave a scope, the shield is ours.
            with trio.move_on_after(_CLEANUP_GRACE, shield=scope is None):
                if notice:
                    await self._terminate(notice)
                lifeline.close()
                await self._wait_awake()
        lifeline.close()  # where there was no grace, not even for the notice
        await self._kill()
        if self._report is None:
            self._report = self._close_pipes()
        return self._report

    async def _terminate(self, notice: float) -> None:
        if self.has_ended:
            return
        self._listen(_drain(_stream(self._process.stderr)))
        Report.parse(bytes(self._told)).signal_group(signal.SIGTERM)
        with trio.move_on_after(notice):
            await self._process.wait()

    async def _wait_awake(self) -> None:
        """Wait for the launcher, and wake it up as often as what it has to kill may stop it."""
        while self._process.returncode is None:
            self._process.send_signal(signal.SIGCONT)
            with trio.move_on_after(_WAKE_SECONDS):
                await self._process.wait()

    async def _kill(self) -> None:
        """Give the launcher, without any grace, the moment that it needs; then kill it as well."""
        if self._process.returncode is None:
            # It gets help: what stops it faster than it is woken up is still below it.
            with trio.move_on_after(_LAST_MOMENT, shield=True):
                await trio.to_thread.run_sync(_kill_below, self._process.pid)
                await self._wait_awake()
        if self._process.returncode is None:
            self._process.kill()
            with trio.CancelScope(shield=True):
                await self._process.wait()

    def _close_pipes(self) -> Report:
        output, told = _stream(self._process.stdout), _stream(self._process.stderr)
        self.rest = _drain(output)
        report = Report.parse(bytes(self._told) + _drain(told))
        output.close()
        told.close()
        if not report.complete:
            # The launcher itself was killed, and could not.
            report.signal_group(signal.SIGKILL)
        return report

    def _listen(self, data: bytes) -> None:
        # The report is short, but whoever finds the pipe can fill it, and must not block it.
        self._told.extend(data[: _CHUNK - len(self._told)])


async def _read(stream: trio.lowlevel.FdStream, on_output: Callable[[bytes], None]) -> None:
    while chunk := await stream.receive_some(_CHUNK):
        on_output(chunk)


def _drain(pipe: trio.lowlevel.FdStream) -> bytes:
    """Read what the pipe holds without waiting for more."""
    found = b""
    while len(found) < _DRAIN_LIMIT:
        try:
            chunk = os.read(pipe.fileno(), _CHUNK)
        except BlockingIOError:
            break
        if not chunk:
            break
        found += chunk
    return found


def _kill_below(pid: int) -> None:
    launcher.kill(launcher.family(pid, pid))


def _stream(stream: object) -> trio.lowlevel.FdStream:
    return cast("trio.lowlevel.FdStream", stream)
