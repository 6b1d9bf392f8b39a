"""Figures about a session and about the stores, each as a frozen value."""

from dataclasses import dataclass
from typing import Self

import trio


@dataclass(frozen=True)
class SessionStatistics:
    """A look at one session.

    Attributes:
        messages: messages in the conversation.
        unsaved: entries (messages, rewinds, answers and notes about calls) that no save has stored.
        is_open: whether the session holds its writer lock.
    """

    messages: int
    unsaved: int
    is_open: bool


@dataclass(frozen=True)
class StoreStatistics:
    """A look at a store that works in threads; what lies on the disk is not looked at.

    Attributes:
        working: reads and writes that run, each in a thread.
        waiting: reads and writes that wait for a thread.
        threads: how many may run at once.
    """

    working: int
    waiting: int
    threads: int

    @classmethod
    def of(cls, limiter: trio.CapacityLimiter) -> Self:
        """Take them from the limiter under which a store's threads run."""
        figures = limiter.statistics()
        return cls(figures.borrowed_tokens, figures.tasks_waiting, int(figures.total_tokens))


@dataclass(frozen=True)
class MemoryStoreStatistics:
    """A look at a store in memory.

    Attributes:
        sessions: sessions that are stored.
        locked: sessions that somebody writes.
        bytes: the size of all histories.
    """

    sessions: int
    locked: int
    bytes: int
