"""Back-off: how long to wait before the next try. Pure: it knows no clock and waits for nothing."""

import math
import random as _random
from collections.abc import Callable
from dataclasses import dataclass

from greenroom.core import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class Backoff:
    """Delays that grow by a factor up to a limit, each shortened by chance.

    The n-th delay is `min(limit, first * factor ** (n - 1)) * (1 - jitter * U)`, where U is drawn
    anew from [0, 1) each time. So a jitter of 1 is the "full jitter", and of 0.5 the "equal jitter",
    of Marc Brooker's "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015): what failed
    together does not come back together.

    Attributes:
        first: seconds of the first delay, before jitter.
        factor: by how much each delay is longer than the one before it.
        limit: seconds that no delay exceeds.
        jitter: the share of a delay that chance may take away, from 0 to 1.
        random: draws from [0, 1); tests put in one that they know.

    Raises:
        ConfigurationError: a negative delay, a factor below 1, a limit below the first delay, or a
            jitter outside of 0 to 1.

    Example:
        >>> [Backoff(first=1, limit=5, jitter=0).delay(n) for n in (1, 2, 3, 4)]
        [1.0, 2.0, 4.0, 5.0]
    """

    first: float = 0.1
    factor: float = 2.0
    limit: float = 30.0
    jitter: float = 0.5
    random: Callable[[], float] = _random.random

    def __post_init__(self) -> None:
        """Refuse what is no back-off."""
        # Written so that a NaN, which no comparison holds for, is refused too.
        if not 0 <= self.first <= self.limit < float("inf"):
            raise ConfigurationError(
                "Backoff wants 0 <= first <= limit, and a limit that is finite"
            )
        if not 1 <= self.factor < float("inf"):
            raise ConfigurationError("Backoff.factor must be 1 or more")
        if not 0 <= self.jitter <= 1:
            raise ConfigurationError("Backoff.jitter is a share: it must be from 0 to 1")

    def delay(self, n: int) -> float:
        """Return the seconds to wait before the n-th try that follows a failure, from 1 on.

        Raises:
            ValueError: `n` is below 1.
        """
        if n < 1:
            raise ValueError(f"tries are counted from 1, and this is {n}")
        return self._full(n) * (1.0 - self.jitter * self.random())

    def _full(self, n: int) -> float:
        try:
            return min(self.limit, self.first * math.pow(self.factor, n - 1))
        except OverflowError:
            return self.limit if self.first else 0.0
