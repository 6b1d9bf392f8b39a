"""Patterns of the shell's and of programs, where the files that they stand for are there."""

import subprocess

import pytest

from greenroom.core import AgentContext, ReadPath, Workspace
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.permissions.patterns import END, Anchors, PathPattern
from greenroom.shell import file_lookup
from greenroom.shell.file_lookup import FileLookup
from greenroom.shell.name_patterns import loosen

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


def explain(root, command, denied=DENIED, **options):
    rules = [PermissionRule.allow_command(*PROGRAMS), PermissionRule.deny_path(*denied, **options)]
    context = AgentContext(session_id="s", agent_type="a", workspace=Workspace(str(root)))
    return PermissionManager(rules).explain("Bash", {"command": command}, context)


@pytest.mark.parametrize(
    "command",
    [
        *("cat *", "cat *.txt", "ls *", "grep -n x *", "wc -l ./*", "cat s*", "cat S*.TXT"),
        *("cat */own.key", "cat */o*", "cat */*", "cat [r-t]*", "cat [[:alpha:]]ecrets.txt"),
        *("cat li*", "cat l?nk", "cat link*/a", "cat l*/b/*", "cat ../*/secrets.txt", "cat .*"),
        *('for f in *; do cat "$f"; done', "cat < s*", "cat $HOME/x *", "cd keys && cat *"),
        *("cd keys; cat o*", "cat {s,n}*"),
        *("cat cert?/a.*", "ls -d */", "cat certs/a.p*", "cat '.e*' \\.e*", "cat keys/o'w'*"),
    ],
)
def test_a_pattern_that_stands_for_a_denied_file_is_denied(workspace, command):
    assert explain(workspace, command).decision == "deny"


@pytest.mark.parametrize(
    "command",
    [
        *("cat *.md", "cat n*", "cat w*", "cat plain/*", "ls p*/", "cat */a.txt", "cat plain/*.p*"),
        *(
            "ls [!a-z]*",
            "cat keys/*.txt",
            "cat conf/*",
            "cat nothing*",
            "cat '*' '.e*'",
            "ls -d p*/",
        ),
        *('for f in plain/*; do cat "$f"; done', "grep -n x plain/*.txt", "wc -l */*.md"),
    ],
)
def test_a_pattern_that_stands_for_other_files_alone_is_allowed(workspace, command):
    found = explain(workspace, command)
    assert found.decision == "allow", found.reason


def test_a_pattern_is_judged_in_each_folder_that_it_may_be_in(workspace):
    assert explain(workspace, "cd plain; cat *").decision == "deny"  # the change may fail
    assert explain(workspace, "cd plain; cat a*").decision == "allow"


def test_where_a_folder_cant_be_looked_at_a_pattern_is_asked_about(workspace):
    for command in ("cat none/s*", "cat none/*.txt", "cat /srv/none/*"):
        denied = ("none/secrets.txt", "/srv/none/secrets.txt")
        assert explain(workspace, command, denied).decision == "ask"
    assert explain(workspace, "cd $X && cat *", ("**/x.txt",)).decision == "ask"
    assert explain(workspace, "cat plain/**", ("**/x.txt",)).decision == "ask"  # with globstar


def test_a_pattern_that_may_be_any_of_too_many_is_asked_about(workspace, monkeypatch):
    monkeypatch.setattr(file_lookup, "MAX_LOOKUPS", 15)
    assert explain(workspace, "cat *", ("none.txt",)).decision == "ask"
    assert explain(workspace, "cat *.md", ("none.txt",)).decision == "ask"  # one may be a link
    monkeypatch.setattr(file_lookup, "MAX_LOOKUPS", 40)
    assert explain(workspace, "cat *.md", ("none.txt",)).decision == "allow"
    assert explain(workspace, "cat */a */b *", ("none.txt",)).decision == "ask"


def test_names_are_compared_a_bounded_number_of_times(workspace):
    looked = FileLookup()
    assert all(looked.find_matches(f"{workspace}/*a{n}*")[1] for n in range(500))
    assert not looked.is_exhausted
    assert not all(looked.find_matches(f"{workspace}/*a{n}*")[1] for n in range(6_000))
    assert looked.is_exhausted


def test_each_folder_is_listed_once_in_a_check(workspace):
    looked = FileLookup()
    before = looked.find_matches(f"{workspace}/plain/*")
    (workspace / "plain/b.txt").write_text("")
    assert looked.find_matches(f"{workspace}/plain/*") == before
    assert len(FileLookup().find_matches(f"{workspace}/plain/*")[0]) == 2


@pytest.mark.parametrize(
    "pattern",
    ["*", "*.txt", ".*", "*/*", "*/a*", "[r-t]*", "?ink", "l*/*", "*/", ".?nv", "co*/.e*"],
)
def test_what_a_pattern_stands_for_is_what_bash_makes_of_it(workspace, pattern):
    script = f"shopt -s nullglob; printf '%s\\n' {pattern}"
    run = subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", script],
        cwd=workspace,
        env={"LANG": "C", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    expected = {name.rstrip("/") for name in run.stdout.split()} - {".", ".."}
    found, sure = FileLookup().find_matches(f"{workspace}/{pattern}")
    assert {path.removeprefix(f"{workspace}/") for path in found} == expected
    assert sure


def test_the_model_is_told_which_pattern_and_what_to_do(workspace):
    found = explain(workspace, "ls && cat .e*", id="no-env")
    advice = "(.e* may stand for it: name the files that are meant)"
    assert found.message == f"the rule 'no-env' denies this {advice}"
    found = explain(workspace, "cat .e*", message="Secrets are not read.")
    assert found.message == f"Secrets are not read. {advice}"
    assert explain(workspace, "cat .env", message="Secrets are not read.").message == (
        "Secrets are not read."
    )


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("grep -r x --exclude=.env .", "allow"),
        ("grep -r x --exclude .md .env", "deny"),
        ("grep -r x --exclude=.env .env", "deny"),
        ("ls --ignore=.env --hide=vault", "allow"),
        ("git diff -- ????", "deny"),  # which fits no file, so that git looks for it
        ("git diff -- ':(top).env'", "ask"),
        ("git diff -- ':(top)vault/exclude'", "ask"),
        ("git add . ':(exclude).env'", "allow"),
    ],
)
def test_what_is_left_out_is_not_read(workspace, command, expected):
    found = explain(workspace, command)
    assert found.decision == expected, found.reason


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


