"""The meter: how a retry asks the budgets around it for a wait and for another attempt."""

from contextvars import ContextVar
from typing import Protocol

from greenroom.core import Message


class Meter(Protocol):
    """Limits the work that runs under it, such as an agent's turn, and counts further attempts.

    It connects code that retries a model call, and knows no agents, to the runtime, which counts
    their budgets and knows no models.
    """

    def check_wait(self, seconds: float) -> None:
        """Refuse a wait that would outlast what is left.

        Raises:
            BudgetExceededError: the time would be over first.
        """

    def check_attempt(self) -> None:
        """Refuse a further attempt if nothing is left for it.

        Raises:
            BudgetExceededError: calls, tokens or cost are spent.
        """

    def begin_attempt(self) -> None:
        """Count a further attempt.

        Raises:
            BudgetExceededError: as `check_attempt`.
        """

    def discard(self, reply: Message) -> None:
        """Count a reply that is thrown away, with the usage that it has reported."""


class _Unlimited:
    """The meter of unlimited work."""

    def check_wait(self, seconds: float) -> None:
        """Allow any wait."""

    def check_attempt(self) -> None:
        """Allow any attempt."""

    def begin_attempt(self) -> None:
        """Count nothing."""

    def discard(self, reply: Message) -> None:
        """Count nothing."""


_UNLIMITED = _Unlimited()
_meter: ContextVar[Meter] = ContextVar("greenroom_meter", default=_UNLIMITED)


def current_meter() -> Meter:
    """Return the meter of the running work; the default one allows everything."""
    return _meter.get()


class UseMeter:
    """The block that uses this meter for waits and further attempts."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, meter: Meter) -> None:
        self._inner = meter

    def __enter__(self) -> None:
        self._outer = _meter.get()
        _meter.set(self._inner)

    def __exit__(self, *_error: object) -> None:
        _meter.set(self._outer)
