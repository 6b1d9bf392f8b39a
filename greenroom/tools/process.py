"""Child processes that can't outlive their caller, whatever they do.

Every process that a built-in tool starts goes through `run_contained`, which puts `launcher` between
us and the command. The launcher watches a pipe from us, its lifeline. When the pipe closes, because
the call is over, is cancelled, timed out or because this very process was killed, the launcher kills
everything that the command has started and ends.
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
from typing import cast

import trio

from greenroom.core import ToolError
from greenroom.tools import launcher

__all__ = ["Exit", "run_contained"]

_CLEANUP_GRACE = 3.0
_LAST_MOMENT = 1.0
_WAKE_SECONDS = 0.1
_CHUNK = 65_536
_DRAIN_LIMIT = 1 << 20
_BEGIN = re.compile(rb"(\d{1,10})\n")
_END = re.compile(rb"(-?\d{1,10})?\n(gone|left)\n(.*)", re.DOTALL)


@dataclass(frozen=True)
class Exit:
    """How a contained command ended.

    Attributes:
        code: its exit code; negative where a signal of that number killed it; None where it was
            stopped before its end.
        timed_out: whether it was stopped at the time-out.
        note: what it wrote to the file descriptor `launcher.NOTE_FD`.
        left: whether something that it started may still run.
    """

    code: int | None
    timed_out: bool = False
    note: bytes = b""
    left: bool = False


def _no_cleanup(_: float) -> AbstractContextManager[object]:
    return nullcontext()


async def run_contained(
    command: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    on_output: Callable[[bytes], None],
    timeout: float,
    cleanup: Callable[[float], AbstractContextManager[object]] = _no_cleanup,
) -> Exit:
    """Run a command, and return when it and everything that it started is gone.

    Its standard input is empty. Its output and error output come merged, in order, in chunks as they
    arrive. Processes that it leaves behind are killed at its end. A cancel, the time-out and the
    death of this process kill the command and all its descendants. On Linux that holds also for
    those that called `setsid` or forked twice, and whatever it does to its parent; elsewhere such a
    one can get away. Out of reach are processes of another user, and what a command asks a service
    to start, such as a container. A command that hunts down its parent's parent may keep a process;
    then `Exit.left` says so.

    Args:
        command: the program, found along `PATH`, and its arguments.
        cwd: the folder it starts in.
        environment: its whole environment.
        on_output: takes each chunk; must not block.
        timeout: seconds, by trio's clock.
        cleanup: opens the scope for the clean-up, as `AgentContext.cleanup` does; without it the
            clean-up is shielded for three seconds at the most.

    Raises:
        ToolError: the process could not be started.
    """
    process = await _start(command, cwd, environment)
    told = bytearray()
    limit = trio.move_on_after(timeout)
    try:
        with limit:
            await _follow(process, on_output, told)
    finally:
        await _end(process, cleanup)
        rest = _drain(process.stdout)
        report = _Report.parse(bytes(told) + _drain(process.stderr))
        if not report.complete:
            report.kill_group()
    if report.pid is None and not limit.cancelled_caught:
        raise ToolError(
            f"the launcher of {command[0]} failed: {report.note.decode(errors='replace')[-500:]}"
        )
    if rest:
        on_output(rest)
    return Exit(report.code, limit.cancelled_caught, report.note, report.left)


async def _start(command: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> trio.Process:
    own = {name: value for name, value in os.environ.items() if name.startswith(("LD_", "DYLD_"))}
    try:
        return await trio.lowlevel.open_process(
            [sys.executable, "-I", "-S", launcher.__file__, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env={**environment, **own},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise ToolError(f"can't start {command[0]} in {cwd}: {error}") from error


async def _follow(
    process: trio.Process, on_output: Callable[[bytes], None], told: bytearray
) -> None:
    """Read until the launcher ends; a process that it could not kill may hold the pipe open."""

    def listen(data: bytes) -> None:
        # The report is short, but whoever finds the pipe can fill it, and must not block it.
        told.extend(data[: _CHUNK - len(told)])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_read, _stream(process.stdout), on_output)
        nursery.start_soon(_read, _stream(process.stderr), listen)
        await process.wait()
        nursery.cancel_scope.cancel()


async def _read(stream: trio.lowlevel.FdStream, on_output: Callable[[bytes], None]) -> None:
    while chunk := await stream.receive_some(_CHUNK):
        on_output(chunk)


async def _end(
    process: trio.Process, cleanup: Callable[[float], AbstractContextManager[object]]
) -> None:
    """Cut the lifeline, and wait until the launcher has killed everything and ended."""
    _stream(process.stdin).close()
    with cleanup(_CLEANUP_GRACE) as scope:
        # Where no runtime gave a scope, the shield is ours.
        with trio.move_on_after(_CLEANUP_GRACE, shield=scope is None):
            await _wait_awake(process)
    if process.returncode is None:
        # Even without any grace the launcher gets the moment that it needs, and help: what stops it
        # faster than it is woken up is still below it.
        with trio.move_on_after(_LAST_MOMENT, shield=True):
            await trio.to_thread.run_sync(_kill_below, process.pid)
            await _wait_awake(process)
    if process.returncode is None:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


def _kill_below(pid: int) -> None:
    launcher.kill(launcher.family(pid, pid))


async def _wait_awake(process: trio.Process) -> None:
    """Wait for the launcher, and wake it up as often as what it has to kill may stop it."""
    while process.returncode is None:
        process.send_signal(signal.SIGCONT)
        with trio.move_on_after(_WAKE_SECONDS):
            await process.wait()


def _drain(stream: object) -> bytes:
    """Read what the pipe still holds without waiting for more, and close it."""
    pipe = _stream(stream)
    found = b""
    while len(found) < _DRAIN_LIMIT:
        try:
            chunk = os.read(pipe.fileno(), _CHUNK)
        except BlockingIOError:
            break
        if not chunk:
            break
        found += chunk
    pipe.close()
    return found


@dataclass(frozen=True)
class _Report:
    """What the launcher told, as far as it got; a command may have meddled with it."""

    pid: int | None
    complete: bool = False
    code: int | None = None
    left: bool = False
    note: bytes = b""

    @classmethod
    def parse(cls, data: bytes) -> "_Report":
        begun = _BEGIN.match(data)
        if begun is None:
            return cls(None, note=data)
        ended = _END.fullmatch(data, begun.end())
        if ended is None:
            return cls(int(begun[1]), left=True)
        code, state, note = ended.groups()
        return cls(int(begun[1]), True, int(code) if code else None, state == b"left", note)

    def kill_group(self) -> None:
        """Kill the command's group, where the launcher itself was killed and could not."""
        if self.pid:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)


def _stream(stream: object) -> trio.lowlevel.FdStream:
    return cast("trio.lowlevel.FdStream", stream)
