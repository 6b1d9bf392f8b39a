"""`greenroom` without `-p`: the coding agent in the terminal."""

import signal
from contextlib import suppress

import trio
from rich.console import RenderableType
from rich.text import Text

from greenroom._version import __version__
from greenroom.cli.arguments import DONE, FAILED, USAGE, Options
from greenroom.cli.diagnostics import open_dump_target, serve_tree
from greenroom.cli.formatting import count_earlier_turns, recap
from greenroom.cli.painter import ColorScheme
from greenroom.cli.render_chunk import render_recap
from greenroom.cli.renderer import ConsoleRenderer
from greenroom.cli.run_setup import RunSetup, open_setup
from greenroom.cli.stdio import EndSignals, OutputWriter
from greenroom.cli.stored_sessions import describe_session, resume_command
from greenroom.core import EndStatus, SessionError, TurnStart, visible
from greenroom.runtime import AgentHandle, AgentRuntime, Outcome
from greenroom.session import AgentSession

_RECAP_MESSAGES = 6  # messages of a resumed session that are shown


async def run_interactive(options: Options) -> int:
    """Talk with the coding agent in the terminal until the person leaves; return the exit code.

    SIGTERM and SIGHUP end it as leaving does: the current turn is interrupted, the session saved,
    the terminal restored. SIGUSR1 writes what the agents are doing to the log, else to the file
    `dump.txt` in the user's state folder.

    Raises:
        GreenroomError: the run can't begin: its set-up or its session can't be used.
    """
    colors = ColorScheme()
    async with open_setup(options) as setup:
        outcome: Outcome | None = None
        async with AgentRuntime(setup.store, workspace=setup.workspace) as runtime:
            handle = setup.spawn(runtime, unattended="ask")
            renderer = ConsoleRenderer(
                handle,
                colors=colors,
                model=setup.model_name,
                modes=setup.modes,
                currency=setup.currency,
                window=setup.window,
                opening=_render_opening(setup, colors),
            )
            dumps = open_dump_target(options, owns_terminal=True)
            with runtime.dump_on_signal(signal.SIGUSR1, dumps):
                async with trio.open_nursery() as nursery:
                    signals = EndSignals()
                    await nursery.start(signals.watch, nursery.cancel_scope)
                    nursery.start_soon(_describe, setup, handle)
                    nursery.start_soon(serve_tree, runtime)
                    outcome = await renderer.run()
                    nursery.cancel_scope.cancel()
            await handle.interrupt()
        if setup.session.history:
            with suppress(OSError):  # the terminal may be closed
                await OutputWriter().text(
                    f"{resume_command(setup.session.session_id, options)}   continues this session"
                )
    return _exit_code(outcome) if signals.exit_code is None else signals.exit_code


async def _describe(setup: RunSetup, handle: AgentHandle) -> None:
    """Describe the session once it has its first input of this run."""
    async with handle.subscribe("all") as chunks:
        async for chunk in chunks:
            if isinstance(chunk, TurnStart):
                describe_session(setup.session, setup.workspace)
                return


def _exit_code(outcome: Outcome | None) -> int:
    if outcome is not None and isinstance(outcome.error, SessionError):
        return USAGE
    return DONE if outcome is None or outcome.status is EndStatus.COMPLETED else FAILED


def _render_opening(setup: RunSetup, colors: ColorScheme) -> list[RenderableType]:
    """Render the opening: model, workspace, notes, the conversation so far."""
    head = f"greenroom {__version__} · {setup.model_name} · {setup.workspace}"
    lines: list[RenderableType] = [Text(visible(head), colors.tool)]
    lines += [Text(visible(warning), colors.error) for warning in setup.warnings]
    lines += [Text(visible(note), colors.note) for note in setup.notes]
    earlier = recap(setup.session.history, _RECAP_MESSAGES)
    if earlier:
        lines.append(Text(_describe_recap(setup.session), colors.note))
    for line in earlier:
        lines += [render_recap(line, colors), Text("")]
    return [*lines, Text("")]


def _describe_recap(session: AgentSession) -> str:
    omitted = count_earlier_turns(session.history, _RECAP_MESSAGES)
    turns = "turn is" if omitted == 1 else "turns are"
    more = f" ({omitted} earlier {turns} left out)" if omitted else ""
    return f"session {session.session_id}, so far{more}:"
