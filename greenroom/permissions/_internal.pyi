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
    encode_rule as encode_rule,
    parse_rules as parse_rules,
    read_bytes as read_bytes,
    read_rules as read_rules,
    store_rules as store_rules,
    tighten as tighten,
    write_atomically as write_atomically,
    write_rules as write_rules,
)
