"""What a model charges, as its user configures it; no prices are known here."""

import math
from dataclasses import dataclass

import msgspec

from greenroom.core.errors import ConfigurationError
from greenroom.core.usage import Usage


@dataclass(frozen=True)
class Price:
    """The price of a million tokens of each kind, in any one currency.

    Attributes:
        input: of tokens that are sent.
        output: of tokens that the model writes.
        cache_read: of sent tokens that the provider's cache holds; by default as `input`.
        cache_write: of sent tokens that go into that cache; by default as `input`.

    Raises:
        ConfigurationError: a price is negative or no number.

    Example:
        >>> Price(input=3, output=15).cost(Usage(2_000_000, 1_000_000))
        21.0
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is no price."""
        for price in (self.input, self.output, self.cache_read, self.cache_write):
            if price is not None and not 0 <= price < math.inf:
                raise ConfigurationError(f"{price!r} is no price", hint="give 0 or more")

    @property
    def is_free(self) -> bool:
        """Whether nothing costs anything."""
        return not any((self.input, self.output, self.cache_read, self.cache_write))

    def cost(self, usage: Usage) -> float:
        """Return what these tokens cost; what is not reported counts as 0."""
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        total = (
            self.input * (usage.input_tokens or 0)
            + self.output * (usage.output_tokens or 0)
            + read * (usage.cache_read_tokens or 0)
            + write * (usage.cache_write_tokens or 0)
        )
        return total / 1_000_000

    def saved(self, usage: Usage) -> float | None:
        """Return how much more these tokens would cost without a cache; None if none is reported.

        Example:
            >>> price = Price(input=3, output=15, cache_read=0.3, cache_write=3.75)
            >>> price.saved(Usage(1_000, 50, cache_read_tokens=1_000_000, cache_write_tokens=0))
            2.7
        """
        if usage.cache_read_tokens is None and usage.cache_write_tokens is None:
            return None
        plain = Usage(usage.sent, usage.output_tokens)
        return self.cost(plain) - self.cost(usage)

    def charged(self, usage: Usage) -> Usage:
        """Return the usage with its cost, and with what the cache has saved."""
        cost, saved = self.cost(usage), self.saved(usage)
        return msgspec.structs.replace(usage, cost=cost, saved=saved)
