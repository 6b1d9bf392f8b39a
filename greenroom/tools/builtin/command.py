"""Commands of tools: held by a sandbox, shown as they run, and told as a result."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from greenroom.core import (
    AgentContext,
    SandboxReport,
    TextBlock,
    ToolError,
    ToolResult,
    ToolStatus,
    valid_unicode,
)
from greenroom.tools.builtin.environment import clean_environment
from greenroom.tools.builtin.output_buffer import OutputBuffer
from greenroom.tools.process.contained_process import signal_name
from greenroom.tools.process.live_output import LiveOutput
from greenroom.tools.process.process import Exit, run_contained
from greenroom.tools.sandbox.examination import confined
from greenroom.tools.sandbox.policy import Sandbox
from greenroom.tools.sandbox.reporting import with_report

_KEPT_CHARACTERS = 1_000_000
# Linux takes 131,072 bytes for one argument, its final NUL included.
_MAX_ARGUMENT_BYTES = 131_071
_ALL_KILLED = "; all it started was killed"


@dataclass(frozen=True)
class CommandEnd:
    """How a command of a tool ended, and what it said.

    Attributes:
        exit: how it ended.
        output: what it printed.
        seconds: its time-out.
        sandbox: what it was to be held to, or None.
        report: what of that was held.
    """

    exit: Exit
    output: OutputBuffer
    seconds: float
    sandbox: Sandbox | None
    report: SandboxReport | None

    def result(self, notes: Sequence[str] = (), **metadata: object) -> ToolResult:
        """Tell it to the model; an exit code other than 0 is an error."""
        status = ToolStatus.SUCCESS if self.exit.code == 0 else ToolStatus.ERROR
        if self.exit.timed_out:
            status = ToolStatus.TIMEOUT
        text = self.output.text().rstrip("\n")
        ending = self._ending()
        left = "it may have left processes running" if self.exit.left else ""
        lines = [text or "(no output)", *(f"[{note}]" for note in (ending, left, *notes) if note)]
        facts: dict[str, object] = {
            "exit_code": self.exit.code,
            "timed_out": self.exit.timed_out,
            **metadata,
            "characters": self.output.characters,
        }
        blocks = (TextBlock(valid_unicode("\n".join(lines))),)
        return with_report(ToolResult(blocks, status, facts, ending), self.report, self.sandbox)

    def _ending(self) -> str:
        killed = "" if self.exit.left else _ALL_KILLED
        code = self.exit.code
        if self.exit.timed_out:
            return f"timed out after {self.seconds:g} s{killed}"
        if code is None:
            return f"stopped: it interfered with the process that waits for it{killed}"
        if code < 0:
            return f"killed by signal {-code} ({signal_name(-code)})"
        return f"exit code {code}" if code else ""


async def run_command(
    command: Sequence[str],
    context: AgentContext,
    *,
    cwd: Path,
    seconds: float,
    environment: Mapping[str, str],
    sandbox: Sandbox | None,
    shown: Sequence[str] = (),
) -> CommandEnd:
    """Run a command for a call; its output is the call's progress, and nothing it started outlives it.

    Args:
        command: the program and its arguments.
        context: the context of the call.
        cwd: the folder it starts in.
        seconds: its time-out.
        environment: variables on top of the clean environment.
        sandbox: what it is held to.
        shown: files and folders that it must be able to read, whatever is hidden.

    Raises:
        ToolError: it can't be started.
        SandboxUnavailableError: the sandbox requires what nothing holds here.
    """
    output = OutputBuffer(_KEPT_CHARACTERS)
    live = LiveOutput(context.progress)
    async with await confined(
        sandbox, context.workspace, shown=shown, cleanup=context.cleanup
    ) as held:
        ended = await run_contained(
            [*held.prefix, *command],
            cwd=cwd,
            environment={**clean_environment(os.environ), **held.environment, **environment},
            on_output=lambda data: live.show(output.feed(data)),
            timeout=seconds,
            cleanup=context.cleanup,
        )
    live.show(output.feed(b"", final=True))
    return CommandEnd(ended, output, seconds, sandbox, held.report)


def check_argument(text: str, what: str) -> str:
    """Return a text if a program can be given it as an argument.

    Raises:
        ToolError: it is empty, too long, or holds what no argument can hold.
    """
    if not text.strip():
        raise ToolError(f"the {what} is empty")
    if "\0" in text:
        raise ToolError(f"the {what} holds a NUL character, which no program can be given")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise ToolError(f"the {what} is no valid Unicode: {error.reason}") from error
    if size > _MAX_ARGUMENT_BYTES:
        raise ToolError(
            f"the {what} has {size} bytes, {_MAX_ARGUMENT_BYTES} is the limit",
            hint="write it to a file and run that",
        )
    return text
