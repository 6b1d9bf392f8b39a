"""`Bash` and `run_python`: tools that run a command, and leave nothing of it running."""

import codecs
import os
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path

import msgspec
from msgspec.structs import replace

from greenroom.core import (
    AgentContext,
    Opaque,
    ShellCommand,
    TextBlock,
    ToolError,
    ToolInfo,
    ToolResult,
    ToolStatus,
)
from greenroom.core._internal import Effect, SandboxReport, usual_effects, valid_unicode
from greenroom.sandbox._internal import (
    NOTE_FD,
    Confinement,
    Exit,
    ProcessLimits,
    Sandbox,
    clean_environment,
    describe_sandbox,
    our_python,
    run_contained,
    signal_name,
)
from greenroom.schemas._internal import read_integer
from greenroom.tools.builtin.background import (
    LEFT_RUNNING,
    BashKill,
    BashOutput,
    StayingCommand,
    start_staying,
)
from greenroom.tools.builtin.file_access import in_thread, is_inside
from greenroom.tools.builtin.terminal_text import TerminalText
from greenroom.tools.execution import LiveOutput, add_sandbox_report
from greenroom.tools.interface import DEFAULT_TIMEOUT, Tool


class OutputBuffer:
    """Decodes arriving bytes, and keeps the first and the last part within a limit.

    A character that is cut between two chunks waits for its rest. Bytes that are not UTF-8, and
    NUL, become U+FFFD. What is meant for a terminal is left out (`TerminalText`).

    Example:
        >>> buffer = OutputBuffer(limit=8)
        >>> for chunk in ("🌱".encode()[:2], "🌱".encode()[2:], b"123456789"):
        ...     _ = buffer.feed(chunk)
        >>> print(buffer.text())
        🌱123
        … 2 characters left out …
        6789
    """

    def __init__(self, limit: int) -> None:
        """Keep at most `limit` characters, half of them from the end."""
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._screen = TerminalText()
        self._ends = _Ends(limit)

    @property
    def characters(self) -> int:
        """How many characters there are in all."""
        return self._ends.characters + len(self._screen.pending)

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """Add output, and return what a person has not seen of it yet."""
        self._ends.add(self._screen.feed(self._decode(data, final)))
        return self._screen.take_live()

    def text(self) -> str:
        """Return the output; where some is missing, a line between head and tail says how much."""
        return self._ends.text(self._screen.pending)


class _Ends:
    """The first and the last part of a text that may be long."""

    def __init__(self, limit: int) -> None:
        self._head_room = limit - limit // 2
        self._tail_limit = limit // 2
        self._head: list[str] = []
        self._tail: deque[str] = deque()
        self._tail_size = 0
        self.characters = 0

    def add(self, text: str) -> None:
        self.characters += len(text)
        head, tail = text[: self._head_room], text[self._head_room :]
        if head:
            self._head.append(head)
            self._head_room -= len(head)
        if tail:
            self._tail.append(tail)
            self._tail_size += len(tail)
            while self._tail and self._tail_size - len(self._tail[0]) >= self._tail_limit:
                self._tail_size -= len(self._tail.popleft())

    def text(self, more: str) -> str:
        """Return the text with more after it; a line says how much is missing."""
        head = "".join(self._head) + more[: self._head_room]
        tail = "".join(self._tail) + more[self._head_room :]
        missing = self.characters + len(more) - len(head) - self._tail_limit
        if missing <= 0:
            return head + tail
        return f"{head}\n… {missing} characters left out …\n{tail[len(tail) - self._tail_limit :]}"


_MAX_CHARACTERS = 1_000_000
# Linux takes 131,072 bytes for one argument, its final NUL included.
_MAX_ARGUMENT_BYTES = 131_071


