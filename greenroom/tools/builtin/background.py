"""Commands that stay: what Bash leaves running, and the tools `BashOutput` and `BashKill`.

`Bash(run_in_background=True)` puts a `StayingCommand` among the `StayingCommands` of its agent, and
lets it run beside the agent's turns (`AgentContext.start_background`). Only one thing tells the
model of its end: the input with the text that `run` returns, or the result of `BashKill`.
"""

import codecs
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path

import trio

from greenroom.core import AgentContext, ToolError, ToolInfo, ToolResult
from greenroom.core._internal import clip, log_error, new_id, valid_unicode
from greenroom.sandbox._internal import (
    Confinement,
    Exit,
    Sandbox,
    clean_environment,
    run_contained,
    signal_name,
)
from greenroom.schemas._internal import read_integer
from greenroom.tools.builtin.terminal_text import show_output
from greenroom.tools.execution import describe_failure

_log = logging.getLogger("greenroom.tools")

MOST = 8
"""Commands of one agent that run at a time, and that are kept after their end."""

KEPT = 1 << 20
"""Bytes of the output of each command that are kept: the last ones."""

LEFT_RUNNING = "what it left running was killed"

_MOST_AT_ONCE = 25_000  # bytes of one result
_LAST_WORDS = 2_000  # bytes that are told with the end
_SHOWN = 200  # characters of a command in a line


class LastOutput:
    """Keeps the last part of the bytes that arrive; places count bytes from the beginning.

    Example:
        >>> output = LastOutput(limit=6)
        >>> output.feed("12345é".encode()[:-1])
        >>> output.read(0), output.end
        (('12345', 5), 6)
        >>> output.feed("é".encode()[-1:])
        >>> output.read(5), output.begin
        (('é', 7), 1)
    """

    def __init__(self, limit: int = KEPT) -> None:
        """Keep at most `limit` bytes."""
        self._kept = bytearray()
        self._limit = limit
        self.end = 0
        """How many bytes there were in all."""

    @property
    def begin(self) -> int:
        """The place of the first byte that is kept."""
        return self.end - len(self._kept)

    def feed(self, data: bytes) -> None:
        """Add output."""
        self._kept += data
        self.end += len(data)
        del self._kept[: -self._limit]

    def read(
        self, position: int, size: int = KEPT, *, lines: bool = False, final: bool = False
    ) -> tuple[str, int]:
        """Return the text of at most `size` kept bytes from a place on, and the place after it.

        It ends before a character that is not whole yet, and with `lines` before such a line if
        it is not longer than that; at the end of the output neither, if it is `final`.
        """
        at = max(position - self.begin, 0)
        data = bytes(self._kept[at : at + size])
        is_last = final and at + size >= len(self._kept)
        if lines and not is_last:
            data = data[: data.rfind(b"\n") + 1] or data[: size * (len(data) == size)]
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(data, is_last)
        end = self.begin + at + len(data) - len(decoder.getstate()[0])
        return text.replace("\0", "\ufffd"), end


