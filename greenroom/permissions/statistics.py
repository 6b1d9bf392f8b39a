"""Figures about the rules of a permission manager."""

from collections.abc import Mapping
from dataclasses import dataclass

from greenroom.permissions.rules.rule import RuleScope

__all__ = ["PermissionStatistics"]


@dataclass(frozen=True)
class PermissionStatistics:
    """A look at one permission manager.

    Attributes:
        rules: how many rules of its own stand in each scope that has any.
        inherited: how many rules of the managers above it hold too.
    """

    rules: Mapping[RuleScope, int]
    inherited: int
