r"""The lines of `history.jsonl`: pure functions of bytes, without any file.

One line is one commit:

    {"n":N,"u":U,"e":[entry,...],"crc":"xxxxxxxx"}\n

`n` counts the lines from 0. `u`, left out where it is 0, tells how many bytes directly before the
line had not been synced when it was written: a power cut may damage those in any order, so damage
there passes for an unfinished write, and damage before them does not. The checksum is a CRC-32 of the line up to `,"crc"`, and starts from
the checksum of the whole line before, mixed with a constant: so no line can be left out, repeated,
moved, or glued to its neighbour unnoticed. (Started from the neighbour's own checksum alone, two
glued lines would verify: a CRC of a CRC is the CRC of both texts.) Lines end at the byte `\n` only,
so U+2028 and its like inside a text split nothing.
"""

import itertools
import re
import zlib
from collections.abc import Iterable, Iterator

import msgspec

from greenroom.core import InvalidJSONError, SessionCorruptError, SessionError
from greenroom.session.history.entry import FORMAT, Entry, FormatEntry, decode_entries

SALT = 0x5EA7_1EAF
"""What the checksum of the line before is mixed with."""
_SUFFIX = len(',"crc":"00000000"}\n')
_HEAD = re.compile(rb'\{"n":\d+,(?:"u":(\d+),)?"e":\[')
_END = re.compile(rb',"crc":"([0-9a-f]{8})"\}')


class Position(msgspec.Struct, frozen=True):
    """A place between two lines of a history.

    Attributes:
        lines: how many lines are before it.
        size: how many bytes are before it.
        last: the line just before it, with its newline; the next line's checksum builds on it.
        loose: how many bytes directly before it may not have been synced.
    """

    lines: int = 0
    size: int = 0
    last: bytes = b""
    loose: int = 0

    def after(self, line: bytes) -> "Position":
        """Return the place behind this line, which stands here and may not be synced."""
        return Position(self.lines + 1, self.size + len(line), line, self.loose + len(line))

    def synced(self) -> "Position":
        """Return the same place, with all before it synced."""
        return msgspec.structs.replace(self, loose=0)


START = Position()
"""The beginning of every history."""


class History(msgspec.Struct, frozen=True):
    """What was read from a history.

    Attributes:
        entries: the entries of all sound lines, in order.
        end: the place behind the last sound line.
        torn: the bytes after it, which are no sound line; empty where all is well.
        missing: how many lines are gone from the end, as far as a store can tell.
    """

    entries: tuple[Entry, ...]
    end: Position
    torn: bytes = b""
    missing: int = 0


class Lines(msgspec.Struct, frozen=True):
    """What was read from a history, line by line.

    Attributes:
        first: the number of the first line, from 1.
        entries: the entries of each sound line, in order.
        end: the place behind the last sound line.
        torn: the bytes after it, which are no sound line; empty where all is well.
    """

    first: int
    entries: tuple[tuple[Entry, ...], ...]
    end: Position
    torn: bytes = b""


def encode_line(entries: Iterable[bytes], at: Position) -> bytes:
    """Make the line that commits these encoded entries at this place."""
    loose = b'"u":%d,' % at.loose if at.loose else b""
    body = b'{"n":%d,%s"e":[%s]' % (at.lines, loose, b",".join(entries))
    return body + _seal(body, at)


def read_history(
    data: bytes,
    *,
    session_id: str,
    path: str,
    since: Position = START,
    salvage: bool = False,
) -> History:
    """Read and verify what a history holds from the place `since` on; see `read_lines`.

    Raises:
        SessionCorruptError: a damaged line is followed by others.
        SessionError: the file is of a newer format.
    """
    lines = read_lines(data, session_id=session_id, path=path, since=since, salvage=salvage)
    return History(tuple(itertools.chain.from_iterable(lines.entries)), lines.end, lines.torn)


