"""What a runtime tells about itself to the one who runs it."""

from typing import TYPE_CHECKING

from greenroom.runtime.introspection.dump import DumpFile, dump_on_signal, write_dump
from greenroom.runtime.introspection.snapshot import take_tree
from greenroom.runtime.introspection.statistics import RuntimeStatistics
from greenroom.runtime.introspection.watchdog import Watchdog, leave_watchdog, watch_loop
from greenroom.runtime.registry import Registry

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from greenroom.runtime.introspection.tree import RuntimeTree


class Introspection:
    """The part of `AgentRuntime` that tells what goes on; nothing in it waits or changes anything."""

    def __init__(self) -> None:
        """Start without agents."""
        self._registry = Registry()
        self._watchdog: Watchdog | None = None

    def _watch(self, threshold: float | None) -> None:
        if threshold is not None:
            self._watchdog = watch_loop(threshold)

    def _unwatch(self, threshold: float | None) -> None:
        if self._watchdog is not None and threshold is not None:
            leave_watchdog(self._watchdog, threshold)

    def tree(self, limit: int = 1000) -> "RuntimeTree":
        """Return what every agent is doing right now, as values; `print` draws them as a tree.

        Args:
            limit: agents that are described at the most; the others are counted.
        """
        return take_tree(self._registry, limit)

    def statistics(self) -> RuntimeStatistics:
        """Return figures about the runtime."""
        registry, watchdog = self._registry, self._watchdog
        return RuntimeStatistics(
            running=len(registry),
            most_running=registry.most,
            spawned=registry.spawned,
            ended=dict(registry.ended),
            blocked=watchdog.blocked if watchdog else 0,
            longest_block=watchdog.longest if watchdog else 0.0,
        )

    def dump(self, file: DumpFile | None = None) -> None:
        """Write the tree, and below it where each task of each agent waits.

        At most 1,000 agents and about a million characters of stacks; what is left out is counted.
        It holds names, file names and source lines, and nothing of what the agents talk about.

        Args:
            file: an open text file; by default the standard error of the moment.
        """
        write_dump(self._registry, file)

    def dump_on_signal(
        self, number: int, file: DumpFile | None = None
    ) -> "AbstractContextManager[None]":
        """Write the dump whenever a signal comes, as long as the `with` block is open.

        It works while the event loop is blocked too, as long as that is in Python code or in a call
        that a signal interrupts; it then shows which. Leaving the block puts the former handler
        back. A dump that can't be written is logged.

        Args:
            number: the signal, such as `signal.SIGUSR1`.
            file: as in `dump`.

        Raises:
            ConfigurationError: this is not the main thread, or the signal can't be handled.

        Example:
            ```python
            with runtime.dump_on_signal(signal.SIGUSR1):
                await handle.wait()  # and elsewhere: kill -USR1 PID
            ```
        """
        return dump_on_signal(self._registry, number, file)
