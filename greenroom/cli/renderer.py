"""`ConsoleRenderer` shows any agent in the terminal, and lets the person at it act."""

import signal
import threading
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import cast

import trio

from greenroom.cli.command_context import OpenRun
from greenroom.cli.modes import ModeSwitch
from greenroom.cli.painter import ColorScheme
from greenroom.cli.person import Person
from greenroom.cli.renderables import RenderableType
from greenroom.cli.screen import Screen
from greenroom.cli.terminal import Key, KeyName, PersonEvent, TerminalOpener
from greenroom.cli.terminal_choice import terminal_opener
from greenroom.core import OutputChunk, TextDelta, ThinkingDelta
from greenroom.runtime import AgentHandle, Outcome, Subscription

_LAST_FRAME = 1.0  # seconds for the terminal to show what was left open


class ConsoleRenderer:
    """Shows an agent in the terminal until it ends, or the person leaves.

    Finished output is printed once and scrolls away as usual. Below it are the output that still
    changes, an input line that is always open, and a status line. A line entered while the agent
    works is its next input. Permission requests of the agent and its subagents are asked one at a
    time. Esc and Ctrl-C interrupt; Ctrl-C or Ctrl-D twice leaves, as does one Ctrl-D on an empty
    line while the agent is idle.

    If standard input or output is not a terminal, or `TERM` is "dumb", text is plain and lines are
    read as they come. `NO_COLOR` is honoured.

    Args:
        handle: the agent.
        colors: other colours than the usual.
        model: the model's name for the status line, until the agent reports one.
        mode: the permission mode, which the status line shows unless it is the default.
        modes: switches the mode of the agent's rules, by Shift-Tab; then `mode` is not needed.
        currency: of the cost in the status line, such as "USD", if the model's price is known.
        window: the tokens that the model takes, if not as the catalogue says.
        notify: how to call the person when a question waits or a long turn has ended: "bell",
            "title", "osc9", "osc777".
        opening: content to print first.
        terminal: opens another terminal than that of standard input and output.
        open_run: the run of the `greenroom` command, whose own commands the line then has as well.

    Example:
        ```python
        handle = runtime.spawn(AgentSession.new("coder"), coder, llm, tools, permissions)
        await ConsoleRenderer(handle).run()
        ```
    """

    def __init__(
        self,
        handle: AgentHandle,
        *,
        colors: ColorScheme | None = None,
        model: str = "",
        mode: str = "default",
        modes: ModeSwitch | None = None,
        currency: str = "",
        window: int | None = None,
        notify: Sequence[str] = (),
        opening: Sequence[RenderableType] = (),
        terminal: TerminalOpener | None = None,
        open_run: OpenRun | None = None,
    ) -> None:
        """Take the agent; nothing is shown before `run`.

        Raises:
            TypeError: it is not the handle of one.
        """
        if not hasattr(handle, "subscribe"):
            raise TypeError(
                f"{handle!r} is not a handle: write ConsoleRenderer(runtime.spawn(session, agent))"
            )
        self._handle = handle
        self._colors = colors or ColorScheme()
        self._model = model
        self._mode = mode
        self._modes = modes
        self._currency = currency
        self._window = window
        self._notify = notify
        self._opening = opening
        self._open_terminal = terminal or terminal_opener()
        self._open_run = open_run

    async def run(self) -> Outcome | None:
        """Show the agent until it ends or the person leaves; call it once.

        Returns:
            How the agent ended, or None if the person left and it is still running.
        """
        async with (
            self._open_terminal() as terminal,
            self._handle.subscribe("all", answers=True) as chunks,
        ):
            screen = Screen(
                terminal,
                self._colors,
                self._model,
                self._get_mode,
                self._currency,
                self._window,
                self._notify,
                self._get_place,
                self._get_remark,
            )
            screen.print(*self._opening)
            try:
                return await self._show(chunks, screen, terminal.events)
            finally:
                screen.finish()
                with trio.CancelScope(shield=True):
                    await screen.draw_rest(_LAST_FRAME)

    def _get_mode(self) -> str:
        return self._mode if self._modes is None else self._modes.current

    def _get_place(self) -> Sequence[str]:
        return () if self._open_run is None else self._open_run.place

    def _get_remark(self) -> str:
        return "" if self._open_run is None else self._open_run.remark

    async def _show(
        self,
        chunks: Subscription,
        screen: Screen,
        events: trio.MemoryReceiveChannel[PersonEvent],
    ) -> Outcome | None:
        outcome: Outcome | None = None
        async with trio.open_nursery() as nursery:
            person = Person(self._handle, screen, nursery, self._open_run, self._modes)
            nursery.start_soon(person.handle_events, events)
            nursery.start_soon(_watch_interrupts, person, screen)
            if screen.terminal.is_live:
                nursery.start_soon(person.show_notices)
            await screen.draw()
            nursery.start_soon(screen.draw_changes)
            while taken := await chunks.take():
                for chunk in _join_pieces(taken):
                    screen.feed(chunk)
                    await person.note(chunk)
                    if screen.is_full:
                        await screen.draw()
            outcome = await self._handle.wait()
            nursery.cancel_scope.cancel()
        return outcome


def _join_pieces(chunks: Sequence[OutputChunk]) -> Iterator[OutputChunk]:
    """Join the pieces of a text, or of a thought, that come one behind the other."""
    for kind, group in groupby(chunks, type):
        if kind is TextDelta:
            deltas = cast("Iterator[TextDelta]", group)
            yield TextDelta("".join([each.text for each in deltas]))
        elif kind is ThinkingDelta:
            thoughts = cast("Iterator[ThinkingDelta]", group)
            yield ThinkingDelta("".join([each.text for each in thoughts]))
        else:
            yield from group


async def _watch_interrupts(person: Person, screen: Screen) -> None:
    """Take SIGINT as Ctrl-C; where keys are read one by one, it comes from other processes only."""
    if threading.current_thread() is not threading.main_thread():
        return  # signals are the main thread's
    with trio.open_signal_receiver(signal.SIGINT) as signals:
        async for _ in signals:
            await person.press(Key(KeyName.CTRL_C))
            await screen.draw()
