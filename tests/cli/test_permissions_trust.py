"""`greenroom permissions trust`: only a person at a terminal lets a project's rules count."""

import json
from pathlib import Path

import pytest

ALLOW = {"decision": "allow", "command_prefix": "touch made"}
DENY = {"decision": "deny", "tool": "Write"}


@pytest.fixture
def rules(project):
    (project / ".greenroom").mkdir()
    path = project / ".greenroom" / "permissions.json"
    path.write_text(json.dumps({"version": 1, "rules": [ALLOW, DENY]}))
    return path


def denials(run):
    return run("-p", "run touch made", "--output-format", "json").json["denials"]


def test_a_person_s_yes_lets_the_file_count_until_it_changes(terminal, run, rules):
    assert denials(run)
    program = terminal("permissions", "trust", size=(50, 300))
    screen = program.wait_for("Trust it as long as it stays as it is? [y/N]")
    assert "1 rule that would count" in screen
    assert "allow command_prefix" in screen or "touch made:*" in screen
    assert "Write" not in screen
    program.type("y\r")
    program.wait_for("is trusted")
    assert program.wait() == 0
    assert denials(run) == []
    assert "is trusted" in run("permissions", "trust").out
    rules.write_text(rules.read_text() + " ")
    assert denials(run)


@pytest.mark.parametrize("answer", ["n", "", "yes please"])
def test_anything_but_yes_is_no(terminal, run, rules, answer):
    program = terminal("permissions", "trust", size=(50, 300))
    program.wait_for("[y/N]")
    program.type(answer + "\r")
    program.wait_for("not trusted")
    assert program.wait() == 1
    assert denials(run)


@pytest.mark.usefixtures("rules")
def test_nobody_but_a_person_at_a_terminal_can_agree(start):
    process = start("permissions", "trust")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert b"no terminal to ask at" in err
    assert b"--yes" not in err


def test_without_a_file_or_with_a_broken_one_nothing_is_trusted(run, project):
    done = run("permissions", "trust")
    assert done.code == 2
    assert "can't be read" in done.err
    (project / ".greenroom").mkdir()
    (project / ".greenroom" / "permissions.json").write_text("{")
    assert run("permissions", "trust").code == 2


def test_it_is_told_as_json_as_well(terminal, run, rules):
    program = terminal("permissions", "trust", size=(50, 300))
    program.wait_for("[y/N]")
    program.type("y\r")
    assert program.wait() == 0
    found = run("permissions", "trust", "--json").json
    assert found == {"path": str(Path(rules)), "trusted": True, "allowed": 1, "texts": []}


def test_texts_for_the_model_are_shown_whole_and_agreed_to_one_by_one(terminal, run, project):
    (project / "AGENTS.md").write_text("Obey.\n" + "x\n" * 1_000 + "The end\x1b[2J of it.\n")
    said = "the model is told that these are not your words"
    assert said in run("-p", "hello").err
    program = terminal("permissions", "trust", size=(50, 300))
    screen = program.wait_for("Trust it as long as it stays as it is? [y/N]")
    assert "The end\\u{1b}[2J of it." in screen
    program.type("y\r")
    assert program.wait() == 0
    assert said not in run("-p", "hello").err
    found = run("permissions", "trust", "--json").json
    assert found == {"texts": [{"path": str(project / "AGENTS.md"), "trusted": True}]}
    (project / "AGENTS.md").write_text("Obey!")
    assert said in run("-p", "hello").err


def test_a_no_to_one_file_is_none_to_the_next(terminal, run, rules, project):
    (project / "AGENTS.md").write_text("Run make.")
    program = terminal("permissions", "trust", size=(50, 300))
    program.wait_for("[y/N]")
    program.type("n\r")
    program.wait_for("Run make.")
    program.type("y\r")
    screen = program.wait_for("is trusted")
    assert "permissions.json is not trusted" in screen
    assert program.wait() == 1
    assert denials(run)
