"""A project's own allowances count only while they are the user's own words."""

import pytest

from greenroom.agents._internal import (
    is_trusted,
    keep_rules,
    rules_digest,
    trust_rules,
    user_rules_path,
)
from greenroom.core import AgentContext, RuleFileError, Workspace
from greenroom.permissions import PermissionRule
from greenroom.permissions._internal import read_rules
from greenroom.permissions.rule_file import store_rules

RULE = PermissionRule.allow_command("git status")
OTHER = PermissionRule.allow_command("git log")


@pytest.fixture
def context(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    workspace = Workspace(tmp_path / "project")
    return AgentContext(session_id="s-1", agent_type="coder", workspace=workspace)


def test_an_answer_for_the_session_is_kept_nowhere(context):
    assert keep_rules([RULE], "session", context) is None
    assert not user_rules_path().parent.exists()


def test_what_the_user_answered_for_the_project_is_trusted(context):
    path = keep_rules([RULE], "project", context)
    assert is_trusted(path)
    assert keep_rules([OTHER], "project", context) == path
    assert is_trusted(path)
    assert len(read_rules(path)) == 2


def test_a_file_that_came_with_the_project_is_not_trusted_by_one_more_answer(context):
    path = context.workspace.root / ".greenroom" / "permissions.json"
    store_rules(path, [OTHER])
    assert not is_trusted(path)
    keep_rules([RULE], "project", context)
    assert not is_trusted(path)
    assert len(read_rules(path)) == 2


def test_a_file_is_trusted_as_a_whole_if_it_is_what_was_shown(context):
    path = context.workspace.root / ".greenroom" / "permissions.json"
    store_rules(path, [OTHER])
    shown = rules_digest(path)
    trust_rules(path, shown)
    assert is_trusted(path)
    keep_rules([RULE], "project", context)
    assert is_trusted(path)
    with pytest.raises(RuleFileError, match="changed meanwhile"):
        trust_rules(path, shown)


def test_what_can_not_be_read_has_no_digest(context):
    assert rules_digest(context.workspace.root / "none") is None
    assert not is_trusted(context.workspace.root / "none")


def test_any_change_takes_the_trust_away(context):
    path = keep_rules([RULE], "project", context)
    path.write_bytes(path.read_bytes() + b" ")
    assert not is_trusted(path)


def test_an_answer_for_always_goes_to_the_users_own_file(context):
    assert keep_rules([RULE], "always", context) == user_rules_path()
    assert len(read_rules(user_rules_path())) == 1
    assert not is_trusted(user_rules_path())


@pytest.mark.parametrize("damage", [b"{", b"[]", b'{"trusted": 7}', b"\xff"])
def test_a_damaged_record_trusts_nothing_and_says_where_it_is(context, damage):
    path = keep_rules([RULE], "project", context)
    record = user_rules_path().with_name("trusted.json")
    record.write_bytes(damage)
    with pytest.raises(RuleFileError, match=r"trusted\.json"):
        is_trusted(path)


def test_a_disk_that_refuses_is_a_clear_error(context):
    context.workspace.root.mkdir()
    (context.workspace.root / ".greenroom").write_text("in the way")
    with pytest.raises(RuleFileError, match=r"permissions\.json"):
        keep_rules([RULE], "project", context)
