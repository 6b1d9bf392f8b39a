from greenroom.permissions.manager import PermissionManager as PermissionManager
from greenroom.permissions.matcher import RuleMatcher as RuleMatcher
from greenroom.permissions.rule import PermissionRule as PermissionRule, RuleScope as RuleScope
