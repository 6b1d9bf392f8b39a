"""A terminal without control codes: a pipe, a file, or `TERM=dumb`."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import trio

from greenroom.cli.byte_reader import read_some
from greenroom.cli.output_writer import OutputWriter
from greenroom.cli.painter import Colors
from greenroom.cli.terminal import Closed, Frame, Line, PersonEvent, Terminal

__all__ = ["open_plain_terminal"]

_QUEUE = 64
_LONGEST = 1_000_000  # bytes of a line; a longer one is taken in pieces


@asynccontextmanager
async def open_plain_terminal(descriptor: int = 0) -> AsyncIterator[Terminal]:
    """Print what is finished, read lines; nothing is ever redrawn.

    A line can answer a question only if it arrives after the question was printed, label included.
    (While a person types, such a terminal does not show a program the beginning of the line.)
    """
    async with trio.open_nursery() as nursery:
        terminal = _PlainTerminal()
        nursery.start_soon(terminal.read_lines, descriptor)
        yield terminal
        nursery.cancel_scope.cancel()


class _PlainTerminal:
    colors: Colors = None

    def __init__(self) -> None:
        self._out = OutputWriter()
        self._question = self._hint = ""
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
        if frame.printed:
            await self._out.line(frame.printed.removesuffix("\n").encode("utf-8", "replace"))
        hint, self._hint = self._hint, frame.hint
        if frame.hint and frame.hint != hint:
            await self._out.line(frame.hint.encode())
        question = frame.question
        before, self._question = self._question, question.id if question else ""
        if question is not None and question.id != before:
            # Only now, since the label says that the next line may be the answer.
            await self._out.line(question.label.rstrip().encode())

    def clear_line(self) -> None:
        pass  # the line is the terminal's own

    async def read_lines(self, descriptor: int) -> None:
        with suppress(trio.ClosedResourceError):
            await self._read_lines(descriptor)

    async def _read_lines(self, descriptor: int) -> None:
        data = b""
        while more := await read_some(descriptor):
            *lines, data = (data + more).split(b"\n")
            if len(data) > _LONGEST:
                lines, data = [*lines, data], b""
            for line in lines:
                await self._say(line)
        if data:
            await self._say(data)
        await self._send.send(Closed())

    async def _say(self, line: bytes) -> None:
        await self._send.send(Line(line.decode("utf-8", "replace").rstrip("\r"), self._question))
