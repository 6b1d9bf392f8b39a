"""Who is asked before a wait: what limits the work around it, such as the budgets of an agent's turn.

Code that retries a model's call can't see agents, and the kernel that counts their budgets can't see
models. Both can see this.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class Meter(Protocol):
    """Limits the work that runs under it, and counts further attempts."""

    def check_wait(self, seconds: float) -> None:
        """Refuse a wait that would outlast what is left.

        Raises:
            BudgetExceededError: time is over before the wait is.
        """
        ...

    def check_attempt(self) -> None:
        """Refuse a further attempt if nothing is left for it.

        Raises:
            BudgetExceededError: calls, tokens or cost are spent.
        """
        ...

    def begin_attempt(self) -> None:
        """Count a further attempt.

        Raises:
            BudgetExceededError: as `check_attempt`.
        """
        ...


class _Unlimited:
    """Where nothing limits the work."""

    def check_wait(self, seconds: float) -> None:
        pass

    def check_attempt(self) -> None:
        pass

    def begin_attempt(self) -> None:
        pass


_meter: ContextVar[Meter] = ContextVar("greenroom_meter", default=_Unlimited())  # noqa: B039 (it has no state)


def current_meter() -> Meter:
    """Return what is to be asked here; where nobody limits the work, it allows everything."""
    return _meter.get()


@contextmanager
def metered(meter: Meter) -> Iterator[None]:
    """Let waits and further attempts in the block be asked of this meter."""
    outer = _meter.get()
    _meter.set(meter)
    try:
        yield
    finally:
        _meter.set(outer)
