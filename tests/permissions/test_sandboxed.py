"""`sandboxed="allow"`: a command that a sandbox holds needs no question, and only such a one."""

import pytest

from greenroom.core import (
    AgentContext,
    ConfigurationError,
    Execute,
    Opaque,
    ReadPath,
    RuleDecision,
    ShellCommand,
    Workspace,
)
from greenroom.core._internal import SandboxReport
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.sandbox.report import Mechanisms, report_on
from greenroom.tools import Sandbox

ALLOW, DENY, ASK = RuleDecision.ALLOW, RuleDecision.DENY, RuleDecision.ASK
FILES = frozenset({"files", "attributes", "protected", "hidden", "signals"})
NETWORK = frozenset({"network", "services", "syscalls"})


def report(tier="bubblewrap", held_parts=FILES | NETWORK, sandbox=None):
    return report_on(sandbox or Sandbox(), Mechanisms(tier, held_parts=held_parts))


class Runner:
    name = "Bash"

    def __init__(self, *effects, category="execute", runs_judged=True):
        self.category, self.runs_context_command = category, runs_judged
        self.stated = effects

    def effects(self, arguments, context):
        return self.stated


@pytest.fixture
def context(tmp_path):
    return AgentContext(session_id="s", agent_type="a", workspace=Workspace(tmp_path))


def decide(context, command, rules=(), sandbox=None, **options):
    manager = PermissionManager(rules, sandboxed="allow", **options)
    tool = Runner(ShellCommand(command))
    found = manager.explain(tool, {}, context, sandbox=sandbox)
    assert manager.check(tool, {}, context, sandbox=sandbox) is found.decision
    return found.decision


@pytest.mark.parametrize(
    ("told", "decision"),
    [
        (report("bubblewrap"), ALLOW),
        (report("bubblewrap", sandbox=Sandbox("read-only")), ALLOW),
        (report("seatbelt"), ALLOW),
        (report("landlock", frozenset({"files", "hidden"}) | NETWORK), ALLOW),
        (report("landlock", frozenset({"files", "hidden"})), ASK),
        (report("limits", NETWORK), ASK),
        (report("limits", frozenset()), ASK),
        (report("bubblewrap", NETWORK), ASK),
        (report("bubblewrap", sandbox=Sandbox(network="all")), ASK),
        (SandboxReport("workspace-write", "none", "bubblewrap"), ASK),
        (None, ASK),
    ],
)
def test_files_and_network_must_be_held_by_what_was_found(context, told, decision):
    assert decide(context, "make > log; X=1 frob $y", sandbox=told) is decision


@pytest.mark.parametrize(
    ("command", "rules", "decision"),
    [
        ("make install", [], ALLOW),
        ("$x install", [], ALLOW),
        ("make install", [PermissionRule.deny_command("make install")], DENY),
        ("ls; make install", [PermissionRule.deny_command("make install")], DENY),
        ("make install", [PermissionRule.parse("Bash(make:*)", "ask")], ASK),
        ("ls; make", [PermissionRule.parse("Bash(make:*)", "ask")], ASK),
        ("cat .env", [PermissionRule.deny_path("**/.env")], DENY),
        ("$x install", [PermissionRule.deny_command("make install")], ASK),
        ('eval "$x"', [PermissionRule.deny_command("make install")], ASK),
        ("cp a .git/hooks/pre-commit", [], ASK),
        ("echo x > .bashrc", [], ASK),
        ("echo x > .greenroom/permissions.json", [], ASK),
        ("ls; touch AGENTS.md", [], ASK),
    ],
)
def test_denials_questions_of_rules_and_what_is_protected_come_first(
    context, command, rules, decision
):
    assert decide(context, command, rules, report()) is decision


@pytest.mark.parametrize(
    ("tool", "decision"),
    [
        (Runner(ShellCommand("make")), ALLOW),
        (Runner(Execute(("make",))), ALLOW),
        (Runner(Execute(("make",)), ShellCommand("frob")), ALLOW),
        (Runner(ShellCommand("make"), category="write"), ASK),
        (Runner(ShellCommand("make"), Opaque("more")), ASK),
        (Runner(ReadPath("a")), ASK),
        (Runner(Opaque("what it would do")), ASK),
        (Runner(), ASK),
        ("Write", ASK),
        ("frob", ASK),
    ],
)
def test_only_a_tool_whose_calls_are_commands_is_held(context, tool, decision):
    manager = PermissionManager(sandboxed="allow")
    data = {"file_path": "a", "content": "", "sandbox": "bubblewrap", "enforced": ["files"]}
    assert manager.check(tool, data, context, sandbox=report()) is decision


@pytest.mark.parametrize(
    ("mode", "decision"),
    [
        ("default", ALLOW),
        ("accept-edits", ALLOW),
        ("plan", DENY),
        ("deny", ALLOW),
        ("bypass", ALLOW),
    ],
)
def test_it_settles_what_is_open_as_the_modes_do(context, mode, decision):
    assert decide(context, "make", sandbox=report(), mode=mode) is decision


def test_it_is_asked_by_default_and_what_does_not_exist_is_refused(context):
    tool = Runner(ShellCommand("make"))
    assert PermissionManager().check(tool, {}, context, sandbox=report()) is ASK
    with pytest.raises(ConfigurationError, match="unknown sandboxed: 'yes'") as caught:
        PermissionManager(sandboxed="yes")
    assert caught.value.hint == "one of ask, allow"


@pytest.mark.parametrize("rules", [(), (PermissionRule.deny_command("rm"),)])
def test_a_subagent_has_it_from_its_parent_and_is_never_looser(context, rules):
    tool = Runner(ShellCommand("make"))
    for sandboxed, decision in (("allow", ALLOW), ("ask", ASK)):
        child = PermissionManager(sandboxed=sandboxed).child(rules, context=context)
        assert child.check(tool, {}, context, sandbox=report()) is decision
    # What a rule denies may be in a text that runs as it was written.
    own = Runner(ShellCommand("make"), runs_judged=False)
    child = PermissionManager(sandboxed="allow").child(rules, context=context)
    assert child.check(own, {}, context, sandbox=report()) is (ASK if rules else ALLOW)
    child = PermissionManager(sandboxed="ask").child(rules, context=context)
    child.sandboxed = "allow"
    assert child.check(tool, {}, context, sandbox=report()) is ASK
    asking = PermissionManager([PermissionRule.parse("Bash", "ask")], sandboxed="allow")
    assert asking.child(rules).check(tool, {}, context, sandbox=report()) is ASK
