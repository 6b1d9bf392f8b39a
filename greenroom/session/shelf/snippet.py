"""A text that is looked for, and what stands around it where it is found."""

_AROUND = 40  # letters of a snippet on either side of what was found


class Pattern:
    """A text to look for, whatever the case of its letters.

    Example:
        >>> Pattern("straße").snippet("In der STRASSE brennt Licht.")
        'In der STRASSE brennt Licht.'
        >>> Pattern("straße").snippet("In der Gasse brennt Licht.") is None
        True
    """

    def __init__(self, text: str) -> None:
        """Look for this text.

        Raises:
            ValueError: it is empty.
        """
        if not text.strip():
            raise ValueError("there is no text to look for")
        self._folded = text.casefold()

    def snippet(self, text: str) -> str | None:
        """Return the words around the first place where it stands, in one line; None if nowhere."""
        folded = text.casefold()
        found = folded.find(self._folded)
        if found < 0:
            return None
        start, stop = found, found + len(self._folded)
        if len(folded) != len(text):  # some letters fold to several
            start, stop = _unfolded(text, start, stop)
        before = text[max(start - _AROUND, 0) : start]
        after = text[stop : stop + _AROUND]
        head = "…" if start > _AROUND else ""
        tail = "…" if stop + _AROUND < len(text) else ""
        return head + " ".join(f"{before}{text[start:stop]}{after}".split()) + tail


def _unfolded(text: str, start: int, stop: int) -> tuple[int, int]:
    """Return where in a text the part begins and ends that has this place in its folded form."""
    begin, at = 0, 0
    for place, letter in enumerate(text):
        if at <= start:
            begin = place
        if at >= stop:
            return begin, place
        at += len(letter.casefold())
    return begin, len(text)
