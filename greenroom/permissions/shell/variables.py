"""Variables: which settings change what runs, and which builtins set them."""

import re
from collections.abc import Iterator
from itertools import pairwise

from greenroom.permissions.facts.fact import Command, Fact, Unknown
from greenroom.permissions.facts.word import Word, words_of
from greenroom.permissions.shell.grammar.nodes import Assignment, Finding, SimpleCommand

_DISPLAY = re.compile(r"NO_COLOR|TERM|LANG|LC_[A-Z]+|COLUMNS")
_INFLUENCE = re.compile(
    r"IFS|ENV|HOME|SHELL|PS[0-4]|CDPATH|GLOBIGNORE|TMPDIR|EDITOR|VISUAL|MAKEFLAGS|BROWSER|PERL5DB"
    r"|BASH.*|SHELLOPTS|LD_.*|DYLD_.*|GIT_.*|PYTHON.*|PERL.*|RUBY.*|NODE_.*|CC|CXX"
    r"|JAVA_.*|GO[A-Z]+|CARGO_.*|RUST.*|NPM_.*|npm_.*|PIP_.*|UV_.*|LESS.*|MAN[A-Z]+|SSH_.*"
    r"|[A-Z_]*(?:PATH|OPTIONS|OPTS|FLAGS|ARGS|COMMAND|PAGER|EDITOR|PROXY|ASKPASS|RSH|WRAPPER"
    r"|RUNNER|LINKER|VISUAL|_SHELL|_PROG|PLUGINS|LAUNCHER|STARTUP)|[a-z]+_proxy|MAKEFILES|INPUTRC|PSQLRC"
    r"|KUBECONFIG|[A-Z]+_CONFIG_(?:DIR|FILE|HOME)|DOCKER_.*|XDG_.*|LUA_.*|DOTNET_.*|CORECLR_.*|OPENSSL_.*"
)
# They say where something is found, or who did it.
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
_ATTRIBUTES = re.compile(
    r"[-+][^\Win]*[in]\w*"
)  # `-n` makes a name stand for another, `-i` computes
_TESTS = frozenset({"test", "["})
_SUBSCRIPT = re.compile(r"\w\[.*(?:\$\(|`)", re.DOTALL)
_KEYWORDS = re.compile(r"[-+]\w*k")  # what looks like a setting is one, wherever it is


def is_display_setting(setting: str) -> bool:
    """Tell whether a setting such as "LANG=C" only changes how output looks."""
    name, _, value = setting.partition("=")
    return _DISPLAY.fullmatch(name) is not None and _PLAIN.fullmatch(value) is not None


def changes_programs(name: str) -> bool:
    """Tell whether the shell or a program reads this variable to find what it runs.

    Example:
        >>> changes_programs("GIT_PAGER"), changes_programs("PATH"), changes_programs("MESSAGE")
        (True, True, False)
    """
    return _INFLUENCE.fullmatch(name) is not None


def concerns_variables(node: Finding) -> bool:
    """Tell whether it may set variables, or change what words mean; most commands don't."""
    if isinstance(node, SimpleCommand):
        return bool(node.assignments) or _builtin(node) in _CONCERNED
    return isinstance(node, Assignment)


def run_values(node: SimpleCommand | Assignment) -> Iterator[Fact]:
    """Say what programs may run that find it in a variable, for the sake of denials."""
    given = [node] if isinstance(node, Assignment) else list(node.assignments)
    if isinstance(node, SimpleCommand) and _builtin(node) in _DECLARERS:
        parts = ((word.text.partition("="), word) for word in node.words[1:])
        given += [Assignment(name, word._replace(text=value)) for (name, _, value), word in parts]
    for name, value in given:
        if not changes_programs(name) or _NOT_RUN.fullmatch(name):
            continue
        if value.unknown:
            yield Unknown(reason=f"a program may run what is only known later: {value.text}")
        if words := words_of(value.text):
            yield Command(argv=tuple(map(Word, words)), guard=True, loose=True)


def redefines(node: SimpleCommand) -> bool:
    """Tell whether a builtin changes what later words mean, or runs a command in a subscript."""
    program, texts = _builtin(node), [word.text for word in node.words[1:]]
    if program == "set" and any(text == "keyword" or _KEYWORDS.match(text) for text in texts):
        return True
    if program in _TESTS:
        named = (word for option, word in pairwise(node.words) if _takes_name(option))
        runs = any("$(" in each.text or "`" in each.text for each in _names(node))
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
    """Tell whether it may set one of these variables."""
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
    """Tell whether it is a builtin that evaluates its words as arithmetic."""
    if not isinstance(node, SimpleCommand):
        return False
    program = _builtin(node)
    return program == "let" or (program in _TESTS and any(True for _ in _names(node)))


def _names(node: SimpleCommand) -> Iterator[Word]:
    """Find the words of a test that may name a variable, whose subscript is evaluated."""
    words = node.words
    for at, word in enumerate(words[1:], 1):
        after = words[at + 1] if at + 1 < len(words) else Word("")
        if word.unknown and (word.split or after.unknown or "[" in after.text):
            yield word


def may_hold_code(node: Finding) -> bool:
    """Tell whether it gives a variable a value that arithmetic would run as a command."""
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
    """Name the builtin that a command runs, also behind `command` and `builtin`."""
    for word in node.words:
        if word.text not in _PREFIXES and word.text[:1] != "-":
            return word.text
    return ""


def _is_plain(value: Word) -> bool:
    """Tell whether it is surely not code; the name of a file may be some."""
    return value.number or (not value.pattern and _NO_CODE.fullmatch(value.text) is not None)
