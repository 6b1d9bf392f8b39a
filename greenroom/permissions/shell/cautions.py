"""Options that make a harmless program write files or run others.

A rule that allows `sort` speaks of sorting; `sort -o file` needs a rule that says so.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from posixpath import basename

from greenroom.permissions.facts.word import Word
from greenroom.permissions.shell.scripts import awk_only_prints, sed_only_prints
from greenroom.permissions.shell.variables import changes_programs

__all__ = ["cautions"]


@dataclass(frozen=True, slots=True)
class _Options:
    """Short options to be careful with, those that take a value, and other careful words."""

    letters: str = ""
    values: str = ""
    words: tuple[str, ...] = ()


_PAGER = _Options(words=("--pager",))
_IN_PLACE = _Options("i", "", ("--in-place", "--inplace"))
_OUTPUT = _Options("o", "", ("--output",))

_TABLE: dict[str, _Options] = {
    "sort": _Options("o", "kStT", ("--output", "--compress-program")),
    "find": _Options(words=("-delete", "-fprint", "-fprint0", "-fprintf", "-fls")),
    "sed": _Options("i", "efl", ("--in-place",)),
    "awk": _Options("fiEl", "Fv", ("--file", "--include", "--exec", "--load")),
    "rg": _Options(words=("--pre", "--hostname-bin")),
    "xxd": _Options("r", "clso"),
    "tree": _Options("o", "LIPT"),
    "file": _Options("Cm", "fFPe", ("--compile", "--magic-file")),
    "date": _Options("s", "dfrI", ("--set",)),
    "base64": _Options("o", "biw", ("--output",)),
    "shuf": _Options("o", "ein", ("--output",)),
    "iconv": _Options("o", "ft", ("--output",)),
    "tar": _Options(
        "IF",
        "fCTXbgKLNV",
        (
            "--to-command",
            "--checkpoint-action",
            "--use-compress-program",
            "--rsh-command",
            "--info-script",
            "--new-volume-script",
        ),
    ),
    "zip": _Options("T", "bnPtx", ("--unzip-command", "-TT")),
    "rsync": _Options("e", "fBTM", ("--rsh", "--rsync-path")),
    "man": _Options("PH", "CELmMrRsSep", ("--pager", "--html", "--preprocessor")),
    "curl": _Options("oOKTJDc", "AbdeEFHmPQrtuUwXyYxz", ("--output", "--config", "--upload-file")),
    "wget": _Options(words=("-O", "-o", "-P", "-e", "--use-askpass", "--output-document")),
    "make": _Options("f", "CIjloW", ("--file", "--makefile", "--eval", "SHELL=", "MAKEFLAGS=")),
    "cargo": _Options(words=("--config",)),
    "go": _Options(words=("-exec", "-toolexec", "-vettool", "--exec", "--toolexec")),
    "npm": _Options(words=("--script-shell", "--node-options", "--globalconfig", "--userconfig")),
    "node": _Options("re", "", ("--require", "--import", "--eval", "--loader")),
    "pytest": _Options(words=("--basetemp", "--pastebin")),
    "printf": _Options(words=("-v",)),
    "test": _Options(words=("-v",)),
    "[": _Options(words=("-v",)),
    "wait": _Options("p"),
    "hash": _Options("p"),
    "enable": _Options("f"),
    "bind": _Options("xf"),
    "complete": _Options("CF"),
    "compgen": _Options("CFW"),
    "history": _Options("warns"),
    "mapfile": _Options("C"),
    "readarray": _Options("C"),
    "tcpdump": _Options("zw", "icr"),
    "nc": _Options("ec", "wpsi"),
    "gofmt": _Options("wr", "", ("--w",)),
    "gcc": _Options("B", "oDILl", ("-wrapper", "-fplugin", "-specs")),
    "ag": _PAGER,
    "ack": _PAGER,
    "bat": _PAGER,
    "yq": _IN_PLACE,
    "perl": _Options("i"),
    "clang-format": _IN_PLACE,
    "xmllint": _OUTPUT,
    "pandoc": _Options("oF", "", ("--output", "--filter", "--lua-filter", "--pdf-engine")),
    "openssl": _Options(words=("-out", "-engine", "-provider")),
    "gpg": _OUTPUT,
    "fd": _Options("xX", "etdEc", ("--exec", "--exec-batch")),
}
_SAME = {"gawk": "awk", "mawk": "awk", "nawk": "awk", "gsed": "sed", "gmake": "make", "cc": "gcc"}

_GIT_GLOBAL = ("-c", "--config-env", "--exec-path", "-p", "--paginate")
_GIT_ANY = (
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
_GIT_VERBS = {
    "clone": ("-c", "-u"),
    "rebase": ("-x", "--exec"),
    "grep": ("-O",),
    "bisect": ("run",),
    "submodule": ("foreach",),
    "filter-branch": ("",),
    "difftool": ("-x",),
    "mergetool": ("",),
    "config": ("",),
}


def cautions(argv: Sequence[Word]) -> tuple[tuple[int, str], ...]:
    """Find the words that make a program do more than its name says: their places, and why."""
    name = basename(argv[0].text)
    name = _SAME.get(name, name)
    found = list(_options(argv, _TABLE[name], name)) if name in _TABLE else []
    if name in _SPECIAL:
        found += _SPECIAL[name](argv)
    return tuple(sorted(found))


def _options(argv: Sequence[Word], options: _Options, name: str) -> Iterator[tuple[int, str]]:
    for at, word in enumerate(argv[1:], 1):
        if word.text == "--":
            return
        if _is_careful(word.text, options):
            yield at, f"{word.text[:40]} lets {name} write files, run programs or set variables"


def _is_careful(word: str, options: _Options) -> bool:
    for each in options.words:
        if word == each or word.startswith(each if each.endswith("=") else f"{each}="):
            return True
        if each.startswith("--") and len(word) > 4 and each.startswith(word):
            return True
    if not options.letters or word[:1] != "-" or word[:2] == "--":
        return False
    for letter in word[1:]:
        if letter in options.letters:
            return True
        if letter in options.values:
            return False
    return False


def _sed(argv: Sequence[Word]) -> Iterator[tuple[int, str]]:
    yield from _scripts(argv, sed_only_prints, "efl", "sed")


def _awk(argv: Sequence[Word]) -> Iterator[tuple[int, str]]:
    yield from _scripts(argv, awk_only_prints, "Fv", "awk")


def _scripts(
    argv: Sequence[Word], harmless: Callable[[str], bool], values: str, name: str
) -> Iterator[tuple[int, str]]:
    """Judge each -e script, or else the first operand."""
    scripts: list[int] = []
    operands: list[int] = []
    at = 1
    while at < len(argv):
        text = argv[at].text
        if text in ("-e", "--expression", "-f", "--file") and name == "sed":
            scripts.append(at + 1)
            at += 1
        elif re.match(r"-[a-zA-Z]*e.|--expression=|-f.|--file=", text) and name == "sed":
            scripts.append(at)
        elif text.startswith("-") and len(text) > 1:
            at += len(text) == 2 and text[1] in values
        else:
            operands.append(at)
        at += 1
    for place in scripts or operands[:1]:
        word = argv[place] if place < len(argv) else None
        text = word.text if word else ""
        text = re.sub(r"^(?:-[a-zA-Z]*e|--expression=)", "", text)
        if word is not None and (word.dynamic or not harmless(text)):
            yield place, f"this {name} script may write files or run programs"


def _git(argv: Sequence[Word]) -> Iterator[tuple[int, str]]:
    verb = ""
    for at, word in enumerate(argv[1:], 1):
        text = word.text
        if text == "--":
            return
        if not verb and not text.startswith("-") and argv[at - 1].text not in ("-C", "-c"):
            verb = text
            careful = "" in _GIT_VERBS.get(verb, ())
        else:
            exact = _GIT_VERBS.get(verb, ()) if verb else _GIT_GLOBAL
            careful = text.partition("=")[0] in (*exact, *_GIT_ANY) or (
                len(text) > 5 and any(each.startswith(text) for each in _GIT_ANY)
            )
        if careful:
            yield at, f"{text[:40]} lets git write files or run programs"


def _second_file(argv: Sequence[Word]) -> Iterator[tuple[int, str]]:
    files = [at for at, word in enumerate(argv) if at and not word.text.startswith(("-", "+"))]
    values = {at + 1 for at, w in enumerate(argv) if w.text in ("-f", "-s", "-w", "-c", "-l", "-o")}
    files = [at for at in files if at not in values]
    if len(files) > 1:
        yield files[1], f"the second file of {basename(argv[0].text)} is written"


def _evaluates_names(argv: Sequence[Word]) -> Iterator[tuple[int, str]]:
    for at, word in enumerate(argv[1:], 1):
        if "[" in word.text or word.dynamic:
            yield at, f"{argv[0].text} evaluates subscripts, which may run commands"
        elif changes_programs(word.text.partition("=")[0]):
            yield at, f"{argv[0].text} sets {word.text[:40]}, by which programs are found"


def _runs_file(argv: Sequence[Word]) -> Iterator[tuple[int, str]]:
    yield 1, "runs the commands of a file"


_SPECIAL: dict[str, Callable[[Sequence[Word]], Iterator[tuple[int, str]]]] = {
    "sed": _sed,
    "awk": _awk,
    "git": _git,
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
