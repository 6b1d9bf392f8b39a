"""The program of a worker process: it runs one call after the other, and sends the results.

It ends when the other side is gone, and on SIGTERM, after the `finally` blocks of the running
function.
"""

import faulthandler
import io
import os
import resource
import signal
import socket
import sys
import threading
import traceback
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, NoReturn, cast

from msgspec.structs import replace

from greenroom.core import (
    AgentContext,
    AgentCrashError,
    GreenroomError,
    ResourceMap,
    ToolError,
    ToolResult,
    Workspace,
)
from greenroom.core._internal import (
    Wire,
    clip,
    conceal_secrets,
    is_a,
    leaves,
    message_of,
    serde,
    type_name,
)
from greenroom.sandbox._internal import NOTE_FD, become_subreaper
from greenroom.tools.execution import LIVE_CHARACTERS, describe_failure
from greenroom.tools.function_tool import FunctionTool
from greenroom.tools.isolation.frame import (
    SAME_FIELDS,
    AbandonedFrame,
    BegunFrame,
    CallFrame,
    ContextFields,
    EndedFrame,
    FrameBuffer,
    ProgressFrame,
    become_worker,
    impose,
    pack,
)

if TYPE_CHECKING:
    from collections.abc import Callable


_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_CHUNK = 65_536
_MAX_TRACEBACK = 20_000


class _Stopped(SystemExit):
    """SIGTERM has come: nobody waits for the call any more."""


class _Connection:
    """The socket to the other side: for whole frames, and for this process alone."""

    def __init__(self, connection: socket.socket) -> None:
        """Use an inherited socket, and keep other processes from inheriting it."""
        connection.set_inheritable(False)
        self._socket = connection
        self._buffer = FrameBuffer()
        self._lock = threading.Lock()
        self._pid = os.getpid()

    @property
    def is_ours(self) -> bool:
        """Whether this is not a process that the function has forked."""
        return os.getpid() == self._pid

    def send(self, frame: Wire) -> None:
        """Send a frame; what a forked process sends is dropped."""
        data = pack(frame)
        if self.is_ours:
            with self._lock:
                self._socket.sendall(data)

    def receive(self) -> CallFrame | None:
        """Wait for the next call; None at the end."""
        while data := self._socket.recv(_CHUNK):
            for frame in self._buffer.feed(data):
                return serde.decode(frame, CallFrame)
        return None


class _NoResources(ResourceMap):
    """The resources of a context in a worker process, where any use of them is an error."""

    def __init__(self) -> None:
        """Hold nothing, so that every method fails."""

    def __getattr__(self, name: str) -> NoReturn:
        raise ToolError(
            "context.resources was used in a tool's own process, where there are none",
            hint="make the tool an async function, or leave isolation='process' out",
        )


class CallServer:
    """Runs incoming calls in the main thread, where signals arrive."""

    def __init__(self, connection: socket.socket) -> None:
        """Serve the other end of this socket."""
        self._connection = _Connection(connection)
        self._is_stopped = False

    def serve(self) -> None:
        """Run one call after the other, until the other side is gone."""
        while not self._is_stopped and (call := self._connection.receive()):
            self._connection.send(BegunFrame())
            # The last function may have changed its handling.
            signal.signal(signal.SIGTERM, self._stop)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
            sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
            ended = _run(call, self._context(call.context))
            if not self._connection.is_ours:
                os._exit(0)  # the function has forked, and this is the copy
            try:
                self._connection.send(ended)
            except GreenroomError as error:  # too long, or metadata that is not JSON
                self._connection.send(
                    EndedFrame(error=f"{call.tool}: {error}", is_reusable=ended.is_reusable)
                )

    def _context(self, fields: ContextFields) -> AgentContext:
        same = {name: getattr(fields, name) for name in SAME_FIELDS}
        # A copy, to find the changes of the call in it.
        same["metadata"] = serde.decode(serde.encode(fields.metadata), dict[str, object])
        return AgentContext(
            **same,
            workspace=Workspace(fields.root, fields.cwd),
            resources=_NoResources(),
            on_progress=self._progress,
            on_cleanup=_no_cleanup,
            on_abandon=lambda what: self._connection.send(AbandonedFrame(str(what))),
            on_search=_no_rules,
        )

    def _stop(self, *_: object) -> NoReturn:
        self._is_stopped = True  # even if the function swallows the exception
        raise _Stopped(128 + signal.SIGTERM)

    def _progress(self, _: str, text: str) -> None:
        # One more than is shown, so the other side sees that something is cut off.
        self._connection.send(ProgressFrame(str(text)[: LIVE_CHARACTERS + 1]))


