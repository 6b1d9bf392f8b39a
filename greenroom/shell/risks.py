"""Risks: words and variables that make a harmless program write files or run other programs.

A rule that allows `sort` is about sorting; `sort -o file` needs a rule that names the option. So
does `sort "$x"`, since the word may turn out to be that option. `GIT_PAGER=x git log` runs x, and
`declare`, `read` and arithmetic may change what later words mean.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from greenroom.shell.effects import Command, ShellEffect, Unknown
from greenroom.shell.programs import Invocation, find_extent
from greenroom.shell.words import Assignment, Finding, SimpleCommand, Word, basename, extract_words

# Variables: which ones change what runs, and which builtins set them.

_DISPLAY = re.compile(r"NO_COLOR|TERM|LANG|LC_[A-Z]+|COLUMNS")
_INFLUENCE = re.compile(
    r"IFS|ENV|HOME|SHELL|PS[0-4]|CDPATH|GLOBIGNORE|TMPDIR|EDITOR|VISUAL|MAKEFLAGS|BROWSER|PERL5DB"
    r"|BASH.*|SHELLOPTS|LD_.*|DYLD_.*|GIT_.*|PYTHON.*|PERL.*|RUBY.*|NODE_.*|CC|CXX"
    r"|JAVA_.*|GO[A-Z]+|CARGO_.*|RUST.*|NPM_.*|npm_.*|PIP_.*|UV_.*|LESS.*|MAN[A-Z]+|SSH_.*"
    r"|[A-Z_]*(?:PATH|OPTIONS|OPTS|FLAGS|ARGS|COMMAND|PAGER|EDITOR|PROXY|ASKPASS|RSH|WRAPPER"
    r"|RUNNER|LINKER|VISUAL|_SHELL|_PROG|PLUGINS|LAUNCHER|STARTUP)"
    r"|[a-z]+_proxy|MAKEFILES|INPUTRC|PSQLRC"
    r"|KUBECONFIG|[A-Z]+_CONFIG_(?:DIR|FILE|HOME)|DOCKER_.*|XDG_.*|LUA_.*|DOTNET_.*"
    r"|CORECLR_.*|OPENSSL_.*"
)
# Of these, those that hold no program: they say where something is, or who did it.
_NOT_RUN = re.compile(r"IFS|HOME|TMPDIR|[A-Z_]*PATH|GIT_(?:AUTHOR|COMMITTER)_\w+|GIT_\w*DIR\w*")
_PLAIN = re.compile(r"[\w.@:+-]*")
# Values that can't make arithmetic run a command.
_NO_CODE = re.compile(r"[\w./:@%+, *?=-]*|\{\w+\.\.\w+(?:\.\.\w+)?\}")
_PREFIXES = frozenset({"builtin", "command"})
_READERS = frozenset({"read", "mapfile", "readarray", "getopts"})
_DECLARERS = frozenset({"declare", "typeset", "local", "export", "readonly", "printf", "set"})
_BUILTINS = _READERS | _DECLARERS | {"let", "test", "[", "unset", "wait"}
_REDEFINERS = frozenset({"alias", "enable", "hash", "shopt"})
_CONCERNED = _BUILTINS | _REDEFINERS
# `-n` makes a name stand for another, `-i` computes.
_ATTRIBUTES = re.compile(r"[-+][^\Win]*[in]\w*")
_TESTS = frozenset({"test", "["})
_SUBSCRIPT = re.compile(r"\w\[.*(?:\$\(|`)", re.DOTALL)
_KEYWORDS = re.compile(r"[-+]\w*k")  # any word that looks like a setting becomes one


def is_display_setting(setting: str) -> bool:
    """Return whether a setting such as "LANG=C" only changes how output looks."""
    name, _, value = setting.partition("=")
    return _DISPLAY.fullmatch(name) is not None and _PLAIN.fullmatch(value) is not None


def changes_programs(name: str) -> bool:
    """Return whether the shell or a program reads this variable to find what it runs.

    Example:
        >>> changes_programs("GIT_PAGER"), changes_programs("PATH"), changes_programs("MESSAGE")
        (True, True, False)
    """
    return _INFLUENCE.fullmatch(name) is not None


def concerns_variables(node: Finding) -> bool:
    """Return whether a finding may set variables or change what words mean; most don't."""
    if isinstance(node, SimpleCommand):
        return bool(node.assignments) or _builtin(node) in _CONCERNED
    return isinstance(node, Assignment)


