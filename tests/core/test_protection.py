"""Protected names are found in every spelling that leads to the same file, and in no others."""

import pytest
from hypothesis import given, strategies as st

from greenroom.core._internal import (
    PROTECTED_FILES,
    PROTECTED_FOLDERS,
    is_own_file,
    protected_names,
)

ROOT, HOME = "/work/project", "/home/me"


def found(path, root=ROOT, home=HOME):
    return ["/".join(names) for names in protected_names(path, root, home)]


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/work/project/.git/hooks/pre-commit", [".git"]),
        ("/work/project/.git", [".git"]),
        ("/work/project/vendor/lib/.git/hooks/post-checkout", [".git"]),
        ("/work/project/.GIT/config", [".git"]),
        ("/work/project/.gi\u200bt/config", [".git"]),
        ("/work/project/.g\u200c\ufeffit/config", [".git"]),
        ("/work/project/.greenroom/permissions.json", [".greenroom"]),
        ("/work/project/.claude/settings.json", [".claude"]),
        ("/work/project/.cursor/mcp.json", [".cursor"]),
        ("/work/project/.claude/.git/config", [".claude", ".git"]),
        ("/work/project/docs/agents.md", ["agents.md"]),
        ("/work/project/CLAUDE.md", ["claude.md"]),
        ("/work/project/.mcp.json", [".mcp.json"]),
        ("/work/project/.envrc", [".envrc"]),
        ("/work/project/web/.npmrc", [".npmrc"]),
        ("/work/project/.husky/pre-push", [".husky"]),
        ("/work/project/.pre-commit-config.yaml", [".pre-commit-config.yaml"]),
        ("/work/project/.vscode/tasks.json", [".vscode"]),
        ("/work/project/bare/HEAD", ["head"]),
        ("/home/me/.bashrc", [".bashrc"]),
        ("/home/me/.ssh/authorized_keys", [".ssh"]),
        ("/home/me/.config/fish/config.fish", [".config"]),
        ("/home/me/.local/bin/ls", [".local/bin"]),
        ("/home/me/Library/LaunchAgents/x.plist", ["library"]),
        ("/else/where/greenroom/permissions.json", ["greenroom/permissions.json"]),
        ("/etc/profile.d/x.sh", ["etc"]),
    ],
)
def test_what_makes_programs_run_is_protected(path, names):
    assert found(path) == names


@pytest.mark.parametrize(
    "path",
    [
        "/work/project/src/main.py",
        "/work/project/.gitignore",
        "/work/project/.github/workflows/ci.yml",
        "/work/project/.env",
        "/work/project/Makefile",
        "/work/project/package.json",
        "/work/project/hooks/pre-commit",
        "/work/project/src/git/config",
        "/work/project/src/agents.md.txt",
        "/work/project/bin/tool",
        "/work/project/etc/settings.toml",
        "/work/project/header/HEAD.h",
        "/work/project/AGENTS.md/part.txt",
        "/home/me/notes/bin/x",
        "/srv/data/permissions.json",
    ],
)
def test_an_agent_s_usual_work_is_not(path):
    assert found(path) == []


@pytest.mark.parametrize(
    ("path", "root", "names"),
    [
        ("/home/me/.config/nvim/init.lua", "/home/me/.config/nvim", []),
        ("/home/me/.claude/worktrees/a/src/x.py", "/home/me/.claude/worktrees/a", []),
        ("/home/me/.claude/worktrees/a/.git", "/home/me/.claude/worktrees/a", [".git"]),
        ("/home/me/.config/fish/config.fish", "/home/me", [".config"]),
        ("/etc/nixos/configuration.nix", "/etc/nixos", []),
        ("/etc/passwd", "/", ["etc"]),
    ],
)
def test_what_lies_above_the_workspace_does_not_count_in_it(path, root, names):
    assert found(path, root) == names


@given(st.randoms(use_true_random=True))
def test_no_spelling_of_a_name_leads_around_it(random):
    for name in sorted(PROTECTED_FILES | PROTECTED_FOLDERS):
        ways = ([ch, ch.upper(), ch + "\u200d", "\u2060" + ch] for ch in name)
        assert found(f"{ROOT}/a/{''.join(map(random.choice, ways))}")


def test_its_own_rules_are_told_from_other_protected_names():
    names = [
        "trusted.json",
        "settings.json",
        "mcp.json",
        "mcp-logins",
        "editor-servers.json",
        "tokens",
    ]
    own = ["/work/project/.greenroom/permissions.json", *(f"/x/greenroom/{name}" for name in names)]
    assert all(is_own_file(protected_names(path, ROOT, HOME)[0]) for path in own)
    others = ["/work/project/.git/config", "/home/me/.config/a"]
    assert not any(is_own_file(protected_names(path, ROOT, HOME)[0]) for path in others)
