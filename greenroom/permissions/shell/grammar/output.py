"""What commands print: numbers, names of files and the like, or any text.

What a command prints may become options of the next one, `sort $(cat list)`, and arithmetic runs the
commands in it. Numbers can do neither; names surely don't begin with a dash. Names of files that
lie on the disk are taken at their word: who can make a file called `-delete` could do more.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum

from greenroom.permissions.facts.word import Word, basename

__all__ = ["Output", "printed_by"]


class Output(IntEnum):
    """What may come out; the worst of several is the least."""

    TEXT = 0
    NAMES = 1
    NUMBERS = 2


_ONLY_DIGITS = re.compile(r"[0-9.]+")
_NAME = re.compile(r"[\w./~][\w./~:@+,=-]*")
_DATE_NUMBER = re.compile(r"\+(?:%[sYmdHMSNjuwy])+")
_DATE = re.compile(r"\+(?![-:])(?:%[YmdHMSFTNsjubBaAyIDRz]|[\w.:/_-])*")
_FLAGS = re.compile(r"-[A-Za-z0-9]+")
_FIND_ACTS = re.compile(r"-(?:printf|fprint.*|f?ls|exec.*|ok.*|files0-from)")
_NAMING = frozenset({"--files", "--files-with-matches"})
_GIT_FORMAT = re.compile(
    r"--(?:format|pretty)=(?:format:)?%[hH](?:[~^][0-9]*)?|-n|-?[0-9]+|-[0-9]+|HEAD[~^0-9]*"
)
_GIT_NAMES = {
    "ls-files": re.compile(r"(?!-).*|-[cmodz]+|--(?:others|cached|exclude-standard|modified)|--"),
    "diff": re.compile(r"--name-only|--cached|--staged|--diff-filter=\w+|--|(?!-).*"),
    "merge-base": _NAME,
    "describe": re.compile(r"--(?:tags|always|abbrev=\d+)|(?!-).*"),
    "rev-parse": re.compile(r"--(?:short|abbrev-ref|show-toplevel|verify)|HEAD|[\w/]+"),
    "branch": re.compile(r"--show-current"),
    "log": _GIT_FORMAT,
    "rev-list": re.compile(r"--count|--max-count=\d+|[\w./]+"),
}


def printed_by(words: Sequence[Word], source: Output) -> Output:
    """Say what a command prints, given what its standard input brings.

    Example:
        >>> printed_by([Word("wc"), Word("-l")], Output.TEXT).name
        'NUMBERS'
        >>> printed_by([Word("sort"), Word("-u")], Output.NAMES).name
        'NAMES'
    """
    if not words or any(word.dynamic for word in words):
        return Output.TEXT
    name = basename(words[0].text)
    rest = [word.text for word in words[1:]]
    if name in _PASSES_ON and _PASSES_ON[name](rest):
        return source
    known = _PRINTS.get(name)
    return known(rest) if known else Output.TEXT


def _echoed(words: Sequence[str]) -> Output:
    if words[:1] == ["-n"]:
        words = words[1:]
    if all(_ONLY_DIGITS.fullmatch(word) for word in words):
        return Output.NUMBERS
    return _names_if(all(_NAME.fullmatch(word) for word in words))


def _names_if(sure: bool) -> Output:
    return Output.NAMES if sure else Output.TEXT


def _numbers_if(sure: bool) -> Output:
    return Output.NUMBERS if sure else Output.TEXT


def _dated(words: Sequence[str]) -> Output:
    if words and all(_DATE_NUMBER.fullmatch(word) or word == "-u" for word in words):
        return Output.NUMBERS
    return _names_if(all(_DATE.fullmatch(word) or word == "-u" for word in words))


def _git(words: Sequence[str]) -> Output:
    allowed = _GIT_NAMES.get(words[0]) if words else None
    if allowed is None or not all(allowed.fullmatch(word) for word in words[1:]):
        return Output.TEXT
    if words[0] == "rev-list":
        return _numbers_if("--count" in words)
    needed = {"diff": "--name-only", "branch": "--show-current", "log": "="}.get(words[0], "")
    return _names_if(any(needed in word for word in words[1:]) or not needed)


def _found(words: Sequence[str]) -> Output:
    return _names_if(not any(_FIND_ACTS.fullmatch(word) for word in words) and bool(words))


def _listed(words: Sequence[str]) -> Output:
    return _names_if(
        all(not word.startswith("-") or set(word) <= set("-1aAdtrR") for word in words)
    )


def _with_names(words: Sequence[str]) -> Output:
    """Judge grep and rg: with -l they print names of files."""
    flags = "".join("-l" if word in _NAMING else word for word in words if word[:1] == "-")
    return _names_if("--" not in flags and "l" in flags and "e" not in flags)


_PRINTS: Mapping[str, Callable[[Sequence[str]], Output]] = {
    "wc": lambda words: _numbers_if(all(re.fullmatch("-[clmwL]+", word) for word in words)),
    "nproc": lambda words: _numbers_if(not words),
    "seq": lambda words: _numbers_if(all(_ONLY_DIGITS.fullmatch(word) for word in words)),
    "id": lambda words: _numbers_if(words in (["-u"], ["-g"])),
    "date": _dated,
    "echo": _echoed,
    "git": _git,
    "find": _found,
    "ls": _listed,
    "grep": _with_names,
    "rg": _with_names,
    "which": lambda words: _names_if(all(_NAME.fullmatch(word) for word in words)),
    "realpath": lambda words: _names_if(all(_NAME.fullmatch(word) for word in words)),
    "dirname": lambda words: _names_if(len(words) == 1 and _NAME.fullmatch(words[0]) is not None),
    "pwd": lambda words: _names_if(not words),
    "whoami": lambda words: _names_if(not words),
    "hostname": lambda words: _names_if(not words),
    "uname": lambda words: _names_if(all(_FLAGS.fullmatch(word) for word in words)),
}


def _grep_passes(words: Sequence[str]) -> bool:
    """Judge grep with one operand, so that it reads its standard input."""
    return sum(not word.startswith("-") for word in words) == 1 and all(
        re.fullmatch(r"-[viExFGPqwn]+", word) or not word.startswith("-") for word in words
    )


# Filters that print lines which they were given, unchanged.
_PASSES_ON: Mapping[str, Callable[[Sequence[str]], bool]] = {
    "sort": lambda words: all(re.fullmatch(r"-[bdfhnruVz]+", word) for word in words),
    "uniq": lambda words: all(re.fullmatch(r"-[du]", word) for word in words),
    "head": lambda words: all(re.fullmatch(r"-n|-?[0-9]+|-n[0-9]+", word) for word in words),
    "tail": lambda words: all(re.fullmatch(r"-n|[-+]?[0-9]+|-n[0-9]+", word) for word in words),
    "grep": _grep_passes,
    "cat": lambda words: not words,
    "tac": lambda words: not words,
    "shuf": lambda words: not words,
}
