"""The examples of rules: what one must match, or must not, is judged by that rule alone."""

from dataclasses import replace

from greenroom.core import AgentContext, Workspace
from greenroom.permissions.call import Call, read_call
from greenroom.permissions.evaluator import combine, evaluate
from greenroom.permissions.rule import PermissionRule
from greenroom.permissions.scopes import RuleIndex, is_about_tool


def meets(rule: PermissionRule, example: str) -> bool:
    """Whether a rule decides as it says about what its example names."""
    call = _example_call(rule, example)
    if rule.matcher.about_calls and not is_about_tool(rule.matcher, call.tool, call.category):
        return False
    rulings = evaluate(call, RuleIndex([replace(rule, expires=None)]))
    is_about = any(ruling.rule is not None for ruling in rulings)
    return is_about and combine(rulings) is rule.decision


def _example_call(rule: PermissionRule, example: str) -> Call:
    context = AgentContext(session_id="example", agent_type="", workspace=Workspace("/workspace"))
    if rule.matcher.path:
        return read_call("Read", {"file_path": example}, context)
    if rule.matcher.domain:
        url = example if "://" in example else f"https://{example}/"
        return read_call("WebFetch", {"url": url}, context)
    if rule.matcher.about_commands:
        return read_call("Bash", {"command": example}, context)
    return read_call(example, {}, context)
