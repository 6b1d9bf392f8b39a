"""Whether a file is as whole calls make it: compared with what the undisturbed runs make of it.

A file is one of three kinds. One that grows from call to call is *appended*: it must consist of
whole records. One that is *written again* must be as before, or as it is after some call. Where its
contents are never the same twice, digits and made-up names apart, only what shows that a file is
whole at all is compared: a last line that ends, JSON that can be read.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from greenroom.core._internal import serde
from greenroom.testing.fuzz.evidence import File

_MADE_UP = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|0x[0-9a-f]+|(?=[a-f]*\d)[0-9a-f]{8,}|\d+",
    re.IGNORECASE,
)
_DATABASE = b"SQLite format 3\0"  # it keeps itself whole, and its bytes tell nothing

_MIN_BEGINNING = 3  # characters in which lines begin alike

Versions = Sequence[File | None]
"""A file before the run, after each call and at the end; None where it is not there."""

_Record = tuple[str, ...]
"""The lines that one call appends, without what is made up."""


def shape_of(text: str) -> str:
    """Replace the parts of a text that differ between runs: numbers and made-up names."""
    return _MADE_UP.sub("*", text)


def find_fault(controls: Sequence[Versions], after_cancel: File | None, at_end: File | None) -> str:
    """Say what is wrong with a file after a cancel, and after the same calls again; or "".

    Args:
        controls: what each undisturbed run makes of it.
        after_cancel: the file after the cancel.
        at_end: the file after the same calls again; a call may mend the end of a file.
    """
    appended = _Appended.find(controls)
    if appended is not None:
        return appended.find_fault(at_end)
    whole = [version for versions in controls for version in versions]
    if _shape(after_cancel) in map(_shape, whole):
        return ""
    if after_cancel is None or len({tuple(map(_shape, versions)) for versions in controls}) == 1:
        return "is neither as before nor as after a call"
    return _find_sign([each for each in whole if each is not None], after_cancel)


def _shape(file: File | None) -> str | None:
    if file is None or file.content is None:
        return None if file is None else file.digest
    is_database = file.content.startswith(_DATABASE)
    return _DATABASE.decode() if is_database else shape_of(file.content.decode("latin-1"))


def _find_sign(whole: Sequence[File], file: File) -> str:
    """Look for what every whole version has and this one lacks."""
    content, contents = file.content, [each.content or b"" for each in whole]
    if content is None:
        return ""
    if not content and all(contents):
        return "is empty, as it never is after a call"
    if not content.endswith(b"\n") and all(each.endswith(b"\n") for each in contents):
        return "ends in the middle of a line"
    if not _is_json(content) and all(map(_is_json, contents)):
        return "is not JSON, as it is after a call"
    return ""


def _is_json(content: bytes) -> bool:
    try:
        serde.loads(content)
    except serde.InvalidJSONError:
        return False
    return True


@dataclass(frozen=True)
class _Appended:
    """A file that grows with each call, and what the calls of undisturbed runs append.

    Attributes:
        base: what it holds before the run.
        pieces: what each call has appended.
    """

    base: bytes
    pieces: Sequence[bytes]

    @classmethod
    def find(cls, controls: Sequence[Versions]) -> "_Appended | None":
        """Tell by its versions that a file is of this kind."""
        pieces: list[bytes] = []
        base = b""
        for versions in controls:
            contents = [b"" if each is None else each.content for each in versions]
            for place, (one, other) in enumerate(pairwise(contents)):
                if one is None or other is None or not other.startswith(one):
                    return None
                base = one if place == 0 else base
                pieces += [other[len(one) :]] if other != one else []
        grows = any(
            len({each for each in versions if each is not None}) > 1 for versions in controls
        )
        is_database = any(each.startswith(_DATABASE) for each in (base, *pieces))
        return (
            cls(base, pieces) if grows and len(pieces) > len(controls) and not is_database else None
        )

    def find_fault(self, file: File | None) -> str:
        """Say how a file differs from one that whole calls make; or ""."""
        content = b"" if file is None else file.content
        if content is None:
            return ""
        if not content.startswith(self.base):
            return "has lost what was in it before"
        added = content[len(self.base) :]
        if all(each.endswith(b"\n") for each in self.pieces):
            return self._find_half_lines(added) or self._find_half_records(added)
        sizes = {len(each) for each in self.pieces}
        if len(sizes) == 1 and len(added) % sizes.pop():
            return "holds a record that was appended by half"
        return ""

    def _find_half_lines(self, added: bytes) -> str:
        if added and not added.endswith(b"\n"):
            return "ends in the middle of a line"
        known = {line for record in self._records for line in record}
        beginning = os.path.commonprefix([*known])  # noqa: RUF071 (by characters, as it should)
        most = max((line.count(beginning) for line in known), default=0)
        has_json = all(_is_json(line) for each in self.pieces for line in each.splitlines())
        for line in added.splitlines():
            shape = shape_of(line.decode("latin-1")) + "\n"
            is_glued = len(beginning) >= _MIN_BEGINNING and shape.count(beginning) > most
            is_glued |= any(
                shape.endswith(whole) and other.startswith(shape[: -len(whole)])
                for whole in known - {shape}
                for other in known
            )
            if shape not in known and (is_glued or (has_json and not _is_json(line))):
                return f"has half a line, and the next one behind it: {shape.rstrip()!r}"
        return ""

    def _find_half_records(self, added: bytes) -> str:
        """Find the first lines of a record without the others.

        Lines that begin alike, such as those of a log with times, are records of their own.
        """
        lines = _lines(added)
        place = 0
        while place < len(lines):
            found = [_count_alike(record, lines[place:]) for record in self._records]
            whole = max(
                (n for n, record in zip(found, self._records, strict=True) if n == len(record)),
                default=0,
            )
            if whole:
                place += whole
                continue
            half = max(found, default=0)
            follows = lines[place + half] if place + half < len(lines) else None
            firsts = {record[0] for record in self._records}
            if half and (follows is None or follows in firsts):
                record = self._records[found.index(half)]
                if len({line.split(maxsplit=1)[0] for line in record if line.strip()}) > 1:
                    return f"has {half} of the {len(record)} lines that a call appends"
            place += half or 1
        return ""

    @property
    def _records(self) -> list[_Record]:
        return [tuple(_lines(each)) for each in self.pieces]


def _lines(content: bytes) -> list[str]:
    return [*map(shape_of, content.decode("latin-1").splitlines(keepends=True))]


def _count_alike(record: _Record, lines: Sequence[str]) -> int:
    count = 0
    for one, other in zip(record, lines, strict=False):
        if one != other:
            break
        count += 1
    return count
