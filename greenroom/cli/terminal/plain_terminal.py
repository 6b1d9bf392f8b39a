"""A terminal without control codes: a pipe, a file, or `TERM=dumb`."""

import os
import shutil
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import trio

from greenroom.cli.drawing.painter import Colors
from greenroom.cli.streams.byte_reader import read_some, unread
from greenroom.cli.streams.output_writer import OutputWriter
from greenroom.cli.terminal.terminal import Closed, Frame, Line, PersonEvent, Question, Terminal

__all__ = ["open_plain_terminal"]

_QUEUE = 64
_LONGEST = 1_000_000  # bytes of a line; a longer one is taken in pieces
_GUARD = 0.4  # seconds that a person has to see a question before the next line may answer it


@asynccontextmanager
async def open_plain_terminal(descriptor: int = 0) -> AsyncIterator[Terminal]:
    """Print what is finished, read lines; nothing is ever redrawn.

    A line can answer a question only if all of it was typed after the question was printed, label
    included: what came before goes to the agent, and of a line that a person had only begun, what
    stood there is thrown away, since such a terminal does not show it to a program.
    """
    async with trio.open_nursery() as nursery:
        terminal = _PlainTerminal(descriptor, nursery)
        nursery.start_soon(terminal.read_lines)
        yield terminal
        nursery.cancel_scope.cancel()


class _PlainTerminal:
    colors: Colors = None

    def __init__(self, descriptor: int, nursery: trio.Nursery) -> None:
        self._descriptor = descriptor
        self._nursery = nursery
        self._out = OutputWriter()
        self._one_writer = trio.Lock()
        self._hint = ""
        self._asked = ""  # the question that is asked, and the one whose label stands there
        self._question = ""
        self._stale = 0  # bytes that were there before the question was
        self._begun = b""  # a line that has no end yet
        self._begun_for = ""  # the question that was open when it began
        self._send, self.events = trio.open_memory_channel[PersonEvent](_QUEUE)

    @property
    def size(self) -> tuple[int, int]:
        size = shutil.get_terminal_size()
        return size.columns, size.lines

    async def show(self, frame: Frame) -> None:
        try:
            await self._show(frame)
        except BrokenPipeError:
            self._send.close()  # nobody reads any more, so the person is gone as well

    async def _show(self, frame: Frame) -> None:
        async with self._one_writer:
            if frame.printed:
                await self._out.line(frame.printed.removesuffix("\n").encode("utf-8", "replace"))
            hint, self._hint = self._hint, frame.hint
            if frame.hint and frame.hint != hint:
                await self._out.line(frame.hint.encode())
        before, self._asked = self._asked, frame.question.id if frame.question else ""
        if self._asked != before:
            self._question = ""
        if frame.question is not None and self._asked != before:
            await self._ask(frame.question)

    async def _ask(self, question: Question) -> None:
        """Let a question be answered; a person is given a moment to see that there is one."""
        if question.is_follow_up:
            await self._open(question)
        elif os.isatty(self._descriptor):
            self._nursery.start_soon(self._open_later, question)
        else:
            self._stale = unread(self._descriptor)
            await self._open(question)

    async def _open_later(self, question: Question) -> None:
        await trio.sleep(_GUARD)
        if question.id == self._asked:
            self._stale = unread(self._descriptor)
            self._forget_begun_line()
            with suppress(BrokenPipeError):  # the next frame finds that as well
                await self._open(question)

    async def _open(self, question: Question) -> None:
        """Print the label, which says that the next line may be the answer."""
        # Before it is written, since whoever reads it may answer before we are back.
        self._question = question.id
        async with self._one_writer:
            await self._out.line(question.label.rstrip().encode())

    def _forget_begun_line(self) -> None:
        """Throw away the line that a person has begun, once those before it were read."""
        if not self._stale and os.isatty(self._descriptor):
            with suppress(termios.error):
                termios.tcflush(self._descriptor, termios.TCIFLUSH)

    def clear_line(self) -> None:
        pass  # the line is the terminal's own

    async def read_lines(self) -> None:
        with suppress(trio.ClosedResourceError):
            while more := await read_some(self._descriptor):
                await self._take(more)
            if self._begun:
                await self._say(b"")
            await self._send.send(Closed())

    async def _take(self, data: bytes) -> None:
        """Take what was read; what was there before the question was printed can't answer it."""
        old, new = data[: self._stale], data[self._stale :]
        if old:
            self._stale -= len(old)
            self._forget_begun_line()
            await self._split(old, is_late=True)
        await self._split(new)

    async def _split(self, data: bytes, *, is_late: bool = False) -> None:
        *lines, rest = data.split(b"\n")
        for line in lines:
            await self._say(line, is_late=is_late)
        if rest and not self._begun:
            self._begun_for = "" if is_late else self._question
        self._begun += rest
        if len(self._begun) > _LONGEST:
            await self._say(b"")

    async def _say(self, end: bytes, *, is_late: bool = False) -> None:
        """Tell of a line, which answers a question only if that was open from its beginning on."""
        opened = self._begun_for if self._begun else self._question
        line, self._begun = self._begun + end, b""
        question = "" if is_late else opened
        await self._send.send(Line(line.decode("utf-8", "replace").rstrip("\r"), question))
