"""The pool of worker processes, which run plain functions and can be killed."""

import codecs
import fcntl
import logging
import os
import signal
import socket
import sys
from pathlib import Path

import msgspec
import trio
from msgspec.structs import replace

from greenroom.core import AgentContext, AgentCrashError, ToolError, ToolResult
from greenroom.core._internal import serde
from greenroom.sandbox._internal import (
    NOTE_FD,
    Cleanup,
    Confinement,
    ContainedProcess,
    ProcessLimits,
    ProcessReport,
    Sandbox,
    confine,
    list_python_files,
    no_cleanup,
    our_python,
    signal_name,
)
from greenroom.tools.execution import LiveOutput, add_sandbox_report
from greenroom.tools.isolation.frame import (
    AbandonedFrame,
    BegunFrame,
    CallFrame,
    ContextFields,
    EndedFrame,
    FrameBuffer,
    FunctionReference,
    ProgressFrame,
    WorkerFrame,
    decode_worker_frame,
    is_loading_script,
    pack,
)

_NOTICE = 0.2
"""Seconds between SIGTERM, after which the function's `finally` blocks run, and SIGKILL."""

_MAX_CALLS = 1_000
"""Calls after which a worker is replaced, so leaks of libraries do not add up."""

_TAIL_CHARACTERS = 2_000
_CHUNK = 65_536
_ROOT = str(Path(__file__).parents[3])
_PROGRAM = (
    "import sys; sys.path[:] = {path!r}; sys.argv[:] = {argv!r}; "
    "from greenroom.tools.isolation.worker_program import main; main({fd})"
)


class WorkerProcess:
    """One worker, seen from our side, from `start` to `aclose`; it dies with us."""

    def __init__(self, process: ContainedProcess, stream: trio.SocketStream) -> None:
        """Take over a new worker; use `start`."""
        self._process = process
        self._stream = stream
        self._calls = 0
        self.has_begun = False
        """Whether its last call has begun."""
        self.is_reusable = False
        """Whether it can take another call: the last one has ended and left nothing behind."""
        self.is_garbled = False
        """Whether it sent something that is not a frame."""
        self.tail = ""
        """The end of its prints."""

    @classmethod
    async def start(cls, confinement: Confinement) -> "WorkerProcess":
        """Start a worker; it can be given a call at once.

        Args:
            confinement: the sandbox that it runs in.

        Raises:
            ToolError: the process could not be started.
        """
        if is_loading_script():
            raise ToolError(
                "a tool was called while another process loads the script that defines it",
                hint='put what starts the program under `if __name__ == "__main__":`',
            )
        ours, theirs = socket.socketpair()
        with theirs:
            # The launcher gives the number NOTE_FD to another file.
            fd = fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, NOTE_FD + 1)
        try:
            process = await ContainedProcess.start(
                [*confinement.prefix, *_command(fd)],
                cwd=None,
                environment={**os.environ, **confinement.environment},
                pass_fds=[fd],
            )
        except BaseException:
            ours.close()
            raise
        finally:
            os.close(fd)
        return cls(process, trio.SocketStream(trio.socket.from_stdlib_socket(ours)))

    @property
    def is_new(self) -> bool:
        """Whether it has had at most one call."""
        return self._calls < 2

    async def run(self, call: bytes, context: AgentContext) -> EndedFrame | None:
        """Run one call; None if the worker died first, or sent something that is not a frame.

        Prints and reports of the function go to the context as they come. A cancel leaves the
        function running: close the worker then, and after None.
        """
        self._calls += 1
        self.has_begun = self.is_reusable = False
        live = LiveOutput(context.progress)
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode

        def show(data: bytes, *, final: bool = False) -> None:
            text = decode(data, final).replace("\0", "\ufffd")
            self.tail = (self.tail + text)[-_TAIL_CHARACTERS:]
            live.show(text)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._process.follow, show)
            ended = await self._converse(call, live, context)
            # There is an answer: a cancel from outside comes too late.
            nursery.cancel_scope.shield = True
            nursery.cancel_scope.cancel()
        show(self._process.read_output(), final=True)
        return ended

    async def aclose(self, cleanup: Cleanup) -> ProcessReport:
        """End the worker and all that it started: SIGTERM, 0.2 seconds, SIGKILL."""
        report = await self._process.aclose(cleanup, notice=_NOTICE)
        self._stream.socket.close()
        return report

    async def _converse(
        self, call: bytes, live: LiveOutput, context: AgentContext
    ) -> EndedFrame | None:
        buffer = FrameBuffer()
        try:
            await self._stream.send_all(call)
            while data := await self._stream.receive_some(_CHUNK):
                for frame in buffer.feed(data):
                    ended = self._handle(decode_worker_frame(frame), live, context)
                    if ended:
                        self.is_reusable = (
                            ended.is_reusable and buffer.is_empty and self._calls < _MAX_CALLS
                        )
                        return ended
        except trio.BrokenResourceError:
            return None  # it has ended
        except (ToolError, serde.InvalidJSONError):
            self.is_garbled = True
        return None

    def _handle(
        self, frame: WorkerFrame, live: LiveOutput, context: AgentContext
    ) -> EndedFrame | None:
        match frame:
            case BegunFrame():
                self.has_begun = True
            case ProgressFrame(text):
                live.show(text)
            case AbandonedFrame(what):
                context.report_abandoned(what)
            case EndedFrame():
                return frame
        return None


