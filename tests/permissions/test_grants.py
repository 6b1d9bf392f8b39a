"""Answers that are remembered for a session: kept in it, and taken up again from it."""

import gc
import itertools

import pytest

from greenroom.core import AgentContext, RuleDecision, Workspace
from greenroom.core._internal import serde
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.session import AgentSession

ALLOW, DENY, ASK = RuleDecision.ALLOW, RuleDecision.DENY, RuleDecision.ASK
ROOT = "/srv/project"
CALLS = {
    "Bash": {"command": "git merge origin"},
    "Edit": {"file_path": "src/api/a.py"},
    "WebFetch": {"url": "https://a.test/x"},
    "Unheard": {},
}


def context_of(session, root=ROOT):
    return AgentContext(
        session_id=session.session_id, agent_type="coder", workspace=Workspace(root)
    )


def answer(manager, session, tool="Bash", decision=ALLOW, root=ROOT, lifetime="session"):
    context = context_of(session, root)
    found = manager.explain(tool, CALLS[tool], context)
    return manager.remember(found, decision, lifetime, context)


def decision(manager, session, tool="Bash", root=ROOT):
    return manager.check(tool, CALLS[tool], context_of(session, root))


def bound(session, *rules, root=ROOT):
    manager = PermissionManager(rules)
    return manager, manager.bind_session(session, root)


@pytest.fixture
def session():
    return AgentSession.new("coder", session_id="s-1")


def granted(session, /, **changes):
    """A session with this grant, as somebody may have written it."""
    grant = {
        "decision": "allow",
        "tool": ["Bash"],
        "command_prefix": ["git merge"],
        "session": session.session_id,
        "workspace": ROOT,
    }
    session.conversation.add_grants(
        [{name: each for name, each in (grant | changes).items() if each != ""}]
    )
    return session


@pytest.mark.parametrize(("tool", "said"), list(itertools.product(CALLS, (ALLOW, DENY))))
def test_an_answer_of_any_shape_comes_back_as_it_was(session, tool, said):
    manager, _ = bound(session)
    rules = answer(manager, session, tool, said)
    assert rules
    later, notes = bound(session)
    assert later.rules == manager.rules == rules
    assert notes == ()
    assert decision(later, session, tool) is said


def test_a_grant_is_written_as_in_a_rule_file(session):
    manager, _ = bound(session)
    answer(manager, session)
    assert session.conversation.grants == (
        {
            "decision": "allow",
            "tool": ["Bash"],
            "argv_exact": ["git", "merge", "origin"],
            "session": "s-1",
            "workspace": ROOT,
        },
    )


def test_answers_that_outlive_the_session_and_those_of_unbound_ones_are_not_kept_in_it(session):
    manager, _ = bound(session)
    answer(manager, session, lifetime="project")
    answer(PermissionManager(), session)
    assert session.conversation.grants == ()


def test_another_session_is_granted_nothing(session):
    manager, _ = bound(session)
    answer(manager, session)
    other = AgentSession.new("coder", session_id="s-2")
    assert manager.bind_session(other, ROOT) == ()
    assert decision(manager, other) is ASK
    other.conversation.add_grants(session.conversation.grants)
    (note,) = manager.bind_session(other, ROOT)
    assert "not given for this session" in note
    assert decision(manager, other) is ASK
    assert decision(manager, session) is ALLOW


def test_an_allowance_holds_in_its_folder_only_and_a_denial_everywhere(session):
    manager, _ = bound(session)
    answer(manager, session, "Edit", ALLOW)
    answer(manager, session, "Bash", DENY)
    elsewhere, notes = bound(session, root="/srv/other")
    assert notes == (f"a remembered answer holds in {ROOT} only: allow Edit(src/api/**)",)
    assert decision(elsewhere, session, "Edit", "/srv/other") is ASK
    assert decision(elsewhere, session, "Bash", "/srv/other") is DENY
    assert elsewhere.bind_session(session, ROOT) == ()
    assert decision(elsewhere, session, "Edit") is ALLOW


def test_what_the_session_loses_holds_no_longer_and_a_program_s_own_rules_stay(session):
    manager, _ = bound(session)
    manager.add_session_rule("s-1", PermissionRule.allow_tool("Read"))
    answer(manager, session)
    session.conversation.revoke_grants()
    manager.bind_session(session, ROOT)
    assert decision(manager, session) is ASK
    assert [str(rule) for rule in manager.rules] == ["allow Read"]


def test_what_was_allowed_in_sessions_that_are_gone_takes_no_room(session):
    manager = PermissionManager()
    for number in range(5):
        other = AgentSession.new("coder", session_id=f"s-other-{number}")
        manager.bind_session(other, ROOT)
        answer(manager, other, "Bash", ALLOW)
        answer(manager, other, "Edit", DENY)
    kept = context_of(other)
    del other
    gc.collect()
    manager.bind_session(session, ROOT)
    assert [rule.decision for rule in manager.rules] == [DENY] * 5
    assert manager.check("Edit", CALLS["Edit"], kept) is DENY, "a subagent may outlive its parent"


