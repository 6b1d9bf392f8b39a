"""A call is judged alike by a tool and by its name alone, and odd input is asked about."""

import pytest
from hypothesis import given, strategies as st

from greenroom.core import AgentContext, RuleDecision, Workspace
from greenroom.permissions import PermissionManager, PermissionRule, RuleMatcher
from greenroom.tools import Bash, Edit, Glob, Grep, Read, Todo, ToolRegistry, WebFetch, Write

ALLOW, DENY, ASK = RuleDecision.ALLOW, RuleDecision.DENY, RuleDecision.ASK
CONTEXT = AgentContext(session_id="s", agent_type="a", workspace=Workspace("/srv/project"))
TOOLS = {
    tool.name: tool
    for tool in (Bash(), Edit(), Glob(), Grep(), Read(), Todo(), WebFetch(), Write())
}
REGISTRY = ToolRegistry(TOOLS.values())
KEYS = {"Bash": "command", "Glob": "path", "Grep": "path", "WebFetch": "url"}
WITH_EFFECTS = sorted(TOOLS.keys() - {"Todo"})
MANAGERS = [
    PermissionManager(),
    PermissionManager([PermissionRule.allow_path("**"), PermissionRule.allow_command("ls")]),
    PermissionManager([PermissionRule.allow_all()]),
    PermissionManager(
        [
            PermissionRule.deny_path("**/.env"),
            PermissionRule.deny_command("rm -rf"),
            PermissionRule(decision=DENY, matcher=RuleMatcher(regex="rm.*")),
            PermissionRule.deny_if(lambda _tool, data: data["x"] == 1),
            PermissionRule.allow_domain("a.test"),
            PermissionRule.allow_category("read", "write"),
        ]
    ),
]  # fmt: skip
ODD = [
    *("", "\0", "a\0b", "\ud800", "~\0", "~nobody-of-this-name/x", None, 7, 1.5, True),
    *([], ["a"], {}, {"a": None}, b"a", float("nan"), Ellipsis),
]


def answers(name, data):
    """Judge a call at each door, and by `explain`."""
    for manager in MANAGERS:
        found = [
            manager.explain(each, data, CONTEXT) for each in (name, TOOLS[name], REGISTRY.get(name))
        ]
        assert {each.decision for each in found} == {manager.check(name, data, CONTEXT)}
        assert len({each.reason for each in found}) == 1
        yield found[0].decision


@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("name", WITH_EFFECTS)
def test_an_odd_value_is_asked_about_at_either_door(name, value):
    key = KEYS.get(name, "file_path")
    optional = value is None and key == "path"
    is_usual = name in ("Bash", "WebFetch") and value == "~nobody-of-this-name/x"
    if not (optional or is_usual):
        assert ALLOW not in answers(name, {key: value})


@pytest.mark.parametrize("name", WITH_EFFECTS)
def test_an_odd_pattern_is_asked_about_at_either_door(name):
    if name in ("Glob", "Grep"):
        for value in (7, [], ["*"], {}):
            data = {"path": "a", {"Glob": "pattern", "Grep": "glob"}[name]: value}
            assert ALLOW not in answers(name, data)


@pytest.mark.parametrize("data", [None, "", "ls", [], ["ls"], 7, True, b"{}"], ids=repr)
@pytest.mark.parametrize("name", WITH_EFFECTS)
def test_an_input_that_is_no_object_is_asked_about_at_either_door(name, data):
    assert ALLOW not in answers(name, data)


@pytest.mark.parametrize(
    ("name", "data", "decision"),
    [
        ("Read", {"file_path": "a"}, ALLOW),
        ("Read", {"file_path": "../a"}, ASK),
        ("Write", {"file_path": "a", "content": ""}, ALLOW),
        ("Edit", {"file_path": "/etc/x"}, ASK),
        ("Glob", {"pattern": "*.py"}, ALLOW),
        ("Grep", {"pattern": "x", "path": None, "glob": ""}, ALLOW),
        ("Bash", {"command": "ls"}, ALLOW),
        ("Bash", {"command": "pwd"}, ASK),
        ("WebFetch", {"url": "https://a.test"}, ASK),
        ("Todo", {"todos": []}, ALLOW),
    ],
)
def test_a_usual_call_is_judged_alike_at_either_door(name, data, decision):
    assert list(answers(name, data))[1] is decision


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(ODD[:6]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.sampled_from([*TOOLS, "Task", "unknown"]),
    JSON
    | st.dictionaries(
        st.sampled_from(["file_path", "path", "pattern", "glob", "command", "url", "x"]), JSON
    ),
)
def test_no_value_of_json_is_an_error(name, data):
    for manager in MANAGERS:
        decision = manager.check(name, data, CONTEXT)
        assert manager.explain(name, data, CONTEXT).decision is decision
        if name in TOOLS:
            assert manager.check(TOOLS[name], data, CONTEXT) is decision


def nested(depth):
    value = {}
    for _ in range(depth):
        value = [value, {"a": value}] if depth < 10 else {"a": [value]}
    return value


def test_a_value_that_is_nested_too_deeply_is_refused_with_the_reason():
    for data in (nested(100_000), {"file_path": "a", "x": nested(1000)}, {"x": nested(100)}):
        for name in ("Read", "Todo", "unknown"):
            found = MANAGERS[2].explain(name, data, CONTEXT)
            assert found.decision is DENY
            assert "200 levels" in found.reason
    assert DENY not in answers("Read", {"file_path": "a", "x": nested(90)})
