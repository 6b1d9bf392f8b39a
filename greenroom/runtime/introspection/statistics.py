"""Figures about a runtime, an agent, a supervisor and a reader, each as a frozen value."""

from collections.abc import Mapping
from dataclasses import dataclass

from greenroom.core import EndStatus


@dataclass(frozen=True)
class RuntimeStatistics:
    """A look at one runtime.

    Attributes:
        running: agents that run, subagents included.
        most_running: how many ran at once, at the most.
        spawned: agents started so far.
        ended: how many agents have ended, by the way in which they did.
        blocked: how often one call held up the event loop for longer than the watchdog allows, since
            the first of the runtimes that share the watchdog was opened.
        longest_block: seconds that the longest of these took, of those that are over.
    """

    running: int
    most_running: int
    spawned: int
    ended: Mapping[EndStatus, int]
    blocked: int
    longest_block: float


@dataclass(frozen=True)
class AgentStatistics:
    """A look into one agent.

    Attributes:
        mailbox: inputs that wait.
        published: chunks published so far.
        kept: chunks that the ring still holds.
        kept_bytes: their size, by an estimate.
        subscribers: readers that are registered.
        largest_lag: chunks that the slowest of them has not read.
        pending: open permission requests, its subagents' not counted.
        subagents: subagents alive.
        turns: turns begun.
        open_tools: tool calls that have started and not ended.
        abandoned: what could not be stopped, its subagents' included; 1,000 at the most.
        budgets: what is left of each budget that it has opened, outermost first.
    """

    mailbox: int
    published: int
    kept: int
    kept_bytes: int
    subscribers: int
    largest_lag: int
    pending: int
    subagents: int
    turns: int
    open_tools: int
    abandoned: int
    budgets: tuple[Mapping[str, float], ...]


@dataclass(frozen=True)
class SubscriptionStatistics:
    """A look at one reader of an agent's output.

    Attributes:
        position: the epoch, and the sequence number of the chunk that it reads next.
        lag: chunks that are published and that it has not read, those that it has lost included.
        missed: chunks that were forgotten before it read them, as far as `Lagged` has told.
    """

    position: tuple[int, int]
    lag: int
    missed: int


@dataclass(frozen=True)
class SupervisorStatistics:
    """A look into one supervisor.

    Attributes:
        children: children that have not ended for good, its own alone.
        restarting: those of them that wait to be started again.
        restarts: restarts ordered so far; one of a group counts once.
        recent: those of them within the period that ends now.
    """

    children: int
    restarting: int
    restarts: int
    recent: int
