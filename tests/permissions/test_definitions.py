"""Remembered answers about tools from elsewhere hold only as long as these say the same."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from greenroom.core import AgentContext, RuleDecision, RuleFileError, Workspace
from greenroom.permissions import PermissionManager, PermissionRule, RuleMatcher
from greenroom.permissions.rule_file import read_rules, write_rules

ONE, OTHER = "sha256:11", "sha256:22"


@dataclass
class Remote:
    definition_hash: str = ONE
    name: str = "mcp__time__now"
    category: str = "network"


def context(tmp_path: Path) -> AgentContext:
    return AgentContext(session_id="s", agent_type="demo", workspace=Workspace(tmp_path))


def test_an_answer_is_bound_to_the_definition(tmp_path: Path) -> None:
    manager, here = PermissionManager(), context(tmp_path)
    asked = manager.explain(Remote(), {}, here)
    assert asked.decision is RuleDecision.ASK
    (rule,) = manager.remember(asked, RuleDecision.ALLOW, "always", here)
    assert str(rule) == "allow mcp__time__now(definition:sha256:11)"
    assert manager.check(Remote(), {}, here) is RuleDecision.ALLOW
    changed = manager.judge(Remote(OTHER), {}, here)
    assert changed.decision is RuleDecision.ASK
    assert "no longer the one that was allowed" in changed.reason
    # A person who allows that as well has allowed both.
    manager.remember(manager.explain(Remote(OTHER), {}, here), RuleDecision.ALLOW, "session", here)
    assert manager.check(Remote(OTHER), {}, here) is RuleDecision.ALLOW


def test_a_never_outlasts_a_change(tmp_path: Path) -> None:
    manager, here = PermissionManager(), context(tmp_path)
    asked = manager.explain(Remote(), {}, here)
    manager.remember(asked, RuleDecision.DENY, "always", here)
    assert manager.check(Remote(OTHER), {}, here) is RuleDecision.DENY


def test_a_rule_without_a_digest_is_about_every_definition(tmp_path: Path) -> None:
    manager = PermissionManager([PermissionRule.allow_tool("mcp__time__now")])
    assert manager.check(Remote(OTHER), {}, context(tmp_path)) is RuleDecision.ALLOW


def test_a_denial_for_one_definition_is_about_that_alone(tmp_path: Path) -> None:
    matcher = RuleMatcher(tool="mcp__time__now", definition_hash=ONE)
    manager = PermissionManager([PermissionRule(decision=RuleDecision.DENY, matcher=matcher)])
    judged = manager.judge(Remote(OTHER), {}, context(tmp_path))
    assert judged.decision is RuleDecision.ASK
    assert judged.reason == "no rule is about this"
    assert manager.check(Remote(), {}, context(tmp_path)) is RuleDecision.DENY


def test_a_call_of_another_definition_is_another_call(tmp_path: Path) -> None:
    manager, here = PermissionManager(), context(tmp_path)
    digests = {manager.judge(Remote(each), {}, here).digest for each in (ONE, OTHER, ONE)}
    assert len(digests) == 2


def test_the_digest_survives_files_and_the_short_form(tmp_path: Path) -> None:
    matcher = RuleMatcher(tool="mcp__time__now", definition_hash=[ONE, OTHER])
    assert RuleMatcher.parse(str(matcher)) == matcher
    rule = PermissionRule(decision=RuleDecision.ALLOW, matcher=matcher)
    write_rules(tmp_path / "rules.json", [rule])
    assert read_rules(tmp_path / "rules.json") == (rule,)


@pytest.mark.parametrize("fields", [{}, {"tool": "Bash", "command_prefix": "ls"}])
def test_a_digest_needs_a_tool_and_whole_calls(fields: dict[str, str]) -> None:
    with pytest.raises(RuleFileError, match="definition_hash"):
        RuleMatcher(definition_hash=ONE, category="network", **fields)