def _command(fd: int) -> list[str]:
    path = [*sys.path, _ROOT]
    program = _PROGRAM.format(path=path, argv=sys.argv, fd=fd)
    return our_python("-P", "-c", program)


_SIZE = 4
_log = logging.getLogger("greenroom.tools")


class WorkerPoolStatistics(msgspec.Struct, frozen=True):
    """A pool at one moment.

    Attributes:
        size: how many calls run at a time.
        busy: the calls that run now.
        idle: the workers that wait for the next calls.
        waiting: the calls that wait for a place.
        started: the workers started so far.
        ended: the workers that were not kept: their call was cut off, crashed or left something, or
            was their thousandth.
    """

    size: int
    busy: int
    idle: int
    waiting: int
    started: int
    ended: int


class WorkerPool:
    """Runs the calls of tools with `isolation="process"`, at most `size` at a time, in turn.

    The first such call of a runtime puts a pool into `runtime.resources`, which ends it with the
    runtime. For another size put one there before:
    `runtime.resources.insert(WorkerPool(size=8))`. Anywhere else its owner closes it.

    Calls wait for a place in turn. A worker is started only when a call needs one, and kept for the
    next call if this one left nothing behind: no process, no thread. Otherwise it is killed, with
    all that it started, before the call returns. A cancel ends it as well: SIGTERM, after which the
    function's `finally` blocks run, 0.2 seconds, SIGKILL. A call in a sandbox has a worker of its
    own.

    Example:
        >>> WorkerPool(size=2).statistics().idle
        0
    """

    def __init__(self, size: int = _SIZE) -> None:
        """Start with no worker.

        Raises:
            ToolError: the size is less than 1.
        """
        if size < 1:
            raise ToolError(f"a pool of {size} workers runs nothing", hint="give 1 or more")
        self._places = trio.CapacityLimiter(size)
        self._idle: list[WorkerProcess] = []
        self._calls: dict[trio.CancelScope, trio.Event] = {}
        self._started = 0
        self._ended = 0
        self._closed = False

    def statistics(self) -> WorkerPoolStatistics:
        """Return how many workers and calls there are."""
        places = self._places.statistics()
        return WorkerPoolStatistics(
            size=int(self._places.total_tokens),
            busy=places.borrowed_tokens,
            idle=len(self._idle),
            waiting=places.tasks_waiting,
            started=self._started,
            ended=self._ended,
        )

    async def _run(
        self, call: CallFrame, context: AgentContext, confinement: Confinement
    ) -> ToolResult:
        """Run one call once there is a place; nothing of it still runs on return."""
        data = pack(call)
        async with self._places:
            if not self._closed:
                with trio.CancelScope() as scope:
                    self._calls[scope] = over = trio.Event()
                    try:
                        return _result(
                            call,
                            await self._run_in_worker(call, data, context, confinement),
                            context,
                        )
                    finally:
                        del self._calls[scope]
                        over.set()
            raise ToolError(f"{call.tool} was stopped: the pool of its process is closed")

    async def aclose(self) -> None:
        """End all workers; calls that run or wait fail. A cancel does not stop it."""
        self._closed = True
        running = dict(self._calls)
        for scope in running:
            scope.cancel()
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                while self._idle:
                    nursery.start_soon(self._idle.pop().aclose, no_cleanup)
            for over in running.values():
                await over.wait()

    async def _run_in_worker(
        self, call: CallFrame, data: bytes, context: AgentContext, confinement: Confinement
    ) -> EndedFrame:
        """Give the call to a worker; to another one if that had died before the call began."""
        while True:
            worker = await self._take_worker(confinement)
            ended = report = None
            try:
                ended = await worker.run(data, context)
            finally:
                if worker.is_reusable and not confinement.prefix and not self._closed:
                    self._idle.append(worker)
                else:
                    report = await self._end(worker, call, context, confinement)
            if ended is not None:
                return ended
            assert report is not None
            if worker.has_begun or worker.is_new:
                raise ToolError(_describe_loss(call, worker, report))

    async def _take_worker(self, confinement: Confinement) -> WorkerProcess:
        """Take the worker that was used last, or start one; a sandbox gets one of its own."""
        if self._idle and not confinement.prefix:
            return self._idle.pop()
        worker = await WorkerProcess.start(confinement)
        self._started += 1
        return worker

    async def _end(
        self,
        worker: WorkerProcess,
        call: CallFrame,
        context: AgentContext,
        confinement: Confinement,
    ) -> ProcessReport:
        self._ended += 1
        report = await worker.aclose(context.cleanup)
        report = replace(report, code=confinement.exit_code(report.code))
        if report.has_survivors:
            context.report_abandoned(f"process of {call.tool}")
        return report


