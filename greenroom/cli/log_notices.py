"""What Greenroom logs while it owns the screen: a short note there, no lines across it."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

import trio

from greenroom.core._internal import is_handled

WATCHDOG = "greenroom.watchdog"
"""Logs which call holds up the event loop."""

_MAX_WAITING = 16  # notices, of which those that come while as many wait are dropped


@contextmanager
def catch_notices() -> Iterator[trio.MemoryReceiveChannel[logging.LogRecord]]:
    """Receive the warnings that no handler takes, which would go to standard error, in the block.

    Errors are no news: what fails is told by the chunks of its agent. Where one takes them, such as
    that of `--log`, there is nothing to receive.
    """
    logger = logging.getLogger("greenroom")
    send, receive = trio.open_memory_channel[logging.LogRecord](_MAX_WAITING)
    handler = None if is_handled(logger) else _Passing(send)
    if handler is not None:
        logger.addHandler(handler)
    try:
        yield receive
    finally:
        if handler is not None:
            logger.removeHandler(handler)
        send.close()


class _Passing(logging.Handler):
    """Passes warnings of any thread on to the event loop that it was made in."""

    def __init__(self, send: trio.MemorySendChannel[logging.LogRecord]) -> None:
        super().__init__(logging.WARNING)
        self._send = send
        self._token = trio.lowlevel.current_trio_token()

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno != logging.WARNING or hasattr(record, "is_chunk"):  # shown already
            return
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(partial(self._pass, record))

    def _pass(self, record: logging.LogRecord) -> None:
        with suppress(trio.WouldBlock, trio.BrokenResourceError, trio.ClosedResourceError):
            self._send.send_nowait(record)
