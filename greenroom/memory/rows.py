"""Read, write and remove entries: checksums, counts and limits."""

import hashlib
import math
import sqlite3
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import msgspec

from greenroom.core._internal import cache_short, new_id, serde, valid_unicode
from greenroom.memory import word_index
from greenroom.memory.database import WORDS, Totals, read_keys
from greenroom.memory.memory_protocol import Entry, EntryOrigin, MetadataValue
from greenroom.memory.word_index import words


class About(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored fields and metadata of an entry; `where` is compared with them."""

    origin: EntryOrigin = EntryOrigin.PROGRAM
    session_id: str = ""
    turn: int = 0
    metadata: dict[str, MetadataValue] = {}


_SIZE = "ifnull(length(CAST(id || text || about || words AS BLOB)), 0)"
_LARGEST = 1 << 20  # bytes of one entry: no text, with its words, takes more

_LATEST = (1 << 63) - 1  # the largest number that SQLite keeps

_MAX_METADATA = 4_096  # bytes of it as JSON

FIELDS = frozenset(About.__struct_fields__) - {"metadata"}


def make_about(metadata: Mapping[str, MetadataValue]) -> About:
    """Split keyword arguments into fields and metadata.

    Raises:
        ValueError: a value has the wrong type, or the metadata is too long.
    """
    values = _check_metadata(metadata)
    fields: dict[str, object] = {name: values.pop(name) for name in FIELDS & values.keys()}
    try:
        about = serde.convert(fields | {"metadata": values}, About)
    except msgspec.ValidationError as error:
        raise ValueError(f"this can't be stored with an entry: {error}") from error
    if about.turn < 0 or len(serde.encode(about)) > _MAX_METADATA:
        raise ValueError("a turn is 0 or more, and metadata at most 4 KB of JSON")
    return about


def _check_metadata(values: Mapping[str, MetadataValue]) -> dict[str, MetadataValue]:
    """Return them with valid Unicode, and enums as plain strings."""
    checked: dict[str, MetadataValue] = {}
    for name, value in values.items():
        is_finite = not isinstance(value, float) or math.isfinite(value)
        is_short = not isinstance(value, int) or abs(value) < 1 << 63
        if not (isinstance(value, str | int | float | None) and is_finite and is_short):
            raise ValueError(
                f"{name}={value!r}: metadata are texts, finite numbers of 64 bits, booleans or None"
            )
        checked[valid_unicode(name)] = (
            valid_unicode(str(value)) if isinstance(value, str) else value
        )
    return checked


def encode_filter(where: Mapping[str, MetadataValue]) -> str:
    """Encode a filter for `fits`; empty if everything fits.

    Raises:
        ValueError: it holds what metadata can't.
    """
    return serde.encode(_check_metadata(where)).decode() if where else ""


def fits(about: bytes | None, where: str) -> bool:
    """Whether an entry's fields and metadata have all these values; called by SQL, see `FITS`.

    Example:
        >>> fits(b'{"origin":"tool","metadata":{"topic":"pets"}}', '{"topic":"pets"}')
        True
    """
    try:
        found = serde.decode(about or b"", About)
    except serde.InvalidJSONError:
        return False  # a damaged row; reading it will find that
    for name, value in _decode_filter(where).items():
        theirs = getattr(found, name) if name in FIELDS else found.metadata.get(name)
        if theirs != value or isinstance(theirs, bool) != isinstance(value, bool):
            return False
    return True


@cache_short(64)
def _decode_filter(where: str) -> dict[str, MetadataValue]:
    return serde.decode(where, dict[str, MetadataValue])


def add(connection: sqlite3.Connection, text: str, about: About, moment: datetime) -> str:
    """Write an entry and index its words; return its id."""
    entry_id, created = new_id("e"), int(moment.timestamp())
    split = words(text)
    row = (entry_id, text, serde.encode(about).decode(), _add_blanks(split), created)
    cursor = connection.execute(
        "INSERT INTO entries (id, text, about, words, created, checksum, used)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*row, _checksum(*row), _next_use(connection, moment)),
    )
    size = sum(len(part.encode()) for part in row[:4] if isinstance(part, str))
    word_index.add_words(connection, cursor.lastrowid or 0, split)
    _count(connection, 1, size, len(split))
    return entry_id


def read(connection: sqlite3.Connection, key: int) -> Entry | None:
    """Read an entry; None if its row is damaged or missing."""
    row = connection.execute(
        "SELECT id, text, about, words, created, checksum FROM entries WHERE key = ?", (key,)
    ).fetchone()
    if row is None or _checksum(*row[:-1]) != row[-1]:
        return None
    entry_id, text, about, _, created, _ = row
    beside = serde.decode(about, About)
    return Entry(
        id=entry_id,
        text=text,
        origin=beside.origin,
        session_id=beside.session_id,
        turn=beside.turn,
        created_at=datetime.fromtimestamp(created, UTC),
        metadata=beside.metadata,
    )


def remove(connection: sqlite3.Connection, keys: Iterable[int]) -> int:
    """Remove entries and their vectors and index rows; return how many existed."""
    removed = 0
    for key in keys:
        query = f"SELECT {WORDS}, {_SIZE} FROM entries WHERE key = ?"  # noqa: S608
        row = connection.execute(query, (key,)).fetchone()
        if row is None:
            continue
        split = row[0].split()
        word_index.remove_words(connection, key, split)
        connection.execute("DELETE FROM vectors WHERE key = ?", (key,))
        connection.execute("DELETE FROM entries WHERE key = ?", (key,))
        _count(connection, -1, -row[1], -len(split))
        removed += 1
    return removed


def set_aside(connection: sqlite3.Connection, keys: Iterable[int], moment: datetime) -> int:
    """Move damaged rows to the table `damaged`; return how many."""
    bad = [key for key in keys if _is_damaged(connection, key)]
    for key in bad:
        connection.execute(
            "INSERT INTO damaged (id, text, about, found)"
            " SELECT id, text, about, ? FROM entries WHERE key = ?",
            (int(moment.timestamp()), key),
        )
    return remove(connection, bad)


def evict(connection: sqlite3.Connection, most: int, most_bytes: int) -> int:
    """Remove the least recently used entries until the rest fits."""
    stored = _read_totals(connection)
    if stored is None or stored.entries > most + 1 or stored.bytes > most_bytes + _LARGEST:
        # One entry can't exceed the limits by that much: a damaged total must not evict everything.
        _recount(connection)
    removed = 0
    while True:
        totals = read_totals(connection)
        if totals.entries <= most and totals.bytes <= most_bytes:
            return removed
        excess = max(totals.entries - most, 1)
        oldest = "SELECT key FROM entries ORDER BY used, key LIMIT ?"
        removed += (gone := remove(connection, read_keys(connection, oldest, excess)))
        if not gone:
            return removed


def mark_used(connection: sqlite3.Connection, keys: Iterable[int], moment: datetime) -> None:
    """Note that these entries were recalled, so that others are evicted first."""
    used = _next_use(connection, moment)
    connection.executemany("UPDATE entries SET used = ? WHERE key = ?", ((used, k) for k in keys))


def _next_use(connection: sqlite3.Connection, moment: datetime) -> int:
    """Return the time of a use, later than all others even if the clock was set back since then."""
    query = "SELECT ifnull(CAST(max(used) AS INTEGER), 0) FROM entries"
    (last,) = connection.execute(query).fetchone()
    return min(max(int(moment.timestamp()), int(last) + 1), _LATEST)


def read_totals(connection: sqlite3.Connection) -> Totals:
    """Read the totals, in constant time unless they are damaged."""
    return _read_totals(connection) or _count_rows(connection)


def _read_totals(connection: sqlite3.Connection) -> Totals | None:
    found = dict(connection.execute("SELECT name, value FROM totals").fetchall())
    try:
        return serde.convert(found, Totals)
    except msgspec.ValidationError:
        return None


def _count_rows(connection: sqlite3.Connection) -> Totals:
    sums = (
        f"count(*), total({_SIZE}), total(length({WORDS}) - length(replace({WORDS}, ' ', ''))) / 2"
    )
    return Totals(*map(int, connection.execute(f"SELECT {sums} FROM entries").fetchone()))  # noqa: S608


def rebuild_index(connection: sqlite3.Connection) -> int:
    """Rebuild the word index and the totals from the entries; return how many there are."""
    _recount(connection)
    return word_index.rebuild(connection)


def _recount(connection: sqlite3.Connection) -> None:
    totals = msgspec.to_builtins(_count_rows(connection))
    connection.executemany("INSERT OR REPLACE INTO totals VALUES (?, ?)", totals.items())


def clear(connection: sqlite3.Connection) -> int:
    """Remove everything; return how many entries there were."""
    (entries,) = connection.execute("SELECT count(*) FROM entries").fetchone()
    connection.execute("INSERT INTO word_index (word_index) VALUES ('delete-all')")
    for table in ("counts", "vectors", "entries", "damaged"):
        connection.execute(f"DELETE FROM {table}")  # noqa: S608
    _recount(connection)
    return int(entries)


def _count(connection: sqlite3.Connection, entries: int, size: int, length: int) -> None:
    changes = (("entries", entries), ("bytes", size), ("words", length))
    connection.executemany(
        "UPDATE totals SET value = max(value + ?, 0) WHERE name = ?",
        ((change, name) for name, change in changes),
    )


def _add_blanks(split: list[str]) -> str:
    """Join words with a blank on both sides of each, so that `" word "` can be counted."""
    return "".join(f" {word} " for word in split)


def _is_damaged(connection: sqlite3.Connection, key: int) -> bool:
    there = connection.execute("SELECT 1 FROM entries WHERE key = ?", (key,)).fetchone()
    return there is not None and read(connection, key) is None


def _checksum(*parts: object) -> bytes:
    """Return a row's checksum; it covers lengths, so that text can't move between parts."""
    summed = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = str(part).encode(errors="replace")
        summed.update(len(data).to_bytes(8, "big") + data)
    return summed.digest()
