"""What programs reach that no word has to name: hosts, folders as a whole, files of their own.

The table `reach.txt` says which programs do so, and with which options. Doubts count: an unknown
program may have any option, and a word that may be a folder is one.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from greenroom.programs.invocation import PROGRAMS, Invocation, read_invocation
from greenroom.programs.tables import read_titles
from greenroom.programs.words import basename

REACH = read_titles("reach.txt")
"""Programs, verbs, options and files by the titles of their rows, which the table explains."""

_RECURSIVE = re.compile(r"-[A-Za-z0-9]*[rRd]|--(?:deref|rec|dir)")
_INTO = re.compile(r"-[A-Za-z]*t|--t")
_FOLLOWS = re.compile(r"-[A-Za-z0-9]*[RLhH]|--(?:deref|follow|copy-)")
_SKIPS_HIDDEN = frozenset({"rg", "ag"})
_SHOWS_HIDDEN = re.compile(r"-[A-Za-z0-9]*[u.]|--(?:hid|unr)")
# Programs whose options that leave files out mean what is read from them here.
_CHOOSY = re.compile(r"(rg|[efr]?grep)|ag|rsync|diff|tar")
_LIKE_GREP = frozenset({"egrep", "fgrep", "rgrep"})
_CHOICE = re.compile(r"--(include|exclude-dir|exclude|ignore-dir|ignore|i?glob)|-g")

_LOOKING = frozenset({"--include", "--glob", "--iglob", "-g"})  # of grep and rg
_LOOKS_FOR = re.compile(r"--(?:include|i?glob)=|-g(?!\Z)")


def list_default_names(argv: Sequence[str]) -> frozenset[str] | None:
    """List the names of files that a command reads without being told, wherever they lie.

    They may lie in the current folder, in those that words name, and in those above. None if it is
    not known what the program reads.

    Example:
        >>> sorted(list_default_names(["go", "vet"])), list_default_names(["ls"])
        (['go.mod', 'go.sum', 'go.work'], frozenset())
        >>> list_default_names(["python", "a.py"])
    """
    # A program may run another one, as in `npx tsc` and `python -m pytest`.
    names = frozenset[str]().union(*(REACH[f"reads {basename(word)}"] for word in argv))
    program = basename(argv[0])
    is_known = program in PROGRAMS and program not in REACH["more"]
    return names if names or is_known else None


def uses_option(invocation: Invocation, options: Iterable[str]) -> bool:
    """Return whether a command has one of these options; of an unknown program, any letter is."""
    words = invocation.argv[1:]
    given = {part.option for part in invocation.parts} or {
        f"-{letter}" for word in words if re.match("-[^-]", word) for letter in word
    }
    long = {word.partition("=")[0] for word in words if re.match("--[a-z0-9]{3}", word)}
    return any(
        each in given or any(map(each.startswith, long - {"--file", "--from"})) for each in options
    )


def list_folders(invocation: Invocation, exists: Callable[[str], bool]) -> Sequence[str]:
    """List the words that name folders whose files a command reads.

    Args:
        invocation: the command.
        exists: whether there is a file of this name.

    Example:
        >>> from greenroom.programs.invocation import read_invocation
        >>> [list_folders(read_invocation(text.split()), {"tmp"}.__contains__) for text in (
        ...     "grep -r x", "grep -rn x tmp", "cp -r etc tmp", "ls")]
        [['.'], ['tmp'], ['etc'], ()]
    """
    argv, parts, name = invocation.argv, invocation.parts, invocation.name
    is_module = name.startswith("python") and REACH["folders python"].intersection(argv)
    if is_module or name in REACH["folders"]:
        reads_here = name == "zip" and any(re.match("-[A-Za-z]*R", word) for word in argv)
        return (*argv[1:], ".") if is_module or reads_here else argv[1:]
    operands = [argv[part.at] for part in parts if not part.option]
    if not parts:
        operands = [word for word in argv[1:] if not word.startswith("-")]
    if name in REACH["folders first"]:
        is_into = len(operands) < 2 or any(map(_INTO.match, argv[1:]))
        return argv[1:] if is_into else operands[:-1]
    if name in REACH["folders deep"]:
        return operands if any(map(_RECURSIVE.match, argv[1:])) else ()
    reads_here = name in REACH["folders here"]
    if not reads_here and name not in REACH["folders recursive"]:
        return ()
    there = list(filter(exists, operands))
    is_pattern = there == operands[:1] and not any("$" in part.marks for part in parts)
    if (there and not is_pattern) or not (reads_here or any(map(_RECURSIVE.match, argv[1:]))):
        return there
    return [*there, "."]


def list_sought(words: Sequence[str]) -> Iterator[str]:
    """List the patterns of names that a program such as `rg` looks for.

    Example:
        >>> list(list_sought(["-g", "*.py", "--include=*.md", "x"]))
        ['*.py', '*.md']
    """
    for before, word in pairwise(("", *words)):
        option = _LOOKS_FOR.match(word)
        if option or before in _LOOKING:
            yield word[option.end() :] if option else word


class FileChoice(NamedTuple):
    """Which of the files in a folder a program reads.

    Attributes:
        follows_links: whether it follows links that lie there.
        shows_hidden: whether hidden files are among them.
        only: if there are any, patterns that their names have to match.
        files: patterns of names of files that are left out.
        folders: patterns of names of folders that are left out.
    """

    follows_links: bool
    shows_hidden: bool
    only: Sequence[str] = ()
    files: Sequence[str] = ()
    folders: Sequence[str] = ()

    @classmethod
    def of(cls, invocation: Invocation) -> "FileChoice":
        """Find out which files the options of a command choose.

        What may be the value of another option chooses none, nor does any beside an unknown one.
        """
        words, name = invocation.argv[1:], invocation.name
        options = (*words, *(part.option for part in invocation.parts))
        follows = name in REACH["folders linked"] or any(map(_FOLLOWS.match, options))
        only, files, folders = list[str](), list[str](), list[str]()
        kind = _CHOOSY.fullmatch(name)
        as_read = read_invocation(("grep", *words)) if name in _LIKE_GREP else invocation
        parts = as_read.parts
        # In tar, options are about the names behind them.
        first = next((each.at for each in parts if not each.option), 0)
        end = first if name == "tar" else len(invocation.argv)
        given = [part for part in parts if part.option]
        # An option that is not known may change what the others mean, and so do rules of rsync.
        is_clear = all("." in each.marks and "a" not in each.marks for each in given)
        is_clear = is_clear and not (name == "rsync" and uses_option(as_read, ("-f", "--filter")))
        unclear = {part.at + 1 for part in given if part.may_take_next}
        for part in given if kind and is_clear else ():
            found, value = _CHOICE.fullmatch(part.option), part.value
            if not found or value is None or part.at >= end or part.at in unclear:
                continue
            option = found[1] or "glob"
            if option == "include" or ("glob" in option and value[:1] != "!"):
                only.append(value)
                continue
            value = value.removeprefix("!").removeprefix("**/").removesuffix("/**").rstrip("/")
            if "/" not in value:
                files += [value] * (option != "exclude-dir")
                folders += [value] * (option != "exclude" or "grep" not in name)
        shows = name not in _SKIPS_HIDDEN or bool(only) or any(map(_SHOWS_HIDDEN.match, words))
        if only and kind and not kind[1]:  # what comes first counts
            return cls(follows, shows)
        return cls(follows, shows, only, files, folders)
