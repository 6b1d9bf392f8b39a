"""Verbs: how many of the first words of a command say what it does, as in `npm run build`.

The table `verbs.txt` has the programs and verbs of which that is known, the verbs that may do harm,
and the programs whose first words never say enough.
"""

import re
from collections.abc import Callable, Collection, Sequence
from fnmatch import fnmatchcase

from greenroom.programs.invocation import PROGRAMS, RUNNERS, SHELLS
from greenroom.programs.tables import read_titles
from greenroom.programs.words import basename

VERBS = read_titles("verbs.txt")
"""Programs and verbs by the titles of their rows, which the table explains."""

FIRST_WORDS = {
    (*title.split()[1:], word)
    for title, words in VERBS.items()
    if title.split()[0] == "prefix"
    for word in words
}
"""The first words that say what a command does, such as ("npm", "run", "*")."""

_LISTED = {row[0] for row in FIRST_WORDS}
_GROUPS = {row[:-1] for row in FIRST_WORDS} | {(each,) for each in RUNNERS}
_EXACT = {*SHELLS, *PROGRAMS, *VERBS["exact"], *VERBS["interpreters"]}
# How the words of an interpreter begin if they name a program, so that it does not run its input.
_NAMES_PROGRAM = re.compile(
    r"(?:-[BbEIOPSsu]+\0)*(?!/dev/|/proc/)"
    r"(?:[^-\0]|-[A-Za-z]*[cemrpE]\0.|--(?:eval|print|test)\b|(?:-v|-V|--version)\Z)"
)
_VERB = re.compile(r"[a-z]+(?:-[a-z]+)*")
_NAME = re.compile(r"[a-z][A-Za-z0-9:_-]*")  # such as that of a script in package.json


def count_first_words(words: Sequence[str], exists: Callable[[str], bool]) -> int:
    """Count the first words that say what a command does; 0 if it takes all of them.

    Args:
        words: the command, its program by its usual name.
        exists: whether there is a file of this name, so that it may be no verb.

    Example:
        >>> [count_first_words(text.split(), exists={"a"}.__contains__) for text in (
        ...     "npm run build --x", "pytest -q", "frob check b", "frob a", "bash x")]
        [3, 1, 2, 0, 0]
    """
    if words[0] in _LISTED:
        return _count_row_words(words, FIRST_WORDS)
    name, verb, further = (basename(words[0]), *words[1:3], "", "")[:3]
    is_exact = name[:1] in ("", "-") or {name, name_program(name)} & _EXACT
    is_verb = _VERB.fullmatch(verb) and all(map(_is_harmless, (name, verb, further)))
    if is_exact or not is_verb or "-c" in words or exists(verb):
        return 0
    return 3 if further in VERBS["actions"] else 2  # the verb is one of a group


def count_verb_words(words: Sequence[str]) -> int:
    """Count the words that name a program and its verb; 0 for a program without known verbs.

    Example:
        >>> count_verb_words(["git", "push", "-f"]), count_verb_words(["ls", "-l"])
        (2, 0)
    """
    length = _count_row_words((name_program(words[0]), *words[1:]), _GROUPS)
    return length + 1 if length and _NAME.fullmatch("".join(words[length : length + 1])) else 0


def name_program(program: str) -> str:
    """Name a program without its folder, and an interpreter without its version.

    Example:
        >>> name_program("/usr/bin/python3.12"), name_program("md5sum")
        ('python', 'md5sum')
    """
    name = basename(program)
    short = name.rstrip("-.0123456789")
    return short if short == "pip" or short in VERBS["interpreters"] else name


def may_run_input(words: Sequence[str]) -> bool:
    """Return whether these words of an interpreter name no program, so that it may run its input.

    Example:
        >>> may_run_input(["python", "-u"]), may_run_input(["python", "-m", "pytest"])
        (True, False)
    """
    is_one = name_program(words[0]) in VERBS["interpreters"]
    return is_one and not _NAMES_PROGRAM.match("\0".join(words[1:]))


def _count_row_words(words: Sequence[str], rows: Collection[tuple[str, ...]]) -> int:
    """Return the length of the longest row that the words begin with; 0 if none fits."""
    fitting = (row for row in rows if len(row) <= len(words) and all(map(_fits, words, row)))
    return max(map(len, fitting), default=0)


def _fits(word: str, pattern: str) -> bool:
    if "*" not in pattern:
        return word == pattern
    return bool(_NAME.fullmatch(word)) and _is_harmless(word) and fnmatchcase(word, pattern)


def _is_harmless(verb: str) -> bool:
    """Return whether a verb does not say that it publishes, destroys or runs something.

    Example:
        >>> _is_harmless("list"), _is_harmless("deploy-docs")
        (True, False)
    """
    return VERBS["verbs"].isdisjoint(re.split(r"[^a-z0-9]", verb))
