"""Commands that only read, and what they read; and risks, which make them do more.

A risk is a word or a variable that makes a harmless program write files or run other programs. A
rule that allows `sort` is about sorting; `sort -o file` needs a rule that names the option.
`GIT_PAGER=x git log` runs x. And `declare` or `trap` may change what all later words mean, so they
need a rule for their exact words.

The rows in the tables list the options that do nothing else, and what a program does with its
operands. An option that is not there, or that this system's program may read differently, makes it
a command of which nothing is known.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from greenroom.programs.invocation import PROGRAMS, Invocation, Part
from greenroom.programs.languages import (
    awk_only_prints,
    jq_only_prints,
    printf_sets_variable,
    ps_only_lists,
    sed_only_prints,
)

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


def chooses_programs(name: str) -> bool:
    """Return whether this variable may change what is run, and not only how.

    Example:
        >>> [chooses_programs(name) for name in ("PATH", "PYTHONUNBUFFERED", "MESSAGE")]
        [True, False, False]
    """
    return bool(_INFLUENCE.fullmatch(name)) and not _RUNS_SAME.fullmatch(name)


def names_program(name: str) -> bool:
    """Return whether the value of this variable may be a command that a program runs.

    Example:
        >>> names_program("GIT_PAGER"), names_program("PATH")
        (True, False)
    """
    return bool(_INFLUENCE.fullmatch(name)) and not _NOT_RUN.fullmatch(name)


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
    "date find": r'.*TZ="(?::?/|[^"]*\.\.)',  # a file, as a zone
    "curl": r".*%output\{|--expand-",
    "wget": r"-n\w*H|--(?:no-host|content-d|trust-s)",  # the server names the files
    # agents, options from a file, commands on errors
    "java javac": (
        r"@|-(?:agentpath|agentlib|javaagent|Xrun|J)|-XX:(?:On|Flags|VMOptionsFile)|-Xplugin"
    ),
    "sqlite3": (
        r"\s*\.(?!(?:tables|schema|indexes|mode|headers?|width)\b[^|\n]*\Z)"
        r"|(?i:.*\b(?:load_extension|readfile|writefile|fsdir|edit)\b)"
    ),
    "psql": r".*\\(?!(?:d\w*|l|z)\+?(?:\s[\w.* ]*)?\Z)|(?i:.*\bprogram\b)",
    "mysql mariadb": r".*\\!|(?i:.*\b(?:system|outfile|dumpfile|pager|tee)\b)",
    "rsync": r"-M",  # options for the other side, which may be this machine
    "strings": r"@",
    "gh": r"--\Z",  # options of git and ssh follow
    "socat": r"(?i:.*\b(?:exec|system|shell)\b)",
    "openssl": r"--?(?:engine|provider|config)",  # plug-ins
    "pandoc": r"-[FLd]|--(?:fil|lua|def|dat)",
    "tex latex pdftex pdflatex xetex xelatex luatex lualatex": r"--?(?:shell-e|enable-w)",
    "xxd": r"--?r",  # any word that begins so
}
_TEXTS = {
    name: re.compile(text, re.DOTALL)
    for names, text in _EXPRESSIONS.items()
    for name in names.split()
}
_SSH = re.compile(
    r"\s*(?:ProxyCommand|LocalCommand|PermitLocalCommand|KnownHostsCommand|PKCS11Provider"
    r"|SmartcardDevice|SecurityKeyProvider|XAuthLocation|Include|Match)\b",
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
    "curl": (("-w", "--write-out"), re.compile("@")),  # which may name files to write
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
    name = invocation.program.name.partition(" ")[0] or invocation.name
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


_OPERANDS = ("files", "text", "any", "pattern", "none")
_OWN_READERS = frozenset({"words", "detached", "strict"})  # they do not use getopt
_MOST = {"none": 0, "one": 1, "two": 2}
_ABOUT_ITSELF = ("--version", "--help")
_CHECKS: dict[str, Callable[[Sequence[str]], bool]] = {
    "ps": ps_only_lists,
    "cd": lambda words: "-" not in words,  # the folder before
}


class ReadFile(NamedTuple):
    """A file or folder that a command reads.

    Attributes:
        path: its path, as the program takes it.
        may_be_folder: whether the program follows no links in it if it is a folder.
    """

    path: str
    may_be_folder: bool = True


class Reading(NamedTuple):
    """What a command reads that only reads.

    Attributes:
        files: the files and folders that its words name.
        deep: whether it reads the files that it finds in these folders.
        folder: the folder that their paths begin in, as `git -C` says; empty for the current one.
    """

    files: tuple[ReadFile, ...] = ()
    deep: bool = False
    folder: str = ""


def read_only_commands() -> tuple[str, ...]:
    """List the commands that need no rule as long as they only read inside the workspace.

    Example:
        >>> {"ls", "git status", "python --version"} <= set(read_only_commands())
        True
    """
    readers = [name for name, each in PROGRAMS.items() if each.is_kind(*_OPERANDS)]
    told = [f"{name} {each.only[0]}" for name, each in PROGRAMS.items() if each.only]
    return (*readers, "command -v", *told)


def find_reading(invocation: Invocation) -> Reading | None:
    """Find out what a command reads; None unless it surely only reads.

    Each option, value and operand has to be in the program's row. The files still have to be
    judged: only those of the workspace, with links followed, may be read unasked.

    Example:
        >>> from greenroom.programs.invocation import read_invocation
        >>> find_reading(read_invocation("grep -rn TODO src".split()))
        Reading(files=(ReadFile(path='src', may_be_folder=True),), deep=True, folder='')
        >>> find_reading(read_invocation("sort -o out names".split()))
    """
    argv, program = invocation.argv, invocation.program
    if "/" in argv[0]:
        return None
    about_itself = _ABOUT_ITSELF if program.is_kind("files", "pattern") else program.only
    if len(argv) == 2 and argv[1] in about_itself:
        return Reading()
    check = _CHECKS.get(program.name)
    is_reader = program.is_kind(*_OPERANDS) and (check is None or check(argv[1:]))
    if not is_reader or find_risks(invocation):
        return None
    if program.is_kind("any"):
        return Reading()
    options = [part for part in invocation.parts if part.option or part.marks]
    if not all(_is_allowed(part, invocation) for part in options) or _is_unordered(invocation):
        return None
    return _find_operands(invocation, options)


def _is_allowed(part: Part, invocation: Invocation) -> bool:
    """Return whether an option is in the row and has its value where the row says."""
    is_attached = part.value is not None and part.value_at == part.at
    if not part.is_listed or (is_attached and "words" in invocation.program.kinds):
        return False
    if invocation.argv[0] == "git" and part.value_at > part.at:
        word = invocation.argv[part.at]
        # git looks for its options once more, one by one: so this may be no value to it.
        if part.value is None or part.value[:1] == "-" or (len(word) > 2 and word[1] != "-"):
            return False
    # For some programs `-f=file` is `-f file`.
    return "@" not in part.marks or (part.value or "")[:1] not in ("", "=")


def _is_unordered(invocation: Invocation) -> bool:
    """Return whether options stand behind operands, where not all take them for options."""
    last = max((part.at for part in invocation.parts if part.option), default=0)
    is_late = any(part.at < last for part in invocation.operands)
    program = invocation.program
    looks_itself = " " in program.name or not program.kinds.isdisjoint(_OWN_READERS)
    return is_late and sys.platform != "linux" and not looks_itself


def _is_selected(options: Sequence[Part]) -> bool:
    """Return whether an option surely picks the other mode, and is not the value of one before."""
    open_at = {part.at for part in options if "?" in part.marks and part.value is None}
    return any("$" in part.marks and part.at - 1 not in open_at for part in options)


def _find_operands(invocation: Invocation, options: Sequence[Part]) -> Reading | None:
    """Find the files among values and operands; None if the row does not allow the operands."""
    argv, program = invocation.argv, invocation.program
    selected = any("$" in part.marks for part in options)
    operands = [part for part in invocation.operands if not part.marks]
    most = min((_MOST[each] for each in _MOST if program.is_kind(each)), default=len(argv))
    is_missing = program.is_kind("some") and not operands
    is_barred = program.is_kind("select") and operands and not _is_selected(options)
    if len(operands) > most or is_missing or is_barred:
        return None
    if program.is_kind("pattern") and not selected:
        operands = operands[1:]
    named = operands if program.is_kind("files", "pattern") else []
    files = [ReadFile(argv[part.at], not program.is_kind("flat")) for part in named]
    if not named and program.is_kind("here"):
        files.append(ReadFile("."))
    given = [part for part in options if "@" in part.marks]
    files += [ReadFile(p.value or "") for p in given if p.at > invocation.start]
    folders = [part.value or "" for part in given if part.at <= invocation.start]
    if len(folders) > 1 or not all(each.path for each in files):
        return None
    deep = program.is_kind("deep") or any("*" in part.marks for part in options)
    return Reading(tuple(files), deep, "".join(folders))
