"""`greenroom permissions add` and `remove`: rules in the user's file and the project's."""

import json

import pytest

from greenroom.cli import rule_changes


def kept(path):
    rules = json.loads(path.read_text())["rules"] if path.exists() else []
    return [(each["decision"], each["matcher"]) for each in rules]


@pytest.fixture
def files(run, project, env, tmp_path):
    """The user's file and the project's."""
    return {
        "": tmp_path / "home" / ".config" / "greenroom" / "permissions.json",
        "--project": project / ".greenroom" / "permissions.json",
    }


@pytest.fixture
def agree(monkeypatch):
    """Answer what a person at the terminal is asked; return the questions."""
    asked = []

    def agree(answer):
        async def confirm(question, hint):
            asked.append(question)
            return answer

        monkeypatch.setattr(rule_changes, "confirm", confirm)
        return asked

    return agree


@pytest.mark.parametrize("where", ["", "--project"])
def test_a_rule_that_tightens_is_added_at_once_and_one_that_allows_removed(
    run, files, agree, where
):
    words = [where] if where else []
    place = "in this project" if where else "in every project"
    done = run("permissions", "add", "deny", "Bash(git push:*)", *words)
    assert (done.code, done.out) == (0, f"added {place}: deny Bash(git push:*)\n")
    assert "Bash(git push:*)" in run("permissions", "list").out
    agree(True)
    assert run("permissions", "add", "allow", "Bash(git log:*)", *words).code == 0
    assert len(json.loads(files[where].read_text())["rules"]) == 2
    asked = agree(False)
    done = run("permissions", "remove", "Bash(git log:*)", *words)
    assert (done.code, done.out) == (0, f"removed {place}: allow Bash(git log:*)\n")
    assert asked == [f"Add allow Bash(git log:*) {place}?"]  # the removal asked nothing
    assert "git log" not in files[where].read_text()


def test_what_allows_more_needs_a_person_who_agrees(run, files, agree):
    run("permissions", "add", "ask", "Write")
    asked = agree(False)
    assert run("permissions", "add", "allow", "Write").code == 1
    assert run("permissions", "remove", "ask Write").code == 1
    assert asked == ["Add allow Write in every project?", "Remove ask Write in every project?"]
    assert [each["decision"] for each in json.loads(files[""].read_text())["rules"]] == ["ask"]


@pytest.mark.parametrize(
    "words", [("add", "allow", "Bash(rm:*)"), ("remove", "Edit")], ids=["added", "removed"]
)
def test_without_a_terminal_nobody_agrees(run, files, words):
    run("permissions", "add", "deny", "Edit")
    before = files[""].read_text()
    done = run("permissions", *words)
    assert done.code == 2
    assert "no terminal to ask at" in done.err
    assert files[""].read_text() == before


def test_an_allowance_in_a_project_with_rules_of_others_is_said_not_to_count(run, files, agree):
    path = files["--project"]
    path.parent.mkdir()
    path.write_text('{"version": 1, "rules": [{"decision": "allow", "command_prefix": "make"}]}')
    agree(True)
    done = run("permissions", "add", "allow", "Bash(ls:*)", "--project")
    assert done.code == 0
    assert "it does not count yet" in done.err
    assert "permissions trust" in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "deny", "Bsh(ls)"), "Bash"),
        (("add", "deny", "Bash("), "Bash("),
        (("remove", "Bash(ls)"), "there is no rule 'Bash(ls)'"),
    ],
)
def test_what_is_no_rule_changes_nothing(run, files, words, said):
    done = run("permissions", *words)
    assert done.code == 2
    assert said in done.err
    assert not files[""].exists()
