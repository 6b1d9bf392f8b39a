"""The commands that the agents of a run have left running, as a person sees and ends them."""

import trio

from greenroom.cli.folded import Folded
from greenroom.cli.formatting import describe_seconds, one_line
from greenroom.cli.painter import ColorScheme, indent
from greenroom.cli.renderables import RenderableType
from greenroom.core import AgentContext, Exited, ToolUseBlock
from greenroom.core._internal import legible
from greenroom.tools._internal import StayingCommand, StayingCommands

_MOST_AT_ONCE = 16_000  # bytes that are shown in one piece


class RunningCommands:
    """Knows the background commands of all agents of a run; an instrument of the runtime."""

    def __init__(self) -> None:
        """Start with none."""
        self._of: dict[str, StayingCommands] = {}

    def before_tool_run(self, agent: AgentContext, call: ToolUseBlock) -> None:
        """Note whose commands there may be."""
        if call.name == "Bash":
            self._of[agent.session_id] = StayingCommands.of(agent)

    def after_agent(self, agent: AgentContext, end: Exited) -> None:
        """Forget those of an agent that has ended: they have ended with it."""
        self._of.pop(agent.session_id, None)

    @property
    def running(self) -> list[StayingCommand]:
        """Those that run, the oldest first."""
        known = [command for each in self._of.values() for command in each.known]
        return [each for each in known if each.begun.is_set() and not each.ended.is_set()]

    def find(self, id_: str) -> StayingCommand | None:
        """Return the command of this id that runs, if there is one."""
        return next((each for each in self.running if each.id == id_), None)


def describe_command(command: StayingCommand) -> str:
    """Describe a command that runs in a line."""
    seconds = describe_seconds(trio.current_time() - command.begun_at)
    return f"{command.id}  running {seconds}  {one_line(command.command)}"


class OutputReader:
    """Reads what a command prints, from the last part of what it has printed on."""

    def __init__(self, command: StayingCommand, scheme: ColorScheme) -> None:
        """Begin near the end of what there is."""
        self._command = command
        self._scheme = scheme
        self._position = max(command.output.end - _MOST_AT_ONCE, 0)

    async def read(self) -> RenderableType | None:
        """Wait for the next whole lines; return None once it has ended and all was read."""
        command = self._command
        while True:
            more, has_ended = command.more, command.ended.is_set()
            text, end = command.output.read(
                self._position, _MOST_AT_ONCE, lines=True, final=has_ended
            )
            if end > self._position:
                self._position = end
                text = legible(text.rstrip("\n"))
                return indent(Folded(text, self._scheme.output, self._scheme))
            if has_ended:
                return None
            await more.wait()
