import pytest

from greenroom.core import AgentContext, RuleDecision, Workspace
from greenroom.permissions import PermissionManager, PermissionRule

ALLOW, DENY, ASK = RuleDecision.ALLOW, RuleDecision.DENY, RuleDecision.ASK


@pytest.fixture
def context():
    return AgentContext(session_id="s-1", agent_type="coder", workspace=Workspace("/srv/project"))


def test_what_no_rule_is_about_is_asked(context):
    assert PermissionManager().check("Read", {"file_path": "a"}, context) is ASK


def test_an_allowed_tool_is_allowed_by_its_exact_name_only(context):
    manager = PermissionManager([PermissionRule.allow_tool("Read")])
    assert manager.check("Read", {"file_path": "a"}, context) is ALLOW
    for other in ("read", "Read ", "Read\u200b", "Reader", ""):
        assert manager.check(other, {"file_path": "a"}, context) is ASK


def test_a_denied_path_is_denied_in_any_case_and_anywhere_below(context):
    manager = PermissionManager(
        [PermissionRule.allow_category("read"), PermissionRule.deny_path("**/.env", priority=1)]
    )
    assert manager.check("Read", {"file_path": "deep/er/.ENV"}, context) is DENY
    assert manager.check("Read", {"file_path": "env"}, context) is ALLOW
