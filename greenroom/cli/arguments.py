"""Declares the command line: its commands, their options, and help. It loads only argparse.

`command_parser` declares every command; `dispatch` says which function runs it. A command with
more options than a run has its own class for them.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import cast, get_args

from greenroom._version import __version__
from greenroom.cli.argument_makers import (
    Argument,
    CommandOrPrompt,
    CommandParser,
    SubParsers,
    add_call,
    argument as _argument,
    choice as _choice,
    flag as _flag,
    make_parser,
    more as _more,
    number as _number,
)
from greenroom.cli.argument_values import amount, day, natural, positive, some_text
from greenroom.cli.options import (
    CostGroup,
    InputFormat,
    Network,
    OnQuestion,
    Options,
    OutputFormat,
    SandboxChoice,
    Sandboxed,
    TraceContent,
    WrittenFormat,
)

SHELLS = ("bash", "zsh", "fish")
"""The shells that `greenroom completion` has a script for."""

_MODES = ("default", "accept-edits", "plan", "deny", "bypass")


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
    argv = sys.argv[1:] if argv is None else argv
    parser = command_parser(argv)
    values = vars(parser.parse_args(argv))
    is_headless, resume = "prompt" in values, values.get("resume")
    _check_prompt(values, parser)
    if resume == "" and is_headless:
        parser.error("--resume needs an id with -p PROMPT, since a headless run asks nothing")
    if resume is not None and "continue_last" in values:
        parser.error("--resume and --continue exclude each other")
    values = {
        name: tuple(each) if isinstance(each, list) else each for name, each in values.items()
    }
    kind = cast("str | None", values.pop("kind"))
    values["given"] = frozenset(values)
    return _load_kind(kind)(**cast("dict[str, str]", values))  # type: ignore[arg-type]  # argparse's types


def _load_kind(kind: str | None) -> type[Options]:
    if kind is None:
        return Options
    # Here and not above: a run has none of them, and its input line waits for what is loaded.
    module = import_module("greenroom.cli.command_options")
    return cast("type[Options]", getattr(module, kind))


def _check_prompt(values: dict[str, object], parser: "CommandParser") -> None:
    """Refuse a prompt that says nothing, and options that belong to the other kind of run."""
    prompt, opening = values.get("prompt"), values.get("opening")
    if prompt is None:
        if {"output_format", "input_format", "on_question"} & values.keys():
            parser.error("--output-format, --input-format and --on-question need -p PROMPT")
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
    "permissions add": """\
Add a rule to your file, or to the project's. A person at a terminal must agree to one that allows.
A run that is open takes its rules from /permissions.""",
    "permissions remove": """\
Remove a rule from your file, or from the project's. A person at a terminal has to agree where it
denies or asks.""",
    "permissions trust": """\
Show what .greenroom/permissions.json allows, ask, and let it count from then on, until the file
changes; and the same for each text that the project brings for the model, such as AGENTS.md. Only
a person at a terminal can agree. What the rules deny or ask about always counts.""",
    "sessions": "ID is a session's id, or the beginning of one that no other id has.",
    "plan": "The plan of a session, such as one of plan_and_execute, and its state.",
    "memory": "What agents have remembered of this folder, run with --memory.",
    "watch": """\
Show what an agent of another process of yours does: what it says and calls, with its subagents and
its tree, until it ends or Ctrl-C. It is only looked at: nothing is asked or answered here. With
--web it is shown on a page in a browser of this machine, whose link is printed.""",
    "drift": """\
Run a session again with an agent of today, and show the first request to its model that would
be another. Replies and results come from the record: no model is asked, and no tool runs. The agent
is imported from MODULE, in this folder or installed. The exit code is 1 if a request differs.""",
    "export-test": """\
Make a test file of a session. It holds the record, secrets taken out, imports the agent, and fails
with the difference when the agent asks its model something else.""",
    "prompt replay": """\
Send a request of a session to its model again, or to another one, and print the reply. It is paid
for; no tool runs. With --times the replies are counted.""",
    "models": """\
List the providers of models, the default model and why it is the default, and what is known of each
model: how much it takes, what it can do, what it costs. Models that are not listed can be used as
well. Prices are those of your settings file. Keys are never shown.""",
    "serve": """\
