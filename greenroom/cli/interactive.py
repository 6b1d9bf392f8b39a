"""`greenroom` without `-p`: the coding agent in the terminal."""

import signal
from collections.abc import Sequence
from contextlib import AsyncExitStack, nullcontext
from importlib import import_module

import msgspec
import trio
from rich.text import Text

from greenroom._version import __version__
from greenroom.cli.command_context import NextRun, OpenRun
from greenroom.cli.diagnostics import open_dump_target, serve_tree
from greenroom.cli.formatting import count_earlier_turns, recap
from greenroom.cli.hooks import SessionSource
from greenroom.cli.input_history import read_line_options
from greenroom.cli.line_styles import LINE_STYLES
from greenroom.cli.options import DONE, FAILED, USAGE, Options
from greenroom.cli.painter import ColorScheme
from greenroom.cli.render_chunk import render_recap
from greenroom.cli.renderables import RenderableType
from greenroom.cli.renderer import ConsoleRenderer
from greenroom.cli.run_setup import RunSetup, describe_untrusted, open_setup
from greenroom.cli.stdio import EndSignals
from greenroom.cli.stored_sessions import describe_session, resume_command
from greenroom.cli.terminal import Terminal
from greenroom.cli.themes import THEMES, name_look
from greenroom.cli.told_once import find_untold
from greenroom.core import GreenroomError, SessionError, StateChange, TurnStart
from greenroom.core._internal import EndStatus, visible
from greenroom.runtime import AgentHandle, AgentRuntime, Outcome, RuntimeLimits
from greenroom.session import AgentSession

_RECAP_MESSAGES = 6  # messages of a resumed session that are shown
_LONGEST_HOLD = 0.1  # seconds for which keys may wait for one call, before the log names it
_LATER = (
    *(
        "markdown_it",
        "greenroom.cli.paint_console",
        "rich.syntax",
        "jsonschema",
        "referencing.jsonschema",
    ),
    *("greenroom.permissions.explanation", "greenroom.permissions.settling"),
)


class _Ended(msgspec.Struct, frozen=True):
    """How a session was left: its agent's outcome, the signal that came, and what follows it."""

    session: AgentSession
    options: Options
    outcome: Outcome | None
    signal_code: int | None
    next: NextRun | None = None
    notes: tuple[str, ...] = ()
    """What hooks of the session's end have to tell."""

    @property
    def way_back(self) -> Options:
        """The options that go on with it, or with a new session if nothing was said in it."""
        resume = self.session.session_id if self.session.history else None
        return msgspec.structs.replace(self.options, resume=resume, continue_last=False)


async def run_sessions(
    options: Options, terminal: Terminal, is_light: bool = False
) -> tuple[int, str]:
    """Show the session of these options in the terminal, and those that commands go on with.

    Args:
        options: the options.
        terminal: the terminal.
        is_light: whether its background is light.

    Returns:
        The exit code, and what to print once the terminal is restored.

    Raises:
        GreenroomError: the run can't begin: its set-up or its session can't be used.
    """
    async with open_setup(options) as setup:
        terminal.adopt(await read_line_options(setup.settings, setup.workspace))
        ended = await _converse(setup, options, terminal, is_light, said=options.opening or "")
        while ended.next is not None:
            ended = await _go_on(ended, ended.next, terminal, is_light)
    code = _exit_code(ended.outcome) if ended.signal_code is None else ended.signal_code
    lines = list(map(visible, ended.notes))
    if ended.session.history:
        way_back = resume_command(ended.session.session_id, ended.options)
        lines.append(f"{way_back}   continues this session")
    return code, "\n".join(lines)


async def _go_on(ended: _Ended, next_run: NextRun, terminal: Terminal, is_light: bool) -> _Ended:
    """Go on with the next run; where that can't begin, with the session that has just ended."""
    options, note, fault = next_run.options, "", ""
    async with AsyncExitStack() as stack:
        try:
            note = await next_run.prepare() if next_run.prepare is not None else ""
            setup = await stack.enter_async_context(open_setup(options))
        except (GreenroomError, OSError) as error:
            options, fault = ended.way_back, str(error)
            setup = await stack.enter_async_context(open_setup(options))
        setup.model.effort = next_run.effort
        if next_run.draft and not fault:
            terminal.put_back(next_run.draft)
        source = None if fault else next_run.source
        faults = [*ended.notes, fault] if fault else ended.notes
        return await _converse(
            setup, options, terminal, is_light, source=source, note=note, faults=faults
        )


