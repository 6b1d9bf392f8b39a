"""The text of a reply while it comes: what may be shown of it before it is known what it comes to."""

from greenroom.planning.parse_action import EVENT, open_mark, thought_end

_LOOKAHEAD = 60
"""How many characters are held back, since a label may begin in them that has not ended yet."""

_CONTEXT = 8  # characters before that say whether a label may stand here


class LiveText:
    r"""Gives of each piece of a reply what is said before its action, and what is its answer.

    What is said comes a few words late. Where something may be an action, it is held back, and what
    follows it too.

    Example:
        >>> live = LiveText()
        >>> live.add("I add them. Action: {"), live.add('"tool": "add"')
        (('I add them.', ''), ('', ''))
        >>> live = LiveText()
        >>> live.add("I know it.\nFinal Answer: 3"), live.add(" or 4")
        (('I know it.\n', '3'), ('', ' or 4'))
    """

    def __init__(self) -> None:
        """Begin a reply."""
        self._text = ""  # what was not shown yet, and a little before
        self._position = 0
        self._mode = "said"  # or "held", "answer"
        self._until = EVENT  # or the end of thoughts
        self._mark: str | None = None  # what the label has opened; None once the answer has begun

    def add(self, piece: str) -> tuple[str, str]:
        """Take the next piece; return what can be shown now as said before, and as the answer."""
        if self._mode == "held":
            return "", ""
        self._text += piece
        said = self._advance() if self._mode == "said" else ""
        return said, self._take_answer() if self._mode == "answer" else ""

    def rest(self) -> str:
        """Return what was held back of a reply that has ended and was said as a whole."""
        return self._text[self._position :] if self._mode == "said" and self._until is EVENT else ""

    def _advance(self) -> str:
        """Show all that is before an event, or before what may become one."""
        said, at = "", self._position
        while found := self._until.search(self._text, at):
            at = found.end()
            if self._until is not EVENT:
                self._until, self._position = EVENT, at
            elif found.lastgroup not in {"observation", "mention"}:
                said += self._text[self._position : found.start()]
                self._position = at
                if found.lastgroup != "think":
                    self._mode = "answer" if found.lastgroup == "final" else "held"
                    self._mark = open_mark(found[0])
                    return said
                self._until = thought_end(found)
        end = max(self._position, len(self._text) - _LOOKAHEAD)
        if self._until is EVENT:
            said += self._text[self._position : end]
        begin = max(0, end - _CONTEXT)
        self._text, self._position = self._text[begin:], end - begin
        return said

    def _take_answer(self) -> str:
        text = self._text[self._position :]
        self._text, self._position = "", 0
        if self._mark is None:
            return text
        text = text.lstrip()
        if self._mark.startswith(text):
            self._text = text  # nothing yet, or a mark that closes what the label has opened
            return ""
        text, self._mark = text.removeprefix(self._mark).lstrip(), None
        return text
