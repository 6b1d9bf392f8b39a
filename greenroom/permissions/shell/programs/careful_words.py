"""Words that let a program write, or run another one, and are no options of the usual form."""

import re
from collections.abc import Callable, Iterator, Sequence

from greenroom.permissions.facts.word import Word, basename
from greenroom.permissions.shell.programs.options import letter_of

__all__ = ["CAREFUL_WORDS"]

Found = Iterator[tuple[int, str]]

# `+F`, `+G`, `+12`, `+/text`: where a pager or an editor begins.
_PLACE = re.compile(r"\+\+?(?:[0-9]*[gGF]?|[/?][^\n]*)")
_REMOTE_VALUES = {
    "ssh": "BbcDEeFIiJLlmOopQRSWw",
    "scp": "cDFiJloPSX",
    "sftp": "BbcDFiJloPRSsX",
}
_RUNS_LOCALLY = re.compile(
    r"\s*(?:ProxyCommand|LocalCommand|PermitLocalCommand|KnownHostsCommand|PKCS11Provider"
    r"|SecurityKeyProvider|XAuthLocation|Include|Match)\b",
    re.IGNORECASE,
)
_FROM_OUTSIDE = re.compile(
    r"(?:.*,)?(?:(?:src|source)=)?(?:/|~|\$\{?HOME|\.\.(?:/|:|,|$))|[^:,]*/\.\.(?:/|:|,|$)"
)
_PRIVILEGED = re.compile(
    r"--(?:privileged|cap-add|device|security-opt|pid|userns|ipc|uts|cgroupns)(?:=|$)"
)
_SQLITE_PRINTS = (
    r"(?:bail|changes|databases|dbinfo|dump|echo|eqp|exit|explain|fullschema|headers?|help|indexes"
    r"|indices|limit|lint|mode|nullvalue|prompt|quit|schema|separator|sha3sum|show|stats|tables"
    r"|timeout|timer|version|width)"
)
_SQLITE = re.compile(
    rf"(?:^|\n)[ \t]*\.(?!{_SQLITE_PRINTS}\b)|\b(?:writefile|edit|load_extension)\s*\(",
    re.IGNORECASE,
)
_PSQL = re.compile(
    r"\\(?!d|l|x|q|t|z|a\b|\?|h|conninfo|echo|pset|encoding)|\b(?:to|from)\s+program\b",
    re.IGNORECASE,
)
_MYSQL = re.compile(
    r"\\[!PTe.]|(?:^|[;\n])[ \t]*(?:system|pager|tee|source|edit)\b|\binto\s+(?:out|dump)file\b",
    re.IGNORECASE,
)


def _commands(argv: Sequence[Word]) -> Found:
    """Find the commands that a pager or an editor is given with a plus."""
    for at, word in enumerate(argv[1:], 1):
        if word.text == "--":
            return
        if word.text.startswith("+") and not _PLACE.fullmatch(word.text):
            yield at, f"{word.text[:40]} is a command that {basename(argv[0].text)} carries out"


def _exclamations(argv: Sequence[Word]) -> Found:
    """Find what is run in place of a file that is read."""
    for at, word in enumerate(argv[1:], 1):
        if word.text.lstrip("-e").lstrip().startswith("!"):
            yield at, f"{word.text[:40]} is run as a command"


def _compilers(argv: Sequence[Word]) -> Found:
    for at, word in enumerate(argv[1:], 1):
        text = word.text
        if text.startswith("@"):
            yield at, f"the options in {text[1:40]} can't be seen"
        elif "-plugin" in text or text == "-load" or re.match(r"-fuse-ld=.*/", text):
            yield at, f"{text[:40]} lets the compiler run programs"


def _linkers(argv: Sequence[Word]) -> Found:
    for at, word in enumerate(argv[1:], 1):
        file = basename(argv[0].text) == "rustc" and word.text.startswith("@")
        if file or "linker=" in word.text or "codegen-backend" in word.text:
            yield at, f"{word.text[:40]} names a program that builds"


def _remote(argv: Sequence[Word]) -> Found:
    """Find the settings of ssh that run a program here; behind the host it is the remote command."""
    name = basename(argv[0].text)
    values, operands, at = _REMOTE_VALUES[name], 0, 1
    while at < len(argv) and (name != "ssh" or operands < 2):
        text = argv[at].text
        place = letter_of(text, values, "")
        if place is None:
            operands += not text.startswith("-")
        else:
            attached = text[place + 1 :]
            value = attached or "".join(word.text for word in argv[at + 1 : at + 2])
            if _runs_here(name, text[place], value):
                yield at, f"{text[:40]} lets {name} write files or run programs here"
            at += not attached
        at += 1


def _runs_here(name: str, letter: str, value: str) -> bool:
    if letter == "o":
        return _RUNS_LOCALLY.match(value) is not None
    return letter in ("FEI" if name == "ssh" else "FSDb" if name == "sftp" else "FSD")


def _containers(argv: Sequence[Word]) -> Found:
    """Find what opens the machine to a container: rights, and folders outside of the workspace."""
    mounts = any(word.text in ("run", "create") for word in argv)
    for at, word in enumerate(argv[1:], 1):
        text, before = word.text, argv[at - 1].text if mounts else ""
        value = re.fullmatch(r"(?:--volume|--mount)=(.*)|-[a-z]*v(.+)", text, re.DOTALL)
        if value:
            source = value[1] or value[2] or ""
        else:
            source = text if re.fullmatch(r"--volume|--mount|-[a-z]*v", before) else ""
        if _PRIVILEGED.match(text) or _FROM_OUTSIDE.match(source):
            yield at, f"{text[:40]} opens the machine to the container"


def _texts(pattern: re.Pattern[str]) -> Callable[[Sequence[Word]], Found]:
    """Make a search for what makes a client do more than send its words and print the answer."""

    def find(argv: Sequence[Word]) -> Found:
        for at, word in enumerate(argv[1:], 1):
            if pattern.search(word.text):
                yield (
                    at,
                    f"{word.text[:40]} lets {basename(argv[0].text)} write files or run programs",
                )

    return find


CAREFUL_WORDS: dict[str, Callable[[Sequence[Word]], Found]] = {
    **dict.fromkeys(("less", "more", "vim"), _commands),
    **dict.fromkeys(("ed", "dc"), _exclamations),
    "gcc": _compilers,
    "rustc": _linkers,
    "cargo": _linkers,
    **dict.fromkeys(("ssh", "scp", "sftp"), _remote),
    "docker": _containers,
    "curl": _texts(re.compile(r"%output\{")),
    "sqlite3": _texts(_SQLITE),
    "psql": _texts(_PSQL),
    "mysql": _texts(_MYSQL),
}
"""For a program, what finds such words among its own: their places, and why."""
