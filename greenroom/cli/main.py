"""The command `greenroom`: reads the command line, runs what it says, gives the exit code."""

import sys
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from greenroom.cli.arguments import read_arguments
from greenroom.cli.commands.memory.arguments import MemoryOptions
from greenroom.cli.commands.models.arguments import ModelsOptions
from greenroom.cli.commands.permissions.arguments import PermissionsOptions
from greenroom.cli.commands.plan.arguments import PlanOptions
from greenroom.cli.commands.sessions.arguments import SessionsOptions
from greenroom.cli.completion.arguments import CompletionOptions

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from greenroom.cli.options import Options

_FAILED = 1
_USAGE = 2
_INTERRUPTED = 130
_BROKEN_PIPE = 141  # as a shell reports a program that SIGPIPE ended


def main(argv: list[str] | None = None) -> int:
    """Run the program and return its exit code.

    Args:
        argv: the words after the program's name; None for the process's own.

    Raises:
        SystemExit: for `--help`, `--version` and a command line that can't be read.
    """
    options = read_arguments(argv)
    if sys.platform == "win32":
        print("greenroom: Windows is not supported; use WSL", file=sys.stderr)
        return _USAGE
    try:
        if isinstance(options, CompletionOptions):
            from greenroom.cli.completion.command import run_completion

            return run_completion(options)
        return _run(options)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        return _BROKEN_PIPE
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        print(f"greenroom: {place}{error.strerror}", file=sys.stderr)
        return _FAILED


def _run(options: "Options") -> int:
    """Run in trio's loop; what is wrong with the set-up is told in one line."""
    # Here and not above: --version and --help need none of it.
    import trio

    from greenroom.cli.run.log_file import log_to_file
    from greenroom.cli.streams.output_writer import tell
    from greenroom.core import GreenroomError

    try:
        with log_to_file(options.log) if options.log else nullcontext():
            # Between two steps, so that Ctrl-C tears nothing apart.
            return trio.run(_command(options), restrict_keyboard_interrupt_to_checkpoints=True)
    except GreenroomError as error:
        tell(str(error))
        return _USAGE


def _command(options: "Options") -> "Callable[[], Awaitable[int]]":
    if isinstance(options, SessionsOptions):
        from greenroom.cli.commands.sessions.verbs import run_verb

        return partial(run_verb, options)
    if isinstance(options, PermissionsOptions):
        from greenroom.cli.commands.permissions.verbs import run_verb as run_permissions

        return partial(run_permissions, options)
    if isinstance(options, MemoryOptions):
        from greenroom.cli.commands.memory.verbs import run_verb as run_memory

        return partial(run_memory, options)
    if isinstance(options, PlanOptions):
        from greenroom.cli.commands.plan.showing import show_plan

        return partial(show_plan, options)
    if isinstance(options, ModelsOptions):
        from greenroom.cli.commands.models.listing import list_models

        return partial(list_models, options)
    if options.command == "doctor":
        from greenroom.cli.commands.doctor import run_doctor

        return partial(run_doctor, options)
    if options.command == "tree":
        from greenroom.cli.commands.tree import print_trees

        return partial(print_trees, options)
    if options.prompt is not None:
        from greenroom.cli.headless import run_headless

        return partial(run_headless, options)
    if options.resume == "":
        from greenroom.cli.picker.resume import run_resume

        return partial(run_resume, options)
    from greenroom.cli.interactive import run_interactive

    return partial(run_interactive, options)
