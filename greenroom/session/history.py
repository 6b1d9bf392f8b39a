r"""The lines of `history.jsonl`: pure functions of bytes, without any file.

One line is one commit:

    {"n":N,"u":U,"e":[entry,...],"crc":"xxxxxxxx"}\n

`n` numbers the lines from 0. `u`, omitted if 0, says how many bytes directly before the line were
not synced when it was written. A power cut may damage those in any order, so damage there counts as
an unfinished write, and damage before them does not. The checksum is a CRC-32 of the line up to
`,"crc"`. It starts from the checksum of the whole line before, mixed with a constant, so that
leaving out, repeating, moving or joining lines is noticed. (Without the constant, two joined lines
would verify, since the CRC of a text continued from another's CRC is the CRC of both.) Only the
byte `\n` ends a line, so U+2028 and the like inside a text split nothing.
"""

import itertools
import re
import shlex
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from greenroom.core import Message, SessionError
from greenroom.core._internal import InvalidJSONError, compile_later
from greenroom.session.entries import (
    FORMAT,
    Entry,
    FormatEntry,
    MessageEntry,
    Replacement,
    RewindEntry,
    decode_entries,
    messages_of,
    update_values,
)
from greenroom.session.errors import SessionCorruptError

SALT = 0x5EA7_1EAF
"""The constant that is mixed with the checksum of the line before."""
_SUFFIX = len(',"crc":"00000000"}\n')
_HEAD = compile_later(rb'\{"n":\d+,(?:"u":(\d+),)?"e":\[')
_END = compile_later(rb',"crc":"([0-9a-f]{8})"\}')


class Position(msgspec.Struct, frozen=True):
    """A place between two lines of a history.

    Attributes:
        lines: how many lines are before it.
        size: how many bytes are before it.
        last: the line just before it, with its newline; the next line's checksum starts from it.
        loose: how many bytes directly before it may not be synced.
    """

    lines: int = 0
    size: int = 0
    last: bytes = b""
    loose: int = 0

    def after(self, line: bytes) -> "Position":
        """Return the place after this line, which begins here and may not be synced."""
        return Position(self.lines + 1, self.size + len(line), line, self.loose + len(line))

    def as_synced(self) -> "Position":
        """Return the same place, with everything before it synced."""
        return msgspec.structs.replace(self, loose=0)


START = Position()
"""The beginning of every history."""


class History(msgspec.Struct, frozen=True):
    """The part of a history that was read.

    Attributes:
        entries: the entries of all sound lines, in order.
        end: the place after the last sound line.
        torn: the bytes after that, which are not a sound line; empty if all is well.
        missing: how many lines are gone from the end, as far as a store can tell.
    """

    entries: tuple[Entry, ...]
    end: Position
    torn: bytes = b""
    missing: int = 0


class Lines(msgspec.Struct, frozen=True):
    """The part of a history that was read, line by line.

    Attributes:
        first: the number of the first line, from 1.
        entries: the entries of each sound line, in order.
        end: the place after the last sound line.
        torn: the bytes after that, which are not a sound line; empty if all is well.
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


def read_lines(
    data: bytes,
    *,
    session_id: str,
    path: str,
    since: Position = START,
    salvage: bool = False,
) -> Lines:
    """Read and verify the lines of a history from the place `since` on.

    A last line that is cut off or damaged, as a crash leaves it, is returned in `torn`. With
    `salvage`, everything from the first damaged line on is returned there.

    Raises:
        SessionCorruptError: a damaged line is followed by others, without `salvage`.
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