async def _converse(
    setup: RunSetup,
    options: Options,
    terminal: Terminal,
    is_light: bool,
    *,
    said: str = "",
    source: SessionSource | None = None,
    note: str = "",
    faults: Sequence[str] = (),
) -> _Ended:
    """Show one session in the terminal until it is left, beginning with what was `said`."""
    signals = EndSignals()
    look = name_look(setup.settings.theme, is_light=is_light)
    colors = THEMES[look]
    terminal.restyle(LINE_STYLES[look])
    untold = await trio.to_thread.run_sync(find_untold, setup.untrusted)
    opening = _render_opening(setup, describe_untrusted(untold), colors)
    opening += [Text(visible(note), colors.note)] if note else []
    opening += [Text(visible(each), colors.error) for each in faults]
    outcome: Outcome | None = None
    async with AgentRuntime(
        setup.store,
        limits=RuntimeLimits() if options.log is None else RuntimeLimits(watchdog=_LONGEST_HOLD),
        workspace=setup.workspace,
        gates=setup.gates,
        instruments=setup.instruments,
    ) as runtime:
        handle = setup.spawn(runtime, unattended="ask")
        run = OpenRun(options, setup, runtime, said, is_light=is_light)
        await run.look_at_branch()
        renderer = ConsoleRenderer(
            handle,
            colors=colors,
            model=setup.model_name,
            modes=setup.modes,
            currency=setup.currency,
            window=setup.window,
            notify=setup.settings.notify,
            opening=opening,
            terminal=lambda: nullcontext(terminal),
            open_run=run,
        )
        dumps = open_dump_target(options, owns_terminal=True)
        with runtime.dump_on_signal(signal.SIGUSR1, dumps):
            async with trio.open_nursery() as nursery:
                await nursery.start(signals.watch, nursery.cancel_scope)
                nursery.start_soon(_describe, run, handle)
                nursery.start_soon(setup.watch, handle, source)
                nursery.start_soon(serve_tree, runtime)
                outcome = await renderer.run()
                nursery.cancel_scope.cancel()
        await handle.interrupt()
    code = signals.exit_code
    next_run = None if code is not None else run.next
    notes = tuple(note for gate in setup.gates for note in gate.take_notes())
    return _Ended(setup.session, options, outcome, code, next_run, notes)


async def _describe(run: OpenRun, handle: AgentHandle) -> None:
    """Describe the session once it has its first input of this run, and load what comes next."""
    setup, has_begun = run.setup, False
    async with handle.subscribe("all") as chunks:
        async for chunk in chunks:
            if isinstance(chunk, TurnStart):
                has_begun = True
                describe_session(setup.session, setup.workspace)
                await run.look_at_branch()
                if run.branch:
                    setup.session.set_metadata("branch", run.branch)
            elif has_begun and not isinstance(chunk, StateChange):  # the model has been asked
                await _load_later()
                return


async def _load_later() -> None:
    """Load what the reply and its calls need, which the first request need not wait for.

    Not in a thread: the loop may need the same modules meanwhile, and where two threads import
    what imports each other, Python may end one of them with an error about a deadlock.
    """
    for name in _LATER:
        import_module(name)
        await trio.lowlevel.checkpoint()


def _exit_code(outcome: Outcome | None) -> int:
    if outcome is not None and isinstance(outcome.error, SessionError):
        return USAGE
    return DONE if outcome is None or outcome.status is EndStatus.COMPLETED else FAILED


def _render_opening(
    setup: RunSetup, notes: Sequence[str], colors: ColorScheme
) -> list[RenderableType]:
    """Render the opening: model, workspace, notes, the conversation so far."""
    head = f"greenroom {__version__} · {setup.model_name} · {setup.workspace}"
    lines: list[RenderableType] = [Text(visible(head), colors.tool)]
    lines += [Text(visible(warning), colors.error) for warning in setup.warnings]
    lines += [Text(visible(note), colors.note) for note in (*notes, *setup.notes)]
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
