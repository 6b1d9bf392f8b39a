"""`greenroom` in a terminal: the input line is there at once, and the agent once it is loaded.

What is typed until then waits in the line, or to be sent.
"""

import os
from contextlib import nullcontext, suppress
from importlib import import_module
from typing import TYPE_CHECKING

import trio

from greenroom.cli.background import has_light_background
from greenroom.cli.loading import end_loading
from greenroom.cli.options import Options
from greenroom.cli.stdio import EndSignals, OutputWriter
from greenroom.cli.terminal import Terminal, open_plain_terminal
from greenroom.cli.terminal_choice import terminal_opener
from greenroom.core import GreenroomError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

# What the model's first request needs, and would else load while keys wait.
_OF_A_REQUEST = ("greenroom.net.client", "encodings.idna")


async def run_in_terminal(options: Options, *, is_complete: bool = False) -> int:
    """Talk with the coding agent in the terminal until the person leaves; return the exit code.

    SIGTERM and SIGHUP end it as leaving does: the current turn is interrupted, the session saved,
    the terminal restored. SIGUSR1 writes what the agents are doing to the log, else to the file
    `dump.txt` in the user's state folder.

    Args:
        options: the options.
        is_complete: whether the settings of user and project are in them already.

    Raises:
        GreenroomError: the run can't begin: its settings, set-up or session can't be used.
    """
    signals, fault = EndSignals(), None
    code, last_words = 0, ""
    opener, is_light = terminal_opener(), False
    if opener is not open_plain_terminal:
        is_light = await trio.to_thread.run_sync(has_light_background)
    async with opener() as terminal, trio.open_nursery() as nursery:
        await nursery.start(signals.watch, nursery.cancel_scope)
        try:
            # In a thread, since it takes far longer than a key may wait.
            begin = await trio.to_thread.run_sync(_load, options, is_complete)
            code, last_words = await begin(terminal, is_light)
        except (GreenroomError, OSError) as error:
            fault = error  # raised once the terminal is restored
        nursery.cancel_scope.cancel()
    if fault is not None:
        raise fault
    if last_words:
        with suppress(OSError):  # the terminal may be closed
            await OutputWriter().text(last_words)
    return code if signals.exit_code is None else signals.exit_code


def _load(
    options: Options, is_complete: bool
) -> "Callable[[Terminal, bool], Awaitable[tuple[int, str]]]":
    """Load the agent and all that belongs to it, and the settings; return what begins the run."""
    from greenroom.cli.diagnostics import log_to_file
    from greenroom.cli.interactive import run_sessions
    from greenroom.cli.settings_layers import read_layers, resolve
    from greenroom.cli.stored_sessions import working_folder

    for name in _OF_A_REQUEST:
        import_module(name)
    end_loading()
    if not is_complete:
        options = resolve(options, read_layers(working_folder(), os.environ))

    async def begin(terminal: Terminal, is_light: bool) -> tuple[int, str]:
        with nullcontext() if options.log is None else log_to_file(options.log):
            return await run_sessions(options, terminal, is_light)

    return begin
