"""The command line: what it may contain, and what it means. It loads nothing but argparse.

`command_parser` declares every command; `commands` says which function runs it. A command's options are
a class of their own where it has more than a run.
"""

import argparse
import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, NoReturn, Protocol, TypeAlias, cast, get_args

from greenroom._version import __version__

if TYPE_CHECKING:
    from greenroom.export import ExportFormat

DONE, FAILED, USAGE, DENIED, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 3, 130, 141
"""The exit codes: done, failed, usage or configuration, denied or waiting, interrupted, SIGPIPE."""

OutputFormat: TypeAlias = Literal["text", "json", "stream-json"]
"""What a headless run prints: the answer, one result object, or one chunk a line."""

OnQuestion: TypeAlias = Literal["deny", "wait"]
"""What a headless run does with a question: deny, or end and leave the question open."""

SandboxChoice: TypeAlias = Literal["off", "read-only", "workspace-write"]
"""What confines commands: nothing, or a sandbox of this mode."""

Network: TypeAlias = Literal["none", "all"]
"""What commands in a sandbox may reach."""

Sandboxed: TypeAlias = Literal["ask", "allow"]
"""Whether commands that a sandbox confines are asked about."""

SHELLS = ("bash", "zsh", "fish")
"""The shells that `greenroom completion` has a script for."""

_MODES = ("default", "accept-edits", "plan", "deny", "bypass")
_EXPORT_FORMATS = ("markdown", "html", "json")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the user asked for on the command line.

    Attributes:
        command: "run", "doctor", "tree", "models", or a command with its verb: "sessions list".
        prompt: the prompt of a headless run, or None for an interactive one.
        output_format: what a headless run prints.
        on_question: what a headless run does where a person would be asked.
        model: the model's name, or None for the default.
        resume: the session to continue, empty where one is to be chosen, or None.
        continue_last: whether to continue the newest session of this folder.
        allow: rules that allow, in the short form.
        deny: rules that deny, in the short form.
        mode: the permission mode.
        read_only: whether commands that only read inside the workspace need no rule.
        sandbox: what confines commands.
        sandbox_network: what they may reach there.
        sandboxed: whether commands that a sandbox confines are asked about.
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
    sandbox_network: Network = "none"
    sandboxed: Sandboxed = "ask"
    sessions: str | None = None
    memory: bool = False
    max_steps: int = 100
    log: str | None = None
    json: bool = False


@dataclass(frozen=True, kw_only=True)
class SessionsOptions(Options):
    """The options of `greenroom sessions`; no verb uses all of them.

    Attributes:
        ids: the sessions: whole ids, or the beginnings of some.
        here: whether only sessions of the working directory are meant.
        all: whether archived sessions and those of subagents are meant as well.
        text: what to search for.
        limit: how many sessions are shown at the most, or None for the usual.
        last: how many messages are shown at the most, the last ones; None for all.
        branch: the number of a branch, or None for the current one.
        at: how many messages a fork begins with, or None for all.
        to: how many messages a rewind keeps.
        files: whether a rewind restores files as well.
        yes: whether nothing is asked before something is removed.
        format: the format of an export, or None where the name of its file says it.
        output: the file for an export, or None for standard output.
        force: whether that file may be replaced.
        file: what is imported; "-" is standard input.
        keep_id: whether an import keeps the id that it had.
        undo: whether sessions come back from the archive.
    """

    ids: tuple[str, ...] = ()
    here: bool = False
    all: bool = False
    text: str = ""
    limit: int | None = None
    last: int | None = None
    branch: int | None = None
    at: int | None = None
    to: int = 0
    files: bool = False
    yes: bool = False
    format: "ExportFormat | None" = None
    output: str | None = None
    force: bool = False
    file: str = "-"
    keep_id: bool = False
    undo: bool = False

    @property
    def session_id(self) -> str:
        """The session, for a verb that takes one."""
        return self.ids[0]


@dataclass(frozen=True, kw_only=True)
class PermissionsOptions(Options):
    """The options of `greenroom permissions`; no verb uses all of them.

    Attributes:
        text: the command that is judged, or None where `input` says it.
        tool: the tool that would be called.
        input: the call's input as JSON, or None.
        file: the file of calls, or a rule file; "-" is standard input.
        session_id: the session whose decisions are shown, or a beginning of its id.
        last: how many decisions are shown at the most, the last ones; None for all.
    """

    text: str | None = None
    tool: str = "Bash"
    input: str | None = None
    file: str = "-"
    session_id: str = ""
    last: int | None = None


