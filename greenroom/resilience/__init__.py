"""Limits that work alone, on any code: so far budgets."""

from greenroom.resilience.budget import Budget as Budget
from greenroom.resilience.budget import BudgetStatistics as BudgetStatistics
from greenroom.resilience.budget import Limit as Limit

__all__ = ["Budget", "BudgetStatistics", "Limit"]
