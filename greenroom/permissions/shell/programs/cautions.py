"""Words that make a harmless program write files or run others.

A rule that allows `sort` speaks of sorting; `sort -o file` needs a rule that says so. And so does
`sort "$x"`, where the word may turn out to be that option.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from greenroom.permissions.facts.word import Word, basename
from greenroom.permissions.shell.programs.scripts import awk_only_prints, sed_only_prints
from greenroom.permissions.shell.programs.table import (
    Part,
    Program,
    abbreviates,
    parts,
    program_of,
)
from greenroom.permissions.shell.variables import changes_programs

__all__ = ["cautions"]

Found = Iterator[tuple[int, str]]
_Finder = Callable[[Sequence[Word], Sequence[Part]], Found]

_GIT_GLOBAL = ("-c", "--config-env", "--exec-path", "-p", "--paginate")
# Words of programs, matched at their beginnings, that let them write files or run programs.
_TEXTS = {
    # commands, but not where to begin: `+F`, `+G`, `+12`, `+/text`
    **dict.fromkeys(("less", "more", "vim"), r"\+(?!(?:\+?(?:[0-9]*[gGF]?|[/?][^\n]*))\Z)"),
    **dict.fromkeys(("ed", "dc"), r"[-e]*\s*!"),
    # options from a file, plug-ins, another linker
    "gcc": r"@|.*-plugin|-load\Z|-fuse-ld=.*/",
    **dict.fromkeys(("rustc", "cargo"), r"@|.*(?:linker=|codegen-backend)"),
    "go": r".*-extld",
    # settings that run commands, or say what runs them
    **dict.fromkeys(
        ("make",),
        r"\s*(?:(?:SHELL|\.SHELLFLAGS|MAKE|MAKEFLAGS|MAKEFILES|GNUMAKEFLAGS|MFLAGS)\s*[:?+]*="
        r"|[^\s=]*\s*!=|[^=\s-][^=\s]*=.*[`;|&<>\n]|[^=-].*\$[({]\s*(?:shell|eval|file|guile|load|call)\b)",
    ),
    "git": r".*(?:%[-+ ]?G|%\(signature)",  # checks signatures, by a program
    "curl": r".*%output\{",
}
_COMPILED = {name: re.compile(each, re.DOTALL) for name, each in _TEXTS.items()}
_SSH = re.compile(
    r"\s*(?:ProxyCommand|LocalCommand|PermitLocalCommand|KnownHostsCommand|PKCS11Provider"
    r"|SecurityKeyProvider|XAuthLocation|Include|Match)\b",
    re.IGNORECASE,
)
_IMPORTS = re.compile(r"\b(?:import|include)\b")
_FROM_OUTSIDE = re.compile(
    r"(?:.*,)?(?:(?:src|source)=)?(?:/|~|\$\{?HOME|\.\.(?:/|:|,|$))|[^:,]*/\.\.(?:/|:|,|$)"
)


def cautions(argv: Sequence[Word]) -> tuple[tuple[int, str], ...]:
    """Find the words that make a program do more than its name says: their places, and why.

    Example:
        >>> cautions([Word(each) for each in ("sort", "-ro", "file", "names")])
        ((1, '-ro lets sort write files or run programs'),)
    """
    program, start = program_of(argv)
    name = program.name.partition(" ")[0] or basename(argv[0].text)
    is_careful = program.is_careful or program.is_("always")
    if not (is_careful or name in _FINDERS or name in _COMPILED):
        return ()
    found = dict[int, str]()
    seen = tuple(parts(argv, program, start))
    for at, why in _found(argv, program, start, name, seen):
        found.setdefault(at, why or f"{argv[at].text[:40]} lets {name} write files or run programs")
    return tuple(sorted(found.items()))


def _found(
    argv: Sequence[Word], program: Program, start: int, name: str, seen: Sequence[Part]
) -> Found:
    if program.is_("always") and len(argv) > 1:
        yield max(start, 1), f"{name} runs what files say"
    for part in seen:
        if program.is_caution(part, argv[part.at].text):
            yield part.at, ""
    for finder in _FINDERS.get(name, ()):
        yield from finder(argv, seen)
    if name in _COMPILED:
        yield from _texts(argv, seen, _COMPILED[name])
    can_be_careful = (program.is_careful or name in _COMPILED) and not program.is_("plain")
    if can_be_careful and any(word.dynamic for word in argv):
        for at in _unseen(argv, seen, program):
            yield at, f"{argv[at].text[:40]} may turn out to be an option that lets {name} do more"


def _unseen(argv: Sequence[Word], seen: Sequence[Part], program: Program) -> Iterator[int]:
    """Find the words that may turn out to be an option which the text does not show."""
    are_told = True  # which words are values
    values = {part.value_at for part in seen if part.value_at > part.at}
    ended = {part.at for part in seen if part.ended}
    for at in dict.fromkeys(place for part in seen for place in (part.at, part.value_at)):
        word = argv[at]
        if not word.may_be_option or at in ended:
            continue
        if at in values and are_told and not word.split:
            continue
        are_told &= not word.split  # it may be nothing, and then the next word is the value
        if program.name == "printf" and len(argv) == 2 and not word.split:
            continue  # without a format it prints nothing
        elif word.split or _may_continue(word.shape.partition("\0")[0], program):
            yield at


def _may_continue(begun: str, program: Program) -> bool:
    """Tell whether a word that begins like this may go on as an option to be careful with."""
    options = (*program.marks.get("!", ()), *program.marks.get("?", ()))
    if begun.startswith("--") and len(begun) > 2:
        return "=" not in begun and any(each.startswith(begun) for each in options)
    # Behind a letter that takes a value comes only that value.
    return any(each.startswith(begun) for each in options) or not any(
        program.takes_value(f"-{letter}") for letter in begun[1:]
    )


def _texts(argv: Sequence[Word], seen: Sequence[Part], pattern: re.Pattern[str]) -> Found:
    ended = {part.at for part in seen if part.ended}
    for at, word in enumerate(argv[1:], 1):
        if pattern.match(word.text) and not (at in ended and word.text.startswith("+")):
            yield at, ""


def _git(argv: Sequence[Word], seen: Sequence[Part]) -> Found:
    """Find the options before the verb; those behind it are in the table."""
    _, start = program_of(argv)
    for at, word in enumerate(argv[1:start], 1):
        if word.text.partition("=")[0] in _GIT_GLOBAL or (word.dynamic and word.may_be_option):
            yield at, ""


def _names(argv: Sequence[Word], seen: Sequence[Part]) -> Found:
    for at, word in enumerate(argv[1:], 1):
        if "[" in word.text or word.dynamic:
            yield at, f"{argv[0].text} evaluates subscripts, which may run commands"
        elif changes_programs(word.text.partition("=")[0]):
            yield at, f"{argv[0].text} sets {word.text[:40]}, by which programs are found"


def _second_file(argv: Sequence[Word], seen: Sequence[Part]) -> Found:
    files = [part.at for part in seen if not part.option]
    several = [at for at in files if argv[at].pattern or argv[at].split]  # which may be two
    for at in several or files[1:]:
        yield at, f"the second file of {argv[0].text} is written"


def _system(argv: Sequence[Word], seen: Sequence[Part]) -> Found:
    """Find the operand that date takes for the new time."""
    for part in seen:
        if not part.option and not argv[part.at].text.startswith("+"):
            yield part.at, f"{argv[part.at].text[:40]} is set for the whole system"


def _sed(argv: Sequence[Word], seen: Sequence[Part]) -> Found:
    why = "this sed script may write files or run programs"
    scripts = [part for part in seen if _is_script(part)]
    for part in scripts or [part for part in seen if not part.option][:1]:
        at = part.value_at or part.at
        script = part.value or argv[at].text
        in_file = part.option == "-f" or (part.option and abbreviates(part.option, "--file"))
        if in_file or argv[at].dynamic or not sed_only_prints(script):
            yield at, why


def _is_script(part: Part) -> bool:
    return part.option in ("-e", "-f") or any(
        abbreviates(part.option, each) for each in ("--expression", "--file")
    )


def _awk(argv: Sequence[Word], seen: Sequence[Part]) -> Found:
    script = next((argv[part.at] for part in seen if not part.option), None)
    if script is not None and (script.dynamic or not awk_only_prints(script.text)):
        at = next(at for at, word in enumerate(argv) if word is script)
        yield at, "this awk script may write files or run programs"


def _jq(argv: Sequence[Word], seen: Sequence[Part]) -> Found:
    for at, word in enumerate(argv[1:], 1):
        if _IMPORTS.search(word.text):
            yield at, "this jq filter reads other files"


def _ssh(argv: Sequence[Word], seen: Sequence[Part]) -> Found:
    """Find the settings that run a command here; behind the host stands the remote command."""
    for part in seen:
        if part.option == "-o" and part.value is not None and _SSH.match(part.value):
            yield part.at, ""


def _mounts(argv: Sequence[Word], seen: Sequence[Part]) -> Found:
    """Find folders outside of the workspace that are opened to a container."""
    if any(word.text in ("run", "create") for word in argv):
        for part in seen:
            is_mount = part.option in ("-v", "--volume", "--mount")
            if is_mount and part.value is not None and _FROM_OUTSIDE.match(part.value):
                yield part.at, f"{part.value[:40]} opens the machine to the container"


def _tar(argv: Sequence[Word], seen: Sequence[Part]) -> Found:
    """Find the letters of tar's first word, which needs no dash."""
    letters = argv[1].text if len(argv) > 1 else ""
    if letters.isalpha() and {"I", "F"} & set(letters):
        yield 1, ""


_FINDERS: dict[str, tuple[_Finder, ...]] = {
    "git": (_git,),
    "uniq": (_second_file,),
    "xxd": (_second_file,),
    "date": (_system,),
    "sed": (_sed,),
    "awk": (_awk,),
    "jq": (_jq,),
    "docker": (_mounts,),
    "tar": (_tar,),
    **dict.fromkeys(("ssh", "scp", "sftp"), (_ssh,)),
    **dict.fromkeys(
        ("declare", "export", "getopts", "let", "local", "mapfile", "read", "readarray"), (_names,)
    ),
    **dict.fromkeys(("readonly", "typeset", "unset", "wait"), (_names,)),
}
