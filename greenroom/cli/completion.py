"""Completion of command lines in the shell.

A shell loads one of the `SCRIPTS`. At each press it runs the hidden `greenroom complete`, which
splits the line typed so far (`split_line`), finds what may follow (`find_place`), and prints it.
"""

import argparse
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from greenroom.cli.arguments import command_parser

if TYPE_CHECKING:
    from greenroom.cli.arguments import CompletionOptions
    from greenroom.session import SessionMetadata


# Each script passes the line up to the cursor; all else is Python. The first line of the answer is
# "files", or "words", which follow, or "open" for words that continue, so that no blank follows
# them.

_BASH = r"""# bash completion of greenroom; in ~/.bashrc: source <(greenroom completion bash)
_greenroom() {
    local kind="" line
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ -z $kind ]]; then kind=$line; else COMPREPLY+=("$line"); fi
    done < <("${1/#\~/$HOME}" complete bash "${COMP_LINE:0:COMP_POINT}" "--word=$2" 2>/dev/null)
    # Where nothing fits, -o default offers files. A bash older than 4 has no way to change that.
    if type compopt >/dev/null 2>&1; then
        [[ $kind == files ]] || compopt +o default
        [[ $kind == open ]] && compopt -o nospace
    fi
}
complete -o default -F _greenroom greenroom
"""

_ZSH = r"""#compdef greenroom
# zsh completion of greenroom; in ~/.zshrc, after compinit: source <(greenroom completion zsh)
_greenroom() {
    local -a found described suffix
    local each
    found=("${(@f)$(${~words[1]} complete zsh "${(j: :)words[1,CURRENT-1]} $PREFIX" 2>/dev/null)}")
    if [[ $found[1] == files ]]; then
        compset -P '--*='
        _files
        return
    fi
    [[ $found[1] == open ]] && suffix=(-S '')
    for each in "${(@)found[2,-1]}"; do
        each=${each//:/\\:}
        described+=("${each/$'\t'/:}")
    done
    (( $#described )) && _describe -V 'greenroom' described "${suffix[@]}"
}
if [[ $funcstack[1] == _greenroom ]]; then _greenroom "$@"; else compdef _greenroom greenroom; fi
"""

_FISH = r"""# fish completion of greenroom; in ~/.config/fish/config.fish: greenroom completion fish | source
function __greenroom_complete
    set -l words (commandline -opc)
    set -l line (commandline -cp)
    set -l found ($words[1] complete fish "$line" 2>/dev/null)
    if test "$found[1]" = files
        __fish_complete_path (string replace -r '^--[a-z-]+=' '' -- (commandline -ct))
    else if set -q found[2]
        printf '%s\n' $found[2..-1]
    end
end
complete -c greenroom -f -k -a '(__greenroom_complete)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
"""The script of each shell."""

SHELLS = tuple(SCRIPTS)
"""The shells that there is a script for."""


_CURSOR = "\x00"  # is in no command line, so it marks the end of the last word


def split_line(line: str) -> list[str]:
    r"""Take a line apart as a shell does; the last word is the one being typed, perhaps empty.

    Example:
        >>> split_line("greenroom sessions sh"), split_line("greenroom "), split_line("greenroom 'a b")
        (['greenroom', 'sessions', 'sh'], ['greenroom', ''], ['greenroom', 'a b'])
    """
    lexer = shlex.shlex(line.replace(_CURSOR, "") + _CURSOR, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        words.extend(lexer)
    except ValueError:  # a quote is still open
        words.append(lexer.token)
    return [word.replace(_CURSOR, "") for word in words]


@dataclass(frozen=True)
class Candidate:
    """A completion; `note` says what it is."""

    word: str
    note: str = ""


@dataclass(frozen=True)
class Place:
    """The end of a line.

    Attributes:
        typed: what is typed of it.
        before: the part of the word before that, such as `--model=`.
        takes: the kind of value that belongs there, as help names it, such as "ID"; or empty.
        fixed: the words that are possible on any machine.
        sessions: the sessions' folder or database that the line names, or None.
        archived: whether archived sessions are meant, and no others.
    """

    typed: str
    before: str = ""
    takes: str = ""
    fixed: tuple[Candidate, ...] = ()
    sessions: str | None = None
    archived: bool = False


def find_place(parser: argparse.ArgumentParser, words: Sequence[str]) -> Place:
    """Find what may replace the last of these words.

    Example:
        >>> parser = argparse.ArgumentParser()
        >>> _ = parser.add_argument("--log", metavar="FILE")
        >>> find_place(parser, ["--log", "a"]).takes
        'FILE'
    """
    *past, typed = words
    reader = _Reader(parser)
    for word in past:
        reader.read(word)
    return reader.place(typed)


class _Reader:
    """Follows a line word by word, as far as completing it needs."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._parser = parser
        self._option: argparse.Action | None = None  # whose value comes next
        self._position = 0
        self._sessions: str | None = None
        self._archived = False

    def read(self, word: str) -> None:
        option, self._option = self._option, None
        if option is not None and not (option.nargs == "?" and word.startswith("-")):
            self._keep(option, word)
        elif word.startswith("-"):
            name, has_value, value = word.partition("=")
            found = self._parser._option_string_actions.get(name)
            if found is not None and has_value:
                self._keep(found, value)
            elif found is not None and found.nargs != 0:
                self._option = found
            elif found is not None and found.dest == "undo":
                self._archived = True
        elif (commands := self._commands) is not None:
            self._parser = commands.get(word, argparse.ArgumentParser(add_help=False))
            self._position = 0
        else:
            self._position += 1

    def _keep(self, option: argparse.Action, value: str) -> None:
        if option.dest == "sessions":
            self._sessions = value

    def place(self, typed: str) -> Place:
        name, has_value, value = typed.partition("=")
        named = self._parser._option_string_actions.get(name)
        if self._option is not None and not (self._option.nargs == "?" and typed.startswith("-")):
            return self._value(self._option, typed)
        if named is not None and has_value:
            return self._value(named, value, before=f"{name}=")
        if typed.startswith("-"):
            return Place(typed, fixed=self._options(typed))
        if self._commands is not None:
            return Place(typed, fixed=self._listed_commands())
        positional = self._positional()
        return Place(typed) if positional is None else self._value(positional, typed)

    def _value(self, action: argparse.Action, typed: str, before: str = "") -> Place:
        fixed = tuple(Candidate(str(each)) for each in action.choices or ())
        takes = "" if fixed else str(action.metavar or "")
        return Place(typed, before, takes, fixed, self._sessions, self._archived)

    def _options(self, typed: str) -> tuple[Candidate, ...]:
        """Return the options by their long names, unless a short one is typed."""
        return tuple(
            Candidate(name, (action.help or "").partition("\n")[0])
            for action in self._parser._actions
            for name in action.option_strings
            if name.startswith("--") or typed == name
        )

    @property
    def _commands(self) -> dict[str, argparse.ArgumentParser] | None:
        for action in self._parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                return action.choices
        return None

    def _listed_commands(self) -> tuple[Candidate, ...]:
        """Return the commands that help lists."""
        return tuple(
            Candidate(each.dest, each.help or "")
            for action in self._parser._actions
            if isinstance(action, argparse._SubParsersAction)
            for each in action._get_subactions()
        )

    def _positional(self) -> argparse.Action | None:
        positionals = [each for each in self._parser._actions if not each.option_strings]
        if self._position < len(positionals):
            return positionals[self._position]
        is_open = bool(positionals) and positionals[-1].nargs in ("+", "*")
        return positionals[-1] if is_open else None


