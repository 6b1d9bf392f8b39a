"""Bash: run a shell command, and leave nothing running."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from greenroom.core import (
    AgentContext,
    Effect,
    TextBlock,
    ToolError,
    ToolInfo,
    ToolResult,
    ToolStatus,
    usual_effects,
    valid_unicode,
)
from greenroom.tools.builtin.arguments import integer
from greenroom.tools.builtin.environment import clean_environment
from greenroom.tools.builtin.output_buffer import OutputBuffer
from greenroom.tools.builtin.paths import is_inside
from greenroom.tools.file_threads import in_thread
from greenroom.tools.process.contained_process import signal_name
from greenroom.tools.process.live_output import LiveOutput
from greenroom.tools.process.process import Exit, run_contained
from greenroom.tools.sandbox.examination import confined
from greenroom.tools.sandbox.policy import Sandbox
from greenroom.tools.sandbox.reporting import described, with_report

__all__ = ["Bash"]

_DEFAULT_MILLISECONDS = 120_000
_MAX_MILLISECONDS = 600_000
_KEPT_CHARACTERS = 1_000_000
# Linux takes 131,072 bytes for one argument, its final NUL included.
_MAX_COMMAND_BYTES = 131_071
_ALL_KILLED = "; all it started was killed"
_STARTUP_FILE = str(Path(__file__).with_name("bash_env.sh"))


class Bash:
    """Runs a command in bash; its output streams, and nothing it started is alive at its end.

    The working directory is kept from one command to the next and stays inside the workspace. The
    environment is that of `clean_environment`, with the variables given here. Standard input is
    empty. See `greenroom.tools.process.process.run_contained` for what ends with the command.

    With a `Sandbox` the operating system holds the command to what that allows, as far as this
    machine can; every result has the report in its metadata, and says in words what is not held.
    """

    name = "Bash"
    description = (
        "Run a command in bash and return its output (stdout and stderr in order) and exit code.\n"
        "- The working directory persists between calls and stays inside the workspace; variables, "
        "functions and options do not persist.\n"
        "- Standard input is empty, so a program that asks questions gets no answer: use its "
        "non-interactive options.\n"
        "- Everything that the command starts is killed when it ends, also background jobs, nohup "
        "and setsid: a server must be started, used and stopped within one command.\n"
        "- Prefer Read, Edit, Write, Glob and Grep for work on files."
    )
    category = "execute"
    requires_permission = True
    concurrent = False
    sandbox_files = (_STARTUP_FILE,)
    # The registry's own limit; the call's `timeout` always comes first.
    timeout = _MAX_MILLISECONDS / 1000 + 30
    parameters: dict[str, object] = {
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "The bash command to run."},
            "timeout": {
                "type": "integer",
                "minimum": 1,
                "maximum": _MAX_MILLISECONDS,
                "description": f"Milliseconds after which it is killed. Default {_DEFAULT_MILLISECONDS}.",
            },
            "description": {
                "type": "string",
                "description": "What the command does, in five to ten words.",
            },
        },
        "required": ["command"],
        "additionalProperties": False,
    }

    def __init__(
        self,
        *,
        environment: Mapping[str, str] | None = None,
        sandbox: Sandbox | None = None,
    ) -> None:
        """Give commands these variables on top of the clean environment, and hold them to a policy."""
        self._environment = dict(environment or {})
        self.sandbox = sandbox
        if sandbox is not None:
            self.description += f"\n- Commands run in a sandbox: {described(sandbox)}."

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Show the command as it will run."""
        claim = str(input.get("description") or "")
        return ToolInfo("Run a command", str(input["command"]), claim=claim)

    def effects(self, input: dict[str, object], context: AgentContext) -> Sequence[Effect]:  # noqa: A002
        """State the command."""
        return usual_effects("Bash", input, context)

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Run the command; an exit code other than 0 is an error to the model.

        Raises:
            ToolError: the command can't be given to bash, or bash can't be started.
            SandboxUnavailableError: the sandbox requires what nothing holds here.
        """
        command = _checked(str(input["command"]))
        milliseconds = min(integer(input, "timeout", _DEFAULT_MILLISECONDS), _MAX_MILLISECONDS)
        notes: list[str] = []
        cwd = await in_thread(lambda: _starting_folder(context, notes))
        stream = _Stream(context)
        async with await confined(
            self.sandbox, context.workspace, shown=self.sandbox_files, cleanup=context.cleanup
        ) as held:
            ended = await run_contained(
                [*held.prefix, "bash", "--noprofile", "--norc", "-c", command],
                cwd=cwd,
                environment={
                    **clean_environment(os.environ),
                    **held.environment,
                    **self._environment,
                    "BASH_ENV": _STARTUP_FILE,
                },
                on_output=stream.add,
                timeout=milliseconds / 1000,
                cleanup=context.cleanup,
            )
        stream.end()
        await in_thread(lambda: _move(ended.note, context, notes))
        result = _result(ended, stream.buffer, notes, context, milliseconds)
        return with_report(result, held.report, self.sandbox)


class _Stream:
    """Passes output on as it comes, up to a limit, and records it."""

    def __init__(self, context: AgentContext) -> None:
        self.buffer = OutputBuffer(_KEPT_CHARACTERS)
        self._live = LiveOutput(context.progress)

    def add(self, data: bytes, *, final: bool = False) -> None:
        self._live.show(self.buffer.feed(data, final=final))

    def end(self) -> None:
        self.add(b"", final=True)


def _checked(command: str) -> str:
    if not command.strip():
        raise ToolError("the command is empty")
    if "\0" in command:
        raise ToolError("the command holds a NUL character, which bash can't take")
    try:
        size = len(command.encode())
    except UnicodeEncodeError as error:
        raise ToolError(f"the command is no valid Unicode: {error.reason}") from error
    if size > _MAX_COMMAND_BYTES:
        raise ToolError(
            f"the command has {size} bytes, {_MAX_COMMAND_BYTES} is the limit",
            hint="write it to a file and run that",
        )
    return command


def _starting_folder(context: AgentContext, notes: list[str]) -> Path:
    """Return the working directory; the workspace's root where that is gone or moved outside."""
    workspace = context.workspace
    cwd = Path(os.path.realpath(workspace.cwd))
    if os.path.isdir(cwd) and is_inside(cwd, context):
        return cwd
    notes.append(f"{workspace.cwd} is gone; the command ran in {workspace.root}")
    workspace.cwd = workspace.root
    return workspace.root


