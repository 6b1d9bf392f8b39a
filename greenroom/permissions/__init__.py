"""May this agent do that? Rules, and the decisions that follow from them.

The package only decides: it asks no one and runs nothing. A `rule` is a decision and a `matcher`,
whose `patterns` match paths, hosts and texts. A `call` is a tool call taken apart into facts;
`greenroom.shell` does that for commands. `scopes` picks the rules that apply to a call and puts
them in order, `evaluator` judges each fact by them, and `modes` settles what no rule decides.
`explanation` describes a decision to the person who is asked, and `suggestions` proposes the rules
that an answer would add; `grants` keeps those of a session, and `rule_file` stores the others on
disk. `manager` is the part that users hold.
"""

from greenroom.permissions.call import AnyTool as AnyTool, JudgedTool as JudgedTool
from greenroom.permissions.explanation import Explanation as Explanation, explain as explain
from greenroom.permissions.grants import GrantKeeper as GrantKeeper
from greenroom.permissions.judgement import Judgement as Judgement
from greenroom.permissions.manager import (
    PermissionManager as PermissionManager,
    PermissionStatistics as PermissionStatistics,
)
from greenroom.permissions.matcher import Predicate as Predicate, RuleMatcher as RuleMatcher
from greenroom.permissions.modes import (
    PermissionMode as PermissionMode,
    Sandboxed as Sandboxed,
    check_mode as check_mode,
)
from greenroom.permissions.rule import PermissionRule as PermissionRule, RuleScope as RuleScope
from greenroom.permissions.rule_file import (
    ask_about_everything as ask_about_everything,
    encode_rule as encode_rule,
    is_trusted as is_trusted,
    keep_rules as keep_rules,
    parse_rules as parse_rules,
    read_rules as read_rules,
    rules_digest as rules_digest,
    tighten as tighten,
    trust_rules as trust_rules,
    user_rules_path as user_rules_path,
)
