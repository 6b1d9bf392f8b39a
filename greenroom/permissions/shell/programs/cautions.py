"""Options that make a harmless program write files or run others.

A rule that allows `sort` speaks of sorting; `sort -o file` needs a rule that says so.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from greenroom.permissions.facts.word import Word, basename
from greenroom.permissions.shell.programs.careful_options import (
    CAREFUL_OPTIONS,
    SAME,
    TO_FILES,
)
from greenroom.permissions.shell.programs.careful_words import CAREFUL_WORDS
from greenroom.permissions.shell.programs.options import Options, ends_options, letter_of
from greenroom.permissions.shell.programs.scripts import awk_scripts, sed_scripts
from greenroom.permissions.shell.programs.settings import make_settings
from greenroom.permissions.shell.variables import changes_programs

__all__ = ["cautions", "only_prints", "only_reads"]

_PRINTS = frozenset(["echo", "true", "false", ":", "test", "["])
_READS = frozenset(
    [
        "cat",
        "ls",
        "head",
        "tail",
        "wc",
        "grep",
        "egrep",
        "fgrep",
        "rg",
        "find",
        "diff",
        "stat",
        "du",
        "file",
        "sort",
        "uniq",
        "cut",
        "jq",
        "tree",
        "which",
        "cd",
        "pwd",
        "tr",
        "basename",
        "dirname",
        "realpath",
        "readlink",
        "nl",
        "tac",
        "rev",
        "seq",
        "date",
        "cmp",
        "comm",
        "id",
        "whoami",
        "uname",
        "sed",
        "awk",
    ]
)
_GIT_READS = frozenset(
    [
        "status",
        "diff",
        "log",
        "show",
        "blame",
        "grep",
        "ls-files",
        "rev-parse",
        "branch",
        "describe",
    ]
)


def only_prints(argv: Sequence[Word]) -> bool:
    """Stub."""
    name = argv[0].text
    if name == "printf":
        return len(argv) > 1 and not argv[1].text.startswith("-v") and not argv[1].may_be_option
    return name in _PRINTS


def only_reads(argv: Sequence[Word]) -> bool:
    """Stub."""
    name = basename(argv[0].text)
    if name == "git":
        return len(argv) > 1 and argv[1].text in _GIT_READS
    return name in _READS


_GIT_GLOBAL = ("-c", "--config-env", "--exec-path", "-p", "--paginate")
_GIT_ANY = Options(
    words=(
        "--output",
        "--ext-diff",
        "--textconv",
        "--open-files-in-pager",
        "--upload-pack",
        "--receive-pack",
        "--exec",
        "--template",
        "--config",
        "--no-index",
        "--upload-archive",
    )
)
_GIT_HARMLESS = frozenset({"--text"})  # exact names go before abbreviations
_GIT_VERBS = {
    "clone": Options("cu", "boj"),
    "commit": Options(values="mFtcC"),
    "tag": Options(values="mFu"),
    "merge": Options(values="mFsX"),
    "log": Options(values="nSGLlO"),
    "show": Options(values="nSGLlO"),
    "diff": Options(values="SGlO"),
    "checkout": Options(values="bB"),
    "switch": Options(values="cC"),
    "rebase": Options("x", "sXCS"),
    "grep": Options("O", "efmABC"),
    "difftool": Options("x", "t"),
    "archive": Options("o"),
    "format-patch": Options("o", "v"),
    "bisect": Options(words=("run",)),
    "submodule": Options(words=("foreach",)),
}
_GIT_CAREFUL = frozenset({"filter-branch", "mergetool", "config"})  # whatever their words are
# No option of theirs writes or runs anything.
_GIT_PLAIN = frozenset({"status", "rev-parse", "merge-base", "describe", "ls-files"})


def cautions(argv: Sequence[Word]) -> tuple[tuple[int, str], ...]:
    """Find the words that make a program do more than its name says: their places, and why."""
    found = known_cautions(argv)
    careful = careful_options(argv)
    if careful and any(word.dynamic for word in argv):
        found += _unseen(argv, careful)
    return tuple(sorted(found))


def _unseen(argv: Sequence[Word], careful: Sequence[Options]) -> Iterator[tuple[int, str]]:
    for at, word in enumerate(argv[1:], 1):
        if ends_options(argv, at, careful):
            return
        before = argv[at - 1].text
        is_value = any(
            letter_of(before, each.values, each.letters) == len(before) - 1 for each in careful
        )
        if word.may_be_option and not (is_value and not word.split):
            yield at, f"{word.text[:40]} may turn out to be an option that does more"


def careful_options(argv: Sequence[Word]) -> tuple[Options, ...]:
    """Return the options of a program that may make it do more; none if it has none."""
    name = basename(argv[0].text)
    name = SAME.get(name, name)
    if name == "git":
        if len(argv) > 1 and argv[1].text in _GIT_PLAIN:
            return ()
        verb = next((word.text for word in argv if word.text in _GIT_VERBS), "")
        return (_GIT_ANY, _GIT_VERBS.get(verb, Options()))
    own = (CAREFUL_OPTIONS[name],) if name in CAREFUL_OPTIONS else ()
    return own or ((Options(),) if name in ("uniq", "xxd") else ())


def known_cautions(argv: Sequence[Word]) -> list[tuple[int, str]]:
    """Find those words that are to be seen."""
    name = basename(argv[0].text)
    name = SAME.get(name, name)
    # Behind its format, printf has only values.
    options = argv[:2] if name == "printf" else argv
    found = list(_options(options, CAREFUL_OPTIONS[name], name)) if name in CAREFUL_OPTIONS else []
    if name in _SPECIAL:
        found += _SPECIAL[name](argv)
    return found


def _options(argv: Sequence[Word], options: Options, name: str) -> Iterator[tuple[int, str]]:
    for at, word in enumerate(argv[1:], 1):
        if ends_options(argv, at, (options,)):
            return
        if options.names(word.text) and not _goes_nowhere(argv, at, name):
            yield at, f"{word.text[:40]} lets {name} write files, run programs or set variables"


def _goes_nowhere(argv: Sequence[Word], at: int, name: str) -> bool:
    """Tell whether an option that names a file to write names none: `curl -so /dev/null`."""
    options, text = TO_FILES.get(name), argv[at].text
    if options is None or not options.names(text):
        return False
    place = letter_of(text, options.letters, CAREFUL_OPTIONS[name].letters)
    if text.startswith("--"):
        _, apart, value = text.partition("=")
        attached = bool(apart)
    elif place is not None:
        value = text[place + 1 :]
        attached = bool(value)
    else:
        return False
    value = value if attached else "".join(word.text for word in argv[at + 1 : at + 2])
    return value in ("-", "/dev/null")


def _git(argv: Sequence[Word]) -> Iterator[tuple[int, str]]:
    verb = ""
    for at, word in enumerate(argv[1:], 1):
        text = word.text
        if ends_options(argv, at, (_GIT_VERBS.get(verb, Options()),)):
            return
        if not verb and not text.startswith("-") and argv[at - 1].text not in ("-C", "-c"):
            verb = text
            careful = verb in _GIT_CAREFUL
        elif verb:
            careful = _GIT_VERBS.get(verb, Options()).names(text) or _git_any(text)
        else:
            careful = text.partition("=")[0] in _GIT_GLOBAL or _git_any(text)
        if careful:
            yield at, f"{text[:40]} lets git write files or run programs"


def _git_any(text: str) -> bool:
    return text not in _GIT_HARMLESS and _GIT_ANY.names(text)


def _second_file(argv: Sequence[Word]) -> Iterator[tuple[int, str]]:
    name = basename(argv[0].text)
    valued = ("-f", "-s", "-w") if name == "uniq" else ("-s", "-c", "-l", "-o", "-g", "-n")
    ended = next((at for at, word in enumerate(argv) if word.text == "--"), len(argv))
    files = [
        at
        for at, word in enumerate(argv)
        if at > ended
        or (at and argv[at - 1].text not in valued and not re.match(r"[-+].", word.text))
    ]
    several = [at for at in files if argv[at].pattern]  # which may stand for two
    if several or len(files) > 1:
        yield (several or files[1:])[0], f"the second file of {name} is written"


def _evaluates_names(argv: Sequence[Word]) -> Iterator[tuple[int, str]]:
    for at, word in enumerate(argv[1:], 1):
        if "[" in word.text or word.dynamic:
            yield at, f"{argv[0].text} evaluates subscripts, which may run commands"
        elif changes_programs(word.text.partition("=")[0]):
            yield at, f"{argv[0].text} sets {word.text[:40]}, by which programs are found"


def _old_style(argv: Sequence[Word]) -> Iterator[tuple[int, str]]:
    """Find the letters of tar's first word, which needs no dash."""
    letters = argv[1].text if len(argv) > 1 else ""
    if letters.isalpha() and {"I", "F"} & set(letters):
        yield 1, f"{letters} lets tar run programs"