def _move(note: bytes, context: AgentContext, notes: list[str]) -> None:
    """Take over the folder in which the shell ended, if it is in the workspace."""
    told = os.fsdecode(note.removesuffix(b"\n"))
    if not os.path.isabs(told) or "\0" in told:
        return
    folder = Path(os.path.realpath(told))
    root = context.workspace.root
    if os.path.isdir(folder) and is_inside(folder, context):
        # Named from the root as it was given, since that is where rules are anchored.
        real_root = os.path.realpath(root)
        inside = folder.is_relative_to(real_root)
        context.workspace.cwd = root / folder.relative_to(real_root) if inside else folder
        return
    notes.append(f"working directory reset to {root}: {told} is outside the workspace, or gone")
    context.workspace.cwd = root


def _result(
    ended: Exit,
    output: OutputBuffer,
    notes: list[str],
    context: AgentContext,
    milliseconds: int,
) -> ToolResult:
    status = ToolStatus.SUCCESS if ended.code == 0 else ToolStatus.ERROR
    if ended.timed_out:
        status = ToolStatus.TIMEOUT
    ending = _ending(ended, milliseconds)
    text = output.text().rstrip("\n")
    left = "it may have left processes running" if ended.left else ""
    lines = [text or "(no output)", *(f"[{note}]" for note in (ending, left, *notes) if note)]
    metadata: dict[str, object] = {
        "exit_code": ended.code,
        "timed_out": ended.timed_out,
        "cwd": str(context.workspace.cwd),
        "characters": output.characters,
    }
    return ToolResult((TextBlock(valid_unicode("\n".join(lines))),), status, metadata, ending)


def _ending(ended: Exit, milliseconds: int) -> str:
    if ended.timed_out:
        return f"timed out after {milliseconds / 1000:g} s{'' if ended.left else _ALL_KILLED}"
    if ended.code is None:
        return f"stopped: it interfered with the process that waits for it{'' if ended.left else _ALL_KILLED}"
    if ended.code < 0:
        return f"killed by signal {-ended.code} ({signal_name(-ended.code)})"
    return f"exit code {ended.code}" if ended.code else ""
