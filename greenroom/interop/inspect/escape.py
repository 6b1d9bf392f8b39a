"""Carries an exception of Inspect's, such as a limit that was exceeded, out of a running agent."""

from collections.abc import Iterator
from contextlib import contextmanager

from greenroom.core import AgentCrashError


class Escape:
    """Keeps the first exception that Inspect raised in the agents of a sample.

    To Inspect an exception says how the sample goes on; an agent would tell its model of it. So the
    agent crashes, and the solver raises the exception itself.
    """

    def __init__(self) -> None:
        self._error: Exception | None = None

    @contextmanager
    def carry(self) -> Iterator[None]:
        """Crash the agent with what the block raises.

        Raises:
            AgentCrashError: the block raised an exception.
        """
        try:
            yield
        except Exception as error:
            self._error = self._error or error
            raise AgentCrashError(f"{type(error).__name__}: {error}") from error

    def check(self) -> None:
        """Raise what was kept; do nothing if that is nothing."""
        if self._error is not None:
            raise self._error
