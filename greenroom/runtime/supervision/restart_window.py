"""The restarts of the last seconds: whether there may be one more, and which it is."""

from collections import Counter, deque

from greenroom.core import ConfigurationError


class RestartWindow:
    """A sliding window in which at most `intensity` restarts fit.

    As in Erlang/OTP, the restart that makes it one too many is the one that must not happen, and a
    restart that lies exactly `period` seconds back still counts.

    Example:
        >>> window = RestartWindow(intensity=2, period=5.0)
        >>> window.add("a", now=0.0), window.add("b", now=1.0), window.add("a", now=2.0)
        (1, 1, None)
        >>> window.add("a", now=5.5)
        1
    """

    def __init__(self, intensity: int, period: float) -> None:
        """Start with no restarts.

        Raises:
            ConfigurationError: a negative intensity, or a period that is not above 0.
        """
        if not intensity >= 0:  # so that NaN, which compares to nothing, is refused too
            raise ConfigurationError("a supervisor's intensity must be 0 or more")
        if not period > 0:
            raise ConfigurationError("a supervisor's period must be more than 0 seconds")
        self.intensity = intensity
        self.period = period
        self._restarts: deque[tuple[float, object]] = deque()
        self._by_child: Counter[object] = Counter()

    def add(self, child: object, now: float) -> int | None:
        """Count a restart of a child, and return which one it is of this child in the window.

        None, and nothing is counted, where that would be more than the intensity.
        """
        if self.count(now) >= self.intensity:
            return None
        self._restarts.append((now, child))
        self._by_child[child] += 1
        return self._by_child[child]

    def count(self, now: float) -> int:
        """Return how many restarts lie in the window that ends now."""
        while self._restarts and self._restarts[0][0] < now - self.period:
            _, child = self._restarts.popleft()
            self._by_child[child] -= 1
            if not self._by_child[child]:
                del self._by_child[child]
        return len(self._restarts)

    def clear(self) -> None:
        """Forget every restart."""
        self._restarts.clear()
        self._by_child.clear()
