"""Tokens that model calls used, everything else that counts, and what a model charges."""

import math
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from greenroom.core.errors import ConfigurationError
from greenroom.core.serde import Wire

Number = TypeVar("Number", int, float)


class Usage(Wire, frozen=True):
    """Tokens of one model call, or a sum of several; None is "not reported", which is not 0.

    Attributes:
        input_tokens: what was sent, without tokens read from or written to the provider's cache.
        output_tokens: what the model wrote, reasoning included.
        cache_read_tokens: sent, and served from the provider's cache.
        cache_write_tokens: sent, and stored in the provider's cache.
        reasoning_tokens: the part of `output_tokens` that was reasoning.
        cost: what the provider charges for them by its configured `Price`; None where it has none.
        saved: how much more that would be without the provider's cache, by the same price; below 0
            where writing to the cache cost more than was read from it.

    Example:
        >>> (Usage(10, 5) + Usage(1, 2, cache_read_tokens=7)).total
        25
        >>> Usage(100, 5, cache_read_tokens=300).cached
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
        """Add field by field; a field that neither reports stays unreported."""
        return Usage(
            *(_sum(getattr(self, field), getattr(other, field)) for field in self.__struct_fields__)
        )

    @property
    def total(self) -> int:
        """All tokens, sent and written; what is not reported counts as 0."""
        parts = (
            self.input_tokens,
            self.output_tokens,
            self.cache_read_tokens,
            self.cache_write_tokens,
        )
        return sum(part or 0 for part in parts)

    @property
    def sent(self) -> int:
        """All tokens that were sent, cached or not; what is not reported counts as 0."""
        parts = (self.input_tokens, self.cache_read_tokens, self.cache_write_tokens)
        return sum(part or 0 for part in parts)

    @property
    def cached(self) -> float | None:
        """What share of the sent tokens came from the cache, 0 to 1; None where that is not reported."""
        return (
            self.cache_read_tokens / self.sent
            if self.cache_read_tokens is not None and self.sent
            else None
        )

    @property
    def is_cache_miss(self) -> bool:
        """Whether nothing came from the cache, though enough was sent for that, and it is reported.

        Less than 1,024 tokens are not cached by any provider, so that they miss nothing.
        """
        return self.cached == 0 and self.sent >= _CACHEABLE

    @property
    def cache_note(self) -> str:
        """What the cache did for one call, for people; empty where it is not reported, or not asked.

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
        return f"cache {int(self.cached * 100)} %" if self.cached else ""


_CACHEABLE = 1024


class Used(Wire, frozen=True):
    """What was used of everything that budgets count, time excepted.

    Attributes:
        usage: tokens and cost of all model calls together.
        model_calls: calls of models.
        tool_calls: calls of tools.
    """

    usage: Usage = Usage()
    model_calls: int = 0
    tool_calls: int = 0

    def __add__(self, other: "Used") -> "Used":
        """Add each of them."""
        return Used(
            self.usage + other.usage,
            self.model_calls + other.model_calls,
            self.tool_calls + other.tool_calls,
        )


def _sum(left: Number | None, right: Number | None) -> Number | None:
    if left is None or right is None:
        return right if left is None else left
    return left + right


# ---- What a model charges, as its user configures it; no prices are known here.


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
        """Refuse what is not a price."""
        for price in (self.input, self.output, self.cache_read, self.cache_write):
            if price is not None and not 0 <= price < math.inf:
                raise ConfigurationError(f"{price!r} is not a price", hint="give 0 or more")

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

    def charge(self, usage: Usage) -> Usage:
        """Return the usage with its cost, and with what the cache has saved."""
        cost, saved = self.cost(usage), self.saved(usage)
        return msgspec.structs.replace(usage, cost=cost, saved=saved)
