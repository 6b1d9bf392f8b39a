"""What is verified before a rule is used: its id, and its own examples."""

from collections.abc import Container
from dataclasses import replace

from greenroom.core import AgentContext, RuleDecision, RuleFileError, Workspace
from greenroom.permissions.judging.call import Call, read_call
from greenroom.permissions.judging.evaluator import combine, judge
from greenroom.permissions.judging.rule_index import RuleIndex
from greenroom.permissions.rules.rule import PermissionRule

__all__ = ["check_rule"]


def check_rule(rule: PermissionRule, ids: Container[str]) -> None:
    """Verify that none of these ids is the rule's, and its examples, as if it were the only one.

    Raises:
        RuleFileError: it names the id, or the first example that the rule does not meet.
    """
    if rule.id != rule.generated_id and rule.id in ids:
        raise RuleFileError(f"two rules have the id {rule.id!r}", hint="rename one")
    for example in rule.match:
        if not _meets(rule, example):
            raise RuleFileError(f"the rule {rule.id!r} does not match its example {example!r}")
    for example in rule.not_match:
        if _meets(rule, example):
            raise RuleFileError(f"the rule {rule.id!r} must not match {example!r}, but does")


def _meets(rule: PermissionRule, example: str) -> bool:
    call = _call(rule, example)
    if rule.matcher.about_calls and not rule.matcher.concerns(call.tool, call.category):
        return False
    verdicts = judge(call, RuleIndex((replace(rule, expires=None, match=(), not_match=()),)))
    if rule.decision is RuleDecision.ASK:
        return any(verdict.rule is not None for verdict in verdicts)
    return combine(verdicts) is rule.decision


def _call(rule: PermissionRule, example: str) -> Call:
    context = AgentContext(session_id="example", agent_type="", workspace=Workspace("/workspace"))
    url = example if "://" in example else f"https://{example}/"
    if rule.matcher.path:
        return read_call("Read", {"file_path": example}, context)
    if rule.matcher.domain:
        return read_call("WebFetch", {"url": url}, context)
    if rule.matcher.about_commands:
        return read_call("Bash", {"command": example}, context)
    return read_call(example, {}, context)
