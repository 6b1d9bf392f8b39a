"""Words of programs that look for files in folders by themselves, and of those that leave some out.

The shell hands `find -name '.e*'` over as it stands, so its star is no pattern of the shell's; and
`grep -r x --exclude=.env .` names a file in order not to read it.
"""

import re
from collections.abc import Iterator, Sequence

from greenroom.permissions.facts.word import Word, basename

__all__ = ["left_out", "sought"]

_GREP, _TAKES = re.compile(r"--include=(.+)"), re.compile(r"--(?:glob|iglob)=(.+)|-g(.+)")
# Options whose value is a pattern of what is sought: attached to them, or in the next word.
_SOUGHT = {
    **dict.fromkeys(("grep", "egrep", "fgrep"), (_GREP, {"--include"})),
    "rg": (_TAKES, {"-g", "--glob", "--iglob"}),
    "find": (
        re.compile(r"(?!)"),
        {"-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename"},
    ),
}
# Options whose value is what is left out.
_LEFT_OUT = {
    **dict.fromkeys(("grep", "egrep", "fgrep"), ("--exclude", "--exclude-dir")),
    **dict.fromkeys(("diff", "du", "rsync", "tar"), ("--exclude",)),
    "ls": ("--hide", "--ignore"),
}
_STARS = re.compile(r"[*?\[]")


def sought(argv: Sequence[Word]) -> Iterator[str]:
    """Find the patterns that a program looks for, at any depth.

    Example:
        >>> list(sought([Word(each) for each in ("find", ".", "-name", ".e*")]))
        ['**/.e*']
    """
    program = basename(argv[0].text)
    if program == "git":
        ends = next((at for at, word in enumerate(argv) if word.text == "--"), len(argv))
        found = [word.text.removeprefix(":(glob)") for word in argv[ends + 1 :]]
    elif program in _SOUGHT:
        found = list(_values(argv, *_SOUGHT[program]))
    else:
        return
    for text in found:
        if _STARS.search(text) and not text.startswith("!"):
            yield f"**/{text.lstrip('./') if text[:2] in ('./', '*/') else text}"


def _values(argv: Sequence[Word], attached: re.Pattern[str], apart: set[str]) -> Iterator[str]:
    for at, word in enumerate(argv[1:], 1):
        if argv[at - 1].text in apart:
            yield word.text
        elif given := attached.fullmatch(word.text):
            yield next(filter(None, given.groups()))


def left_out(argv: Sequence[Word]) -> set[int]:
    """Find the words that only say what is left out.

    A value in a word of its own is not among them: whether it is one, and no file, can't be told
    without all the options of the program.

    Example:
        >>> sorted(left_out([Word(each) for each in ("ls", "--hide", "a", "--ignore=b", "c")]))
        [3]
    """
    options = _LEFT_OUT.get(basename(argv[0].text))
    if options is None:
        return set()
    told = (word.text.partition("=") for word in argv)
    return {at for at, (option, attached, _) in enumerate(told) if attached and option in options}
