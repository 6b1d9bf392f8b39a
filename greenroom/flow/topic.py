"""`Topic`: publish messages to the mailboxes of all members.

There is no other queue. A publication first goes to every member with room in its mailbox, in one
step of the event loop, so all members get publications in the same order. The topic's `when_full`
decides what happens without room:

- "refuse": the member misses it.
- "drop_oldest": the publication replaces the oldest one of this topic in that mailbox.
- "wait": the publisher waits, and later publishers line up behind it, for this member only.

If a publisher is cancelled while it waits, the members that it waits for miss the publication. An
agent that has ended is removed with the next publication; a restart under a supervisor does not end
an agent.
"""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Literal, TypeAlias, TypeVar, cast

import msgspec
import trio

from greenroom.core import (
    EMPTY,
    AgentNotRunningError,
    ConfigurationError,
    MailboxFullError,
    Wire,
    freeze_fields,
    serde,
)
from greenroom.flow.agent_message import AgentMessage
from greenroom.runtime import AgentHandle, calling_agent

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
    """The members that got a publication, and those that missed it.

    Attributes:
        number: its number in the topic, from 1.
        delivered: the session ids of the members that have it in their mailboxes.
        missed: why the other members missed it, by session id.
    """

    number: int
    delivered: tuple[str, ...] = ()
    missed: dict[str, DeliveryStatus] = cast("dict[str, DeliveryStatus]", EMPTY)

    def __post_init__(self) -> None:
        freeze_fields(self, "missed")


@dataclass(frozen=True)
class TopicStatistics:
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
            publisher after all others have it; "drop_oldest", so that the member misses an older
            publication of this topic; or "refuse", so that it misses this one. The latter two never
            wait.

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
        """Start with no members."""
        if not name or keep < 0 or when_full not in ("wait", "drop_oldest", "refuse"):
            raise ConfigurationError(
                f"Topic({name!r}, keep={keep!r}, when_full={when_full!r}) can't be made",
                hint='give it a name, keep 0 or more, and "wait", "drop_oldest" or "refuse"',
            )
        self.name = name
        self._when_full = when_full
        self._log: deque[AgentMessage] = deque(maxlen=keep)
        self._members: dict[str, _TopicMember] = {}
        self._former = Counter[DeliveryStatus]()
        self._last_number = 0

    def join(self, handle: AgentHandle) -> None:
        """Make an agent a member, if it is not one; it gets all later publications."""
        member = self._members.get(handle.session_id)
        if member is not None and member.handle.state.is_final:
            self._remove(member)  # this handle is of another agent with the same session
        if handle.session_id not in self._members:
            self._members[handle.session_id] = _TopicMember(handle)

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
        return tuple(
            each.handle for each in self._members.values() if not each.handle.state.is_final
        )

    @property
    def log(self) -> tuple[AgentMessage, ...]:
        """The last `keep` publications, the oldest first."""
        return tuple(self._log)

    def statistics(self) -> TopicStatistics:
        """Return figures about the topic."""
        members = self._members.items()
        return TopicStatistics(
            published=self._last_number,
            waiting=sum(len(member.line) for _, member in members),
            members={session_id: dict(member.counts) for session_id, member in members},
            former=dict(self._former),
        )

    async def publish(self, content: T | AgentMessage, *, sender: str = "") -> Delivery:
        """Publish to all members, or with an `AgentMessage` to its recipient.

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
        self._last_number += 1
        self._log.append(message)
        publication = _Publication(self.name, self._last_number, message)
        found = [
            member
            for session_id, member in self._members.items()
            if not (author and author.session_id == session_id)
            and message.to in ("", session_id, member.handle.name)
        ]
        return await self._deliver(publication, found)

    async def _deliver(
        self, publication: "_Publication", members: "list[_TopicMember]"
    ) -> Delivery:
        """Deliver to all members with room, then wait for the others."""
        found: dict[str, DeliveryStatus] = {}
        lines: list[tuple[_TopicMember, _QueuedPublisher]] = []
        for member in members:
            status = member.offer(publication, self._when_full)
            if status is None:
                lines.append((member, member.join_line()))
            else:
                found[member.handle.session_id] = self._count(member, status)
        if lines:
            async with trio.open_nursery() as nursery:
                for member, place in lines:
                    nursery.start_soon(self._wait, member, place, publication, found)
        delivered = tuple(
            each for each, status in found.items() if status is DeliveryStatus.DELIVERED
        )
        for each in delivered:
            del found[each]
        return Delivery(publication.number, delivered, missed=found)

    async def _wait(
        self,
        member: "_TopicMember",
        place: "_QueuedPublisher",
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

    def _count(self, member: "_TopicMember", status: DeliveryStatus) -> DeliveryStatus:
        member.counts[status] += 1
        if status is DeliveryStatus.ENDED:
            self._remove(member)
        return status

    def _remove(self, member: "_TopicMember") -> None:
        """Remove a member, and count its further deliveries among those of former members."""
        if self._members.get(member.handle.session_id) is member:
            del self._members[member.handle.session_id]
            self._former += member.counts
            member.counts = self._former


class _Publication:
    """A publication as it is sent to each member."""

    def __init__(self, topic: str, number: int, message: AgentMessage) -> None:
        self.topic = topic
        self.number = number
        self.text = message.text
        self.sender = message.sender
        self.metadata = {
            "topic": topic,
            "number": number,
            "message": serde.loads(serde.encode(message)),
        }


class _QueuedPublisher:
    """A publisher's place in the line before one member."""

    def __init__(self) -> None:
        self.is_first = trio.Event()
        self.scope = trio.CancelScope()


class _TopicMember:
    """An agent that joined."""

    def __init__(self, handle: AgentHandle) -> None:
        self.handle = handle
        self.counts = Counter[DeliveryStatus]()
        # The publishers that wait for room; the first one waits at the mailbox. Without this line,
        # a publication could overtake one that found the mailbox full and does not wait there yet.
        self.line: deque[_QueuedPublisher] = deque()

    def offer(self, publication: _Publication, when_full: WhenFull) -> DeliveryStatus | None:
        """Deliver without waiting; return None if that is impossible."""
        if self.line:
            return None
        try:
            receipt = self.handle.send_input_nowait(
                publication.text,
                sender=publication.sender,
                metadata=publication.metadata,
                instead_of=lambda waiting: (
                    when_full == "drop_oldest"
                    and waiting.metadata.get("topic") == publication.topic
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
        try:
            await self.handle.send_input(
                publication.text, sender=publication.sender, metadata=publication.metadata
            )
        except AgentNotRunningError:
            return DeliveryStatus.ENDED
        return DeliveryStatus.DELIVERED

    def join_line(self) -> _QueuedPublisher:
        """Take a place at the end of the line."""
        place = _QueuedPublisher()
        self.line.append(place)
        self.line[0].is_first.set()
        return place

    def leave_line(self, place: _QueuedPublisher) -> None:
        """Give a place up, wherever in the line it is."""
        self.line.remove(place)
        if self.line:
            self.line[0].is_first.set()
