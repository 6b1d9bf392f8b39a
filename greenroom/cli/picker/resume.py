"""`greenroom --resume` without an id: ask which session, and go on with it."""

import os
import signal
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import trio

from greenroom.cli.picker.choice import Choice
from greenroom.cli.picker.entry import entries_of
from greenroom.cli.run.end_signals import EndSignals
from greenroom.cli.run.folders import working_folder
from greenroom.cli.run.store import open_store
from greenroom.cli.turn_record import INTERRUPTED
from greenroom.core import ConfigurationError, SessionNotFoundError
from greenroom.session import AgentSession, SessionStore

if TYPE_CHECKING:
    from greenroom.cli.options import Options


async def run_resume(options: "Options") -> int:
    """Let the person choose a session, and go on with it; return the exit code.

    Leaving without one is exit code 130, as an interrupt.

    Raises:
        ConfigurationError: there is no terminal to choose on.
        GreenroomError: there is no session, or the one chosen can't be gone on with.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigurationError(
            "--resume without an id lets you choose on a terminal, and this is none",
            hint="name the session: --resume ID; `greenroom sessions list` shows them",
        )
    store = open_store(options)
    choice = await _read_choice(store)
    signals, chosen = EndSignals(signal.SIGINT), None
    async with trio.open_nursery() as nursery:
        await nursery.start(signals.heed, nursery.cancel_scope)
        chosen = await _choose(choice, store)
        nursery.cancel_scope.cancel()
    if chosen is None:
        return INTERRUPTED if signals.exit_code is None else signals.exit_code
    # Only now: it loads far more than the list needs.
    from greenroom.cli.interactive import run_interactive

    return await run_interactive(replace(options, resume=chosen))


async def _read_choice(store: SessionStore) -> Choice:
    entries = entries_of(await AgentSession.list_all(store=store), working_folder())
    if not entries:
        raise SessionNotFoundError(
            "there is no session yet to go on with", hint="start one without --resume"
        )
    return Choice(entries)


async def _choose(choice: Choice, store: SessionStore) -> str | None:
    if os.environ.get("TERM", "") in ("", "dumb"):
        from greenroom.cli.picker.numbered import choose_by_number

        return await choose_by_number(choice)
    from greenroom.cli.picker.picker import choose_on_screen

    return await choose_on_screen(choice, store)
