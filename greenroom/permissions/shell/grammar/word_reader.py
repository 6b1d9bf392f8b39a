"""Words: pieces of text and expansions, with braces written out."""

import re
from collections.abc import Sequence

from greenroom.permissions.facts.word import Piece, Word
from greenroom.permissions.shell.grammar.braces import expand
from greenroom.permissions.shell.grammar.expander import FOLDER, Expander

__all__ = ["PLAIN_WORDS", "WordReader", "join"]

_PLAIN = re.compile(r"[^ \t\n;&|<>()'\"\\$`]+")
# `~-` and `~2` name folders that only the shell knows.
_ODD_TILDE = r"~(?:-|\+?[0-9])"
# Words without quotes, expansions, braces and patterns, which is most of them.
_PLAIN_WORD = rf"(?!{_ODD_TILDE})[\w./:@%+,^=~!#-]++(?=[ \t\n;|)]|&(?!>)|\Z)"
PLAIN_WORDS = re.compile(rf"{_PLAIN_WORD}(?:[ \t]++(?!#){_PLAIN_WORD})*+", re.ASCII)
_STAR = re.compile(r"[*?]")


class WordReader(Expander):
    """Reads words."""

    def pieces(self) -> list[Piece]:
        """Read one word as pieces; an empty list if no word begins here."""
        pieces: list[Piece] = []
        while True:
            text = self.take(_PLAIN)
            char = self.peek()
            if text:
                pieces.append(Piece(text, quoted=False))
            elif char == "'":
                pieces.append(self.single_quoted())
            elif char == '"':
                pieces += self.double_quoted()
            elif char == "\\":
                pieces += self._backslash()
            elif char and char in "$`":
                pieces.append(self.expansion(quoted=False))
            elif char and char in "<>":
                start = self.at
                if not self.process_substitution():
                    return pieces
                pieces.append(Piece(self.text[start : self.at], dynamic=True, number=True))
            else:
                return pieces

    def _backslash(self) -> list[Piece]:
        pair = self.peek(2)
        self.at += len(pair)
        if pair == "\\\n":
            return []
        return [Piece(pair[1:] or "\\")]

    def word(self) -> Word | None:
        """Read one word as it stands, without writing out its braces; None if there is none."""
        start = self.at
        pieces = self.pieces()
        return join(pieces) if self.at > start and pieces else None

    def words(self) -> list[Word] | None:
        """Read all plain words that come next, or one other; None if none begins here.

        Braces may turn the other one into several or none.
        """
        if plain := self.take(PLAIN_WORDS):
            return [Word(each) for each in plain.split()]
        start = self.at
        pieces = self.pieces()
        if self.at == start:
            return None
        expanded = expand(pieces)
        if expanded is None:
            self.unclear("braces that stand for too many words")
            self.findings.unread.append(self.text[start : self.at])
            return [join([*pieces, Piece("", quoted=False, dynamic=True, split=True)])]
        return [join(each) for each in expanded]


def join(pieces: Sequence[Piece]) -> Word:
    """Make a word of its pieces; usually it is one."""
    if pieces and re.match(_ODD_TILDE, pieces[0].text) and not pieces[0].quoted:
        pieces = [pieces[0]._replace(dynamic=True), *pieces[1:]]
    dynamic = any(piece.dynamic for piece in pieces)
    if dynamic:
        pieces = [_folder(pieces, at) for at in range(len(pieces))]
        dynamic = any(piece.dynamic for piece in pieces)
    return Word(
        "".join([piece.text for piece in pieces]),
        dynamic=dynamic,
        pattern=_is_pattern(pieces),
        split=dynamic and any(piece.split for piece in pieces),
        quoted=any(piece.quoted for piece in pieces),
        pieces=tuple(pieces) if dynamic else (),
    )


def _folder(pieces: Sequence[Piece], at: int) -> Piece:
    """Write `.` for the current folder where a path begins with it, else leave it unknown."""
    before, piece = "".join([each.text for each in pieces[:at]]), pieces[at]
    behind = [each for each in pieces[at + 1 :] if each.text]
    begins = not before or before.endswith("=")
    ends = not behind or (not behind[0].dynamic and behind[0].text[0] in "/:")
    return Piece(".") if piece.name == FOLDER and begins and ends else piece


def _is_pattern(pieces: Sequence[Piece]) -> bool:
    """Tell whether the shell would look for file names; a bracket alone, as in `[ -f a ]`, is none."""
    opened = False
    for piece in pieces:
        plain = not (piece.quoted or piece.dynamic)
        if plain and _STAR.search(piece.text):
            return True
        behind = piece.text.partition("[")[2] if plain and not opened else piece.text
        opened = opened or (plain and "[" in piece.text)
        if opened and "]" in behind:
            return True
    return False
