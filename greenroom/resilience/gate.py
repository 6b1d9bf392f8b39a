"""A gate before a provider's account: all calls with one key learn from one refusal."""

import math
import threading
from collections import deque

from greenroom.resilience.clock import shared_time
from greenroom.resilience.waiting import WaitQueue, take_ticket

_LEAST_PAUSE, _FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 2.0, 30.0  # seconds
_LONGER = 3.0  # each pause after a probe that was refused
_LONGEST_CLOSING = 600.0
_PERIOD = 60.0  # in which providers count requests
_LEAST_PER_PERIOD, _MOST_PER_PERIOD = 10, 600
_FASTER = 0.9  # the space between two calls after each call that the provider accepts
_PATIENCE = 10.0  # seconds without an answer, after which a probe does not count as refused


class Gate:
    """Lets calls through in order, and closes for all of them while a provider refuses calls.

    It is open until a call is refused. Then it closes for as long as the provider asks, or else for
    a pause that grows with each further refusal. After that it lets one call through, the probe.
    Once the provider accepts that, the others follow evenly spaced, as many in a minute as it had
    accepted in the minute before the refusal, ten a second at most, and ten a minute at least the
    first time. After a minute without a refusal they come closer together, until they need not wait
    any more.

    Share one object between all calls with one key, in any event loops and threads. Calls go
    through in the order of their tickets, and a call that was refused keeps its place.
    """

    def __init__(self) -> None:
        self._queue = WaitQueue()  # its lock guards all that follows
        self._accepted = deque[float](maxlen=_MOST_PER_PERIOD)  # the times of calls
        self._is_closed = False
        self._closings = 0
        self._refused_at = -math.inf  # the first time in a row
        self._reopened_at = -math.inf
        self._next = -math.inf  # when the next call may go through
        self._space = 0.0  # seconds between two calls
        self._refusals = 0  # in a row
        self._counts = False  # whether the first of them was for too many calls
        self._least = 1  # calls to let through in a minute after it
        self._probe: Passage | None = None

    async def enter(self, ticket: int | None = None) -> "Passage":
        """Wait until a call may be sent; tell the passage how the provider answers it.

        Args:
            ticket: the place of the call, from `take_ticket`; by default behind all others.
        """
        passages: list[Passage] = []

        def admit() -> float | None:
            moment = self._next_moment()
            if moment > shared_time():
                return moment
            passages.append(self._admit())
            return None

        await self._queue.wait(admit, ticket)
        return passages[0]

    def wait_time(self, ticket: int | None = None) -> float:
        """Estimate how many seconds a call with this ticket would wait if it asked now."""
        with self._queue.lock:
            before = self._queue.count_before(take_ticket() if ticket is None else ticket)
            moment = self._next_moment()
            if math.isinf(moment):
                moment = shared_time()
            return max(0.0, moment - shared_time()) + before * self._space

    @property
    def is_idle(self) -> bool:
        """Whether it knows nothing that a new gate would not know."""
        with self._queue.lock:
            recent = bool(self._accepted) and self._accepted[-1] > shared_time() - _PERIOD
            return not (self._is_closed or self._space or recent or self._queue)

    def _next_moment(self) -> float:
        """Return when the next call may go through."""
        if self._is_closed and self._probe is not None:
            return self._probe.began + _PATIENCE
        return self._next

    def _admit(self) -> "Passage":
        passage = Passage(self, self._closings)
        self._next = passage.began + self._space
        if self._is_closed:
            self._probe = passage
        return passage

    def _accept(self, passage: "Passage") -> None:
        with self._queue.lock:
            self._accepted.append(passage.began)
            if self._is_closed:
                if passage.closings < self._closings:
                    return  # it was sent before the refusal
                self._is_closed, self._probe, self._refusals = False, None, 0
                self._reopened_at = shared_time()
                if self._counts:
                    self._space = _PERIOD / max(self._least, self._count_accepted_before())
                    self._next = passage.began + self._space
                self._queue.wake()
            elif self._space and shared_time() >= self._reopened_at + _PERIOD:
                self._space *= _FASTER
                if self._space < _PERIOD / _MOST_PER_PERIOD:
                    self._space = 0.0

    def _refuse(self, passage: "Passage", asked: float, *, counts: bool) -> None:
        with self._queue.lock:
            asked = min(asked, _LONGEST_CLOSING)
            if passage.closings < self._closings:  # it was sent before another one was refused
                if self._is_closed:
                    self._next = max(self._next, shared_time() + asked)
                return
            if not self._refusals:
                self._refused_at, self._counts = shared_time(), counts
                # How many were accepted says little until calls have come evenly for a while.
                self._least = 1 if self._space else _LEAST_PER_PERIOD
            self._refusals += 1
            self._closings += 1
            self._is_closed, self._probe = True, None
            self._next = shared_time() + self._pause(asked)
            self._queue.wake()

    def _pause(self, asked: float) -> float:
        if asked and self._refusals == 1:
            return max(asked, _LEAST_PAUSE)
        growing = _FIRST_PAUSE * _LONGER ** min(self._refusals - 1, 8)
        return max(asked, min(max(growing, self._space), _LONGEST_PAUSE))

    def _forget(self, passage: "Passage") -> None:
        with self._queue.lock:
            if passage is self._probe:
                self._probe = None  # the next call is the probe
                self._queue.wake()

    def _count_accepted_before(self) -> int:
        """Count the accepted calls of the minute before the refusal; some are known only later."""
        end = self._refused_at
        return sum(end - _PERIOD < moment <= end for moment in self._accepted)


class Passage:
    """A call that a gate let through; only the first report on it counts."""

    def __init__(self, gate: Gate, closings: int) -> None:
        """Made by `Gate.enter`."""
        self.began = shared_time()
        self.closings = closings
        """How often the gate had closed before."""
        self._gate: Gate | None = gate

    def accept(self) -> None:
        """Report that the provider has accepted the call, whether or not it goes well."""
        if gate := self._take_gate():
            gate._accept(self)

    def refuse(self, seconds: float = 0.0, *, counts: bool = True) -> None:
        """Report that the provider refused the call, and asks to wait so many seconds.

        Args:
            seconds: what it asks for; 0 if it does not say.
            counts: whether it refused since there were too many calls, so that they must come
                slower; it may also be overloaded by others.
        """
        if gate := self._take_gate():
            gate._refuse(self, seconds, counts=counts)

    def abandon(self) -> None:
        """Report that the call ended without an answer that says anything."""
        if gate := self._take_gate():
            gate._forget(self)

    def _take_gate(self) -> Gate | None:
        gate, self._gate = self._gate, None
        return gate


_GATES = 256
_gates: dict[str, Gate] = {}
_lock = threading.Lock()


def shared_gate(account: str) -> Gate:
    """Return the gate of an account, which all of this process share.

    Example:
        >>> shared_gate("example.org, key 1") is shared_gate("example.org, key 1")
        True
    """
    with _lock:
        if account not in _gates and len(_gates) >= _GATES:
            for name in [name for name, gate in _gates.items() if gate.is_idle]:
                del _gates[name]
        return _gates.setdefault(account, Gate())
