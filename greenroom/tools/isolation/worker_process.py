"""A worker process as we hold it: started once, it runs one call after the other."""

import codecs
import fcntl
import os
import socket
import sys
from pathlib import Path

import trio

from greenroom.core import AgentContext, ToolError, serde
from greenroom.tools.isolation.frame import (
    AbandonedFrame,
    Answer,
    BegunFrame,
    EndedFrame,
    FrameBuffer,
    ProgressFrame,
    answer_in,
)
from greenroom.tools.isolation.function_reference import is_loading_script
from greenroom.tools.process.contained_process import Cleanup, ContainedProcess, Report
from greenroom.tools.process.launcher import NOTE_FD
from greenroom.tools.process.live_output import LiveOutput
from greenroom.tools.process.our_python import our_python
from greenroom.tools.sandbox.confinement import Confinement, Unconfined

_NOTICE = 0.2
"""Seconds between SIGTERM, on which the function's `finally` blocks run, and SIGKILL."""

_MAX_CALLS = 1_000
"""Calls after which a worker is replaced, so that what a library leaks does not add up."""

_TAIL_CHARACTERS = 2_000
_CHUNK = 65_536
_ROOT = str(Path(__file__).parents[3])
_PROGRAM = (
    "import sys; sys.path[:] = {path!r}; sys.argv[:] = {argv!r}; "
    "from greenroom.tools.isolation.worker import main; main({fd})"
)


class WorkerProcess:
    """One worker, from `start` to `aclose`; it dies with us."""

    def __init__(self, process: ContainedProcess, stream: trio.SocketStream) -> None:
        """Take over a worker that was just started."""
        self._process = process
        self._stream = stream
        self._calls = 0
        self.has_begun = False
        """Whether the call it was given last has begun."""
        self.is_reusable = False
        """Whether it can take another call: the last one ended well and left nothing behind."""
        self.is_garbled = False
        """Whether something else than an answer has come from it."""
        self.tail = ""
        """The last that it printed."""

    @classmethod
    async def start(cls, held: Confinement | Unconfined) -> "WorkerProcess":
        """Start a worker; it need not be up yet to be given a call.

        Args:
            held: what it is held to.

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
                [*held.prefix, *_command(fd)],
                cwd=None,
                environment={**os.environ, **held.environment},
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
        """Whether it was given one call at the most."""
        return self._calls < 2

    async def run(self, call: bytes, context: AgentContext) -> EndedFrame | None:
        """Run one call; None where the worker ended first, or sent what is no answer.

        What the function prints and reports goes to the context as it comes. A cancel leaves the
        function running: then, and after None, close the worker.
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
            # The answer is there: a cancel from outside comes too late to take it back.
            nursery.cancel_scope.shield = True
            nursery.cancel_scope.cancel()
        show(self._process.read_output(), final=True)
        return ended

    async def aclose(self, cleanup: Cleanup) -> Report:
        """End the worker and all that it started: SIGTERM, a moment, SIGKILL."""
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
                    ended = self._heard(answer_in(frame), live, context)
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

    def _heard(self, answer: Answer, live: LiveOutput, context: AgentContext) -> EndedFrame | None:
        match answer:
            case BegunFrame():
                self.has_begun = True
            case ProgressFrame(text):
                live.show(text)
            case AbandonedFrame(what):
                context.abandoned(what)
            case EndedFrame():
                return answer
        return None


def _command(fd: int) -> list[str]:
    path = [*sys.path, _ROOT]
    program = _PROGRAM.format(path=path, argv=sys.argv, fd=fd)
    return our_python("-P", "-c", program)
