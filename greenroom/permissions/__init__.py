"""May this agent do that? Rules, matchers and a shell analyser; it never prompts and runs nothing.

Modules, from the value to the decision: `rule` (with `rule_builders`, `rule_text`, `rule_file`,
`rule_model`, `rule_examples`, `rule_place`, `atomic`, `trust`), `matcher` (with `prefix`, `pattern`, `host`); `call`
and `facts` (what a tool call would do, with `place`, `operands` and the package `shell`);
`likeness` (is the rule about the fact?), `evaluator` (order and combination), `mode`;
`explanation`, `suggestion` (with `suggested_command`), `grants` (answers that a session keeps),
`statistics`, and `manager`, which users hold (with `who`).
"""

from greenroom.permissions.call import JudgedTool as JudgedTool
from greenroom.permissions.explanation import Explanation as Explanation
from greenroom.permissions.grants import GrantKeeper as GrantKeeper
from greenroom.permissions.manager import PermissionManager as PermissionManager
from greenroom.permissions.matcher import Predicate as Predicate
from greenroom.permissions.matcher import RuleMatcher as RuleMatcher
from greenroom.permissions.mode import PermissionMode as PermissionMode
from greenroom.permissions.rule import PermissionRule as PermissionRule
from greenroom.permissions.rule import RuleScope as RuleScope
from greenroom.permissions.rule_file import read_rules as read_rules
from greenroom.permissions.rule_file import store_rules as store_rules
from greenroom.permissions.rule_file import tightening as tightening
from greenroom.permissions.rule_place import remembered_path as remembered_path
from greenroom.permissions.rule_place import user_rules_path as user_rules_path
from greenroom.permissions.statistics import PermissionStatistics as PermissionStatistics
from greenroom.permissions.trust import is_trusted as is_trusted
from greenroom.permissions.trust import keep_rules as keep_rules

__all__ = [
    "Explanation",
    "GrantKeeper",
    "JudgedTool",
    "PermissionManager",
    "PermissionMode",
    "PermissionRule",
    "PermissionStatistics",
    "Predicate",
    "RuleMatcher",
    "RuleScope",
    "is_trusted",
    "keep_rules",
    "read_rules",
    "remembered_path",
    "store_rules",
    "tightening",
    "user_rules_path",
]
