"""The pages of a permission request: what is shown at once, and what has to be asked for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from greenroom.core import PermissionPart, PermissionRequest, RuleDecision, exact

__all__ = ["PromptPages"]

_LINES, _LETTERS = 24, 2_000  # of a text on the first page
_MORE_LINES, _MORE_LETTERS = 200, 20_000  # on each further one
_HEAD, _TAIL = 8, 6  # lines of a long diff that leave room for the rest in a small terminal
_PARTS = 16  # on the first page


@dataclass(frozen=True)
class PromptPages:
    """A request's texts, exact, in the pieces in which they are shown.

    Attributes:
        details: the beginning of the text.
        diff: the diff, or both ends of a long one.
        parts: the verdicts that weigh most, in their order.
        left_out: what of it all the first page leaves out, in words; empty where it is whole.
        further: the pages that follow, one after the other.
    """

    details: str
    diff: str
    parts: tuple[PermissionPart, ...]
    left_out: tuple[str, ...]
    further: tuple["str | tuple[PermissionPart, ...]", ...]

    @classmethod
    def of(cls, request: PermissionRequest) -> "PromptPages":
        """Divide a request."""
        first, rest = _beginning(exact(request.details))
        diff = exact(request.diff)
        ends, hidden = _ends(diff)
        parts = _weightiest(request.parts)
        others = tuple(part for part in request.parts if not any(part is each for each in parts))
        left_out = [_counted(rest.count("\n") + 1, "line", "lines", "of the text")] if rest else []
        left_out += [_counted(hidden, "line", "lines", "of the diff")] if hidden else []
        left_out += [_counted(len(others), "part", "parts", "that weigh less")] if others else []
        further = [*_pieces(rest), *(_pieces(diff) if hidden else ()), *_groups(others)]
        return cls(first, ends, parts, tuple(left_out), tuple(further))


def _counted(count: int, one: str, several: str, of: str) -> str:
    return f"{count} {one if count == 1 else several} {of}"


def _beginning(text: str) -> tuple[str, str]:
    """Divide a text into what stands on the first page and the rest."""
    first = _cut(text, _LINES, _LETTERS)
    return first, text[len(first) :].removeprefix("\n")


def _pieces(text: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        piece = _cut(text[start : start + _MORE_LETTERS + 1], _MORE_LINES, _MORE_LETTERS)
        start += len(piece)
        start += text[start : start + 1] == "\n"
        yield piece


def _cut(text: str, lines: int, letters: int) -> str:
    """Return the beginning of a text, to the end of a line where there is one in sight."""
    if len(text) <= letters and text.count("\n") < lines:
        return text
    kept = "\n".join(text[:letters].split("\n")[:lines])
    return kept or text[:1]


def _ends(diff: str) -> tuple[str, int]:
    """Return both ends of a diff, and how many lines between them are left out."""
    lines = diff.split("\n")
    hidden = len(lines) - _HEAD - _TAIL
    if hidden < 2 and len(diff) <= 2 * _LETTERS:
        return diff, 0
    if hidden < 2:  # few lines, but long ones
        return _cut(diff, _HEAD, _LETTERS), max(len(lines) - _HEAD, 1)
    head = "\n".join(lines[:_HEAD])[:_LETTERS]
    tail = "\n".join(lines[-_TAIL:])[-_LETTERS:]
    return f"{head}\n… {hidden} lines …\n{tail}", hidden


def _weightiest(parts: Sequence[PermissionPart]) -> tuple[PermissionPart, ...]:
    """Return as many parts as have room, those last that are allowed; the others in their order."""
    if len(parts) <= _PARTS:
        return tuple(parts)
    by_weight = sorted(parts, key=lambda part: part.decision is RuleDecision.ALLOW)
    kept = {id(part) for part in by_weight[:_PARTS]}
    return tuple(part for part in parts if id(part) in kept)


def _groups(parts: Sequence[PermissionPart]) -> Iterator[tuple[PermissionPart, ...]]:
    for start in range(0, len(parts), _MORE_LINES):
        yield tuple(parts[start : start + _MORE_LINES])
