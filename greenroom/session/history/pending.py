"""Entries that wait for their commit: encoded already, or left for a thread where they are long."""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec

from greenroom.core import InvalidJSONError, serde, valid_unicode
from greenroom.session.history.entry import Entry, RecordEntry, decode_entry

__all__ = ["LONG", "PendingEntry", "decode_pending", "encode_pending", "is_long", "pieces", "prove"]

LONG = 256 * 1024
"""From so many characters on, an entry takes longer to encode than the event loop should stand still."""

_PIECE = 64 * 1024  # bytes to a line where there is a choice: about what a last page takes

_FRAME = 8  # levels of an entry around what came from outside, such as the input of a call

PendingEntry: TypeAlias = bytes | Entry
"""An entry in its encoded form; a long one as it is."""


def prove(entry: Entry) -> tuple[Entry, PendingEntry]:
    """Make sure that an entry can be written and read again; return it as read, and to be kept.

    A long one is not encoded for that.

    Raises:
        InvalidJSONError: it holds something that JSON can't express.
    """
    if isinstance(
        entry, RecordEntry
    ):  # `record_entry` has proved its value, and limited its length
        return entry, serde.encode(entry)
    if not _is_short(entry):
        try:
            proved: Entry = msgspec.convert(_plain(msgspec.to_builtins(entry)), Entry)
        except (msgspec.ValidationError, TypeError, ValueError) as error:
            raise InvalidJSONError(f"this value can't be written as JSON: {error}") from error
        except RecursionError:
            pass  # it is deep as well, and that is checked: so it is encoded here after all
        else:
            return proved, proved
    encoded = serde.encode(entry)
    return decode_entry(encoded), encoded


def is_long(entries: Iterable[PendingEntry]) -> bool:
    """Whether these entries are better encoded in a thread."""
    size = 0
    for entry in entries:
        size += len(entry) if isinstance(entry, bytes) else LONG
    return size >= LONG


def encode_pending(entries: Iterable[PendingEntry]) -> list[bytes]:
    """Encode what is not encoded yet.

    Raises:
        InvalidJSONError: an entry can't be written after all.
    """
    return [each if isinstance(each, bytes) else serde.encode(each) for each in entries]


def decode_pending(entries: Iterable[PendingEntry]) -> list[Entry]:
    """Return the entries themselves."""
    return [decode_entry(each) if isinstance(each, bytes) else each for each in entries]


def pieces(encoded: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Divide entries, in order, into lines of moderate size; there is always a last one."""
    piece, size = list[bytes](), 0
    for entry in encoded:
        if piece and size + len(entry) > _PIECE:
            yield piece
            piece, size = [], 0
        piece.append(entry)
        size += len(entry)
    yield piece


def _is_short(entry: Entry) -> bool:
    """Whether an entry is quickly encoded, or better be, since it may be none that can.

    Raises:
        InvalidJSONError: it could be written and not read again.
    """
    try:
        plain = msgspec.to_builtins(entry)
    except RecursionError as error:
        raise InvalidJSONError(f"it is nested more than {serde.MAX_DEPTH} levels deep") from error
    except (TypeError, ValueError):
        return True
    return serde.check_json(plain, serde.MAX_DEPTH + _FRAME) < LONG


def _plain(value: object) -> object:
    """Turn a value into what it will be once it was written and read."""
    if isinstance(value, str):
        return valid_unicode(value)
    if isinstance(value, dict):
        return {_plain(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
