"""Bypasses that were published for other systems, and their kin: none of them is allowed here.

Most of them are in `cases/published.txt`, with the harmless commands that look alike and must stay
allowed: over-asking drives people to bypass. Here are those that are more than a text, and the
bounds. `test_lineage.py` has those of subagents, `test_digest.py` those between asking and running.
"""

from types import SimpleNamespace

import pytest

from greenroom.core import AgentContext, Execute, RuleDecision, Workspace
from greenroom.permissions import PermissionManager, PermissionRule, RuleMatcher

ALLOW, DENY, ASK = RuleDecision.ALLOW, RuleDecision.DENY, RuleDecision.ASK
CONTEXT = AgentContext(session_id="s", agent_type="a", workspace=Workspace("/srv/project"))
RULES = (
    PermissionRule.allow_command("cat", "cd", "docker", "find", "ls", "npx", "timeout", "watch"),
    PermissionRule.deny_command("rm -rf", "git push", "sudo"),
    PermissionRule.deny_path("**/.env", "secrets/**", "conf/keys/**"),
)
MANAGER = PermissionManager(RULES)


def decide(command, manager=MANAGER, tool="Bash", key="command", **more):
    return manager.check(tool, {key: command, **more}, CONTEXT)


# Adversa AI on Claude Code, fixed in 2.1.90: behind its fiftieth part a denied command was only
# asked about. No bound of ours hides one.
BEHIND_A_BOUND = {
    "words of a runner": "npx " + "a " * 20 + "rm -rf x",
    "options of a runner": "docker run " + "-e A " * 20 + "image rm -v -rf x",
    "git among the words of a runner": "npx " + "a " * 20 + "git -C y --bare push",
    "actions of find": r"find . " + r"-exec ls {} \; " * 100 + "-exec rm -v x -rf {} +",
    "actions of an inner find": "timeout 5 find . " + "-exec ls {} + " * 50 + "-exec rm -rf {} +",
    "a plus that ends nothing": r"find . -exec rm + -rf {} \;",
    "long texts inside texts": "watch " * 10 + "'" + "ls a; " * 400 + "rm -rf x'",
    "a file, behind wrappers": "timeout 5 " * 10 + "cat a/.env",
    "a folder, then a file in it": "cd a; cd ../conf; cat keys/a",
    "a file, among many": "cat " + " ".join(f"f{n}" for n in range(500)) + " secrets/key",
    "a file, behind errors": "ls (a)\n" * 60 + "cat .env",
}
# These are asked about: what is denied may lie behind the bound, or not.
AT_A_BOUND = {
    "folders": "".join(f"cd d{n}; " for n in range(9)) + "cd conf; cat keys/a",
    "wrappers in a shell": "bash -c '" + "timeout 5 " * 20 + "rm -v -rf x'",
    "texts inside texts": "watch " * 15 + "'rm -rf x'",
}


@pytest.mark.parametrize("command", BEHIND_A_BOUND.values(), ids=BEHIND_A_BOUND)
def test_no_bound_hides_a_denied_command_as_in_claude_code_before_2_1_90(command):
    assert decide(command) is DENY


@pytest.mark.parametrize("command", AT_A_BOUND.values(), ids=AT_A_BOUND)
def test_a_bound_asks(command):
    assert decide(command) is ASK


def test_a_host_is_denied_however_long_the_address_is():
    rules = [PermissionRule.allow_command("fetch"), PermissionRule.deny_domain("evil.test")]
    command = "fetch https://evil.test/" + "a" * 9000
    assert decide(command, PermissionManager(rules)) is DENY


@pytest.mark.parametrize(
    ("effect", "decision"),
    [
        (Execute(("sudo", "rm", "-rf", "x")), DENY),
        (Execute(("env", "rm", "-rf", "x")), DENY),
        (Execute(("bash", "-c", "rm -rf x")), DENY),
        (Execute(("xargs", "rm", "-rf")), DENY),
        (Execute(("timeout", "5", "cat", "a/.env")), DENY),
        (Execute(("cat", "key"), cwd="secrets"), DENY),
        (Execute(("cat", "../secrets/key"), cwd="src"), DENY),
        (Execute(("ls",), environment=(("LD_PRELOAD", "x.so"),)), ASK),
        (Execute(("ls",), environment=(("FOO", "1"),)), ASK),
        (Execute(("ls\0", "a")), ASK),
        (Execute(("$X",)), ASK),
        (Execute(("ls",), environment=(("NO_COLOR", "1"),)), ALLOW),
        (Execute(("ls", "a > b; rm -rf x")), ALLOW),
        (Execute(("timeout", "5", "ls", "$(rm -rf x)")), ALLOW),
        (Execute(("cat", "key"), cwd="src"), ALLOW),
    ],
)
def test_programs_without_a_shell_are_looked_through_as_in_goclaw_1200(effect, decision):
    words = {"allow": ("cat", "ls", "timeout"), "deny": ("rm -rf", "sudo")}
    rules = [
        PermissionRule(decision=which, matcher=RuleMatcher(command_prefix=each))
        for which, each in words.items()
    ]
    tool = SimpleNamespace(name="Run", category="execute", effects=lambda *_: (effect,))
    assert PermissionManager([*rules, RULES[-1]]).check(tool, {}, CONTEXT) is decision


