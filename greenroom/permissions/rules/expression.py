"""Regular expressions of rules, matched by Python's `re` in a time that no text can stretch.

`re` tries one way of matching after the other, so an expression is weighed when it is read: in how
many ways may it try a text of n characters? A `.*` outside of groups costs nothing: the expression
is cut there into pieces, and each is looked for behind the one before, at its first place only. A
piece is tried at each place of the text; each `*` or `+` in it multiplies that by n. The weight says
how long a text may be, and an expression that is too heavy is refused.
"""

import re
from collections.abc import Iterator, Sequence
from math import inf, prod
from typing import NamedTuple

from greenroom.core import RuleFileError

__all__ = ["Expression"]

MAX_LENGTH = 512  # of an expression, and of the least that it matches
MAX_TEXT = 4096
MIN_TEXT = 64  # an expression that may not even read that much is refused
MAX_STEPS = 4_000_000  # ten of which `re` makes in a microsecond, or two if they are hard
MAX_VARIANTS = 16  # a repeat with more of them counts as one without an end
_TOKEN = re.compile(
    r"(?:(?P<open>\((?:\?(?:P<\w+>|[aimsu]*(?:-[ims]+)?:|<?[=!])|(?!\?)))|(?P<turn>\|)|(?P<close>\))"
    r"|(?P<mark>\\[AbBZ]|[\^$])|(?P<flags>\A\(\?[aimsu]+\))"
    r"|(?P<atom>\\(?:x..|u.{4}|U.{8}|N\{[^}]*\}|[^0-9])|\[\^?\]?(?:\\.|[^\]\\])*\]|[^\\()]))"
    r"(?P<repeat>(?:(?P<sign>[*+?])|\{(?!\})(?P<least>\d*)(?P<comma>,?)(?P<most>\d*)\})\??)?+(?!\+)",
    re.DOTALL,
)
_SIGNS = {"*": (0, inf), "+": (1, inf), "?": (0, 1)}
_GAP = re.compile(r"\.(?:[*+]|\{\d*,\})\??")
_LITERAL = re.compile(r"\w|\\[^\w]|[^\w\\.^$\[]", re.ASCII)


class Expression:
    """A regular expression in Python's notation that no text can slow down.

    There are no back references, possessive repeats, atomic groups and conditions, and what is
    repeated holds no other repeat and no alternatives: write `[ab]*` for `(a|b)*`.

    Attributes:
        limit: how many characters a text may have; at most 4096.

    Example:
        >>> expression = Expression("npm run (lint|test)( .*)?")
        >>> expression.fullmatch("npm run test --fix"), expression.fullmatch("npm run tests")
        (True, False)
        >>> Expression("curl .*[|] *(ba)?sh").search("curl a.test | sudo bash")
        False
    """

    def __init__(self, text: str) -> None:
        """Read an expression.

        Raises:
            RuleFileError: empty, too long or too large, not understood, or it may match in too
                many ways.
        """
        if not text or len(text) > MAX_LENGTH:
            raise RuleFileError(f"a regex has 1 to {MAX_LENGTH} characters, this has {len(text)}")
        flags = _flags(text)
        rows = _read(text)
        branches = [tuple(_pieces(each)) for each in rows]
        self._whole = re.compile("|".join(map(_whole, branches)), flags)
        self._part = re.compile("|".join(map(_part, branches)), flags)
        self.text, self.limit = text, _limit(text, branches)
        self._needed = [()] if flags & re.IGNORECASE else [tuple(_literals(row)) for row in rows]

    def fullmatch(self, text: str) -> bool:
        """Tell whether the whole text matches; one that is too long does not."""
        return len(text) <= self.limit and self._whole.fullmatch(text) is not None

    def search(self, text: str) -> bool | None:
        """Tell whether some part of a text may match; None if the text is too long to tell.

        It is generous: `.*` goes over line ends, and of what may be short or long before a `.*` only
        the short form counts as used up.
        """
        if not any(all(each in text for each in literals) for literals in self._needed):
            return False
        return None if len(text) > self.limit else self._part.match(text) is not None


class _Part(NamedTuple):
    """A part of an expression.

    Attributes:
        source: its text.
        least: how many characters it matches at least.
        size: how many it looks at in one way, apart from repeats without an end.
        loops: how many repeats without an end multiply the ways in which it may match.
        ways: in how many ways it may match apart from that.
        plain: it may be repeated, since it has one way for each text.
    """

    source: str
    least: int = 1
    size: int = 1
    loops: int = 0
    ways: int = 1
    plain: bool = True


def _flags(text: str) -> int:
    """Let `re` say what is wrong with the text, and which flags hold for all of it."""
    try:
        flags = re.compile(text).flags
    except (re.error, OverflowError, RecursionError) as error:
        raise RuleFileError(f"not a regular expression: {text!r}: {error}") from error
    if flags & re.VERBOSE:
        raise _refused(text, "can't be read in one pass with the flag x", "leave out the flag x")
    return flags


