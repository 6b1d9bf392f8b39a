"""What may stand behind `greenroom sessions`; loads nothing but argparse."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from greenroom.cli.options import Options, Parser, Parsers, add_report, natural, positive

if TYPE_CHECKING:
    from greenroom.export import ExportFormat

_FORMATS = ("markdown", "html", "json")


@dataclass(frozen=True, kw_only=True)
class SessionsOptions(Options):
    """What the user asked for behind `greenroom sessions`; no verb uses all of it.

    Attributes:
        ids: the sessions that it is about: whole ids, or the beginnings of some.
        here: whether only sessions of the working directory are meant.
        all: whether archived sessions and those of subagents are meant as well.
        text: what is looked for.
        limit: how many sessions are shown at the most, or None for the usual.
        last: how many messages are shown at the most, the last ones; None for all.
        branch: the number of the branch that is meant, or None for the current one.
        at: how many messages a fork begins with, or None for all.
        to: how many messages a rewind keeps.
        files: whether a rewind restores files as well.
        yes: whether nothing is asked before something is taken away.
        format: in what an export is written, or None where its file tells.
        output: the file for an export, or None for standard output.
        force: whether that file may be replaced.
        file: what is imported; "-" is standard input.
        keep_id: whether what is imported gets the id that it had.
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
        """The one session that it is about."""
        return self.ids[0]


_Add: TypeAlias = Callable[[str, str], Parser]


def add_sessions(commands: Parsers) -> None:
    """Add the command and its verbs."""
    sessions = commands.add_parser(
        "sessions",
        help="list, show, search, fork, rewind, export, import, remove, archive, repair",
        description="ID is a session's id, or a beginning that no other has.",
    )
    verbs = sessions.add_subparsers(metavar="VERB", required=True)
    add = partial(_add_verb, verbs)
    _add_list(add)
    _add_show(add)
    _add_search(add)
    _add_fork(add)
    _add_rewind(add)
    _add_export(add)
    _add_import(add)
    _add_rm(add)
    _add_archive(add)
    _add_one(add("repair", "keep all that can be verified of a damaged session"))


def _add_verb(verbs: Parsers, name: str, text: str) -> Parser:
    verb = verbs.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    add_report(verb, f"sessions {name}", SessionsOptions)
    return verb


def _add_one(verb: Parser) -> None:
    verb.add_argument("ids", metavar="ID", nargs=1)


def _add_list(add: _Add) -> None:
    verb = add("list", "list sessions, the last changed first")
    _add_choice(verb, "at most N (30 in a terminal)")


def _add_choice(verb: Parser, limit: str) -> None:
    verb.add_argument("--here", action="store_true", help="only those of this folder")
    verb.add_argument("--all", action="store_true", help="subagents' and archived ones as well")
    verb.add_argument("--limit", metavar="N", type=positive, help=limit)


def _add_show(add: _Add) -> None:
    verb = add("show", "show one session's conversation")
    _add_one(verb)
    verb.add_argument("--last", metavar="N", type=positive, help="only the last N messages")
    _add_branch(verb)


def _add_search(add: _Add) -> None:
    verb = add("search", "find sessions by what was said in them")
    verb.add_argument("text", metavar="TEXT", type=_some_text, help="in any case of its letters")
    _add_choice(verb, "at most N (20)")


def _some_text(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("there is no text to look for")
    return text


def _add_fork(add: _Add) -> None:
    verb = add("fork", "make a new session that begins as this one does, and print its id")
    _add_one(verb)
    verb.add_argument("--at", metavar="N", type=natural, help="with its first N messages (all)")
    _add_branch(verb)


def _add_branch(verb: Parser) -> None:
    verb.add_argument(
        "--branch", metavar="N", type=natural, help="what a rewind or a compaction left, from 0"
    )


def _add_rewind(add: _Add) -> None:
    verb = add("rewind", "go back to an earlier message of a session")
    _add_one(verb)
    verb.add_argument(
        "--to", metavar="N", type=natural, required=True, help="keep the first N messages"
    )
    verb.add_argument("--files", action="store_true", help="put files back that tools changed")
    _add_yes(verb)


def _add_rm(add: _Add) -> None:
    verb = add("rm", "remove sessions for good, with those of their subagents")
    verb.add_argument("ids", metavar="ID", nargs="+")
    _add_yes(verb)


def _add_archive(add: _Add) -> None:
    verb = add("archive", "put sessions out of the lists, and keep them")
    verb.add_argument("ids", metavar="ID", nargs="+")
    verb.add_argument("--undo", action="store_true", help="put them back")


def _add_yes(verb: Parser) -> None:
    verb.add_argument("--yes", action="store_true", help="don't ask")


def _add_export(add: _Add) -> None:
    verb = add("export", "write a session as Markdown, an HTML page or JSON")
    _add_one(verb)
    verb.add_argument("--format", choices=_FORMATS, help="(that of FILE's ending, else markdown)")
    verb.add_argument("-o", "--output", metavar="FILE", help="to this file, not to standard output")
    verb.add_argument("--force", action="store_true", help="replace the file if there is one")


def _add_import(add: _Add) -> None:
    verb = add("import", "make a session of an exported one, and print its id")
    verb.add_argument("file", metavar="FILE", help="a JSON export; - reads standard input")
    verb.add_argument("--keep-id", action="store_true", help="give it the id that it had")