def test_patterns_of_search_tools_as_in_claude_code_45200():
    manager = PermissionManager(
        [PermissionRule.allow_path("src/**"), PermissionRule.deny_path("secrets/**", "~/.ssh/**")]
    )
    expected = {
        DENY: ("secrets/*", "secrets/**/key", "secrets/key", "~/.ssh/*", "src/../secrets/*"),
        ASK: ("*", "**/*.py", "lib/*.py", "/etc/*", "/*", "s*/x", "{src,lib}/*"),
        ALLOW: ("src/*.py", "src/**/*.{py,pyi}", "src/a/b*"),
    }
    for decision, patterns in expected.items():
        for pattern in patterns:
            assert decide(pattern, manager, "Glob", "pattern") is decision
            assert decide(pattern, manager, "Grep", "glob") is decision
    assert decide("*.py", manager, "Glob", "pattern", path="src") is ALLOW
    assert decide("../secrets/*", manager, "Glob", "pattern", path="src") is DENY


def test_links_as_in_cve_2026_39861_and_claude_code_2_1_69(tmp_path):
    (tmp_path / "secrets").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/link").symlink_to("../secrets")
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("secrets/key")
    (tmp_path / "loop").symlink_to("loop")
    manager = PermissionManager(
        [
            PermissionRule.allow_category("read", "write"),
            PermissionRule.allow_command("cat"),
            PermissionRule.deny_path("secrets/**"),
        ]
    )
    context = AgentContext(session_id="s", agent_type="a", workspace=Workspace(tmp_path))
    for path in ("a", "b", "docs/link/key", "docs/link/new", "docs/link/../secrets/x", "docs/link"):
        assert manager.check("Read", {"file_path": path}, context) is DENY
        assert manager.check("Write", {"file_path": path, "content": ""}, context) is DENY
        assert manager.check("Bash", {"command": f"cat {path}"}, context) is DENY
    assert manager.check("Read", {"file_path": "loop"}, context) is ALLOW
    allowed = PermissionManager([PermissionRule.allow_path("docs/**")])
    assert allowed.check("Read", {"file_path": "docs/link/key"}, context) is ASK


@pytest.mark.parametrize(
    "path",
    [
        *("/proc/self/cwd/", "/proc/$$/cwd/", "//proc//thread-self/./cwd//", "/dev/fd/../cwd/"),
        *("/proc/self/root/proc/self/cwd/", "/proc/self/task/1/cwd/", "/proc/self/../self/cwd/"),
        *("../../proc/self/cwd/", "/srv/../dev/fd/../cwd/", "src/../../../proc/self/cwd/"),
        f"/proc/self/root{CONTEXT.workspace.root}/",
    ],
)
def test_a_folder_of_a_process_is_the_command_s_as_in_cve_2026_25724(path):
    rules = [PermissionRule.allow_command("cat", "cd"), PermissionRule.deny_path("secrets/**")]
    manager = PermissionManager(rules)
    assert decide(f"cat {path}secrets/a", manager) is DENY
    assert decide(f"cd {path} && cat secrets/a", manager) is DENY
    assert decide("cat /proc/cpuinfo /proc/self/status /dev/fd/0", manager) is ALLOW


def test_the_model_s_own_word_counts_for_nothing_as_in_cline_12020():
    told = {"requires_approval": False, "safe": True, "description": "lists", "approved": True}
    assert decide("wget x", **told) is ASK
    assert decide("rm -rf x", **told) is DENY


@pytest.mark.parametrize("name", ["toString", "__class__", "constructor", "__proto__", "None", "*"])
def test_a_rule_s_name_means_nothing_as_in_claude_code_2_1_97(name):
    rules = PermissionRule.deny_command("ls", id=name), PermissionRule.deny_command("cat")
    manager = PermissionManager([PermissionRule.allow_tool("Bash"), *rules])
    assert decide("ls", manager) is DENY
    assert decide("cat x", manager) is DENY


def test_an_operator_s_question_stands_as_in_claude_code_2_1_74():
    ask = PermissionRule.ask_for_command("ls", final=True)
    allow = PermissionRule.allow_all(scope="user", priority=99)
    assert decide("ls", PermissionManager([allow, ask])) is ASK


@pytest.mark.parametrize(
    "command",
    [
        *("bash -c ls", "python -c 1", "python3", "node -e 1", "sudo ls", "xargs ls", "eval ls"),
        *("find . -delete", "curl x", "rm x", "git", "ssh h ls", "env A=1 ls", "awk 1"),
        *("docker run x", "FOO=1 wget"),
    ],
)
def test_always_never_saves_an_interpreter_as_in_openworker_29_and_goclaw_1204(command):
    found = PermissionManager(read_only=False).explain("Bash", {"command": command}, CONTEXT)
    for proposed in found.remembers:
        assert not proposed.matcher.command_prefix
