"""A flag that tasks can wait for, and that costs nothing where none does."""

import trio


class Flag:
    """Says that something has happened, once and for good, as a `trio.Event` does.

    The event is made when a task waits: most ends of agents and turns are waited for by nobody.
    """

    __slots__ = ("_event", "_is_set")

    def __init__(self) -> None:
        """Begin with what has not happened."""
        self._is_set = False
        self._event: trio.Event | None = None

    def is_set(self) -> bool:
        """Whether it has happened."""
        return self._is_set

    def set(self) -> None:
        """Say that it has happened, and wake those who wait."""
        self._is_set = True
        if self._event is not None:
            self._event.set()

    async def wait(self) -> None:
        """Wait until it has happened."""
        if self._is_set:
            await trio.lowlevel.checkpoint()
            return
        if self._event is None:
            self._event = trio.Event()
        await self._event.wait()
