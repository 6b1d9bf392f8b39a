"""What a tool call would do, which files are protected, and what was decided about the call.

Effects are stated as facts before the call runs; rules and people decide on them.
"""

import posixpath
import re
import unicodedata
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from greenroom.core.serde import Wire
from greenroom.core.untrusted import without_hidden

if TYPE_CHECKING:
    from greenroom.core.context import AgentContext


Remember: TypeAlias = Literal["session", "project", "always"]
"""How long an answer is remembered: this session, this project, everywhere."""


class RuleDecision(StrEnum):
    """What the rules say to a call."""

    ALLOW = "allow"
    DENY = "deny"
    ASK = "ask"


class PermissionPart(Wire, frozen=True):
    """The verdict on one part of a call, such as one simple command or one written path.

    Attributes:
        text: the part, for people, with nothing hidden.
        decision: what the rules say to this part.
        reason: why, in words; names the rule where one decided.
        rule_id: the id of the rule that decided, or empty.
        source: where that rule comes from, such as a file, or empty.
    """

    text: str
    decision: RuleDecision
    reason: str
    rule_id: str = ""
    source: str = ""


class PermissionEffects(Wire, frozen=True):
    """What a call would do beyond the workspace and beyond itself, as far as it can be told.

    Attributes:
        reads: files outside the workspace that are read.
        writes: files outside the workspace that are written.
        names: files outside the workspace that words of a command name; it may read or write them.
        hosts: hosts that are contacted, or named by an address in a command.
        changes: variables that are set, functions that are defined.
        privileges: commands that run something with other rights, such as sudo.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    privileges: tuple[str, ...] = ()


DECIDED_BY_ITSELF = frozenset(
    {"rules", "recheck", "time-out", "shutdown", "withdrawn", "unattended"}
)
"""What `Answer.by` says where no person answered; a person can't answer by such a name."""


class Answer(Wire, frozen=True):
    """The answer to a permission request.

    Attributes:
        decision: allow or deny.
        remember: whether, and for how long, the answer becomes a rule.
        message: what the person said to the model, or why it was denied.
        by: who answered: "user", or the runtime's reason such as "time-out".
        input: the call's input as the person edited it, or None; it is judged again.
    """

    decision: RuleDecision
    remember: Remember | None = None
    message: str = ""
    by: str = "user"
    input: dict[str, object] | None = None

    @property
    def allowed(self) -> bool:
        """Whether the call may run."""
        return self.decision is RuleDecision.ALLOW


class PermissionRecord(Wire, frozen=True):
    """What was decided about one tool call, as a session keeps it.

    Attributes:
        tool_use_id: the call.
        tool_name: the tool.
        at: when it was decided.
        decision: allow or deny: what came of it.
        by: who decided: "rules" (a rule, the mode, or that there is no rule); "user", or the name
            under which someone answered; "time-out", "unattended" or "shutdown" where nobody did;
            "withdrawn" where the turn ended first; "recheck" where it had changed since.
        asked: whether the rules left it to a person.
        reason: why the rules allowed it, denied it, or asked.
        rule_id: the rule that decided or asked, or empty.
        digest: binds it to tool, input, folder, words and resolved paths.
        parts: the verdict on each part of the call.
        left_out: how many more parts there were.
        mode: the permission mode that held.
        sandbox: what the call is held to, and what of that is not held here, in words; empty
            without.
        remember: how long the answer was to be remembered, or None.
        rules: the rules that were made of the answer, in words.
        edited: whether a person changed the input; the digest is then of what they wrote.
        message: what the person said to the model, or why nobody could.
    """

    tool_use_id: str
    tool_name: str
    at: datetime
    decision: RuleDecision
    by: str = "rules"
    asked: bool = False
    reason: str = ""
    rule_id: str = ""
    digest: str = ""
    parts: tuple[PermissionPart, ...] = ()
    left_out: int = 0
    mode: str = "default"
    sandbox: str = ""
    remember: Remember | None = None
    rules: tuple[str, ...] = ()
    edited: bool = False
    message: str = ""


# ---- Effects: what a tool call would do to the world, stated as facts before it runs.

_WILD = re.compile(r"[*?\[{]")


class Execute(Wire, frozen=True, tag="execute"):
    """Runs one program with exactly these words.

    Attributes:
        argv: the program and its words; none of them is read by a shell.
        cwd: the folder that it runs in; relative to the agent's working directory.
        environment: variables that are set for it, beyond those it has anyway: names and values.
    """

    argv: tuple[str, ...]
    cwd: str = ""
    environment: tuple[tuple[str, str], ...] = ()


