"""Git that only reads runs what a repository's own files name; then it is asked about."""

import os
import shlex
import subprocess

import pytest

from greenroom.core import AgentContext, RuleDecision, Workspace
from greenroom.permissions import PermissionManager
from greenroom.permissions.modes import MAX_CONFIG, describe_git_risk

MARKER = "#!/bin/sh\necho > {}/ran\ncat\n"


def decide(command, folder):
    context = AgentContext(session_id="s", agent_type="a", workspace=Workspace(folder))
    return PermissionManager().check("Bash", {"command": command}, context)


def shell(folder, text):
    """Run commands without the user's own configuration."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        **dict.fromkeys(("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"), "/dev/null"),
        **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "a"),
        **dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "a@b.test"),
        "GIT_ALLOW_PROTOCOL": "file",
    }
    subprocess.run(
        ["bash", "-c", text], cwd=folder, env=environment, capture_output=True, check=False
    )


@pytest.fixture
def root(tmp_path, monkeypatch):
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "marker").write_text(MARKER.format(shlex.quote(str(tmp_path))))
    (tmp_path / "marker").chmod(0o755)
    shell(
        folder,
        "git init -q; echo a > f; echo '* diff=d filter=x' > .gitattributes; git add .;"
        "git commit -qm m; echo b > f; sleep 0",
    )
    return folder


# How a program comes into the repository, where M names it, and the command that runs it.
RUN = [
    ("git config core.fsmonitor M", "git status"),
    ("printf '[core]fsmonitor=M' >> .git/config", "git status"),
    ("printf '[CORE]\\n\\tFsMonitor = \"M\"\\n' >> .git/config", "git status"),
    ("printf '[core] # x\\n  fsmonitor = \\\\\\n  M\\n' >> .git/config", "git ls-files -m"),
    ("printf '[core]\\r\\nfsmonitor=M\\r\\n' >> .git/config", "git status"),
    ("printf '[core]\\n x = \"a\\\\\\n[b]\"\\n fsmonitor = M\\n' >> .git/config", "git status"),
    ("git config diff.external M", "git diff"),
    ("git config diff.d.command M", "git diff"),
    ("git config diff.d.textconv M", "git diff"),
    ("git config diff.d.textconv M", "git log -p"),
    ("git config diff.d.textconv M", "git show"),
    ("git config diff.d.textconv M", "git blame f"),
    ("git config diff.d.textconv M", "git grep --textconv a"),
    ("printf '[diff.d]\\ntextconv = M' >> .git/config", "git diff"),
    ("git config filter.x.clean M", "git diff"),
    ("git config filter.x.clean M; touch -d 2000-01-01 f", "git status"),
    ("git config filter.x.process M", "git diff"),
    ("git config filter.x.smudge M", "git cat-file --filters HEAD:f"),
    ("printf '[core]\\nfsmonitor = M' > x; git config include.path ../x", "git status"),
    (
        "printf '[core]\\nfsmonitor = M' > x; git config includeIf.gitdir:/.path $PWD/x",
        "git status",
    ),
    (
        "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor M",
        "git status",
    ),
    ("mkdir -p .git/hooks; cp M .git/hooks/post-index-change; touch f", "git status"),
    (
        "mkdir -p h; cp M h/post-index-change; git config core.hooksPath h; touch f",
        "git status",
    ),
    ("mv .git g; echo 'gitdir: g' > .git; git --git-dir=g config core.fsmonitor M", "git status"),
    ("git worktree add -q w; git config core.fsmonitor M", "git -C w status"),
    (
        "mkdir b; cd b; git init -q --bare; git config core.bare false;"
        "git config core.worktree ..; git config core.fsmonitor M",
        "cd b && git status",
    ),
    (
        "git init -q s; cd s; git commit -qm m --allow-empty; cd ..; git add s;"
        "git -C s config core.fsmonitor M",
        "git status",
    ),
    ("git init -q n; git -C n config core.fsmonitor M", "git -C n status"),
    ("git config log.showSignature true; git config gpg.program M", "git log"),
    ("git config gpg.program M", "git log --show-signature"),
    ("git config format.pretty %G?; git config gpg.program M", "git log"),
]


@pytest.mark.parametrize(("setup", "command"), RUN)
def test_what_the_repository_names_and_git_runs_is_asked_about(setup, command, root):
    assert decide("git log", root) is RuleDecision.ALLOW
    shell(root, setup.replace("M", str(root.parent / "marker")))
    assert decide(command, root) is RuleDecision.ASK


def test_most_of_these_do_run_with_the_git_of_this_machine(tmp_path_factory, monkeypatch):
    ran = 0
    for setup, command in RUN:
        folder = root.__wrapped__(tmp_path_factory.mktemp("repository"), monkeypatch)
        shell(folder, setup.replace("M", str(folder.parent / "marker")))
        (folder.parent / "ran").unlink(missing_ok=True)
        shell(folder, command)
        ran += (folder.parent / "ran").exists()
    assert ran > len(RUN) / 2


NAMED = (
    "core.pager core.editor core.sshCommand core.askPass core.gitProxy core.alternateRefsCommand"
    " core.worktree pager.log interactive.diffFilter gpg.ssh.program sequence.editor"
    " merge.x.driver mergetool.x.cmd difftool.x.cmd remote.o.promisor remote.o.uploadpack"
    " extensions.partialClone extensions.objectFormat trailer.x.command submodule.x.update"
    " lfs.extension.x.clean pretty.x uploadpack.packObjectsHook never.heard.of"
)


@pytest.mark.parametrize("key", NAMED.split())
def test_a_key_that_names_a_program_or_is_unknown_is_asked_about(key, root):
    with (root / ".git/config").open("a") as config:
        section, name = key.rsplit(".", 1)
        first, _, rest = section.partition(".")
        config.write(f'[{first} "{rest}"]\n{name} = x\n' if rest else f"[{first}]\n{name} = x\n")
    assert decide("git diff", root) is RuleDecision.ASK


HARMLESS = """\
; what repositories usually hold
[core]
    repositoryformatversion = 0 # first
    filemode = true
    fsmonitor = false
