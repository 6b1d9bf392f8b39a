"""What a run of the `greenroom` command adds to an input: files, own commands, the history."""

from collections.abc import Sequence
from pathlib import Path

import trio
from rich.text import Text

from greenroom.cli.command_context import OpenRun
from greenroom.cli.input_history import add_to_history, history_file
from greenroom.cli.mcp_inputs import read_server_parts
from greenroom.cli.mentions import MentionReader, agent_context
from greenroom.cli.own_command import OwnCommand, run_own_command
from greenroom.cli.screen import Screen
from greenroom.core import ContentBlock, TextBlock
from greenroom.core._internal import visible

_MAX_OWN = 20  # commands of the person that wait for the next input; the oldest is dropped


class RunInputs:
    """Completes what the person says in one run."""

    def __init__(self, run: OpenRun, screen: Screen) -> None:
        setup = run.setup
        self._setup = setup
        self._screen = screen
        self._context = agent_context(setup.session.session_id, Path(setup.workspace))
        self._reader = MentionReader(setup.permissions, setup.tools, self._context)
        self._history = history_file(Path(setup.workspace))
        self._own: list[OwnCommand] = []
        self._running: trio.CancelScope | None = None

    async def remember(self, text: str) -> None:
        """Add what was typed to the history of this folder."""
        try:
            await trio.to_thread.run_sync(add_to_history, self._history, text)
        except OSError as error:
            self._screen.hint = f"the history can't be written: {error.strerror}"

    async def complete(self, text: str) -> str | Sequence[ContentBlock]:
        """Add the files that an input names, and the commands that the person has run."""
        blocks, notes = await self._reader.read(text)
        servers = self._setup.servers.connected
        if servers is not None:
            more, others = await read_server_parts(text, servers, self._setup.prompts)
            blocks, notes = [*blocks, *more], [*notes, *others]
        for note in notes:
            self._screen.error(note)
        own, self._own = self._own, []
        if not blocks and not own:
            return text
        before = [TextBlock(each.for_model) for each in own]
        return [TextBlock(text), *before, *blocks]

    def end_command(self) -> bool:
        """End the command that the person runs; return whether there was one."""
        if self._running is None:
            return False
        self._running.cancel()
        return True

    async def run_command(self, command: str) -> None:
        """Run a command as the person, and keep what came of it for the next input."""
        if self._running is not None:
            self._screen.error("not run: another command of yours is still running; Esc ends it")
            await self._screen.draw()
            return
        setup = self._setup
        self._screen.show_own_command(" ".join(command.split()))
        await self._screen.draw()
        with trio.CancelScope() as scope:
            self._running = scope
            ended = await run_own_command(command, setup.tools, setup.permissions, self._context)
            self._own = [*self._own, ended][-_MAX_OWN:]
            self._print(ended)
        if scope.cancelled_caught:
            self._screen.note(f"ended: {command}")
        self._running = None
        self._screen.show_own_command("")
        await self._screen.draw()

    def _print(self, ended: OwnCommand) -> None:
        scheme = self._screen.scheme
        lines = visible(ended.result.text)
        style = scheme.error if ended.result.is_error else scheme.output
        self._screen.print(Text(lines, style), Text(""))
