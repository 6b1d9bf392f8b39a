"""A lock for steps that seldom meet, as those of a session's journal."""

import trio


class Turnstile:
    """Lets one task in at a time, in the order in which they came; without a checkpoint if it can.

    A lock of trio's is four objects, which each session would have, and takes a pass of the event
    loop each time.
    """

    __slots__ = ("_waiting", "is_taken")

    def __init__(self) -> None:
        """Begin with nobody in it."""
        self.is_taken = False
        """Whether a task that enters has to wait."""
        self._waiting: trio.lowlevel.ParkingLot | None = None  # once a task had to wait

    async def enter(self) -> None:
        """Enter, or wait in line."""
        if self.is_taken:
            self._waiting = self._waiting or trio.lowlevel.ParkingLot()
            await self._waiting.park()  # whoever leaves hands it over
        self.is_taken = True

    def leave(self) -> None:
        """Let the next one in."""
        if self._waiting:
            self._waiting.unpark()
        else:
            self.is_taken = False
