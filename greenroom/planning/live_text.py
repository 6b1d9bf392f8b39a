"""`LiveText`: what can be shown of a reply while it streams, before it can be parsed."""

from greenroom.planning.parse_action import EVENT, open_mark, thought_end

_LOOKAHEAD = 60
"""How many characters are held back, since they may be the beginning of a label."""

_CONTEXT = 8  # characters before that decide whether a label may begin here


class LiveText:
    r"""Splits the pieces of a streamed reply into the text before an action, and the answer.

    The text comes a few words late. Anything that may be an action is held back, with all that
    follows.

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
        self._text = ""  # what was not shown yet, after a little context
        self._position = 0
        self._mode = "said"  # or "held", "answer"
        self._until = EVENT  # or the end of thoughts
        self._mark: str | None = (
            None  # the mark that the label opened; None once the answer has begun
        )

    def add(self, piece: str) -> tuple[str, str]:
        """Add a piece; return the text and the part of the answer that can be shown now."""
        if self._mode == "held":
            return "", ""
        self._text += piece
        said = self._advance() if self._mode == "said" else ""
        return said, self._take_answer() if self._mode == "answer" else ""

    def rest(self) -> str:
        """Return the text that was held back, at the end of a reply without an action or answer."""
        return self._text[self._position :] if self._mode == "said" and self._until is EVENT else ""

    def _advance(self) -> str:
        """Return the text up to the next event, or up to what may become one."""
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
            self._text = text  # nothing yet, or the beginning of the closing mark
            return ""
        text, self._mark = text.removeprefix(self._mark).lstrip(), None
        return text
