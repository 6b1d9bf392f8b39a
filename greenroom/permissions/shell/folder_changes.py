"""Commands that change the folder of those behind them."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from greenroom.permissions.facts.place import Place
from greenroom.permissions.facts.word import Word, basename
from greenroom.permissions.shell.variables.bindings import Bindings
from greenroom.permissions.shell.variables.substituted import TooManyValuesError, substituted

__all__ = ["FOLDER_CHANGES", "moved"]

FOLDER_CHANGES = frozenset({"cd", "pushd", "popd", "chdir"})
MAX_FOLDERS = 8  # that one change of folder may lead to
MAX_TOLD = 4096
_PLAIN_FOLDER = re.compile(r"[^-+~]|~/|~$")


def moved(place: Place, words: Sequence[Word], bindings: Bindings) -> Place:
    """Return the place after such a command, which may or may not take effect."""
    operands = [word for word in words[1:] if not re.fullmatch(r"-[LPe@]+|--", word.text)]
    target = operands[0] if len(operands) == 1 else None
    if target is not None and target.static and _PLAIN_FOLDER.match(target.text):
        return place.moved(target.text)
    if basename(words[0].text) == "cd" and not operands:
        return place.moved("~")
    for folder in islice(_told(target, bindings), MAX_FOLDERS):
        place = place.moved(folder)
    return place.lose()


def _told(word: Word | None, bindings: Bindings) -> Iterator[str]:
    """Say what a word may be with the values that its variables may have."""
    if word is not None:
        told = substituted((word,), bindings.values, lambda length: length < MAX_TOLD)
        try:
            yield from (each.text for (each, *_) in filter(None, told) if each.static)
        except TooManyValuesError:
            return
