"""What a server remembers of one session: who is there for it, what was sent, how it ended."""

import hashlib
from collections import OrderedDict
from typing import TYPE_CHECKING

import trio

from greenroom.core._internal import serde
from greenroom.interop.serving.client_tools import ClientTools

if TYPE_CHECKING:
    from greenroom.runtime import AgentHandle, Outcome

_MOST_RECEIPTS = 1_000
_MOST_EVENTS = 1_024
_MOST_BYTES = 4 << 20
_CLIENT_PATIENCE = 3600.0  # seconds that a call waits for a client's result


WITHDRAWN = b"withdrawn"
"""The digest of an input that was withdrawn before it came."""


class EncodedChunks:
    """The newest events of a session as they go over the wire, for readers side by side."""

    def __init__(self) -> None:
        """Begin without any."""
        self._events: dict[tuple[int, int], bytes] = {}
        self._size = 0

    def find(self, position: tuple[int, int]) -> bytes | None:
        """Return the event whose chunk ends at a position."""
        return self._events.get(position)

    def keep(self, position: tuple[int, int], event: bytes) -> None:
        """Keep an event, and forget the oldest beyond the bounds."""
        self._events[position] = event
        self._size += len(event)
        while len(self._events) > _MOST_EVENTS or self._size > _MOST_BYTES:
            self._size -= len(self._events.pop(next(iter(self._events))))


class News:
    """What has changed since somebody looked: a set of names, bounded, and a wait for the next."""

    def __init__(self, limit: int) -> None:
        """Hold so many names; further ones are dropped, and `is_full` says so."""
        self._limit = limit
        self._names = set[str]()
        self._event = trio.Event()
        self._is_full = False

    def add(self, name: str) -> None:
        """Note that something of this name has changed."""
        self._is_full = self._is_full or len(self._names) >= self._limit
        if not self._is_full:
            self._names.add(name)
        self._event.set()

    async def take(self) -> tuple[set[str], bool]:
        """Wait for a change; return the names, and whether there were more."""
        await self._event.wait()
        taken = self._names, self._is_full
        self._names, self._is_full, self._event = set(), False, trio.Event()
        return taken


class ClientThread:
    """Where a client of AG-UI stands in a session: its runs follow one another.

    Attributes:
        tools: what it can run itself.
        calls: the calls that wait for its results, by the ids that it knows: its own call each.
        answered: the calls whose results it has sent, and so knows.
        position: up to where it was told what happened.
        is_running: whether a run of it is open.
    """

    def __init__(self) -> None:
        """Begin without a run."""
        self.tools = ClientTools(_CLIENT_PATIENCE)
        self.calls = dict[str, str]()
        self.answered = set[str]()
        self.position: tuple[int, int] | None = None
        self.is_running = False


class ServedSession:
    """One session, as long as it has an agent or a reader, and some time longer.

    Attributes:
        lock: held while its agent is started, or an input or an answer finds its way.
        handle: its agent, or the last one.
        outcome: how the last one ended.
        streams: the streams that are open.
        operators: those of them whose readers may answer.
        encoded: its newest chunks, encoded.
        owner: to whom it belongs, as far as known.
        tool_seconds: how long the calls of each tool have taken, since the server began.
        thread: where a client of AG-UI stands in it.
    """

    def __init__(self) -> None:
        """Begin without an agent, and nobody there."""
        self.lock = trio.Lock()
        self.handle: AgentHandle | None = None
        self.outcome: Outcome | None = None
        self.streams = 0
        self.operators = 0
        self.encoded = EncodedChunks()
        self.owner: object = None
        self.tool_seconds: dict[str, float] = {}
        self.thread = ClientThread()
        self._seen = float("-inf")
        self._changed = trio.Event()
        self._spawned = trio.Event()
        self._seat = trio.Event()
        self._receipts = OrderedDict[str, bytes]()

    @property
    def is_minded(self) -> bool:
        """Whether its agent runs, and somebody sits in for people."""
        return self.handle is not None and self.outcome is None

    @property
    def is_unused(self) -> bool:
        """Whether nothing would be lost but what it remembers."""
        return not (self.is_minded or self.streams or self.lock.locked())

    def touch(self) -> None:
        """Note that somebody who may answer was just here."""
        self._seen = trio.current_time()
        self.wake()

    def wake(self) -> None:
        """Wake those who wait for a change."""
        self._changed.set()
        self._changed = trio.Event()

    def tell_spawned(self) -> None:
        """Wake the streams that wait for an agent."""
        self._spawned.set()
        self._spawned = trio.Event()

    async def wait_spawned(self) -> None:
        """Wait until an agent is started for it."""
        await self._spawned.wait()

    async def wait_change(self) -> None:
        """Wait until somebody comes or goes."""
        await self._changed.wait()

    def take_seat(self) -> None:
        """Note that somebody sits in for people, or that the agent has ended."""
        self._seat.set()

    def leave_seat(self) -> None:
        """Note that nobody does any more."""
        self._seat = trio.Event()

    async def wait_seat(self) -> None:
        """Wait until somebody sits in for people."""
        await self._seat.wait()

    def find_away(self, away: float) -> float:
        """Return when the last person who may answer counts as gone, by trio's clock."""
        return float("inf") if self.operators else self._seen + away

    def find_receipt(self, input_id: str) -> bytes | None:
        """Return the digest of an input that was sent here under this id."""
        return self._receipts.get(input_id)

    def keep_receipt(self, input_id: str, digest: bytes) -> None:
        """Remember what was sent under an id."""
        self._receipts[input_id] = digest
        while len(self._receipts) > _MOST_RECEIPTS:
            self._receipts.popitem(last=False)


def digest_of(content: object, sender: str) -> bytes:
    """Return what tells an input from another under the same id."""
    return hashlib.sha256(serde.encode([content, sender])).digest()
