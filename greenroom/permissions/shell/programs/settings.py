"""Settings among the words of make, some of which run commands.

`make 'X!=id'` runs `id` whatever the makefile says, and `make SHELL:=./x` runs all that it does say
with another program.
"""

import re
from collections.abc import Iterator, Sequence

from greenroom.permissions.facts.word import Word

__all__ = ["make_settings"]

_SETTING = re.compile(r"([^\s:?+!=]*)\s*(?::{1,3}|\?|\+|!)?=")
_RUNS = re.compile(r"[^\s=]*\s*!=")
_FUNCTION = re.compile(r"\$[({]\s*(?:shell|eval|file|guile|load|call)\b")
_PROGRAMS = frozenset(
    {"SHELL", ".SHELLFLAGS", "MAKE", "MAKEFLAGS", "MAKEFILES", "GNUMAKEFLAGS", "MFLAGS"}
)


def make_settings(argv: Sequence[Word]) -> Iterator[tuple[int, str]]:
    """Find the settings that run a command, or say what runs commands.

    Example:
        >>> words = [Word("make"), Word("V=1"), Word("X!=id"), Word("Y=$(shell id)")]
        >>> [at for at, _ in make_settings(words)]
        [2, 3]
    """
    for at, word in enumerate(argv[1:], 1):
        text = word.text.lstrip()  # two blanks side by side in an expression take long
        found = _SETTING.match(text)
        if not found or word.text.startswith("-"):
            continue
        is_run = _RUNS.match(text) or "$" in word.shape or _FUNCTION.search(word.text)
        if is_run or found[1] in _PROGRAMS:
            yield at, f"{word.text[:40]} lets make run programs"
