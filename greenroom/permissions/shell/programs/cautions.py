"""Words that make a harmless program write files or run others.

A rule that allows `sort` speaks of sorting; `sort -o file` needs a rule that says so. And so does
`sort "$x"`, where the word may turn out to be that option.
"""

import re
from collections.abc import Callable, Iterator

from greenroom.permissions.facts.word import basename
from greenroom.permissions.shell.programs.usage import Usage
from greenroom.permissions.shell.variables import changes_programs

Found = Iterator[tuple[int, str]]
_Finder = Callable[[Usage], Found]

_GIT_GLOBAL = ("-c", "--config-env", "--exec-path", "-p", "--paginate")
# Words of programs, matched at their beginnings, that let them write files or run programs.
_EXPRESSIONS = {
    # commands, but not where to begin: `+F`, `+G`, `+12`, `+/text`
    **dict.fromkeys(("less", "more", "vim"), r"\+(?!(?:\+?(?:[0-9]*[gGF]?|[/?][^\n]*))\Z)"),
    **dict.fromkeys(("ed", "dc"), r"[-e]*\s*!"),
    # options from a file, plug-ins, another linker
    "gcc": r"@|.*-plugin|-load\Z|-fuse-ld=.*/",
    **dict.fromkeys(("rustc", "cargo"), r"@|.*(?:linker=|codegen-backend)"),
    "go": r".*-extld",
    # settings that run commands, or say what runs them
    "make": (
        r"\s*+(?:(?:SHELL|\.SHELLFLAGS|MAKE|MAKEFLAGS|MAKEFILES|GNUMAKEFLAGS|MFLAGS)\s*[:?+]*="
        r"|[^\s=]*\s*!=|[^=\s-][^=\s]*=.*[`;|&<>\n])"
        r"|[^=-].*\$[({]\s*(?:shell|eval|file|guile|load|call)\b"
    ),
    "git": r".*(?:%[-+ ]?G|%\(signature)",  # checks signatures, by a program
    "curl": r".*%output\{",
    "jq": r".*\b(?:import|include)\b",  # other files
    "java": r"-XX:On",
    "tar": r"[A-Za-z]*[IF][A-Za-z]*\Z",  # its first word needs no dash
}
_TEXTS = {name: re.compile(each, re.DOTALL) for name, each in _EXPRESSIONS.items()}
_SSH = re.compile(
    r"\s*(?:ProxyCommand|LocalCommand|PermitLocalCommand|KnownHostsCommand|PKCS11Provider"
    r"|SecurityKeyProvider|XAuthLocation|Include|Match)\b",
    re.IGNORECASE,
)
_FROM_OUTSIDE = re.compile(
    r"(?:.*,)?(?:(?:src|source)=)?(?:/|~|\$\{?HOME|\.\.(?:/|:|,|$))|[^:,]*/\.\.(?:/|:|,|$)"
)
_VALUES = {
    "docker": (("-v", "--volume", "--mount"), _FROM_OUTSIDE),
    **dict.fromkeys(("ssh", "scp", "sftp"), (("-o",), _SSH)),
}

_REPLACEMENT = r"(?:\\.|[^{0}\\\n])*+"
# A delimiter inside brackets ends nothing, so there are none in them here.
_REGEX = r"(?:\\.|\[\^?\]?(?:\[:\w+:\]|[^\[\]{0}\n])*+\]|[^{0}\\\n\[])*+"
_ADDRESS = rf"(?:\d+(?:~\d+)?|\$|/{_REGEX.format('/')}/I?)"
_SUBSTITUTIONS = "|".join(
    (rf"{{0}}{_REGEX}{{0}}{_REPLACEMENT}{{0}}").format(each)
    for each in ("/", r"\|", ",", "#", "@", "!")
)
_SUBSTITUTION = rf"s(?:{_SUBSTITUTIONS})[gpiI0-9]*+"
_SED_COMMAND = rf"(?:{_SUBSTITUTION}|[pPdDqQ=nNgGhHxlz]\d*+)"
_SED = re.compile(
    rf"[\s;{{}}]*+(?:(?:{_ADDRESS}(?:,[+~]?(?:{_ADDRESS}))?+)?+\s*+!?+\s*+[{{\s]*+{_SED_COMMAND}"
    rf"[\s;}}]*+)*+"
)
# Further files are read by way of ARGV, and names of variables made up by way of the others.
_AWK_ACTS = re.compile(r"system|getline|ARG[VC]|ENVIRON|PROCINFO|SYMTAB|FUNCTAB|[|@]")


def cautions(usage: Usage) -> tuple[tuple[int, str], ...]:
    """Find the words that make a program do more than its name says: their places, and why.

    Example:
        >>> from greenroom.permissions.facts.word import Word
        >>> from greenroom.permissions.shell.programs.usage import usage_of
        >>> cautions(usage_of([Word(each) for each in ("sort", "-ro", "file", "names")]))
        ((1, '-ro lets sort write files or run programs'),)
    """
    name = usage.program.name.partition(" ")[0] or basename(usage.argv[0].text)
    found = dict[int, str]()
    for at, why in _found(usage, name):
        text = usage.argv[at].text[:40]
        found.setdefault(at, why or f"{text} lets {name} write files or run programs")
    return tuple(sorted(found.items()))