def list_files(function: FunctionReference) -> tuple[str, ...]:
    """List the files that a process needs to run a function."""
    return (*list_python_files(), *filter(None, (function.script, function.file)))


async def run_isolated(
    function: FunctionReference,
    tool: str,
    input: dict[str, object],  # noqa: A002
    context: AgentContext,
    limits: ProcessLimits,
    sandbox: Sandbox | None,
) -> ToolResult:
    """Run a function in a process, by the pool of the context or of its runtime.

    Without either, the call gets a worker of its own, which ends with it.

    Raises:
        AgentCrashError: the function raised one.
        ToolError: the function raised, was stopped at a limit, or took its process down; or the
            pool is closed. In a sandbox these are results.
        SandboxUnavailableError: the sandbox requires what nothing here can enforce.
    """
    call = CallFrame(
        tool, function, input, ContextFields.of(context), limits, tuple(sys.path), _folder()
    )
    async with confine(
        sandbox,
        context.workspace,
        readable=list_files(function),
        ignores_termination=True,
        cleanup=context.cleanup,
    ) as confinement:
        if sandbox is None:
            return await _run_in_pool(call, context, confinement)
        try:
            result = await _run_in_pool(call, context, confinement)
        except ToolError as error:
            result = ToolResult.error(str(error), raised=ToolError.__name__)
        return add_sandbox_report(result, confinement.report, sandbox)


async def _run_in_pool(
    call: CallFrame, context: AgentContext, confinement: Confinement
) -> ToolResult:
    pool = context.resources.get(WorkerPool)
    if pool is not None:
        return await pool._run(call, context, confinement)
    shared = context.resources.shared
    pool = WorkerPool(1 if shared is context.resources else _SIZE)
    if shared is not context.resources:
        shared.insert(pool)
        return await pool._run(call, context, confinement)
    try:
        return await pool._run(call, context, confinement)
    finally:
        await pool.aclose()


def _folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def _result(call: CallFrame, ended: EndedFrame, context: AgentContext) -> ToolResult:
    """Take over the function's changes of metadata, and return its result or raise its error."""
    for key, value in ended.metadata.items():
        context.set_metadata(key, value)
    for key in ended.removed_keys:
        context.metadata.pop(key, None)
    if ended.traceback:
        _log.error("tool %s raised in its process:\n%s", call.tool, ended.traceback)
    if ended.result is None:
        raise (AgentCrashError if ended.is_crash else ToolError)(ended.error)
    return ended.result


def _describe_loss(call: CallFrame, worker: WorkerProcess, report: ProcessReport) -> str:
    """Say why a call has no result."""
    if worker.is_garbled:
        return f"{call.tool} was stopped: it wrote into the connection of its process"
    fate = _describe_ending(call, report)
    if not worker.has_begun:
        fate = f"{call.tool} was not run: its process could not be started"
    _log.error("%s; its last output:\n%s%r", fate, worker.tail, report)
    return fate


def _describe_ending(call: CallFrame, report: ProcessReport) -> str:
    code = report.code
    if code is None:
        return f"{call.tool} was stopped: its process was ended from outside"
    if code >= 0:
        return f"{call.tool} ended its process with exit code {code} before it returned"
    if code == -signal.SIGXCPU and call.limits.cpu_seconds:
        return f"{call.tool} was stopped: it used more than {call.limits.cpu_seconds} s of CPU time"
    crash = f"{call.tool} crashed: its process was killed by signal {-code} ({signal_name(-code)})"
    if code == -signal.SIGKILL:
        return f"{crash}, which is what the system does when memory runs out"
    if call.limits.memory_megabytes:
        return f"{crash}; its limit is {call.limits.memory_megabytes} MB of memory"
    return crash
