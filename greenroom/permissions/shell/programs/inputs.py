"""What find and xargs put into the words of the commands that they run."""

from collections.abc import Iterator, Sequence

from greenroom.permissions.facts.word import Piece, Word

__all__ = ["FROM_INPUT", "find_actions", "with_input"]

FROM_INPUT = Word("…", dynamic=True, split=True)
"""Words of whatever the standard input will bring."""

_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FILLED = Piece("{}", dynamic=True)


def with_input(word: Word) -> Word:
    """Mark a word into which a placeholder will be put."""
    if "{}" not in word.text:
        return word
    known = (Piece(each) for each in word.text.split("{}"))
    pieces = [part for each in known for part in (each, _FILLED)][:-1]
    return Word(word.text, dynamic=True, quoted=True, pieces=tuple(pieces))


def find_actions(argv: Sequence[Word]) -> Iterator[tuple[int, int]]:
    """Say where the commands of find begin, and where each of them ends.

    Example:
        >>> list(find_actions([Word(each) for each in "find . -exec rm {} ; -exec ls +".split()]))
        [(3, 5), (7, 9)]
    """
    at = 1
    while at < len(argv):
        if argv[at].text in _ACTIONS:
            begin = at + 1
            at = next((i for i in range(begin, len(argv)) if _ends_action(argv, i)), len(argv))
            yield begin, at
        at += 1


def _ends_action(argv: Sequence[Word], at: int) -> bool:
    """Tell whether an action of find ends here: at `;`, or at a `+` behind `{}`."""
    text = argv[at].text
    return text == ";" or (text == "+" and argv[at - 1].text == "{}")
