"""Trio's side of the live terminal, whose application runs in a thread of its own.

It passes frames to the application with `call_soon_threadsafe`, and waits until each is written.
What a person does comes back with `trio.from_thread`.
"""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING

import trio

from greenroom.cli.commands import Command
from greenroom.cli.menu import Candidate
from greenroom.cli.prompt_terminal import PromptApplication
from greenroom.cli.terminal import Closed, Frame, LineOptions, PersonEvent, Terminal

if TYPE_CHECKING:
    from greenroom.cli.painter import Colors

_MAX_EVENTS = 2_048  # the application reads half as many bytes at once, and draws nothing meanwhile


@asynccontextmanager
async def open_prompt_terminal() -> AsyncIterator[Terminal]:
    """Use the terminal of standard input and output until the block ends.

    While a question is open it is shown whole above the line, page by page where it is longer than
    the screen, and the line is for its answer alone: what was in it before comes back afterwards.
    """
    terminal = _PromptTerminal()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(terminal.run)
        try:
            await terminal.started.wait()
            yield terminal
        finally:
            terminal.close()


class _PromptTerminal:
    """Trio's side of the application."""

    is_live = True
    echoes = False

    def __init__(self) -> None:
        self._send, self.events = trio.open_memory_channel[PersonEvent](_MAX_EVENTS)
        self._token = trio.lowlevel.current_trio_token()
        self._frame_events: set[trio.Event] = set()
        self.started = trio.Event()  # once the line stands there
        self._is_ended = False
        has_colors = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "unknown"
        self._application = PromptApplication(self._pass_event, has_colors=has_colors)

    @property
    def size(self) -> tuple[int, int]:
        return self._application.size

    @cached_property
    def colors(self) -> "Colors":
        from greenroom.cli.painter import detect_colors  # loads rich, for which no key waits

        return detect_colors()

    async def run(self) -> None:
        report_start = partial(self._token.run_sync_soon, self.started.set)
        try:
            await trio.to_thread.run_sync(self._application.run, report_start)
        finally:
            self._is_ended = True
            self.started.set()
            for written in self._frame_events:
                written.set()
            self._enqueue(Closed())
            self._send.close()

    async def show(self, frame: Frame) -> None:
        written = trio.Event()
        self._frame_events.add(written)
        try:
            self._post(
                lambda: self._application.show(
                    frame, lambda: self._token.run_sync_soon(written.set)
                )
            )
            if not self._is_ended:
                await written.wait()
        finally:
            self._frame_events.discard(written)

    def clear_line(self) -> None:
        self._post(self._application.clear_line)

    def put_back(self, text: str) -> None:
        self._post(lambda: self._application.put_back(text))

    def adopt(self, options: LineOptions) -> None:
        self._post(lambda: self._application.adopt(options))

    def restyle(self, styles: Mapping[str, str]) -> None:
        self._post(lambda: self._application.restyle(styles))

    def know(self, commands: Sequence[Command]) -> None:
        self._post(lambda: self._application.know(commands))

    def offer(self, kind: str, candidates: Sequence[Candidate]) -> None:
        self._post(lambda: self._application.offer(kind, candidates))

    def close(self) -> None:
        self._post(self._application.close)

    def _post(self, function: Callable[[], None]) -> None:
        loop = self._application.loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop closed this moment
                loop.call_soon_threadsafe(function)

    def _pass_event(self, event: PersonEvent) -> bool:
        return trio.from_thread.run_sync(self._enqueue, event, trio_token=self._token)

    def _enqueue(self, event: PersonEvent) -> bool:
        try:
            self._send.send_nowait(event)
        except (trio.WouldBlock, trio.BrokenResourceError, trio.ClosedResourceError):
            return False
        return True