def _run(call: CallFrame, context: AgentContext) -> EndedFrame:
    """Run a call to its end, and find what it has changed and left behind."""
    files = _standard_files()
    ended = _try_call(call, context)
    for stream in (sys.__stdout__, sys.__stderr__):
        with suppress(ValueError, OSError):  # the function has closed it
            if stream:
                stream.flush()
    removed_keys = tuple(call.context.metadata.keys() - context.metadata.keys())
    changed = {
        key: value
        for key, value in context.metadata.items()
        if key not in call.context.metadata or call.context.metadata[key] != value
    }
    is_reusable = ended.is_reusable and files == _standard_files() and not _has_leftovers()
    return replace(ended, metadata=changed, removed_keys=removed_keys, is_reusable=is_reusable)


def _try_call(call: CallFrame, context: AgentContext) -> EndedFrame:
    try:
        return EndedFrame(_check_result(call, _call_tool(call, context)))
    except _Stopped:
        raise
    except BaseException as error:  # noqa: BLE001  (whatever a tool raises is its result)
        if call.limits.memory_megabytes and any(is_a(e, MemoryError) for e in leaves(error)):
            limit = call.limits.memory_megabytes
            message = f"{call.tool} was stopped: it used more than {limit} MB of memory"
            return EndedFrame(error=message, is_reusable=False)
        crashes = [each for each in leaves(error) if is_a(each, AgentCrashError)]
        text = message_of(crashes[0]) if crashes else describe_failure(error)
        return EndedFrame(error=text, traceback=_traceback(error), is_crash=bool(crashes))


def _call_tool(call: CallFrame, context: AgentContext) -> ToolResult:
    sys.path[:] = call.path
    with suppress(OSError):
        os.chdir(call.folder)
    tool = _find_tool(call)
    with impose(call.limits):
        return tool.run_here(call.input, context)


def _find_tool(call: CallFrame) -> "FunctionTool[[], object]":
    found = call.function.load()
    if isinstance(found, FunctionTool) and found.name == call.tool:
        return found
    # Another tool of the same function, or the function itself.
    function = cast("Callable[[], object]", getattr(found, "__wrapped__", found))
    return FunctionTool(function, name=call.tool)


def _check_result(call: CallFrame, result: ToolResult) -> ToolResult:
    """Return the result as the other side will read it."""
    try:
        return serde.decode(serde.encode(result), ToolResult)
    except serde.InvalidJSONError as error:
        raise ToolError(f"{call.tool} returned a result that can't be used: {error}") from error


def _traceback(error: BaseException) -> str:
    """Write a traceback for the log; a `ToolError` needs none."""
    if is_a(error, ToolError):
        return ""
    try:
        return clip(conceal_secrets("".join(traceback.format_exception(error))), _MAX_TRACEBACK)
    except Exception:  # noqa: BLE001 (groups in groups in groups, or a broken `__str__`)
        return f"{type_name(error)}, whose traceback can't be shown"


def _standard_files() -> list[tuple[int, int] | None]:
    """Identify the standard input, output and error, which a function may close or replace."""
    found: list[tuple[int, int] | None] = []
    for fd, stream in enumerate((sys.__stdin__, sys.__stdout__, sys.__stderr__)):
        try:
            status = os.fstat(fd)
        except OSError:
            return []
        found.append(None if stream is None or stream.closed else (status.st_dev, status.st_ino))
    return found


def _has_leftovers() -> bool:
    """Whether the call has left a thread, a timer or a process; on Linux, any descendant counts."""
    if threading.active_count() > 1 or any(signal.getitimer(timer)[0] for timer in _TIMERS):
        return True
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _no_cleanup(_: str, __: float) -> AbstractContextManager[object]:
    raise ToolError(
        "context.cleanup was called in a tool's own process, which no cancel reaches",
        hint="clean up in `finally` without it, or make the tool an async function",
    )


def _no_rules(_: str) -> NoReturn:
    raise ToolError(
        "context.screen_reads was called in a tool's own process, which knows no rules",
        hint="make the tool an async function, or leave isolation='process' out",
    )


def main(fd: int) -> None:
    """Serve the socket of this number, in the process that a `WorkerProcess` has started."""
    connection = socket.socket(fileno=fd)
    os.close(NOTE_FD)
    # Processes that a call leaves become children of this one, which finds them.
    become_subreaper()
    # No core dump for a call that exceeds a limit.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    faulthandler.enable()
    # Prints show line by line.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                encoding="utf-8", errors="replace", line_buffering=True, write_through=False
            )
    become_worker()
    CallServer(connection).serve()
