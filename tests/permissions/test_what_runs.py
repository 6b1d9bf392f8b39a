"""What runs unasked is what was judged: the rendering, the digest, and who may be allowed."""

import os
import subprocess
from pathlib import Path

import pytest

from greenroom.agents import coder
from greenroom.core import AgentContext, RuleDecision, ShellCommand, ToolInfo, ToolResult, Workspace
from greenroom.git._internal import GitAnswers
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, InMemoryStore
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import Bash, ToolRegistry

ALLOW, ASK, DENY = RuleDecision.ALLOW, RuleDecision.ASK, RuleDecision.DENY


class Runner:
    """A tool that gives one text, or several, to a shell."""

    name, description, category = "run", "Run it.", "execute"
    parameters = {"type": "object", "properties": {}}

    def __init__(self, *texts, runs_judged=True):
        self.texts, self.runs_context_command = texts, runs_judged

    def info(self, input):
        return ToolInfo("Run")

    def effects(self, input, context):
        return [ShellCommand(text) for text in self.texts]

    async def execute(self, input, context):
        return ToolResult.ok(context.command)


@pytest.fixture
def context(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return AgentContext(session_id="s", agent_type="a", workspace=Workspace(tmp_path / "work"))


@pytest.fixture(autouse=True)
def work(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("a\n")
    return folder


def program(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def explain(command, context, *rules, tool="Bash", **options):
    manager = PermissionManager(rules, **options)
    return manager.explain(tool, {"command": command}, context, files=False)


def test_an_allowed_command_runs_with_each_word_written_out_and_each_program_pinned(context):
    found = explain("ls *.txt ~ | head -1 2>&1", context, PermissionRule.allow_tool("Bash"))
    home = os.environ["HOME"]
    assert found.decision is ALLOW
    assert found.runs_as == (
        "hash -p '/usr/bin/ls' 'ls'; hash -p '/usr/bin/head' 'head'; "
        f"'ls' 'a.txt' '{home}' | 'head' '-1' 2>&1"
    )


def test_what_a_wrapper_runs_is_named_by_its_file(context):
    found = explain("timeout 5 env ls", context, PermissionRule.allow_command("ls"))
    assert found.decision is ALLOW
    assert found.runs_as.endswith("'timeout' '5' '/usr/bin/env' '/usr/bin/ls'")


def test_the_program_that_was_judged_runs_although_the_search_path_changes(tmp_path, context):
    judged = program(tmp_path / "bin", "tool", "echo judged")
    found = explain("tool", context, PermissionRule.allow_command("tool"))
    assert str(judged) in found.runs_as
    (tmp_path / "first").mkdir()
    program(tmp_path / "first", "tool", "echo other")
    path = f"{tmp_path / 'first'}:{os.environ['PATH']}"
    ended = subprocess.run(
        ["bash", "--noprofile", "--norc", "-p", "-c", found.runs_as],
        env={"PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout == "judged\n"


def test_the_digest_is_that_of_what_runs_of_its_programs_and_of_the_folder(tmp_path, context):
    def digest():
        return explain("tool *", context, PermissionRule.allow_command("tool")).digest

    tool = program(tmp_path / "bin", "tool", "echo 1")
    seen = [digest()]
    assert digest() == seen[0]
    (tmp_path / "work" / "b.txt").touch()  # a pattern now stands for more
    seen.append(digest())
    tool.unlink()
    program(tmp_path / "bin", "tool", "echo 22")
    seen.append(digest())
    (tmp_path / "work").rename(tmp_path / "old")
    (tmp_path / "work").mkdir()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "work" / name).touch()
    seen.append(digest())
    assert len(set(seen)) == len(seen)


def test_a_program_that_an_earlier_command_may_make_needs_its_exact_words(context):
    rules = PermissionRule.allow_command("cp", "made")
    assert explain("made x", context, rules).decision is ALLOW  # it is not there, and will not be
    assert explain("ls; made x", context, rules).decision is ALLOW
    found = explain("cp a.txt bin/made && made x", context, rules)
    assert found.decision is ASK
    assert "there is no made yet" in found.reason
    exact = PermissionRule.parse("Bash(made x)", "allow")
    assert explain("cp a.txt bin/made && made x", context, rules, exact).decision is ALLOW


@pytest.mark.parametrize("text", ["ls $x", "ls & pwd", "for i in a; do ls; done", "ls 3> f"])
def test_only_a_rule_for_the_whole_tool_allows_what_is_not_plain(context, text):
    whole, denial = PermissionRule.allow_tool("Bash"), PermissionRule.deny_command("rm")
    assert explain(text, context, PermissionRule.allow_command("ls", "pwd")).decision is ASK
    assert explain(text, context, PermissionRule.allow_all()).decision is ASK
    found = explain(text, context, whole)
    assert (found.decision, found.runs_as) == (ALLOW, "")
    assert explain(text, context, whole, denial).decision is ASK
    assert explain(text, context, mode="bypass").decision is ALLOW
    assert explain(text, context, denial, mode="bypass").decision is ASK
    assert explain(text, context, whole, mode="plan").decision is DENY
    assert explain(text, context, mode="deny").decision is DENY


def test_a_tool_that_runs_its_own_text_is_allowed_by_a_rule_for_the_tool_alone(context):
    rules = PermissionRule.parse('{"tool": ["run"], "command_prefix": ["ls"]}', "allow")
    assert explain("", context, rules, tool=Runner("ls a")).decision is ALLOW
    assert explain("", context, rules, tool=Runner("ls a", runs_judged=False)).decision is ASK
    assert explain("", context, rules, tool=Runner("ls a", "ls b")).decision is ASK
    whole = PermissionRule.allow_tool("run")
    assert explain("", context, whole, tool=Runner("ls a", runs_judged=False)).decision is ALLOW


def test_a_command_that_is_too_long_when_written_out_is_asked_about(context):
    text = "echo " + "\\'" * 32_700
    found = explain(text, context, PermissionRule.allow_command("echo"))
    assert found.decision is ASK
    assert "each word written out" in found.reason


def test_a_letter_beyond_ascii_needs_a_locale_that_both_read_alike(context, monkeypatch):
    rules = PermissionRule.allow_command("echo")
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    assert explain("echo é", context, rules).decision is ASK
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    assert explain("echo é", context, rules).decision is ALLOW


def git(folder, *words):
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.test")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True)


async def test_an_agent_runs_what_was_judged_and_git_without_what_its_repository_names(
    tmp_path, work, context
):
    git(work, "init", "-q")
    monitor = program(tmp_path / "bin", "monitor", f"touch {tmp_path}/ran")
    git(work, "config", "core.fsmonitor", str(monitor))
    llm = ScriptedProvider(call("Bash", command="git status --short && echo *.txt"), "done")
    tools = ToolRegistry([Bash()])
    async with AgentRuntime(store=InMemoryStore(), workspace=work) as runtime:
        handle = runtime.spawn(
            AgentSession.new("coder"), coder, llm, tools, PermissionManager(), unattended="deny"
        )
        await handle.ask("look")
    assert "?? a.txt\\na.txt" in str(llm.requests[-1].messages[-1])
    assert not (tmp_path / "ran").exists()
    git(work, "status", "--short")
    assert (tmp_path / "ran").exists()  # without what was added, git runs it


def test_git_is_not_known_to_only_read_before_it_was_asked(work, context):
    git(work, "init", "-q")
    manager, arguments = PermissionManager(), {"command": "git status"}
    judged = manager.judge("Bash", arguments, context)
    assert judged.decision is ASK
    assert "git was not asked" in judged.reason

    def answers():
        return {folder: GitAnswers().ask(folder) for folder in judged.missing_answers}

    found = manager.explain("Bash", arguments, context, git=answers())
    assert found.decision is ALLOW
    assert "'core.fsmonitor=false'" in found.runs_as
    git(work, "config", "filter.x.clean", "cat")
    assert manager.check("Bash", arguments, context, git=answers()) is ASK


def test_a_home_that_is_set_for_cd_is_not_taken_for_the_usual_one(context):
    rules = PermissionRule.allow_tool("Bash"), PermissionRule.deny_path("/etc/**")
    assert explain("cd && cat hostname", context, *rules).decision is ALLOW
    assert explain("HOME=/etc cd && cat hostname", context, *rules).decision is DENY
    assert explain("HOME=/opt cd && cat /etc/x", context, *rules).decision is DENY


def test_commands_in_the_input_of_a_program_are_not_allowed_with_the_program(context):
    rule = PermissionRule.allow_command("python3", "cat")
    assert explain("python3 script.py < a.txt", context, rule).decision is ALLOW
    assert explain("cat a.txt | python3", context, rule).decision is ASK
    assert explain("python3 - <<'E'\nprint()\nE", context, rule).decision is ASK
    whole, denial = PermissionRule.allow_tool("Bash"), PermissionRule.deny_command("rm")
    assert explain("cat a.txt | python3", context, whole).decision is ALLOW
    assert explain("cat a.txt | python3", context, whole, denial).decision is ASK


def test_git_grep_through_a_link_in_the_place_of_a_folder_is_asked_about(work, context, tmp_path):
    git(work, "init", "-q")
    (work / "d").mkdir()
    (work / "d/x").write_text("x")
    git(work, "add", ".")
    answers = {str(work): GitAnswers().ask(str(work))}
    manager = PermissionManager()
    assert manager.check("Bash", {"command": "git grep x"}, context, git=answers) is ALLOW
    (work / "d/x").unlink()
    (work / "d").rmdir()
    (work / "d").symlink_to(tmp_path)
    assert manager.check("Bash", {"command": "git grep x"}, context, git=answers) is ASK
    assert manager.check("Bash", {"command": "git diff"}, context, git=answers) is ALLOW


@pytest.mark.parametrize(
    "text",
    ["fakeroot -f'rm a' -- a", "fakeroot -frm a", "hyperfine -prm ls", "hyperfine -wvprm ls"],
)
def test_a_denied_program_is_found_in_the_value_of_an_option_of_a_program_that_runs_others(
    text, context
):
    allow = PermissionRule.allow_bash_prefix(["fakeroot", "hyperfine"])
    rules = PermissionManager([allow, PermissionRule.deny_command("rm")])
    assert rules.check("Bash", {"command": text}, context) is not ALLOW
