"""Patterns of the shell's and of programs, where the files that they stand for are there."""

import subprocess
import sys

import pytest

from greenroom.core import AgentContext, ReadPath, Workspace
from greenroom.fs import file_lookup
from greenroom.fs.file_lookup import FileLookup
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.permissions.patterns import END, Anchors, PathPattern
from greenroom.shell._internal import NotPlainError
from greenroom.shell.expansion import list_names

DENIED = ("**/.env", "secrets.txt", "vault/**", "**/*.pem", "**/own.key")
PROGRAMS = ("cat", "ls", "grep", "wc", "find", "rg", "git add", "git diff", "xargs", "echo", "cd")


@pytest.fixture
def workspace(tmp_path):
    for name in (
        *(".env", "secrets.txt", "notes.md", "vault/a", "vault/b/c", "conf/.env", "conf/x.md"),
        *("keys/own.key", "keys/other.txt", "plain/a.txt", "certs/a.pem", "se-cret"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "link").symlink_to(".env")
    (tmp_path / "linked").symlink_to("vault")
    (tmp_path / "way").symlink_to("notes.md")
    return tmp_path


def explain(root, command, denied=DENIED, allowed=PROGRAMS, **options):
    rules = [PermissionRule.allow_command(*allowed), PermissionRule.deny_path(*denied, **options)]
    context = AgentContext(session_id="s", agent_type="a", workspace=Workspace(str(root)))
    return PermissionManager(rules).explain("Bash", {"command": command}, context)


@pytest.mark.parametrize(
    "command",
    [
        *("cat *", "cat *.txt", "ls *", "grep -n x *", "wc -l ./*", "cat s*", "cat */own.key"),
        *("cat */o*", "cat */*", "cat [r-t]*", "cat li*", "cat l?nk", "cat link*/a"),
        *("cat l*/b/*", "cat ../*/secrets.txt", "cat $HOME/x *", "cat {s,n}*", "cat cert?/a.*"),
        *("ls -d */", "cat certs/a.p*", "cat '.e*' \\.e*", "cat keys/o'w'*", "cat n*; cat l*"),
        *("grep -r x --include='.e*' .", "grep -r x --exclude .md .env", "rg x -g .env"),
        *("grep -r x --exclude=.env .env", "git diff -- ????", "git diff -- ':(top).env'"),
    ],
)
def test_a_pattern_that_stands_for_a_denied_file_is_denied(workspace, command):
    assert explain(workspace, command).decision == "deny"


@pytest.mark.parametrize(
    "command",
    [
        *("cat *.md", "cat n*", "cat w*", "cat plain/*", "ls p*/", "cat */a.txt"),
        *("cat plain/*.p*", "ls [!a-z]*", "cat keys/*.txt", "cat conf/*", "cat nothing*"),
        *("cat '*' '.e*'", "ls -d p*/", "grep -n x plain/*.txt", "wc -l */*.md", "cat none/s*"),
        *("cat plain/**", "cat n* | grep -c x p*/*", "find . -name '.e*'"),
        *("grep -r x --exclude=.env conf", "ls --ignore=.env --hide=vault"),
        "git add . ':(exclude).env'",
    ],
)
def test_a_pattern_that_stands_for_other_files_alone_is_allowed(workspace, command):
    found = explain(workspace, command)
    assert found.decision == "allow", found.reason


@pytest.mark.parametrize(
    "command",
    [
        # what it stands for may be something else by the time that it runs
        *("cd plain && cat *", "cd plain; cat a*", "make; cat n*", "echo x > o; cat n*"),
        *("git checkout x && cat n*", "cat n* > o; cat n*"),
        # bash reads it in another way, or in several
        *("cat .*", "cat [[:alpha:]]otes.md", "cat n[o'-'t]tes.md", "cat n[t-o]*", "cat p[a/]*"),
        *("cat < n*", "echo x > no[-a]te*", "n* a", "shopt -s dotglob; cat conf/*"),
        # git takes it for one of its own
        "git diff -- ':(top).e[n]v'",
    ],
)
def test_a_pattern_whose_files_are_not_known_is_asked_about(workspace, command):
    allowed = (*PROGRAMS, "make", "git checkout", "shopt", "n*")
    rules = [PermissionRule.allow_command(*allowed[:-1]), PermissionRule.allow_path("*")]
    context = AgentContext(session_id="s", agent_type="a", workspace=Workspace(workspace))
    manager = PermissionManager([*rules, PermissionRule.deny_path("**/.env")])
    assert manager.check("Bash", {"command": command}, context) == "ask"


def test_in_a_workspace_that_is_not_there_a_pattern_is_asked_about(workspace):
    assert explain(workspace / "none", "cat *.md").decision == "ask"


@pytest.mark.parametrize("name", ["-delete", "--pre=x", "-n"])
def test_a_file_that_is_named_like_an_option_is_no_option(workspace, name):
    (workspace / name).touch()
    for command in ("find . -size [+-]*", "rg -g [+-]* hi", "grep *", "cat ?*"):
        assert explain(workspace, command, ("none",)).decision == "ask"
    assert explain(workspace, "cat ./*", ("none",)).decision == "allow"


def test_what_a_pattern_stands_for_is_looked_at_wherever_the_pattern_stands(workspace):
    (workspace / "+x").touch()
    (workspace / "1").touch()
    (workspace / "l").symlink_to("/etc/passwd")
    manager = PermissionManager()
    context = AgentContext(session_id="s", agent_type="a", workspace=Workspace(workspace))
    for command, decision in (
        ("rg -g +* hi", "allow"),
        ("head -n [1l]*", "ask"),
        ("head -n [1n]*", "allow"),
        ("grep [1l]*", "ask"),
        ("grep +* n*", "allow"),
    ):
        found = manager.explain("Bash", {"command": command}, context)
        assert found.decision == decision, (command, found.reason)


@pytest.mark.skipif(sys.platform != "linux", reason="no /proc")
@pytest.mark.parametrize("pattern", ["/proc/self/cw?/*.txt", "/dev/fd/../cwd/s*.txt"])
def test_a_pattern_through_the_links_of_a_process_leads_around_nothing(
    workspace, pattern, monkeypatch
):
    found = explain(workspace, f"cat {pattern}")  # of this process, it stands for nothing
    assert f"'{pattern}'" in found.runs_as
    monkeypatch.chdir(workspace)
    assert explain(workspace, f"cat {pattern}").decision == "deny"


def test_a_pattern_is_resolved_through_the_links_that_it_stands_for(workspace, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "below").mkdir()
    (workspace / "outward").symlink_to(outside)
    for command, decision in (
        ("cat out[w]ard/../vault/a", "deny"),  # which some programs take for the workspace's own
        ("cat outward/b*/../vault/a", "allow"),
        ("cat outward/b*/../../*/vault/a", "deny"),
    ):
        assert explain(workspace, command, ("vault/**",)).decision == decision


def test_a_pattern_that_may_be_any_of_too_many_is_asked_about(workspace, monkeypatch):
    monkeypatch.setattr(file_lookup, "MAX_LOOKUPS", 8)
    assert explain(workspace, "cat *", ("none.txt",)).decision == "ask"
    monkeypatch.setattr(file_lookup, "MAX_LOOKUPS", 40)
    assert explain(workspace, "cat *.md", ("none.txt",)).decision == "allow"
    assert explain(workspace, "cat */a */b *", ("none.txt",)).decision == "ask"


def test_each_folder_is_listed_once_in_a_check(workspace):
    looked = FileLookup()
    before = list_names("plain/*", str(workspace), looked)
    (workspace / "plain/b.txt").write_text("")
    assert list_names("plain/*", str(workspace), looked) == before
    assert len(list_names("plain/*", str(workspace), FileLookup())) == 2


@pytest.mark.parametrize(
    "pattern",
    ["*", "*.txt", "*/*", "*/a*", "[r-t]*", "?ink", "l*/*", "*/", ".?nv", "co*/.e*", ".[!.]*"],
)
def test_what_a_pattern_stands_for_is_what_bash_makes_of_it(workspace, pattern):
    run = subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", f"printf '%s\\n' {pattern}"],
        cwd=workspace,
        env={"LANG": "C", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert list_names(pattern, str(workspace), FileLookup()) == tuple(run.stdout.split())


def test_patterns_that_bash_may_read_in_another_way_are_not_listed(workspace):
    (workspace / "\udcff").touch()
    for pattern in (".*", "*/.*/x", "?"):
        with pytest.raises(NotPlainError):
            list_names(pattern, str(workspace), FileLookup())


def test_the_model_is_told_which_pattern_and_what_to_do(workspace):
    found = explain(workspace, "grep x -r --include=.e* .", id="no-env")
    advice = "(.e* may stand for it: name the files that are meant)"
    assert found.message == f"the rule 'no-env' denies this {advice}"
    found = explain(workspace, "grep x -r --include=.e* .", message="Secrets are not read.")
    assert found.message == f"Secrets are not read. {advice}"
    assert explain(workspace, "cat .e*", message="Secrets are not read.").message == (
        "Secrets are not read."
    )


@pytest.mark.parametrize("tool", ["Glob", "Grep"])
@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        *((".env", "deny"), (".e*", "deny"), ("**/.en?", "deny"), ("**/{.e*,x}", "deny")),
        *(("conf/.[e]nv", "deny"), ("*.pem", "deny"), ("**/*env", "deny"), ("{.env,x}", "deny")),
        *(("**/*.py", "allow"), ("*", "allow"), ("**/*.{md,txt}", "allow"), ("{a", "allow")),
        *(("**/.e[", "allow"), ("!.env", "allow"), ("????", "deny")),
    ],
)
def test_patterns_of_the_tools_are_judged_by_what_they_spell(workspace, tool, pattern, expected):
    rules = [PermissionRule.allow_tool(tool), PermissionRule.deny_path(*DENIED)]
    context = AgentContext(session_id="s", agent_type="a", workspace=Workspace(str(workspace)))
    key = "pattern" if tool == "Glob" else "glob"
    data = {"pattern": "x", key: pattern}
    assert PermissionManager(rules).check(tool, data, context) == expected
    assert ReadPath.from_pattern("src", "*.py") == ReadPath("src", "*.py")


