"""What the functions of the input line's commands are given."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import trio

from greenroom.cli.commands import CandidateKind, Command
from greenroom.cli.menu import Candidate
from greenroom.cli.screen import Screen
from greenroom.core._internal import Effort, quantity
from greenroom.runtime import AgentHandle, AgentRuntime

if TYPE_CHECKING:  # an agent that is not the command's own is shown without these
    from greenroom.cli.hooks import SessionSource
    from greenroom.cli.options import Options
    from greenroom.cli.run_setup import RunSetup


class NextRun(NamedTuple):
    """What the terminal goes on with once the session that is shown has ended.

    Attributes:
        options: the options of the run, as on a command line.
        prepare: what is done between the two, such as a rewind; it returns what to say.
        draft: the text that the input line begins with.
        effort: how hard the model thinks, if the person has said so.
        source: why its session begins, for hooks.
    """

    options: "Options"
    prepare: Callable[[], Awaitable[str]] | None = None
    draft: str = ""
    effort: Effort | None = None
    source: "SessionSource" = "resume"


class OpenRun:
    """A run of the `greenroom` command in the terminal.

    Attributes:
        options: its options.
        setup: its parts.
        runtime: where its agents run.
        said: what the person has said on the command line, until it is entered.
        next: what follows it, once that is decided.
        branch: the branch of the repository around its folder, if there is one.
        is_light: whether the terminal's background is light.
        followed: the agents and commands that the person follows, each with what ends that.
    """

    def __init__(
        self,
        options: "Options",
        setup: "RunSetup",
        runtime: AgentRuntime,
        said: str = "",
        *,
        is_light: bool = False,
    ) -> None:
        self.options = options
        self.setup = setup
        self.runtime = runtime
        self.said = said
        self.next: NextRun | None = None
        self.branch = ""
        self.is_light = is_light
        self.followed: dict[str, trio.CancelScope] = {}

    @property
    def place(self) -> Sequence[str]:
        """What the status line says about where it works: its branch, its sandbox."""
        sandbox = self.options.sandbox
        return self.branch, "" if sandbox == "off" else f"sandbox {sandbox}"

    @property
    def remark(self) -> str:
        """What stands above the input line: how many commands run in the background."""
        running = len(self.setup.commands.running)
        return f"{quantity(running, 'command')} in the background: /agents" if running else ""

    async def look_at_branch(self) -> None:
        """Look which branch is checked out now."""
        from greenroom.agents._internal import git_branch  # loaded before such a run is open

        self.branch = await trio.to_thread.run_sync(git_branch, self.setup.workspace)


class CommandContext(msgspec.Struct, frozen=True):
    """The agent, the screen and the run that a command is about, and what it may do.

    Attributes:
        handle: the agent.
        screen: where the command shows what it has to say.
        commands: the commands of the input line.
        send: sends the agent an input with metadata, which is not shown.
        leave: ends what is shown.
        start_soon: runs a function beside everything else, until the person leaves.
        find_candidates: finds the words of a kind that a menu offers.
        open_run: the run, for a command with `needs_run`.
    """

    handle: AgentHandle
    screen: Screen
    commands: tuple[Command, ...]
    send: Callable[[str, dict[str, object]], None]
    leave: Callable[[], None]
    start_soon: Callable[[Callable[[], Awaitable[None]]], None]
    find_candidates: Callable[[str], Awaitable[Sequence[Candidate]]]
    open_run: OpenRun | None = None

    @property
    def run(self) -> OpenRun:
        """The run of the `greenroom` command."""
        assert self.open_run is not None  # commands with `needs_run` are offered in one only
        return self.open_run

    async def choose(self, line: str, kind: CandidateKind) -> None:
        """Let the person choose a word of this kind, with which this line goes on."""
        if self.screen.terminal.is_live:
            self.screen.terminal.put_back(line)
            return
        rows = [f"{each.word}  {each.note}".rstrip() for each in await self.find_candidates(kind)]
        listed = "\n".join([f"add one of these to {line.strip()}:", *rows])
        self.screen.note(listed if rows else f"there is nothing to choose from for {line.strip()}")

    def go_on_with(self, next_run: NextRun) -> None:
        """End the session that is shown, and go on with this."""
        self.run.next = next_run
        self.leave()
