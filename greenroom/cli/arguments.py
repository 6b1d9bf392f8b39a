"""Declares the command line: its commands, their options, and help. It loads only argparse.

`command_parser` declares every command; `dispatch` says which function runs it. A command with
more options than a run has its own class for them.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeAlias, cast, get_args

from greenroom._version import __version__
from greenroom.cli.options import (
    AuditOptions,
    CompletionOptions,
    ConfigOptions,
    InputFormat,
    MemoryOptions,
    ModelsOptions,
    Network,
    OnQuestion,
    Options,
    OutputFormat,
    PermissionsOptions,
    PlanOptions,
    SandboxChoice,
    Sandboxed,
    SessionsOptions,
    TraceContent,
    TraceOptions,
)

SHELLS = ("bash", "zsh", "fish")
"""The shells that `greenroom completion` has a script for."""

_MODES = ("default", "accept-edits", "plan", "deny", "bypass")
_EXPORT_FORMATS = ("markdown", "html", "json")


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
    parser = command_parser()
    values = vars(parser.parse_args(sys.argv[1:] if argv is None else argv))
    is_headless, resume = "prompt" in values, values.get("resume")
    _check_prompt(values, parser)
    if resume == "" and is_headless:
        parser.error("--resume needs an id with -p PROMPT, since a headless run asks nothing")
    if resume is not None and "continue_last" in values:
        parser.error("--resume and --continue exclude each other")
    values = {
        name: tuple(each) if isinstance(each, list) else each for name, each in values.items()
    }
    kind = cast("type[Options]", values.pop("kind"))
    values["given"] = frozenset(values)
    return kind(**cast("dict[str, str]", values))  # type: ignore[arg-type]  # argparse's types


def _check_prompt(values: dict[str, object], parser: "CommandParser") -> None:
    """Refuse a prompt that says nothing, and options that belong to the other kind of run."""
    prompt, opening = values.get("prompt"), values.get("opening")
    if prompt is None:
        if {"output_format", "input_format", "on_question"} & values.keys():
            parser.error(
                "--output-format, --input-format and --on-question need a headless run:"
                " add -p PROMPT"
            )
        if opening is not None and not str(opening).strip():
            parser.error("the prompt is empty")
        return
    if opening is not None:
        parser.error(f"there are two prompts: that of -p, and {opening!r}; quote the whole prompt")


_EPILOG = """\
exit codes: 0 done, 1 failed or a limit reached, 2 usage or configuration, 3 the turn of -p waits
for an answer; 130 interrupted, 143 terminated, 129 hung up, 141 the reader of the output went away
each option of a run is a setting, too: greenroom config shows them all
the model: --model, else that of the session that is continued, else GREENROOM_MODEL, else your
settings file, else the first of ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, OPENAI_API_KEY,
GOOGLE_API_KEY, GEMINI_API_KEY that is set decides, else offline; greenroom models says which it is
rules: Read, Bash(git status:*), Edit(src/**), WebFetch(domain:docs.python.org), *"""
_DESCRIPTIONS = {
    "permissions explain": """\
Say what would be decided about a call, part by part, and by which rule; nothing runs.
--allow, --deny and --permission-mode mean what they mean in a run.""",
    "permissions test": """\
Judge the calls of a file and say which are not decided as expected; nothing runs.
FILE holds a JSON object a line with tool, input and expect; see docs/concepts/permissions.md.
A rule file is tested by the examples of its own rules. The exit code is 1 if one fails.""",
    "permissions trust": """\
Show what .greenroom/permissions.json allows, ask, and let it count from then on, until the file
changes; and the same for each text that the project brings for the model, such as AGENTS.md. Only
a person at a terminal can agree. What the rules deny or ask about always counts.""",
    "sessions": "ID is a session's id, or the beginning of one that no other id has.",
    "plan": "The plan of a session, such as one of plan_and_execute, and its state.",
    "memory": "What agents have remembered of this folder, run with --memory.",
    "models": """\
List the providers of models, the default model and why it is the default, and what is known of each
model: how much it takes, what it can do, what it costs. Models that are not listed can be used as
well. Prices are those of your settings file. Keys are never shown.""",
    "completion": """\
Print a script that completes command lines at the press of Tab.
For bash, put this into ~/.bashrc: source <(greenroom completion bash)""",
}
"""What the help of a command says, where it says more than the list of commands does."""


class CommandParser(argparse.ArgumentParser):
    """Reads a command line, or the part of one that belongs to a command.

    Options that are not given are left out: the class of options has the defaults.
    """

    def __init__(self, **settings: object) -> None:
        """Take the settings of argparse."""
        super().__init__(
            formatter_class=argparse.RawDescriptionHelpFormatter,
            argument_default=argparse.SUPPRESS,
            **settings,  # type: ignore[arg-type]
        )

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if not isinstance(action, _CommandOrPrompt):
            super()._check_value(action, value)


if TYPE_CHECKING:
    _SubParsers: TypeAlias = argparse._SubParsersAction[CommandParser]
else:
    _SubParsers = argparse._SubParsersAction


class _CommandOrPrompt(_SubParsers):
    """The first word: a command, or else the prompt that an interactive run begins with."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        """Read the words behind a command with its own parser, those behind a prompt as options."""
        first, *rest = map(str, values or ())
        if first in self.choices:
            super().__call__(parser, namespace, values, option_string)
            return
        near = get_close_matches(first, [each for each in self.choices if each != "complete"], 1)
        if near or hasattr(namespace, "opening"):
            hint = f"did you mean {near[0]}? " if near else ""
            parser.error(
                f"{first!r} is not a command; {hint}a prompt of several words needs quotes"
            )
        namespace.opening = first
        parser.parse_args(rest, namespace)


def _some_text(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("there is no text to search for")
    return text


def _positive(text: str) -> int:
    number = _natural(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def _natural(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number") from None
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is less than 0")
    return number


def _amount(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not a number") from None
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return number


Argument: TypeAlias = Callable[[argparse.ArgumentParser], object]
"""Adds an option or a positional argument to a parser."""


def _argument(*names: str, **settings: object) -> Argument:
    """Return what adds this argument; the settings are those of `add_argument`."""
    return lambda parser: parser.add_argument(*names, **settings)  # type: ignore[arg-type]


def _flag(name: str, text: str, *others: str, **settings: object) -> Argument:
    return _argument(name, *others, action="store_true", help=text, **settings)


def _number(name: str, text: str, *others: str, **settings: object) -> Argument:
    given = {"metavar": "N", "type": _positive, **settings}
    return _argument(name, *others, help=text, **given)


def _choice(name: str, choices: Sequence[str], text: str, **settings: object) -> Argument:
    return _argument(name, choices=choices, help=text, **settings)


def _add_call(parser: argparse.ArgumentParser) -> None:
    """Add the call that `permissions explain` is about: a command, or the input of another tool."""
    call = parser.add_mutually_exclusive_group(required=True)
    call.add_argument("text", metavar="CMD", nargs="?", help="a command of Bash")
    call.add_argument("--input", metavar="JSON", help='such as \'{"file_path": "a.py"}\'')


_PLACE = "where sessions are kept: a folder, or the file of a database"
_QUESTION = "where -p would have to ask: deny, or end and leave the question open (deny)"
_CONFINED = "whether to ask about commands whose files and network a sandbox confines (ask)"
_CASES = "a JSON object a line, or a rule file; - reads standard input"
_READ_ONLY = "ask about commands that only read, too"
_PROMPT = "answer this, print the answer, and end; - reads it from standard input"
_CONTINUE = "continue the newest session of this folder"
_RESUME = "continue this session; without ID, choose one"
_SHELL = " or ".join(SHELLS)

_PROJECT = "in the project's file, not in yours"

_RULES = (
    _argument("--allow", metavar="RULE", action="append", help="allow this without asking"),
    _argument("--deny", metavar="RULE", action="append", help="never allow this"),
    _choice("--permission-mode", _MODES, "(default)", dest="mode"),
    _argument("--no-read-only", dest="read_only", action="store_false", help=_READ_ONLY),
)
_SESSIONS = _argument("--sessions", metavar="DIR", help=_PLACE)
_COMMON = (_flag("--json", "print JSON"), _SESSIONS)
_ID = _argument("ids", metavar="ID", nargs=1)
_IDS = _argument("ids", metavar="ID", nargs="+")
_YES = _flag("--yes", "don't ask")
_BRANCH = _number("--branch", "what a rewind or a compaction left, from 0", type=_natural)
_TEXT = _argument("text", metavar="TEXT", type=_some_text, help="in upper or lower case")
_TO = _number("--to", "keep the first N messages", type=_natural, required=True)
_AT = _number("--at", "with its first N messages (all)", type=_natural)
_LISTED = (
    _flag("--here", "only those of this folder"),
    _flag("--all", "subagents' and archived ones as well"),
)

_KEY_FILE = _argument("--key-file", metavar="F", help="the file of the key it was written with")

_RUN = (
    _argument("--version", action="version", version=f"greenroom {__version__}"),
    _argument("-p", "--prompt", metavar="PROMPT", nargs="?", const="", help=_PROMPT),
    _choice("--output-format", get_args(OutputFormat), "what -p prints (text)"),
    _choice("--input-format", get_args(InputFormat), "what -p reads (text)"),
    _choice("--on-question", get_args(OnQuestion), _QUESTION),
    _argument("-m", "--model", metavar="NAME", help="provider:model, such as anthropic:"),
    _argument("-r", "--resume", metavar="ID", nargs="?", const="", help=_RESUME),
    _flag("-c", _CONTINUE, "--continue", dest="continue_last"),
    *_RULES,
    _choice("--sandbox", get_args(SandboxChoice), "what confines commands (off)"),
    _choice("--sandbox-network", get_args(Network), "what commands reach in a sandbox (none)"),
    _choice("--sandboxed", get_args(Sandboxed), _CONFINED),
    _flag("--memory", "remember over sessions what is learned about this folder"),
    _number("--max-steps", "model calls a turn (100)", "--max-turns"),
    _number("--max-cost", "what a turn may cost", metavar="X", type=_amount),
    _choice("--trace", get_args(TraceContent), "what the trace holds of what is said (redacted)"),
    _argument("--log", metavar="FILE", help="write a log to this file"),
    _SESSIONS,
)
_ARGUMENTS: dict[str, tuple[Argument, ...]] = {
    "sessions list": (*_LISTED, _number("--limit", "at most N (30 in a terminal)")),
    "sessions show": (_ID, _number("--last", "only the last N messages"), _BRANCH),
    "sessions search": (_TEXT, *_LISTED, _number("--limit", "at most N (20)")),
    "sessions fork": (_ID, _AT, _BRANCH),
    "sessions rewind": (_ID, _TO, _flag("--files", "restore files that tools changed"), _YES),
    "sessions export": (
        _ID,
        _choice("--format", _EXPORT_FORMATS, "(by the ending of FILE, else markdown)"),
        _argument("-o", "--output", metavar="FILE", help="a file, not standard output"),
        _flag("--force", "replace the file if there is one"),
    ),
    "sessions import": (
        _argument("file", metavar="FILE", help="a JSON export; - reads standard input"),
        _flag("--keep-id", "give it the id that it had"),
    ),
    "sessions rm": (_IDS, _YES),
    "sessions archive": (_IDS, _flag("--undo", "show them again")),
    "sessions repair": (_ID,),
    "sessions cost": (_ID,),
    "plan show": (_ID, _flag("--mermaid", "draw it, as a Mermaid flowchart")),
    "memory list": (_number("--limit", "at most N (30)"),),
    "memory forget": (_IDS,),
    "permissions explain": (
        _add_call,
        _argument("--tool", metavar="TOOL", help="with --input (Bash)"),
        *_RULES,
    ),
    "permissions list": _RULES,
    "permissions test": (_argument("file", metavar="FILE", help=_CASES), *_RULES),
    "permissions log": (
        _argument("session_id", metavar="ID", help="a session's id, or the beginning of one"),
        _number("--last", "only the last N decisions"),
    ),
    "permissions trust": (),
    "trace": (
        _ID,
        _argument("--html", metavar="FILE", help="write a page to this file"),
        _flag("--alone", "without the traces of subagents"),
    ),
    "diagnose": (_ID,),
    "audit verify": (
        _argument("file", metavar="FILE", help="the audit"),
        _argument("--head", metavar="HASH", help="a hash that was the last one"),
        _KEY_FILE,
    ),
    "audit show": (_argument("file", metavar="FILE", help="the audit"),),
    "models": (_argument("name", metavar="NAME", nargs="?", help="only this model or provider"),),
    "skills": (),
    "doctor": (),
    "tree": (),
    "config": (),
    "config set": (
        _argument("name", metavar="NAME", help="the setting"),
        _argument("value", metavar="VALUE", help="its value, as JSON or as a text"),
        _flag("--project", _PROJECT),
    ),
    "config unset": (
        _argument("name", metavar="NAME", help="the setting"),
        _flag("--project", _PROJECT),
    ),
    "completion": (_argument("shell", metavar="SHELL", choices=SHELLS, help=_SHELL),),
}
"""The arguments of each command, besides those that all have; a run's own are `_RUN`."""

_SUMMARIES = {
    "sessions": "list, show, search, fork, rewind, export, import, rm, archive, repair, cost",
    "sessions list": "list sessions, the last changed first",
    "sessions show": "show one session's conversation",
    "sessions search": "find sessions by what was said in them",
    "sessions fork": "make a new session that begins as this one does, and print its id",
    "sessions rewind": "go back to an earlier message of a session",
    "sessions export": "write a session as Markdown, an HTML page or JSON",
    "sessions import": "make a session of an exported one, and print its id",
    "sessions rm": "remove sessions for good, with those of their subagents",
    "sessions archive": "hide sessions from the lists, and keep them",
    "sessions repair": "keep all that can be verified of a damaged session",
    "sessions cost": "show the tokens of a session and its subagents, and their cost",
    "plan": "show the state of a plan",
    "plan show": "show the plan of a session, and how much of it is done",
    "memory": "list or forget what is remembered of this folder",
    "memory list": "list entries, the newest first",
    "memory forget": "remove entries for good",
    "permissions": "explain a decision, list, test or trust rules, show what was decided",
    "permissions explain": "say what would be decided about a call, and why",
    "permissions list": "list the rules in force, in the order in which they are asked",
    "permissions test": "judge the calls of a file, and compare",
    "permissions log": "show what was decided in a session and in those of its subagents",
    "permissions trust": "let what the project's files say count, once you agree",
    "config": "show the settings and where each comes from; set, unset",
    "config set": "set a setting in your file, or in the project's",
    "config unset": "remove a setting from your file, or from the project's",
    "trace": "show what a session did, as a tree with times",
    "diagnose": "say what went wrong in a session",
    "audit": "verify or show an audit",
    "audit verify": "check that an audit is as it was written",
    "audit show": "show the lines of an audit",
    "models": "list models, whose key is set, which is the default, and what they cost",
    "skills": "list the skills, where they come from, and whether they are trusted",
    "doctor": "say what is set up, what is missing, how to fix it",
    "tree": "list the agents that run now, with their subagents",
    "completion": "print a script that completes command lines at the press of Tab",
}
"""What each command does, in the order of the help."""

_KINDS: dict[str, type[Options]] = {
    "sessions": SessionsOptions,
    "plan": PlanOptions,
    "memory": MemoryOptions,
    "permissions": PermissionsOptions,
    "trace": TraceOptions,
    "diagnose": TraceOptions,
    "audit": AuditOptions,
    "models": ModelsOptions,
    "config": ConfigOptions,
    "completion": CompletionOptions,
}


def command_parser() -> CommandParser:
    """Return what reads the command line."""
    parser = CommandParser(
        prog="greenroom",
        usage="%(prog)s [options] [PROMPT | COMMAND ...]",
        description="A coding agent in your terminal. Without -p it is interactive.",
        epilog=_EPILOG,
    )
    parser.set_defaults(command="run", kind=Options)
    add_run(parser)
    commands = parser.add_subparsers(
        prog=parser.prog,
        metavar="COMMAND",
        title="commands",
        action=_CommandOrPrompt,
        parser_class=CommandParser,
    )
    groups: dict[str, _SubParsers] = {"": commands}
    for name, summary in _SUMMARIES.items():
        group, _, verb = name.rpartition(" ")
        description = _DESCRIPTIONS.get(name, f"{summary[0].upper()}{summary[1:]}.")
        command = groups[group].add_parser(verb, help=summary, description=description)
        if any(other.startswith(f"{name} ") for other in _SUMMARIES):
            is_required = name not in _ARGUMENTS
            groups[name] = command.add_subparsers(metavar="VERB", required=is_required)
        if name not in _ARGUMENTS:
            continue
        command.set_defaults(command=name, kind=_KINDS.get(group or name, Options))
        for add in (*(_COMMON if name != "completion" else ()), *_ARGUMENTS[name]):
            add(command)
    _add_complete(groups[""].add_parser("complete"))
    return parser


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the options of a run."""
    for add in _RUN:
        add(parser)


def _add_complete(hidden: CommandParser) -> None:
    """Add the arguments of the command that a completion script runs; the help does not list it."""
    hidden.set_defaults(command="complete", kind=CompletionOptions)
    hidden.add_argument("shell", choices=SHELLS)
    hidden.add_argument("line")
    hidden.add_argument("--word")
