"""`SharedTopic` and `SharedBlackboard`: what agents on several hosts share."""

import hashlib
from datetime import UTC, datetime
from functools import partial
from typing import cast

import msgspec
import trio

from greenroom.core._internal import check_session_id, new_id, serde
from greenroom.distributed import shared_tables as tables
from greenroom.distributed.agent_types import check_names
from greenroom.distributed.links import Links
from greenroom.distributed.mailbox import LONGEST, Letter
from greenroom.distributed.remote_agent import RemoteAgent
from greenroom.flow import AgentMessage
from greenroom.flow._internal import (
    BlackboardEntry as Entry,
    BlackboardFullError,
    Delivery,
    DeliveryStatus,
)
from greenroom.runtime._internal import calling_agent, user_input

_LONGEST = 200_000  # bytes of a value
_LONGEST_NAME = 100
_NUMBER = -1  # stands for the number of a publication until that is known


class SharedTopic:
    """Delivers publications to agents on hosts, in the same order and exactly once.

    Members get them as inputs in their mailboxes, stored in one transaction, with the facts that
    `AgentMessage.of` reads; an agent does not get its own. One that has ended is removed. Made by
    `Cluster.topic`; the name is all it is, so any program, and any agent, may have one.

    Example:
        ```python
        news = cluster.topic("news")
        await news.join(agent)
        delivery = await news.publish("It rains.", sender="weather", id="rain-1")
        ```
    """

    def __init__(self, name: str, links: Links) -> None:
        """Made by `Cluster`.

        Raises:
            ValueError: the name is not printable, or longer than 100 characters.
        """
        check_names([name])
        if len(name) > _LONGEST_NAME:
            raise ValueError(f"the name of a topic has at most {_LONGEST_NAME} characters")
        self.name = name
        self._links = links

    def __repr__(self) -> str:
        return f"<SharedTopic {self.name!r}>"

    async def join(self, agent: RemoteAgent | str) -> None:
        """Make an agent a member, given itself or its session; it gets what comes from then on.

        Raises:
            InvalidSessionIdError: the id is not valid.
            SessionStorageError: the database refused, or was away for too long.
        """
        id_ = _id_of(agent)
        await self._links.database.run(lambda each: tables.join_topic(each, self.name, id_))

    async def leave(self, agent: RemoteAgent | str) -> bool:
        """Remove a member; return whether it was one. What is in its mailbox stays there.

        Raises:
            InvalidSessionIdError: the id is not valid.
            SessionStorageError: the database refused, or was away for too long.
        """
        id_ = _id_of(agent)
        return await self._links.database.run(lambda each: tables.leave_topic(each, self.name, id_))

    async def members(self) -> tuple[str, ...]:
        """Return the sessions of the members.

        Raises:
            SessionStorageError: the database refused, or was away for too long.
        """
        return await self._links.database.run(lambda each: tables.read_members(each, self.name))

    async def publish(
        self,
        content: object,
        *,
        sender: str = "",
        id: str | None = None,  # noqa: A002 (the field's word for it)
    ) -> Delivery:
        """Publish to all members, or with an `AgentMessage` to its recipient, a session or a type.

        It is stored for each of them when this returns; a member whose mailbox is full misses it.

        Args:
            content: a JSON value or a msgspec struct, or a whole message.
            sender: the sender, unless the message names one; by default the name of the calling
                agent, and outside an agent a person.
            id: the publication's id, if it may have to be sent again: it is published once.

        Returns:
            Its number, and the members that got or missed it.

        Raises:
            InvalidJSONError: the content can't be converted to JSON.
            ValueError: the sender's name is invalid, the id names another publication, or it has
                more than 16 MB.
            SessionStorageError: the database refused, or was away for too long; published again
                under its id, it is published once.
        """
        author = calling_agent()
        message = content if isinstance(content, AgentMessage) else AgentMessage(content=content)
        name = message.sender or sender or (author.name if author else "")
        message = msgspec.structs.replace(message, sender=name)
        bodies = _write_letter(self.name, message)
        said = serde.encode(msgspec.structs.replace(message, at=datetime.fromtimestamp(0, UTC)))
        publication = tables.Publication(
            self.name,
            id or new_id("p"),
            hashlib.sha256(said).digest(),
            author.session_id if author else None,
            message.to,
        )
        found = await self._links.database.run(
            lambda each: tables.publish(each, publication, bodies)
        )
        if found is None:
            raise ValueError(f"the publication {id!r} was sent before, with other content")
        async with trio.open_nursery() as nursery:
            for member in found.delivered:
                nursery.start_soon(partial(self._links.poke, member))
        missed = {each: DeliveryStatus(why) for each, why in found.missed.items()}
        return Delivery(found.number, found.delivered, missed)


