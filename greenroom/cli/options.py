"""What the user asked for, and the options that several commands share."""

import argparse
from dataclasses import dataclass
from typing import Literal, NoReturn, TypeAlias

SandboxChoice: TypeAlias = Literal["off", "read-only", "workspace-write"]
"""What commands are held to: nothing, or a sandbox of this mode."""

OutputFormat: TypeAlias = Literal["text", "json", "stream-json"]
"""What a headless run prints: the answer, one result object, or one chunk a line."""


OnQuestion: TypeAlias = Literal["deny", "wait"]
"""What a headless run does where a person would be asked: deny, or end and leave the question open."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the user asked for on the command line; a command may have more, in a class of its own.

    Attributes:
        command: "run", "doctor", "tree", "models", or "sessions", "memory", "plan" with a verb:
            "sessions list".
        prompt: the prompt of a headless run, or None for an interactive one.
        output_format: what a headless run prints.
        on_question: what a headless run does where a person would be asked.
        model: the model's name, or None for the default.
        resume: the session to go on with, empty where one is to be chosen, or None.
        continue_last: whether to go on with the newest session of this folder.
        allow: rules that allow, in the short form.
        deny: rules that deny, in the short form.
        mode: the permission mode.
        read_only: whether commands that only read inside the workspace need no rule.
        sandbox: what commands are held to.
        sandbox_network: what they may reach there.
        sandboxed: whether those are asked about that a sandbox holds.
        sessions: the folder or database of the sessions, or None for the user's own.
        memory: whether the agent remembers over sessions, for this folder.
        max_steps: model calls in one turn at the most.
        log: the file for the log, or None.
        json: whether a command prints JSON.
    """

    command: str = "run"
    prompt: str | None = None
    output_format: OutputFormat = "text"
    on_question: OnQuestion = "deny"
    model: str | None = None
    resume: str | None = None
    continue_last: bool = False
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    mode: str = "default"
    read_only: bool = True
    sandbox: SandboxChoice = "off"
    sandbox_network: Literal["none", "all"] = "none"
    sandboxed: Literal["ask", "allow"] = "ask"
    sessions: str | None = None
    memory: bool = False
    max_steps: int = 100
    log: str | None = None
    json: bool = False


_MODES = ("default", "accept-edits", "plan", "deny", "bypass")


class Parser(argparse.ArgumentParser):
    """Reads a command line, or the part of one that belongs to a command."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and end the program."""
        if message.startswith("argument COMMAND: invalid choice"):
            message = "there is no such command; to ask something, write greenroom -p PROMPT"
        super().error(message)


Parsers: TypeAlias = "argparse._SubParsersAction[Parser]"
"""Where commands are added."""


def add_report(parser: Parser, command: str, kind: type[Options]) -> None:
    """Make this the parser of a command that prints something, of these options."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    # Suppressed where it is not given, so that it may also stand before the command.
    add_folder(parser, default=argparse.SUPPRESS)
    parser.set_defaults(command=command, kind=kind)


def add_rules(parser: Parser, default: str | None) -> None:
    """Take rules and the mode; `default` is argparse's where they may also stand elsewhere."""
    add, rules = parser.add_argument, [] if default is None else default
    add("--allow", metavar="RULE", action="append", default=rules, help="allow this without asking")
    add("--deny", metavar="RULE", action="append", default=rules, help="never allow this")
    mode = "default" if default is None else default
    add("--permission-mode", dest="mode", choices=_MODES, default=mode, help="(default)")
    add(
        "--no-read-only",
        dest="read_only",
        action="store_false",
        default=True if default is None else default,
        help="ask about commands that only read, too",
    )


def add_folder(parser: Parser, default: str | None) -> None:
    """Take the place of the sessions."""
    parser.add_argument(
        "--sessions",
        metavar="DIR",
        default=default,
        help="where sessions are kept: a folder, or the file of a database",
    )


def positive(text: str) -> int:
    """Read a number from 1 on.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    number = natural(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def natural(text: str) -> int:
    """Read a number from 0 on.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is no whole number") from None
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is less than 0")
    return number
