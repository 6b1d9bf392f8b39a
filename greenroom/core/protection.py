"""Protected names: files that make programs run later, or change what an agent may do.

What a program does by itself when it starts, such as a shell, git or an editor, is decided by files
like these. Whoever may write one runs a program without being asked. Sources, build files and
workflows of a forge are not among them: to change those is an agent's work, and they run when
somebody builds, commits or publishes, which is asked about. Nothing here touches the disk.
"""

import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

from greenroom.core.text import without_hidden

Names: TypeAlias = tuple[str, ...]

CONFIGURATION_FOLDERS = frozenset({".git", ".greenroom", ".hg", ".svn", ".vscode", ".idea"})
"""Folders of a workspace that no command has to write; a sandbox keeps them also from being made."""

AGENT_FOLDERS = frozenset(
    {".agents", ".amazonq", ".augment", ".claude", ".cline", ".clinerules", ".codex", ".continue"}
    | {".crush", ".cursor", ".gemini", ".goose", ".junie", ".kiro", ".opencode", ".qwen", ".roo"}
    | {".trae", ".windsurf"}
)
"""Folders of other agents: their rules, tools, hooks and instructions."""

PROTECTED_FOLDERS = (
    CONFIGURATION_FOLDERS
    | AGENT_FOLDERS
    | frozenset(
        # version control: hooks, and settings that name programs
        {".jj", ".husky"}
        # editors: tasks and settings that name programs
        | {".zed", ".fleet", ".devcontainer", ".nvim", ".vim"}
        # package managers whose settings name programs
        | {".bundle", ".cargo", ".mise", ".mvn", ".yarn"}
        # keys, and settings that name programs which fetch keys
        | {".ssh", ".gnupg", ".aws", ".kube", ".docker"}
    )
)
"""Folders whose whole content is protected, wherever they lie; also as a file, as `.git` may be."""

PROTECTED_FILES = frozenset(
    # version control; HEAD makes a repository of any folder
    {".gitconfig", ".gitmodules", ".hgrc", "HEAD"}
    | {".pre-commit-config.yaml", ".pre-commit-config.yml", "lefthook.yml", ".lefthook.yml"}
    # agents
    | {"AGENTS.md", "AGENTS.override.md", "AGENT.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md"}
    | {"QWEN.md", ".cursorrules", ".windsurfrules", ".goosehints", ".roomodes", ".mcp.json"}
    | {
        ".claude.json",
        "opencode.json",
        "opencode.jsonc",
        ".aider.conf.yml",
        "copilot-instructions.md",
    }
    # shells and what starts with them
    | {".profile", ".login", ".logout", ".inputrc", ".envrc", ".direnvrc", ".pam_environment"}
    | {".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases"}
    | {".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc"}
    | {".xinitrc", ".xprofile", ".xsession", ".xsessionrc", ".tmux.conf", ".screenrc"}
    # editors, debuggers and interpreters that read a file where they start
    | {".vimrc", ".nvimrc", ".exrc", ".nvim.lua", ".emacs", ".dir-locals.el", ".gdbinit"}
    | {".lldbinit", ".pdbrc", ".pythonrc", ".irbrc", ".pryrc", ".Rprofile", ".psqlrc", ".sqliterc"}
    | {"sitecustomize.py", "usercustomize.py"}
    # package managers and fetchers
    | {".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", "bunfig.toml", ".pypirc", "pip.conf"}
    | {".bazelrc", ".terraformrc", ".mise.toml", "mise.toml"}
    | {".curlrc", ".wgetrc", ".netrc", ".ripgreprc"}
)
"""Files that are protected wherever they lie."""

_AT_HOME: tuple[Names, ...] = ((".config",), (".local", "bin"), ("bin",), ("library",))
_ABSOLUTE: tuple[Names, ...] = (("etc",), ("private", "etc"))
_OWN = frozenset({".greenroom", "permissions.json", "trusted.json"})
_OWN_FOLDER = "greenroom"
_FOLDED_FILES = frozenset(name.casefold() for name in PROTECTED_FILES)


@lru_cache(maxsize=4096)
def protected_names(path: str, root: str, home: str) -> tuple[Names, ...]:
    """Find the protected names in a path that may not exist; none means that it is not protected.

    Names are compared without case, composed, and without invisible characters, as some disks do.
    What lies above the workspace is not counted in it: a project may lie in `~/.config`.

    Args:
        path: an absolute path without `..`.
        root: the workspace.
        home: the home folder.

    Returns:
        For each protection the names that stand for it, as folded, in the path's order.

    Example:
        >>> protected_names("/w/sub/.git/hooks/pre-commit", "/w", "/home/me")
        (('.git',),)
        >>> protected_names("/w/.GIT\u200b/config", "/w", "/home/me")
        (('.git',),)
        >>> protected_names("/home/me/.config/fish/config.fish", "/w", "/home/me")
        (('.config',),)
        >>> protected_names("/w/src/hooks/a.py", "/w", "/home/me")
        ()
    """
    names, above = _folded(path), _folded(root)
    below = len(above) if names[: len(above)] == above else 0
    found = dict.fromkeys(each for end, each in _found(names, _folded(home)) if end > below)
    return tuple(found)


def own_rules(names: Names) -> bool:
    """Tell whether protected names stand for Greenroom's own rules, settings and sessions."""
    return names[-1] in _OWN


def _found(names: Names, home: Names) -> Iterator[tuple[int, Names]]:
    """Find every protection in a path, with the number of names up to its end."""
    for at, name in enumerate(names):
        is_last = at + 1 == len(names)
        if name in PROTECTED_FOLDERS or (is_last and name in _FOLDED_FILES):
            yield at + 1, (name,)
        elif is_last and name in _OWN and at and names[at - 1] == _OWN_FOLDER:
            yield at + 1, (_OWN_FOLDER, name)
    for start, protected in ((home, _AT_HOME), ((), _ABSOLUTE)):
        for each in protected:
            whole = (*start, *each)
            if names[: len(whole)] == whole:
                yield len(whole), each


@lru_cache(maxsize=1024)
def _folded(path: str) -> Names:
    folded = unicodedata.normalize("NFC", without_hidden(path)).casefold()
    return tuple(name for name in folded.split("/") if name not in ("", "."))
