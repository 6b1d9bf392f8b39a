"""Variables: those that only change how output looks, and those that change what runs."""

import re
from itertools import dropwhile, islice

from greenroom.permissions.facts.word import Word
from greenroom.permissions.shell.grammar.arithmetic import is_plain_value
from greenroom.permissions.shell.grammar.nodes import Assignment, Finding, SimpleCommand

__all__ = [
    "changes_programs",
    "computes",
    "declares",
    "is_display",
    "is_display_setting",
    "may_hold_code",
    "reads_into",
    "renames",
    "runs_in_subscript",
]

_PREFIX = re.compile(r"command|builtin|-p+|--")
_READERS = frozenset({"read", "mapfile", "readarray", "getopts"})
_DECLARERS = frozenset({"declare", "typeset", "local", "export", "readonly", "printf", "set"})
_REFERENCE = re.compile(r"-(?=\w*n)\w*")
_BUILTINS = _READERS | _DECLARERS | {"let", "test", "[", "unset", "wait"}
_SUBSCRIPT = re.compile(r"\w\[.*(?:\$\(|`)", re.DOTALL)
_TABLES = re.compile(r"BASH_(?:CMDS|ALIASES)")  # of what names stand for
_INTEGER = re.compile(r"[-+](?=\w*i)\w*")

_DISPLAY = re.compile(r"NO_COLOR|TERM|LANG|LC_[A-Z]+|COLUMNS")
_INFLUENCE = re.compile(
    r"IFS|ENV|HOME|SHELL|PS4|CDPATH|GLOBIGNORE|TMPDIR|EDITOR|VISUAL|PAGER|MAKEFLAGS"
    r"|BASH.*|SHELLOPTS|PROMPT_COMMAND|LD_.*|DYLD_.*|GIT_.*|PYTHON.*|PERL.*|RUBY.*|NODE_.*"
    r"|JAVA_.*|GO[A-Z]+|CARGO_.*|RUST.*|NPM_.*|npm_.*|PIP_.*|UV_.*|LESS.*|MAN[A-Z]+|SSH_.*"
    r"|[A-Z_]*(?:PATH|OPTIONS|OPTS|FLAGS|ARGS|COMMAND|PAGER|EDITOR|PROXY|SHELL|ASKPASS|PLUGINS)"
    r"|[A-Z_]*(?:WRAPPER|LAUNCHER|STARTUP)|[a-z]+_proxy|CC|CXX|BROWSER|MAKEFILES|INPUTRC|PSQLRC"
    r"|XDG_.*|LUA_.*|DOTNET_.*|CORECLR_.*|OPENSSL_.*"
)
_PLAIN = re.compile(r"[\w.@:+-]*")


def is_display(assignment: Assignment) -> bool:
    """Tell whether it only changes how output looks: a known name with a plain value."""
    return is_display_setting(assignment.setting)


def is_display_setting(setting: str) -> bool:
    """Tell the same of a setting such as "LANG=C"."""
    name, _, value = setting.partition("=")
    return _DISPLAY.fullmatch(name) is not None and _PLAIN.fullmatch(value) is not None


def changes_programs(name: str) -> bool:
    """Tell whether programs read this variable to find what they run."""
    return _INFLUENCE.fullmatch(name) is not None


def may_hold_code(node: Finding) -> bool:
    """Tell whether it gives a variable a value that arithmetic would run as a command."""
    if isinstance(node, Assignment):
        return not _is_plain(node.value)
    if not isinstance(node, SimpleCommand):
        return False
    values = [assignment.value for assignment in node.assignments]
    if reads_into(node):
        return True
    if declares(node):
        values += node.words[1:]
    return not all(_is_plain(value) for value in values)


def reads_into(node: SimpleCommand) -> bool:
    """Tell whether it is a builtin that reads text into variables."""
    return not _programs(node).isdisjoint(_READERS)


def declares(node: SimpleCommand) -> bool:
    """Tell whether it is a builtin that sets variables, or the arguments, to its own words."""
    return not _programs(node).isdisjoint(_DECLARERS)


def computes(node: Finding) -> bool:
    """Tell whether it is a builtin that evaluates its words as arithmetic."""
    if not isinstance(node, SimpleCommand):
        return False
    programs = _programs(node)
    return "let" in programs or (
        not programs.isdisjoint(_DECLARERS)
        and any(_INTEGER.fullmatch(word.text) for word in node.words)
    )


def renames(node: SimpleCommand) -> bool:
    """Tell whether it is a builtin that makes a variable, or a program's name, stand for another."""
    programs = _programs(node)
    if programs and any(_TABLES.search(word.text) for word in node.words):
        return True
    return not programs.isdisjoint({"declare", "typeset", "local"}) and any(
        _REFERENCE.fullmatch(word.text) or (word.opening and not word.opening.text)
        for word in node.words[1:]
    )


def runs_in_subscript(node: SimpleCommand) -> bool:
    """Tell whether it is a builtin that may evaluate a subscript which holds a command."""
    programs = _programs(node)
    if programs == {"printf"} and not any(word.text.startswith("-v") for word in node.words):
        return False
    return bool(programs) and any(_SUBSCRIPT.search(word.text) for word in node.words)


def _programs(node: SimpleCommand) -> frozenset[str]:
    """Name the builtins that a command may be, such as `read` behind `builtin`; usually none."""
    if node.words and not _PREFIX.fullmatch(node.words[0].text):
        return _BUILTINS.intersection([word.text for word in node.words[:4]])
    words = dropwhile(lambda word: _PREFIX.fullmatch(word.text), node.words)
    return frozenset(word.text for word in islice(words, 4) if word.text in _BUILTINS)


def _is_plain(value: Word) -> bool:
    """Tell whether it is surely no code; the name of a file may be some."""
    if value.opening is not None and value.opening.number:
        return True
    return not value.pattern and is_plain_value(value.text)
