"""A line that is typed and never shown, such as a password.

It is kept here, out of prompt_toolkit's buffer: that one has an undo stack, a history, a kill ring and
macros, and each of them would remember.
"""

from prompt_toolkit.filters import Filter
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

_LONGEST = 65_536  # characters; what is longer is not taken
_SOMETHING = "•••"


class HiddenLine:
    """What is typed for a question that hides it; the screen tells only whether there is something."""

    def __init__(self) -> None:
        """Start empty."""
        self.text = ""
        """What was typed so far."""
        self._is_finished = False

    @property
    def mask(self) -> str:
        """What is shown in its place; it does not tell how long it is."""
        return _SOMETHING if self.text else ""

    def bind(self, keys: KeyBindings, when: Filter) -> None:
        """Take what is typed; no key of the line editor's own does anything meanwhile."""
        for name, do in (
            (Keys.Any, self._type),
            (Keys.BracketedPaste, lambda event: self._add(event.data)),
            (Keys.Backspace, lambda _: self._keep(self.text[:-1])),
            (Keys.ControlU, lambda _: self._keep("")),
        ):
            keys.add(name, filter=when, eager=True, record_in_macro=False)(do)

    def finish(self) -> None:
        """Forget the text, which was handed on, or is not to be."""
        self.text, self._is_finished = "", True

    def close(self) -> bool:
        """Forget everything; return whether the person may be in the middle of typing."""
        is_typing = bool(self.text) or not self._is_finished
        self.text, self._is_finished = "", False
        return is_typing

    def _type(self, event: KeyPressEvent) -> None:
        if event.key_sequence[0].key == event.data:  # a letter, and no key with a name
            self._add(event.data)

    def _add(self, text: str) -> None:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if len(self.text) + len(text) <= _LONGEST:
            self.text += text

    def _keep(self, text: str) -> None:
        self.text = text
