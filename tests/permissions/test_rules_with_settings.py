"""Rules about commands for which variables are set, such as `CI=1 npm test`."""

import pytest

from greenroom.core import AgentContext, RuleDecision, RuleFileError, Workspace
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.permissions.matcher import RuleMatcher
from greenroom.permissions.rule_file import read_rules, write_rules

ALLOW, DENY, ASK = RuleDecision.ALLOW, RuleDecision.DENY, RuleDecision.ASK
CONTEXT = AgentContext(session_id="s", agent_type="a", workspace=Workspace("/srv/project"))


def decision(command, *rules):
    return PermissionManager(rules).check("Bash", {"command": command}, CONTEXT)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("A=1 B=2 make test", ALLOW),
        ("B=2 A=1 make test -k", ALLOW),
        ("NO_COLOR=1 A=1 B='2' make test", ALLOW),
        ("A=1 B=2 timeout 5 make test", ALLOW),
        ("make test", ASK),
        ("A=1 make test", ASK),
        ("A=1 B=3 make test", ASK),
        ("A=1 B=2 C=3 make test", ASK),
        ("A=1 A=1 B=2 make test", ASK),
        ("A=1 B=$X make test", ASK),
        ("A=1 B+=2 make test", ASK),
        ("A=1 B=2 LD_PRELOAD=./x.so make test", ASK),
        ("NO_COLOR='$(id)' A=1 B=2 make test", ASK),
        ("A=1 B=2 make", ASK),
        ("A=1 B=2 bash -c 'make test'", ASK),
        ("A=1 B=2; make test", ASK),
        ("export A=1 B=2; make test", ASK),
        ("A=1 B=2 make test; make test", ASK),
    ],
)
def test_an_allowance_is_about_a_command_with_exactly_its_settings(command, expected):
    assert decision(command, PermissionRule.allow_command("A=1 B=2 make test")) is expected
    if " -k" not in command:
        exact = PermissionRule.parse("Bash(B=2 A=1 make test)", "allow")
        assert decision(command, exact) is expected


def test_a_rule_without_settings_is_not_about_those_of_a_command():
    plain, set_ = map(PermissionRule.allow_command, ("make", "A=1 make"))
    assert decision("A=1 make", plain) is ASK
    assert decision("A=1 make && make", plain, set_) is ALLOW
    assert decision("A=1 ls && make", plain, set_) is ASK


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("A=1 make", DENY),
        ("B=2 A='1' make -k", DENY),
        ("A=1 /usr/bin/make", DENY),
        ("A=1 nice make", DENY),
        ("make", ALLOW),
        ("A=2 make", ALLOW),
        ("B=1 make", ALLOW),
        ("A=1 ls", ALLOW),
        # what may come to the same
        ("A=$X make", ASK),
        ("A=2 A=1 make", ASK),
        ("A+=1 make", ASK),
        ("A=1; make", ASK),
        ("export A=1; make", ASK),
        ("env A=1 make", ASK),
        ("read A; make", ASK),
        ("A=1 sh -c make", ASK),
        ("A=1 find . -exec make {} +", ASK),
    ],
)
def test_a_denial_is_about_the_command_with_its_settings_however_they_are_set(command, expected):
    denied = PermissionRule.deny_command("A=1 make")
    found = decision(command, denied, PermissionRule.allow_all())
    assert found is expected or (expected is ASK and found is DENY)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Bash(PYTHONPATH=src pytest:*)", "Bash(PYTHONPATH=src pytest:*)"),
        ("Bash(A='b c' D= make 'x y')", "Bash(A='b c' D='' make 'x y')"),
        ("Bash(make A=1)", "Bash(make A=1)"),
    ],
)
def test_settings_stand_in_the_short_form_and_in_rule_files(tmp_path, text, shown):
    rule = PermissionRule.parse(text, "allow")
    assert str(rule.matcher) == shown
    assert PermissionRule.parse(shown, "allow") == rule
    write_rules(tmp_path / "rules.json", [rule])
    assert read_rules(tmp_path / "rules.json") == (rule,)


def test_settings_are_kept_apart_from_the_words():
    matcher = RuleMatcher(command_prefix=("B=2 A=1 NO_COLOR=1 make test",))
    assert matcher.settings == {"A=1", "B=2"}
    assert matcher.prefixes == (("make", "test"),)


def test_examples_of_a_rule_may_have_settings():
    given = {"match": ("CI=1 npm ci",), "not_match": ("npm ci",)}
    PermissionManager([PermissionRule.allow_command("CI=1 npm", **given)])
    with pytest.raises(RuleFileError, match="npm ci"):
        PermissionManager([PermissionRule.allow_command("npm", **given)])
