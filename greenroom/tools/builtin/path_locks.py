"""One change at a time to each file."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from greenroom.core import AgentContext

__all__ = ["PathLocks"]


class PathLocks:
    """A lock for each real path that is being changed; a resource of the agent."""

    def __init__(self) -> None:
        """Start with no path locked."""
        self._locks: dict[Path, trio.Lock] = {}

    @classmethod
    def of(cls, context: AgentContext) -> "PathLocks":
        """Return the agent's locks, made at the first call."""
        found = context.resources.get(cls)
        if found is None:
            found = cls()
            context.resources.insert(found)
        return found

    @asynccontextmanager
    async def hold(self, path: Path) -> AsyncIterator[None]:
        """Hold the path; whoever comes meanwhile waits, in order."""
        lock = self._locks.setdefault(path, trio.Lock())
        try:
            async with lock:
                yield
        finally:
            statistics = lock.statistics()
            if not statistics.locked and not statistics.tasks_waiting:
                self._locks.pop(path, None)

    def __len__(self) -> int:
        return len(self._locks)