class StayingCommand:
    """A command that stays after its call."""

    def __init__(self, command: str) -> None:
        self.id = new_id("bash")
        self.command = command
        self.output = LastOutput()
        self.position = 0
        """Up to where `BashOutput` has read."""
        self.exit: Exit | None = None
        self.failure = ""
        """Why it could not be started."""
        self.begun_at = 0.0
        """When it began, by trio's clock."""
        self.more = trio.Event()
        """Set, and replaced, when there is more output, and at the end."""
        self.begun = trio.Event()
        """Set when it runs, or can't be started."""
        self.ended = trio.Event()
        self._scope = trio.CancelScope()
        self._is_killed = False
        # Set when the call that ends it has seen its end, or was cut off before.
        self._killer: trio.Event | None = None
        self._is_told = False

    @property
    def label(self) -> str:
        """What it is, in a line."""
        shown = clip(" ".join(self.command.split()), _SHOWN)
        return f"the background command {self.id} (`{shown}`)"

    @property
    def status(self) -> str:
        """Whether it runs, or how it ended."""
        if not self.ended.is_set():
            return "running"
        code = self.exit.code if self.exit else None
        if self._is_killed or code is None:
            return "killed"
        return (
            f"killed by signal {-code} ({signal_name(-code)})" if code < 0 else f"exit code {code}"
        )

    async def run(
        self,
        arguments: Sequence[str],
        context: AgentContext,
        cwd: Path,
        environment: Mapping[str, str],
        sandbox: Sandbox | None,
    ) -> str | None:
        """Run it to its end; return what the model is told, or None if it was killed on request."""
        confinement: AbstractAsyncContextManager[Confinement] = nullcontext(Confinement())
        if sandbox is not None:
            from greenroom.sandbox._internal import confine  # few runs have a sandbox

            confinement = confine(sandbox, context.workspace)
        self.begun_at = trio.current_time()
        try:
            with self._scope:
                async with confinement as held:
                    clean = clean_environment(os.environ)
                    self.exit = await run_contained(
                        [*held.prefix, *arguments],
                        cwd=cwd,
                        environment={**clean, **held.environment, **environment},
                        on_output=self._take,
                        timeout=float("inf"),
                        on_start=self.begun.set,
                    )
        except Exception as error:  # noqa: BLE001 (it must not crash the agent)
            self.failure = describe_failure(error)
            if not isinstance(error, ToolError):
                log_error(_log, f"{self.label} failed", error)
            if not self.begun.is_set():
                return None  # the call says so
        finally:
            self.ended.set()
            self.begun.set()
            self.more.set()
        if self._killer is not None:
            with trio.CancelScope(shield=True):  # that call runs now, whatever becomes of it
                await self._killer.wait()
        return None if self._is_told else self._tell_end()

    def _take(self, data: bytes) -> None:
        self.output.feed(data)
        self.more.set()
        self.more = trio.Event()

    def _tell_end(self) -> str:
        last, _ = self.output.read(self.output.end - _LAST_WORDS, final=True)
        last = last.lstrip("\ufffd")  # the rest of a character
        left = f"; {LEFT_RUNNING}" if self.exit and self.exit.left_running else ""
        head = f"[{self.label} has ended: {self.failure or self.status}{left}]"
        if not last.strip():
            return f"{head}\n(no output)"
        return f"{head}\nThe end of its output:\n{valid_unicode(show_output(last).strip())}"

    def end(self) -> None:
        """Kill it, with all that it has started, for a person: the model is told of its end."""
        self._is_killed = True
        self._scope.cancel()

    async def kill(self) -> bool:
        """Kill it, with all that it has started; False if it had ended before."""
        if self.ended.is_set():
            return False
        self._is_killed, self._killer = True, trio.Event()
        self._scope.cancel()
        try:
            await self.ended.wait()
            self._is_told = True
        finally:
            self._killer.set()
        return True


class StayingCommands:
    """The commands of one agent that stay; one of its resources."""

    def __init__(self) -> None:
        self._commands: dict[str, StayingCommand] = {}

    @classmethod
    def of(cls, context: AgentContext) -> "StayingCommands":
        """Return those of an agent."""
        found = context.resources.get(cls)
        if found is None:
            found = cls()
            context.resources.insert(found)
        return found

    @property
    def known(self) -> tuple[StayingCommand, ...]:
        """Those that run, and those that are kept after their end, the oldest first."""
        return tuple(self._commands.values())

    def make_room(self) -> None:
        """Make room for one that is about to start: the oldest that have ended go.

        Raises:
            ToolError: as many as the limit allows are running.
        """
        running = [each.id for each in self._commands.values() if not each.ended.is_set()]
        if len(running) >= MOST:
            raise ToolError(
                f"{MOST} background commands are running: {', '.join(running)}",
                hint="end one with BashKill first",
            )
        ended = [each.id for each in self._commands.values() if each.ended.is_set()]
        for id_ in ended[: max(len(ended) + 1 - MOST, 0)]:
            del self._commands[id_]

    def add(self, command: StayingCommand) -> None:
        """Add one that has started."""
        self._commands[command.id] = command

    def find(self, id_: str) -> StayingCommand:
        """Return the command with this id.

        Raises:
            ToolError: there is none.
        """
        found = self._commands.get(id_)
        if found is None:
            known = ", ".join(self._commands) or "none"
            raise ToolError(
                f"there is no background command {id_!r}; there are: {known}",
                hint="a command ends with the agent that has started it",
            )
        return found


