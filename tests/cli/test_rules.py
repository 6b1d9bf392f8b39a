"""The rules of a run, put together from files that anybody may have written, or broken."""

import json
from itertools import product

import pytest

from greenroom.cli.run_rules import load_rules
from greenroom.core import AgentContext, ConfigurationError, RuleDecision, Workspace

ALLOW, DENY, ASK = RuleDecision.ALLOW, RuleDecision.DENY, RuleDecision.ASK


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """The project, and the user's configuration."""
    project, config = tmp_path / "project", tmp_path / "config" / "greenroom"
    (project / ".greenroom").mkdir(parents=True)
    config.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("sys.platform", "linux")
    return project, config


def write(folder, *rules):
    (folder / "permissions.json").write_text(json.dumps({"version": 1, "rules": rules}))


def decide(found, project, tool, **data):
    context = AgentContext(session_id="s", agent_type="coder", workspace=Workspace(project))
    return found.manager.check(tool, data, context)


USERS = (
    {"decision": "allow", "command_prefix": "git"},
    {"decision": "deny", "command_prefix": "git push", "priority": -5},
    {"decision": "ask", "command_prefix": "git log", "final": True},
    {"decision": "allow", "command_prefix": "git push", "scope": "user"},
)


@pytest.mark.parametrize("mode", ["default", "accept-edits", "bypass"])
@pytest.mark.parametrize("text", ["{", '{"version": 2}', '{"version": 1, "rules": [{}]}'])
def test_a_file_that_can_not_be_used_leaves_denials_and_a_question_about_the_rest(
    folders, mode, text
):
    project, config = folders
    write(config, *USERS)
    (project / ".greenroom" / "permissions.json").write_text(text)
    found = load_rules(project, ["Bash(ls:*)"], ["WebFetch"], mode)
    assert [warning.count("permissions.json") for warning in found.warnings] == [1]
    assert found.manager.mode == "default"
    assert decide(found, project, "Bash", command="git push") is DENY
    assert decide(found, project, "WebFetch", url="https://a.test/") is DENY
    for command in ("git status", "git log", "ls"):
        assert decide(found, project, "Bash", command=command) is ASK
    assert decide(found, project, "Read", file_path="a") is ASK
    assert decide(found, project, "Write", file_path="a", content="") is ASK


@pytest.mark.parametrize("mode", ["plan", "deny"])
def test_a_mode_that_allows_nothing_stays(folders, mode):
    project, config = folders
    (config / "permissions.json").write_text("{")
    found = load_rules(project, mode=mode)
    assert found.manager.mode == mode
    assert decide(found, project, "Write", file_path="a", content="") is DENY


def test_a_file_that_can_not_be_used_leaves_no_sandboxed_command_unasked(folders):
    project, config = folders
    assert load_rules(project, sandboxed="allow").manager.sandboxed == "allow"
    (config / "permissions.json").write_text("{")
    assert load_rules(project, sandboxed="allow").manager.sandboxed == "ask"


def test_answers_of_the_session_do_not_hold_beside_a_file_that_can_not_be_used(folders):
    project, config = folders
    (config / "permissions.json").write_text("{")
    found = load_rules(project)
    context = AgentContext(session_id="s", agent_type="coder", workspace=Workspace(project))
    explained = found.manager.explain("Bash", {"command": "ls"}, context)
    assert explained.remembers == ()
    assert "can't be used" in explained.reason


def test_every_file_that_can_not_be_used_is_told_of(folders):
    project, config = folders
    (config / "permissions.json").write_text("{")
    (config / "trusted.json").write_text("{")
    write(project / ".greenroom", {"decision": "deny", "tool": "Bash"})
    found = load_rules(project)
    assert [each.count(".json") for each in found.warnings] == [1, 1]
    assert decide(found, project, "Bash", command="ls") is DENY


def test_a_file_that_may_not_be_read_is_no_missing_file(folders):
    project, config = folders
    (config / "permissions.json").mkdir()
    assert load_rules(project).warnings
    (config / "permissions.json").rmdir()
    assert load_rules(project).warnings == ()