def test_forgetting_the_rules_of_a_session_revokes_them_in_it(session):
    manager, _ = bound(session)
    answer(manager, session)
    manager.clear_session_rules("s-1")
    assert session.conversation.grants == ()
    assert decision(manager, session) is ASK
    manager.bind_session(session, ROOT)
    assert manager.rules == bound(session)[0].rules == ()


def test_a_subagent_s_answers_come_back_for_its_own_session(session):
    above = PermissionManager()
    child = above.child(context=context_of(session))
    sub = AgentSession.new("helper", session_id="s-2")
    child.bind_session(sub, ROOT)
    answer(child, sub)
    assert sub.conversation.grants
    assert not session.conversation.grants
    again = PermissionManager().child(context=context_of(session))
    again.bind_session(sub, ROOT)
    assert decision(again, sub) is ALLOW
    assert decision(again, session) is ASK
    above.clear_session_rules("s-2")
    assert sub.conversation.grants == ()
    child.bind_session(sub, ROOT)
    assert decision(child, sub) is ASK


def test_a_session_that_is_loaded_anew_takes_the_place_of_the_one_before(session):
    manager, _ = bound(session)
    answer(manager, session)
    loaded = granted(AgentSession.new("coder", session_id="s-1"), command_prefix=["git pull"])
    manager.bind_session(loaded, ROOT)
    assert [str(rule) for rule in manager.rules] == ["allow Bash(git pull:*)"]
    answer(manager, loaded)
    assert len(session.conversation.grants) == 1
    assert len(loaded.conversation.grants) == 2


def test_a_manager_keeps_no_session_alive():
    manager = PermissionManager()
    session = AgentSession.new("coder", session_id="s-9")
    manager.bind_session(session, ROOT)
    context = context_of(session)
    del session
    gc.collect()
    found = manager.explain("Bash", CALLS["Bash"], context)
    assert manager.remember(found, ALLOW, "session", context)
    manager.clear_session_rules("s-9")


@pytest.mark.parametrize(
    "changes",
    [
        {"final": True},
        {"priority": 9},
        {"scope": "global"},
        {"all": True},
        {"regex": ["git .*"]},
        {"expires": "2999-01-01T00:00:00Z"},
        {"session": "s-2"},
        {"session": ""},
        {"workspace": ""},
        {"workspace": 1},
        {"tool": ""},
        {"tool": []},
        {"tool": [1]},
        {"command_prefix": [""]},
        {"command_prefix": ["git | sh"]},
        {"path": ["[a"]},
        {"from_a_newer_version": 1},
    ],
)
def test_what_no_answer_could_have_made_is_dropped_with_a_note(session, changes):
    granted(session, tool=["Edit"], command_prefix="", path=["src/**"])
    manager, notes = bound(granted(session, **changes))
    assert len(notes) == 1
    assert notes[0].startswith("a remembered answer does not hold: ")
    assert [str(rule) for rule in manager.rules] == ["allow Edit(src/**)"]
    assert decision(manager, session) is ASK
    assert manager.bind_session(session, ROOT) == ()  # it is told once


@pytest.mark.parametrize("said", ["deny", "forbid", "", 1])
def test_a_denial_that_can_not_be_read_makes_every_call_a_question(session, said):
    manager, notes = bound(
        granted(session, decision=said, from_a_newer_version=1), PermissionRule.allow_tool("Bash")
    )
    assert len(notes) == 1
    assert notes[0].endswith("; every call is asked about")
    assert decision(manager, session) is ASK
    assert decision(manager, AgentSession.new("coder", session_id="s-2")) is ALLOW


def test_a_long_thing_is_told_in_short(session):
    _, (note,) = bound(granted(session, tool=["x" * 1000, ""]))
    assert len(note) < 400


def test_grants_are_json(session):
    manager, _ = bound(session)
    for tool in CALLS:
        answer(manager, session, tool)
    assert serde.loads(serde.dumps(list(session.conversation.grants))) == list(
        session.conversation.grants
    )


def test_an_answer_that_is_forgotten_stays_forgotten_and_the_others_stay(session):
    manager, _ = bound(session)
    [merge], [edit] = answer(manager, session), answer(manager, session, "Edit")
    assert manager.remove_session_rule("s-1", merge.id)
    answer(manager, session, "WebFetch")  # which reads the session's answers anew
    found = [decision(manager, session, tool) for tool in ("Bash", "Edit", "WebFetch")]
    assert found == [ASK, ALLOW, ALLOW]
    again, notes = bound(session)
    assert [decision(again, session, tool) for tool in ("Bash", "Edit")] == [ASK, ALLOW]
    assert notes == ()
    assert not manager.remove_session_rule("s-1", merge.id)
    assert manager.remove_session_rule("s-1", edit.id)
    assert decision(manager, session, "Edit") is ASK
