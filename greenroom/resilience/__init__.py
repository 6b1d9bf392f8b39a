"""Limits that work alone, on any code: so far budgets."""

from greenroom.resilience.budget import Budget as Budget

__all__ = ["Budget"]
