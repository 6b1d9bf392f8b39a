"""A child process that can't outlive us, whatever it does.

Every process that we start has a launcher in front of it (`process_tree`), which watches a pipe
from us, its lifeline. When the pipe closes, because we release the process or because this very
process was killed, the launcher kills everything that the command has started and ends.
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
from greenroom.sandbox import process_tree

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


# Theory of operation
#
#     we --lifeline--> launcher ----> parent ----> command ----> whatever it starts
#        <--report----                                |
#        <--output------------------------------------+
#
# The launcher is a child subreaper: a descendant that loses its parent becomes its child. So
# whatever a command does (`setsid`, forking twice), all of it is below the launcher, and can be
# listed from /proc. The parent only waits for the command. It is there so that `kill $PPID` reaches
# it and not the launcher; the kernel kills the parent when the launcher dies, and the command when
# the parent dies.
#
# The report only grows, and says how far things are:
#
#     nothing                             the command has not begun         pid is None
#     "<pid>"                             it runs                           is_complete is False
#     "<pid>" "<code>" "gone|left" note   it has ended, and all below it    is_complete is True
#
# From running to ended there are three ways. The command ends: what is left below the launcher is
# killed, and the code reported. The lifeline closes (`aclose`, after a time-out or a cancel; or our
# death): all is killed, and the code is empty. The command kills the parent: the same.
#
# A cancel may fall into `follow`, anywhere: what was not read waits in the pipe, and `aclose` keeps
# it as `rest`. In `aclose` no cancel takes effect within its grace: SIGTERM to the command's group
# and the notice, if one is given; the lifeline; SIGCONT to the launcher every 0.1 seconds, since
# what it kills may have stopped it. When the grace is over, we kill what is below the launcher
# ourselves, for a second at the most, and then the launcher.
#
# What each death leaves behind:
#
#     ours, by SIGKILL as well   nothing: the kernel closes the lifeline
#     the launcher's             parent and command die with it, and `aclose` kills the command's
#                                group; what has left that may live on: `has_survivors` is true
#     ours and the launcher's    parent and command die; what the command has started may live on
#
# Out of reach are processes of another user, and what a service starts for a command, such as a
# container. Where there is no subreaper (not Linux), what has left the group gets away.


@dataclass(frozen=True)
class ProcessReport:
    """What the launcher reported, as far as it got; a command may have meddled with it.

    Attributes:
        pid: the command's process id, or None where it did not begin.
        is_complete: whether the launcher has reported everything.
        code: the command's exit code; negative where a signal of that number killed it; None where
            it was stopped before its end.
        has_survivors: whether something that it started may still run.
        note: what it wrote to the file descriptor `NOTE_FD`, or why it did not begin.
    """

    pid: int | None
    is_complete: bool = False
    code: int | None = None
    has_survivors: bool = False
    note: bytes = b""

    @classmethod
    def parse(cls, data: bytes) -> "ProcessReport":
        """Read what the launcher wrote; it may end anywhere."""
        begun = _BEGIN.match(data)
        if begun is None:
            return cls(None, note=data)
        ended = _END.fullmatch(data, begun.end())
        if ended is None:
            return cls(int(begun[1]), has_survivors=True)
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
        """Own a launcher that was just started."""
        self._process = process
        self._lifeline = _as_pipe(process.stdin)
        self._output, self._reports = _as_pipe(process.stdout), _as_pipe(process.stderr)
        self._report_bytes = bytearray()
        self._report: ProcessReport | None = None
        self.rest = b""
        """The output that was not read before, known once it is closed."""

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
                [sys.executable, "-I", "-S", process_tree.__file__, *command],
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
        """Whether the command and all that it started have ended or were closed."""
        return self._process.returncode is not None

    async def follow(self, on_output: Callable[[bytes], None]) -> None:
        """Pass the output on as it comes, until the command and all that it started has ended.

        Not until the output ends: a process that could not be killed may hold that open.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_read, self._output, on_output)
            nursery.start_soon(_read, self._reports, self._listen)
            await self._process.wait()
            nursery.cancel_scope.cancel()

    def read_output(self) -> bytes:
        """Return the output that is there already, without waiting for more."""
        return _drain(self._output)

    async def aclose(self, cleanup: Cleanup = no_cleanup, *, notice: float = 0.0) -> ProcessReport:
        """Kill what runs, wait until all of it is gone, and return what the launcher reported.

        Args:
            cleanup: opens the scope for it; a cancel can't cut it short.
            notice: seconds between a SIGTERM to the command's group and the end of all; with 0 it
                is killed at once.
        """
        with cleanup(_CLEANUP_GRACE) as scope:
            # Where no runtime gave a scope, the shield is ours.
            with trio.move_on_after(_CLEANUP_GRACE, shield=scope is None):
                if notice:
                    await self._terminate(notice)
                self._lifeline.close()
                await self._wait_awake()
        self._lifeline.close()  # where there was no grace, not even for the notice
        await self._kill()
        if self._report is None:
            self._report = self._close_pipes()
        return self._report

    async def _terminate(self, notice: float) -> None:
        if self.has_ended:
            return
        self._listen(_drain(self._reports))
        ProcessReport.parse(bytes(self._report_bytes)).signal_group(signal.SIGTERM)
        with trio.move_on_after(notice):
            await self._process.wait()

    async def _wait_awake(self) -> None:
        """Wait for the launcher, and wake it up as often as what it has to kill may stop it."""
        while not self.has_ended:
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

    def _close_pipes(self) -> ProcessReport:
        self.rest = _drain(self._output)
        report = ProcessReport.parse(bytes(self._report_bytes) + _drain(self._reports))
        self._output.close()
        self._reports.close()
        if not report.is_complete:
            # The launcher itself was killed, and could not.
            report.signal_group(signal.SIGKILL)
        return report

    def _listen(self, data: bytes) -> None:
        # The report is short, but a process that finds the pipe can fill it, and must not block it.
        self._report_bytes.extend(data[: _CHUNK - len(self._report_bytes)])


