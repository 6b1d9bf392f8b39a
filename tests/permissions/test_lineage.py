"""A subagent may do less than its parent, or as much; never more."""

from dataclasses import dataclass

import pytest
from hypothesis import given, strategies as st

from greenroom.core import AgentContext, ConfigurationError, RuleDecision, Workspace
from greenroom.permissions import PermissionManager, PermissionRule, RuleMatcher, RuleScope

ALLOW, DENY, ASK = RuleDecision.ALLOW, RuleDecision.DENY, RuleDecision.ASK


def context_of(session, agent):
    return AgentContext(session_id=session, agent_type=agent, workspace=Workspace("/srv/project"))


PARENT, CHILD, GRANDCHILD = (
    context_of("s-1", "planner"),
    context_of("s-2", "coder"),
    context_of("s-3", "tester"),
)


@pytest.mark.parametrize("scope", [RuleScope.USER, RuleScope.SESSION])
def test_what_is_allowed_for_a_session_reaches_no_subagent(scope):
    manager = PermissionManager()
    manager.add_session_rule("s-1", PermissionRule.allow_tool("T", scope=RuleScope.GLOBAL))
    manager.add_session_rule("s-1", PermissionRule.allow_tool("U", scope=RuleScope.USER, id="u"))
    child = manager.child(context=PARENT)
    assert manager.check("T", {}, PARENT) is manager.check("U", {}, PARENT) is ALLOW
    assert child.check("T", {}, CHILD) is child.check("U", {}, CHILD) is ASK


def test_an_answer_for_the_session_is_the_asking_agent_s_own():
    manager = PermissionManager()
    child = manager.child(context=PARENT)
    manager.remember(manager.explain("T", {}, PARENT), ALLOW, "session", PARENT)
    assert child.check("T", {}, CHILD) is ASK
    child.remember(child.explain("T", {}, CHILD), ALLOW, "session", CHILD)
    assert child.check("T", {}, CHILD) is ALLOW
    assert child.child(context=CHILD).check("T", {}, GRANDCHILD) is ASK


def test_what_is_allowed_for_an_agent_type_reaches_subagents_of_that_type_alone():
    rule = PermissionRule.allow_tool("T", scope=RuleScope.AGENT, agent="planner")
    child = PermissionManager([rule]).child(context=PARENT)
    assert child.check("T", {}, CHILD) is ASK
    assert child.check("T", {}, context_of("s-2", "planner")) is ALLOW


def test_what_is_allowed_to_everybody_reaches_subagents():
    child = PermissionManager([PermissionRule.allow_tool("T")]).child(context=PARENT)
    assert child.check("T", {}, CHILD) is ALLOW


def test_grants_are_passed_on_where_that_is_said_at_every_step():
    manager = PermissionManager()
    manager.add_session_rule("s-1", PermissionRule.allow_tool("T"))
    trusted = manager.child(context=PARENT, pass_grants=True)
    assert trusted.check("T", {}, CHILD) is ALLOW
    assert trusted.child(context=CHILD).check("T", {}, GRANDCHILD) is ASK
    assert trusted.child(context=CHILD, pass_grants=True).check("T", {}, GRANDCHILD) is ALLOW
    untrusted = manager.child(context=PARENT)
    assert untrusted.child(context=CHILD, pass_grants=True).check("T", {}, GRANDCHILD) is ASK


@pytest.mark.parametrize("decision", [DENY, ASK])
def test_denials_and_questions_for_a_session_go_down_the_whole_line(decision):
    rule = PermissionRule(decision=decision, matcher=RuleMatcher(tool=("T",)))
    manager = PermissionManager([PermissionRule.allow_all()])
    manager.add_session_rule("s-1", rule)
    child = manager.child([PermissionRule.allow_tool("T")], context=PARENT)
    grandchild = child.child(context=CHILD, pass_grants=True)
    assert child.check("T", {}, CHILD) is decision
    assert grandchild.check("T", {}, GRANDCHILD) is decision
    assert manager.check("T", {}, CHILD) is ALLOW


def test_an_allowance_for_the_subagent_s_type_lifts_no_denial_of_its_parent():
    rules = [
        PermissionRule.allow_tool("T", scope=RuleScope.AGENT, agent="coder"),
        PermissionRule.deny_tool("T", id="no"),
    ]
    manager = PermissionManager(rules)
    assert manager.check("T", {}, CHILD) is ALLOW
    found = manager.child(context=PARENT).explain("T", {}, CHILD)
    assert found.decision is DENY
    assert found.rule.id == "no"


@dataclass(frozen=True)
class Agent:
    rules: tuple
    context: AgentContext
    pass_grants: bool


