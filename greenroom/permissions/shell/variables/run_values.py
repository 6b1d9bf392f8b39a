"""Variables whose values programs run as commands, such as `PAGER`, and what these may be."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from greenroom.permissions.facts.word import Word, basename
from greenroom.permissions.shell.variables.assignments import changes_programs
from greenroom.permissions.shell.variables.bindings import Bindings
from greenroom.permissions.shell.variables.substituted import TooManyValuesError, substituted

__all__ = ["declared", "is_run", "run_values"]

MAX_VALUES = 16  # of one variable, each written out; of more only the parts are looked at
MAX_LENGTH = 4096  # of each
# Variables that say where something is found, or who did it, and not what is run.
_PLACES = re.compile(r"IFS|HOME|TMPDIR|[A-Z_]*PATH|GIT_(?:AUTHOR|COMMITTER)_\w+|GIT_\w*DIR\w*")
_RUN = re.compile(
    r"BROWSER|PS[0-4]|[A-Z]+_SHELL|[A-Z_]*(?:ASKPASS|RSH|WRAPPER|RUNNER|LINKER|VISUAL)|PERL5DB"
    r"|npm_config_.*"
)
_DECLARERS = frozenset({"declare", "export", "local", "readonly", "typeset"})


def is_run(name: str) -> bool:
    """Tell whether programs take the value of this variable for a command, or look for one in it.

    Example:
        >>> is_run("GIT_PAGER"), is_run("LESSOPEN"), is_run("PATH"), is_run("MESSAGE")
        (True, True, False, False)
    """
    if _PLACES.fullmatch(name):
        return False
    return changes_programs(name) or _RUN.fullmatch(name) is not None


def run_values(name: str, value: Word, bindings: Bindings) -> Iterator[str]:
    """Say what programs may run if a variable has this value; nothing if they run none of it."""
    if not is_run(name):
        return
    texts = [value.text]
    told = substituted((value,), bindings.values, lambda length: length < MAX_LENGTH)
    try:
        texts += [" ".join(word.text for word in each) for each in islice(told, MAX_VALUES + 1)]
    except TooManyValuesError:
        texts += bindings.texts()
    if len(texts) > MAX_VALUES + 1:
        texts += bindings.texts()
    # less, git and others take a mark before it.
    yield from dict.fromkeys(text.lstrip("|!-@+ ") for text in texts)


def declared(argv: Sequence[Word]) -> Iterator[tuple[str, Word]]:
    """Find the variables that a builtin sets, and their values."""
    if basename(argv[0].text) in _DECLARERS:
        for word in argv[1:]:
            name, equals, value = word.text.partition("=")
            if equals:
                yield name, Word(value, word.dynamic, quoted=True)