[remote "origin"]
    url = "git@x.test:a/b#c.git"
    fetch = +refs/heads/*:refs/remotes/origin/*
[branch "a.b\\"c"] remote = origin
[user]
    name = A
[alias]
    st = !rm -rf x
    flag
[submodule "x"]
    active = true
[diff "d"]
    xfuncname = "^(.*)$"
[pull]
    rebase"""


def test_what_names_no_program_does_not_matter(root):
    (root / ".git/config").write_text(HARMLESS)
    assert describe_git_risk(str(root.resolve())) == ""
    assert decide("git status && git log -3", root) is RuleDecision.ALLOW


@pytest.mark.parametrize(
    "text", ["[core", "[core]\nx", "x y", "[a]\n1=2", '[a]\nx = "', "[a]\nx = \\q", "[a]\nx = \0"]
)
def test_what_is_not_understood_is_asked_about(text, root):
    with (root / ".git/config").open("a") as config:
        config.write(f"\n{text}" if text != "[core]\nx" else "\n[core]\nx = \\\n\\")
    assert decide("git diff", root) is RuleDecision.ASK


def test_odd_files_are_asked_about_and_hold_nothing_up(root):
    config = root / ".git/config"
    config.write_text("#" * (MAX_CONFIG + 1))
    assert "too large" in describe_git_risk(str(root))
    config.unlink()
    os.mkfifo(config)
    assert "regular" in describe_git_risk(str(root))
    config.unlink()
    config.mkdir()
    assert describe_git_risk(str(root)) != ""


def test_a_change_of_the_configuration_is_seen(root):
    config = root / ".git/config"
    assert decide("git diff", root) is RuleDecision.ALLOW
    before = config.stat()
    config.write_text(config.read_text().replace("filemode", "gitproxy"))
    os.utime(config, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert decide("git diff", root) is RuleDecision.ASK


def test_a_configuration_that_shows_the_size_and_time_of_an_earlier_one_is_read_again(root):
    config = root / ".git/config"
    text, before = config.read_text(), config.stat()
    assert decide("git diff", root) is RuleDecision.ALLOW
    config.write_text(text.replace("filemode", "gitproxy"))
    os.utime(config, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert decide("git diff", root) is RuleDecision.ASK
