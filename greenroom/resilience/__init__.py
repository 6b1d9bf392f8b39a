"""Policies for any async code: retry, circuit breaker, limits and budgets.

The first three have `await policy.call(fn, *args)`, so they compose:
`retry.call(breaker.call, fn, x)`. Modules: `retry` (with back-off), `breaker`, `limits` (rate and
concurrency), `gate` (what all calls with one key learn from a refusal), `budget`, and `meter` (by
which a budget may refuse a wait). What is shared may be used in several event loops, one after the
other or at once: `clock` and `waiting` see to that.
"""

from greenroom._lazy import open_lazily

__getattr__, __dir__, __all__ = open_lazily(__name__)