def _write_letter(topic: str, message: AgentMessage) -> list[bytes]:
    """Write what members get, in two parts around the publication's number."""
    told = serde.loads(serde.encode(message))
    facts = {"topic": topic, "message": told, "number": _NUMBER}
    made = user_input(message.text, message.sender, facts)
    written = serde.encode(Letter(tuple(made.content), message.sender, dict(made.metadata)))
    if len(written) > LONGEST:
        raise ValueError(
            f"a publication has at most {LONGEST >> 20} MB, not {len(written):,} bytes"
        )
    before, _, after = written.rpartition(str(_NUMBER).encode())
    return [before, after]


def _id_of(agent: RemoteAgent | str) -> str:
    return agent.session_id if isinstance(agent, RemoteAgent) else check_session_id(agent)


class SharedBlackboard:
    """Keeps JSON values by name for agents on several hosts, with compare-and-set.

    A value is stored when `put` returns. At most 1,000 keys; each value has at most 200,000 bytes.
    Made by `Cluster.blackboard`.

    Example:
        ```python
        board = cluster.blackboard("rainfall")
        entry = await board.put("2025", 940, 0, author="researcher")
        await board.put("2025", 950, entry.version, author="editor")
        ```
    """

    def __init__(self, name: str, links: Links) -> None:
        """Made by `Cluster`.

        Raises:
            ValueError: the name is not printable.
        """
        check_names([name])
        self.name = name
        self._links = links

    def __repr__(self) -> str:
        return f"<SharedBlackboard {self.name!r}>"

    async def get(self, key: str) -> Entry | None:
        """Return the entry, or None if the key was never written.

        Raises:
            SessionStorageError: the database refused, or was away for too long.
        """
        found = await self._read(key)
        return found[0] if found else None

    async def entries(self) -> tuple[Entry, ...]:
        """Return all entries, by their keys.

        Raises:
            SessionStorageError: the database refused, or was away for too long.
        """
        return await self._read(None)

    async def _read(self, key: str | None) -> tuple[Entry, ...]:
        found = await self._links.database.run(
            lambda each: tables.read_values(each, self.name, key)
        )
        return tuple(
            Entry(each.key, serde.loads(each.value), each.version, each.author, _in_utc(each.at))
            for each in found
        )

    async def put(self, key: str, value: object, version: int, *, author: str = "") -> Entry:
        """Write a value, unless another one was written since it was read.

        If several write with the same version, exactly one succeeds, whichever hosts they are on;
        so a key can be used to claim a task.

        Args:
            key: its name.
            value: any JSON value.
            version: the version of the entry that it replaces, 0 for a new key.
            author: the author, by default the name of the calling agent.

        Raises:
            StaleWriteError: the key has another version; nothing was written.
            BlackboardFullError: the board has 1,000 keys, or the value is too long.
            InvalidJSONError: the value can't be converted to JSON.
            ValueError: the key is not printable.
            SessionStorageError: the database refused, or was away for too long.
        """
        check_names([key])
        plain = serde.plain(value, f"the value of {key!r}")
        if not author and (caller := calling_agent()):
            author = caller.name
        written = serde.encode(plain)
        if len(written) > _LONGEST:
            raise BlackboardFullError(
                f"the value of {key!r} has {len(written):,} bytes of {_LONGEST:,}"
            )
        token, given = new_id("w"), tables.Value(key, version, written, author, None)
        now, at = await self._links.database.run(
            lambda each: tables.write_value(each, self.name, given, token)
        )
        return Entry(key, plain, now, author, _in_utc(at))


def _in_utc(at: object) -> datetime:
    return cast("datetime", at).astimezone(UTC)