def test_a_mode_that_does_not_exist_is_refused_also_beside_a_broken_file(folders):
    project, config = folders
    (config / "permissions.json").write_text("{")
    with pytest.raises(ConfigurationError, match="yolo"):
        load_rules(project, mode="yolo")


def test_the_mode_bypass_is_warned_of(folders):
    project, _ = folders
    [warning] = load_rules(project, mode="bypass").warnings
    assert "bypass" in warning
    assert load_rules(project, mode="plan").warnings == ()


@pytest.mark.parametrize("mode", ["default", "bypass"])
@pytest.mark.parametrize("final", [True, False])
def test_a_question_of_a_project_stands_before_no_denial(folders, mode, final):
    project, config = folders
    write(
        config,
        {"decision": "allow", "command_prefix": "ls"},
        {"decision": "deny", "command_prefix": "make", "final": final},
        {"decision": "deny", "command_prefix": "rm -rf"},
    )
    asks = {"decision": "ask", "scope": "user", "final": True, "priority": 999}
    denies = {"decision": "deny", "command_prefix": "git", "final": True}
    write(project / ".greenroom", {**asks, "tool": "Bash"}, {**asks, "all": True}, denies)
    found = load_rules(project, mode=mode)
    assert decide(found, project, "Bash", command="make") is DENY
    assert decide(found, project, "Bash", command="rm -rf x") is DENY
    assert decide(found, project, "Bash", command="git status") is DENY
    assert decide(found, project, "Bash", command="rm $x") is ASK
    assert decide(found, project, "Bash", command="\x1bls") is ASK
    assert decide(found, project, "Bash", command="ls") is (ASK if mode == "default" else ALLOW)
    found = load_rules(project, deny=["Write"], mode=mode)
    assert decide(found, project, "Write", file_path="a", content="") is DENY


def test_no_file_of_a_project_makes_a_decision_less_strict(folders):
    project, config = folders
    strictness = [ALLOW, ASK, DENY]
    ours = [
        {"decision": decision, "command_prefix": "make", "scope": scope, "final": final}
        for decision in ("allow", "ask", "deny")
        for scope in ("user", "global")
        for final in (True, False)
    ]
    for own, mode in product((*ours, None), ("default", "bypass", "deny")):
        write(config, *([own] if own else []))
        (project / ".greenroom" / "permissions.json").unlink(missing_ok=True)
        alone = decide(load_rules(project, mode=mode), project, "Bash", command="make")
        for theirs in ours:
            write(project / ".greenroom", theirs)
            both = decide(load_rules(project, mode=mode), project, "Bash", command="make")
            assert strictness.index(both) >= strictness.index(alone), (own, theirs, mode)


def test_the_user_s_own_skills_may_be_read_and_nothing_else_beside_them(folders):
    project, config = folders
    (config / "skills").mkdir()
    found = load_rules(project)
    assert decide(found, project, "Read", file_path=str(config / "skills" / "a" / "b.md")) is ALLOW
    assert decide(found, project, "Read", file_path=str(config / "permissions.json")) is ASK
    assert (
        decide(found, project, "Write", file_path=str(config / "skills" / "a"), content="") is ASK
    )


def test_a_denial_that_keeps_a_file_from_one_tool_only_is_told_of(folders):
    project, config = folders
    everywhere = "*(path:**/.env)"
    (note,) = load_rules(project, deny=["Read(**/.env)"]).notes
    assert note == (
        "--deny: Read(**/.env) denies Read alone, and commands may still read such files; deny"
        f" '{everywhere}' to keep them from every tool"
    )
    for denied in ([everywhere], ["Read(**/.env)", everywhere], ["Edit(src/**)"], ["Read"]):
        assert not load_rules(project, deny=denied).notes
    write(config, {"decision": "deny", "tool": ["Read", "Grep"], "path": "secrets/**"})
    (note,) = load_rules(project).notes
    assert "denies Read and Grep alone" in note
