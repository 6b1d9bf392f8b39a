"""The command line: what may stand on it, and what it means."""

import argparse
import sys
from typing import cast

from greenroom._version import __version__
from greenroom.cli.commands.memory.arguments import add_memory
from greenroom.cli.commands.models.arguments import add_models
from greenroom.cli.commands.permissions.arguments import add_permissions
from greenroom.cli.commands.plan.arguments import add_plan
from greenroom.cli.commands.sessions.arguments import add_sessions
from greenroom.cli.completion.arguments import add_completion
from greenroom.cli.options import (
    Options,
    Parser,
    add_folder,
    add_report,
    add_rules,
    positive,
)

_FORMATS = ("text", "json", "stream-json")
_ON_QUESTION = ("deny", "wait")
_SANDBOXES = ("off", "read-only", "workspace-write")
_NETWORKS = ("none", "all")
_SANDBOXED = ("ask", "allow")
_EPILOG = """\
exit codes: 0 done, 1 failed, 2 usage or configuration, 3 denied where the turn of -p could
not go on, or waits for an answer; 130 interrupted, 143 terminated, 129 hung up, 141 the
reader of the output went away
the model: --model, else that of a session that goes on, else GREENROOM_MODEL, else your settings
file, else the first of ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, OPENAI_API_KEY that is set decides,
else offline; greenroom models says which it is
rules: Read, Bash(git status:*), Edit(src/**), WebFetch(domain:docs.python.org), *"""


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
    if values["prompt"] is None and values["output_format"] is not None:
        parser.error("--output-format belongs to a headless run: add -p PROMPT")
    if values["prompt"] is None and values["on_question"] is not None:
        parser.error("--on-question belongs to a headless run: add -p PROMPT")
    if values["resume"] == "" and values["prompt"] is not None:
        parser.error("--resume needs an id where -p PROMPT stands: nobody is asked")
    if values["resume"] is not None and values["continue_last"]:
        parser.error("--resume and --continue exclude each other")
    if values["sandbox"] == "off" and values["sandbox_network"] is not None:
        parser.error("--sandbox-network belongs to a sandbox: add --sandbox workspace-write")
    if values["sandbox"] == "off" and values["sandboxed"] == "allow":
        parser.error("--sandboxed allow belongs to a sandbox: add --sandbox workspace-write")
    values["output_format"] = values["output_format"] or "text"
    values["on_question"] = values["on_question"] or "deny"
    values["sandbox_network"] = values["sandbox_network"] or "none"
    values = {
        name: tuple(each) if isinstance(each, list) else each for name, each in values.items()
    }
    kind = cast("type[Options]", values.pop("kind"))
    return kind(**cast("dict[str, str]", values))  # type: ignore[arg-type]  # argparse's types


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
    add_folder(parser, default=None)
    parser.set_defaults(command="run", kind=Options, json=False)
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    add_sessions(commands)
    add_plan(commands)
    add_memory(commands)
    add_permissions(commands)
    add_models(commands)
    doctor = commands.add_parser(
        "doctor", help="say what is set up, what is missing, how to fix it"
    )
    add_report(doctor, "doctor", Options)
    tree = commands.add_parser("tree", help="list the agents that run now, with their subagents")
    add_report(tree, "tree", Options)
    add_completion(commands)
    return parser


def _add_run(parser: Parser) -> None:
    add = parser.add_argument
    add("-p", "--prompt", metavar="PROMPT", help="answer this, print the answer, and end")
    add("--output-format", choices=_FORMATS, help="what -p prints (text)")
    question = "where -p would have to ask: deny, or end and leave the question open (deny)"
    add("--on-question", choices=_ON_QUESTION, help=question)
    add("--model", metavar="NAME", help="provider:model, such as anthropic: or offline:")
    resume = "go on with this session; without ID, choose one"
    add("--resume", metavar="ID", nargs="?", const="", help=resume)
    add("--continue", dest="continue_last", action="store_true", help="go on with the newest here")
    add_rules(parser, default=None)
    add("--sandbox", choices=_SANDBOXES, default="off", help="what commands are held to (off)")
    reached = "what they reach in a sandbox (none)"
    add("--sandbox-network", choices=_NETWORKS, help=reached)
    held = "whether commands are asked about whose sandbox holds files and network (ask)"
    add("--sandboxed", choices=_SANDBOXED, default="ask", help=held)
    remembered = "remember over sessions what is learned about this folder"
    add("--memory", action="store_true", help=remembered)
    add("--max-steps", metavar="N", type=positive, default=100, help="model calls a turn (100)")
    add("--log", metavar="FILE", help="write a log to this file")
