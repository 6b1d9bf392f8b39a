"""Which sessions stand in the list, and which of them is in hand."""

from collections.abc import Sequence

from greenroom.cli.picker.entry import Entry


class Choice:
    """A list of sessions, narrowed by words and by folder, with a cursor in it. It draws nothing.

    At first it holds the sessions of the working directory, or where there are none, all.

    Example:
        >>> choice = Choice([])
        >>> choice.current is None
        True
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        """Choose among these, in this order."""
        self._all = [(entry, _searched(entry)) for entry in entries]
        self._here = [pair for pair in self._all if pair[0].is_here]
        self._words: list[str] = []
        self.is_everywhere = not self._here
        self.shown: Sequence[Entry] = ()
        self.cursor = 0
        self._narrow()

    @property
    def current(self) -> Entry | None:
        """The session in hand; None where none fits the words."""
        return self.shown[self.cursor] if self.shown else None

    @property
    def total(self) -> int:
        """How many there are without the words."""
        return len(self._scope)

    def search(self, text: str) -> None:
        """Keep those whose title or id holds each of these words; the first of them is in hand."""
        self._words = text.casefold().split()
        self._narrow()
        self.cursor = 0

    def toggle(self) -> None:
        """Go from this folder to all folders, or back; the session in hand stays, if it is there."""
        current = self.current
        self.is_everywhere = not self.is_everywhere
        self._narrow()
        self.cursor = self.shown.index(current) if current in self.shown else 0

    def move(self, by: int) -> None:
        """Move the cursor down, or with a negative number up, as far as there are rows."""
        self.cursor = max(min(self.cursor + by, len(self.shown) - 1), 0)

    @property
    def _scope(self) -> Sequence[tuple[Entry, str]]:
        return self._all if self.is_everywhere else self._here

    def _narrow(self) -> None:
        words = self._words
        self.shown = [entry for entry, text in self._scope if all(word in text for word in words)]


def _searched(entry: Entry) -> str:
    return f"{entry.title} {entry.session_id}".casefold()
