"""Text that comes in pieces, however many there are."""

_PIECES = 1024


class GrowingText:
    """Text that grows at its end, and takes little more memory than its characters do.

    A list of a million pieces of a word each takes fifteen times as much as their text, and so does
    `io.StringIO` before Python 3.12, up to a point.

    Example:
        >>> text = GrowingText()
        >>> text.write("Hel")
        >>> text.write("lo")
        >>> text.getvalue()
        'Hello'
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self._text = ""
        self._pieces: list[str] = []

    def write(self, piece: str) -> None:
        """Add a piece at the end."""
        self._pieces.append(piece)
        if len(self._pieces) >= _PIECES:
            self._join()

    def getvalue(self) -> str:
        """Return the text so far."""
        self._join()
        return self._text

    def _join(self) -> None:
        # With no other reference to it, CPython lets a text grow where it is, without a copy.
        text, self._text = self._text, ""
        text += "".join(self._pieces)
        self._text = text
        self._pieces.clear()
