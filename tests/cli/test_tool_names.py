"""A rule that names a tool that does not exist would do nothing, so it is refused or told of."""

import json
import sys

import pytest

from greenroom.agents import Task
from greenroom.agents._internal import SubmitPlan
from greenroom.cli.options import Options
from greenroom.cli.run_rules import load_rules
from greenroom.cli.run_setup import open_setup
from greenroom.cli.tool_names import TOOLS
from greenroom.tools import WebSearch, calculator, run_python
from tests.cli.test_permissions_command import rule_file


class Index:
    async def search(self, query, limit):
        return []


async def test_the_known_tools_are_those_that_there_are(tmp_path, monkeypatch):
    skill = tmp_path / "config" / "greenroom" / "skills" / "tidy"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: tidy\ndescription: Tidies.\n---\n")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    options = Options(model="offline:", memory=True, sessions=str(tmp_path / "sessions"))
    async with open_setup(options, {}) as setup:
        names = setup.tools.list_tools()
        tools = [setup.tools.get(name) for name in names]
    tools += [SubmitPlan(setup.permissions), Task(None, None)]
    tools += [calculator, run_python(), WebSearch(Index())]
    assert {each.name: each.category for each in tools} == TOOLS


@pytest.mark.parametrize(
    "words", [("-p", "ls"), ("permissions", "explain", "ls"), ("permissions", "list")]
)
@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("bash", "there is no tool 'bash'; did you mean Bash? (the tools are Bash, Read, "),
        ("Bash,bash", "there is no tool 'bash'; did you mean Bash?"),
        ("bash(rm x)", "there is no tool 'bash'; did you mean Bash?"),
        ("Websearch", "there is no tool 'Websearch'; did you mean WebSearch?"),
        ("category:exec", "there is no category 'exec'; did you mean execute? (the categ"),
        ("Deploy(out/**)", "there is no tool 'Deploy' (the tools are "),
    ],
)
def test_a_tool_that_does_not_exist_is_refused_on_the_command_line(run, words, rule, says):
    for option in ("--deny", "--allow"):
        done = run(*words, option, rule)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(f"greenroom: {option}: {says}")


RULES = {
    "version": 1,
    "rules": [
        {"decision": "deny", "tool": "bash"},
        {"id": "ours", "decision": "deny", "tool": ["Write", "write"], "command_prefix": ["x"]},
        {"decision": "deny", "tool": "Deploy", "scope": "agent", "agent": "release"},
        {"decision": "deny", "tool": "mcp__files__write"},
        {"decision": "deny", "tool": "Deploy", "expires": "2020-01-01T00:00:00Z"},
    ],
}
WARNINGS = [
    "the rule 'deny bash': there is no tool 'bash'; did you mean Bash?",
    "the rule 'user/ours': there is no tool 'write'; did you mean Write?",
]


@pytest.mark.parametrize(
    "words", [("-p", "hello"), ("permissions", "explain", "ls"), ("permissions", "list")]
)
def test_one_in_a_rule_file_is_told_of(run, env, words):
    path = rule_file(env["HOME"], ".config/greenroom", RULES)
    done = run(*words)
    place = path.replace(env["HOME"], "~")
    told = [line for line in done.err.splitlines() if "there is no" in line]
    assert told == [f"greenroom: {place}: {line}" for line in WARNINGS]
    assert done.code == 0


def test_a_rule_about_no_tool_is_listed_among_those_that_do_not_count(run, env):
    rule_file(env["HOME"], ".config/greenroom", RULES)
    found = run("permissions", "list", "--json").json
    assert [each["why"] for each in found["ignored"]] == [
        "there is no tool 'bash'; did you mean Bash?",
        "it has expired",
    ]
    live = [rule["id"] for rule in found["rules"]]
    assert "user/ours" in live
    assert "deny mcp__files__write" in live
    assert "deny Deploy for release" in live


def test_the_doctor_says_that_it_must_be_mended(run, env, project):
    for place in (".config/greenroom", f"{project}/.greenroom"):
        rule_file(env["HOME"], place, RULES)
    done = run("doctor")
    assert done.code == 1
    for about in ("your rules", "the project's rules"):
        [line] = [each for each in done.out.splitlines() if each.startswith(f"FAIL  {about}: ")]
        assert line.endswith(WARNINGS[0])


def test_a_rule_file_that_is_tried_out_is_told_of_as_well(run, env):
    path = rule_file(env["HOME"], "elsewhere", RULES)
    done = run("permissions", "test", path)
    assert done.code == 0
    assert WARNINGS[0] in done.err


def test_a_call_of_a_tool_that_does_not_exist_is_explained_with_a_remark(run):
    words = ("permissions", "explain", "--input", "{}", "--tool")
    assert run(*words, "read").err == "greenroom: there is no tool 'read'; did you mean Read?\n"
    assert run(*words, "mcp__files__write").err == ""


def test_the_names_of_a_stranger_are_told_in_few_short_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    names = [f"{'x' * 5000}\x1b\n{number}" for number in range(150)]
    rules = {"version": 1, "rules": [{"decision": "deny", "tool": name} for name in names]}
    (tmp_path / ".greenroom").mkdir()
    (tmp_path / ".greenroom" / "permissions.json").write_text(json.dumps(rules))
    warnings = load_rules(tmp_path).warnings
    assert len(warnings) == 6
    assert all(len(line) < 1000 and line.isprintable() for line in warnings)