def read_lines(
    data: bytes,
    *,
    session_id: str,
    path: str,
    since: Position = START,
    salvage: bool = False,
) -> Lines:
    """Read and verify the lines of a history from the place `since` on.

    A last line that is cut off or damaged is left in `torn`: that is what a crash leaves behind. To
    `salvage` is to leave everything there from the first damaged line on, instead of raising.

    Raises:
        SessionCorruptError: a damaged line is followed by others.
        SessionError: the file is of a newer format.
    """
    place, entries, start = since, list[tuple[Entry, ...]](), 0
    while start < len(data):
        stop = data.find(b"\n", start) + 1
        line = data[start:stop]
        if not _is_sound(line, place):
            break
        try:
            found = decode_entries(line)
        except InvalidJSONError as error:
            if salvage:
                break
            raise _corrupt(error.message, session_id, path, place) from error
        check_format(found, session_id, path)
        entries.append(found)
        place = msgspec.structs.replace(place, loose=_loose(line)).after(line)
        start = stop
    torn = data[start:]
    if not salvage and _is_followed(torn, place):
        raise _corrupt("the line is damaged, and others follow it", session_id, path, place)
    return Lines(since.lines + 1, tuple(entries), place, torn)


def read_on(data: bytes, *, session_id: str, path: str, since: Position) -> History:
    """Read what follows a place, in bytes that begin with the line before it, if there is one.

    Raises:
        SessionCorruptError: they begin with another line, or a damaged line is followed by others.
        SessionError: the file is of a newer format.
    """
    known = len(since.last)
    if data[:known] != since.last:
        raise SessionCorruptError(
            f"{path}:{since.lines}: not the line that was here before",
            session_id=session_id,
            path=path,
            line=since.lines,
            hint="the history was replaced by another; load the session again",
        )
    return read_history(data[known:], session_id=session_id, path=path, since=since)


def _seal(body: bytes, at: Position) -> bytes:
    checksum = zlib.crc32(body, zlib.crc32(at.last) ^ SALT)
    return b',"crc":"%08x"}\n' % checksum


def _is_sound(line: bytes, at: Position) -> bool:
    return line[-_SUFFIX:] == _seal(line[:-_SUFFIX], at)


def _is_followed(torn: bytes, at: Position) -> bool:
    """Whether a later line shows that the one here had been synced, and so is no torn write.

    A record holds no raw newline, so one before the beginning of a record is a border. Where it is
    the newline itself that is damaged, a sound record ends before more than that one byte.
    """
    starts = [found.start() + 1 for found in re.finditer(rb"\n(?=\{)", torn)]
    starts += [end + 1 for end in _sound_ends(torn, at)]
    # A line that begins after the damage, and before which less was loose, was written later.
    return any(_HEAD.match(torn, start) and _loose(torn, start) < start for start in starts)


def _sound_ends(torn: bytes, at: Position) -> Iterator[int]:
    """Find where a sound record ends, if its newline were there; each byte is summed up once."""
    checksum, start = zlib.crc32(at.last) ^ SALT, 0
    for found in _END.finditer(torn, endpos=len(torn) - 2):
        checksum, start = zlib.crc32(torn[start : found.start()], checksum), found.start()
        if found[1] == b"%08x" % checksum:
            yield found.end()


def _loose(data: bytes, start: int = 0) -> int:
    """Return how many bytes before the line that begins here had not been synced."""
    head = _HEAD.match(data, start)
    return int(head[1] or 0) if head else 0


def check_format(entries: tuple[Entry, ...], session_id: str, path: str) -> None:
    """See that this line is not of a newer format: one may begin in the middle of a file.

    Raises:
        SessionError: it is.
    """
    first = entries[0] if entries else None
    if isinstance(first, FormatEntry) and first.version > FORMAT:
        raise SessionError(
            f"{path} is of format {first.version}; this version reads up to {FORMAT}",
            session_id=session_id,
            hint="upgrade greenroom",
        )


def _corrupt(problem: str, session_id: str, path: str, at: Position) -> SessionCorruptError:
    line = at.lines + 1
    return SessionCorruptError(
        f"{path}:{line}: {problem}",
        session_id=session_id,
        path=path,
        line=line,
        hint=f"nothing was changed; `greenroom sessions repair {session_id}` keeps every line that can "
        "be verified, and sets the rest aside",
    )
