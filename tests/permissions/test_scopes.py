"""Which of several rules decides: scopes, priorities, final rules, expiry, agents and sessions."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from greenroom.core import AgentContext, RuleDecision, RuleFileError, Workspace
from greenroom.permissions import PermissionManager, PermissionRule, RuleMatcher
from tests.conftest import few
from tests.permissions.traced.syntax import generate

ALLOW, DENY, ASK = RuleDecision.ALLOW, RuleDecision.DENY, RuleDecision.ASK
CONTEXT = AgentContext(session_id="s-1", agent_type="coder", workspace=Workspace("/srv/proj"))
PAST = datetime.now(UTC) - timedelta(hours=1)
FUTURE = datetime.now(UTC) + timedelta(hours=1)


def made(decision, prefix="ls", **more):
    matcher = RuleMatcher(all=True) if prefix == "*" else RuleMatcher(command_prefix=(prefix,))
    return PermissionRule(decision=RuleDecision(decision), matcher=matcher, **more)


def agent(decision, name="coder", **more):
    return made(decision, scope="agent", agent=name, **more)


def session(decision, name="s-1", **more):
    return made(decision, scope="session", session=name, **more)


def user(decision, **more):
    return made(decision, scope="user", **more)


@pytest.mark.parametrize(
    ("rules", "decision"),
    [
        ([], ASK),
        ([made("allow")], ALLOW),
        ([made("deny")], DENY),
        ([made("ask")], ASK),
        ([made("allow", prefix="pwd")], ASK),
        # a scope is asked before the next one, whatever the decisions
        ([user("allow"), made("deny")], ALLOW),
        ([user("allow"), session("deny")], ALLOW),
        ([user("allow"), agent("deny")], ALLOW),
        ([user("ask"), made("allow")], ASK),
        ([user("deny"), made("allow")], DENY),
        ([session("allow"), agent("deny")], ALLOW),
        ([session("allow"), made("deny")], ALLOW),
        ([session("deny"), agent("allow")], DENY),
        ([agent("allow"), made("deny")], ALLOW),
        ([agent("ask"), made("allow")], ASK),
        # within a scope: priority, then deny before ask before allow
        ([made("allow"), made("deny")], DENY),
        ([made("allow"), made("ask")], ASK),
        ([made("ask"), made("deny")], DENY),
        ([made("allow", priority=1), made("deny")], ALLOW),
        ([made("allow", priority=1), made("deny", priority=1)], DENY),
        ([made("allow", priority=1), made("deny", priority=2)], DENY),
        ([made("ask", priority=1), made("deny")], ASK),
        ([made("allow", priority=-1), made("ask", priority=-2)], ALLOW),
        ([made("deny", priority=99), user("allow")], ALLOW),
        ([made("allow", prefix="*"), made("deny", priority=9)], DENY),
        ([made("allow", prefix="*", priority=9), made("deny")], ALLOW),
        # final rules are asked before all scopes
        ([user("allow"), made("deny", final=True)], DENY),
        ([user("allow", priority=99), made("ask", final=True)], ASK),
        ([user("deny"), made("allow", final=True)], ALLOW),
        ([made("allow", final=True), made("deny", final=True)], DENY),
        # and no final rule overrides a stricter one
        ([user("allow", final=True), made("deny", final=True)], DENY),
        ([made("allow", final=True, priority=9), made("deny", final=True)], DENY),
        ([user("allow", final=True, priority=9), made("ask", final=True)], ASK),
        # a rule is for its agent, its session, its time
        ([agent("allow", name="reviewer")], ASK),
        ([agent("allow", name="Coder")], ASK),
        ([agent("deny", name="reviewer"), made("allow")], ALLOW),
        ([session("allow", name="s-2")], ASK),
        ([session("deny", name="s-12"), made("allow")], ALLOW),
        ([user("allow", session="s-1")], ALLOW),
        ([user("allow", session="s-2")], ASK),
        ([made("allow", expires=PAST)], ASK),
        ([made("allow", expires=FUTURE)], ALLOW),
        ([made("deny", expires=PAST), made("allow")], ALLOW),
        ([user("deny", expires=FUTURE), made("allow")], DENY),
        ([user("allow", expires=PAST), made("deny")], DENY),
        ([made("deny", expires=PAST, final=True), made("allow")], ALLOW),
    ],
)
def test_the_first_rule_in_order_decides(rules, decision):
    numbered = [
        PermissionRule(**{**vars_of(each), "id": f"r{number}"}) for number, each in enumerate(rules)
    ]
    for order in (numbered, numbered[::-1]):
        assert PermissionManager(order).check("Bash", {"command": "ls -l"}, CONTEXT) is decision


def vars_of(rule):
    return {name: getattr(rule, name) for name in rule.__dataclass_fields__}


def test_each_part_of_a_command_is_decided_by_its_own_rule():
    manager = PermissionManager(
        [user("allow"), made("deny", prefix="pwd"), made("ask", prefix="id")]
    )
    for command, decision in (
        ("ls; pwd", DENY),
        ("ls; id", ASK),
        ("id; pwd", DENY),
        ("ls; ls", ALLOW),
    ):
        assert manager.check("Bash", {"command": command}, CONTEXT) is decision


@pytest.mark.parametrize(
    "bad",
    [
        {"matcher": {}},
        {"matcher": {"command_prefix": ("",)}},
        {"matcher": {"command_prefix": ("ls; pwd",)}},
        {"matcher": {"command_prefix": ("ls $X",)}},
        {"matcher": {"command_prefix": ("ls > x",)}},
        {"matcher": {"command_prefix": ("A=1",)}},
        {"matcher": {"command_prefix": ("A=$X ls",)}},
        {"matcher": {"command_prefix": ("A=~/x ls",)}},
        {"matcher": {"command_prefix": ("A=1 ls", "ls")}},
        {"matcher": {"argv_exact": ("A=1",)}},
        {"matcher": {"command_prefix": ("ls *",)}},
        {"matcher": {"regex": ("(",)}},
        {"matcher": {"regex": ("",)}},
        {"matcher": {"path": ("../x",)}},
        {"matcher": {"path": ("",)}},
        {"matcher": {"path": ("a\0b",)}},
        {"matcher": {"path": ("{a",)}},
        {"matcher": {"domain": ("https://x.test",)}},
        {"matcher": {"domain": ("*",)}},
        {"matcher": {"domain": ("a.*.test",)}},
        {"matcher": {"command_prefix": ("ls",), "path": ("a",)}},
        {"matcher": {"all": True}, "decision": "alow"},
        {"matcher": {"all": True}, "scope": "project"},
        {"matcher": {"all": True}, "scope": "agent"},
        {"matcher": {"all": True}, "scope": "session"},
        {"matcher": {"all": True}, "expires": datetime(2030, 1, 1)},  # noqa: DTZ001 - what is tried
    ],
)
def test_a_rule_that_can_not_be_meant_is_an_error(bad):
    with pytest.raises(RuleFileError):
        PermissionRule(**{"decision": ALLOW, **bad, "matcher": RuleMatcher(**bad["matcher"])})


def test_a_decision_in_text_is_that_decision():
    rule = PermissionRule(decision="allow", matcher=RuleMatcher(command_prefix=("ls",)))
    assert rule.decision is ALLOW
    for command, decision in (("ls", ALLOW), ("/tmp/ls", ASK), ("$X ls", ASK), ("ls > f", ASK)):
        assert PermissionManager([rule]).check("Bash", {"command": command}, CONTEXT) is decision


STRICTNESS = {ALLOW: 0, ASK: 1, DENY: 2}
PREFIXES = ("good", "pwn", "git", "rm -rf", "cat", "echo", "sort", "find", "bash -c", "xargs")


@pytest.mark.parametrize("kind", ["deny", "ask", "path", "regex"])
def test_on_composed_commands_one_more_denial_or_question_never_allows_more(kind):
    held = [made("allow", prefix=each) for each in PREFIXES]
    for seed in range(few(300)):
        command = generate(random.Random(seed)).text
        prefix = PREFIXES[seed % len(PREFIXES)]
        more = {
            "deny": PermissionRule.deny_command(prefix),
            "ask": made("ask", prefix=prefix),
            "path": PermissionRule.deny_path("**/f"),
            "regex": PermissionRule(decision=DENY, matcher=RuleMatcher(regex=("pw.",))),
        }[kind]
        before = PermissionManager(held).check("Bash", {"command": command}, CONTEXT)
        after = PermissionManager([*held, more]).check("Bash", {"command": command}, CONTEXT)
        assert STRICTNESS[after] >= STRICTNESS[before], command


def test_on_composed_commands_one_allowance_less_never_allows_more():
    held = [made("allow", prefix=each) for each in PREFIXES]
    for seed in range(few(300)):
        command = generate(random.Random(seed)).text
        less = [each for number, each in enumerate(held) if number != seed % len(held)]
        before = PermissionManager(held).check("Bash", {"command": command}, CONTEXT)
        after = PermissionManager(less).check("Bash", {"command": command}, CONTEXT)
        assert STRICTNESS[after] >= STRICTNESS[before], command
