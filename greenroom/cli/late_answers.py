"""An input that drops what a terminal answers too late, which would be typed into the line."""

import sys

from prompt_toolkit.input import Input, create_input
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.input.vt100_parser import Vt100Parser

from greenroom.core._internal import compile_later

_ANSWER = compile_later(r"\x1b\]1[01];[^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[\?[0-9;]*c")
_BEGUN = compile_later(r"\x1b(?:\]1(?:[01](?:;[^\x07\x1b]{0,64}\x1b?)?)?|\[\?[0-9;]{0,32})\Z")


def open_input() -> Input:
    """Open the terminal of standard input."""
    opened = create_input(sys.stdin)
    if isinstance(opened, Vt100Input):
        opened.vt100_parser = _Parser(opened.vt100_parser.feed_key_callback)
    return opened


class _Parser(Vt100Parser):
    """Makes keys of what is typed, without answers that nobody waits for any more."""

    _begun = ""  # of an answer whose end has not been read

    def feed(self, data: str) -> None:
        """Take what was read."""
        data = _ANSWER.sub("", self._begun + data)
        begun = _BEGUN.search(data)
        self._begun = begun[0] if begun else ""
        super().feed(data.removesuffix(self._begun))
