"""Commands that only read or print, by the name of the program and its options."""

from greenroom.permissions.facts.fact import Extent
from greenroom.permissions.shell.programs.table import READ_ONLY
from greenroom.permissions.shell.programs.usage import Usage

__all__ = ["extent", "read_only_commands"]

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


def extent(usage: Usage) -> Extent:
    """Say what a command without cautions does with what its words name.

    Example:
        >>> [extent(usage_of([Word(each) for each in line.split()])) for line in (
        ...     "echo a", "git log a", "git branch --list", "git branch a", "git add a", "touch a")]
        ['prints', 'reads', 'reads', 'stores', 'stores', 'any']
    """
    argv, program = usage.argv, usage.program
    name, first = argv[0].text, argv[1].text if len(argv) > 1 else ""
    if program.is_("prints") or (len(argv) == 2 and first in _VERSIONS.get(name, ())):
        return "prints"
    if name == "command" and first in ("-v", "-V"):
        return "reads"
    if program.is_("reads") and _is_listing(usage):
        return "reads"
    return "stores" if program.is_("stores") else "any"


def _is_listing(usage: Usage) -> bool:
    """Tell whether a program that can do more than list is told to list, if it is one."""
    if not usage.program.is_("$"):
        return True
    options = [part for part in usage.parts if part.option]
    if usage.program.is_("&") and not all("&" in part.marks for part in options):
        return False
    operand = next((part for part in usage.parts if not part.option), None)
    marks = usage.program.marks("-") if operand is None else operand.marks
    return any("$" in each for each in (marks, *(part.marks for part in options)))
