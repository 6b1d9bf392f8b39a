"""May this agent do that? Rules, and the decision that follows; nothing is asked or run here.

A `rule` says what a `matcher` is about, with `patterns` for paths, hosts and texts. A `call` is a
tool call as facts (what commands do is `greenroom.shell`'s to say). `scopes` has the rules that
hold for it in their order, `evaluator` says how far one is about a fact and makes a decision of it,
and `modes` settles what no rule decides. `explanation` is for the person who is asked;
`suggestions` are rules made of answers, and `rule_file` keeps rules on the disk. `manager` is what
users hold.
"""

from greenroom.permissions.call import JudgedTool as JudgedTool
from greenroom.permissions.evaluator import Judgement as Judgement
from greenroom.permissions.explanation import Explanation as Explanation, explain as explain
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
from greenroom.permissions.suggestions import GrantKeeper as GrantKeeper
