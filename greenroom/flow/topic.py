"""`Topic`: publish messages to the mailboxes of all members.

There is no other queue. A publication first goes to every member with room in its mailbox, in one
step of the event loop, so all members get publications in the same order; `when_full` decides about
the others. An agent that has ended is removed with the next publication; a restart under a
supervisor does not end an agent.
"""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Generic, Literal, TypeAlias, TypeVar, cast

import msgspec
import trio

from greenroom.core import ConfigurationError, MailboxFullError
from greenroom.core._internal import EMPTY, Wire, freeze_fields, serde
from greenroom.flow.agent_message import AgentMessage
from greenroom.flow.graph import is_count
from greenroom.runtime import AgentHandle, AgentNotRunningError
from greenroom.runtime._internal import calling_agent

T = TypeVar("T")

WhenFull: TypeAlias = Literal["wait", "drop_oldest", "refuse"]
"""What to do if a member's mailbox has no room for a publication."""


class DeliveryStatus(StrEnum):
    """What became of a publication for one member.

    Attributes:
        DELIVERED: it is in the member's mailbox.
        DROPPED: it was there, until a newer one took its place.
        FULL: there was no room.
        ENDED: the agent has ended.
        LEFT: the member left before there was room.
        CANCELLED: the publisher was cancelled before there was room.
    """

    DELIVERED = "delivered"
    DROPPED = "dropped"
    FULL = "full"
    ENDED = "ended"
    LEFT = "left"
    CANCELLED = "cancelled"


class Delivery(Wire, frozen=True):
    """The members that got a publication, and those that missed it, by session id.

    Attributes:
        number: its number in the topic, from 1.
        delivered: the members that have it in their mailboxes.
        missed: why the others missed it.
    """

    number: int
    delivered: tuple[str, ...] = ()
    missed: dict[str, DeliveryStatus] = cast("dict[str, DeliveryStatus]", EMPTY)

    def __post_init__(self) -> None:
        freeze_fields(self, "missed")


class TopicStatistics(msgspec.Struct, frozen=True):
    """Figures about a topic.

    Attributes:
        published: how many publications there were.
        waiting: how many deliveries wait for room.
        members: for each member by session id, how many publications ended in which way; one that
            was dropped was counted as delivered before.
        former: the same for all who were members, together.
    """

    published: int
    waiting: int
    members: Mapping[str, Mapping[DeliveryStatus, int]]
    former: Mapping[DeliveryStatus, int]


