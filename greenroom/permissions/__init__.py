"""May this agent do that? Rules, matchers and a shell analyser; it never prompts and runs nothing.

The rooms, each importing only those before it: `facts` are what one tool call would do; `shell` takes
a command apart into them; `rules` are what a person decides beforehand; `judging` makes one decision
of both, and says why; `rule_files` reads and writes rules; `answers` proposes rules, and keeps those
of one session. `manager` is what users hold.
"""

from greenroom.permissions.answers.grants import GrantKeeper as GrantKeeper
from greenroom.permissions.facts.disk import read_beginning as read_beginning
from greenroom.permissions.judging.call import JudgedTool as JudgedTool
from greenroom.permissions.judging.explanation import Explanation as Explanation
from greenroom.permissions.judging.mode import (
    PermissionMode as PermissionMode,
    Sandboxed as Sandboxed,
    check_mode as check_mode,
)
from greenroom.permissions.manager import (
    PermissionManager as PermissionManager,
    PermissionStatistics as PermissionStatistics,
)
from greenroom.permissions.rule_files.rule_file import (
    asking_everything as asking_everything,
    encode_rule as encode_rule,
    parse_rules as parse_rules,
    read_rules as read_rules,
    tightening as tightening,
)
from greenroom.permissions.rule_files.trust import (
    is_trusted as is_trusted,
    keep_rules as keep_rules,
    rules_digest as rules_digest,
    trust_rules as trust_rules,
    user_rules_path as user_rules_path,
)
from greenroom.permissions.rules.matcher import Predicate as Predicate, RuleMatcher as RuleMatcher
from greenroom.permissions.rules.rule import (
    PermissionRule as PermissionRule,
    RuleScope as RuleScope,
)
from greenroom.permissions.shell.programs.usage import read_only_commands as read_only_commands