def _found(usage: Usage, name: str) -> Found:
    argv, program = usage.argv, usage.program
    if program.is_("always") and len(argv) > 1:
        yield max(usage.start, 1), f"{name} runs what files say"
    for part in usage.parts:
        writes_nothing = part.value in ("-", "/dev/null")
        if "!" in part.marks or ("?" in part.marks and not writes_nothing):
            yield part.at, ""
    for finder in _FINDERS.get(name, ()):
        yield from finder(usage)
    if pattern := _TEXTS.get(name):
        yield from _texts(usage, pattern)
    can_be_careful = (program.is_("!") or program.is_("?") or pattern) and not program.is_("plain")
    if can_be_careful and any(word.dynamic for word in argv):
        for at in _unseen(usage):
            yield at, f"{argv[at].text[:40]} may turn out to be an option that lets {name} do more"


def _unseen(usage: Usage) -> Iterator[int]:
    """Find the words that may turn out to be an option which the text does not show."""
    values = {part.value_at for part in usage.parts if part.value_at > part.at}
    ended = {part.at for part in usage.parts if part.ended}
    for at, word in enumerate(usage.argv):
        is_value = at in values and not word.split  # which may be nothing
        if at > usage.start and word.may_be_option and not (is_value or at in ended):
            yield at


def _texts(usage: Usage, pattern: re.Pattern[str]) -> Found:
    ended = {part.at for part in usage.parts if part.ended}
    for at, word in enumerate(usage.argv[1:], 1):
        if pattern.match(word.text) and not (at in ended and word.text.startswith("+")):
            yield at, ""


def _git(usage: Usage) -> Found:
    """Find the options before the verb; those behind it are in the table."""
    for at, word in enumerate(usage.argv[1 : usage.start], 1):
        if word.text.partition("=")[0] in _GIT_GLOBAL or (word.dynamic and word.may_be_option):
            yield at, ""


def _names(usage: Usage) -> Found:
    for at, word in enumerate(usage.argv[1:], 1):
        if "[" in word.text or word.dynamic:
            yield at, f"{usage.argv[0].text} evaluates subscripts, which may run commands"
        elif changes_programs(word.text.partition("=")[0]):
            yield at, f"{usage.argv[0].text} sets {word.text[:40]}, by which programs are found"


def _second_file(usage: Usage) -> Found:
    files = [part.at for part in usage.parts if not part.option]
    # which may be two
    several = [at for at in files if usage.argv[at].pattern or usage.argv[at].split]
    for at in several or files[1:]:
        yield at, f"the second file of {usage.argv[0].text} is written"


def _system(usage: Usage) -> Found:
    """Find the operand that date takes for the new time."""
    for part in usage.parts:
        if not part.option and not usage.argv[part.at].text.startswith("+"):
            yield part.at, f"{usage.argv[part.at].text[:40]} is set for the whole system"


def _sed(usage: Usage) -> Found:
    scripts = [p for p in usage.parts if p.option == "-e" or p.option.startswith("--e")]
    for part in scripts or [part for part in usage.parts if not part.option][:1]:
        at = part.value_at or part.at
        if usage.argv[at].dynamic or not sed_only_prints(part.value or usage.argv[at].text):
            yield at, "this sed script may write files or run programs"


def _awk(usage: Usage) -> Found:
    script = next((usage.argv[part.at] for part in usage.parts if not part.option), None)
    if script is not None and (script.dynamic or not awk_only_prints(script.text)):
        at = next(at for at, word in enumerate(usage.argv) if word is script)
        yield at, "this awk script may write files or run programs"


def _jq(usage: Usage) -> Found:
    """Find a filter that is not known; behind `--arg` and a name stands its value."""
    argv = usage.argv
    places = [part.at for part in usage.parts if not part.option]
    filters = [at for at in places if not argv[max(at - 2, 0)].text.startswith("--arg")]
    if filters and argv[filters[0]].dynamic:
        yield filters[0], "this jq filter is only known at run time"


def _values(usage: Usage) -> Found:
    """Find values of options that run a command here, or open folders outside of the workspace."""
    options, pattern = _VALUES[usage.program.name]
    for part in usage.parts:
        if part.option in options and pattern.match(part.value or ""):
            yield part.at, ""


def sed_only_prints(script: str) -> bool:
    r"""Tell whether a sed script reads and prints only: it writes no file and runs nothing.

    Example:
        >>> sed_only_prints("1,5p"), sed_only_prints("s/a/b/w out"), sed_only_prints("1e ls")
        (True, False, False)
    """
    return _SED.fullmatch(script) is not None


def awk_only_prints(script: str) -> bool:
    """Tell whether an awk script surely reads and prints only.

    Without a `print` before it `>` compares. Strings are not left out, since what looks like one
    may begin inside a regular expression.

    Example:
        >>> awk_only_prints("$3 > 80 || /x/ { print $1 }"), awk_only_prints('{ print > "out" }')
        (True, False)
    """
    printing = script.find("print")
    if printing >= 0 and script.find(">", printing) >= 0:
        return False
    return _AWK_ACTS.search(script.replace("||", "")) is None


_FINDERS: dict[str, tuple[_Finder, ...]] = {
    "git": (_git,),
    "uniq": (_second_file,),
    "xxd": (_second_file,),
    "date": (_system,),
    "sed": (_sed,),
    "awk": (_awk,),
    "jq": (_jq,),
    **dict.fromkeys(_VALUES, (_values,)),
    **dict.fromkeys(
        ("declare", "export", "getopts", "let", "local", "mapfile", "read", "readarray"), (_names,)
    ),
    **dict.fromkeys(("readonly", "typeset", "unset", "wait"), (_names,)),
}
