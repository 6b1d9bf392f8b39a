"""Risks: words and variables that make a harmless program write files or run other programs.

A rule that allows `sort` is about sorting; `sort -o file` needs a rule that names the option.
`GIT_PAGER=x git log` runs x. And `declare` or `trap` may change what all later words mean, so they
need a rule for their exact words.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from greenroom.programs.invocation import Invocation, Part
from greenroom.programs.languages import (
    awk_only_prints,
    jq_only_prints,
    printf_sets_variable,
    sed_only_prints,
)
from greenroom.programs.words import basename

_DISPLAY = re.compile(
    r"NO_COLOR|TERM|COLUMNS|LANG|LC_(?:ALL|COLLATE|CTYPE|MESSAGES|MONETARY|NUMERIC|TIME)"
)
_INFLUENCE = re.compile(
    r"IFS|ENV|HOME|SHELL|PS[0-4]|GLOBIGNORE|TMPDIR|BROWSER|MAKEFILES|INPUTRC|PSQLRC|KUBECONFIG"
    r"|CC|CXX|GO[A-Z]+|MAN[A-Z]+|BASH.*|LESS.*|PYTHON.*|PERL.*|RUBY.*|RUST.*|[a-z]+_proxy|npm_.*"
    r"|(?:LD|DYLD|GIT|NODE|JAVA|CARGO|NPM|PIP|UV|SSH|DOCKER|XDG|LUA|DOTNET|CORECLR|OPENSSL)_.*"
    r"|[A-Z]+_CONFIG_(?:DIR|FILE|HOME)"
    r"|[A-Z_]*(?:PATH|OPTIONS|OPTS|FLAGS|ARGS|COMMAND|PAGER|EDITOR|PROXY|ASKPASS|RSH|WRAPPER"
    r"|RUNNER|LINKER|VISUAL|_SHELL|_PROG|PLUGINS|LAUNCHER|STARTUP)"
)
# Of these, those that hold no program: they say where something is, or who did it.
_NOT_RUN = re.compile(r"IFS|HOME|TMPDIR|[A-Z_]*PATH|GIT_(?:AUTHOR|COMMITTER)_\w+|GIT_\w*DIR\w*")
# And those that only say how programs run.
_RUNS_SAME = re.compile(
    r"NODE_ENV|RUST_(?:LOG|BACKTRACE)|PYTHON(?:UNBUFFERED|DONTWRITEBYTECODE|HASHSEED)|GO(?:OS|ARCH)"
    r"|DOCKER_BUILDKIT"
)
_PLAIN = re.compile(r"[\w.@:+-]*")
# Options that make a program write a file.
_ONLY_WRITES = re.compile(r"--?(?:\w*[ioO]|in-?place|out\w*|delete|f?print\w*|remote-name)(?:=.*)?")


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


def chooses_programs(name: str) -> bool:
    """Return whether this variable may change what is run, and not only how.

    Example:
        >>> chooses_programs("PATH"), chooses_programs("PYTHONUNBUFFERED")
        (True, False)
    """
    return changes_programs(name) and not _RUNS_SAME.fullmatch(name)


def names_program(name: str) -> bool:
    """Return whether the value of this variable may be a command that a program runs.

    Example:
        >>> names_program("GIT_PAGER"), names_program("PATH")
        (True, False)
    """
    return changes_programs(name) and not _NOT_RUN.fullmatch(name)


def only_writes(option: str) -> bool:
    """Return whether a risky option only makes its program write a file, not run another one.

    Example:
        >>> only_writes("--output=x"), only_writes("--to-command=x")
        (True, False)
    """
    return _ONLY_WRITES.fullmatch(option) is not None


_Risks = Iterator[tuple[int, str]]

_VIM = "vim vi nvim view ex vimdiff gvim"
_GCC = "gcc cc c++ g++ clang clang++ c99 cpp"
# Beginnings of words that let programs write files or run other programs.
_EXPRESSIONS = {
    # commands, but not starting points such as `+F`, `+G`, `+12` and `+/text`
    f"less more {_VIM}": r"\+(?!(?:\+?(?:[0-9]*[gGF]?|[/?][^\n]*))\Z)",
    "ed dc": r"[-e]*\s*!",
    # options from a file, plug-ins, another linker, a mapper of modules
    _GCC: r"@|.*-plugin|-load\Z|-(?:fuse-ld|-?ld-path)=.*/|-fmodule-mapper=\|",
    "ld": r"@|.*-plugin",
    "rustc cargo": r"@|.*(?:linker=|codegen-backend)",
    "go": r".*-(?:extld|extar)",
    "cmake": (
        r"(?:-D)?(?:(?=\w*?(?:_LAUNCHER|TOOLCHAIN_FILE|_INCLUDE(?:_BEFORE)?)\b)"
        r"|(?=\w*?COMPILER)\w++[^=]*+=.*/)"
    ),
    "mvn mvnw": r".*\bexec[.:]",
    # settings that run commands or name the program that runs them
    "make gmake": (
        r"\s*+(?:(?:SHELL|\.SHELLFLAGS|MAKE|MAKEFLAGS|MAKEFILES|GNUMAKEFLAGS|MFLAGS)\s*[:?+]*="
        r"|[^\s=]*\s*!=|[^=\s-][^=\s]*=.*[`;|&<>\n])"
        r"|[^=-].*\$[({]\s*(?:shell|eval|file|guile|load|call)\b"
    ),
    "git": r".*(?:%[-+ ]?G|%\(signature)",  # a program checks signatures
    "curl": r".*%output\{",
    # agents, options from a file, commands on errors
    "java javac": (
        r"@|-(?:agentpath|agentlib|javaagent|Xrun|J)|-XX:(?:On|Flags|VMOptionsFile)|-Xplugin"
    ),
    "sqlite3": (
        r"\s*\.(?!(?:tables|schema|indexes|mode|headers?|width)\b[^|\n]*\Z)"
        r"|(?i:.*\b(?:load_extension|writefile|edit)\b)"
    ),
    "psql": r".*\\(?!(?:d\w*|l|z)\+?(?:\s[\w.* ]*)?\Z)|(?i:.*\bprogram\b)",
    "mysql mariadb": r".*\\!|(?i:.*\b(?:system|outfile|dumpfile|pager|tee)\b)",
    "rsync": r"-M",  # options for the other side, which may be this machine
    "strings": r"@",
    "xxd": r"--?r",  # any word that begins so
}
_TEXTS = {
    name: re.compile(text, re.DOTALL)
    for names, text in _EXPRESSIONS.items()
    for name in names.split()
}
_SSH = re.compile(
    r"\s*(?:ProxyCommand|LocalCommand|PermitLocalCommand|KnownHostsCommand|PKCS11Provider"
    r"|SecurityKeyProvider|XAuthLocation|Include|Match)\b",
    re.IGNORECASE,
)
_FROM_OUTSIDE = re.compile(
    r"=?(?:.*,)?(?:(?:src|source)=)?(?:/|~|\$\{?HOME|\.\.(?:/|:|,|$))|[^:,]*/\.\.(?:/|:|,|$)"
)
_MOUNTS = (("-v", "--volume", "--mount"), _FROM_OUTSIDE)
_VALUES = {
    "docker": _MOUNTS,
    "podman": _MOUNTS,
    **dict.fromkeys(("ssh", "scp", "sftp"), (("-o",), _SSH)),
    "tar": (("-f", "--file"), re.compile(r"[^/]*:")),  # another program fetches it from a host
    "eslint": (("-f", "--format"), re.compile(".*/")),
}
_SCRIPT_OPTIONS = ("-e", "--expression", "-f", "--file")
# What a small language may do, by the program that reads it.
_SCRIPTS: dict[str, Callable[[str], bool]] = {
    **dict.fromkeys(("sed", "gsed"), sed_only_prints),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), awk_only_prints),
    "jq": jq_only_prints,
    "date": lambda operand: operand.startswith("+"),
}
# Builtins that with some words set variables, or evaluate the subscript in a name.
_EXACT: dict[str, Callable[[Sequence[str]], bool]] = {
    "printf": printf_sets_variable,
    **dict.fromkeys(("test", "["), lambda words: "-v" in words or "-R" in words),
}


def find_risks(invocation: Invocation) -> tuple[tuple[int, str], ...]:
    """Find the words that make a program do more than its name says: their positions, and why.

    Example:
        >>> from greenroom.programs.invocation import read_invocation
        >>> find_risks(read_invocation(["sort", "-ro", "file", "names"]))
        ((1, '-ro lets sort write files or run programs'),)
    """
    argv, found = invocation.argv, dict[int, str]()
    name = invocation.program.name.partition(" ")[0] or basename(argv[0])
    for at, why in _list_risks(invocation, name):
        found.setdefault(at, why or f"{argv[at][:40]} lets {name} write files or run programs")
    return tuple(sorted(found.items()))


def _list_risks(invocation: Invocation, name: str) -> _Risks:
    argv, program = invocation.argv, invocation.program
    exact = _EXACT.get(name)
    if "exact" in program.kinds or (exact and exact(argv[1:])):
        for at in range(len(argv) > 1, len(argv)):
            yield at, f"{name} changes what other words mean, or what is run"
    for part in invocation.parts:
        # Where operands end the options, what an option takes has to be known.
        is_unknown = part.option and not part.marks and argv[part.at] not in program.only
        if _is_risky(part) or (program.stop and is_unknown):
            yield part.at, ""
    if "second" in program.kinds:
        for part in invocation.operands[1:]:
            yield part.at, f"the second file of {name} is written"
    if name in _VALUES:
        options, pattern = _VALUES[name]
        for part in invocation.parts:
            if _is_one(part.option, options) and pattern.match(part.value or ""):
                yield part.at, ""
    if name in _TEXTS:
        ended = {part.at for part in invocation.parts if part.ended}
        for at, word in enumerate(argv[1:], 1):
            if _TEXTS[name].match(word) and not (at in ended and word.startswith("+")):
                yield at, ""
    yield from _check_script(invocation, name)


def _is_one(option: str, options: Sequence[str]) -> bool:
    """Return whether an option is one of these, or abbreviates one."""
    is_long = len(option) > 2 and option.startswith("--")
    return option in options or (is_long and any(each.startswith(option) for each in options))


def _is_risky(part: Part) -> bool:
    marks, value = part.marks, part.value
    writes = ">" in marks and value not in (None, "-", "/dev/null")
    # What an abbreviation takes is not certain.
    is_unclear = "a" in marks and value is None and re.search("[=@>]", marks) is not None
    return "!" in marks or "&" in marks or writes or is_unclear


def _check_script(invocation: Invocation, name: str) -> _Risks:
    """Find the script of a small language that does more than print."""
    check, argv = _SCRIPTS.get(name), invocation.argv
    if check is None:
        return
    options = _SCRIPT_OPTIONS if check is sed_only_prints else ()
    given = [part for part in invocation.parts if _is_one(part.option, options)]
    # Where operands end the options, an `-e` behind one is a file.
    scripts = [
        (p.at, argv[p.at]) for p in invocation.operands[:1] if not given or p.at < given[0].at
    ]
    scripts += [(part.at, part.value or "") for part in given if "e" in part.option[:3]]
    for at, script in scripts:
        if not check(script):
            yield at, f"this {name} script may write files or run programs"