class CommandEnd(msgspec.Struct, frozen=True):
    """The end of a command of a tool, and its output.

    Attributes:
        exit: how it ended.
        output: what it printed.
        seconds: its time-out.
        sandbox: its sandbox, or None.
        report: what that sandbox could enforce.
    """

    exit: Exit
    output: OutputBuffer
    seconds: float
    sandbox: Sandbox | None
    report: SandboxReport | None

    def result(self, notes: Sequence[str] = (), **metadata: object) -> ToolResult:
        """Make the result for the model; an exit code other than 0 is an error."""
        status = ToolStatus.SUCCESS if self.exit.code == 0 else ToolStatus.ERROR
        if self.exit.timed_out:
            status = ToolStatus.TIMEOUT
        text = self.output.text().rstrip("\n")
        ending = self._describe_exit()
        left = "it may have left processes running" if self.exit.has_survivors else ""
        lines = [text or "(no output)", *(f"[{note}]" for note in (ending, left, *notes) if note)]
        facts: dict[str, object] = {
            "exit_code": self.exit.code,
            "timed_out": self.exit.timed_out,
            **metadata,
            "characters": self.output.characters,
        }
        blocks = (TextBlock(valid_unicode("\n".join(lines))),)
        return add_sandbox_report(
            ToolResult(blocks, status, facts, ending), self.report, self.sandbox
        )

    def _describe_exit(self) -> str:
        killed = "" if self.exit.has_survivors else "; all it started was killed"
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
    readable: Sequence[str] = (),
) -> CommandEnd:
    """Run a command for a call; it shows its output as progress, and leaves nothing running.

    Args:
        command: the program and its arguments.
        context: the context of the call.
        cwd: the folder it starts in.
        seconds: its time-out.
        environment: variables on top of the clean environment.
        sandbox: its sandbox, or None.
        readable: files and folders that it must be able to read, even if they are hidden.

    Raises:
        ToolError: it can't be started.
        SandboxUnavailableError: the sandbox requires what nothing holds here.
    """
    confinement: AbstractAsyncContextManager[Confinement] = nullcontext(Confinement())
    if sandbox is not None:
        from greenroom.sandbox._internal import confine  # few runs have a sandbox

        confinement = confine(
            sandbox, context.workspace, readable=readable, cleanup=context.cleanup
        )
    output = OutputBuffer(_MAX_CHARACTERS)
    live = LiveOutput(context.progress)
    async with confinement as held:
        ended = await run_contained(
            [*held.prefix, *command],
            cwd=cwd,
            environment={**clean_environment(os.environ), **held.environment, **environment},
            # Of what it can't parse, bash quotes the first line whole.
            on_output=lambda data: live.show(output.feed(data.replace(_TELL.encode(), b""))),
            timeout=seconds,
            cleanup=context.cleanup,
        )
    live.show(output.feed(b"", final=True))
    return CommandEnd(ended, output, seconds, sandbox, held.report)


def check_argument(text: str, what: str, *, room: int = 0) -> str:
    """Return a text if it can be the argument of a program, with room for more bytes.

    Raises:
        ToolError: it is empty, too long, or not a possible argument.
    """
    if not text.strip():
        raise ToolError(f"the {what} is empty")
    if "\0" in text:
        raise ToolError(f"the {what} holds a NUL character, which no argument can hold")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise ToolError(f"the {what} is not valid Unicode: {error.reason}") from error
    if size > _MAX_ARGUMENT_BYTES - room:
        raise ToolError(
            f"the {what} has {size} bytes, {_MAX_ARGUMENT_BYTES - room} is the limit",
            hint="write it to a file and run that",
        )
    return text


_DEFAULT_MILLISECONDS = 120_000
_MAX_MILLISECONDS = 600_000
# At its end the shell tells where it stood, and which of its jobs still run (see `run_contained`).
_TELL = f"trap '{{ pwd -P; printf \"\\0\"; jobs -rp; }} >&{NOTE_FD} 2>/dev/null' EXIT; "


# Privileged, bash takes no functions, options or search paths from the environment.
_BASH = ("bash", "--noprofile", "--norc", "-p", "-c")