class Topic(Generic[T]):
    """Delivers publications to all members, in the same order and exactly once.

    Members get them as inputs with a sender; an agent does not get its own publications. If an
    agent ends before it reads one, it is in `Outcome.undelivered`.

    Args:
        name: names the topic in the inputs' metadata, next to the `number` of the publication and
            the `message`, which `AgentMessage.of` reads. Two topics that share members need two
            names.
        keep: how many publications `log` holds.
        when_full: what to do if a member's mailbox is full: "wait" for room, which delays the
            publisher after all others have it, and later publishers for this member only;
            "drop_oldest", so that the member misses an older publication of this topic; or
            "refuse", so that it misses this one. The latter two never wait.

    Raises:
        ConfigurationError: the name is empty, `keep` negative, or `when_full` another word.

    Example:
        ```python
        news = Topic[str]("news", when_full="drop_oldest")
        news.join(handle)
        delivery = await news.publish("It rains.", sender="weather")
        print(delivery.delivered, delivery.missed)
        ```
    """

    def __init__(self, name: str, *, keep: int = 100, when_full: WhenFull = "wait") -> None:
        if not name or not is_count(keep, 0) or when_full not in ("wait", "drop_oldest", "refuse"):
            raise ConfigurationError(
                f"Topic({name!r}, keep={keep!r}, when_full={when_full!r}) can't be made",
                hint='give it a name, keep 0 or more, and "wait", "drop_oldest" or "refuse"',
            )
        self.name = name
        self._when_full = when_full
        self._log: deque[AgentMessage] = deque(maxlen=keep)
        self._members: dict[str, _Member] = {}
        self._former = Counter[DeliveryStatus]()
        self._last_number = 0

    def join(self, handle: AgentHandle) -> None:
        """Make an agent a member, if it is not one; it gets all later publications."""
        member = self._members.get(handle.session_id)
        if member is not None and member.handle.state.is_final:
            self._remove(member)  # this handle is of another agent with the same session
        self._members.setdefault(handle.session_id, _Member(handle))

    def leave(self, handle: AgentHandle) -> bool:
        """Remove a member; return whether it was one. It misses publications that wait for room."""
        member = self._members.get(handle.session_id)
        if member is not None:
            self._remove(member)
            for place in member.line:
                place.scope.cancel()
        return member is not None

    @property
    def members(self) -> tuple[AgentHandle, ...]:
        """The members that have not ended, in the order in which they joined."""
        handles = (each.handle for each in self._members.values())
        return tuple(handle for handle in handles if not handle.state.is_final)

    @property
    def log(self) -> tuple[AgentMessage, ...]:
        """The last `keep` publications, the oldest first."""
        return tuple(self._log)

    def statistics(self) -> TopicStatistics:
        """Return figures about the topic."""
        return TopicStatistics(
            published=self._last_number,
            waiting=sum(len(member.line) for member in self._members.values()),
            members={id_: dict(member.counts) for id_, member in self._members.items()},
            former=dict(self._former),
        )

    async def publish(self, content: T | AgentMessage, *, sender: str = "") -> Delivery:
        """Publish to all members, or with an `AgentMessage` to its recipient.

        If this is cancelled while it waits, the members that it waits for miss the publication.

        Args:
            content: a JSON value or a msgspec struct, or a whole message.
            sender: the sender, unless the message names one; by default the name of the calling
                agent, and outside an agent a person.

        Returns:
            The members that got or missed it. With "wait", members miss it only if they ended or
            left; with "drop_oldest", also if their full mailbox has nothing of this topic; with
            "refuse", if it is full.

        Raises:
            InvalidJSONError: the content can't be converted to JSON.
            ValueError: the sender's name is invalid.
        """
        author = calling_agent()
        message = content if isinstance(content, AgentMessage) else AgentMessage(content=content)
        name = message.sender or sender or (author.name if author else "")
        message = msgspec.structs.replace(message, sender=name)  # and a copy of its content
        await trio.lowlevel.checkpoint()
        self._last_number = number = self._last_number + 1
        self._log.append(message)
        members = [
            member
            for session_id, member in self._members.items()
            if not (author and author.session_id == session_id)
            and message.to in ("", session_id, member.handle.name)
        ]
        facts = {"number": number, "message": serde.loads(serde.encode(message))}
        found = await self._deliver(_Publication(message, {"topic": self.name, **facts}), members)
        delivered = tuple(each for each, why in found.items() if why is DeliveryStatus.DELIVERED)
        missed = {each: why for each, why in found.items() if each not in delivered}
        return Delivery(number, delivered, missed)

    async def _deliver(
        self, publication: "_Publication", members: "list[_Member]"
    ) -> dict[str, DeliveryStatus]:
        """Deliver to all members with room, then wait for the others."""
        found: dict[str, DeliveryStatus] = {}
        waits = []
        for member in members:
            status = member.offer(publication, self._when_full)
            if status is None:
                waits.append(partial(self._wait, member, member.join_line(), publication, found))
            else:
                found[member.handle.session_id] = self._count(member, status)
        if waits:
            async with trio.open_nursery() as nursery:
                for wait in waits:
                    nursery.start_soon(wait)
        return found

    async def _wait(
        self,
        member: "_Member",
        place: "_Place",
        publication: "_Publication",
        found: dict[str, DeliveryStatus],
    ) -> None:
        """Wait for the place in the line, then for room."""
        status = DeliveryStatus.CANCELLED
        try:
            with place.scope:
                await place.is_first.wait()
                status = await member.send(publication)
            if place.scope.cancelled_caught:
                status = DeliveryStatus.LEFT
        finally:
            member.leave_line(place)
            found[member.handle.session_id] = self._count(member, status)

    def _count(self, member: "_Member", status: DeliveryStatus) -> DeliveryStatus:
        member.counts[status] += 1
        if status is DeliveryStatus.ENDED:
            self._remove(member)
        return status

    def _remove(self, member: "_Member") -> None:
        """Remove a member, and count its further deliveries among those of former members."""
        if self._members.get(member.handle.session_id) is member:
            del self._members[member.handle.session_id]
            self._former += member.counts
            member.counts = self._former


@dataclass(frozen=True)
class _Publication:
    """A message as an input: with its metadata."""

    message: AgentMessage
    metadata: dict[str, object]


@dataclass(frozen=True, eq=False)
class _Place:
    """A publisher's place in the line before one member."""

    is_first: trio.Event = field(default_factory=trio.Event)
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)


class _Member:
    """An agent that joined."""

    def __init__(self, handle: AgentHandle) -> None:
        self.handle = handle
        self.counts = Counter[DeliveryStatus]()
        # The publishers that wait for room; the first one waits at the mailbox. Without this line,
        # a publication could overtake one that found the mailbox full and does not wait there yet.
        self.line: deque[_Place] = deque()

    def offer(self, publication: _Publication, when_full: WhenFull) -> DeliveryStatus | None:
        """Deliver without waiting; return None if that is impossible."""
        if self.line:
            return None
        topic = publication.metadata["topic"]
        try:
            receipt = self.handle.send_input_nowait(
                publication.message.text,
                sender=publication.message.sender,
                metadata=publication.metadata,
                instead_of=lambda waiting: (
                    when_full == "drop_oldest" and waiting.metadata.get("topic") == topic
                ),
            )
        except AgentNotRunningError:
            return DeliveryStatus.ENDED
        except MailboxFullError:
            return None if when_full == "wait" else DeliveryStatus.FULL
        if receipt.replaced:
            self.counts[DeliveryStatus.DROPPED] += 1
        return DeliveryStatus.DELIVERED

    async def send(self, publication: _Publication) -> DeliveryStatus:
        """Send it once there is room."""
        message = publication.message
        try:
            await self.handle.send_input(
                message.text, sender=message.sender, metadata=publication.metadata
            )
        except AgentNotRunningError:
            return DeliveryStatus.ENDED
        return DeliveryStatus.DELIVERED

    def join_line(self) -> _Place:
        """Take a place at the end of the line."""
        self.line.append(_Place())
        self.line[0].is_first.set()
        return self.line[-1]

    def leave_line(self, place: _Place) -> None:
        """Give a place up, wherever in the line it is."""
        self.line.remove(place)
        if self.line:
            self.line[0].is_first.set()