def _linker(argv: Sequence[Word]) -> Iterator[tuple[int, str]]:
    for at, word in enumerate(argv):
        if "-extld" in word.text:
            yield at, f"{word.text[:40]} names the program that links"


def _sets_system(argv: Sequence[Word]) -> Iterator[tuple[int, str]]:
    """Find the operand that hostname and date take for the new name, or the new time."""
    valued = Options("dfr") if argv[0].text.endswith("date") else Options()
    for at, word in enumerate(argv[1:], 1):
        before = argv[at - 1].text if at > 1 else ""
        is_value = letter_of(before, valued.letters, "") == len(before) - 1
        is_value |= before in ("--date", "--file", "--reference")
        if word.static and not is_value and word.text[:1] not in ("-", "+"):
            yield at, f"{word.text[:40]} is set for the whole system"


def _runs_file(argv: Sequence[Word]) -> Iterator[tuple[int, str]]:
    yield 1, "runs the commands of a file"


_SPECIAL: dict[str, Callable[[Sequence[Word]], Iterator[tuple[int, str]]]] = {
    **CAREFUL_WORDS,
    "sed": sed_scripts,
    "awk": awk_scripts,
    "git": _git,
    "make": make_settings,
    "go": _linker,
    "date": _sets_system,
    "hostname": _sets_system,
    "tar": _old_style,
    "uniq": _second_file,
    "xxd": _second_file,
    ".": _runs_file,
    "source": _runs_file,
    **dict.fromkeys(
        (
            "read",
            "let",
            "unset",
            "declare",
            "typeset",
            "local",
            "export",
            "readonly",
            "getopts",
            "mapfile",
            "readarray",
            "wait",
        ),
        _evaluates_names,
    ),
}
