"""What makes programs run, or rules change, is written only by leave of a rule that names it."""

import pytest

from greenroom.core import AgentContext, RuleDecision, Workspace
from greenroom.permissions import PermissionManager, PermissionRule

ALLOW, DENY, ASK = RuleDecision.ALLOW, RuleDecision.DENY, RuleDecision.ASK


@pytest.fixture
def context(tmp_path):
    return AgentContext(session_id="s-1", agent_type="coder", workspace=Workspace(tmp_path))


BROAD = [
    PermissionRule.allow_all(),
    PermissionRule.allow_tool("Write", "Bash"),
    PermissionRule.allow_category("write", "execute"),
    PermissionRule.allow_path("**"),
    PermissionRule.allow_path("/**"),
    PermissionRule.allow_path(".*/**", "**/.*", "*"),
    PermissionRule.allow_path(".gi?/**", "**/.git*/**"),
    PermissionRule.allow_if(lambda tool, input: True),
]


@pytest.mark.parametrize("rule", BROAD, ids=str)
@pytest.mark.parametrize("name", [".git/hooks/pre-commit", "lib/.git/config", ".envrc", ".GIT/x"])
def test_no_broad_rule_allows_to_write_what_is_protected(context, rule, name):
    found = PermissionManager([rule]).explain("Write", {"file_path": name}, context)
    assert found.decision is ASK
    assert "is protected" in found.reason


@pytest.mark.parametrize("rule", [PermissionRule.allow_path("**"), PermissionRule.allow_all()])
def test_a_broad_rule_allows_the_rest_and_reading(context, rule):
    manager = PermissionManager([rule])
    for name in ("a", ".gitignore", ".github/workflows/ci.yml", "src/.env"):
        assert manager.check("Write", {"file_path": name}, context) is ALLOW
    assert manager.check("Read", {"file_path": ".git/config"}, context) is ALLOW


@pytest.mark.parametrize(
    ("pattern", "name", "decision"),
    [
        (".git/hooks/**", ".git/hooks/pre-commit", ALLOW),
        ("**/.git/**", "lib/.git/config", ALLOW),
        ("{.git,src}/**", ".git/config", ALLOW),
        ("AGENTS.md", "AGENTS.md", ALLOW),
        ("**/AGENTS.md", "docs/AGENTS.md", ALLOW),
        ("docs/**", "docs/AGENTS.md", ASK),
        (".claude/**", ".claude/settings.json", ALLOW),
        (".claude/**", ".claude/x/.git/config", ASK),
        ("**/.git/**", ".greenroom/.git/config", ASK),
        ("~/.config/fish/**", "~/.config/fish/config.fish", ALLOW),
        ("~/**", "~/.config/fish/config.fish", ASK),
        ("~/**", "~/.bashrc", ASK),
        ("~/.bashrc", "~/.bashrc", ALLOW),
        ("/etc/hosts", "/etc/hosts", ALLOW),
        ("/**", "/etc/hosts", ASK),
    ],
)
def test_a_rule_that_names_it_allows_it(context, pattern, name, decision):
    manager = PermissionManager([PermissionRule.allow_path(pattern)])
    assert manager.check("Write", {"file_path": name}, context) is decision


def test_a_link_leads_around_nothing(context, tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "src").symlink_to(".git")
    manager = PermissionManager([PermissionRule.allow_path("**")], mode="accept-edits")
    assert manager.check("Write", {"file_path": "src/config"}, context) is ASK
    assert manager.check("Bash", {"command": "echo > src/config"}, context) is ASK


@pytest.mark.parametrize(
    ("command", "decision"),
    [
        ("echo a > out.txt", ALLOW),
        ("echo a > .git/hooks/pre-commit", ASK),
        ("cd .git && echo a > hooks/pre-commit", ASK),
        ("cp evil .git/hooks/pre-commit", ASK),
        ("cp template/AGENTS.md .", ASK),
        ("cp -t .git/hooks evil", ASK),
        ("cp --target-directory=.git/hooks evil", ASK),
        ("cd .git/hooks && cp ../../evil pre-commit", ASK),
        ("timeout 5 touch .envrc", ASK),
        ("echo a | tee .bashrc", ASK),
        ("dd if=evil of=.git/config", ASK),
        ("sed -i s/a/b/ .git/config", ASK),
        ("sed -n p .git/config", ALLOW),
        ('cp evil "$PWD"/.git/hooks/x', ASK),
        ("tee $PWD/{.git/hooks/q,W}", ASK),
        ("touch {a,.envrc}", ASK),
        ("touch *.md", ALLOW),
        ("tar xf a.tar -C .git/hooks", ASK),
        ("tar xf a.tar -C.git/hooks", ASK),
        ("tar xf a.tar --directory=.git/hooks", ASK),
        ("tar cf a.tar .git", ASK),
        ("unzip a.zip -d .vscode", ASK),
        ("cat .git/config AGENTS.md", ALLOW),
        ("cp a b", ALLOW),
        ("touch src/.gitignore", ALLOW),
    ],
)
def test_commands_are_held_to_it_where_their_words_say_what_they_write(context, command, decision):
    programs = ["cp", "touch", "timeout", "tee", "dd", "echo", "cat", "cd", "sed", "tar", "unzip"]
    rules = [PermissionRule.allow_command(*programs, "sed -i"), PermissionRule.allow_path("**")]
    found = PermissionManager(rules).explain("Bash", {"command": command}, context)
    assert found.decision is decision
    if decision is ASK:
        assert "is protected" in found.reason