@dataclass(frozen=True, kw_only=True)
class ModelsOptions(Options):
    """The options of `greenroom models`; `name` is a model or a provider, or None for all."""

    name: str | None = None


@dataclass(frozen=True, kw_only=True)
class MemoryOptions(Options):
    """The options of `greenroom memory`: the ids of entries, and how many are shown at the most."""

    ids: tuple[str, ...] = ()
    limit: int = 30


@dataclass(frozen=True, kw_only=True)
class PlanOptions(Options):
    """The options of `greenroom plan`: the id of one session, and whether its plan is drawn."""

    ids: tuple[str, ...] = ()
    mermaid: bool = False


@dataclass(frozen=True, kw_only=True)
class CompletionOptions(Options):
    """The options of `greenroom completion` and of `greenroom complete`, which its script runs.

    Attributes:
        shell: one of `SHELLS`.
        line: the line up to the cursor.
        word: the part of its last word that the shell replaces.
    """

    shell: str = ""
    line: str = ""
    word: str | None = None


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
    if values["prompt"] is None and {"output_format", "on_question"} & values.keys():
        parser.error("--output-format and --on-question need a headless run: add -p PROMPT")
    if values["resume"] == "" and values["prompt"] is not None:
        parser.error("--resume needs an id with -p PROMPT, since a headless run asks nothing")
    if values["resume"] is not None and values["continue_last"]:
        parser.error("--resume and --continue exclude each other")
    confines = "sandbox_network" in values or values.get("sandboxed") == "allow"
    if confines and values["sandbox"] == "off":
        parser.error("--sandbox-network and --sandboxed need a sandbox: add --sandbox MODE")
    values = {
        name: tuple(each) if isinstance(each, list) else each for name, each in values.items()
    }
    kind = cast("type[Options]", values.pop("kind"))
    return kind(**cast("dict[str, str]", values))  # type: ignore[arg-type]  # argparse's types


# -- what it may contain ------------------------------------------------------------------------

_EPILOG = """\
exit codes: 0 done, 1 failed, 2 usage or configuration, 3 denied where the turn of -p could
not go on, or waits for an answer; 130 interrupted, 143 terminated, 129 hung up, 141 the
reader of the output went away
the model: --model, else that of the session that is continued, else GREENROOM_MODEL, else your
settings file, else the first of ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, OPENAI_API_KEY that is set
decides, else offline; greenroom models says which it is
rules: Read, Bash(git status:*), Edit(src/**), WebFetch(domain:docs.python.org), *"""
_EXPLAIN = """\
Say what would be decided about a call, part by part, and by which rule; nothing runs.
--allow, --deny and --permission-mode mean what they mean in a run."""
_TEST = """\
Judge the calls of a file and say which are not decided as expected; nothing runs.
FILE holds a JSON object a line with tool, input and expect; see docs/concepts/permissions.md.
A rule file is tested by the examples of its own rules. The exit code is 1 if one fails."""
_TRUST = """\
Show what .greenroom/permissions.json allows, ask, and let it count from then on, until the file
changes; and the same for each text that the project brings for the model, such as AGENTS.md. Only
a person at a terminal can agree. What the rules deny or ask about always counts."""
_MODELS = """\
List the providers of models, the default model and why it is the default, and what is known of each
model: how much it takes, what it can do, what it costs. Models that are not listed can be used as
well. Prices are those of your settings file. Keys are never shown."""
_COMPLETION = """\
Print a script that completes command lines at the press of Tab.
For bash, put this into ~/.bashrc: source <(greenroom completion bash)"""


class Parser(argparse.ArgumentParser):
    """Reads a command line, or the part of one that belongs to a command."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and end the program."""
        if message.startswith("argument COMMAND: invalid choice"):
            message = "there is no such command; to ask something, write greenroom -p PROMPT"
        super().error(message)


_Parsers: TypeAlias = "argparse._SubParsersAction[Parser]"


class _AddVerb(Protocol):
    def __call__(self, name: str, text: str, description: str = "") -> Parser: ...


