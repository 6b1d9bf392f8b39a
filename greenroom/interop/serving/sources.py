"""Where the routes for observers get what they show."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from greenroom.core import Usage


class TextOf(Protocol):
    """Something that gives a text, such as `Metrics`."""

    def text(self) -> str:
        """Return it."""


class Rows(Protocol):
    """Usage by keys: named tuples, one of whose fields is `owner`."""

    def items(self) -> Iterable[tuple[tuple[object, ...], Usage]]:
        """Return each key with its usage."""


class RowsOf(Protocol):
    """Something that keeps usage by keys with an owner, such as `Ledger`."""

    @property
    def rows(self) -> Rows:
        """The usage by key."""


View: TypeAlias = Callable[[], Awaitable[object]]
"""Returns something that JSON can hold."""

TraceOf: TypeAlias = Callable[[str], Awaitable[object]]
"""Returns the spans of a session, by its id."""


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where the routes for observers get what they show; None where there is nothing."""

    trace: TraceOf | None = None
    metrics: TextOf | None = None
    audit: View | None = None
    ledger: RowsOf | None = None
    hosts_view: View | None = None