class Bash:
    """Runs a command in bash; its output streams, and nothing that it started outlives it.

    With `run_in_background` in its input, the command stays beside the agent's turns instead, at
    most 8 at a time, and ends with the agent. `with_background` has the tools for that.

    The working directory persists from one command to the next and stays inside the workspace. The
    environment is that of `clean_environment`, with the variables given here. Standard input is
    empty. A command that rules allowed runs as it was judged (`AgentContext.command`). See
    `greenroom.sandbox.process.run_contained` for what ends with the command.

    With a `Sandbox` the operating system confines the command, as far as this machine can; every
    result has the report in its metadata, and tells the model what is not enforced.
    """

    name = "Bash"
    description = (
        "Run a command in bash and return its output (stdout and stderr in order) and exit code.\n"
        "- The working directory persists between calls and stays inside the workspace; variables, "
        "functions and options do not persist.\n"
        "- Standard input is empty and there is no terminal, so a program that asks questions gets "
        "no answer, and an editor fails: use non-interactive options, such as git commit -m.\n"
        "- Everything that the command starts is killed when it ends, also background jobs, nohup "
        "and setsid. For a server or a watcher use run_in_background: it stays until you end it "
        "with BashKill, or until you end; BashOutput reads its output, and you are told of its "
        "end.\n"
        "- A plain command needs fewer approvals: words and quotes, pipes, lists and redirections, "
        "without variables, substitutions, loops and &.\n"
        "- Prefer Read, Edit, Write, Glob and Grep for work on files."
    )
    category = "execute"
    requires_permission = True
    concurrent = False
    runs_context_command = True
    # The registry's limit; the call's own `timeout` always comes first.
    timeout = _MAX_MILLISECONDS / 1000 + 30
    parameters: dict[str, object] = {
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "The bash command to run."},
            "timeout": {
                "type": "integer",
                "minimum": 1,
                "maximum": _MAX_MILLISECONDS,
                "description": "Milliseconds after which it is killed. "
                f"Default {_DEFAULT_MILLISECONDS}.",
            },
            "run_in_background": {
                "type": "boolean",
                "description": "Return at once and leave it running, without a time-out.",
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
        """Add these variables to the environment of commands, and run them in this sandbox."""
        self._environment = dict(environment or {})
        self.sandbox = sandbox
        if sandbox is not None:
            self.description += f"\n- Commands run in a sandbox: {describe_sandbox(sandbox)}."

    def with_background(self) -> "tuple[Tool, ...]":
        """Return it with the tools that read and end what it has left running.

        Example:
            >>> print(*[tool.name for tool in Bash().with_background()])
            Bash BashOutput BashKill
        """
        return (self, BashOutput(), BashKill())

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Show the command as it will run."""
        claim = str(input.get("description") or "")
        where = " in the background" if input.get("run_in_background") else ""
        return ToolInfo(f"Run a command{where}", str(input["command"]), claim=claim)

    def effects(self, input: dict[str, object], context: AgentContext) -> Sequence[Effect]:  # noqa: A002
        """State the command."""
        effects = usual_effects("Bash", input, context)
        added = tuple(self._environment.items())
        return tuple(
            replace(each, environment=added) if isinstance(each, ShellCommand) else each
            for each in effects
        )

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Run the command; an exit code other than 0 is an error to the model.

        In the background it stays, and the result has its id.

        Raises:
            ToolError: the command can't be given to bash, bash can't be started, or too many
                commands stay already.
            SandboxUnavailableError: the sandbox requires what nothing here can enforce.
        """
        command = context.command or str(input["command"])
        check_argument(command, "command", room=len(_TELL))
        milliseconds = min(read_integer(input, "timeout", _DEFAULT_MILLISECONDS), _MAX_MILLISECONDS)
        notes: list[str] = []
        cwd = await in_thread(lambda: _find_starting_folder(context, notes))
        if input.get("run_in_background"):
            return await start_staying(
                StayingCommand(str(input["command"])),
                [*_BASH, command],
                context,
                cwd=cwd,
                environment=self._environment,
                sandbox=self.sandbox,
                notes=notes,
            )
        ended = await run_command(
            [*_BASH, f"{_TELL}{command}"],
            context,
            cwd=cwd,
            seconds=milliseconds / 1000,
            environment=self._environment,
            sandbox=self.sandbox,
        )
        folder, _, jobs = ended.exit.note.partition(b"\0")
        await in_thread(lambda: _follow_shell(folder, context, notes))
        # In a sandbox, what runs may be gone with its namespace before our launcher can see it.
        if ended.exit.left_running or (jobs.strip() and not ended.exit.timed_out):
            notes.append(f"{LEFT_RUNNING}; run_in_background lets a command stay")
        return ended.result(notes, cwd=str(context.workspace.cwd))


def _find_starting_folder(context: AgentContext, notes: list[str]) -> Path:
    """Return the working directory; if it is gone or outside, move to the workspace's root."""
    workspace = context.workspace
    cwd = Path(os.path.realpath(workspace.cwd))
    if os.path.isdir(cwd) and is_inside(cwd, context):
        return cwd
    notes.append(f"{workspace.cwd} is gone; the command ran in {workspace.root}")
    workspace.cwd = workspace.root
    return workspace.root


def _follow_shell(last_folder: bytes, context: AgentContext, notes: list[str]) -> None:
    """Move to the folder in which the shell ended, if it is in the workspace."""
    path = os.fsdecode(last_folder.removesuffix(b"\n"))
    if not os.path.isabs(path) or "\0" in path:
        return
    folder = Path(os.path.realpath(path))
    root = context.workspace.root
    if os.path.isdir(folder) and is_inside(folder, context):
        # Below the root as it was given, where rules are anchored.
        real_root = os.path.realpath(root)
        inside = folder.is_relative_to(real_root)
        context.workspace.cwd = root / folder.relative_to(real_root) if inside else folder
        return
    notes.append(f"working directory reset to {root}: {path} is outside the workspace, or gone")
    context.workspace.cwd = root


PYTHON_SANDBOX = Sandbox(
    "read-only",
    limits=ProcessLimits(memory_megabytes=1024, file_megabytes=100, processes=256),
    require=frozenset({"files", "network"}),
)
"""The default sandbox of `run_python`: programs can read, and change nothing."""

_MARGIN = 30.0  # seconds, to start and clean up


def run_python(
    *, sandbox: Sandbox | None = PYTHON_SANDBOX, timeout: float = DEFAULT_TIMEOUT
) -> Tool:
    """Make a tool that runs Python; it has the category "execute", so calls have to be allowed.

    Each call runs a program in its own process, with this Python and its packages, in the
    workspace's root and with a clean environment. At its end, its time-out or an interrupt, all
    that it has started is killed. The first and last 500,000 characters of its output are kept.

    By default it can read what we can, write only to its `$TMPDIR`, reach no network, and use a
    gigabyte of memory and 256 processes and threads. If nothing on this machine can enforce that
    for files and network, no call runs, and the error says what would help. Use
    `Sandbox(deny_read=…)` to hide files from it.

    Args:
        sandbox: confines the programs, as far as the system can and as its `require` says; with
            None they can do what you can.
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
        self.timeout = timeout + _MARGIN  # the registry's; the program's own comes first
        self._seconds = timeout
        version = ".".join(map(str, sys.version_info[:2]))
        self.description = (
            f"Run a Python {version} program, and return what it prints. Nothing is kept from one"
            f" to the next, standard input is empty, and it is stopped after {timeout:g} seconds."
        )
        if sandbox is not None:
            self.description += f" It runs in a sandbox: {describe_sandbox(sandbox)}."

    @property
    def sandbox_files(self) -> Sequence[str]:
        """The files of this Python."""
        from greenroom.sandbox._internal import list_python_files

        return list_python_files()

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Show the program."""
        return ToolInfo("Run Python", str(input["code"]))

    def effects(self, input: dict[str, object], context: AgentContext) -> tuple[Effect, ...]:  # noqa: A002
        """State that its effects can't be known."""
        return (Opaque("what a Python program does can't be known beforehand"),)

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Run the program; an exit code other than 0 is an error to the model.

        Raises:
            ToolError: it can't be started.
            SandboxUnavailableError: the sandbox requires what nothing here can enforce.
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
            readable=self.sandbox_files,
        )
        return ended.result()
