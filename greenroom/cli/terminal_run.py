"""`greenroom` in a terminal: the input line is there at once, and the agent once it is loaded.

What is typed until then waits in the line, or to be sent.
"""

from contextlib import suppress
from importlib import import_module

import trio

from greenroom.cli.background import has_light_background
from greenroom.cli.options import Options
from greenroom.cli.stdio import EndSignals, OutputWriter
from greenroom.cli.terminal import Terminal, open_plain_terminal
from greenroom.cli.terminal_choice import terminal_opener
from greenroom.core import GreenroomError


async def run_in_terminal(options: Options) -> int:
    """Talk with the coding agent in the terminal until the person leaves; return the exit code.

    SIGTERM and SIGHUP end it as leaving does: the current turn is interrupted, the session saved,
    the terminal restored. SIGUSR1 writes what the agents are doing to the log, else to the file
    `dump.txt` in the user's state folder.

    Raises:
        GreenroomError: the run can't begin: its set-up or its session can't be used.
    """
    signals, fault = EndSignals(), None
    code, last_words = 0, ""
    opener, is_light = terminal_opener(), False
    if opener is not open_plain_terminal:
        is_light = await trio.to_thread.run_sync(has_light_background)
    async with opener() as terminal, trio.open_nursery() as nursery:
        await nursery.start(signals.watch, nursery.cancel_scope)
        try:
            code, last_words = await _load_and_run(options, terminal, is_light)
        except (GreenroomError, OSError) as error:
            fault = error  # raised once the terminal is restored
        nursery.cancel_scope.cancel()
    if fault is not None:
        raise fault
    if last_words:
        with suppress(OSError):  # the terminal may be closed
            await OutputWriter().text(last_words)
    return code if signals.exit_code is None else signals.exit_code


async def _load_and_run(options: Options, terminal: Terminal, is_light: bool) -> tuple[int, str]:
    # In a thread, since it takes far longer than a key may wait.
    module = await trio.to_thread.run_sync(import_module, "greenroom.cli.interactive")
    result: tuple[int, str] = await module.run_sessions(options, terminal, is_light)
    return result