Serve sessions over HTTP: the coding agent's of this folder, or those of agents that are imported.
Without tokens it serves this machine alone, makes a token, and prints the link with it.
greenroom serve token NAME ROLE adds a token to the file, and prints it once; a role is one of
viewer, operator, admin, auditor.""",
    "host": """\
Run agents that are placed on this host, and take over those of hosts that are gone. The database is
that of GREENROOM_DSN, the secret of the cluster that of GREENROOM_SECRET. SIGTERM and Ctrl-C give
the agents to other hosts; a second one ends it at once.""",
    "hosts": "List the hosts that share the database of GREENROOM_DSN.",
    "attach": "Talk with an agent of a server. Your token is in the link, F or GREENROOM_TOKEN.",
    "mcp serve": """\
Be a server of the Model Context Protocol, with the built-in tools and the coding agent in this
folder. A client starts it and speaks with it on its standard streams; --http listens, and needs a
token from its clients. What your rules leave open is asked at the client, or denied.""",
    "completion": """\
Print a script that completes command lines at the press of Tab.
For bash, put this into ~/.bashrc: source <(greenroom completion bash)""",
}
"""What the help of a command says, where it says more than the list of commands does."""


_SERVED = "what to serve (the coding agent); or: token NAME ROLE"
_PLACE = "where sessions are kept: a folder, a database's file, or postgresql"
_TARGET = "such a place; one that ends in .db is a database"
_OLDER = "those last changed more than N days ago"
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
_SESSIONS = _argument("--sessions", "--store", metavar="DIR", help=_PLACE)
_COMMON = (_flag("--json", "print JSON"), _SESSIONS)
_ID = _argument("ids", metavar="ID", nargs=1)
_IDS = _argument("ids", metavar="ID", nargs="+")
_YES = _flag("--yes", "don't ask")
_BRANCH = _number("--branch", "what a rewind or a compaction left, from 0", type=natural)
_TEXT = _argument("text", metavar="TEXT", type=some_text, help="in upper or lower case")
_TO = _number("--to", "keep the first N messages", type=natural, required=True)
_AT = _number("--at", "with its first N messages (all)", type=natural)
_LISTED = (
    _flag("--here", "only those of this folder"),
    _flag("--all", "subagents' and archived ones as well"),
)

_NUMBER = _argument("number", metavar="N", type=positive, help="which request, from 1")
_AGENT = _argument("agent", metavar="MODULE:AGENT", help="where to import the agent from")
_FILE_OUT = _argument("-o", "--output", metavar="FILE", help="a file, not standard output")
_FORCE = _flag("--force", "replace the file if there is one")
_MODEL = _argument("-m", "--model", metavar="NAME", help="provider:model, such as anthropic:")
_KEY_FILE = _argument("--key-file", metavar="F", help="the file of the key it was written with")
_TOKEN_FILE = _argument(
    "--token-file", metavar="F", help="the file of tokens (tokens, in your folder)"
)
_SITES = (
    _more("--allow-host", "allowed_hosts", "H", "another name under which it is asked for"),
    _more("--origin", "allowed_origins", "O", "another site whose pages may use it"),
)
_TYPES = "types of agents to run: a sequence of AgentType, or a function that gives one"
_PATIENCE = _number("--patience", "seconds of silence that mean gone (10)", type=amount)
_MCP_CONFIG = _argument("--mcp-config", metavar="FILE", help="servers of tools, as in .mcp.json")

_RECORDS = (
    _choice("--trace", get_args(TraceContent), "what the trace holds of what is said (redacted)"),
    _argument("--log", metavar="FILE", help="write a log to this file"),
)
_AGENT_OPTIONS = (
    _MODEL,
    *_RULES,
    _choice("--sandbox", get_args(SandboxChoice), "what confines commands (off)"),
    _choice("--sandbox-network", get_args(Network), "what commands reach in a sandbox (none)"),
    _choice("--sandboxed", get_args(Sandboxed), _CONFINED),
    _flag("--memory", "remember over sessions what is learned about this folder"),
    _number("--max-steps", "model calls a turn (100)", "--max-turns"),
    _number("--max-cost", "what a turn may cost", metavar="X", type=amount),
    *_RECORDS,
    _MCP_CONFIG,
)
_RUN = (
    _argument("--version", action="version", version=f"greenroom {__version__}"),
    _argument("-p", "--prompt", metavar="PROMPT", nargs="?", const="", help=_PROMPT),
    _choice("--output-format", get_args(OutputFormat), "what -p prints (text)"),
    _choice("--input-format", get_args(InputFormat), "what -p reads (text)"),
    _choice("--on-question", get_args(OnQuestion), _QUESTION),
    _argument("-r", "--resume", metavar="ID", nargs="?", const="", help=_RESUME),
    _flag("-c", _CONTINUE, "--continue", dest="continue_last"),
    *_AGENT_OPTIONS,
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
        _choice("--format", get_args(WrittenFormat), "(by the ending of FILE, else markdown)"),
        _FILE_OUT,
        _FORCE,
    ),
    "sessions import": (
        _argument("file", metavar="FILE", help="a JSON export; - reads standard input"),
        _flag("--keep-id", "give it the id that it had"),
    ),
    "sessions rm": (_IDS, _YES),
    "sessions archive": (_IDS, _flag("--undo", "show them again")),
    "sessions repair": (_ID,),
    "sessions copy": (
        _argument("--from", dest="source", metavar="STORE", required=True, help=_PLACE),
        _argument("--to", dest="target", metavar="STORE", required=True, help=_TARGET),
        _argument("ids", metavar="ID", nargs="*", help="only these (all)"),
    ),
    "sessions expire": (_number("--older", _OLDER, required=True), _YES),
    "plan show": (_ID, _flag("--mermaid", "draw it, as a Mermaid flowchart")),
    "memory list": (_number("--limit", "at most N (30)"),),
    "memory forget": (_IDS,),
    "permissions explain": (
        add_call,
        _argument("--tool", metavar="TOOL", help="with --input (Bash)"),
        *_RULES,
    ),
    "permissions list": _RULES,
    "permissions test": (_argument("file", metavar="FILE", help=_CASES), *_RULES),
    "permissions log": (
        _argument("session_id", metavar="ID", help="a session's id, or the beginning of one"),
        _number("--last", "only the last N decisions"),
    ),
    "permissions add": (
        _argument("decision", choices=("allow", "deny", "ask"), help="what it decides"),
        _argument("rule", metavar="RULE", help="such as 'Bash(git log:*)'"),
        _flag("--project", _PROJECT),
    ),
    "permissions remove": (
        _argument("rule", metavar="RULE", help="the rule, or its name"),
        _flag("--project", _PROJECT),
    ),
    "permissions trust": (),
    "trace": (
        _ID,
        _argument("--html", metavar="FILE", help="write a page to this file"),
        _argument("--tree", action=argparse.BooleanOptionalAction, help="with subagents (yes)"),
    ),
    "diagnose": (_ID,),
    "prompt show": (_ID, _NUMBER, _flag("--sections", "only about how many tokens each part is")),
    "prompt replay": (_ID, _NUMBER, _MODEL, _number("--times", "send it N times (1)")),
    "drift": (_ID, _AGENT),
    "export-test": (_ID, _AGENT, _FILE_OUT, _FORCE),
    "cost": (
        _argument("session_id", metavar="ID", nargs="?", help="one session and those below it"),
        _choice("--by", get_args(CostGroup), "what the rows are (day; of one session: session)"),
        _argument("--since", metavar="DAY", type=day, help="from this day on: 2027-01-31, UTC"),
    ),
    "audit verify": (
        _argument("file", metavar="FILE", help="the audit"),
        _argument("--head", metavar="HASH", help="a hash that was the last one"),
        _KEY_FILE,
    ),
    "audit show": (_argument("file", metavar="FILE", help="the audit"),),
    "serve": (
        _argument("served", metavar="MODULE:NAME", nargs="*", help=_SERVED),
        _argument("--host", metavar="H", help="the address to listen at (127.0.0.1)"),
        _number("--port", "the port (a free one)", type=natural),
        _TOKEN_FILE,
        _argument("--owner", metavar="NAME", help="the owner of sessions that have none (you)"),
        *_SITES,
        _number(
            "--away",
            "seconds that a question waits for someone to come back (300)",
            metavar="S",
            type=amount,
        ),
        _more("--limit", "limits", "NAME=N", "a bound, such as streams=100"),
        _number("--grace", "seconds to end what is in hand (3)", metavar="S", type=amount),
        _argument("--audit", metavar="FILE", help="write an audit of all calls to this file"),
        _flag("--ag-ui", "let clients of AG-UI run the agents, at /ag-ui"),
        _flag("--a2a", "let clients of A2A run the agents, at /a2a"),
        _argument("--no-page", dest="page", action="store_false", help="no page for browsers"),
        *_RECORDS,
        _flag("--otel", "export spans by OpenTelemetry, as the variables OTEL_* say"),
        _flag("--cluster", "show the hosts of the cluster, too"),
        _MODEL,
        *_RULES,
    ),
    "attach": (
        _argument("url", metavar="URL", help="the server, as serve prints it"),
        _argument("--session", metavar="ID", help="go on with this session (a new one)"),
        _argument("--agent", metavar="NAME", help="the agent of a new session (the first)"),
        _argument("--token-file", metavar="F", help="the file with your token"),
    ),
    "acp": _AGENT_OPTIONS,
    "models": (_argument("name", metavar="NAME", nargs="?", help="only this model or provider"),),
    "skills": (),
    "mcp list": (_MCP_CONFIG,),
    "mcp add": (
        _argument("--env", metavar="K=V", action="append", help="a variable that it gets"),
        _argument("--header", metavar="K:V", action="append", help="what requests to a URL carry"),
        _flag("--project", _PROJECT),
        _argument("name", metavar="NAME", help="what its tools are called by"),
        _argument("place", metavar="COMMAND", help="a program, or a URL"),
        _argument("words", metavar="ARG", nargs=argparse.REMAINDER, help="its arguments"),
    ),
    "mcp remove": (
        _argument("name", metavar="NAME", help="its name"),
        _flag("--project", _PROJECT),
    ),
    "mcp test": (_argument("name", metavar="NAME", nargs="?", help="only this one"), _MCP_CONFIG),
    "mcp login": (
        _argument("name", metavar="NAME", help="its name"),
        _flag("--keyring", "keep it in the keyring of the system"),
        _MCP_CONFIG,
    ),
    "mcp logout": (_argument("name", metavar="NAME", help="its name"), _MCP_CONFIG),
    "mcp serve": (
        _argument("--http", metavar="HOST:PORT", help="listen there (standard streams)"),
        _TOKEN_FILE,
        *_SITES,
        _argument("--no-agent", dest="agent", action="store_false", help="the tools alone"),
        _MODEL,
        *_RULES,
    ),
    "host": (
        _argument("--types", metavar="MODULE:NAME", action="append", required=True, help=_TYPES),
        _argument("--name", metavar="NAME", help="what people call it (this machine's name)"),
        _more("--capability", "capabilities", "NAME", "what it offers, such as gpu"),
        _number("--max-agents", "how many agents it takes (1000)"),
        _number("--grace", "seconds for open turns when it ends (5)", metavar="S", type=amount),
        _argument("--bind", metavar="HOST:PORT", help="where it answers (127.0.0.1:0)"),
        _argument("--certificate", metavar="FILE", help="answer over TLS, with this of PEM"),
        _argument("--key", metavar="FILE", help="its private key (in the same file)"),
        _flag("--insecure", "answer other machines without TLS: the network encrypts"),
        _PATIENCE,
    ),
    "hosts": (_PATIENCE,),
    "doctor": (),
    "tree": (_flag("--cluster", "the agents on hosts, in place of those of this machine"),),
    "watch": (_ID, _flag("--web", "show it in a browser: print the link to a page")),
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
    "sessions": (
        "list, show, search, fork, rewind, export, import, rm, archive, repair, copy, expire"
    ),
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
    "sessions copy": "copy sessions to another store, and compare",
    "sessions expire": "remove sessions for good that were not changed for long",
    "plan": "show the state of a plan",
    "plan show": "show the plan of a session, and how much of it is done",
    "memory": "list or forget what is remembered of this folder",
    "memory list": "list entries, the newest first",
    "memory forget": "remove entries for good",
    "permissions": "explain a decision, list, change, test or trust rules, show what was decided",
    "permissions explain": "say what would be decided about a call, and why",
    "permissions add": "add a rule to your file, or to the project's",
    "permissions remove": "remove a rule from your file, or from the project's",
    "permissions list": "list the rules in force, in the order in which they are asked",
    "permissions test": "judge the calls of a file, and compare",
    "permissions log": "show what was decided in a session and in those of its subagents",
    "permissions trust": "let what the project's files say count, once you agree",
    "config": "show the settings and where each comes from; set, unset",
    "config set": "set a setting in your file, or in the project's",
    "config unset": "remove a setting from your file, or from the project's",
    "trace": "show what a session did, as a tree with times",
    "diagnose": "say what went wrong in a session",
    "prompt": "show what a model was asked, or ask it again",
    "prompt show": "show a request of a session as it was sent, or what fills it",
    "prompt replay": "send a request of a session to a model again, and print the reply",
    "drift": "say whether an agent would ask its model what it did in a session",
    "export-test": "make a test file of a session, for pytest",
    "cost": "show what was paid for tokens, by day, agent, model or session",
    "audit": "verify or show an audit",
    "audit verify": "check that an audit is as it was written",
    "audit show": "show the lines of an audit",
    "serve": "serve sessions over HTTP, or add a token",
    "attach": "talk with an agent of a server, as if it were here",
    "host": "run agents of a cluster in this process, until a signal ends it",
    "hosts": "list the hosts of a cluster, and the inputs that were set aside",
    "acp": "run in an editor that speaks the Agent Client Protocol",
    "models": "list models, whose key is set, which is the default, and what they cost",
    "mcp": "list, add, remove, test servers of tools; log in; be one",
    "mcp list": "list the servers of tools, where they come from, and whether they count",
    "mcp add": "add a server of tools to your file, or to the project's",
    "mcp remove": "remove a server of tools from your file, or from the project's",
    "mcp test": "connect to servers of tools, and list what they have",
    "mcp login": "log in at a server over HTTP, on a page that you open",
    "mcp logout": "forget the login at a server",
    "mcp serve": "offer the built-in tools and the coding agent to clients of the protocol",
    "skills": "list the skills, where they come from, and whether they are trusted",
    "doctor": "say what is set up, what is missing, how to fix it",
    "tree": "list the agents that run now, with their subagents",
    "watch": "show what an agent does while it runs, in this or any other terminal",
    "completion": "print a script that completes command lines at the press of Tab",
}
"""What each command does, in the order of the help."""

_KINDS = {
    "sessions": "SessionsOptions",
    "plan": "PlanOptions",
    "memory": "MemoryOptions",
    "permissions": "PermissionsOptions",
    "trace": "TraceOptions",
    "diagnose": "TraceOptions",
    "prompt": "PromptOptions",
    "drift": "RecordOptions",
    "export-test": "RecordOptions",
    "cost": "CostOptions",
    "audit": "AuditOptions",
    "serve": "ServeOptions",
    "attach": "AttachOptions",
    "host": "HostOptions",
    "hosts": "HostOptions",
    "models": "ModelsOptions",
    "config": "ConfigOptions",
    "mcp": "MCPOptions",
    "tree": "TreeOptions",
    "watch": "WatchOptions",
    "completion": "CompletionOptions",
}
"""The class of `command_options` that each command has; the others have `Options`."""


def command_parser(words: Sequence[str] | None = None) -> CommandParser:
    """Return what reads the command line.

    Args:
        words: the words of the only line that it will read, which takes a tenth of the time.
    """
    parser = CommandParser(
        prog="greenroom",
        usage="%(prog)s [options] [PROMPT | COMMAND ...]",
        description="A coding agent in your terminal. Without -p it is interactive.",
        epilog=_EPILOG,
    )
    parser.set_defaults(command="run", kind=None)
    add_run(parser)
    commands = parser.add_subparsers(
        prog=parser.prog,
        metavar="COMMAND",
        title="commands",
        action=CommandOrPrompt,
        parser_class=cast("type[CommandParser]", make_parser),
    )
    groups: dict[str, SubParsers] = {"": commands}
    for name, summary in _SUMMARIES.items():
        group, _, verb = name.rpartition(" ")
        if words is not None and (group or name) not in words:
            if not group:
                commands.add_parser(verb, help=summary, stand_in=parser)
            continue
        description = _DESCRIPTIONS.get(name, f"{summary[0].upper()}{summary[1:]}.")
        command = groups[group].add_parser(verb, help=summary, description=description)
        if any(other.startswith(f"{name} ") for other in _SUMMARIES):
            is_required = name not in _ARGUMENTS
            groups[name] = command.add_subparsers(metavar="VERB", required=is_required)
        if name not in _ARGUMENTS:
            continue
        command.set_defaults(command=name, kind=_KINDS.get(group or name))
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
    hidden.set_defaults(command="complete", kind="CompletionOptions")
    hidden.add_argument("shell", choices=SHELLS)
    hidden.add_argument("line")
    hidden.add_argument("--word")
