"""Commands that need no rule: they only read, and nothing outside of the workspace.

The programs are those that the table says it of; see `greenroom.permissions.shell.programs.table`.
"""

import os
import re
from collections.abc import Iterator, Sequence

from greenroom.core import visible
from greenroom.permissions.facts.fact import Command, PathUse
from greenroom.permissions.facts.pattern import segments
from greenroom.permissions.facts.place import Place
from greenroom.permissions.facts.repository import why_git_may_run
from greenroom.permissions.facts.word import Word
from greenroom.permissions.judging.call import Call
from greenroom.permissions.shell.programs.reading import is_version, only_prints, only_reads
from greenroom.permissions.shell.programs.table import Part, Program, parts, program_of
from greenroom.permissions.shell.programs.wrappers import WRAPPERS, inner_start

__all__ = ["READS_ONLY", "reads_input_inside", "reads_only"]

READS_ONLY = "it only reads, inside the workspace"
_GIT_HARMLESS = frozenset({"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"})
_GIT_ELSEWHERE = frozenset({"GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"})
# Options that give the pattern, so that the first operand is a file.
_PATTERNS = ("-e", "-f", "--regexp", "--file", "--files", "--from-file", "--expression")
_INPUT_FILE = re.compile(r"--a|-[^-IEnPLsd]*a")  # of xargs
# Commands that print names of files, and filters that print some of them.
_LISTS = re.compile(
    r"(?:find(?! .*-printf)|git ls-files|git diff .*--name-only|git grep -\w*l|rg (?:.* )?(?:-\w*l|--files)"
    r"|grep (?:.* )?-\w*l|ls|cd) |(?:git ls-files|ls|pwd|sort|uniq|head|tail)(?: -\S+)*\Z"
    r"|(?:head|tail) -n \d+\Z|grep(?: -[vEiF]+)? \S+\Z|rg --files\Z"
)
_READ_FOLDERS = frozenset({"diff", "git diff", "git grep", "git log", "git show", "rg"})
_DEEP = re.compile(r"-[rRd]|--[rd]")  # of grep
_NAMES_INPUT = frozenset({"xargs", "find"})


def reads_only(fact: Command, call: Call, *, careful: bool = False) -> str:
    """Say why a command needs no rule; empty if it does need one.

    It needs none if the program only reads, whatever it is given, and each word that may name a file
    is known and leads, as it is written and with links followed, into the workspace. The names that
    xargs takes from its input have to come from programs that list files of the workspace. Where it is
    `careful`, since a rule is about files, it also needs one if it reads what it finds in folders.
    """
    argv, place = fact.argv, fact.place or call.place
    if not argv or fact.cautions or place.lost or not os.path.isdir(call.place.root):
        return ""
    name = argv[0].text
    if visible(fact.text) != fact.text:  # a person should see what hides something
        return ""
    if not argv[0].static or "/" in name or _is_shadowed(name, place):
        return ""
    if name == "xargs":
        is_read = _takes_no_file(argv) and _is_given_names(call)
    elif only_prints(argv):
        is_read = all(_is_inside(word, place, call) for word in argv[1:] if word.pattern)
    else:
        is_read = is_version(argv) or (
            only_reads(argv)
            and not (careful and _reads_folders(argv))
            and _reads_inside(fact, place, call)
        )
    return READS_ONLY if is_read else ""


def _reads_folders(argv: Sequence[Word]) -> bool:
    """Tell whether a program reads files that it finds in folders, or in the past of a repository."""
    program, start = program_of(argv)
    is_deep = any(_DEEP.match(part.option) for part in parts(argv, program, start))
    return program.name in _READ_FOLDERS or (program.name == "grep" and is_deep)


def _is_shadowed(name: str, place: Place) -> bool:
    """Tell whether a program of this name lies in the workspace, where programs are looked for.

    The shims of version managers count as well: files of a project say what they run.
    """
    for each in os.environ.get("PATH", "").split(":"):
        for folder in (place.folder, *place.others):
            path = os.path.join(folder, each, name)
            is_near = os.path.commonpath((path, place.root)) == place.root
            is_near |= not each.startswith("/") or each.rstrip("/").endswith("/shims")
            if is_near and os.path.lexists(path):
                return True
    return False


def _takes_no_file(argv: Sequence[Word]) -> bool:
    """Tell whether xargs reads its standard input; what it runs is judged by itself."""
    start = inner_start(argv, WRAPPERS["xargs"])
    return start is not None and not any(_INPUT_FILE.match(word.text) for word in argv[1:start])


