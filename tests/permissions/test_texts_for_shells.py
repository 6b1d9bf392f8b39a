"""Texts that a command hands to a shell, by its words or its input, and what rules cover them."""

import pytest

from greenroom.core import AgentContext, RuleDecision, Workspace
from greenroom.permissions import PermissionManager, PermissionRule

CONTEXT = AgentContext(session_id="s", agent_type="a", workspace=Workspace("/srv/project"))
ALLOW, ASK, DENY = RuleDecision.ALLOW, RuleDecision.ASK, RuleDecision.DENY
TEXTS = [
    "ls $x",
    "bash -c 'ls $x'",
    "bash -c ls",
    "timeout 5 sh -c 'ls $x'",
    "eval 'ls $x'",
    "watch 'ls $x'",
    "script -qc 'ls $x'",
    "tar --to-command='cat $x' -xf a.tar",
]


def decide(command, *rules):
    return PermissionManager(rules).check("Bash", {"command": command}, CONTEXT)


@pytest.mark.parametrize("command", TEXTS)
def test_a_text_is_covered_by_a_rule_for_the_tool_and_not_by_one_for_all_calls(command):
    assert decide(command, PermissionRule.allow_all()) is ASK
    assert decide(command, PermissionRule.allow_if(lambda tool, input: True)) is ASK
    assert decide(command, PermissionRule.allow_tool("Bash")) is ALLOW
    denying = PermissionRule.deny_command("rm")
    assert decide(command, PermissionRule.allow_tool("Bash"), denying) is ASK


def test_a_text_in_words_is_covered_by_exact_words():
    command = "bash -c 'ls $x'"
    assert decide(command, PermissionRule.parse(f"Bash({command})", "allow")) is ALLOW
    assert decide(command, PermissionRule.allow_command("bash -c")) is ASK


@pytest.mark.parametrize("command", ["export A=b", "make", "bash run.sh", "sort -o a b"])
def test_a_rule_for_all_calls_covers_other_commands(command):
    assert decide(command, PermissionRule.allow_all()) is ALLOW


RUNS_INPUT = [
    "sudo bash",
    "ssh h",
    "ssh h bash",
    "ssh h sudo bash -s",
    "ssh h 'cd /srv && sudo sh'",
    "ssh -p 22 h env A=b python3 -",
    "timeout 5 ssh h psql db",
    "docker exec -i c bash",
    "xargs -a list ssh h sh",
    "frob run bash",
    "find . -exec ssh h sh ;",
]
TAKES_INPUT = ["ssh h cat", "ssh h 'tar x -C /srv'", "ssh h bash run.sh", "frob run", "sort"]
RULES = [
    PermissionRule.allow_command(each)
    for each in ("ssh", "sudo", "timeout", "docker", "xargs", "frob", "find", "echo", "sort")
]


@pytest.mark.parametrize("command", RUNS_INPUT)
@pytest.mark.parametrize("form", ["echo ls | {}", "{} < list", "{} <<E\nls\nE", "{} <<< ls"])
def test_what_runs_its_input_is_never_allowed_by_a_rule_with_some(command, form):
    assert decide(form.format(command.replace(";", "';'")), *RULES) is ASK


@pytest.mark.parametrize("command", TAKES_INPUT)
def test_what_only_takes_its_input_is_allowed_by_a_rule(command):
    assert decide(f"{command} <<E\nls\nE", *RULES) is ALLOW


@pytest.mark.parametrize("command", ["exec < list; python -", "exec <<< ls && ssh h sh"])
def test_what_exec_redirects_is_the_input_of_all_that_follows(command):
    rules = [PermissionRule.allow_command("exec", "builtin", "python", "ssh")]
    assert decide(command, *rules) is ASK


def test_the_search_for_readers_of_input_ends():
    command = "frob " + "bash x " * 4_000
    assert decide(f"{command} <<E\nls\nE", *RULES) is ASK