def read_history(data: bytes, *, session_id: str, path: str, since: Position = START) -> History:
    """Read and verify a history from the place `since` on.

    `data` begins with the line before that place, if there is one. See `read_lines` for its end.

    Raises:
        SessionCorruptError: it begins with another line, or a damaged line is followed by others.
        SessionError: the history is of a newer format.
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
    lines = read_lines(data[known:], session_id=session_id, path=path, since=since)
    return History(tuple(itertools.chain.from_iterable(lines.entries)), lines.end, lines.torn)


def _seal(body: bytes, at: Position) -> bytes:
    checksum = zlib.crc32(body, zlib.crc32(at.last) ^ SALT)
    return b',"crc":"%08x"}\n' % checksum


def _is_sound(line: bytes, at: Position) -> bool:
    return line[-_SUFFIX:] == _seal(line[:-_SUFFIX], at)


def _is_followed(torn: bytes, at: Position) -> bool:
    """Whether a later line shows that the line here was synced, so that it is not a torn write.

    A line holds no other newline, so a newline before the beginning of a line separates two. If the
    newline itself is damaged, a sound line ends one byte before the next.
    """
    starts = [found.start() + 1 for found in re.finditer(rb"\n(?=\{)", torn)]
    starts += [end + 1 for end in _sound_ends(torn, at)]
    # A line that begins after the damage was written later, unless all before it was loose.
    return any(_HEAD.match(torn, start) and _loose(torn, start) < start for start in starts)


def _sound_ends(torn: bytes, at: Position) -> Iterator[int]:
    """Find where a line is sound up to its missing newline; each byte is summed once."""
    checksum, start = zlib.crc32(at.last) ^ SALT, 0
    for found in _END.finditer(torn, endpos=len(torn) - 2):
        checksum, start = zlib.crc32(torn[start : found.start()], checksum), found.start()
        if found[1] == b"%08x" % checksum:
            yield found.end()


def _loose(data: bytes, start: int = 0) -> int:
    """Return how many bytes before the line that begins here were not synced."""
    head = _HEAD.match(data, start)
    return int(head[1] or 0) if head else 0


def check_format(entries: tuple[Entry, ...], session_id: str, path: str) -> None:
    """Check that this line is not of a newer format, which may begin in the middle of a file.

    Raises:
        SessionError: it is of a newer format.
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
        hint=f"nothing was changed; `greenroom sessions repair {shlex.quote(session_id)}` keeps "
        "every line that can be verified, and sets the rest aside",
    )


class RepairReport(msgspec.Struct, frozen=True):
    """What could not be read of a session, and what was done about it.

    On loading and opening, that is the end of the history, where a crash or a broken disk cut off
    the last commit. After a store's `salvage` it is everything from the first damaged line on; the
    lines that verify were written again, and the report says what else was lost.

    Damage inside the very last line can't be told from an unfinished write. So what was set aside
    may hold an acknowledged commit; it is kept, never deleted. A reader looks twice while a writer
    writes, so a running commit is not reported as a torn end.

    Attributes:
        path: the history.
        line: the number of the first line that can't be read, from 1.
        offset: where that line begins, in bytes.
        size: how many bytes can't be read.
        set_aside: the file that now holds these bytes; empty while they are still in place, until
            the session is opened for writing.
        kept: how many messages after the damage were kept; a note in the conversation marks each
            place where some are missing.
        missing: how many lines, at least, are gone from the end; an empty file with the place in
            its name is left as a trace of them.
        restored: the fields of the description that could not be read, and were reconstructed.
    """

    path: str
    line: int
    offset: int
    size: int
    set_aside: str = ""
    kept: int = 0
    missing: int = 0
    restored: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = list[str]()
        if self.size:
            fate = f"set aside in {self.set_aside}" if self.set_aside else "still in place"
            parts.append(f"{self.size} bytes that can't be read, {fate}")
        if self.kept:
            messages = "messages verify and were" if self.kept > 1 else "message verifies and was"
            parts.append(f"{self.kept} {messages} kept from them, after a note of what is missing")
        if self.missing:
            lines = "lines are" if self.missing > 1 else "line is"
            parts.append(f"at least {self.missing} {lines} gone from its end")
        if self.set_aside and not (self.size or self.missing):
            parts.append("its end is gone")
        if self.restored:
            parts.append(f"reconstructed in its description: {', '.join(self.restored)}")
        place = f"{self.path}:{self.line}" if self.size or self.missing else self.path
        return f"{place}: {'; '.join(parts)}"


def report_on(
    at: Position, size: int, path: str, set_aside: str = "", *, missing: int = 0
) -> RepairReport:
    """Report `size` bytes at this place that are not a sound line, and how many lines are gone."""
    return RepairReport(path, at.lines + 1, at.size, size, set_aside, missing=missing)


_BLOCK = 64 * 1024
"""Bytes to begin with, some tens of messages; if they don't suffice, twice as many are read."""

_NUMBER = compile_later(rb'\{"n":(\d{1,18}),')


class Page(msgspec.Struct, frozen=True):
    """The last messages of a stored conversation.

    A call without a result is shown as it is: nothing is added.

    Attributes:
        messages: the messages, oldest first.
        lines: the number of each message's line in the history, from 1. A summary has a later line
            than the messages kept after it.
        is_whole: whether the conversation begins with the first of them.
        repair: the torn end of the history, if there is one.
    """

    messages: tuple[Message, ...] = ()
    lines: tuple[int, ...] = ()
    is_whole: bool = True
    repair: RepairReport | None = None


def check_count(count: int) -> None:
    """Check how many messages a page is to hold.

    Raises:
        ValueError: it is less than 1.
    """
    if count < 1:
        raise ValueError(f"a page holds one message or more, not {count}")


