"""Limits and delays that work alone, on any code: budgets, back-off."""

from greenroom.resilience.backoff import Backoff as Backoff
from greenroom.resilience.budget import Budget as Budget
from greenroom.resilience.budget import BudgetStatistics as BudgetStatistics
from greenroom.resilience.budget import Limit as Limit

__all__ = ["Backoff", "Budget", "BudgetStatistics", "Limit"]