def _is_given_names(call: Call) -> bool:
    """Tell whether all that a call prints are names of files in the workspace."""
    commands = [each for each in call.facts if isinstance(each, Command) and each.outer is None]
    return all(_LISTS.match(each.text) or each.argv[0].text == "xargs" for each in commands)


def _reads_inside(fact: Command, place: Place, call: Call) -> bool:
    argv = fact.argv
    program, start = program_of(argv)
    if argv[0].text == "git":
        where = _git_place(argv[1:start], place, call)
        if where is None or any(map(why_git_may_run, _folders(where))):
            return False
        place = where
    if argv[0].text == "cd" and not _is_plain_change(argv):
        return False
    seen = tuple(parts(argv, program, start))
    if any(program.has("~", part.option or argv[part.at].text) for part in seen):
        return False
    from_input = fact.outer is not None and fact.outer.argv[0].text in _NAMES_INPUT
    return all(
        _is_inside(word, place, call, from_input=from_input) for word in _names(argv, seen, program)
    )


def _folders(place: Place) -> Iterator[str]:
    """Go through the folders that a command may run in, links followed."""
    return map(place.links.real, dict.fromkeys((place.folder, *place.others)))


def _git_place(words: Sequence[Word], place: Place, call: Call) -> Place | None:
    """Find where git runs, by the options before its verb; None if they may do more than say that."""
    words = [word for word in words if word.text not in _GIT_HARMLESS]
    if not _GIT_ELSEWHERE.isdisjoint(os.environ):
        return None
    if not words:
        return place
    is_folder = len(words) == 2 and words[0].text == "-C" and words[1].static
    if not (is_folder and _is_inside(words[1], place, call)):
        return None
    there = place.moved(words[1].text)
    return None if there.lost else there


def _is_plain_change(argv: Sequence[Word]) -> bool:
    """Tell whether `cd` goes to a folder that it names."""
    names = [word for word in argv[1:] if word.text not in ("-L", "-P", "--")]
    return len(names) == 1 and names[0].text[:1] not in ("", "-") and "CDPATH" not in os.environ


def _names(argv: Sequence[Word], seen: Sequence[Part], program: Program) -> Iterator[Word]:
    """Go through the words that may name a file: operands, and values that are not only text."""
    has_pattern = not program.is_("pattern") or any(
        part.option and any(_is_option(part.option, each) for each in _PATTERNS) for part in seen
    )
    apart = -1  # the word behind a long option, which may be its value
    for part in seen:
        word = argv[part.at]
        if not part.option:
            # A pattern is text; but what may be a value before it is taken for neither.
            if has_pattern or part.at == apart or word.may_be_option:
                yield word
            has_pattern = True
        elif part.value is not None and program.has("=", part.option):
            yield from [argv[part.value_at]] if argv[part.value_at].split else []
        elif part.value is not None:
            yield argv[part.value_at]._replace(text=part.value)
        elif part.option in ("-/", "-.", "-~") or word.unknown:
            yield Word("/")  # the value of an option that is not known
        if part.option.startswith("--") and part.value is None:
            apart = part.at + 1


def _is_option(option: str, wanted: str) -> bool:
    return option == wanted or (len(option) > 2 and wanted.startswith(option))


def _is_inside(word: Word, place: Place, call: Call, *, from_input: bool = False) -> bool:
    """Tell whether all that a word may name lies in the workspace."""
    # What a program fills in stands without the shell's signs.
    if word.unknown and (not from_input or "$" in word.text or "`" in word.text):
        return False
    if word.text in ("-", "/dev/null", ""):
        return True
    if word.text.startswith("~") and not (word.quoted or word.text == "~" or word.text[1] == "/"):
        return False  # such as `~-`, the folder before
    use = place.use(
        "read", word.text, tilde=not word.quoted, stars="files" if word.pattern else "none"
    )
    if not isinstance(use, PathUse):
        return False
    if any(os.path.basename(path).startswith("-") for path in use.fitting.paths):
        return False  # a name that would be taken for an option
    return _use_is_inside(use, call)


def reads_input_inside(call: Call) -> bool:
    """Tell whether the files that are read by redirections lie in the workspace."""
    reads = (fact for fact in call.facts if isinstance(fact, PathUse) and fact.kind == "read")
    return all(_use_is_inside(fact, call) for fact in reads)


def _use_is_inside(use: PathUse, call: Call) -> bool:
    if use.fitting.crowded:
        return False
    written, followed = call.anchors
    return all(
        segments(path)[: len(anchors.root)] == anchors.root
        for paths, anchors in ((use.lexical, written), (use.real, followed))
        for path in paths
    )
