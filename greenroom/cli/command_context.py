"""What the functions of the input line's commands are given."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from greenroom.cli.arguments import Options
from greenroom.cli.commands import Command
from greenroom.cli.run_setup import RunSetup
from greenroom.cli.screen import Screen
from greenroom.runtime import AgentHandle, AgentRuntime


@dataclass(frozen=True)
class NextRun:
    """What the terminal goes on with once the session that is shown has ended.

    Attributes:
        options: the options of the run, as on a command line.
        prepare: what is done between the two, such as a rewind; it returns what to say.
        draft: the text that the input line begins with.
    """

    options: Options
    prepare: Callable[[], Awaitable[str]] | None = None
    draft: str = ""


@dataclass
class OpenRun:
    """A run of the `greenroom` command in the terminal.

    Attributes:
        options: its options.
        setup: its parts.
        runtime: where its agents run.
        next: what follows it, once that is decided.
    """

    options: Options
    setup: RunSetup
    runtime: AgentRuntime
    next: NextRun | None = None


@dataclass(frozen=True)
class CommandContext:
    """The agent, the screen and the run that a command is about, and what it may do.

    Attributes:
        handle: the agent.
        screen: where the command shows what it has to say.
        commands: the commands of the input line.
        send: sends the agent an input with metadata, which is not shown.
        leave: ends what is shown.
        start_soon: runs a function beside everything else, until the person leaves.
        open_run: the run, for a command with `needs_run`.
    """

    handle: AgentHandle
    screen: Screen
    commands: tuple[Command, ...]
    send: Callable[[str, dict[str, object]], None]
    leave: Callable[[], None]
    start_soon: Callable[[Callable[[], Awaitable[None]]], None]
    open_run: OpenRun | None = field(default=None)

    @property
    def run(self) -> OpenRun:
        """The run of the `greenroom` command."""
        assert self.open_run is not None  # commands with `needs_run` are offered in one only
        return self.open_run

    def go_on_with(self, next_run: NextRun) -> None:
        """End the session that is shown, and go on with this."""
        self.run.next = next_run
        self.leave()
