"""The text of a reply while it comes: what may be shown of it before it is known what it comes to."""

import re

from greenroom.planning.parse_action import EVENT, open_mark, thought_end

__all__ = ["LiveText"]

_PATIENCE = 60  # characters in which a beginning becomes an event, or is none
_CONTEXT = 8  # characters before that say whether a label may stand here


def _beginnings(word: str) -> str:
    """Write the pattern of all that a word may begin with."""
    return f"{word[0]}(?:{_beginnings(word[1:])})?" if word[1:] else word


_WORDS = ("final", "answer", "action", "next", "tool", "function", "to=", "observation")
_BEGIN = re.compile(
    rf"(?<!\s)\s*+(?:[<{{\[`*_#>-]|\b(?:{'|'.join(_WORDS)})|(?:\b(?:{'|'.join(map(_beginnings, _WORDS))}))?\Z)"
    r"|(?<![^\n])[^\w\n]",
    re.IGNORECASE,
)
"""Where an event may be about to begin."""


_NEVER = re.compile(r"(?!)")


class LiveText:
    r"""Gives of each piece of a reply what is said before its action, and what is its answer.

    Where something may be an action, it is held back, and what follows it too.

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
        self._shown = 0
        self._mode = "said"  # or "thought", "held", "answer"
        self._thought_end = _NEVER
        self._has_answered = False
        self._mark = ""

    def add(self, piece: str) -> tuple[str, str]:
        """Take the next piece; return what can be shown now as said before, and as the answer."""
        if self._mode == "held":
            return "", ""
        self._text += piece
        said = ""
        while self._mode in {"said", "thought"}:
            before = self._mode
            said += self._pass_thought() if before == "thought" else self._say()
            if self._mode == before:
                break
        return said, self._take_answer() if self._mode == "answer" else ""

    def _take_answer(self) -> str:
        text = self._text[self._shown :]
        if not self._has_answered:
            text = text.lstrip()
            if self._mark.startswith(text):
                return ""  # a mark that closes what the label has opened
            text = text.removeprefix(self._mark).lstrip()
            self._has_answered = True
        self._text, self._shown = "", 0
        return text

    def _pass_thought(self) -> str:
        end = self._thought_end.search(self._text)
        if end:
            self._mode = "said"
            self._text, self._shown = self._text[end.end() :], 0
        else:
            self._text, self._shown = self._text[-_PATIENCE:], 0
        return ""

    def _say(self) -> str:
        """Show all that is before an event, or before what may become one."""
        event = EVENT.search(self._text, self._shown)
        if event is None or event.lastgroup in {"observation", "mention"}:
            return self._show(self._safe())
        said = self._show(event.start(), rest=event.end())
        self._mark = open_mark(event[0])
        if event.lastgroup == "think":
            self._mode = "thought"
            self._thought_end = thought_end(event)
        else:
            self._mode = "answer" if event.lastgroup == "final" else "held"
        return said

    def _safe(self) -> int:
        """Return the place before which no event can begin any more."""
        for found in _BEGIN.finditer(self._text, self._shown):
            if len(self._text) - found.start() <= _PATIENCE:
                return found.start()
        return len(self._text)

    def _show(self, end: int, rest: int | None = None) -> str:
        said = self._text[self._shown : end]
        cut = end if rest is None else rest
        keep = max(0, cut - _CONTEXT)
        self._text, self._shown = self._text[keep:], cut - keep
        return said
