"""`ConsoleRenderer`: shows any agent in the terminal, and takes what the person says to it."""

import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence

import trio
from rich.console import RenderableType

from greenroom.cli.console.person import Person
from greenroom.cli.console.screen import Screen
from greenroom.cli.drawing.theme import ColorScheme
from greenroom.cli.terminal.plain_terminal import open_plain_terminal
from greenroom.cli.terminal.terminal import Key, KeyName, PersonEvent, TerminalOpener
from greenroom.runtime import AgentHandle, Outcome, Subscription

_LAST_FRAME = 1.0  # seconds for the terminal to show what was left open


class ConsoleRenderer:
    """Shows an agent in the terminal until it ends, or the person leaves.

    Finished output is printed once and scrolls away as usual; below it stand what still changes, an
    input line that is always open, and a status line. What is typed while the agent works goes to
    it as the next input. Permission requests of the agent and its subagents are asked one at a
    time. Esc and Ctrl-C interrupt; Ctrl-C or Ctrl-D twice leaves, as does one Ctrl-D on an empty
    line while the agent is idle.

    Where standard input or output is no terminal, or `TERM` is "dumb", text is plain and lines are
    read as they come. `NO_COLOR` is honoured.

    Args:
        handle: the agent.
        colors: other colours than the usual.
        model: the model's name for the status line, until the agent reports one.
        mode: the permission mode, which the status line shows where it is not the usual one.
        currency: of the cost in the status line, such as "USD", where the model's price is known.
        opening: what is printed first.
        terminal: opens another terminal than that of standard input and output.

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
        currency: str = "",
        opening: Sequence[RenderableType] = (),
        terminal: TerminalOpener | None = None,
    ) -> None:
        """Take the agent; nothing is shown before `run`."""
        self._handle = handle
        self._colors = colors or ColorScheme()
        self._model = model
        self._mode = mode
        self._currency = currency
        self._opening = opening
        self._open_terminal = terminal or terminal_opener()

    async def run(self) -> Outcome | None:
        """Show the agent until it ends or the person leaves; call it once.

        Returns:
            How the agent ended, or None where the person left and it is still running.
        """
        async with (
            self._open_terminal() as terminal,
            self._handle.subscribe("all", answers=True) as chunks,
        ):
            screen = Screen(terminal, self._colors, self._model, self._mode, self._currency)
            screen.print(*self._opening)
            try:
                return await self._show(chunks, screen, terminal.events)
            finally:
                screen.finish()
                with trio.CancelScope(shield=True, deadline=trio.current_time() + _LAST_FRAME):
                    await screen.draw()

    async def _show(
        self,
        chunks: Subscription,
        screen: Screen,
        events: trio.MemoryReceiveChannel[PersonEvent],
    ) -> Outcome | None:
        outcome: Outcome | None = None
        async with trio.open_nursery() as nursery:
            person = Person(self._handle, screen, nursery)
            nursery.start_soon(person.heed, events)
            nursery.start_soon(_heed_interrupts, person, screen)
            await screen.draw()
            async for chunk in chunks:
                screen.feed(chunk)
                await person.note(chunk)
                # Whoever lags behind draws what is printed, and the rest once it has caught up.
                if chunks.lag == 0 or screen.is_full:
                    await screen.draw()
            outcome = await self._handle.wait()
            nursery.cancel_scope.cancel()
        return outcome


async def _heed_interrupts(person: Person, screen: Screen) -> None:
    """Take SIGINT as Ctrl-C; where keys are read one by one, it comes from outside only."""
    if threading.current_thread() is not threading.main_thread():
        return  # signals are the main thread's
    with trio.open_signal_receiver(signal.SIGINT) as signals:
        async for _ in signals:
            await person.press(Key(KeyName.CTRL_C))
            await screen.draw()


def terminal_opener(env: Mapping[str, str] = os.environ) -> TerminalOpener:
    """Choose the terminal of standard input and output: with a live display where it can show one."""
    is_real = sys.stdin.isatty() and sys.stdout.isatty()
    if not is_real or env.get("TERM", "") in ("", "dumb"):
        return open_plain_terminal
    from greenroom.cli.terminal.prompt_terminal import open_prompt_terminal

    return open_prompt_terminal
