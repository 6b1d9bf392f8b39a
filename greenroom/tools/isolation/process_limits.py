"""Limits of a function that runs in a process of its own."""

import math
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from greenroom.core import ToolError, Wire

_MEGABYTE = 1 << 20


class ProcessLimits(Wire, frozen=True):
    """What one call of a tool with `isolation="process"` may use; None for no limit.

    Each is counted from the moment at which the function is called, and holds for the process that
    it runs in; a process that the function starts may use as much again. A call that goes beyond
    one is stopped, and the model is told which.

    Attributes:
        cpu_seconds: seconds of processor time; the system checks at full seconds, so up to one more
            may pass.
        memory_megabytes: megabytes (2**20 bytes) of address space beyond what the process has when
            it is called. macOS does not enforce it.

    Example:
        >>> ProcessLimits(cpu_seconds=10, memory_megabytes=512).cpu_seconds
        10
    """

    cpu_seconds: int | None = None
    memory_megabytes: int | None = None

    def __post_init__(self) -> None:
        """Refuse what is no limit.

        Raises:
            ToolError: a limit is no whole number, or less than 1.
        """
        for name in ("cpu_seconds", "memory_megabytes"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise ToolError(f"{name} is {value!r}", hint="give a whole number, 1 or more")

    @contextmanager
    def imposed(self) -> Iterator[None]:
        """Hold this very process to the limits inside of the block."""
        with _lowered(resource.RLIMIT_CPU, self._cpu_limit()):
            with _lowered(resource.RLIMIT_AS, self._memory_limit()):
                yield

    def _cpu_limit(self) -> int | None:
        if self.cpu_seconds is None:
            return None
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return math.ceil(usage.ru_utime + usage.ru_stime) + self.cpu_seconds

    def _memory_limit(self) -> int | None:
        if self.memory_megabytes is None:
            return None
        return _address_space() + self.memory_megabytes * _MEGABYTE


@contextmanager
def _lowered(which: int, limit: int | None) -> Iterator[None]:
    """Lower a limit of this process, and put it back at the end."""
    before, most = resource.getrlimit(which)
    if limit is None or 0 <= before <= limit:
        yield
        return
    resource.setrlimit(which, (limit, most))
    try:
        yield
    finally:
        resource.setrlimit(which, (before, most))


def _address_space() -> int:
    """Return the bytes of address space that this process has; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except FileNotFoundError:
        return 0
    return pages * resource.getpagesize()