def command_parser() -> Parser:
    """Return what reads the command line."""
    parser = Parser(
        prog="greenroom",
        description="A coding agent in your terminal. Without -p it is interactive.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"greenroom {__version__}")
    _add_run(parser)
    _add_folder(parser, default=None)
    parser.set_defaults(command="run", kind=Options, json=False)
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    _add_sessions(commands)
    _add_plan(commands)
    _add_memory(commands)
    _add_permissions(commands)
    summary = "list models, whose key is set, which is the default, and what they cost"
    models = _add_command(commands, ModelsOptions, "", "models", summary, _MODELS)
    models.add_argument("name", metavar="NAME", nargs="?", help="only this model or provider")
    add = partial(_add_command, commands, Options, "")
    add("doctor", "say what is set up, what is missing, how to fix it")
    add("tree", "list the agents that run now, with their subagents")
    _add_completion(commands)
    return parser


def _add_command(
    commands: _Parsers,
    kind: type[Options],
    group: str,
    name: str,
    text: str,
    description: str = "",
) -> Parser:
    """Add a command that prints something, or a verb of a group of commands."""
    parser = commands.add_parser(
        name,
        help=text,
        description=description or f"{text[0].upper()}{text[1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    # Suppressed where it is not given, so that it may also stand before the command.
    _add_folder(parser, default=argparse.SUPPRESS)
    parser.set_defaults(command=f"{group} {name}".lstrip(), kind=kind)
    return parser


def _add_group(
    commands: _Parsers, kind: type[Options], name: str, text: str, description: str = ""
) -> _AddVerb:
    group = commands.add_parser(name, help=text, description=description or None)
    verbs = group.add_subparsers(metavar="VERB", required=True)
    return partial(_add_command, verbs, kind, name)


def _add_run(parser: Parser) -> None:
    add = parser.add_argument
    add("-p", "--prompt", metavar="PROMPT", help="answer this, print the answer, and end")
    # An option that is not given is left out, so that one without its context can be refused.
    choice = partial(parser.add_argument, default=argparse.SUPPRESS)
    choice("--output-format", choices=get_args(OutputFormat), help="what -p prints (text)")
    question = "where -p would have to ask: deny, or end and leave the question open (deny)"
    choice("--on-question", choices=get_args(OnQuestion), help=question)
    add("--model", metavar="NAME", help="provider:model, such as anthropic: or offline:")
    resume = "continue this session; without ID, choose one"
    add("--resume", metavar="ID", nargs="?", const="", help=resume)
    newest = "continue the newest session of this folder"
    add("--continue", dest="continue_last", action="store_true", help=newest)
    _add_rules(parser, default=None)
    confines = "what confines commands (off)"
    add("--sandbox", choices=get_args(SandboxChoice), default="off", help=confines)
    reached = "what commands reach in a sandbox (none)"
    choice("--sandbox-network", choices=get_args(Network), help=reached)
    confined = "whether to ask about commands whose files and network a sandbox confines (ask)"
    choice("--sandboxed", choices=get_args(Sandboxed), help=confined)
    remembered = "remember over sessions what is learned about this folder"
    add("--memory", action="store_true", help=remembered)
    add("--max-steps", metavar="N", type=_positive, default=100, help="model calls a turn (100)")
    add("--log", metavar="FILE", help="write a log to this file")


def _add_sessions(commands: _Parsers) -> None:
    add = _add_group(
        commands,
        SessionsOptions,
        "sessions",
        "list, show, search, fork, rewind, export, import, remove, archive, repair",
        "ID is a session's id, or the beginning of one that no other id has.",
    )
    _add_limits(add("list", "list sessions, the last changed first"), "30 in a terminal")
    show = add("show", "show one session's conversation")
    _add_id(show)
    show.add_argument("--last", metavar="N", type=_positive, help="only the last N messages")
    _add_branch(show)
    search = add("search", "find sessions by what was said in them")
    search.add_argument("text", metavar="TEXT", type=_some_text, help="in upper or lower case")
    _add_limits(search, "20")
    fork = add("fork", "make a new session that begins as this one does, and print its id")
    _add_id(fork)
    fork.add_argument("--at", metavar="N", type=_natural, help="with its first N messages (all)")
    _add_branch(fork)
    _add_changes(add)


def _add_changes(add: _AddVerb) -> None:
    """Add the verbs that change a session, or carry it away."""
    rewind = add("rewind", "go back to an earlier message of a session")
    _add_id(rewind)
    first = "keep the first N messages"
    rewind.add_argument("--to", metavar="N", type=_natural, required=True, help=first)
    rewind.add_argument("--files", action="store_true", help="restore files that tools changed")
    rewind.add_argument("--yes", action="store_true", help="don't ask")
    export = add("export", "write a session as Markdown, an HTML page or JSON")
    _add_id(export)
    ending = "(by the ending of FILE, else markdown)"
    export.add_argument("--format", choices=_EXPORT_FORMATS, help=ending)
    export.add_argument("-o", "--output", metavar="FILE", help="a file, not standard output")
    export.add_argument("--force", action="store_true", help="replace the file if there is one")
    import_ = add("import", "make a session of an exported one, and print its id")
    import_.add_argument("file", metavar="FILE", help="a JSON export; - reads standard input")
    import_.add_argument("--keep-id", action="store_true", help="give it the id that it had")
    remove = add("rm", "remove sessions for good, with those of their subagents")
    remove.add_argument("ids", metavar="ID", nargs="+")
    remove.add_argument("--yes", action="store_true", help="don't ask")
    archive = add("archive", "hide sessions from the lists, and keep them")
    archive.add_argument("ids", metavar="ID", nargs="+")
    archive.add_argument("--undo", action="store_true", help="show them again")
    _add_id(add("repair", "keep all that can be verified of a damaged session"))


def _add_id(verb: Parser) -> None:
    verb.add_argument("ids", metavar="ID", nargs=1)


def _add_limits(verb: Parser, usual: str) -> None:
    verb.add_argument("--here", action="store_true", help="only those of this folder")
    verb.add_argument("--all", action="store_true", help="subagents' and archived ones as well")
    verb.add_argument("--limit", metavar="N", type=_positive, help=f"at most N ({usual})")


def _add_branch(verb: Parser) -> None:
    left = "what a rewind or a compaction left, from 0"
    verb.add_argument("--branch", metavar="N", type=_natural, help=left)


def _add_permissions(commands: _Parsers) -> None:
    summary = "explain a decision, list, test or trust rules, show what was decided"
    add = _add_group(commands, PermissionsOptions, "permissions", summary)
    explain = add("explain", "say what would be decided about a call, and why", _EXPLAIN)
    call = explain.add_mutually_exclusive_group(required=True)
    call.add_argument("text", metavar="CMD", nargs="?", help="a command of Bash")
    call.add_argument("--input", metavar="JSON", help='such as \'{"file_path": "a.py"}\'')
    explain.add_argument("--tool", metavar="TOOL", default="Bash", help="with --input (Bash)")
    listing = add("list", "list the rules in force, in the order in which they are asked")
    test = add("test", "judge the calls of a file, and compare", _TEST)
    lines = "a JSON object a line, or a rule file; - reads standard input"
    test.add_argument("file", metavar="FILE", help=lines)
    for verb in (explain, listing, test):
        _add_rules(verb, default=argparse.SUPPRESS)
    log = add("log", "show what was decided in a session and in those of its subagents")
    log.add_argument("session_id", metavar="ID", help="a session's id, or the beginning of one")
    log.add_argument("--last", metavar="N", type=_positive, help="only the last N decisions")
    add("trust", "let what the project's files say count, once you agree", _TRUST)


def _add_memory(commands: _Parsers) -> None:
    add = _add_group(
        commands,
        MemoryOptions,
        "memory",
        "list or forget what is remembered of this folder",
        "What agents have remembered of this folder, run with --memory.",
    )
    listing = add("list", "list entries, the newest first")
    listing.add_argument("--limit", metavar="N", type=_positive, default=30, help="at most N (30)")
    add("forget", "remove entries for good").add_argument("ids", metavar="ID", nargs="+")


def _add_plan(commands: _Parsers) -> None:
    add = _add_group(
        commands,
        PlanOptions,
        "plan",
        "show the state of a plan",
        "The plan of a session, such as one of plan_and_execute, and its state.",
    )
    show = add("show", "show the plan of a session, and how much of it is done")
    _add_id(show)
    show.add_argument("--mermaid", action="store_true", help="draw it, as a Mermaid flowchart")


def _add_completion(commands: _Parsers) -> None:
    """Add the command that prints the script, and the hidden one that the script runs."""
    script = commands.add_parser(
        "completion",
        help="print a script that completes command lines at the press of Tab",
        description=_COMPLETION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    script.add_argument("shell", metavar="SHELL", choices=SHELLS, help=" or ".join(SHELLS))
    script.set_defaults(command="completion", kind=CompletionOptions)
    complete = commands.add_parser("complete")
    complete.add_argument("shell", choices=SHELLS)
    complete.add_argument("line")
    complete.add_argument("--word")
    complete.set_defaults(command="complete", kind=CompletionOptions)


def _add_rules(parser: Parser, default: str | None) -> None:
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


def _add_folder(parser: Parser, default: str | None) -> None:
    place = "where sessions are kept: a folder, or the file of a database"
    parser.add_argument("--sessions", metavar="DIR", default=default, help=place)


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