_FILES = ("FILE", "DIR")


def run_completion(options: "CompletionOptions") -> int:
    """Print the script of a shell, or the completions of a line; return the exit code."""
    if options.command == "completion":
        print(SCRIPTS[options.shell], end="")
        return 0
    place = find_place(command_parser(), split_line(options.line)[1:] or [""])
    print(*_answer(place, options), sep="\n")
    return 0


def _answer(place: Place, options: "CompletionOptions") -> Iterator[str]:
    if place.takes in _FILES:
        yield "files"
        return
    candidates = [each for each in _candidates(place) if each.word.startswith(place.typed)]
    yield "open" if candidates and all(each.word.endswith(":") for each in candidates) else "words"
    # Bash ends a word at some signs, such as ":", and replaces only what follows them.
    whole = place.before + place.typed
    is_part = options.word is not None and whole.endswith(options.word)
    done = len(whole) - len(options.word or "") if is_part else 0
    for each in candidates:
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
    """List the sessions, the last changed first; return none if the store can't be read."""
    # Only now: where a command or an option is typed, all this need not be loaded.
    import trio

    from greenroom.cli.arguments import Options
    from greenroom.cli.stored_sessions import open_store
    from greenroom.core import GreenroomError
    from greenroom.session import AgentSession

    folder = None if place.sessions is None else os.path.expanduser(place.sessions)
    try:
        store = open_store(Options(sessions=folder))
        sessions = trio.run(partial(AgentSession.list_all, store=store, archived=place.archived))
    except GreenroomError:
        return []
    return [
        each
        for each in sessions
        if each.parent_session_id is None and (each.is_archived or not place.archived)
    ]


def _ids(sessions: "Iterable[SessionMetadata]", typed: str) -> Iterator[Candidate]:
    from greenroom.cli.formatting import age, title_of

    for each in sessions:
        if each.session_id.startswith(typed):
            yield Candidate(each.session_id, f"{title_of(each)}, {age(each.updated_at)}")


def _models(sessions: "Iterable[SessionMetadata]", typed: str) -> Iterator[Candidate]:
    """List the providers, the models used before, and the known models of a provider."""
    from greenroom.cli.formatting import model_of
    from greenroom.llm import MODELS, VENDORS

    used = {model_of(each) for each in sessions if each.provider}
    known = {name for name in MODELS if ":" in typed}
    for name in (*sorted(f"{each}:" for each in VENDORS), *sorted(used | known)):
        yield Candidate(name)
