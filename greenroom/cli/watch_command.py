"""`greenroom watch`: what an agent of another process does, while it does it."""

import os
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, cast

import trio
from rich.text import Text

from greenroom.cli.agent_view import AgentView
from greenroom.cli.command_options import WatchOptions
from greenroom.cli.diagnostics import read_tree, read_trees
from greenroom.cli.painter import ColorScheme, Painter, detect_colors
from greenroom.cli.stdio import EndSignals, OutputWriter, tell
from greenroom.cli.watched_agent import WatchedAgent, find_agent, read_lines
from greenroom.core import (
    Exited,
    GreenroomError,
    OutputChunk,
    PermissionRequest,
    SubAgentOutput,
    TurnStart,
)
from greenroom.core._internal import InvalidJSONError, leaves, serde, visible
from greenroom.interop._internal import serve_shown

if TYPE_CHECKING:
    from rich.console import RenderableType

_INTERVAL = 1.0  # seconds between two looks at the tree
_FRAME = 0.05  # seconds between two frames
_LAST_FRAME = 1.0  # seconds to write one
_LAST_WORDS = 5.0  # seconds for pages to read the end of an agent
_ROWS = 8  # of the tree
_MARGIN = 4  # rows of the terminal that are left to what was printed
_PIPE = 10_000  # columns of a pipe or a file


async def watch_agent(options: WatchOptions) -> int:
    """Show what an agent says and calls until it ends or a signal comes; return the exit code.

    Raises:
        SessionError: no running agent, or more than one, has such an id.
        ConfigurationError: the page in a browser needs hypercorn, which is not installed.
        OSError: standard output can't be written.
    """
    signals = EndSignals(signal.SIGINT)
    failure: BaseException | None = None
    try:
        await _watch(options, signals)
    except* (GreenroomError, OSError) as group:
        failure = leaves(group)[0]
    if failure is not None:
        raise failure
    return signals.exit_code or 0


async def _watch(options: WatchOptions, signals: EndSignals) -> None:
    id_, path = find_agent(options.ids[0], await read_trees())
    watcher = _Watcher(path)
    async with trio.open_nursery() as nursery:
        await nursery.start(signals.watch, nursery.cancel_scope)
        try:
            async with await trio.open_unix_socket(os.fspath(path)) as stream:
                await stream.send_all(id_.encode() + b"\n")
                if options.web:
                    await _show_page(WatchedAgent(id_, path, options), stream)
                else:
                    await (_print_lines(stream) if options.json else watcher.show(stream))
        except (ConnectionRefusedError, FileNotFoundError, trio.BrokenResourceError):
            tell("the process of the agent has ended")
        nursery.cancel_scope.cancel()


async def _print_lines(stream: trio.SocketStream) -> None:
    await read_lines(stream, OutputWriter().line)


async def _show_page(agent: WatchedAgent, stream: trio.SocketStream) -> None:
    """Serve the page until the agent ends."""
    async with trio.open_nursery() as nursery:
        tell(f"shown at {await nursery.start(serve_shown, agent)}")
        await read_lines(stream, _drop)
        with trio.move_on_after(_LAST_WORDS):
            await agent.wait_until_read()
        nursery.cancel_scope.cancel()


async def _drop(_line: bytes) -> None:
    await trio.lowlevel.checkpoint()


class _Watcher:
    """Draws what an agent says: what is finished once, and below it what still changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._scheme = ColorScheme()
        self._output = OutputWriter()
        self._is_live = self._output.is_terminal and os.environ.get("TERM", "") not in ("", "dumb")
        colors = detect_colors(os.environ) if self._output.is_terminal else None
        self._painter = Painter(colors)
        self._view = AgentView(self._scheme, redraws=self._is_live, clock=trio.current_time)
        self._tree: list[str] = []
        self._printed: list[RenderableType] = []
        self._changed = trio.Event()
        self._rows = 0  # that the last frame may redraw
        self._is_over = False

    async def show(self, stream: trio.SocketStream) -> None:
        """Draw until the agent ends, or its process does."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._draw_changes)
                if self._is_live:
                    nursery.start_soon(self._watch_tree)
                await read_lines(stream, self._feed)
                nursery.cancel_scope.cancel()
            if not self._is_over:
                self._printed.append(Text("the process of the agent has ended", self._scheme.note))
        finally:
            self._printed += self._view.finish()
            self._tree, self._is_live = [], False
            await self._draw()

    async def _feed(self, line: bytes) -> None:
        await trio.lowlevel.checkpoint()
        try:
            chunk: OutputChunk = serde.decode(line, cast("type[OutputChunk]", OutputChunk))
        except InvalidJSONError:
            return  # cut off, or of a newer version
        self._is_over = self._is_over or isinstance(chunk, Exited)
        inner = chunk
        while isinstance(inner, SubAgentOutput):
            inner = inner.chunk
        if isinstance(chunk, TurnStart) and chunk.text and not chunk.sender:
            self._printed += [Text(f"> {visible(chunk.text)}", self._scheme.user), Text("")]
        if isinstance(inner, PermissionRequest):
            asked = f"waits for an answer in its own terminal: {inner.tool_name}: {inner.action}"
            self._printed.append(Text(visible(asked), self._scheme.question))
        self._printed += self._view.feed(chunk)
        self._changed.set()

    async def _watch_tree(self) -> None:
        while True:
            found = await read_tree(self._path)
            lines = found.text.splitlines()[1:] if found else []
            more = [f"… {len(lines) - _ROWS} more"] if len(lines) > _ROWS else []
            self._tree = [*lines[:_ROWS], *more]
            self._changed.set()
            await trio.sleep(_INTERVAL)

    async def _draw_changes(self) -> None:
        while True:
            await self._changed.wait()
            self._changed = trio.Event()
            await self._draw()
            await trio.sleep(_FRAME)

    async def _draw(self) -> None:
        """Replace what the last frame left open by what is finished, and what is open now."""
        size = shutil.get_terminal_size((100, 24))
        columns = size.columns - 1 if self._output.is_terminal else _PIPE
        printed, self._printed = self._painter.paint(self._printed, columns, links=False), []
        live = self._paint_live(columns, max(size.lines - _MARGIN, 3)) if self._is_live else []
        back = f"\x1b[{self._rows}F\x1b[J" if self._rows else ""
        self._rows = len(live)
        text = "".join([back, printed, *(f"{line}\n" for line in live)]).removesuffix("\n")
        if text:
            data = text.encode("utf-8", "replace")
            # A frame that is cut off would stay so; the reader of a pipe may never take it.
            deadline = trio.current_time() + _LAST_FRAME
            with trio.CancelScope(shield=True, deadline=deadline):
                await self._output.line(data)

    def _paint_live(self, columns: int, rows: int) -> list[str]:
        tree = [
            Text(visible(line), self._scheme.note, no_wrap=True, overflow="ellipsis")
            for line in self._tree
        ]
        parts = [*self._view.live(rows // 2, 3), *tree]
        return self._painter.paint(parts, columns, links=False).splitlines()[-rows:]
