"""The `Memory` protocol and its values.

A memory keeps short texts across sessions and finds those that fit a question. Each entry says
whose words it holds, because a model that reads it later can't tell: a request in a web page must
never come back as a wish of the user.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol, TypeAlias, runtime_checkable

import msgspec

from greenroom.core import GreenroomError, utc_now
from greenroom.core._internal import freeze_fields, serde, valid_unicode

MetadataValue: TypeAlias = str | int | float | bool | None
"""A value in an entry's metadata, or in a `where` that it is compared with."""


_LONGEST = 64_000  # characters of an entry
_LONGEST_QUERY = 8_000  # characters of a question that are looked at
_MOST_RECALLED = 200  # entries that a question finds


def check_text(text: str) -> str:
    """Return the text of an entry, as valid Unicode.

    Raises:
        TypeError: it is not a text.
        ValueError: it is blank or too long.
    """
    if not isinstance(text, str):
        raise TypeError(f"an entry is a text, not {text!r:.200}")
    if not text.strip() or len(text) > _LONGEST:
        raise ValueError(f"an entry has 1 to {_LONGEST:,} characters, not {len(text):,}")
    return valid_unicode(text)


def check_query(query: str, limit: int) -> str:
    """Return what is looked at of a question, as valid Unicode.

    Raises:
        TypeError: it is not a text.
        ValueError: the limit is not a number of entries.
    """
    if not isinstance(query, str):
        raise TypeError(f"a query is a text, not {query!r:.200}")
    if not isinstance(limit, int) or not 1 <= limit <= _MOST_RECALLED:
        raise ValueError(f"the limit is 1 to {_MOST_RECALLED} entries, not {limit!r}")
    return valid_unicode(query[:_LONGEST_QUERY])


class MemoryStorageError(GreenroomError):
    """A file of memories can't be read or written; nothing that was acknowledged is lost."""

    remedy = "make room, or check the file, its disk and its permissions"


class EntryOrigin(StrEnum):
    """Whose words an entry holds.

    Attributes:
        USER: a person's, verbatim.
        AGENT: the model's own, such as a summary or a conclusion.
        TOOL: a tool's output: a file, a web page, a command's output. Never an instruction.
        PROGRAM: added by the application; the default.
    """

    USER = "user"
    AGENT = "agent"
    TOOL = "tool"
    PROGRAM = "program"


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One text that a memory keeps.

    Attributes:
        id: names the entry in its memory, for `forget`.
        text: the text, unchanged.
        origin: whose words it holds.
        session_id: the session that it comes from, if any.
        turn: the number of the turn in that session, from 1; 0 without a session.
        created_at: when it was added, aware and in UTC, to the second.
        metadata: other values from the caller.
    """

    id: str
    text: str
    origin: EntryOrigin = EntryOrigin.PROGRAM
    session_id: str = ""
    turn: int = 0
    created_at: datetime
    metadata: dict[str, MetadataValue] = {}

    def __post_init__(self) -> None:
        freeze_fields(self, "metadata")

    @classmethod
    def of(cls, id: str, text: str, /, **metadata: MetadataValue) -> "Entry":  # noqa: A002
        """Make the entry of what `Memory.add` was given, as added now.

        `origin`, `session_id` and `turn` become its fields, all else its metadata.

        Raises:
            ValueError: one of the three has a wrong value.
        """
        names = ("origin", "session_id", "turn")
        fields = {name: metadata.pop(name) for name in names if name in metadata}
        known = {"origin": "program", **fields, "metadata": metadata}
        about = {"id": id, "text": text, "created_at": utc_now(), **known}
        try:
            return serde.convert(about, cls)
        except msgspec.ValidationError as error:
            raise ValueError(f"this is not an entry: {error}") from error


class Recalled(msgspec.Struct, frozen=True):
    """An entry that fits a question.

    Attributes:
        entry: the entry.
        score: how well it fits, from 0 to 1, comparable within one answer.
    """

    entry: Entry
    score: float


@runtime_checkable
class Memory(Protocol):
    """Texts that outlive their conversation; any object of this shape is one.

    Every method may be called by many tasks at the same time, and may raise a `GreenroomError`. A
    method that is cancelled has done its work completely or not at all.

    Example:
        >>> import trio
        >>> from greenroom.memory.sqlite_memory import SQLiteMemory
        >>> async def main():
        ...     memory = SQLiteMemory()
        ...     await memory.add("Ann's dog is called Rex.", origin="user", topic="pets")
        ...     [dog] = await memory.recall("what is the dog's name?", where={"topic": "pets"})
        ...     return dog.entry.text, dog.entry.origin.value
        >>> trio.run(main)
        ("Ann's dog is called Rex.", 'user')
    """

    async def add(self, text: str, /, **metadata: MetadataValue) -> str:
        """Keep a text; return the id of its entry. It is durable when this returns.

        `origin`, `session_id` and `turn` become fields of the entry, all else its metadata.

        Raises:
            ValueError: the text is blank or too long, or the metadata can't be kept.
        """

    async def recall(
        self,
        query: str,
        *,
        limit: int = 5,
        threshold: float = 0.0,
        where: Mapping[str, MetadataValue] | None = None,
    ) -> Sequence[Recalled]:
        """Find the entries that fit a question, the best first.

        Args:
            query: the question, in any words.
            limit: the most entries to return.
            threshold: the lowest score to return.
            where: fields and metadata that an entry must have, each equal to the value given here.
        """

    async def forget(self, id: str, /) -> bool:  # noqa: A002
        """Remove an entry for good; return whether it existed."""

    async def clear(self, **where: MetadataValue) -> int:
        """Remove all entries with these fields and metadata, or all; return how many."""


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors that are close together if the texts are similar.

    It is optional: without it, or when it fails, a memory finds entries by their words.
    """

    @property
    def name(self) -> str:
        """Names model and version: only vectors of the same name are compared."""

    async def embed(self, texts: Sequence[str], /) -> Sequence[Sequence[float]]:
        """Return a vector for each text, all of the same length, in the order of the texts.

        Raises:
            ModelBadRequestError: it refuses one of the texts; the memory finds out which, and goes
                on without that vector. `ModelContextTooLongError` means the same.
            GreenroomError: it failed; the memory goes on without vectors.
        """