def test_sets_that_cant_be_told_are_taken_for_anything():
    assert loosen("a[b]c", quoted=False) == "a[b]c"
    assert loosen("a[b]c/[d", quoted=True) == "a*c/[d"
    assert loosen("[[:alpha:]]/a[[=x=]b]", quoted=False) == "*/a*"
    assert ReadPath.from_pattern("src", "*.py") == ReadPath("src", "*.py")


def test_a_quoted_set_stands_for_what_is_in_it(workspace):
    assert explain(workspace, "cat se[a'-'z]cret", ("se-cret",)).decision == "deny"
    assert explain(workspace, "cat < se[a'-'z]cret", ("se-cret",)).decision == "deny"
    assert explain(workspace, "echo x > se[-a]cret", ("se-cret",)).decision == "deny"
    assert explain(workspace, "echo x > no[-a]te*", ("se-cret",)).decision == "ask"


@pytest.mark.parametrize(
    ("command", "decision"),
    [
        ("cat out[w]ard/../vault/a", "deny"),
        ("cat outward/b*/../vault/a", "ask"),
        ("shopt -s dotglob; cat conf/*", "ask"),
        ("shopt -s $X; cat conf/*", "ask"),
        ("shopt -s nullglob; cat conf/*", "ask"),
        ("bash -O dotglob -c 'cat conf/*'", "ask"),
    ],
)
def test_what_a_pattern_stands_for_by_a_link_or_a_setting_is_asked_about(
    workspace, tmp_path_factory, command, decision
):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "below").mkdir()
    (workspace / "outward").symlink_to(outside)
    rules = [
        PermissionRule.allow_command("cat", "shopt", "bash"),
        PermissionRule.deny_path("vault/**", "**/*.env"),
    ]
    context = AgentContext(session_id="s", agent_type="a", workspace=Workspace(str(workspace)))
    found = PermissionManager(rules).explain("Bash", {"command": command}, context)
    assert found.decision == decision


@pytest.mark.parametrize(
    ("denied", "name"),
    [
        ("**/id_*", "id_rsa"),
        ("**/*é*.txt", "né.txt"),
        ("**/secret*/**", "secrets"),
        ("vault/**", "vault"),
        ("plain/*", "plain/a"),
        ("**/É", "é"),
    ],
)
def test_a_mark_stands_in_every_path_that_is_denied(denied, name):
    pattern, path = PathPattern.parse(denied), f"/w/{name}"
    assert pattern.touches(path, Anchors.of("/w", "/home"))
    assert any(mark in f"{path}{END}" for mark in pattern.marks)


def test_a_pattern_for_very_many_files_is_judged_by_each_of_them(tmp_path):
    (tmp_path / "big").mkdir()
    for number in range(3000):
        (tmp_path / "big" / f"é{number}").touch()
    assert explain(tmp_path, "cat big/*").decision == "allow"
    (tmp_path / "big" / "id.pem").touch()
    assert explain(tmp_path, "cat big/*").decision == "deny"
    assert explain(tmp_path, "cat big/é*").decision == "allow"


def test_no_length_hides_what_a_pattern_stands_for(workspace):
    for command in (f"cat .[{'e' * 5000}]nv", f"cat < .[{'e' * 5000}]nv"):
        assert explain(workspace, command).decision == "deny"
    assert explain(workspace, f"cat {'*' * 5000}env").decision == "ask"


def test_more_patterns_than_are_looked_at_are_asked_about_once(workspace):
    few = " ".join(f"*.a{number}" for number in range(256))
    assert explain(workspace, f"ls {few}").decision == "allow"
    found = explain(workspace, f"ls {few} {few} *.a256 .e*")
    assert (found.decision, len(found.parts)) == ("ask", 2)


def test_a_pattern_for_any_depth_may_stand_for_what_it_could_name_there(workspace):
    assert explain(workspace, "cat **", (".env",)).decision == "deny"  # through a link
    for denied, expected in (("**/.env", "allow"), ("a/b/x.py", "ask"), ("src/x.py", "allow")):
        assert explain(workspace, "ls plain/** a/**/*.py", (denied,)).decision == expected
    for denied, expected in (("**/.env", "allow"), ("src/a/x.py", "allow"), ("src/**", "deny")):
        rules = [PermissionRule.allow_tool("Glob"), PermissionRule.deny_path(denied)]
        context = AgentContext(session_id="s", agent_type="a", workspace=Workspace(str(workspace)))
        found = PermissionManager(rules).check("Glob", {"pattern": "src/**"}, context)
        assert found == expected


def test_a_protected_file_is_protected_behind_a_pattern(workspace):
    (workspace / "AGENTS.md").touch()
    context = AgentContext(session_id="s", agent_type="a", workspace=Workspace(str(workspace)))
    manager = PermissionManager([PermissionRule.allow_command("cp")])
    assert manager.check("Bash", {"command": "cp notes.md AGENTS.m[d]"}, context) == "ask"
    assert manager.check("Bash", {"command": "cp notes.md plain/*"}, context) == "allow"
