"""A real terminal: an input line at the bottom that is always open, and everything else above it.

prompt_toolkit runs on asyncio, so its application lives in its own thread. Two rules keep the
threads apart: trio's side passes frames with `call_soon_threadsafe` and waits until each is
written; the terminal's side passes events with `trio.from_thread`, and when the queue is
full, the text stays in the line.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import trio

from greenroom.cli.painter import Colors, detect_colors
from greenroom.cli.prompt_application import PromptApplication
from greenroom.cli.terminal import Closed, Frame, PersonEvent, Terminal

_MAX_EVENTS = 256


@asynccontextmanager
async def open_prompt_terminal() -> AsyncIterator[Terminal]:
    """Use the terminal of standard input and output until the block ends.

    While a question is open it is shown whole above the line, page by page where it is longer than
    the screen, and the line is for its answer alone: what was in it before comes back afterwards.
    """
    terminal = _PromptTerminal()
    async with trio.open_nursery() as nursery:
        await nursery.start(terminal.run)
        try:
            yield terminal
        finally:
            terminal.close()


class _PromptTerminal:
    """Trio's side of the application."""

    is_live = True

    def __init__(self) -> None:
        self._send, self.events = trio.open_memory_channel[PersonEvent](_MAX_EVENTS)
        self._token = trio.lowlevel.current_trio_token()
        self._frame_events: set[trio.Event] = set()
        self._is_ended = False
        self.colors: Colors = detect_colors()
        self._application = PromptApplication(self._pass_event, self.colors)

    @property
    def size(self) -> tuple[int, int]:
        return self._application.size

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        def started() -> None:
            self._token.run_sync_soon(task_status.started)

        try:
            await trio.to_thread.run_sync(self._application.run, started)
        finally:
            self._is_ended = True
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
