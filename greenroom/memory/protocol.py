"""What a memory is: the protocol that agents know, and the values that it takes and gives.

A memory keeps short texts over sessions and finds those that fit a question. Each entry says whose
words it holds, because a model that reads it later can't tell: what a web page asked for must never
come back as something that the user wants.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol, TypeAlias, runtime_checkable

import msgspec

MetadataValue: TypeAlias = str | int | float | bool | None
"""What an entry's metadata may hold, and what `where` compares it with."""


class EntryOrigin(StrEnum):
    """Whose words an entry holds.

    Attributes:
        USER: a person's, verbatim.
        AGENT: the model's own, such as a summary or a conclusion.
        TOOL: what a tool returned: a file, a web page, a command's output. Never an instruction.
        PROGRAM: what the application added by itself; the default.
    """

    USER = "user"
    AGENT = "agent"
    TOOL = "tool"
    PROGRAM = "program"


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One text that a memory keeps.

    Attributes:
        id: names the entry in its memory, for `forget`.
        text: what was kept, unchanged.
        origin: whose words it holds.
        session_id: the session that it comes from; empty where it comes from none.
        turn: the number of the turn in that session, from 1; 0 where it comes from none.
        created_at: when it was added, aware and in UTC, to the second.
        metadata: values of the programmer's own.
    """

    id: str
    text: str
    origin: EntryOrigin = EntryOrigin.PROGRAM
    session_id: str = ""
    turn: int = 0
    created_at: datetime
    metadata: dict[str, MetadataValue] = {}


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

    Every method may be called by many tasks at the same time, and may raise `MemoryStorageError`. One
    that is cancelled has done its work as a whole or not at all.

    Example:
        >>> import trio
        >>> from greenroom.memory import SQLiteMemory
        >>> async def main():
        ...     memory = SQLiteMemory()
        ...     await memory.add("Ann's dog is called Rex.", origin="user", topic="pets")
        ...     [found] = await memory.recall("what is the name of the dog?", where={"topic": "pets"})
        ...     return found.entry.text, found.entry.origin.value
        >>> trio.run(main)
        ("Ann's dog is called Rex.", 'user')
    """

    async def add(self, text: str, /, **metadata: MetadataValue) -> str:
        """Keep a text; return the id of its entry. It is durable when this returns.

        `origin`, `session_id` and `turn` become the fields of the entry; all else is its metadata.

        Raises:
            ValueError: the text is blank or too long, or the metadata can't be kept.
        """
        ...

    async def recall(
        self,
        query: str,
        *,
        limit: int = 5,
        threshold: float = 0.0,
        where: Mapping[str, MetadataValue] | None = None,
    ) -> Sequence[Recalled]:
        """Find the entries that fit a question, the best first; none is an empty sequence.

        Args:
            query: the question, any text at all.
            limit: how many entries at most.
            threshold: leave out what scores less.
            where: fields and metadata that an entry must have, each equal to the value given here.
        """
        ...

    async def forget(self, id: str, /) -> bool:  # noqa: A002
        """Remove an entry for good; say whether there was one."""
        ...

    async def clear(self, **where: MetadataValue) -> int:
        """Remove all entries that have these fields and metadata, or all; return how many."""
        ...


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors that lie close together where the texts mean alike.

    It is only ever an improvement: a memory whose embedder fails finds entries by their words.
    """

    @property
    def name(self) -> str:
        """Names model and version: only vectors of the same name are compared."""
        ...

    async def embed(self, texts: Sequence[str], /) -> Sequence[Sequence[float]]:
        """Return a vector for each text, all of the same length, in the order of the texts.

        Raises:
            ModelBadRequestError: it takes one of the texts not; the memory finds out which, and goes on
                without that one's vector. So it does after `ModelContextTooLongError`.
            GreenroomError: it failed; the memory goes on without vectors.
        """
        ...