async def start_staying(
    command: StayingCommand,
    arguments: Sequence[str],
    context: AgentContext,
    *,
    cwd: Path,
    environment: Mapping[str, str],
    sandbox: Sandbox | None,
    notes: Sequence[str] = (),
) -> ToolResult:
    """Start a command that stays, and say how to go on with it, with notes after that.

    Raises:
        ToolError: it can't be started, or too many are running.
    """

    async def run() -> str | None:
        return await command.run(arguments, context, cwd, environment, sandbox)

    staying = StayingCommands.of(context)
    staying.make_room()
    context.start_background(run, sender="Bash", label=command.label)
    staying.add(command)
    await command.begun.wait()
    if command.failure:
        raise ToolError(command.failure)
    text = (
        f"It runs in the background as {command.id}. BashOutput reads its output, BashKill ends it."
        " You will be told when it ends; it does not outlive you."
    )
    shown = "\n".join([text, *(f"[{note}]" for note in notes)])
    return ToolResult.ok(valid_unicode(shown), bash_id=command.id)


class BashOutput:
    """Reads the output of a command that Bash has left running.

    Each call returns what came since the last one, or what came after `position`; `filter` picks
    the lines that contain a text. Of each command the last 1,048,576 bytes are kept.
    """

    name = "BashOutput"
    category = "read"
    description = (
        "Return the status and the new output of a command that runs in the background: what came"
        " since the last call, or from a position on. It does not wait: you are told when the"
        " command ends."
    )
    requires_permission = False  # it shows what a call that was allowed prints
    concurrent = True
    idempotent = False  # the next call begins where this one has ended
    parameters: dict[str, object] = {
        "type": "object",
        "properties": {
            "bash_id": {"type": "string", "description": "The id that Bash has returned."},
            "filter": {
                "type": "string",
                "minLength": 1,
                "description": "Only lines that contain this text; the others are skipped.",
            },
            "position": {
                "type": "integer",
                "minimum": 0,
                "description": "Where to begin, in bytes. Default: after the last call.",
            },
        },
        "required": ["bash_id"],
        "additionalProperties": False,
    }

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Name the command."""
        return ToolInfo(f"Read the output of {input['bash_id']}")

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Return the output from a position on.

        Raises:
            ToolError: there is no such command.
        """
        command = StayingCommands.of(context).find(str(input["bash_id"]))
        position = read_integer(input, "position", command.position)
        status = command.status  # before the output: what says "exit code" has all of it
        output, wanted = command.output, str(input.get("filter") or "")
        gone = max(output.begin - position, 0)
        shown, end = output.read(
            position, _MOST_AT_ONCE, lines=bool(wanted), final=status != "running"
        )
        command.position = end
        shown = show_output(shown)
        if wanted:
            shown = "\n".join(line for line in shown.splitlines() if wanted in line)
        notes = [
            f"{gone} bytes before this are gone" if gone else "",
            status,
            f"position {end}" + (f" of {output.end}" if end < output.end else ""),
        ]
        lines = [valid_unicode(shown).rstrip("\n") or "(no new output)"]
        lines += [f"[{note}]" for note in notes if note]
        return ToolResult.ok("\n".join(lines), status=status, position=end)


class BashKill:
    """Ends a command that Bash has left running, with all that it has started."""

    name = "BashKill"
    category = "plan"
    description = "End a command that runs in the background, with all that it has started."
    requires_permission = False  # it ends what a call that was allowed has started
    concurrent = False
    parameters: dict[str, object] = {
        "type": "object",
        "properties": {
            "bash_id": {"type": "string", "description": "The id that Bash has returned."}
        },
        "required": ["bash_id"],
        "additionalProperties": False,
    }

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Name the command."""
        return ToolInfo(f"End {input['bash_id']}")

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Kill the command and wait for its end.

        Raises:
            ToolError: there is no such command.
        """
        command = StayingCommands.of(context).find(str(input["bash_id"]))
        if await command.kill():
            return ToolResult.ok(f"{command.id} was ended, with all that it had started.")
        return ToolResult.ok(f"{command.id} had ended before: {command.status}.")
