"""Standard input and output of the program: reading, writing, asking, and the signals that end it.

Whatever may wait for another process waits in a thread or in the loop, so a cancel is never delayed
and a slow reader stops no agent.
"""

import array
import errno
import fcntl
import os
import shutil
import signal
import stat
import sys
import termios
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

import msgspec
import trio

from greenroom.core import ConfigurationError
from greenroom.core._internal import serde, visible

if TYPE_CHECKING:
    from rich.console import RenderableType


_READ_SIZE = 65_536


def is_stream(descriptor: int) -> bool:
    """Whether one can wait for input from it: a pipe, a socket, a terminal."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


def is_hung_up(descriptor: int) -> bool:
    """Whether the terminal is gone: its window was closed, and SIGHUP may come a moment later."""
    try:
        termios.tcgetattr(descriptor)
    except termios.error as error:
        return bool(error.args[0] == errno.EIO)
    return False


async def read_some(descriptor: int) -> bytes:
    """Read the bytes that are available, waiting for the first; return b"" at the end.

    Raises:
        OSError: it can't be read.
    """
    if is_stream(descriptor):
        await trio.lowlevel.wait_readable(descriptor)
        return os.read(descriptor, _READ_SIZE)
    return await trio.to_thread.run_sync(os.read, descriptor, _READ_SIZE)


async def wait_for_hang_up(descriptor: int = 1) -> None:
    """Wait until the reader of this pipe is gone; forever where the system does not tell."""
    is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    is_written = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY
    if sys.platform != "linux" or not (is_pipe and is_written):
        await trio.sleep_forever()
    await trio.lowlevel.wait_readable(descriptor)  # what is only written wakes it by its fault


def count_unread(descriptor: int) -> int:
    """Return how many bytes can be read now; of a terminal, whole lines only; of a file, 0."""
    if not is_stream(descriptor):
        return 0
    count = array.array("i", [0])
    try:
        fcntl.ioctl(descriptor, termios.FIONREAD, count)
    except OSError:
        return 0
    return count[0]


MAX_PIPED = 1_000_000
"""The most bytes that are read; the rest is dropped, and the prompt says so."""

# A parent process that ignores standard input may leave its pipe open forever.
_FIRST_BYTE_TIMEOUT = 3.0


async def read_piped(descriptor: int = 0) -> str:
    """Read piped input as UTF-8; return an empty text for a terminal, or if nothing comes.

    A pipe that is silent for three seconds counts as empty. Invalid UTF-8 is replaced.
    """
    try:
        patience = _FIRST_BYTE_TIMEOUT if is_stream(descriptor) else float("inf")
    except OSError:  # closed
        return ""
    return "" if os.isatty(descriptor) else await read_all(descriptor, patience)


async def read_all(descriptor: int = 0, patience: float = float("inf")) -> str:
    """Read input as UTF-8 to its end; invalid UTF-8 is replaced, and what is too long is cut.

    Nothing counts as the end if nothing comes for `patience` seconds.
    """
    data = b""
    with trio.move_on_after(patience) as scope:
        while len(data) <= MAX_PIPED and (more := await read_some(descriptor)):
            data += more
            scope.deadline = float("inf")
    text = data[:MAX_PIPED].decode("utf-8", "replace")
    return f"{text}\n[cut after {MAX_PIPED} bytes]" if len(data) > MAX_PIPED else text


def add_context(prompt: str, piped: str) -> str:
    r"""Add piped input below the prompt.

    Example:
        >>> add_context("explain", "x = 1")
        'explain\n\n<stdin>\nx = 1\n</stdin>'
    """
    return f"{prompt}\n\n<stdin>\n{piped}\n</stdin>" if piped.strip() else prompt


_PIPE_COLUMNS = 10_000  # columns of a pipe or a file


class Page(msgspec.Struct):
    """What commands print while `collect_output` collects it.

    Attributes:
        columns: how wide they may write.
        data: what they have written.
    """

    columns: int
    data: bytearray = msgspec.field(default_factory=bytearray)

    @property
    def text(self) -> str:
        """What they have written, with its colours as a terminal takes them."""
        return self.data.decode("utf-8", "replace").removesuffix("\n")


_page: ContextVar[Page | None] = ContextVar("_page", default=None)


@contextmanager
def collect_output(columns: int) -> Iterator[Page]:
    """Collect what commands of the command line print in this task, as for a terminal."""
    page = Page(columns)
    token = _page.set(page)
    try:
        yield page
    finally:
        _page.reset(token)


class OutputWriter:
    """Writes what a command prints, each piece at once; nothing is redrawn."""

    def __init__(self, descriptor: int = 1) -> None:
        """Write to this file descriptor, or to the page that is collected."""
        self._descriptor = descriptor
        self._page = _page.get()
        self.is_terminal = self._page is not None or os.isatty(descriptor)

    async def text(self, text: str) -> None:
        """Write a text and a newline; for a terminal, control characters are made visible.

        Raises:
            BrokenPipeError: the reader is gone.
            OSError: the disk that it goes to is full or broken.
        """
        printable = visible(text) if self.is_terminal else text
        await self.line(printable.encode("utf-8", "replace"))

    async def line(self, line: bytes) -> None:
        """Write bytes and a newline; the errors are those of `text`."""
        await self.raw(line + b"\n")

    async def raw(self, data: bytes) -> None:
        """Write bytes as they are; the errors are those of `text`."""
        await trio.to_thread.run_sync(self._write, data, abandon_on_cancel=True)

    async def result(self, text: str, data: dict[str, object], *, as_json: bool) -> None:
        """Write a result as a text for people, or as JSON."""
        await (self.line(serde.encode(data)) if as_json else self.text(text))

    def write(self, text: str) -> None:
        """Write a piece of a text in the thread that calls, without a newline."""
        printable = visible(text) if self.is_terminal else text
        self._write(printable.encode("utf-8", "replace"))

    @property
    def columns(self) -> int | None:
        """How wide the terminal is; None for a pipe or a file."""
        if self._page is not None:
            return self._page.columns
        return shutil.get_terminal_size().columns if self.is_terminal else None

    async def show(self, *renderables: "RenderableType") -> None:
        """Write these one below the other, painted for a terminal and plain for a pipe or a file.

        They must make control characters visible themselves.
        """
        from greenroom.cli.painter import Painter, detect_colors

        painter = Painter(detect_colors(os.environ) if self.is_terminal else None)
        painted = painter.paint(renderables, self.columns or _PIPE_COLUMNS)
        await self.line(painted.removesuffix("\n").encode("utf-8", "replace"))

    async def table(self, names: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Write rows in columns with these names; a cell that is too wide is folded."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        for name in names:
            table.add_column(name, overflow="fold")
        for row in rows:
            table.add_row(*(Text(visible(cell)) for cell in row))
        await self.show(table)

    def _write(self, data: bytes) -> None:
        if self._page is not None:
            self._page.data += data
            return
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            raise OSError(error.errno, error.strerror, "standard output") from error


def tell(*notes: str) -> None:
    """Write notes for the user to standard error, a line each; without a reader they are lost."""
    if (page := _page.get()) is not None:
        page.data += "".join(f"{visible(note)}\n" for note in notes).encode("utf-8", "replace")
        return
    try:
        for note in notes:
            print(f"greenroom: {visible(note)}", file=sys.stderr, flush=True)
    except OSError:  # what else is to be said, and what Python writes at the exit, is lost as well
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)


_YES = ("y", "yes")


async def confirm(question: str, hint: str = "add --yes") -> bool:
    """Ask the person at the terminal; anything but yes is no, the end of the input too.

    The question goes to standard error, so that standard output has results only. `hint` says what
    to do without a terminal.

    Raises:
        ConfigurationError: standard input is not a terminal.
    """
    if not os.isatty(0):
        raise ConfigurationError(
            "there is no terminal to ask at: standard input is not one", hint=hint
        )
    await trio.lowlevel.checkpoint()
    print(f"{visible(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    answer = b""
    while not answer.endswith(b"\n") and (more := await read_some(0)):
        answer += more
    return answer.decode("utf-8", "replace").strip().casefold() in _YES


class EndSignals:
    """Cancels a scope when a signal arrives, and remembers which."""

    def __init__(self, *others: signal.Signals) -> None:
        """Watch for SIGTERM, SIGHUP and these."""
        self._signals = (signal.SIGTERM, signal.SIGHUP, *others)
        self._signal: int | None = None

    async def watch(self, scope: trio.CancelScope, task_status: trio.TaskStatus[None]) -> None:
        """Cancel this scope when one comes; runs until it is cancelled itself."""
        with trio.open_signal_receiver(*self._signals) as signals:
            task_status.started()
            async for number in signals:
                self._signal = number
                scope.cancel()

    @property
    def exit_code(self) -> int | None:
        """The exit code for the signal that came, as a shell has it; None if none came."""
        return None if self._signal is None else 128 + self._signal
