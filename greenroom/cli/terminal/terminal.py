"""What the renderer needs of a terminal: to show a frame, and to hear what the person does."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeAlias

import trio

from greenroom.cli.drawing.painter import Colors

GUARD = 0.4
"""Seconds that a person has to see a question before a key may answer it."""

NARROWEST = 20
"""Columns below which no question is answered: nobody could read it."""


@dataclass(frozen=True)
class Question:
    """A question that the next line may answer.

    Attributes:
        id: what the answer is bound to; empty while one is coming that takes no answer yet.
        label: what stands before the line while it would be the answer.
        paint: paints the whole question for a terminal of so many columns; the same function for as
            long as the same is asked.
        place: which question of how many it is; empty for the only one.
        is_follow_up: whether the person asked for it, and so expects it at once.
        text: what stands in the line to begin with, where a terminal can do that.
        is_hidden: whether what is typed is shown nowhere and kept nowhere; for live terminals.
    """

    id: str
    label: str
    paint: Callable[[int], str] = lambda _: ""
    place: str = ""
    is_follow_up: bool = False
    text: str = ""
    is_hidden: bool = False


@dataclass(frozen=True)
class Frame:
    """What a terminal shows from now on.

    Attributes:
        printed: text that is added for good, above everything else.
        live: text that may still change.
        status: one line about the agent.
        question: the question that is open, or None.
        hint: what the person should know for the moment.
        has_queued: whether inputs wait that the person can take back.
    """

    printed: str = ""
    live: str = ""
    status: str = ""
    question: Question | None = None
    hint: str = ""
    has_queued: bool = False


@dataclass(frozen=True)
class Line:
    """A line that the person has entered.

    Attributes:
        text: what it says.
        question: the id of the question that it answers, or empty: it was shown whole or in part,
            for long enough, from before the first letter was typed.
        is_read: whether all of that question has been on the screen.
    """

    text: str = field(repr=False)
    question: str = ""
    is_read: bool = True


class KeyName(StrEnum):
    """The keys that mean something besides text."""

    ESCAPE = "escape"
    CTRL_C = "ctrl-c"
    CTRL_D = "ctrl-d"
    TAKE_BACK = "take back"


@dataclass(frozen=True)
class Key:
    """A key that is no text, and what stood in the line when it was pressed; it stays there."""

    name: KeyName
    line: str = ""


@dataclass(frozen=True)
class Closed:
    """No more lines will come; what has come may still be worked on."""


PersonEvent: TypeAlias = Line | Key | Closed
"""Anything that a person does."""


class Terminal(Protocol):
    """A terminal that is open.

    It never lets a line answer a question that is not before the person's eyes: a live one keeps the
    question above the line, a plain one prints it again after whatever else was printed. What is
    typed too early for an answer it refuses, and says so.
    """

    @property
    def events(self) -> trio.MemoryReceiveChannel[PersonEvent]:
        """What the person does, in order."""
        ...

    @property
    def colors(self) -> Colors:
        """How many colours it has."""
        ...

    @property
    def size(self) -> tuple[int, int]:
        """Its columns and lines at this moment."""
        ...

    @property
    def is_live(self) -> bool:
        """Whether it redraws what it shows and has a line that a program can change, and hide."""
        ...

    async def show(self, frame: Frame) -> None:
        """Show a frame in place of the one before; returns once it is written.

        Frames appear in the order of the calls.
        """
        ...

    def clear_line(self) -> None:
        """Throw away what stands in the line."""
        ...

    def put_back(self, text: str) -> None:
        """Put text before what is in the line; it does nothing where the terminal is not live."""
        ...


TerminalOpener: TypeAlias = Callable[[], AbstractAsyncContextManager[Terminal]]
"""Opens the terminal; leaving the block gives it back as it was."""