def list_variable_effects(node: SimpleCommand | Assignment) -> Iterator[ShellEffect]:
    """List what programs may run because of variables that are set, so that it can be denied."""
    given = [node] if isinstance(node, Assignment) else list(node.assignments)
    if isinstance(node, SimpleCommand) and _builtin(node) in _DECLARERS:
        parts = ((word.text.partition("="), word) for word in node.words[1:])
        given += [Assignment(name, word._replace(text=value)) for (name, _, value), word in parts]
    for name, value in given:
        if not changes_programs(name) or _NOT_RUN.fullmatch(name):
            continue
        if value.unknown:
            yield Unknown(reason=f"a program may run what is only known later: {value.text}")
        if words := extract_words(value.text):
            yield Command(argv=tuple(map(Word, words)), guard=True, loose=True)


def redefines(node: SimpleCommand) -> bool:
    """Return whether a builtin changes what later words mean, or runs a command in a subscript."""
    program, texts = _builtin(node), [word.text for word in node.words[1:]]
    if program == "set" and any(text == "keyword" or _KEYWORDS.match(text) for text in texts):
        return True
    if program in _TESTS:
        named = (word for option, word in pairwise(node.words) if _takes_name(option))
        runs = any("$(" in each.text or "`" in each.text for each in _tested_names(node))
        return runs or any(word.unknown for word in named) or any(map(_SUBSCRIPT.search, texts))
    if program in _REDEFINERS:
        return bool(texts) and texts != ["-r"]
    if program in ("declare", "typeset", "local"):
        unclear = any(word.may_be_option for word in node.words)
        if unclear or any(_ATTRIBUTES.fullmatch(text) for text in texts):
            return True
    return program in _BUILTINS - {"printf"} and any(map(_SUBSCRIPT.search, texts))


def _takes_name(option: Word) -> bool:
    return option.unknown or option.text in ("-v", "-R")


def sets(node: Finding, names: frozenset[str]) -> bool:
    """Return whether a finding may set one of these variables."""
    if isinstance(node, Assignment):
        return node.name in names
    if not isinstance(node, SimpleCommand):
        return False
    if any(each.name in names for each in node.assignments):
        return True
    return _builtin(node) in _READERS | _DECLARERS | {"unset"} and any(
        word.text.partition("=")[0].removeprefix("-v") in names for word in node.words[1:]
    )


def computes(node: Finding) -> bool:
    """Return whether a finding is a builtin that evaluates its words as arithmetic."""
    if not isinstance(node, SimpleCommand):
        return False
    program = _builtin(node)
    return program == "let" or (program in _TESTS and any(True for _ in _tested_names(node)))


def _tested_names(node: SimpleCommand) -> Iterator[Word]:
    """Find the words of a test that may name a variable with a subscript to evaluate."""
    words = node.words
    for at, word in enumerate(words[1:], 1):
        after = words[at + 1] if at + 1 < len(words) else Word("")
        if word.unknown and (word.split or after.unknown or "[" in after.text):
            yield word


def may_hold_code(node: Finding) -> bool:
    """Return whether a finding sets a variable to a value that arithmetic may run as a command."""
    if isinstance(node, Assignment):
        return not _is_plain(node.value)
    if not isinstance(node, SimpleCommand):
        return False
    values = [assignment.value for assignment in node.assignments]
    program = _builtin(node)
    if program in _DECLARERS:
        values += node.words[1:]
    return program in _READERS or not all(map(_is_plain, values))


def _builtin(node: SimpleCommand) -> str:
    """Name the builtin that a command runs, even through `command` or `builtin`."""
    for word in node.words:
        if word.text not in _PREFIXES and word.text[:1] != "-":
            return word.text
    return ""


def _is_plain(value: Word) -> bool:
    """Return whether a value is surely not code; the name of a file may be."""
    return value.number or (not value.pattern and _NO_CODE.fullmatch(value.text) is not None)


Risks = Iterator[tuple[int, str]]
_Check = Callable[[Invocation], Risks]

