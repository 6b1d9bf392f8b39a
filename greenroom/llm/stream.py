"""The stream of a reply: an iterator of events that can be asked for the message at any time."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager

import trio

from greenroom.core import Message, ModelError, Price
from greenroom.llm.draft import Draft
from greenroom.llm.events import Announcement, StreamEvent


class ModelStream(ABC):
    """The events of one reply, up to its `StreamEnd`.

    An iterator object, not a generator: leaving the loop early leaves nothing suspended, and
    `partial` always answers, also after an error or a cancellation. To write one, say in `receive`
    where events come from.
    """

    def __init__(self, provider: str, price: Price | None = None) -> None:
        """Begin a reply of the provider of this name, which charges this price."""
        self._draft = Draft(provider, price)
        self._ready: deque[StreamEvent] = deque()

    @abstractmethod
    async def receive(self) -> Iterable[StreamEvent]:
        """Wait for the next events, in order; none of them is fine, it will be asked again.

        Raises:
            ModelError: there are no more events, though the reply is not complete.
        """

    def __aiter__(self) -> "ModelStream":
        """Return the stream itself."""
        return self

    async def __anext__(self) -> StreamEvent:
        """Return the next event; each is a cancellation point.

        Raises:
            ModelError: the reply broke off; the subclass says why, and its `partial` is what had come.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            while not self._ready:
                if self._draft.ended:
                    raise StopAsyncIteration
                self._ready.extend(await self.receive())
            event = self._ready.popleft()
            self._draft.add(event)
        except ModelError as error:
            error.hint = error.hint or error.remedy
            error.partial = error.partial or self._draft.so_far()  # an inner stream knows best
            raise
        return event

    def announce(self, announcement: Announcement) -> None:
        """Give this as the next event."""
        self._ready.appendleft(announcement)

    def partial(self) -> Message:
        """Return what has been read so far, as a message that may stand in a history.

        Finished blocks are whole; unfinished text and thinking are kept as far as they came;
        unfinished tool calls are left out. The stop reason is `interrupted` until the end.
        """
        return self._draft.partial()

    @property
    def message(self) -> Message:
        """The complete message, after the end of the stream.

        Raises:
            ModelStreamError: the stream has not been read to its end.
        """
        return self._draft.message


async def collect(opening: AbstractAsyncContextManager[ModelStream]) -> Message:
    """Read a stream to its end and return the message: `generate` as the fold of `stream`.

    Raises:
        ModelError: the request failed or the reply broke off; the subclass says why, and `partial` is
            what had come of the reply.
    """
    async with opening as stream:
        async for _ in stream:
            pass
        return stream.message
