"""A child process that can't outlive us, whatever it does.

Every process that we start has a launcher in front of it (`process_tree`), which watches a pipe
from us, the lifeline. When the pipe closes, because we close the process or because we are killed
ourselves, the launcher kills everything that the command has started, and then ends.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from pathlib import Path
from typing import Self, TypeAlias, cast

import msgspec
import trio

from greenroom.core import ToolError
from greenroom.core._internal import SandboxReport, compile_later
from greenroom.sandbox import process_tree

Cleanup: TypeAlias = Callable[[float], AbstractContextManager[object]]
"""Opens the scope for the clean-up, as `AgentContext.cleanup` does."""

_CLEANUP_GRACE = 3.0
_LAST_MOMENT = 1.0
_WAKE_SECONDS = 0.1
_CHUNK = 65_536
_DRAIN_LIMIT = 1 << 20
_SIGNALLED = 128
_BEGIN = compile_later(rb"(\d{1,10})\n")
_END = compile_later(rb"(-?\d{1,10})?\n(gone|killed|left)\n(.*)", re.DOTALL)


def no_cleanup(_: float) -> AbstractContextManager[object]:
    """Open no scope; the clean-up is then shielded for at most three seconds."""
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
# whatever a command does (`setsid`, forking twice), its processes stay below the launcher, which
# finds them in /proc. The parent only waits for the command: it is there because `kill $PPID` must
# not reach the launcher. The kernel kills the parent when the launcher dies, and the command when
# the parent dies.
#
# The report only grows, and says how far things are:
#
#     nothing                             the command has not begun         pid is None
#     "<pid>"                             it runs                           is_complete is False
#     "<pid>" "<code>" "<state>" note     it has ended, and all below it    is_complete is True
#
# There are three ways to end. If the command ends, the launcher kills what is left below it and
# reports the code; the state is "gone", "killed" if something was left, or "left" if it still is.
# If the lifeline closes (by `aclose`, after a time-out or a cancel, or by our death), the launcher
# kills everything, and the code is empty. If the command kills the parent, the same happens.
#
# A cancel may hit `follow` anywhere: unread output stays in the pipe, and `aclose` returns it as
# `rest`. Within its grace, `aclose` ignores cancels. It sends SIGTERM to the command's group and
# waits, if there is a notice; it closes the lifeline; and it sends SIGCONT to the launcher every
# 0.1 seconds, since the processes to kill may have stopped it. After the grace, we kill what is
# below the launcher ourselves, for at most a second, and then the launcher.
#
# What each death leaves behind:
#
#     ours, even by SIGKILL      nothing: the kernel closes the lifeline
#     the launcher's             parent and command die with it, and `aclose` kills the command's
#                                group; processes outside of it may survive: `has_survivors` is true
#     ours and the launcher's    parent and command die; what the command has started may survive
#
# Out of reach are processes of another user, and what a service starts for a command, such as a
# container. Without a subreaper (on systems other than Linux), processes can leave the group.


class ProcessReport(msgspec.Struct, frozen=True):
    """What the launcher reported, as far as it got; the command may have tampered with it.

    Attributes:
        pid: the command's process id, or None if it was not started.
        is_complete: whether the launcher has reported everything.
        code: the command's exit code; negative if a signal of that number killed it; None if it
            was stopped before its end.
        has_survivors: whether something that it started may still run.
        note: what it wrote to the file descriptor `NOTE_FD`, or why it was not started.
        left_running: whether it ended and left something running, which was killed.
    """

    pid: int | None
    is_complete: bool = False
    code: int | None = None
    has_survivors: bool = False
    note: bytes = b""
    left_running: bool = False

    @classmethod
    def parse(cls, data: bytes) -> "ProcessReport":
        """Parse what the launcher wrote, which may break off anywhere."""
        begun = _BEGIN.match(data)
        if begun is None:
            return cls(None, note=data)
        ended = _END.fullmatch(data, begun.end())
        if ended is None:
            return cls(int(begun[1]), has_survivors=True)
        code, state, note = ended.groups()
        number = int(code) if code else None
        return cls(int(begun[1]), True, number, state == b"left", note, state == b"killed")

    def signal_group(self, number: int) -> None:
        """Send a signal to the command's process group."""
        if self.pid:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)


