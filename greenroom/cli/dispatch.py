"""The command `greenroom`: `main` and the table that says which function runs which command."""

import os
import sys
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, cast

from greenroom.cli.arguments import read_arguments
from greenroom.cli.loading import begin_loading, end_loading
from greenroom.cli.options import BROKEN_PIPE, FAILED, INTERRUPTED, USAGE, Options

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractContextManager

    from greenroom.cli.command_options import CompletionOptions

_SET_DUMPABLE = 4
_WITHOUT_SETTINGS = frozenset(
    {"acp", "attach", "config", "doctor", "host", "hosts", "models", "tree", "watch"}
)  # they read them themselves, or none

# By name, so that a command loads what it needs and nothing else.
COMMANDS = {
    "run": "terminal_run.run_in_terminal",
    "run -p": "headless.run_headless",
    "run --resume": "dispatch.run_resume",
    "sessions list": "sessions_read.list_sessions",
    "sessions show": "sessions_read.show_session",
    "sessions search": "sessions_read.search_sessions",
    "sessions export": "sessions_read.export_to",
    "sessions fork": "sessions_change.fork_session",
    "sessions rewind": "sessions_change.rewind_session",
    "sessions import": "sessions_change.import_from",
    "sessions rm": "sessions_change.remove_sessions",
    "sessions archive": "sessions_change.archive_sessions",
    "sessions repair": "sessions_change.repair_session",
    "sessions copy": "sessions_copy.copy_sessions",
    "sessions expire": "sessions_change.expire_sessions",
    "permissions explain": "permissions_command.explain_call",
    "permissions list": "permissions_command.list_rules",
    "permissions add": "rule_changes.add_rule",
    "permissions remove": "rule_changes.remove_rule",
    "permissions log": "permissions_command.show_decisions",
    "permissions trust": "permissions_command.trust_project",
    "permissions test": "permissions_test_command.test_file",
    "config": "config_command.show_config",
    "config set": "config_command.set_setting",
    "config unset": "config_command.unset_setting",
    "models": "models_command.list_models",
    "memory list": "memory_command.list_entries",
    "memory forget": "memory_command.forget_entries",
    "plan show": "plan_view.show_plan",
    "mcp list": "mcp_command.list_servers",
    "mcp add": "mcp_command.add_server",
    "mcp remove": "mcp_command.remove_server",
    "mcp test": "mcp_command.test_servers",
    "mcp login": "mcp_command.log_in",
    "mcp logout": "mcp_command.log_out",
    "mcp serve": "mcp_serve_command.serve_tools",
    "skills": "skills_command.list_skills",
    "trace": "trace_command.show_trace",
    "diagnose": "trace_command.show_diagnoses",
    "prompt show": "prompt_command.show_prompt",
    "prompt replay": "prompt_command.replay_prompt",
    "drift": "record_command.show_drift",
    "export-test": "record_command.write_test",
    "cost": "cost_command.show_cost",
    "audit verify": "audit_command.verify",
    "audit show": "audit_command.show",
    "serve": "serve_command.run_server",
    "attach": "attach_command.attach",
    "host": "cluster_command.run_host",
    "hosts": "cluster_command.list_hosts",
    "acp": "acp_command.run_acp",
    "doctor": "doctor.run_doctor",
    "tree": "cluster_command.print_trees",
    "watch": "watch_command.watch_agent",
}
"""Which function of this package runs a command; it takes the options and returns the exit code."""


