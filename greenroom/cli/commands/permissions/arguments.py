"""What may stand behind `greenroom permissions`; loads nothing but argparse."""

import argparse
from dataclasses import dataclass

from greenroom.cli.options import Options, Parser, Parsers, add_report, add_rules, positive

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
a person at a terminal can agree. What the rules deny or ask about counts always."""


@dataclass(frozen=True, kw_only=True)
class PermissionsOptions(Options):
    """What the user asked for behind `greenroom permissions`; no verb uses all of it.

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


def add_permissions(commands: Parsers) -> None:
    """Add the command and its verbs."""
    permissions = commands.add_parser(
        "permissions",
        help="explain a decision, list, test or trust rules, show what was decided",
    )
    verbs = permissions.add_subparsers(metavar="VERB", required=True)
    _add_explain(verbs)
    _add_list(verbs)
    _add_test(verbs)
    _add_log(verbs)
    _add_verb(verbs, "trust", "let what the project's files say count, once you agree", _TRUST)


def _add_verb(verbs: Parsers, name: str, text: str, description: str = "") -> Parser:
    verb = verbs.add_parser(
        name,
        help=text,
        description=description or f"{text[0].upper()}{text[1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_report(verb, f"permissions {name}", PermissionsOptions)
    return verb


def _add_explain(verbs: Parsers) -> None:
    verb = _add_verb(verbs, "explain", "say what would be decided about a call, and why", _EXPLAIN)
    call = verb.add_mutually_exclusive_group(required=True)
    call.add_argument("text", metavar="CMD", nargs="?", help="a command of Bash")
    call.add_argument("--input", metavar="JSON", help='such as \'{"file_path": "a.py"}\'')
    verb.add_argument("--tool", metavar="TOOL", default="Bash", help="with --input (Bash)")
    add_rules(verb, default=argparse.SUPPRESS)


def _add_list(verbs: Parsers) -> None:
    verb = _add_verb(verbs, "list", "list the rules in force, in the order in which they are asked")
    add_rules(verb, default=argparse.SUPPRESS)


def _add_test(verbs: Parsers) -> None:
    verb = _add_verb(verbs, "test", "judge the calls of a file, and compare", _TEST)
    verb.add_argument(
        "file", metavar="FILE", help="a JSON object a line, or a rule file; - is stdin"
    )
    add_rules(verb, default=argparse.SUPPRESS)


def _add_log(verbs: Parsers) -> None:
    verb = _add_verb(verbs, "log", "show what was decided in a session and in its subagents'")
    verb.add_argument("session_id", metavar="ID", help="a session's id, or a beginning of one")
    verb.add_argument("--last", metavar="N", type=positive, help="only the last N decisions")
