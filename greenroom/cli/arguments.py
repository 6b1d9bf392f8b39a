"""The command line: what may stand on it, and what it means."""

import argparse
import sys
from dataclasses import dataclass
from typing import Literal, NoReturn, TypeAlias, cast

from greenroom._version import __version__

__all__ = ["Options", "OutputFormat", "read_arguments"]

OutputFormat: TypeAlias = Literal["text", "json", "stream-json"]
"""What a headless run prints: the answer, one result object, or one chunk a line."""

_FORMATS = ("text", "json", "stream-json")
_MODES = ("default", "accept-edits", "plan", "deny", "bypass")
_EPILOG = """\
exit codes: 0 done, 1 failed, 2 usage or configuration, 3 denied where the turn of -p could
not go on; 130 interrupted, 143 terminated, 129 hung up, 141 the reader of the output went away
rules: Read, Bash(git status:*), Edit(src/**), WebFetch(domain:docs.python.org), *"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the user asked for on the command line.

    Attributes:
        command: "run", "sessions list", "sessions show", "sessions repair" or "doctor".
        prompt: the prompt of a headless run, or None for an interactive one.
        output_format: what a headless run prints.
        model: the model's name, or None for the default.
        resume: the session to go on with, or None.
        continue_last: whether to go on with the newest session of this folder.
        allow: rules that allow, in the short form.
        deny: rules that deny, in the short form.
        mode: the permission mode.
        sessions: the folder or database of the sessions, or None for the user's own.
        max_steps: model calls in one turn at the most.
        log: the file for the log, or None.
        session_id: the session that `sessions show` or `sessions repair` is about.
        json: whether a command prints JSON.
    """

    command: str = "run"
    prompt: str | None = None
    output_format: OutputFormat = "text"
    model: str | None = None
    resume: str | None = None
    continue_last: bool = False
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    mode: str = "default"
    sessions: str | None = None
    max_steps: int = 100
    log: str | None = None
    session_id: str = ""
    json: bool = False


def read_arguments(argv: list[str] | None = None) -> Options:
    """Read a command line; it prints its own help, version and errors.

    Args:
        argv: the words after the program's name; None for the process's own.

    Raises:
        SystemExit: with code 0 for `--help` and `--version`, 2 for what can't be read.

    Example:
        >>> read_arguments(["-p", "list *.py", "--allow", "Read"]).allow
        ('Read',)
    """
    parser = _parser()
    values = vars(parser.parse_args(sys.argv[1:] if argv is None else argv))
    if values["prompt"] is None and values["output_format"] is not None:
        parser.error("--output-format belongs to a headless run: add -p PROMPT")
    if values["resume"] and values["continue_last"]:
        parser.error("--resume and --continue exclude each other")
    values["output_format"] = values["output_format"] or "text"
    values["allow"], values["deny"] = tuple(values["allow"]), tuple(values["deny"])
    return Options(**cast("dict[str, str]", values))  # type: ignore[arg-type]  # argparse's types


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        if message.startswith("argument COMMAND: invalid choice"):
            message = "there is no such command; to ask something, write greenroom -p PROMPT"
        super().error(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="greenroom",
        description="A coding agent in your terminal. Without -p it is interactive.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"greenroom {__version__}")
    _add_run(parser)
    _add_folder(parser, default=None)
    parser.set_defaults(command="run", session_id="", json=False)
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    _add_sessions(commands)
    doctor = commands.add_parser(
        "doctor", help="say what is set up, what is missing, how to fix it"
    )
    _add_report(doctor, "doctor")
    return parser


def _add_run(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-p", "--prompt", metavar="PROMPT", help="answer this, print the answer, and end")
    add("--output-format", choices=_FORMATS, help="what -p prints (text)")
    add("--model", metavar="NAME", help="provider:model, such as anthropic: or offline:")
    add("--resume", metavar="ID", help="go on with this session")
    add("--continue", dest="continue_last", action="store_true", help="go on with the newest here")
    add("--allow", metavar="RULE", action="append", default=[], help="allow this without asking")
    add("--deny", metavar="RULE", action="append", default=[], help="never allow this")
    add("--permission-mode", dest="mode", choices=_MODES, default="default", help="(default)")
    add("--max-steps", metavar="N", type=_positive, default=100, help="model calls a turn (100)")
    add("--log", metavar="FILE", help="write a log to this file")


def _add_folder(parser: argparse.ArgumentParser, default: str | None) -> None:
    parser.add_argument(
        "--sessions",
        metavar="DIR",
        default=default,
        help="where sessions are kept: a folder, or the file of a database",
    )


def _add_sessions(commands: "argparse._SubParsersAction[_Parser]") -> None:
    sessions = commands.add_parser("sessions", help="list, show and repair stored sessions")
    verbs = sessions.add_subparsers(metavar="VERB", required=True)
    listing = verbs.add_parser("list", help="list sessions, the last changed first")
    _add_report(listing, "sessions list")
    show = verbs.add_parser("show", help="show one session's conversation")
    show.add_argument("session_id", metavar="ID")
    _add_report(show, "sessions show")
    repair = verbs.add_parser("repair", help="keep what precedes the damage in a session")
    repair.add_argument("session_id", metavar="ID")
    _add_report(repair, "sessions repair")


def _add_report(parser: argparse.ArgumentParser, command: str) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
    # Suppressed where it is not given, so that it may also stand before the command.
    _add_folder(parser, default=argparse.SUPPRESS)
    parser.set_defaults(command=command)


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is no whole number") from None
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number
