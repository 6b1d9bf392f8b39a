"""The mailbox: conversation input in order, and an out-of-band lane beside it.

Only what belongs to the conversation is queued and bounded. An interrupt has one slot, a shutdown
one flag: neither can be kept waiting by a full mailbox, and neither takes an input's place.
"""

from collections import deque

import trio

from greenroom.core import (
    AgentNotRunningError,
    Interrupt,
    MailboxFullError,
    Shutdown,
    SubAgentResult,
    UserInput,
)

__all__ = ["Mailbox"]


class Mailbox:
    """What an agent has been sent and has not taken."""

    def __init__(self, limit: int) -> None:
        """Start empty and open, with room for `limit` inputs."""
        self._limit = limit
        self._items: deque[UserInput | SubAgentResult] = deque()
        self._receivers = trio.lowlevel.ParkingLot()
        self._senders = trio.lowlevel.ParkingLot()
        self._interrupted = False
        self._shutdown_told = False
        self.closed = False

    def __len__(self) -> int:
        return len(self._items)

    @property
    def has_receiver(self) -> bool:
        """Whether the agent is waiting for input right now."""
        return bool(self._receivers)

    def put_nowait(self, message: UserInput) -> None:
        """Queue an input.

        Raises:
            MailboxFullError: there is no room.
            AgentNotRunningError: the mailbox is closed.
        """
        self._refuse_if_closed()
        if len(self._items) >= self._limit:
            raise MailboxFullError(
                f"the mailbox holds {self._limit} inputs that the agent has not taken",
                hint="use `await handle.send_input(...)`, which waits for room",
            )
        self._push(message)

    async def put(self, message: UserInput) -> None:
        """Queue an input, waiting for room.

        Raises:
            AgentNotRunningError: the mailbox is closed, or was closed meanwhile.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while len(self._items) >= self._limit and not self.closed:
            await self._senders.park()
        self._refuse_if_closed()
        self._push(message)

    def put_result(self, result: SubAgentResult) -> None:
        """Queue a subagent's result; it always finds room, and a closed mailbox keeps it unread."""
        self._push(result)

    def _push(self, message: UserInput | SubAgentResult) -> None:
        self._items.append(message)
        self._receivers.unpark()

    def _refuse_if_closed(self) -> None:
        if self.closed:
            raise AgentNotRunningError("the agent takes no more input: it is shutting down")

    def interrupt(self) -> None:
        """Leave word of an interrupt for a loop in `receive()`."""
        self._interrupted = True
        self._receivers.unpark_all()

    def close(self) -> None:
        """Take no more input; waiting senders get `AgentNotRunningError`."""
        self.closed = True
        self._senders.unpark_all()
        self._receivers.unpark_all()

    def drain(self) -> tuple[UserInput | SubAgentResult, ...]:
        """Take everything out that was never delivered."""
        items = tuple(self._items)
        self._items.clear()
        return items

    async def next_input(self) -> UserInput | SubAgentResult | None:
        """Wait for the next conversation input; None once the mailbox is closed."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self._interrupted = False
        while not self.closed:
            if self._items:
                return self._pop()
            await self._receivers.park()
            self._interrupted = False
        return None

    async def next_message(self) -> UserInput | SubAgentResult | Interrupt | Shutdown:
        """Wait for the next message of any kind; a shutdown is told once, nothing follows it."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while True:
            if self._interrupted:
                self._interrupted = False
                return Interrupt()
            if self.closed and not self._shutdown_told:
                self._shutdown_told = True
                return Shutdown()
            if self._items and not self.closed:
                return self._pop()
            await self._receivers.park()

    def _pop(self) -> UserInput | SubAgentResult:
        message = self._items.popleft()
        self._senders.unpark()
        return message
