"""`run_python`: a program of the model's, in a process that is held, bounded and killed."""

import sys
from collections.abc import Mapping, Sequence

from greenroom.core import AgentContext, Effect, Opaque, ToolInfo, ToolResult
from greenroom.tools.builtin.command import check_argument, run_command
from greenroom.tools.process.our_python import our_python
from greenroom.tools.protocol import DEFAULT_TIMEOUT, Tool
from greenroom.tools.sandbox.examination import our_own_files
from greenroom.tools.sandbox.policy import Sandbox, SandboxLimits
from greenroom.tools.sandbox.reporting import described

PYTHON_SANDBOX = Sandbox(
    "read-only",
    limits=SandboxLimits(memory_megabytes=1024, file_megabytes=100),
    require=frozenset({"files", "network"}),
)
"""What `run_python` is held to unless its programmer says otherwise: it reads, and changes nothing."""

_MARGIN = 30.0  # seconds, for what stands around the program


def run_python(
    *, sandbox: Sandbox | None = PYTHON_SANDBOX, timeout: float = DEFAULT_TIMEOUT
) -> Tool:
    """Make a tool that runs Python; it has the category "execute", so calls have to be allowed.

    Each call is a program in a process of its own, by this Python with its packages, in the workspace's root
    and with a clean environment. An interrupt, the time-out and its end kill it with all that it has
    started. Of its output the first and the last 500,000 characters are kept.

    By default it can read what we can, write to its `$TMPDIR` alone, reach no network, and take a
    gigabyte of memory. Where nothing on this machine holds files and network, no call runs, and the error
    says what would help. Hide from it what the model must not read: `Sandbox(deny_read=…)`.

    Args:
        sandbox: what the system holds programs to, as far as it can and as its `require` says; None holds
            them to nothing: they can do what you can.
        timeout: seconds that a program may take.

    Example:
        >>> run_python(timeout=5).category
        'execute'
    """
    return _RunPython(sandbox, timeout)


class _RunPython:
    name = "run_python"
    category = "execute"
    parameters: Mapping[str, object] = {
        "type": "object",
        "properties": {"code": {"type": "string", "description": "The program."}},
        "required": ["code"],
        "additionalProperties": False,
    }

    def __init__(self, sandbox: Sandbox | None, timeout: float) -> None:
        self.sandbox = sandbox
        self.timeout = (
            timeout + _MARGIN
        )  # the registry's own, which comes after that of the program
        self._seconds = timeout
        version = ".".join(map(str, sys.version_info[:2]))
        self.description = (
            f"Run a Python {version} program, and return what it prints. Nothing is kept from one to the"
            f" next, standard input is empty, and it is stopped after {timeout:g} seconds."
        )
        if sandbox is not None:
            self.description += f" It runs in a sandbox: {described(sandbox)}."

    @property
    def sandbox_files(self) -> Sequence[str]:
        """What this Python is made of."""
        return our_own_files()

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Show the program."""
        return ToolInfo("Run Python", str(input["code"]))

    def effects(self, input: dict[str, object], context: AgentContext) -> tuple[Effect, ...]:  # noqa: A002
        """Say that nobody can tell."""
        return (Opaque("what a Python program does can't be told"),)

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Run the program; an exit code other than 0 is an error to the model.

        Raises:
            ToolError: it can't be started.
            SandboxUnavailableError: the sandbox requires what nothing holds here.
        """
        code = check_argument(str(input["code"]), "program")
        ended = await run_command(
            # Isolated from our variables and folders, without files of byte code, unbuffered.
            our_python("-IBu", "-X", "utf8", "-c", code),
            context,
            cwd=context.workspace.root,
            seconds=self._seconds,
            environment={},
            sandbox=self.sandbox,
            shown=self.sandbox_files,
        )
        return ended.result()
