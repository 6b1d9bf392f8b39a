"""What stands on the screen: what was printed, what still changes, the question, the status."""

from rich.console import RenderableType
from rich.text import Text

from greenroom.cli.console.agent_view import AgentView
from greenroom.cli.drawing.painter import Painter
from greenroom.cli.drawing.theme import ColorScheme
from greenroom.cli.questions.permission_prompt import render_further, render_request
from greenroom.cli.questions.question_queue import QuestionQueue
from greenroom.cli.terminal.terminal import Frame, Question, Terminal
from greenroom.core import OutputChunk, PermissionRequest, StateKind, visible

__all__ = ["Screen"]

_MARGIN = 8  # lines of the terminal that are left to the input line and to what was printed
_FULL = 65_536  # characters of painted text that are printed even by a reader that lags behind

_MODES = {"default": "", "bypass": "BYPASS: nothing is asked"}


class Screen:
    """Collects what is to be shown and shows it as one frame."""

    def __init__(
        self, terminal: Terminal, scheme: ColorScheme, model: str, mode: str = "default"
    ) -> None:
        """Draw on this terminal; `mode` is the permission mode."""
        self._terminal = terminal
        self.scheme = scheme
        self._painter = Painter(terminal.colors)
        self._view = AgentView(scheme, model)
        self._mode = _MODES.get(mode, f"mode {mode}")
        self._printed = ""
        self.questions = QuestionQueue()
        self._asked: PermissionRequest | None = None
        self.queued: tuple[str, ...] = ()
        self.hint = ""

    @property
    def is_full(self) -> bool:
        """Whether so much waits to be printed that it can't wait for a reader to catch up."""
        return len(self._printed) > _FULL

    def feed(self, chunk: OutputChunk) -> None:
        """Take a chunk of the agent."""
        self.print(*self._view.feed(chunk))

    def print(self, *renderables: RenderableType) -> None:
        """Add something for good; the next `draw` shows it."""
        if renderables:
            self._printed += self._painter.paint(renderables, self._columns)

    def finish(self) -> None:
        """Print what the agent has said so far, where it was left in the middle."""
        self.print(*self._view.finish())

    def note(self, text: str) -> None:
        """Add a remark of the program."""
        self.print(Text(visible(text), self.scheme.note))

    def error(self, text: str) -> None:
        """Add what went wrong."""
        self.print(Text(visible(text), self.scheme.error))

    def ask(self, request: PermissionRequest, warning: str = "") -> None:
        """Add the prompt of the request that is asked now; from here on it may be answered."""
        self._asked = request
        waiting, pages = self.questions.waiting, self.questions.pages
        self.print(render_request(request, self.scheme, waiting, warning, pages))

    def show_further(self, request: PermissionRequest, page: int) -> None:
        """Add a further page of a request, and what may be answered then."""
        self.print(render_further(request, page, self.scheme, self.questions.pages))

    def clear_line(self) -> None:
        """Throw away what stands in the input line."""
        self._terminal.clear_line()

    async def draw(self) -> None:
        """Show everything as it is now."""
        printed, self._printed = self._printed, ""
        await self._terminal.show(
            Frame(printed, self._live(), self._status(), self._question, self.hint)
        )

    @property
    def _question(self) -> Question | None:
        """What the next line may answer: nothing that is not shown yet."""
        is_shown = self.questions.current is self._asked
        return self.questions.question if is_shown else None

    @property
    def _columns(self) -> int:
        # The last column stays free: a terminal may wrap there by itself.
        return self._terminal.size[0] - 1

    def _live(self) -> str:
        queued = [Text(f"queued: {visible(text)}", self.scheme.note) for text in self.queued]
        parts = [*self._view.live(), *queued]
        lines = self._painter.paint(parts, self._columns).splitlines()
        room = max(self._terminal.size[1] - _MARGIN, 3)
        return "\n".join(lines[-room:])

    def _status(self) -> str:
        view = self._view
        parts = [self._mode, visible(self._state()), visible(view.model)]
        if view.usage.total:
            parts.append(f"{view.usage.total:,} tokens")
        if self.questions.waiting:
            parts.append(f"{self.questions.waiting} more waiting")
        parts.append(self.hint or self._usual_hint())
        status = " · ".join(part for part in parts if part)
        return status[: self._columns]

    def _state(self) -> str:
        asked = self.questions.current  # a subagent's too, for which the agent itself only waits
        return f"waiting for permission: {asked.tool_name}" if asked else str(self._view.state)

    def _usual_hint(self) -> str:
        return "/help" if self._view.state.kind is StateKind.IDLE else "Esc interrupts"
