"""Commands that run to their end, and leave nothing behind."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import trio

from greenroom.core import ToolError
from greenroom.tools.process.contained_process import Cleanup, ContainedProcess, no_cleanup


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
    return Exit(report.code, limit.cancelled_caught, report.note, report.left)