def test_a_rule_for_a_command_that_names_the_file_allows_it(context):
    exact = PermissionRule.parse("Bash(touch .envrc)", "allow")
    prefix = PermissionRule.allow_command("cp pre-commit .git/hooks/pre-commit")
    manager = PermissionManager([exact, prefix])
    assert manager.check("Bash", {"command": "touch .envrc"}, context) is ALLOW
    command = "cp pre-commit .git/hooks/pre-commit"
    assert manager.check("Bash", {"command": command}, context) is ALLOW
    assert manager.check("Bash", {"command": f"{command} .envrc"}, context) is ASK


@pytest.mark.parametrize(
    "name",
    [
        ".bashrc",
        ".profile",
        ".npmrc",
        ".husky/pre-commit",
        "AGENTS.md",
        "CLAUDE.md",
        ".mcp.json",
        ".claude/settings.json",
        ".codex/config.toml",
        ".cursor/rules/x",
        ".gi\u200bt/config",
    ],
)
def test_accepting_edits_accepts_none_of_what_is_protected(context, name):
    manager = PermissionManager(mode="accept-edits")
    assert manager.check("Write", {"file_path": name}, context) is ASK
    assert manager.check("Write", {"file_path": f"sub/{name}"}, context) is ASK
    assert manager.check("Write", {"file_path": "src/a.py"}, context) is ALLOW


def test_bypass_asks_before_its_own_rules_are_rewritten(context, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "conf"))
    manager = PermissionManager(mode="bypass")
    for name in (".greenroom/permissions.json", "conf/greenroom/permissions.json"):
        assert manager.check("Write", {"file_path": name}, context) is ASK
        assert manager.check("Bash", {"command": f"echo > {name}"}, context) is ASK
        found = manager.explain("Bash", {"command": f"cp a {name}"}, context)
        assert found.decision is ASK
        assert found.remembers == ()
    assert manager.check("Write", {"file_path": ".git/hooks/pre-commit"}, context) is ALLOW
    assert manager.check("Bash", {"command": "$X; rm -rf /"}, context) is ALLOW


@pytest.mark.parametrize(
    ("command", "decision"),
    [
        ("ls; rm -rf x", DENY),
        ("$X; rm -rf x", DENY),
        ("$X -rf x", ASK),
        ("rm $X", ASK),
        ("eval $X", ASK),
        ("ls 'a", ASK),
        ("X=1 make > .git/config", ALLOW),
        ("git $X", ASK),
        ("for f in *; do ls $f; done", ASK),
    ],
)
def test_bypass_asks_where_a_denial_may_be_hidden(context, command, decision):
    manager = PermissionManager([PermissionRule.deny_command("rm -rf")], mode="bypass")
    assert manager.check("Bash", {"command": command}, context) is decision


def test_bypass_does_not_ask_where_no_denial_could_be_meant(context):
    rules = [PermissionRule.deny_tool("WebFetch"), PermissionRule.ask_for_command("rm")]
    manager = PermissionManager(rules, mode="bypass")
    assert manager.check("Bash", {"command": "$X; rm $Y"}, context) is ALLOW


def test_what_a_program_writes_without_naming_it_no_rule_can_tell(context):
    manager = PermissionManager([PermissionRule.allow_command("python gen.py", "patch")])
    for command in ("python gen.py", "patch -p1"):
        assert manager.check("Bash", {"command": command}, context) is ALLOW
    whole = PermissionManager([PermissionRule.allow_tool("Bash")])
    assert whole.check("Bash", {"command": "cp a src/pre-commit"}, context) is ALLOW
    assert whole.check("Bash", {"command": "cp a .git/hooks/pre-commit"}, context) is ASK
    assert whole.check("Bash", {"command": "cat a > .git/hooks/pre-commit"}, context) is ASK
