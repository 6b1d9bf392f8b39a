"""What is on the screen: what was printed, what still changes, the question, the status."""

from functools import partial

from rich.console import RenderableType
from rich.text import Text

from greenroom.cli.agent_view import AgentView
from greenroom.cli.painter import ColorScheme, Painter
from greenroom.cli.permission_prompt import QuestionQueue, render_record, render_request
from greenroom.cli.terminal import (
    Frame,
    Question,
    Terminal,
)
from greenroom.core import (
    OutputChunk,
    PermissionRequest,
    PermissionResponse,
    StateKind,
    SubAgentOutput,
    visible,
)
from greenroom.llm import model_profile

_MARGIN = 8  # lines of the terminal that are left to the input line and to what was printed
_PLAN = 12  # lines of a plan that is carried out, in a terminal with room for them
_FULL = 65_536  # characters of painted text that are printed even by a reader that lags

_MODES = {"default": "", "bypass": "BYPASS: nothing is asked"}


def innermost(chunk: OutputChunk) -> OutputChunk:
    """Return what a descendant has said, where a chunk is about that."""
    while isinstance(chunk, SubAgentOutput):
        chunk = chunk.chunk
    return chunk


class Screen:
    """Collects what to show, and shows it as one frame."""

    def __init__(
        self,
        terminal: Terminal,
        scheme: ColorScheme,
        model: str,
        mode: str = "default",
        currency: str = "",
    ) -> None:
        """Draw on this terminal; `mode` is the permission mode, `currency` that of the cost."""
        self._terminal = terminal
        self.scheme = scheme
        self._painter = Painter(terminal.colors)
        self._view = AgentView(scheme, model, redraws=terminal.is_live)
        self._window = model_profile(model).context_window
        self._mode = _MODES.get(mode, f"mode {mode}")
        self._currency = currency
        self._printed = ""
        self.questions = QuestionQueue(can_hide=terminal.is_live)
        self._asked: PermissionRequest | None = None
        self._paint_asked = partial(str)
        self.queued: tuple[str, ...] = ()
        self.hint = ""

    @property
    def is_full(self) -> bool:
        """Whether so much waits to be printed that it can't wait for a reader to catch up."""
        return len(self._printed) > _FULL

    def feed(self, chunk: OutputChunk) -> None:
        """Take a chunk of the agent."""
        match innermost(chunk):
            case PermissionResponse(request_id=id_) if (
                self._asked and id_ == self._asked.request_id
            ):
                self._close_question()
        self.print(*self._view.feed(chunk))

    def print(self, *renderables: RenderableType) -> None:
        """Add something that stays; the next `draw` shows it."""
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
        """Show the request that is asked now, for as long as it is; it may be answered from here on."""
        self._close_question()
        self._asked = request
        self._paint_asked = partial(self._paint_request, request, warning)

    def _paint_request(self, request: PermissionRequest, warning: str, columns: int) -> str:
        # The last column stays free here too, if it can.
        can_hide = self._terminal.is_live
        shown = render_request(request, self.scheme, warning, can_hide=can_hide)
        return self._painter.paint([shown], columns - 1)

    def _close_question(self) -> None:
        """Print a record of what was asked; a plain terminal has printed the question itself."""
        if self._asked is not None and self._terminal.is_live:
            self.print(render_record(self._asked, self.scheme))
        self._asked = None

    def refuse(self, why: str) -> None:
        """Say, for the moment, why what was typed has done nothing."""
        if self._terminal.is_live:
            self.hint = visible(why)
        else:
            self.note(why)

    def put_back(self, text: str) -> None:
        """Give a text back to the person that was not sent."""
        if self._terminal.is_live:
            self._terminal.put_back(text)
        else:
            self.note(f"not sent: {text}")

    def clear_line(self) -> None:
        """Clear the input line."""
        self._terminal.clear_line()

    async def draw(self) -> None:
        """Show everything as it is now."""
        if self.questions.current is not self._asked:
            self._close_question()
        printed, self._printed = self._printed, ""
        parts = (printed, self._live(), self._status(), self._question())
        await self._terminal.show(Frame(*parts, self.hint, bool(self.queued)))

    def _question(self) -> Question | None:
        """What the next line may answer; nothing that is not shown yet takes an answer."""
        if self._asked is None and self.questions.current is not None:
            return Question("", "")
        return self.questions.question(self._paint_asked)

    @property
    def _columns(self) -> int:
        # The last column stays free: a terminal may wrap there by itself.
        return self._terminal.size[0] - 1

    def _live(self) -> str:
        queued = [Text(f"queued: {visible(text)}", self.scheme.note) for text in self.queued]
        if queued:
            queued.append(Text("  Up takes it back into the line", self.scheme.note))
        room = max(self._terminal.size[1] - _MARGIN, 3)
        parts = [*self._view.live(min(room, _PLAN)), *queued]
        lines = self._painter.paint(parts, self._columns).splitlines()
        return "\n".join(lines[-room:])

    def _status(self) -> str:
        view = self._view
        queued = f"{len(self.queued)} queued" if self.queued else ""
        parts = [self._mode, queued, visible(self._state()), visible(view.model)]
        if view.usage.total:
            parts += [f"{view.usage.total:,} tokens", view.cache_note, self._context()]
        if view.usage.cost:
            parts.append(f"{view.usage.cost:,.4f} {self._currency}".strip())
        parts.append(self._usual_hint())
        status = " · ".join(part for part in parts if part)
        return status[: self._columns]

    def _context(self) -> str:
        """Say how much of the model's window the conversation takes, where that is known."""
        return f"context {self._view.context / self._window:.0%}" if self._window else ""

    def _state(self) -> str:
        asked = self.questions.current  # a subagent's too, for which the agent itself only waits
        return f"waiting for permission: {asked.tool_name}" if asked else str(self._view.state)

    def _usual_hint(self) -> str:
        return "/help" if self._view.state.kind is StateKind.IDLE else "Esc interrupts"
