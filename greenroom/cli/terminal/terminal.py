"""What the renderer needs of a terminal: to show a frame, and to hear what the person does."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

import trio

from greenroom.cli.drawing.painter import Colors

__all__ = [
    "Closed",
    "Frame",
    "Key",
    "KeyName",
    "Line",
    "PersonEvent",
    "Question",
    "Terminal",
    "TerminalOpener",
]


@dataclass(frozen=True)
class Question:
    """A question that the next line may answer.

    Attributes:
        id: what the answer is bound to.
        label: what stands before the line while it would be the answer.
        is_follow_up: whether the person asked for it, and so expects it at once.
        text: what stands in the line to begin with, where a terminal can do that.
    """

    id: str
    label: str
    is_follow_up: bool = False
    text: str = ""


@dataclass(frozen=True)
class Frame:
    """What a terminal shows from now on.

    Attributes:
        printed: text that is added for good, above everything else.
        live: text that may still change.
        status: one line about the agent.
        question: the question that is open, or None.
        hint: what the person should know for the moment; the status says it too.
    """

    printed: str = ""
    live: str = ""
    status: str = ""
    question: Question | None = None
    hint: str = ""


@dataclass(frozen=True)
class Line:
    """A line that the person has entered.

    Attributes:
        text: what it says.
        question: the id of the question that was shown when its first letter was typed, or empty:
            only to that question can it be the answer.
    """

    text: str
    question: str = ""


class KeyName(StrEnum):
    """The keys that mean something besides text."""

    ESCAPE = "escape"
    CTRL_C = "ctrl-c"
    CTRL_D = "ctrl-d"


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
    """A terminal that is open."""

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

    async def show(self, frame: Frame) -> None:
        """Show a frame in place of the one before; returns once it is written.

        Frames appear in the order of the calls.
        """
        ...

    def clear_line(self) -> None:
        """Throw away what stands in the line."""
        ...


TerminalOpener: TypeAlias = Callable[[], AbstractAsyncContextManager[Terminal]]
"""Opens the terminal; leaving the block gives it back as it was."""
