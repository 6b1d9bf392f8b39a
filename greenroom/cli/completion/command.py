"""`greenroom completion SHELL`, and `greenroom complete`, which its script runs at each Tab."""

import os
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from greenroom.cli.arguments import command_parser
from greenroom.cli.completion.line import words_of
from greenroom.cli.completion.place import Candidate, Place, find_place
from greenroom.cli.completion.script import SCRIPTS

if TYPE_CHECKING:
    from greenroom.cli.completion.arguments import CompletionOptions
    from greenroom.session import SessionMetadata

_FILES = ("FILE", "DIR")


def run_completion(options: "CompletionOptions") -> int:
    """Print the script of a shell, or what may stand at the end of a line; return the exit code."""
    if options.command == "completion":
        print(SCRIPTS[options.shell], end="")
        return 0
    place = find_place(command_parser(), words_of(options.line)[1:] or [""])
    print(*_answer(place, options), sep="\n")
    return 0


def _answer(place: Place, options: "CompletionOptions") -> Iterator[str]:
    if place.takes in _FILES:
        yield "files"
        return
    found = [each for each in _candidates(place) if each.word.startswith(place.typed)]
    yield "open" if found and all(each.word.endswith(":") for each in found) else "words"
    # Bash takes some signs, such as ":", for the end of a word, and goes on behind them.
    whole = place.before + place.typed
    is_part = options.word is not None and whole.endswith(options.word)
    done = len(whole) - len(options.word or "") if is_part else 0
    for each in found:
        word = f"{place.before}{each.word}"[done:]
        if word:
            yield f"{word}\t{each.note}" if each.note and options.shell != "bash" else word


def _candidates(place: Place) -> Iterable[Candidate]:
    match place.takes:
        case "ID":
            return _ids(_sessions(place), place.typed)
        case "NAME":
            return _models(_sessions(place), place.typed)
        case _:
            return place.fixed


def _sessions(place: Place) -> "list[SessionMetadata]":
    """Describe the sessions, the last changed first; what can't be read completes nothing."""
    # Only now: where a command or an option is typed, all this need not be loaded.
    import trio

    from greenroom.cli.options import Options
    from greenroom.cli.run.store import open_store
    from greenroom.core import GreenroomError
    from greenroom.session import AgentSession

    folder = None if place.sessions is None else os.path.expanduser(place.sessions)
    try:
        store = open_store(Options(sessions=folder))
        found = trio.run(partial(AgentSession.list_all, store=store, archived=place.archived))
    except GreenroomError:
        return []
    return [
        each
        for each in found
        if each.parent_session_id is None and (each.is_archived or not place.archived)
    ]


def _ids(sessions: "Iterable[SessionMetadata]", typed: str) -> Iterator[Candidate]:
    from greenroom.cli.commands.sessions.row import age, title_of

    for each in sessions:
        if each.session_id.startswith(typed):
            yield Candidate(each.session_id, f"{title_of(each)}, {age(each.updated_at)}")


def _models(sessions: "Iterable[SessionMetadata]", typed: str) -> Iterator[Candidate]:
    """Name the providers, the models that were used before, and of a provider those that are known."""
    from greenroom.cli.commands.sessions.row import model_of
    from greenroom.llm import MODELS, VENDORS

    used = {model_of(each) for each in sessions if each.provider}
    known = {name for name in MODELS if ":" in typed}
    for name in (*sorted(f"{each}:" for each in VENDORS), *sorted(used | known)):
        yield Candidate(name)
