"""What an agent waits for, since when, and what has come meanwhile: the spinner's row."""

from collections.abc import Callable, Sequence

from rich.text import Text

from greenroom import core
from greenroom.cli.formatting import describe_seconds
from greenroom.cli.painter import ColorScheme
from greenroom.cli.rows import count_columns, wrap
from greenroom.core import OutputChunk
from greenroom.core._internal import StateKind, exact

_TURNS = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_PER_SECOND = 4
_SILENT = 3.0  # seconds without a piece of a reply after which it is waited for again
_LETTERS = 4  # of a reply that comes, for one token
_MAX_NAMED = 3
_APART = " · "

_DOING = {core.TextDelta: "writing", core.ThinkingDelta: "thinking"}
_STILL = (StateKind.IDLE, StateKind.DONE, StateKind.FAILED)


class Awaited:
    """Follows the chunks of one agent, and says what it waits for now.

    Example:
        >>> awaited = Awaited(lambda: 7.0)
        >>> awaited.feed(core.ToolStart("a", "Bash", {}))
        >>> awaited.describe("vendor:model")
        'Bash'
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Start with an agent that is idle; the clock returns seconds."""
        self._clock = clock
        self.state = core.AgentState.idle()
        self._begun_at = 0.0
        self._since = 0.0
        self._heard_at = 0.0  # when the last piece of a reply came
        self._has_piece = False  # whether one has come since
        self._doing = ""
        self._notice = ""
        self._received = 0
        self._letters = 0
        self._calls: dict[str, tuple[str, float]] = {}

    def feed(self, chunk: OutputChunk) -> None:
        """Take the next chunk of the agent."""
        if isinstance(chunk, core.TextDelta | core.ThinkingDelta):  # by the hundred thousand
            doing = _DOING[type(chunk)]
            if self._doing is not doing or self._notice:
                self._begin()
                self._doing = doing
            self._has_piece = True
            self._letters += len(chunk.text)
            return
        self._look()
        match chunk:
            case core.UsageReport():
                self._received += chunk.usage.output_tokens or 0
                self._letters = 0
            case core.Custom(kind="model.wait" | "model.retry"):
                self._begin(notice=chunk.text)
            case core.ToolStart():
                self._calls[chunk.id] = (chunk.name, self._clock())
                self._begin()
            case core.ToolEnd():
                self._calls.pop(chunk.id, None)
                self._begin()
            case core.TurnStart():
                self._begun_at, self._received, self._letters = self._clock(), 0, 0
                self._calls.clear()
                self._begin()
            case core.StateChange() if chunk.state != self.state:
                self.state = chunk.state
                self._begin(notice=self._notice)
            case core.TextComplete() | core.ThinkingComplete() | core.Error() | core.Done():
                self._begin()
            case _:
                pass

    def _begin(self, *, notice: str = "") -> None:
        """Wait for something else from now on."""
        self._doing, self._notice, self._since = "", notice, self._clock()

    def _look(self) -> None:
        """Note the time of the pieces that came since the last look, a moment ago at the most."""
        if self._has_piece:
            self._has_piece, self._heard_at = False, self._clock()

    @property
    def is_over(self) -> bool:
        """Whether it waits for nothing but its next input."""
        return self.state.kind in _STILL

    @property
    def turn_seconds(self) -> float:
        """For how long the turn runs."""
        return self._clock() - self._begun_at

    @property
    def _is_silent(self) -> bool:
        self._look()
        return self._clock() - self._heard_at >= _SILENT

    def describe(self, model: str) -> str:
        """Say what it waits for, in a few words that may hold anything but line ends."""
        if self._notice:
            return " ".join(self._notice.split())
        if self._calls:
            names = list(dict.fromkeys(name for name, _ in self._calls.values()))
            more = [f"{len(names) - _MAX_NAMED} more"] if len(names) > _MAX_NAMED else []
            return ", ".join([*names[:_MAX_NAMED], *more])
        if self._doing and not self._is_silent:
            return self._doing
        if self.state.phase:
            return self.state.phase
        name = model.partition(":")[2] or model
        return f"waiting for {name}" if name else "working"

    @property
    def seconds(self) -> float:
        """For how long it has waited for that."""
        if self._calls and not self._notice:
            since = min(began for _, began in self._calls.values())
        else:
            since = self._heard_at if self._doing and self._is_silent else self._since
        return self._clock() - since

    def call_seconds(self, id_: str) -> float:
        """Return for how long a call has run."""
        return self._clock() - self._calls[id_][1] if id_ in self._calls else 0.0

    @property
    def received(self) -> int:
        """About how many tokens the model has written in this turn."""
        return self._received + self._letters // _LETTERS

    def spinner(self, model: str, columns: int, scheme: ColorScheme) -> Text:
        """Draw the row that says what it waits for, in at most so many columns."""
        received = f"↓ {self.received:,} tokens" if self.received else ""
        return spin(self.describe(model), self.seconds, received, columns, scheme)


def spin(what: str, seconds: float, more: str, columns: int, scheme: ColorScheme) -> Text:
    """Draw the row about something that has lasted so long, with a sign that turns."""
    turned = _TURNS[int(seconds * _PER_SECOND) % len(_TURNS)]
    lasted = f"{_APART}{describe_seconds(seconds)}" if seconds >= 1 else ""
    head = fit_parts([f"{turned} {exact(what)}"], columns - len(lasted))
    return Text(fit_parts([head + lasted, more], columns), scheme.note, no_wrap=True)


def fit_parts(parts: Sequence[str], columns: int, kept: str = "") -> str:
    """Join parts that are not empty; drop whole ones from the right until the rest fits.

    The first one stays, and so does the one that is `kept`; what does not fit even so is cut at a
    blank.

    Example:
        >>> fit_parts(["idle", "vendor:model", "", "main"], 20)
        'idle · vendor:model'
        >>> fit_parts(["a long line of words", "main"], 12)
        'a long line…'
    """
    shown = [part for part in parts if part]
    for part in reversed(shown[1:]):
        if count_columns(_APART.join(shown)) <= columns:
            break
        if part != kept:
            shown.remove(part)
    whole = _APART.join(shown)
    if count_columns(whole) <= columns:
        return whole
    return f"{wrap(Text(whole), max(columns - 1, 1))[0].plain}…"