def main(argv: list[str] | None = None) -> int:
    """Run the program and return its exit code.

    Args:
        argv: the words after the program's name; None for the process's own.

    Raises:
        SystemExit: for `--help`, `--version` and a command line that can't be read.
    """
    if argv is None:
        begin_loading()
    _open_closed_streams()
    options = read_arguments(argv)
    if sys.platform == "win32":
        print("greenroom: Windows is not supported; use WSL", file=sys.stderr)
        return USAGE
    try:
        if options.command in ("completion", "complete"):
            from greenroom.cli.completion import run_completion

            return run_completion(cast("CompletionOptions", options))
        if argv is None:
            _close_memory()
        return _run(options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return BROKEN_PIPE
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        print(f"greenroom: {place}{error.strerror}", file=sys.stderr)
        return FAILED


def _open_closed_streams() -> None:
    """Open the standard streams that are closed, so that no file takes their descriptors.

    Input is at its end. What is written to the descriptor of the output is an error; messages to
    standard error are dropped.
    """
    closed = []
    for descriptor, stream in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # it takes the lowest descriptor that is free
            closed.append(stream)
    for name, mode in closed:  # only now: these files must not take a descriptor either
        setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 (kept open)


def _close_memory() -> None:
    """Close the memory of this process, with the keys in its environment, to what it will run.

    On Linux, other programs of the same user can't read it in `/proc` or attach to it any more, and
    there are no core dumps. A program that it starts is a process like any other. This is for the
    command alone: an application that calls `main` keeps its core dumps and profilers.
    """
    import ctypes
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)


def _run(options: Options) -> int:
    """Run in trio's loop; a fault of the set-up is one line."""
    # Here and not above: --version and --help need none of it.
    import trio

    from greenroom.cli.stdio import tell
    from greenroom.core import GreenroomError

    try:
        _check_home()
        options = _complete(options)
        with _log_to(options):
            command = find_command(options)
            if not _opens_terminal(options):
                end_loading()
            # Between two steps, so that Ctrl-C tears nothing apart.
            return trio.run(command, restrict_keyboard_interrupt_to_checkpoints=True)
    except GreenroomError as error:
        tell(str(error))
        return USAGE


def _check_home() -> None:
    """Refuse a home that would be a folder in the one that the command works in.

    Raises:
        ConfigurationError: HOME is not an absolute path.
    """
    from greenroom.core import ConfigurationError

    home = os.environ.get("HOME")
    if home is not None and not os.path.isabs(home):
        raise ConfigurationError(
            f"HOME is {home!r}, which is not an absolute path",
            hint="set it to your home folder, or unset it",
        )


def _complete(options: Options) -> Options:
    """Complete the options of a command that works in this folder with its settings.

    The terminal does that itself.

    Raises:
        GreenroomError: settings can't be used.
    """
    if options.command.split()[0] in _WITHOUT_SETTINGS or options.command == "permissions trust":
        return options
    if _opens_terminal(options):  # whose line opens first
        return options
    from greenroom.cli.settings_layers import read_layers, resolve
    from greenroom.cli.stored_sessions import working_folder

    return resolve(options, read_layers(working_folder(), os.environ))


def _opens_terminal(options: Options) -> bool:
    return options.command == "run" and options.prompt is None and options.resume != ""


async def run_resume(options: Options) -> int:
    """Let the person choose a session, and continue it; return the exit code.

    Raises:
        GreenroomError: there is no session or no terminal, or the session can't be continued.
    """
    from msgspec.structs import replace

    from greenroom.cli.stored_sessions import choose_session

    chosen = await choose_session(options)
    if isinstance(chosen, int):
        return chosen
    # Only now: it loads far more than the list needs.
    from greenroom.cli.terminal_run import run_in_terminal

    return await run_in_terminal(replace(options, resume=chosen), is_complete=True)


def _log_to(options: Options) -> "AbstractContextManager[None]":
    if options.log is None or _opens_terminal(options):  # which does that itself
        return nullcontext()
    from greenroom.cli.diagnostics import log_to_file

    return log_to_file(options.log)


def find_command(options: Options) -> "Callable[[], Awaitable[int]]":
    """Load the function that runs what the user asked for, and give it the options."""
    name = options.command
    if name == "run" and options.prompt is not None:
        name = "run -p"
    elif name == "run" and options.resume == "":
        name = "run --resume"
    module, _, function = COMMANDS[name].partition(".")
    runner = getattr(import_module(f"greenroom.cli.{module}"), function)
    return partial(cast("Callable[[Options], Awaitable[int]]", runner), options)
