"""Long pasted texts as one letter each of the input line, such as `[pasted 10,000 lines #1]`."""

from collections.abc import Iterator

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput

LONG_LINES, LONG_TEXT = 8, 2_000
"""The most lines, and the most letters, of a pasted text that stands in the line as it is."""

_FIRST = 0xF0000  # the first letter of a plane that no script has
_COUNT = 256  # chips that are remembered; the text of an older one is gone


class PasteChips:
    """The chips of an input line. Each is a letter that stands for its text wherever it goes.

    The last 256 are remembered; an older one stands for its label alone.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._labels: dict[str, str] = {}
        self._made = 0

    def make(self, text: str) -> str:
        r"""Return what to insert for a pasted text: a chip if it is long, else the text.

        Example:
            >>> chips = PasteChips()
            >>> chips.make("short"), chips.show(chips.make("long\n" * 9))
            ('short', '[pasted 9 lines #1]')
        """
        text = self._without_chips(text)
        lines = text.count("\n") + (not text.endswith("\n"))
        if lines <= LONG_LINES and len(text) <= LONG_TEXT:
            return text
        chip = chr(_FIRST + self._made % _COUNT)
        self._made += 1
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} letters"
        self._texts[chip], self._labels[chip] = text, f"[pasted {size} #{self._made}]"
        return chip

    def expand(self, text: str) -> str:
        """Put the texts in place of the chips."""
        return "".join(self._texts.get(letter, letter) for letter in text)

    def show(self, text: str) -> str:
        """Put the labels in place of the chips."""
        return "".join(self._labels.get(letter, letter) for letter in text)

    def label(self, letter: str) -> str:
        """Return the label of a chip; empty for any other letter."""
        return self._labels.get(letter, "")

    def _without_chips(self, text: str) -> str:
        """Replace letters that mean a chip here, and came from elsewhere."""
        for chip in self._texts.keys() & set(text):
            text = text.replace(chip, "\N{REPLACEMENT CHARACTER}")
        return text


class ShowChips(Processor):
    """Draws the chips of a line by their labels."""

    def __init__(self, chips: PasteChips) -> None:
        self._chips = chips

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """Draw one line."""
        fragments, places = StyleAndTextTuples(), [0]
        for style, letter in _letters(transformation_input):
            label = self._chips.label(letter)
            fragments.append((f"{style} class:chip", label) if label else (style, letter))
            places.append(places[-1] + len(label or letter))
        if places[-1] == len(places) - 1:
            return Transformation(transformation_input.fragments)
        return Transformation(
            fragments,
            source_to_display=lambda at: places[min(at, len(places) - 1)],
            display_to_source=lambda at: sum(place <= at for place in places) - 1,
        )


def _letters(transformation_input: TransformationInput) -> Iterator[tuple[str, str]]:
    for style, text, *_ in transformation_input.fragments:
        for letter in text:
            yield style, letter
