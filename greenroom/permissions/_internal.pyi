from greenroom.permissions.call import AnyTool as AnyTool
from greenroom.permissions.explanation import Explanation as Explanation, explain as explain
from greenroom.permissions.judgement import Judgement as Judgement
from greenroom.permissions.modes import (
    PermissionMode as PermissionMode,
    Sandboxed as Sandboxed,
    check_mode as check_mode,
)
from greenroom.permissions.rule_file import (
    ask_about_everything as ask_about_everything,
    drop_rule as drop_rule,
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
