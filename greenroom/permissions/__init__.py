"""May this agent do that? Rules, and the decisions that follow from them.

The package only decides: it asks nobody and runs nothing. A `rule` is a decision and a `matcher`,
whose `patterns` match paths, hosts and texts. A `call` is a tool call taken apart into facts;
`greenroom.shell` does that for commands. `scopes` picks the rules that apply to a call and puts
them in order, `evaluator` judges each fact by them, and `modes` settles what no rule decides.
`explanation` describes a decision to the person who is asked, and `suggestions` proposes the rules
that an answer would add; `grants` keeps those of a session, and `rule_file` stores the others on
disk. `manager` is the part that users hold.
"""

from greenroom.permissions.manager import PermissionManager
from greenroom.permissions.matcher import RuleMatcher
from greenroom.permissions.rule import PermissionRule, RuleScope

__all__ = ["PermissionManager", "PermissionRule", "RuleMatcher", "RuleScope"]