class ShellCommand(Wire, frozen=True, tag="shell"):
    """Gives this text to a shell; it takes a parser to say what that executes."""

    command: str
    cwd: str = ""


class ReadPath(Wire, frozen=True, tag="read"):
    """Reads this file, or what lies in this folder; relative to the agent's working directory.

    Attributes:
        path: the file or the folder.
        pattern: which files in the folder, as in `**/*.py`; all of them if it is empty.
    """

    path: str
    pattern: str = ""

    @classmethod
    def matching(cls, folder: str, pattern: str) -> Self:
        """State that files in a folder are read whose paths match a pattern.

        Example:
            >>> found = ReadPath.matching("src", "tests/**/*.py")
            >>> found.path, found.pattern
            ('src/tests', '**/*.py')
        """
        names = list(takewhile(lambda name: not _WILD.search(name), pattern.split("/")))
        written = "/".join(names) or ("/" if pattern.startswith("/") else "")
        rest = "/".join(pattern.split("/")[len(names) :])
        if not written:
            return cls(folder, rest)
        return cls(posixpath.join("" if folder == "." else folder, written), rest)


class WritePath(Wire, frozen=True, tag="write"):
    """Creates, changes or removes this file; relative to the agent's working directory."""

    path: str


class Contact(Wire, frozen=True, tag="contact"):
    """Contacts the host of this URL."""

    url: str


class Opaque(Wire, frozen=True, tag="opaque"):
    """Does something that can't be told beforehand; the reason says why."""

    reason: str


Effect: TypeAlias = Execute | ShellCommand | ReadPath | WritePath | Contact | Opaque
"""Any effect."""


def usual_effects(
    tool: str, arguments: Mapping[str, object], context: "AgentContext"
) -> tuple[Effect, ...]:
    """State what a call of a built-in tool would do; nothing for other names.

    The tools state it, and so do permission rules where they are given only a tool's name. An input
    that the tool would not take is `Opaque`; it is never an error.

    Example:
        >>> from greenroom.core import AgentContext
        >>> context = AgentContext(session_id="s-1", agent_type="coder")
        >>> usual_effects("Write", {"file_path": "a.py"}, context)
        (WritePath(path='a.py'),)
    """

    def text(key: str, default: str | None = None) -> str:
        value = arguments.get(key)
        value = default if value is None else value
        if not isinstance(value, str) or (not value and value != default):
            raise ValueError(f"the input has no text under {key!r}")
        return value

    def path(key: str, default: str | None = None) -> str:
        value = text(key, default)
        if value.startswith("~"):
            context.workspace.absolute(value)  # which may be a home that can't be found
        return value

    try:
        match tool:
            case "Read":
                return (ReadPath(path("file_path")),)
            case "Write" | "Edit":
                return (WritePath(path("file_path")),)
            case "Glob" | "Grep":
                pattern = text("pattern" if tool == "Glob" else "glob", "")
                return (ReadPath.matching(path("path", "."), pattern),)
            case "Bash":
                return (ShellCommand(text("command")),)
            case "WebFetch":
                return (Contact(text("url")),)
            case _:
                return ()
    except (ValueError, RuntimeError) as error:
        return (Opaque(str(error)),)


# ---- Protected names: files that make programs run later, or change what an agent may do.
#
# What a program does by itself when it starts, such as a shell, git or an editor, is decided by
# files like these. Anyone who may write one runs a program without being asked. Sources, build
# files and workflows of a forge are not among them: to change those is an agent's work, and they
# run when someone builds, commits or publishes, which is asked about. Nothing here touches the
# disk.

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
    names, above = _fold(path), _fold(root)
    below = len(above) if names[: len(above)] == above else 0
    found = dict.fromkeys(
        each for end, each in _find_protections(names, _fold(home)) if end > below
    )
    return tuple(found)


def own_rules(names: Names) -> bool:
    """Tell whether protected names stand for Greenroom's own rules, settings and sessions."""
    return names[-1] in _OWN


def _find_protections(names: Names, home: Names) -> Iterator[tuple[int, Names]]:
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
def _fold(path: str) -> Names:
    folded = unicodedata.normalize("NFC", without_hidden(path)).casefold()
    return tuple(name for name in folded.split("/") if name not in ("", "."))
