"""The end of a conversation, found from the end of its history without reading the rest."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from greenroom.core import Message, SessionCorruptError
from greenroom.session.history.entry import Entry, MessageEntry, Replacement, RewindEntry
from greenroom.session.history.lines import Lines, Position, read_lines
from greenroom.session.repair import RepairReport, report_on

_BLOCK = 64 * 1024
"""Bytes to begin with: some tens of messages. Where they don't do, twice as many are read."""

_HEAD = re.compile(rb'\{"n":(\d{1,18}),')


class Page(msgspec.Struct, frozen=True):
    """The last messages of a conversation as it stands in the store.

    A call without a result is shown as it is: nothing is added.

    Attributes:
        messages: the messages, oldest first.
        lines: for each, in which line of the history it stands, from 1; lines only grow.
        is_whole: whether the conversation begins with the first of them.
        repair: what was found torn at the history's end; None where all is well.
    """

    messages: tuple[Message, ...] = ()
    lines: tuple[int, ...] = ()
    is_whole: bool = True
    repair: RepairReport | None = None


def check_count(count: int) -> int:
    """See that a page is to hold something.

    Raises:
        ValueError: it is not.
    """
    if count < 1:
        raise ValueError(f"a page holds one message or more, not {count}")
    return count


def backwards(read: Callable[[int, int], bytes], size: int) -> Iterator[bytes]:
    """Read so many bytes block by block from their end; `read` takes two offsets."""
    for stop in range(size, 0, -_BLOCK):
        yield read(max(stop - _BLOCK, 0), stop)


def read_page(
    blocks: Iterable[bytes], size: int, count: int, *, session_id: str, path: str
) -> Page:
    """Return the last `count` messages of a history of `size` bytes.

    It is read block by block from its end, and no further than it takes, or twice as far. What is
    read is verified; damage in front of it is not seen. A rewind that does not say how many messages
    it left, as in version 1 of the format, takes reading all.

    Raises:
        ValueError: `count` is less than 1.
        SessionCorruptError: a damaged line is followed by others, or bytes are missing.
        SessionError: a line is of a newer format.
    """
    check_count(count)
    for data, is_all in _ends(blocks):
        if is_all:
            lines = read_lines(data, session_id=session_id, path=path)
            _check_size(lines, size, session_id=session_id, path=path)
            return _page(_whole(lines), count, lines, path)
        tail = _tail(data, size, session_id=session_id, path=path)
        said = None if tail is None else _last(tail, count + 1)
        if tail is not None and said is not None:
            return _page(said, count, tail, path)
    raise AssertionError("the last of the ends is all of it")


def _check_size(lines: Lines, size: int, *, session_id: str, path: str) -> None:
    found = lines.end.size + len(lines.torn)
    if found != size:
        line = lines.end.lines + 1
        raise SessionCorruptError(
            f"{path}:{line}: {size} bytes were stored, and {found} are there",
            session_id=session_id,
            path=path,
            line=line,
        )


def _ends(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Join blocks to ever longer ends, each twice as long; the last one is all there is."""
    parts, length, wanted = list[bytes](), 0, _BLOCK
    for block in blocks:
        parts.append(block)
        length += len(block)
        if length >= wanted:
            parts, wanted = [b"".join(reversed(parts))], 2 * length
            yield parts[0], False
    yield b"".join(reversed(parts)), True


def _tail(data: bytes, size: int, *, session_id: str, path: str) -> Lines | None:
    """Read an end behind its first whole line, which only serves to verify the next.

    Returns None where that does not tell: it may be no line, or damaged itself.
    """
    start = data.find(b"\n") + 1
    stop = data.find(b"\n", start) + 1
    head = _HEAD.match(data, start)
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


_Said = list[tuple[int, Message]]


def _numbered(lines: Lines) -> Iterator[tuple[int, Sequence[Entry]]]:
    return enumerate(lines.entries, lines.first)


def _whole(lines: Lines) -> _Said:
    """Return the whole conversation, each message with its line."""
    said: _Said = []
    for line, entries in _numbered(lines):
        for entry in entries:
            if isinstance(entry, MessageEntry):
                said.append((line, entry.message))
            elif isinstance(entry, RewindEntry):
                del said[entry.to :]
            elif isinstance(entry, Replacement):
                said[: max(len(said) - entry.keep, 0)] = [(line, each) for each in entry.head]
    return said


def _last(lines: Lines, count: int) -> _Said | None:
    """Return the last `count` messages, or fewer if there are no more; None if that takes more lines.

    Going back in time, a rewind says how many of the messages before it no longer count, and a
    compaction or a rewrite how many before it still do, and what comes before those.
    """
    found: _Said = []
    heads: _Said = []
    skipped = 0
    for line, entries in reversed(list(_numbered(lines))):
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
                    end = len(entry.head) - max(skipped - entry.keep, 0)  # the rest was left
                    head = entry.head[max(end - (count - stays), 0) : max(end, 0)]
                    heads += [(line, each) for each in head]
                    count = stays
            if len(found) == count:
                return [*heads, *reversed(found)]
    return None


def _page(said: _Said, count: int, lines: Lines, path: str) -> Page:
    shown = said[-count:]
    torn = report_on(lines.end, len(lines.torn), path) if lines.torn else None
    return Page(
        tuple(message for _, message in shown),
        tuple(line for line, _ in shown),
        len(said) <= count,
        torn,
    )