names = st.sampled_from(["a", "b", "c"])
matchers = st.sampled_from(
    [
        RuleMatcher(tool=("Bash",)),
        RuleMatcher(tool=("Bash",), command_prefix=("git push",)),
        RuleMatcher(tool=("Bash",), command_prefix=("git",)),
        RuleMatcher(path=("src/**",)),
        RuleMatcher(all=True),
    ]
)
CALLS = [
    ("Bash", {"command": "git push"}),
    ("Bash", {"command": "git log > src/a"}),
    ("Write", {"file_path": "src/a.py"}),
    ("Write", {"file_path": ".git/config"}),
]


@st.composite
def rules(draw):
    scope = draw(st.sampled_from(RuleScope))
    agent = draw(names) if scope is RuleScope.AGENT else draw(st.sampled_from(["", "a"]))
    session = draw(names) if scope is RuleScope.SESSION else draw(st.sampled_from(["", "b"]))
    return PermissionRule(
        decision=draw(st.sampled_from(RuleDecision)),
        matcher=draw(matchers),
        scope=scope,
        agent=agent,
        session=session,
        priority=draw(st.integers(0, 2)),
        final=draw(st.booleans()),
    )


agents = st.builds(
    Agent,
    st.lists(rules(), max_size=4).map(tuple),
    st.builds(context_of, names, names),
    st.booleans(),
)


@given(line=st.lists(agents, min_size=2, max_size=4), call=st.sampled_from(CALLS))
def test_what_is_denied_is_denied_all_the_way_down(line, call):
    manager, above = PermissionManager(line[0].rules), line[0]
    decision = manager.check(*call, above.context)
    for agent in line[1:]:
        manager = manager.child(agent.rules, context=above.context, pass_grants=agent.pass_grants)
        below = manager.check(*call, agent.context)
        assert decision is not DENY or below is DENY
        decision, above = below, agent


@given(
    held=st.lists(rules(), max_size=5),
    more=rules(),
    call=st.sampled_from(CALLS),
    who=st.builds(context_of, names, names),
)
def test_one_more_denial_never_allows_more(held, more, call, who):
    before = PermissionManager(held).check(*call, who)
    denial = PermissionRule(
        decision=DENY,
        matcher=more.matcher,
        scope=more.scope,
        agent=more.agent,
        session=more.session,
        priority=more.priority,
        final=more.final,
    )
    after = PermissionManager([*held, denial]).check(*call, who)
    assert after is before or after is DENY


@given(
    held=st.lists(rules(), min_size=1, max_size=6),
    call=st.sampled_from(CALLS),
    who=st.builds(context_of, names, names),
)
def test_one_allowance_less_never_allows_more(held, call, who):
    before = PermissionManager(held).check(*call, who)
    for at, rule in enumerate(held):
        if rule.decision is ALLOW:
            rest = [*held[:at], *held[at + 1 :]]
            after = PermissionManager(rest).check(*call, who)
            assert after is not ALLOW or before is ALLOW


def test_a_consent_lifts_no_question_of_a_rule_further_above():
    above = PermissionManager([PermissionRule(decision=ASK, matcher=RuleMatcher(tool=("T",)))])
    caller = above.child([PermissionRule.allow_tool("U")], context=PARENT)
    own = PermissionManager([PermissionRule.allow_tool("T")])
    called = own.beneath(caller, context=CHILD, consents=["T"])
    assert called.check("T", {}, GRANDCHILD) is ASK
    unruled = PermissionManager().child([PermissionRule.allow_tool("U")], context=PARENT)
    called = own.beneath(unruled, context=CHILD, consents=["T"])
    assert called.check("T", {}, GRANDCHILD) is ALLOW


def test_a_mode_that_changes_counts_from_the_next_call_on_also_for_those_below():
    manager = PermissionManager()
    child = manager.child([PermissionRule.allow_tool("U")], context=PARENT)
    below = child.child(context=CHILD)
    edit = ("Write", {"file_path": "a.py", "content": ""})
    assert [each.check(*edit, PARENT) for each in (manager, child, below)] == [ASK] * 3
    manager.mode = "accept-edits"
    assert [each.check(*edit, PARENT) for each in (manager, child, below)] == [ALLOW] * 3
    assert (child.mode, below.mode) == ("accept-edits", "accept-edits")
    manager.mode = "plan"
    assert below.check(*edit, GRANDCHILD) is DENY
    with pytest.raises(ConfigurationError, match="unknown permission mode: 'plann'"):
        manager.mode = "plann"
    assert manager.mode == "plan"


def test_in_plan_mode_a_command_that_only_reads_may_be_ruled_too(tmp_path):
    context = AgentContext(session_id="s-1", agent_type="a", workspace=Workspace(tmp_path))
    manager = PermissionManager([PermissionRule.allow_tool("Bash")], mode="plan")
    found = [manager.check("Bash", {"command": each}, context) for each in ("ls", "touch a")]
    assert found == [ALLOW, DENY]