def _read(text: str) -> Sequence[Sequence[_Part]]:
    """Take apart what `re` understands: alternatives, each a row of parts."""
    open_groups: list[tuple[str, list[list[_Part]]]] = [("", [[]])]
    at = 0
    while found := _TOKEN.match(text, at):
        at = found.end()
        if found["open"]:
            open_groups.append((found["open"], [[]]))
        elif found["turn"]:
            open_groups[-1][1].append([])
        elif not found["flags"]:
            plain = _Part(found["atom"] or found["mark"] or "", least=int(not found["mark"]))
            part = _group(*open_groups.pop()) if found["close"] else plain
            part = _repeated(part, found, text) if found["repeat"] else part
            open_groups[-1][1][-1].append(part)
    if at < len(text):
        hint = "leave out back references, possessive repeats, atomic groups and conditions"
        raise _refused(text, f"can't be matched in one pass at {text[at : at + 20]!r}", hint)
    return open_groups[0][1]


def _group(opening: str, branches: Sequence[Sequence[_Part]]) -> _Part:
    rows = [_row(each) for each in branches]
    looks = re.match(r"\(\?<?[=!]", opening) is not None
    return _Part(
        f"{opening}{'|'.join(each.source for each in rows)})",
        0 if looks else min(each.least for each in rows),
        max(each.size for each in rows),
        max(each.loops for each in rows),
        sum(each.ways for each in rows),
        len(rows) == 1 and rows[0].plain and not looks,
    )


def _row(parts: Sequence[_Part]) -> _Part:
    return _Part(
        "".join(each.source for each in parts),
        sum(each.least for each in parts),
        sum(each.size for each in parts),
        sum(each.loops for each in parts),
        prod(each.ways for each in parts),
        all(each.plain for each in parts),
    )


def _repeated(part: _Part, found: re.Match[str], text: str) -> _Part:
    few = int(found["least"] or 0)
    many = int(found["most"]) if found["most"] else inf if found["comma"] else few
    least, most = _SIGNS[found["sign"]] if found["sign"] else (few, many)
    if most > 1 and not (part.plain and part.least):
        raise _refused(
            text,
            "repeats something that holds a repeat or alternatives, or may be empty",
            "write [ab]* for (a|b)* and a* for (a+)*; outside of groups .* may come often",
        )
    endless = most - least >= MAX_VARIANTS
    return _Part(
        f"{part.source}{found['repeat']}",
        part.least * least,
        part.size * (least + 1 if endless else int(most)),
        part.loops + endless,
        part.ways + (0 if endless else int(most) - least),
        least == most,
    )


def _pieces(parts: Sequence[_Part]) -> Iterator[_Part]:
    """Cut a row at each `.*`, or behind the first character of `.+`."""
    piece: list[_Part] = []
    for part in parts:
        if _GAP.fullmatch(part.source):
            yield _row([*piece, *[_Part(".")] * part.least])
            piece = []
        else:
            piece.append(part)
    yield _row(piece)


def _whole(pieces: Sequence[_Part]) -> str:
    first, *others = (each.source for each in pieces)
    middle = "".join(f"(?>.*?{each})" for each in others[:-1])
    return f"(?>{first}){middle}.*{others[-1]}" if others else first


def _part(pieces: Sequence[_Part]) -> str:
    # Behind the first place of a piece, what it matches at least is skipped.
    *others, last = pieces
    firsts = (f"(?>(?s:.*?)(?={each.source})(?s:.{{{each.least}}}))" for each in others)
    return f"{''.join(firsts)}(?s:.*?){last.source}"


def _literals(row: Sequence[_Part]) -> Iterator[str]:
    """Find what every text that matches a row holds."""
    marked = "".join(each.source[-1] if _LITERAL.fullmatch(each.source) else "\0" for each in row)
    return filter(None, marked.split("\0"))


def _limit(text: str, branches: Sequence[Sequence[_Part]]) -> int:
    """Say how long a text may be so that the steps that it takes are bounded."""
    loops = max(piece.loops for pieces in branches for piece in pieces)
    weight = sum(max(each.ways * (1 + each.size // 8) for each in pieces) for pieces in branches)
    limit = int((MAX_STEPS / weight) ** (1 / (1 + loops)))
    if limit < MIN_TEXT:
        hint = "use fewer repeats between two .*, or write a rule for each alternative"
        raise _refused(text, "may match in too many ways", hint)
    return min(limit, MAX_TEXT)


def _refused(text: str, why: str, hint: str) -> RuleFileError:
    return RuleFileError(f"the regex {text!r} {why}", hint=hint)
