"""A pool of worker processes, for tools that can be killed."""

import logging
import os
import signal
import sys
from dataclasses import dataclass, replace

import trio

from greenroom.core import AgentContext, ToolError, ToolResult
from greenroom.tools.isolation.frame import CallFrame, ContextFields, EndedFrame, pack
from greenroom.tools.isolation.function_reference import FunctionReference
from greenroom.tools.isolation.process_limits import ProcessLimits
from greenroom.tools.isolation.worker_process import WorkerProcess
from greenroom.tools.process.contained_process import Report, no_cleanup, signal_name
from greenroom.tools.sandbox.confinement import Confinement, Unconfined
from greenroom.tools.sandbox.examination import confined, our_own_files
from greenroom.tools.sandbox.policy import Sandbox
from greenroom.tools.sandbox.reporting import with_report

_SIZE = 4
_log = logging.getLogger("greenroom.tools")


@dataclass(frozen=True)
class WorkerPoolStatistics:
    """A pool at one moment.

    Attributes:
        size: how many calls run at a time.
        busy: the calls that run now.
        idle: the workers that are kept warm for the next calls.
        waiting: the calls that wait for one to end.
        started: the workers that were started so far.
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
    runtime. For another size put one there yourself, before:
    `runtime.resources.insert(WorkerPool(size=8))`. Anywhere else its owner closes it.

    A call waits until there is a place for it; those that wait are served in turn. A worker is
    started when a call needs one, and kept for the next call if this one has ended well and left
    nothing behind: no process, no thread. Otherwise it is killed, with all that it started, before
    the call returns. A cancel ends it as well: SIGTERM, on which the function's `finally` blocks run,
    0.2 seconds, SIGKILL. None is started ahead of need. A call in a sandbox has a worker of its own.

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
        self, call: CallFrame, context: AgentContext, held: Confinement | Unconfined
    ) -> ToolResult:
        """Run one call once there is a place, and return when nothing of it runs any more."""
        data = pack(call)
        async with self._places:
            if not self._closed:
                with trio.CancelScope() as scope:
                    self._calls[scope] = over = trio.Event()
                    try:
                        return _result(call, await self._answer(call, data, context, held), context)
                    finally:
                        del self._calls[scope]
                        over.set()
            raise ToolError(f"{call.tool} was stopped: the pool of its process is closed")

    async def aclose(self) -> None:
        """End all workers; calls that run or wait get an error result. A cancel does not stop it."""
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

    async def _answer(
        self, call: CallFrame, data: bytes, context: AgentContext, held: Confinement | Unconfined
    ) -> EndedFrame:
        """Give the call to one worker; to the next one where that had died before it began."""
        while True:
            worker = await self._worker(held)
            ended = report = None
            try:
                ended = await worker.run(data, context)
            finally:
                if worker.is_reusable and not held.prefix and not self._closed:
                    self._idle.append(worker)
                else:
                    report = await self._end(worker, call, context, held)
            if ended is not None:
                return ended
            assert report is not None
            if worker.has_begun or worker.is_new:
                raise ToolError(_fate(call, worker, report))

    async def _worker(self, held: Confinement | Unconfined) -> WorkerProcess:
        """Take the worker that was used last, or start one; what is held gets one of its own."""
        if self._idle and not held.prefix:
            return self._idle.pop()
        worker = await WorkerProcess.start(held)
        self._started += 1
        return worker

    async def _end(
        self,
        worker: WorkerProcess,
        call: CallFrame,
        context: AgentContext,
        held: Confinement | Unconfined,
    ) -> Report:
        self._ended += 1
        report = await worker.aclose(context.cleanup)
        report = replace(report, code=held.exit_code(report.code))
        if report.left:
            context.abandoned(f"process of {call.tool}")
        return report


def files_of(function: FunctionReference) -> tuple[str, ...]:
    """Name the files that a process needs to run a function."""
    return (*our_own_files(), *filter(None, (function.script, function.file)))


async def run_isolated(
    function: FunctionReference,
    tool: str,
    input: dict[str, object],  # noqa: A002
    context: AgentContext,
    limits: ProcessLimits,
    sandbox: Sandbox | None,
) -> ToolResult:
    """Run a function in a process: in the pool of the context, else in that of its runtime.

    Without a runtime and a pool the call gets a worker of its own, which is gone at its end.

    Raises:
        ToolError: the function raised, was stopped at a limit, or took its process down; or the
            pool is closed. In a sandbox that is a result.
        SandboxUnavailableError: the sandbox requires what nothing holds here.
    """
    call = CallFrame(
        tool, function, input, ContextFields.of(context), limits, tuple(sys.path), _folder()
    )
    async with await confined(
        sandbox,
        context.workspace,
        shown=files_of(function),
        ignores_termination=True,
        cleanup=context.cleanup,
    ) as held:
        if sandbox is None:
            return await _run_in_pool(call, context, held)
        try:
            result = await _run_in_pool(call, context, held)
        except ToolError as error:
            result = ToolResult.error(str(error))
        return with_report(result, held.report, sandbox)


async def _run_in_pool(
    call: CallFrame, context: AgentContext, held: Confinement | Unconfined
) -> ToolResult:
    pool = context.resources.get(WorkerPool)
    if pool is not None:
        return await pool._run(call, context, held)
    shared = context.resources.shared
    pool = WorkerPool(1 if shared is context.resources else _SIZE)
    if shared is not context.resources:
        shared.insert(pool)
        return await pool._run(call, context, held)
    try:
        return await pool._run(call, context, held)
    finally:
        await pool.aclose()


def _folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def _result(call: CallFrame, ended: EndedFrame, context: AgentContext) -> ToolResult:
    """Take over what the function has changed, and return its result or raise its error."""
    for key, value in ended.metadata.items():
        context.set_metadata(key, value)
    for key in ended.removed:
        context.metadata.pop(key, None)
    if ended.traceback:
        _log.error("tool %s raised in its process:\n%s", call.tool, ended.traceback)
    if ended.result is None:
        raise ToolError(ended.error)
    return ended.result


def _fate(call: CallFrame, worker: WorkerProcess, report: Report) -> str:
    """Say why there is no answer."""
    if worker.is_garbled:
        return f"{call.tool} was stopped: it wrote into the connection of its process"
    fate = _ending(call, report)
    if not worker.has_begun:
        fate = f"{call.tool} was not run: its process could not be started"
    _log.error("%s; its last output:\n%s%r", fate, worker.tail, report)
    return fate


def _ending(call: CallFrame, report: Report) -> str:
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
