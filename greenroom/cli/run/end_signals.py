"""The signals that end a program in a terminal: SIGTERM, and SIGHUP when its window is closed."""

import signal

import trio


class EndSignals:
    """Ends a block of the program in good order when one of them comes, and remembers which."""

    def __init__(self, *others: signal.Signals) -> None:
        """Heed other signals, too; none has come yet."""
        self._heeded = (signal.SIGTERM, signal.SIGHUP, *others)
        self._signal: int | None = None

    async def heed(self, scope: trio.CancelScope, task_status: trio.TaskStatus[None]) -> None:
        """Cancel this scope when one comes; runs until it is cancelled itself."""
        with trio.open_signal_receiver(*self._heeded) as signals:
            task_status.started()
            async for number in signals:
                self._signal = number
                scope.cancel()

    @property
    def exit_code(self) -> int | None:
        """The exit code that tells of the signal, as a shell does; None where none has come."""
        return None if self._signal is None else 128 + self._signal
