"""The rule that an "always" proposes for a command: its program and verbs, or its exact words."""

import os
import posixpath
import re
from collections.abc import Sequence

from greenroom.permissions.answers.verbs import Reach, reach, runs_scripts, verb_length
from greenroom.permissions.facts.fact import Command, PathUse
from greenroom.permissions.facts.pattern import segments
from greenroom.permissions.judging.call import Call
from greenroom.permissions.judging.protection import protections, writes_inside
from greenroom.permissions.rules.matcher import RuleMatcher, quoted_words
from greenroom.permissions.shell.variables import changes_programs

__all__ = ["activates", "command_matcher", "forbidden_command"]

# Verbs that run the program behind them as the project has it, …
_RUNNERS = ("bundle exec", "hatch run", "pdm run", "pipenv run", "poetry run", "rye run", "uv run")
# … and those that fetch it where the project does not have it.
_FETCHING = ("npx", "npm exec", "pnpm exec", "yarn exec")
# Of the variables by which programs find what they run, those that only say how.
_HARMLESS = re.compile(
    r"NODE_ENV|RUST_(?:LOG|BACKTRACE)|CARGO_TERM_COLOR|GO(?:OS|ARCH)"
    r"|PYTHON(?:UNBUFFERED|DONTWRITEBYTECODE|HASHSEED|UTF8|IOENCODING|ASYNCIODEBUG|FAULTHANDLER)"
)
_PLAIN = re.compile(r"[\w.,:/@%+=-]*")
_SPECIAL = re.compile(r"[*?\[\]{}\\]")
_AWAY = re.compile(r"[/:]|\.\.")
# Commands, joined by NUL, that install what the project lists, or contact this machine alone.
_FLAG = r"\0-[^\0/:]*"
_NAME = r"(?:\w[\w.-]*/)*\w[\w.-]*"
_INSTALLS = re.compile(
    rf"(?:npm\0(?:ci|i|install)|(?:bun|bundle|composer|pdm|pipenv|pnpm|poetry|yarn)\0install|yarn"
    rf"|(?:pdm|poetry|uv)\0(?:lock|sync|venv)|cargo\0fetch|go\0mod\0(?:download|tidy))(?:{_FLAG})*"
    rf"|(?:uv\0|python3?\0-m\0)?pip3?\0install"
    rf"(?:\0(?:-[cr]|--constraint|--requirement)\0{_NAME}|{_FLAG}|\0\.(?:/{_NAME})?(?:\[[\w,-]+\])?)*"
)
_LOCALHOST = re.compile(
    r"curl(?:\0(?:-[fgGiIkLNsSv]+|--(?:fail|include|head|location|silent|verbose)|-[dHX]\0[^\0]*"
    r"|(?:https?://)?(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?(?:/[^\0]*)?))+"
)


def command_matcher(fact: Command, call: Call) -> RuleMatcher | None:
    """Propose a matcher for a command, or None if no narrow one exists.

    It is a prefix where the program is known to name what it does by its first words, as
    `git status` does; for other programs exactly these words, and for interpreters, wrappers and
    programs that remove or fetch things elsewhere nothing at all. It names the variables that are
    set for the command, and the files in the workspace that its output goes to.
    """
    if not fact.argv or not all(_may_set(each, fact, call) for each in fact.settings):
        return None
    kind, length = _reach(fact, call)
    if kind is Reach.NOTHING or (
        kind is Reach.INSIDE
        and not all(_stays(word.text, fact, call) for word in fact.argv[length:])
    ):
        return None
    return _named(fact, call, length if kind is Reach.PREFIX else 0, _targets(fact, call))


def forbidden_command(fact: Command, call: Call) -> RuleMatcher | None:
    """Name what a "never" forbids: the program and its verb, as for `git push`, else all words."""
    words = [word.text for word in fact.argv]
    kind, length = _reach(fact, call) if words else (Reach.NOTHING, 0)
    return _named(fact, call, length if kind is Reach.PREFIX else verb_length(words))


def _named(
    fact: Command, call: Call, length: int, targets: tuple[str, ...] = ()
) -> RuleMatcher | None:
    """Make a matcher of the first words, or of all of them; None where they are not known."""
    named = fact.argv[: length or None]
    if not all(word.static for word in named):
        return None
    given = (*fact.settings, *(word.text for word in named))
    prefix, exact = ((quoted_words(given),), ()) if length else ((), given)
    return RuleMatcher(
        tool=(call.tool,), command_prefix=prefix, argv_exact=exact, redirect_to=targets
    )


