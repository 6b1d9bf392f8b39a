"""A lock for steps that seldom meet, as those of a session's journal."""

import trio


class Turnstile:
    """Lets one task in at a time, in the order in which they came; without a checkpoint if it can.

    A lock of trio's is four objects, which each session would have, and takes a pass of the event
    loop each time.
    """

    __slots__ = ("_is_taken", "_waiting")

    def __init__(self) -> None:
        """Begin with nobody in it."""
        self._is_taken = False
        self._waiting: trio.lowlevel.ParkingLot | None = None  # once a task had to wait

    @property
    def is_free(self) -> bool:
        """Whether a task could enter at once."""
        return not self._is_taken

    async def enter(self) -> None:
        """Enter, or wait in line."""
        if self._is_taken:
            self._waiting = self._waiting or trio.lowlevel.ParkingLot()
            await self._waiting.park()  # whoever leaves hands it over
        self._is_taken = True

    def leave(self) -> None:
        """Let the next one in."""
        if self._waiting:
            self._waiting.unpark()
        else:
            self._is_taken = False