async def _read(stream: trio.lowlevel.FdStream, on_output: Callable[[bytes], None]) -> None:
    while chunk := await stream.receive_some(_CHUNK):
        on_output(chunk)


def _drain(pipe: trio.lowlevel.FdStream) -> bytes:
    """Read what the pipe holds without waiting for more."""
    found = b""
    with suppress(BlockingIOError):
        while len(found) < _DRAIN_LIMIT and (chunk := os.read(pipe.fileno(), _CHUNK)):
            found += chunk
    return found


def _kill_below(pid: int) -> None:
    process_tree.kill(process_tree.find_descendants(pid, pid))


def _as_pipe(stream: object) -> trio.lowlevel.FdStream:
    return cast("trio.lowlevel.FdStream", stream)


@dataclass(frozen=True)
class Exit:
    """How a contained command ended.

    Attributes:
        code: its exit code; negative where a signal of that number killed it; None where it was
            stopped before its end.
        timed_out: whether it was stopped at the time-out.
        note: what it wrote to the file descriptor `NOTE_FD`.
        has_survivors: whether something that it started may still run.
    """

    code: int | None
    timed_out: bool = False
    note: bytes = b""
    has_survivors: bool = False


async def run_contained(
    command: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    on_output: Callable[[bytes], None],
    timeout: float,
    cleanup: Cleanup = no_cleanup,
) -> Exit:
    """Run a command, and return when it and everything that it started is gone.

    Its standard input is empty. Its output and error output come merged, in order, in chunks as
    they arrive. Processes that it leaves behind are killed at its end. A cancel, the time-out and
    the death of this process kill the command and all its descendants. On Linux that holds also for
    those that called `setsid` or forked twice, and whatever it does to its parent; elsewhere such a
    one can get away. Out of reach are processes of another user, and what a command asks a service
    to start, such as a container. A command that hunts down its parent's parent may keep a process;
    then `Exit.has_survivors` says so.

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
    process = await ContainedProcess.start(command, cwd=cwd, environment=environment)
    limit = trio.move_on_after(timeout)
    try:
        with limit:
            await process.follow(on_output)
    finally:
        report = await process.aclose(cleanup)
    if report.pid is None and not limit.cancelled_caught:
        raise ToolError(
            f"the launcher of {command[0]} failed: {report.note.decode(errors='replace')[-500:]}"
        )
    if process.rest:
        on_output(process.rest)
    return Exit(report.code, limit.cancelled_caught, report.note, report.has_survivors)


def our_python(*arguments: str) -> list[str]:
    """Return the command that runs this very Python behind a launcher.

    The launcher keeps what the dynamic linker reads from commands; but our own Python may need it.

    Example:
        >>> our_python("-c", "pass")[-2:]
        ['-c', 'pass']
    """
    linker = [f"{k}={v}" for k, v in os.environ.items() if k.startswith(("LD_", "DYLD_"))]
    return [*(["env", *linker] if linker else []), sys.executable, *arguments]


_SAFE_NAMES = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_.*|TZ|TERM|COLORTERM|NO_COLOR|TMPDIR|TMP|TEMP"
    r"|XDG_(?:CACHE_HOME|CONFIG_HOME|DATA_HOME|RUNTIME_DIR|STATE_HOME)|VIRTUAL_ENV|CONDA_PREFIX"
    r"|JAVA_HOME|GOPATH|GOROOT|CARGO_HOME|RUSTUP_HOME|NVM_DIR|PYENV_ROOT"
    r"|SSL_CERT_FILE|SSL_CERT_DIR|CI|SOURCE_DATE_EPOCH",
    re.DOTALL,
)
_PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"})
_OVERRIDES = {"GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat", "PAGER": "cat"}


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of `environment` that a command may have, pagers and prompts off.

    A short list is kept (search path, home, language, terminal, temporary folder, tool chains,
    certificates, proxies without a password) and all else dropped. So no key, token or password
    gets through under whatever name, nor what would change how a program loads or runs
    (`LD_PRELOAD`, `BASH_ENV`, `PYTHONSTARTUP`, `NODE_OPTIONS`, `GIT_CONFIG_COUNT`, `IFS`).

    Example:
        >>> clean_environment({"LANG": "C", "MY_API_KEY": "k", "LD_PRELOAD": "x.so"})["LANG"]
        'C'
        >>> "MY_API_KEY" in clean_environment({"MY_API_KEY": "k"})
        False
    """
    return {k: v for k, v in environment.items() if _is_safe(k, v)} | _OVERRIDES


def _is_safe(name: str, value: str) -> bool:
    if name.upper() in _PROXIES:
        return "@" not in value
    return _SAFE_NAMES.fullmatch(name) is not None
