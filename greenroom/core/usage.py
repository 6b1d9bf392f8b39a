"""The tokens and calls that agents use, and the prices of models."""

import math

import msgspec
from msgspec.structs import astuple

from greenroom.core.errors import ConfigurationError
from greenroom.core.serde import Wire


class Usage(Wire, frozen=True):
    """Tokens of one model call, or a sum of several; None is "not reported", which is not 0.

    Attributes:
        input_tokens: sent, without those read from or written to the provider's cache.
        output_tokens: written by the model, reasoning included.
        cache_read_tokens: sent, and served from the provider's cache.
        cache_write_tokens: sent, and stored in the provider's cache.
        reasoning_tokens: the part of `output_tokens` that was reasoning.
        cost: their cost by the provider's configured `Price`; None without one.
        saved: how much the provider's cache has saved, by the same price, or a cache of replies;
            negative if writing to it cost more than reading from it saved.

    Example:
        >>> (Usage(10, 5) + Usage(1, 2, cache_read_tokens=7)).total
        25
        >>> Usage(100, 5, cache_read_tokens=300).cache_share
        0.75
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: float | None = None
    saved: float | None = None

    def __add__(self, other: "Usage") -> "Usage":
        """Add field by field; a field that neither reports stays None."""
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Usage(*[b if a is None else a if b is None else a + b for a, b in pairs])

    @property
    def total(self) -> int:
        """All tokens, sent and written; what is not reported counts as 0."""
        return self.sent + (self.output_tokens or 0)

    @property
    def sent(self) -> int:
        """All tokens that were sent, cached or not; what is not reported counts as 0."""
        cached = (self.cache_read_tokens or 0) + (self.cache_write_tokens or 0)
        return (self.input_tokens or 0) + cached

    @property
    def cache_share(self) -> float | None:
        """The share of the sent tokens that came from the cache, 0 to 1; None if not reported."""
        read, sent = self.cache_read_tokens, self.sent
        return read / sent if read is not None and sent else None

    @property
    def is_cache_miss(self) -> bool:
        """Whether nothing came from the cache, though the provider reports it and enough was sent.

        No provider caches fewer than 1,024 tokens, so those are never a miss.
        """
        return self.cache_share == 0 and self.sent >= _CACHEABLE

    @property
    def cache_note(self) -> str:
        """What the cache did for one call, in words; empty if unreported or unused.

        Example:
            >>> Usage(80, 5, cache_read_tokens=920, cache_write_tokens=40).cache_note
            'cache 88 %'
            >>> Usage(10, 5, cache_read_tokens=0, cache_write_tokens=2000).cache_note
            'cache miss'
            >>> Usage(2010, 5).cache_note
            ''
        """
        if self.is_cache_miss:
            return "cache miss"
        return f"cache {int(self.cache_share * 100)} %" if self.cache_share else ""


_CACHEABLE = 1024


class Used(Wire, frozen=True):
    """The use of everything that budgets count, except time.

    Attributes:
        usage: tokens and cost of all model calls together.
        model_calls: calls of models.
        tool_calls: calls of tools.
    """

    usage: Usage = Usage()
    model_calls: int = 0
    tool_calls: int = 0

    def __add__(self, other: "Used") -> "Used":
        """Add field by field."""
        return Used(
            self.usage + other.usage,
            self.model_calls + other.model_calls,
            self.tool_calls + other.tool_calls,
        )


class Price(msgspec.Struct, frozen=True):
    """The price of a million tokens of each kind, in any one currency; users configure it.

    Attributes:
        input: of tokens that are sent.
        output: of tokens that the model writes.
        cache_read: of sent tokens that the provider's cache holds; by default as `input`.
        cache_write: of sent tokens that go into that cache; by default as `input`.

    Raises:
        ConfigurationError: a price is negative or not a number.

    Example:
        >>> Price(input=3, output=15).cost(Usage(2_000_000, 1_000_000))
        21.0
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def __post_init__(self) -> None:
        """Refuse values that are not prices."""
        for price in (self.input, self.output, self.cache_read, self.cache_write):
            if price is None:
                continue
            if not isinstance(price, int | float) or not 0 <= price < math.inf:
                raise ConfigurationError(
                    f"{price!r} is not a price", hint="give an int or a float of 0 or more"
                )

    @property
    def is_free(self) -> bool:
        """Whether nothing costs anything."""
        return not any((self.input, self.output, self.cache_read, self.cache_write))

    def cost(self, usage: Usage) -> float:
        """Return the cost of these tokens; what is not reported counts as 0."""
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        total = (
            self.input * (usage.input_tokens or 0)
            + self.output * (usage.output_tokens or 0)
            + read * (usage.cache_read_tokens or 0)
            + write * (usage.cache_write_tokens or 0)
        )
        return total / 1_000_000

    def savings(self, usage: Usage) -> float | None:
        """Return how much more these tokens would cost without a cache; None if not reported.

        Example:
            >>> price = Price(input=3, output=15, cache_read=0.3, cache_write=3.75)
            >>> price.savings(Usage(1_000, 50, cache_read_tokens=1_000_000, cache_write_tokens=0))
            2.7
        """
        if usage.cache_read_tokens is None and usage.cache_write_tokens is None:
            return None
        plain = Usage(usage.sent, usage.output_tokens)
        return self.cost(plain) - self.cost(usage)

    def charge(self, usage: Usage) -> Usage:
        """Return the usage with its cost and its savings."""
        return msgspec.structs.replace(usage, cost=self.cost(usage), saved=self.savings(usage))
