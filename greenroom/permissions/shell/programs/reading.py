"""Commands that only read or print, by the name of the program and its options."""

from collections.abc import Sequence

from greenroom.permissions.facts.word import Word, basename
from greenroom.permissions.shell.programs.cautions import cautions
from greenroom.permissions.shell.programs.table import READ_ONLY, Program, parts, program_of

__all__ = ["is_version", "only_prints", "only_reads", "read_only_commands", "writes_no_named_file"]

# Developers' programs, and the options with which they print their version and nothing else. Those
# are missing that a file of the project may replace by another version of themselves.
_VERSIONS = {
    **dict.fromkeys(("python", "python3", "pip", "pip3"), ("--version", "-V")),
    **dict.fromkeys(("node", "npm"), ("--version", "-v")),
    **dict.fromkeys(
        ("bash", "clang", "cmake", "docker", "gcc", "git", "java", "make", "perl", "rg", "ruby"),
        ("--version",),
    ),
}


def read_only_commands() -> tuple[str, ...]:
    """List the commands that need no rule while they only read, inside the workspace.

    Example:
        >>> {"ls", "git status", "python --version"} <= set(read_only_commands())
        True
    """
    versions = (f"{name} {options[0]}" for name, options in _VERSIONS.items())
    return (*READ_ONLY, "command -v", "xargs", *versions)


def only_prints(argv: Sequence[Word]) -> bool:
    """Tell whether a command does nothing but print or compare its words.

    Example:
        >>> only_prints([Word("printf"), Word("%s"), Word("a")]), only_prints([Word("cat"), Word("a")])
        (True, False)
    """
    return program_of(argv)[0].is_("prints") and not cautions(argv)


def only_reads(argv: Sequence[Word]) -> bool:
    """Tell whether a command writes nothing and runs nothing, whatever its operands name.

    It holds for a command without cautions, see `cautions`.

    Example:
        >>> [only_reads([Word(each) for each in line.split()]) for line in (
        ...     "cat a", "git log a", "git branch --list", "git branch a", "sort a", "touch a")]
        [True, True, True, False, True, False]
    """
    program, start = program_of(argv)
    if basename(argv[0].text) == "command":
        return len(argv) > 2 and argv[1].text in ("-v", "-V")
    if program.is_("reads"):
        return _is_listing(argv, program, start)
    return program.is_("prints") or is_version(argv)


def _is_listing(argv: Sequence[Word], program: Program, start: int) -> bool:
    """Tell whether a program that can do more than list is told to list, if it is one."""
    options, first = program.marks.get("&"), program.marks.get("$")
    if first is None:
        return True
    seen = tuple(parts(argv, program, start))
    if options and not all(program.has("&", part.option) for part in seen if part.option):
        return False
    operand = next((argv[part.at] for part in seen if not part.option), Word("-"))
    return (operand.static and operand.text in first) or any(part.option in first for part in seen)


def is_version(argv: Sequence[Word]) -> bool:
    """Tell whether a well-known program, named without a folder, is asked for its version only."""
    return len(argv) == 2 and argv[1].text in _VERSIONS.get(argv[0].text, ())


def writes_no_named_file(argv: Sequence[Word]) -> bool:
    """Tell whether a command without cautions writes no file that it names, as `git add` doesn't.

    Example:
        >>> [writes_no_named_file([Word("git"), Word(each), Word("a")]) for each in ("add", "mv")]
        [True, False]
    """
    return program_of(argv)[0].is_("stores") or only_reads(argv)
