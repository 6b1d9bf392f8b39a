"""May this agent do that? Rules, matchers and a shell analyser; it never prompts and runs nothing.

The rooms, each importing only those before it: `facts` are what one tool call would do; `shell` takes
a command apart into them; `rules` are what a person decides beforehand; `judging` makes one decision
of both, and says why; `rule_files` reads and writes rules; `answers` proposes rules, and keeps those
of one session. `manager` is what users hold.
"""

from greenroom.permissions.answers.grants import GrantKeeper as GrantKeeper
from greenroom.permissions.judging.call import JudgedTool as JudgedTool
from greenroom.permissions.judging.explanation import Explanation as Explanation
from greenroom.permissions.judging.mode import PermissionMode as PermissionMode
from greenroom.permissions.judging.mode import Sandboxed as Sandboxed
from greenroom.permissions.judging.mode import check_mode as check_mode
from greenroom.permissions.manager import PermissionManager as PermissionManager
from greenroom.permissions.manager import PermissionStatistics as PermissionStatistics
from greenroom.permissions.rule_files.rule_file import asking_everything as asking_everything
from greenroom.permissions.rule_files.rule_file import encode_rule as encode_rule
from greenroom.permissions.rule_files.rule_file import parse_rules as parse_rules
from greenroom.permissions.rule_files.rule_file import read_rules as read_rules
from greenroom.permissions.rule_files.rule_file import tightening as tightening
from greenroom.permissions.rule_files.trust import is_trusted as is_trusted
from greenroom.permissions.rule_files.trust import keep_rules as keep_rules
from greenroom.permissions.rule_files.trust import rules_digest as rules_digest
from greenroom.permissions.rule_files.trust import trust_rules as trust_rules
from greenroom.permissions.rule_files.trust import user_rules_path as user_rules_path
from greenroom.permissions.rules.matcher import Predicate as Predicate
from greenroom.permissions.rules.matcher import RuleMatcher as RuleMatcher
from greenroom.permissions.rules.rule import PermissionRule as PermissionRule
from greenroom.permissions.rules.rule import RuleScope as RuleScope
from greenroom.permissions.shell.programs.reading import read_only_commands as read_only_commands

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
    "Sandboxed",
    "asking_everything",
    "check_mode",
    "encode_rule",
    "is_trusted",
    "keep_rules",
    "parse_rules",
    "read_only_commands",
    "read_rules",
    "rules_digest",
    "tightening",
    "trust_rules",
    "user_rules_path",
]
