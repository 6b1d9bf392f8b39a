from greenroom.permissions.call import Call as Call, read_call as read_call
from greenroom.permissions.evaluator import (
    STRICTNESS as STRICTNESS,
    Ruling as Ruling,
    evaluate as evaluate,
)
from greenroom.permissions.explanation import explain as explain
from greenroom.permissions.judgement import Judgement as Judgement, judge_failure as judge_failure
from greenroom.permissions.read_screen import Layer as Layer, screen_files as screen_files
from greenroom.permissions.scopes import (
    RuleIndex as RuleIndex,
    choose_rules as choose_rules,
)
from greenroom.permissions.settling import apply_mode as apply_mode