def read_backwards(read: Callable[[int, int], bytes], size: int) -> Iterator[bytes]:
    """Read `size` bytes block by block from the end; `read` takes two offsets."""
    for stop in range(size, 0, -_BLOCK):
        yield read(max(stop - _BLOCK, 0), stop)


def read_page(
    blocks: Iterable[bytes], size: int, limit: int, *, session_id: str, path: str
) -> Page:
    """Return the last `limit` messages of a history of `size` bytes.

    It is read block by block from its end, at most twice as far as needed. What is read is
    verified; damage before it goes unnoticed. If a rewind does not say how many messages it left,
    as in version 1 of the format, all of the history is read.

    Raises:
        ValueError: `limit` is less than 1.
        SessionCorruptError: a damaged line is followed by others, or bytes are missing.
        SessionError: a line is of a newer format.
    """
    check_count(limit)
    for data, is_all in _grow_tail(blocks):
        if is_all:
            lines = read_lines(data, session_id=session_id, path=path)
            _check_size(lines, size, session_id=session_id, path=path)
            return _make_page(_all_messages(lines), limit, lines, path)
        tail = _read_tail(data, size, session_id=session_id, path=path)
        messages = None if tail is None else _last_messages(tail, limit + 1)
        if tail is not None and messages is not None:
            return _make_page(messages, limit, tail, path)
    raise AssertionError("the last tail is the whole history")


def _check_size(lines: Lines, size: int, *, session_id: str, path: str) -> None:
    found = lines.end.size + len(lines.torn)
    if found != size:
        problem = f"{size} bytes were stored, and {found} are there"
        raise _corrupt(problem, session_id, path, lines.end)


def _grow_tail(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Join blocks to ever longer tails, each twice as long; the last one is the whole history."""
    parts, length, wanted = list[bytes](), 0, _BLOCK
    for block in blocks:
        parts.append(block)
        length += len(block)
        if length >= wanted:
            parts, wanted = [b"".join(reversed(parts))], 2 * length
            yield parts[0], False
    yield b"".join(reversed(parts)), True


def _read_tail(data: bytes, size: int, *, session_id: str, path: str) -> Lines | None:
    """Read a tail after its first whole line, which only serves to verify the next.

    Returns None if that line may be damaged, or may not be a line.
    """
    start = data.find(b"\n") + 1
    stop = data.find(b"\n", start) + 1
    head = _NUMBER.match(data, start)
    if not (start and stop and head):
        return None
    since = Position(int(head[1]) + 1, size - len(data) + stop, data[start:stop])
    try:
        lines = read_lines(data[stop:], session_id=session_id, path=path, since=since)
    except SessionCorruptError as error:
        if error.line == since.lines + 1:
            return None
        raise
    return lines if lines.entries else None


_NumberedMessages = list[tuple[int, Message]]


def _number_lines(lines: Lines) -> Iterator[tuple[int, Sequence[Entry]]]:
    return enumerate(lines.entries, lines.first)


def _all_messages(lines: Lines) -> _NumberedMessages:
    """Return the whole conversation, each message with its line."""
    found: _NumberedMessages = []
    for line, entries in _number_lines(lines):
        for entry in entries:
            update_values(found, entry, [(line, message) for message in messages_of(entry)])
    return found


def _last_messages(lines: Lines, count: int) -> _NumberedMessages | None:
    """Return the last `count` messages, or all if there are fewer; None if more lines are needed.

    Read backwards, a rewind says how many messages before it no longer count. A compaction or a
    rewrite says how many before it still count, and holds what comes before those.
    """
    found: _NumberedMessages = []
    heads: _NumberedMessages = []
    skipped = 0
    for line, entries in reversed(list(_number_lines(lines))):
        for entry in reversed(entries):
            if isinstance(entry, MessageEntry):
                if skipped:
                    skipped -= 1
                else:
                    found.append((line, entry.message))
            elif isinstance(entry, RewindEntry):
                if entry.left is None:
                    return None
                skipped += entry.left
            elif isinstance(entry, Replacement):
                stays = len(found) + max(entry.keep - skipped, 0)
                if stays < count:
                    end = len(entry.head) - max(skipped - entry.keep, 0)  # the rest was rewound
                    head = entry.head[max(end - (count - stays), 0) : max(end, 0)]
                    heads += [(line, each) for each in head]
                    count = stays
            if len(found) == count:
                return [*heads, *reversed(found)]
    return None


def _make_page(found: _NumberedMessages, count: int, lines: Lines, path: str) -> Page:
    shown = found[-count:]
    torn = report_on(lines.end, len(lines.torn), path) if lines.torn else None
    return Page(
        tuple(message for _, message in shown),
        tuple(line for line, _ in shown),
        len(found) <= count,
        torn,
    )