@pytest.mark.parametrize(
    ("denied", "expected"), [("**/.env", "allow"), ("src/a/x.py", "allow"), ("src/**", "deny")]
)
def test_a_search_at_any_depth_is_for_what_it_spells(workspace, denied, expected):
    rules = [PermissionRule.allow_tool("Glob"), PermissionRule.deny_path(denied)]
    context = AgentContext(session_id="s", agent_type="a", workspace=Workspace(str(workspace)))
    assert PermissionManager(rules).check("Glob", {"pattern": "src/**"}, context) == expected


@pytest.mark.parametrize(
    ("denied", "name"),
    [
        *(("**/id_*", "id_rsa"), ("**/*é*.txt", "né.txt"), ("**/secret*/**", "secrets")),
        *(("vault/**", "vault"), ("plain/*", "plain/a"), ("**/É", "é")),
    ],
)
def test_a_mark_stands_in_every_path_that_is_denied(denied, name):
    pattern, path = PathPattern.parse(denied), f"/w/{name}"
    assert pattern.touches(path, Anchors.of("/w", "/home"))
    assert any(mark in f"{path}{END}" for mark in pattern.marks)


def test_a_pattern_for_very_many_files_is_judged_by_each_of_them(tmp_path):
    (tmp_path / "big").mkdir()
    for number in range(3000):
        (tmp_path / "big" / f"e{number}").touch()
    assert explain(tmp_path, "cat big/*").decision == "allow"
    (tmp_path / "big" / "id.pem").touch()
    assert explain(tmp_path, "cat big/*").decision == "deny"
    assert explain(tmp_path, "cat big/e*").decision == "allow"


def test_a_protected_file_is_protected_behind_a_pattern(workspace):
    (workspace / "AGENTS.md").touch()
    (workspace / ".git/hooks").mkdir(parents=True)
    (workspace / ".git/hooks/pre-commit").touch()
    for command, decision in (
        ("cp notes.md AGENTS.m[d]", "ask"),
        ("cp evil .gi?/hooks/pre-commit", "ask"),
        ("cp evil .g*/h*/*", "ask"),
        ("cp notes.md plain/*", "allow"),
    ):
        assert explain(workspace, command, allowed=("cp",)).decision == decision
