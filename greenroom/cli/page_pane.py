"""A text on the alternate screen, which a person scrolls through: all that was folded."""

from collections.abc import Callable

from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from greenroom.cli.question_pane import fold

PAGE_KEYS = "Esc, Ctrl-O: back · ↑ ↓ PgUp PgDn Home End: scroll"
_ALL = 1_000_000_000


class PagePane:
    """A text and the rows of it that are in sight, the last ones at first."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._rows = list[StyleAndTextTuples]()
        self._columns = 0
        self._height = 0
        self._below = 0  # rows below those in sight

    def fit(self, columns: int, lines: int) -> list[StyleAndTextTuples]:
        """Return the rows in sight, in so many columns and lines."""
        if columns != self._columns:
            self._rows, self._columns = fold(self.text, columns), columns
        self._height = max(lines, 1)
        self._below = min(self._below, max(len(self._rows) - self._height, 0))
        end = len(self._rows) - self._below
        return self._rows[max(end - self._height, 0) : end]

    def scroll(self, rows: int) -> None:
        """Go so many rows up, or down where it is negative."""
        self._below = max(self._below + rows, 0)

    def turn(self, pages: int) -> None:
        """Go so many pages up, or down where it is negative."""
        self.scroll(pages * max(self._height - 1, 1))


def bind_page_keys(keys: KeyBindings, page: Callable[[], PagePane | None]) -> None:
    """Bind the keys that scroll, while there is a page; others that are text do nothing then."""

    def scroll(move: Callable[[PagePane], None]) -> Callable[[KeyPressEvent], None]:
        def press(event: KeyPressEvent) -> None:
            if (shown := page()) is not None:
                move(shown)

        return press

    is_open = Condition(lambda: page() is not None)
    for names, move in (
        ((Keys.Any,), lambda shown: None),
        (("up",), lambda shown: shown.scroll(1)),
        (("down",), lambda shown: shown.scroll(-1)),
        (("pageup", "b"), lambda shown: shown.turn(1)),
        (("pagedown", " "), lambda shown: shown.turn(-1)),
        (("home",), lambda shown: shown.scroll(_ALL)),
        (("end",), lambda shown: shown.scroll(-_ALL)),
    ):
        for name in names:
            keys.add(name, filter=is_open, eager=True)(scroll(move))
