"""Bash: run a shell command, and leave nothing running."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from greenroom.core import (
    AgentContext,
    Effect,
    ToolInfo,
    ToolResult,
    usual_effects,
)
from greenroom.tools.builtin.arguments import integer
from greenroom.tools.builtin.command import check_argument, run_command
from greenroom.tools.builtin.paths import is_inside
from greenroom.tools.file_threads import in_thread
from greenroom.tools.sandbox.policy import Sandbox
from greenroom.tools.sandbox.reporting import described

_DEFAULT_MILLISECONDS = 120_000
_MAX_MILLISECONDS = 600_000
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
        command = check_argument(str(input["command"]), "command")
        milliseconds = min(integer(input, "timeout", _DEFAULT_MILLISECONDS), _MAX_MILLISECONDS)
        notes: list[str] = []
        ended = await run_command(
            ["bash", "--noprofile", "--norc", "-c", command],
            context,
            cwd=await in_thread(lambda: _starting_folder(context, notes)),
            seconds=milliseconds / 1000,
            environment={**self._environment, "BASH_ENV": _STARTUP_FILE},
            sandbox=self.sandbox,
            shown=self.sandbox_files,
        )
        await in_thread(lambda: _move(ended.exit.note, context, notes))
        return ended.result(notes, cwd=str(context.workspace.cwd))


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