_GIT_GLOBAL = ("-c", "--config-env", "--exec-path", "-p", "--paginate")
# Beginnings of words that let programs write files or run other programs.
_EXPRESSIONS = {
    # commands, but not starting points such as `+F`, `+G`, `+12` and `+/text`
    **dict.fromkeys(("less", "more", "vim"), r"\+(?!(?:\+?(?:[0-9]*[gGF]?|[/?][^\n]*))\Z)"),
    **dict.fromkeys(("ed", "dc"), r"[-e]*\s*!"),
    # options from a file, plug-ins, another linker
    "gcc": r"@|.*-plugin|-load\Z|-fuse-ld=.*/",
    **dict.fromkeys(("rustc", "cargo"), r"@|.*(?:linker=|codegen-backend)"),
    "go": r".*-extld",
    # settings that run commands or name the program that runs them
    "make": (
        r"\s*+(?:(?:SHELL|\.SHELLFLAGS|MAKE|MAKEFLAGS|MAKEFILES|GNUMAKEFLAGS|MFLAGS)\s*[:?+]*="
        r"|[^\s=]*\s*!=|[^=\s-][^=\s]*=.*[`;|&<>\n])"
        r"|[^=-].*\$[({]\s*(?:shell|eval|file|guile|load|call)\b"
    ),
    "git": r".*(?:%[-+ ]?G|%\(signature)",  # a program checks signatures
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
# A delimiter inside brackets ends nothing, so brackets with one are not supported.
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
# ARGV and ARGC name further files; the others give access to any variable.
_AWK_ACTS = re.compile(r"system|getline|ARG[VC]|ENVIRON|PROCINFO|SYMTAB|FUNCTAB|[|@]")


def find_risks(invocation: Invocation) -> tuple[tuple[int, str], ...]:
    """Find the words that make a program do more than its name says: their positions, and why.

    What a program writes depends on all of its words, so each has to be known, unless the program
    only reads or prints.

    Example:
        >>> from greenroom.shell.words import Word
        >>> from greenroom.shell.programs import read_invocation
        >>> find_risks(read_invocation([Word(each) for each in ("sort", "-ro", "file", "names")]))
        ((1, '-ro lets sort write files or run programs'),)
    """
    argv, found = invocation.argv, dict[int, str]()
    name = invocation.program.name.partition(" ")[0] or basename(argv[0].text)
    for at, why in _list_risks(invocation, name):
        found.setdefault(at, why or f"{argv[at].text[:40]} lets {name} write files or run programs")
    if find_extent(invocation) not in ("prints", "reads"):
        for at, word in enumerate(argv):
            if word.unknown and not _is_message(argv, at):
                found.setdefault(at, f"{word.text[:40]} is only known at run time")
    return tuple(sorted(found.items()))


def _is_message(words: Sequence[Word], at: int) -> bool:
    """Return whether a word is a commit message, whose text does not matter."""
    before = words[at - 1].text
    return words[0].text == "git" and before in ("-m", "--message") and not words[at].split


def _list_risks(invocation: Invocation, name: str) -> Risks:
    argv, program = invocation.argv, invocation.program
    if "always" in program.kinds and len(argv) > 1:
        yield max(invocation.start, 1), f"{name} runs what files say"
    for part in invocation.parts:
        writes_nothing = part.value in ("-", "/dev/null")
        if "!" in part.marks or ("?" in part.marks and not writes_nothing):
            yield part.at, ""
    for finder in _CHECKS.get(name, ()):
        yield from finder(invocation)
    if pattern := _TEXTS.get(name):
        yield from _check_words(invocation, pattern)
    has_cautions = pattern or not program.kinds.isdisjoint("!?")
    if has_cautions and "plain" not in program.kinds and any(word.dynamic for word in argv):
        for at in _find_possible_options(invocation):
            yield at, f"{argv[at].text[:40]} may turn out to be an option that lets {name} do more"


def _find_possible_options(invocation: Invocation) -> Iterator[int]:
    """Find the words that may turn out to be an option that the text does not show."""
    values = {part.value_at for part in invocation.parts if part.value_at > part.at}
    ended = {part.at for part in invocation.parts if part.ended}
    for at, word in enumerate(invocation.argv):
        is_value = at in values and not word.split  # a split word may be empty
        if at > invocation.start and word.may_be_option and not (is_value or at in ended):
            yield at


def _check_words(invocation: Invocation, pattern: re.Pattern[str]) -> Risks:
    ended = {part.at for part in invocation.parts if part.ended}
    for at, word in enumerate(invocation.argv[1:], 1):
        if pattern.match(word.text) and not (at in ended and word.text.startswith("+")):
            yield at, ""


def _check_git(invocation: Invocation) -> Risks:
    """Find the options before the verb; those behind it are in the table."""
    for at, word in enumerate(invocation.argv[1 : invocation.start], 1):
        if word.text.partition("=")[0] in _GIT_GLOBAL or (word.dynamic and word.may_be_option):
            yield at, ""


def _check_subscripts(invocation: Invocation) -> Risks:
    program = invocation.argv[0].text
    for at, word in enumerate(invocation.argv[1:], 1):
        if "[" in word.text or word.dynamic:
            yield at, f"{program} evaluates subscripts, which may run commands"
        elif changes_programs(word.text.partition("=")[0]):
            yield at, f"{program} sets {word.text[:40]}, which decides what programs run"


def _check_second_file(invocation: Invocation) -> Risks:
    files = [part.at for part in invocation.parts if not part.option]
    # Such a word may be two files.
    several = [at for at in files if invocation.argv[at].pattern or invocation.argv[at].split]
    for at in several or files[1:]:
        yield at, f"the second file of {invocation.argv[0].text} is written"


def _check_date(invocation: Invocation) -> Risks:
    """Find the operand that date takes for the new time."""
    for part in invocation.parts:
        if not part.option and not invocation.argv[part.at].text.startswith("+"):
            yield part.at, f"{invocation.argv[part.at].text[:40]} is set for the whole system"


def _check_sed(invocation: Invocation) -> Risks:
    scripts = [p for p in invocation.parts if p.option == "-e" or p.option.startswith("--e")]
    for part in scripts or [part for part in invocation.parts if not part.option][:1]:
        at = part.value_at or part.at
        script = invocation.argv[at]
        if script.dynamic or not sed_only_prints(part.value or script.text):
            yield at, "this sed script may write files or run programs"


def _check_awk(invocation: Invocation) -> Risks:
    script = next((invocation.argv[part.at] for part in invocation.parts if not part.option), None)
    if script is not None and (script.dynamic or not awk_only_prints(script.text)):
        at = next(at for at, word in enumerate(invocation.argv) if word is script)
        yield at, "this awk script may write files or run programs"


def _check_jq(invocation: Invocation) -> Risks:
    """Find a filter that is unknown; a name and a value follow `--arg`."""
    argv = invocation.argv
    places = [part.at for part in invocation.parts if not part.option]
    filters = [at for at in places if not argv[max(at - 2, 0)].text.startswith("--arg")]
    if filters and argv[filters[0]].dynamic:
        yield filters[0], "this jq filter is only known at run time"


def _check_values(invocation: Invocation) -> Risks:
    """Find values of options that run a command here, or open folders outside of the workspace."""
    options, pattern = _VALUES[invocation.program.name]
    for part in invocation.parts:
        if part.option in options and pattern.match(part.value or ""):
            yield part.at, ""


def sed_only_prints(script: str) -> bool:
    r"""Return whether a sed script only reads and prints: it writes no file and runs nothing.

    Example:
        >>> sed_only_prints("1,5p"), sed_only_prints("s/a/b/w out"), sed_only_prints("1e ls")
        (True, False, False)
    """
    return _SED.fullmatch(script) is not None


def awk_only_prints(script: str) -> bool:
    """Return whether an awk script surely only reads and prints.

    Without a `print` before it, `>` compares. Strings are searched as well, since what looks like
    one may begin inside a regular expression.

    Example:
        >>> awk_only_prints("$3 > 80 || /x/ { print $1 }"), awk_only_prints('{ print > "out" }')
        (True, False)
    """
    printing = script.find("print")
    if printing >= 0 and script.find(">", printing) >= 0:
        return False
    return _AWK_ACTS.search(script.replace("||", "")) is None


_CHECKS: dict[str, tuple[_Check, ...]] = {
    "git": (_check_git,),
    "uniq": (_check_second_file,),
    "xxd": (_check_second_file,),
    "date": (_check_date,),
    "sed": (_check_sed,),
    "awk": (_check_awk,),
    "jq": (_check_jq,),
    **dict.fromkeys(_VALUES, (_check_values,)),
    **dict.fromkeys(_BUILTINS - _TESTS - {"printf", "set"}, (_check_subscripts,)),
}
