"""Words: the name of a program, the words of a text that it may run, and the names in a word.

Whether some words are a command that was named in another way: a program may be named by its path
or in another case, and its options may stand anywhere among its words, in clusters, abbreviated or
spelled out. Doubts count as the same command.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from urllib.parse import unquote

_QUOTES = re.compile(r"[\"'\\]")
_CLUSTER = re.compile(r"(?<!\S)-[A-Za-z][\w./]+")
_MOST_LETTERS = 3  # of options in front of a value
_BETWEEN = re.compile(r"[\s;&|()<>`$={},!]+")
_LEFT_OUT = re.compile(r"--(?:exclude|exclude-dir|hide|ignore)=")
_BEHIND = re.compile(r"[=@<,]|:(?!//)")
_ENDS = re.compile(r"[:;,\"]")
_SIGNS = re.compile(r'[=@<,:;"]')
_PATH_BEGINS = re.compile(r"[./~]")
_FILE_URL = re.compile("file:", re.IGNORECASE)
MAX_PARTS = 8  # of a word, each behind a sign
MAX_LETTERS = 16  # of options in one word


def basename(program: str) -> str:
    """Name a program without its folder."""
    return program.rpartition("/")[2]


def extract_words(text: str) -> tuple[str, ...]:
    """Split a text that may be run into words, whatever separates them.

    A value that is attached to options, as in `su -c'rm x'`, counts as words as well.

    Example:
        >>> extract_words("ls;$(r'm' -r x)"), extract_words("su -c'rm x'")
        (('ls', 'rm', '-r', 'x'), ('su', '-crm', 'rm', 'm', 'x'))
    """
    text = _CLUSTER.sub(_detach, _QUOTES.sub("", text))
    return tuple(word for word in _BETWEEN.split(text) if word)


def _detach(cluster: re.Match[str]) -> str:
    """Add to a word with options what may be the value of the first of them, or of the next."""
    word = cluster[0]
    last = min(len(word), 2 + _MOST_LETTERS)
    return " ".join((word, *(word[at:] for at in range(2, last))))


def split_names(text: str) -> Iterator[str]:
    """Split a word wherever the name of a file may begin.

    Example:
        >>> list(split_names("--out=a:b")), list(split_names("-vo./a"))
        (['a:b', 'a', 'b', 'b'], ['o./a', './a', './a'])
    """
    is_option = text.startswith("-")
    if is_option and _LEFT_OUT.match(text):
        return
    if not is_option:
        yield text
        yield text.partition(":")[0]
    elif not text.startswith("--") and text[2:] != "/":  # a separator, as in `cut -d/`
        letters = re.match("-[A-Za-z0-9]*", text)
        end = min(letters.end() if letters else 1, MAX_LETTERS)
        yield from (text[at:] for at in range(2, end + 1))
        if begins := _PATH_BEGINS.search(text):
            yield text[begins.start() :]
    for mark in islice(_BEHIND.finditer(text), MAX_PARTS):
        yield text[mark.end() :]
        yield _ENDS.split(text[mark.end() :].lstrip('"'), maxsplit=1)[0]
    yield from _SIGNS.split(text)[MAX_PARTS + 1 :]
    if found := _FILE_URL.search(text):
        rest = unquote(re.split("[?#]", text[found.end() :], maxsplit=1)[0])
        local = rest.lstrip("/")
        yield from (rest, f"/{local}", f"/{local.partition('/')[2]}")


MAX_PLACES = 16  # where one program is looked for among the words
# Other spellings of the options that denials usually name.
_SPELLINGS = (
    *({"-r", "-R", "--recursive"}, {"-f", "--force"}, {"-i", "--in-place"}, {"-n", "--dry-run"}),
    *({"-o", "--output"}, {"-a", "--all"}, {"-d", "--delete"}, {"-D", "--delete"}),
)


def is_flag(word: str) -> bool:
    """Return whether a word is an option."""
    return len(word) > 1 and word.startswith("-")


def fold_program(program: str) -> str:
    """Name a program without its folder, in small letters."""
    return basename(program).casefold()


def resembles(argv: Sequence[str], prefix: Sequence[str]) -> bool:
    """Return whether a command begins with a prefix, in any spelling.

    The program may be named by its path or in another case; options may come before, between or
    after the words, apart or together, short or long.
    """
    if not argv or fold_program(argv[0]) != fold_program(prefix[0]):
        return False
    rest = argv[1:]
    flags = [each for each in prefix[1:] if is_flag(each)]
    words = [each for each in prefix[1:] if not is_flag(each)]
    return _has_words(rest, words) and _has_flags(rest, flags)


def _has_words(argv: Sequence[str], words: Sequence[str]) -> bool:
    """Look for the words in order, skipping options and one value of each."""
    places = {0}
    for wanted in words:
        reached, places = places, set()
        for at, word in enumerate(argv):
            if at in reached and word == wanted:
                places.add(at + 1)
            if at in reached and word.startswith(("-", "+")):
                reached.add(at + 1)
                if "=" not in word and is_flag(word):
                    reached.add(at + 2)
    return bool(places)


def _has_flags(argv: Sequence[str], flags: Sequence[str]) -> bool:
    ends = next((at for at, word in enumerate(argv) if word == "--"), len(argv))
    wanted = [option for flag in flags for option in _single_flags(flag)]
    return all(any(turns_on(word, option) for word in argv[:ends]) for option in wanted)


def _single_flags(flag: str) -> list[str]:
    """Split a cluster such as -rf; a longer word such as -exec stays whole."""
    if flag.startswith("--") or len(flag) == 2 or len(flag) > 4 or not flag[1:].isalpha():
        return [flag]
    return [f"-{letter}" for letter in flag[1:]]


def turns_on(word: str, option: str) -> bool:
    """Return whether a word turns on an option: alone, clustered, abbreviated or with a value."""
    name = word.partition("=")[0]
    letters = "" if word[:2] == "--" or word[:1] != "-" else word
    return any(
        each in (word, name)
        or (each.startswith("--") and len(name) > 3 and each.startswith(name))
        or (len(each) == 2 and each != "--" and each[1] in letters)
        for each in {option}.union(*(group for group in _SPELLINGS if option in group))
    )


def occurs_in(words: Sequence[str], prefix: Sequence[str]) -> bool:
    """Return whether a command with this prefix occurs anywhere among the words, in any spelling.

    If the program is named very often, the answer is yes without a closer look.

    Example:
        >>> occurs_in("a b git -C x push c".split(), ["git", "push"])
        True
    """
    program = fold_program(prefix[0])
    places = [at for at, word in enumerate(words) if fold_program(word) == program]
    if len(places) > MAX_PLACES:
        return True
    return any(resembles(words[at:], prefix) for at in places)