class ContainedProcess:
    """A command behind its launcher, from `start` to `aclose`; what it starts can't outlive us."""

    def __init__(
        self,
        process: trio.Process,
        input: trio.lowlevel.FdStream | None = None,  # noqa: A002
        errors: trio.lowlevel.FdStream | None = None,
    ) -> None:
        """Take over a launcher that was just started, and our ends of the command's own pipes."""
        self._process = process
        self.input = input
        """Its standard input, if it was started with pipes; whoever closes it ends the input."""
        self.errors = errors
        """Its error output, if it was started with pipes."""
        self._lifeline = _as_pipe(process.stdin)
        self._output, self._reports = _as_pipe(process.stdout), _as_pipe(process.stderr)
        self._report_bytes = bytearray()
        self._report: ProcessReport | None = None
        self.rest = b""
        """The output that was not read before `aclose`."""

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        cwd: Path | None,
        environment: Mapping[str, str],
        pass_fds: Sequence[int] = (),
        has_pipes: bool = False,
    ) -> Self:
        """Start a command; its standard input is empty, its output and error output are merged.

        Args:
            command: the program, searched in `PATH`, and its arguments.
            cwd: the folder that it starts in; None for ours.
            environment: its whole environment.
            pass_fds: file descriptors that it inherits; none is `NOTE_FD`, which is the note's.
            has_pipes: whether it has a standard input, and an error output of its own.

        Raises:
            ToolError: the process could not be started.
        """
        with ExitStack() as theirs:
            own: list[trio.lowlevel.FdStream] = []
            pipes: list[int] = []
            if has_pipes:
                (input_, write), (read, errors) = os.pipe(), os.pipe()
                theirs.callback(os.close, input_)
                theirs.callback(os.close, errors)
                own += [trio.lowlevel.FdStream(write), trio.lowlevel.FdStream(read)]
                pipes += [input_, errors]
            try:
                process = await _launch(command, cwd, environment, pass_fds, pipes)
            except BaseException:
                for each in own:
                    each.close()
                raise
        return cls(process, *own)

    @property
    def has_ended(self) -> bool:
        """Whether the command and everything that it started have ended."""
        return self._process.returncode is not None

    @property
    def output(self) -> trio.lowlevel.FdStream:
        """Its output, for one reader: this, `follow` or `read_output`."""
        return self._output

    async def wait(self) -> None:
        """Wait until the command and everything that it started have ended."""
        await self._process.wait()

    async def follow(self, on_output: Callable[[bytes], None]) -> None:
        """Pass on the output as it comes, until the command and everything it started have ended.

        It does not wait for the end of the output, which a process that can't be killed may hold
        open.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_read, self._output, on_output)
            nursery.start_soon(_read, self._reports, self._listen)
            await self._process.wait()
            nursery.cancel_scope.cancel()

    def read_output(self) -> bytes:
        """Return the output that is already there, without waiting for more."""
        return _drain(self._output)

    async def aclose(self, cleanup: Cleanup = no_cleanup, *, notice: float = 0.0) -> ProcessReport:
        """Kill everything, wait until all of it is gone, and return what the launcher reported.

        Args:
            cleanup: opens the scope for the clean-up, which a cancel can't cut short.
            notice: seconds between a SIGTERM to the command's group and the kill; with 0, there is
                no SIGTERM.
        """
        with cleanup(_CLEANUP_GRACE) as scope:
            # Without a scope from a runtime, we have to shield it ourselves.
            with trio.move_on_after(_CLEANUP_GRACE, shield=scope is None):
                if notice:
                    await self._terminate(notice)
                self._lifeline.close()
                await self._wait_awake()
        self._lifeline.close()  # if there was no grace, not even for the notice
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
        """Wait for the launcher, waking it up again and again, since the command may stop it."""
        while not self.has_ended:
            self._process.send_signal(signal.SIGCONT)
            with trio.move_on_after(_WAKE_SECONDS):
                await self._process.wait()

    async def _kill(self) -> None:
        """Give the launcher a last moment, whatever the grace, and then kill it as well."""
        if self._process.returncode is None:
            # Help it: a process that keeps stopping it is still below it.
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
        for pipe in (self._output, self._reports, self.input, self.errors):
            if pipe is not None:
                pipe.close()
        if not report.is_complete:
            # The launcher was killed before it could do this.
            report.signal_group(signal.SIGKILL)
        return report

    def _listen(self, data: bytes) -> None:
        # The report is short, but a process that finds the pipe could fill and so block it.
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


async def _launch(
    command: Sequence[str],
    cwd: Path | None,
    environment: Mapping[str, str],
    pass_fds: Sequence[int],
    pipes: Sequence[int],
) -> trio.Process:
    """Start the launcher of a command.

    Raises:
        ToolError: it could not be started.
    """
    linker = {k: v for k, v in os.environ.items() if k.startswith(("LD_", "DYLD_"))}
    words = [process_tree.PIPES + ",".join(map(str, pipes))] if pipes else []
    try:
        return await trio.lowlevel.open_process(
            [sys.executable, "-I", "-S", process_tree.__file__, *words, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env={**environment, **linker},
            pass_fds=(*pass_fds, *pipes),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise ToolError(f"can't start {command[0]} in {cwd or '.'}: {error}") from error


def _as_pipe(stream: object) -> trio.lowlevel.FdStream:
    return cast("trio.lowlevel.FdStream", stream)


class Exit(msgspec.Struct, frozen=True):
    """How a contained command ended.

    Attributes:
        code: its exit code; negative if a signal of that number killed it; None if it was stopped
            before its end.
        timed_out: whether it was stopped at the time-out.
        note: what it wrote to the file descriptor `NOTE_FD`.
        has_survivors: whether something that it started may still run.
        left_running: whether it ended and left something running, which was killed.
    """

    code: int | None
    timed_out: bool = False
    note: bytes = b""
    has_survivors: bool = False
    left_running: bool = False


class Confinement(msgspec.Struct, frozen=True):
    """How one command is confined; without arguments, it is not.

    Attributes:
        prefix: the words to put before the command.
        environment: variables that the command needs in addition to its own.
        report: which parts are held, and by what; None without a policy.
        adds_to_signals: whether a signal makes the exit code 128 plus its number, as in shells.
    """

    prefix: tuple[str, ...] = ()
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    report: SandboxReport | None = None
    adds_to_signals: bool = False

    def exit_code(self, code: int | None) -> int | None:
        """Return the exit code of the command, negative if a signal killed it."""
        if code is None or not self.adds_to_signals or code <= _SIGNALLED:
            return code
        return _SIGNALLED - code


async def run_contained(
    command: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    on_output: Callable[[bytes], None],
    timeout: float,
    cleanup: Cleanup = no_cleanup,
    on_start: Callable[[], None] = lambda: None,
) -> Exit:
    """Run a command, and return when it and everything that it started are gone.

    Its standard input is empty. Its output and error output are merged, and arrive in order and in
    chunks. Processes that it leaves behind are killed at its end. A cancel, the time-out and the
    death of this process kill the command and all its descendants. On Linux this includes processes
    that called `setsid` or forked twice, whatever the command does to its parent; elsewhere they
    can escape. Out of reach are processes of another user, and what a command asks a service to
    start, such as a container. A command that hunts down its parent's parent may keep a process;
    `Exit.has_survivors` then says so.

    Args:
        command: the program, searched in `PATH`, and its arguments.
        cwd: the folder that it starts in.
        environment: its whole environment.
        on_output: is called with each chunk, and must not block.
        timeout: seconds, by trio's clock; with 0, nothing is started.
        cleanup: opens the scope for the clean-up, as `AgentContext.cleanup` does; by default the
            clean-up is shielded for at most three seconds.
        on_start: is called when its process has been started.

    Raises:
        ToolError: the process could not be started.
    """
    if timeout <= 0:  # a launcher that is quick would start it before it is stopped
        await trio.lowlevel.checkpoint()
        return Exit(None, timed_out=True)
    process = await ContainedProcess.start(command, cwd=cwd, environment=environment)
    limit = trio.move_on_after(timeout)
    try:
        on_start()
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
    return Exit(
        report.code,
        limit.cancelled_caught,
        report.note,
        report.has_survivors,
        report.left_running,
    )


def our_python(*arguments: str) -> list[str]:
    """Return the command that runs this same Python behind a launcher.

    The launcher drops the variables of the dynamic linker, but our own Python may need them.

    Example:
        >>> our_python("-c", "pass")[-2:]
        ['-c', 'pass']
    """
    linker = [f"{k}={v}" for k, v in os.environ.items() if k.startswith(("LD_", "DYLD_"))]
    return [*(["env", *linker] if linker else []), sys.executable, *arguments]


_SAFE_NAMES = compile_later(
    r"PATH|HOME|USER|LOGNAME|SHELL|TZ|TMPDIR|TMP|TEMP|LANG|LANGUAGE"
    # The categories of a locale, of POSIX and of GNU; a name may begin with LC_ for other reasons.
    r"|LC_(?:ALL|COLLATE|CTYPE|MESSAGES|MONETARY|NUMERIC|TIME|ADDRESS|IDENTIFICATION|MEASUREMENT"
    r"|NAME|PAPER|TELEPHONE)"
    r"|XDG_(?:CACHE_HOME|CONFIG_HOME|DATA_HOME|RUNTIME_DIR|STATE_HOME)|VIRTUAL_ENV|CONDA_PREFIX"
    r"|JAVA_HOME|GOPATH|GOROOT|CARGO_HOME|RUSTUP_HOME|NVM_DIR|PYENV_ROOT"
    r"|SSL_CERT_FILE|SSL_CERT_DIR|CI|SOURCE_DATE_EPOCH"
)
_PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"})
# Run as a command, it fails at once; programs quote it when they say that their editor failed.
_NO_EDITOR = "false there-is-no-terminal-for-an-editor"
_EDITORS = ("EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "SUDO_EDITOR", "FCEDIT")
_OVERRIDES = {
    **dict.fromkeys(_EDITORS, _NO_EDITOR),
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    **dict.fromkeys(("PAGER", "GIT_PAGER", "MANPAGER", "SYSTEMD_PAGER"), "cat"),
    "TERM": "dumb",
    "NO_COLOR": "1",
}


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of `environment` that a command without a terminal may have.

    Pagers print, colours and prompts are off, and an editor fails at once. It keeps a short list of
    variables (search path, home, language, temporary folder, tool chains, certificates, proxies
    without a password) and drops all others. So no key, token or
    password gets through, whatever its name, nor does anything that changes how a program loads or
    runs (`LD_PRELOAD`, `BASH_ENV`, `PYTHONSTARTUP`, `NODE_OPTIONS`, `GIT_CONFIG_COUNT`, `IFS`).

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
