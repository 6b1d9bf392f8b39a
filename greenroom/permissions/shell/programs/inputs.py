"""What find, xargs and parallel put into the words of the commands that they run."""

from collections.abc import Iterator, Sequence
from itertools import islice, product

from greenroom.permissions.facts.word import Opening, Word

__all__ = [
    "FROM_INPUT",
    "NAME_FROM_INPUT",
    "filled",
    "find_actions",
    "template",
    "with_input",
]

MAX_FILLED = 64  # commands that parallel makes of one row of words
# A word of whatever the standard input will bring.
FROM_INPUT = Word("…", dynamic=True, split=True, opening=Opening(printed=True, unsure=True))
NAME_FROM_INPUT = FROM_INPUT._replace(opening=Opening())
_FIND_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})


def with_input(word: Word) -> Word:
    """Mark a word into which a placeholder will be put."""
    if "{}" not in word.text:
        return word
    return Word(word.text, dynamic=True, quoted=True)


def find_actions(argv: Sequence[Word]) -> Iterator[tuple[int, int]]:
    """Say where the commands of find begin, and where each of them ends.

    Example:
        >>> list(find_actions([Word(each) for each in "find . -exec rm {} ; -exec ls +".split()]))
        [(3, 5), (7, 9)]
    """
    at = 1
    while at < len(argv):
        if argv[at].text in _FIND_ACTIONS:
            begin = at + 1
            at = next((i for i in range(begin, len(argv)) if _ends_action(argv, i)), len(argv))
            yield begin, at
        at += 1


def _ends_action(argv: Sequence[Word], at: int) -> bool:
    """Tell whether an action of find ends here: at `;`, or at a `+` behind `{}`."""
    text = argv[at].text
    return text == ";" or (text == "+" and argv[at - 1].text == "{}")


def template(words: Sequence[Word]) -> Sequence[Word]:
    """Take the command that parallel runs, before what it is given."""
    ends = (at for at, word in enumerate(words) if word.text.startswith(":::"))
    return words[: next(ends, len(words))]


def filled(words: Sequence[Word]) -> Iterator[tuple[Word, ...]] | None:
    """Write out what parallel runs with the words behind `:::`; None if that is too much.

    Example:
        >>> words = [Word(each) for each in "{2} -v {1} ::: a b ::: ls".split()]
        >>> [" ".join(word.text for word in each) for each in filled(words) or ()]
        ['ls -v a', 'ls -v b']
    """
    command = template(words)
    groups: list[list[Word]] = []
    for word in words[len(command) :]:
        if word.text.startswith(":::"):
            groups.append([])
        else:
            groups[-1].append(word)
    chosen = list(islice(product(*filter(None, groups)), MAX_FILLED + 1)) if groups else []
    if len(chosen) > MAX_FILLED or len(command) * len(chosen) > 16 * len(words):
        return None
    return (_filled(command, each) for each in chosen)


def _filled(command: Sequence[Word], given: Sequence[Word]) -> tuple[Word, ...]:
    values = {f"{{{number}}}": word.text for number, word in enumerate(given, 1)}
    values["{}"] = " ".join(word.text for word in given)
    found = tuple(_replaced(word, values) for word in command)
    return found if found != tuple(command) else (*found, *given)


def _replaced(word: Word, values: dict[str, str]) -> Word:
    text = word.text
    for mark, value in values.items():
        text = text.replace(mark, value)
    return word if text == word.text else Word(text, quoted=True)