def _reach(fact: Command, call: Call) -> tuple[Reach, int]:
    """Say what a rule may name; the workspace's own programs are like those of their name."""
    words = [word.text for word in fact.argv]
    own = _own_program(words[0], fact, call) or words[0]
    text = "\0".join([own, *words[1:]])
    if activates(fact, call) or _LOCALHOST.fullmatch(text) or _INSTALLS.fullmatch(text):
        return Reach.EXACT, 0
    in_place = own == "sed" and all(
        words[at].startswith(("-i", "--in-")) for at, _ in fact.cautions
    )
    if fact.cautions and not in_place:
        return Reach.NOTHING, 0
    if own == "export" and words[1:]:
        plain = all("=" in each and _may_set(each, fact, call) for each in words[1:])
        return Reach.EXACT if plain else Reach.NOTHING, 0
    led = _lead(words, fact, call)
    program = words[led]
    kind, length = reach([_own_program(program, fact, call) or program, *words[led + 1 :]])
    if led and program.startswith("-"):
        kind = Reach.NOTHING
    elif led and kind is Reach.EXACT and "." not in program and not runs_scripts(program):
        kind, length = Reach.PREFIX, 1  # a program of the project's own
    return kind, led + length


def _lead(words: Sequence[str], fact: Command, call: Call) -> int:
    """Say how many words only lead to a program of the project."""
    for runner in (*_RUNNERS, *_FETCHING):
        at = len(runner.split())
        if " ".join(words[:at]) == runner and words[at:]:
            there = _own_program(f"node_modules/.bin/{words[at]}", fact, call)
            return at if there or runner in _RUNNERS else 0
    return 0


def activates(fact: Command, call: Call) -> bool:
    """Tell whether a command activates a virtual environment of the workspace, and no more."""
    words = [word.text for word in fact.argv]
    is_source = len(words) == 2 and words[0] in (".", "source") and fact.argv[1].static
    is_ours = is_source and _own_program(words[1], fact, call) == "activate"
    return is_ours and _is_inside(words[1], fact, call)


def _own_program(program: str, fact: Command, call: Call) -> str:
    """Name a program of a virtual environment or of `node_modules` in the workspace; else empty."""
    folder, _, name = program.rpartition("/")
    use = (fact.place or call.place).use("read", folder, guard=True)
    if not isinstance(use, PathUse) or not _is_inside(folder, fact, call):
        return ""
    there = [path for path in use.lexical if os.path.lexists(posixpath.join(path, name))]
    return name if there and all(map(_holds_programs, there)) else ""


def _holds_programs(folder: str) -> bool:
    end = segments(folder)[-2:]
    settings = posixpath.join(folder, "../pyvenv.cfg")
    return end == ("node_modules", ".bin") or (end[-1:] == ("bin",) and os.path.isfile(settings))


def _may_set(setting: str, fact: Command, call: Call) -> bool:
    """Tell whether a rule may name this setting: programs are not found by it."""
    name, _, value = setting.partition("=")
    if name in ("PYTHONPATH", "NODE_PATH"):
        return all(_is_inside(each, fact, call) for each in value.split(":"))
    finds = changes_programs(name) and not _HARMLESS.fullmatch(name)
    return not finds and _PLAIN.fullmatch(value) is not None


def _stays(word: str, fact: Command, call: Call) -> bool:
    """Tell whether a word is a plain option, or names something in the workspace but not all of it."""
    if word.startswith("-"):
        return not _AWAY.search(word)
    all_of_it = word == "." and fact.argv[0].text not in ("cp", "mv")
    return _is_inside(word, fact, call) and not all_of_it


def _is_inside(name: str, fact: Command, call: Call) -> bool:
    """Tell whether a name lies in the workspace, unprotected, and is not all of it but as `.`."""
    place = fact.place or call.place
    use = place.use("write", name, guard=True)
    if not isinstance(use, PathUse) or place.lost or not writes_inside(use, call):
        return False
    paths = protections(use, call)
    return name == "." or all(len(segments(path)) > len(each.root) for path, each, _ in paths)


def _targets(fact: Command, call: Call) -> tuple[str, ...]:
    root = posixpath.join(call.place.root, "")
    return tuple(
        path.removeprefix(root)
        for use in call.facts
        if isinstance(use, PathUse) and use.kind == "write" and use.command == fact
        if writes_inside(use, call)
        for path in use.lexical
        if not _SPECIAL.search(path)
    )
