"""Permissions of tool calls: their effects, the decision about them, and protected files.

A tool states the effects of a call as facts before it runs; rules and people decide on them.
"""

import posixpath
import unicodedata
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from itertools import takewhile
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from msgspec.structs import force_setattr

from greenroom.core.frozen import freeze_fields
from greenroom.core.late_pattern import compile_later
from greenroom.core.message import utc_now
from greenroom.core.serde import Wire
from greenroom.core.short_cache import cache_short
from greenroom.core.visibility import exact, without_hidden

if TYPE_CHECKING:
    from greenroom.core.context import AgentContext


Remember: TypeAlias = Literal["session", "project", "always"]
"""How long an answer is remembered: this session, this project, everywhere."""


class RuleDecision(StrEnum):
    """The decision of the rules about a call."""

    ALLOW = "allow"
    DENY = "deny"
    ASK = "ask"

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise ValueError(f"{value!r} is not a decision: write 'allow', 'deny' or 'ask'")


class PermissionPart(Wire, frozen=True):
    """The verdict on one part of a call, such as one simple command or one written path.

    Attributes:
        text: the part, for people, with nothing hidden.
        decision: the decision about this part.
        reason: why, in words, with the rule that decided, if any.
        rule_id: the id of that rule, or empty.
        source: where that rule comes from, such as a file, or empty.
    """

    text: str
    decision: RuleDecision
    reason: str
    rule_id: str = ""
    source: str = ""


class PermissionEffects(Wire, frozen=True):
    """What a call would do outside the workspace, as far as is known.

    Attributes:
        reads: files outside the workspace that it reads.
        writes: files outside the workspace that it writes.
        names: files outside the workspace that a command mentions; it may read or write them.
        hosts: hosts that it contacts, or that an address in a command names.
        changes: variables that it sets, functions that it defines.
        privileges: commands that run something with other rights, such as sudo.
        unchecked: programs that may read more files than are known, which the digest leaves out.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    privileges: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()


def describe_effects(effects: PermissionEffects) -> Iterator[str]:
    """Describe the effects outside the workspace to the person who is asked, a line for each kind.

    Example:
        >>> [*describe_effects(PermissionEffects(hosts=("example.com",)))]
        ['contacts: example.com']
    """
    for what, found in (
        ("runs with other rights", effects.privileges),
        ("writes outside the workspace", effects.writes),
        ("reads outside the workspace", effects.reads),
        ("names files outside the workspace", effects.names),
        ("contacts", effects.hosts),
        ("besides", effects.changes),
    ):
        if found:
            yield f"{what}: {', '.join(exact(each) for each in found)}"


AUTOMATIC_DECIDERS = frozenset(
    {"rules", "gate", "recheck", "time-out", "shutdown", "withdrawn", "unattended"}
)
"""Values of `Answer.by` if no person answered; no person can answer under such a name."""


class Answer(Wire, frozen=True):
    """The answer to a permission request.

    Attributes:
        decision: allow or deny.
        remember: whether, and for how long, the answer becomes a rule.
        message: the person's words to the model, or the reason for a denial.
        by: who answered: "user", or the runtime's reason such as "time-out".
        input: the call's input as the person edited it, or None; it is judged again.
        prefix: whether the rule of a remembered allow names just the first words of a command, if
            the request offers that in `prefixes`.
    """

    decision: RuleDecision
    remember: Remember | None = None
    message: str = ""
    by: str = "user"
    input: dict[str, object] | None = None
    prefix: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.decision, RuleDecision):  # `allowed` would be false for "allow"
            force_setattr(self, "decision", RuleDecision(self.decision))
        freeze_fields(self, "input")

    @property
    def allowed(self) -> bool:
        """Whether the call may run."""
        return self.decision is RuleDecision.ALLOW


class PermissionRecord(Wire, frozen=True):
    """The decision about one tool call, as a session keeps it.

    Attributes:
        tool_use_id: the call.
        tool_name: the tool.
        at: when it was decided.
        decision: the outcome: allow or deny.
        by: who decided: "rules" (a rule, the mode, or the lack of a rule); "user", or the name of
            the person who answered; "time-out", "unattended" or "shutdown" without an answer;
            "withdrawn" if the turn ended first; "recheck" if the call had changed since; "gate" if
            a `Gate` refused it.
        asked: whether the rules left it to a person.
        reason: why the rules allowed it, denied it, or asked.
        rule_id: the rule that decided or asked, or empty.
        digest: binds it to tool, input, folder, words and resolved paths.
        parts: the verdict on each part of the call.
        left_out: how many more parts there were.
        mode: the permission mode at that time.
        sandbox: the sandbox of the call and what is not enforced here, in words; empty without one.
        remember: how long the answer was to be remembered, or None.
        rules: the rules made of the answer, in words.
        edited: whether a person changed the input; the digest then covers the changed input.
        message: the person's words to the model, or why nobody answered.
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

    @classmethod
    def by_gate(
        cls, tool_use_id: str, tool_name: str, reason: str, rule_id: str = "", digest: str = ""
    ) -> "PermissionRecord":
        """Record that a `Gate` refuses a call, at this moment."""
        now, deny = utc_now(), RuleDecision.DENY
        return cls(tool_use_id, tool_name, now, deny, "gate", False, reason, rule_id, digest)


_WILD = compile_later(r"[*?\[{]")


class Execute(Wire, frozen=True, tag="execute"):
    """Runs one program with exactly these arguments.

    Attributes:
        argv: the program and its arguments; no shell reads them.
        cwd: the folder that it runs in; relative to the agent's working directory.
        environment: variables that are set for it in addition: names and values.
    """

    argv: tuple[str, ...]
    cwd: str = ""
    environment: tuple[tuple[str, str], ...] = ()


class ShellCommand(Wire, frozen=True, tag="shell"):
    """Gives this text to bash; only a parser can say what it executes.

    A tool whose calls rules may allow by their commands runs `AgentContext.command`, and says so by
    its attribute `runs_context_command`.

    Attributes:
        command: the text.
        cwd: the folder that it starts in; empty for the agent's working directory.
        environment: variables that are set on top of those of this process.
    """

    command: str
    cwd: str = ""
    environment: tuple[tuple[str, str], ...] = ()


class ReadPath(Wire, frozen=True, tag="read"):
    """Reads this file, or files in this folder; relative to the agent's working directory.

    Attributes:
        path: the file or the folder.
        pattern: which files in the folder, as in `**/*.py`; empty for all.
    """

    path: str
    pattern: str = ""

    @classmethod
    def from_pattern(cls, folder: str, pattern: str) -> Self:
        """State that the files in a folder whose paths match a pattern are read.

        Example:
            >>> effect = ReadPath.from_pattern("src", "tests/**/*.py")
            >>> effect.path, effect.pattern
            ('src/tests', '**/*.py')
        """
        names = list(takewhile(lambda name: not _WILD.search(name), pattern.split("/")))
        literal = "/".join(names) or ("/" if pattern.startswith("/") else "")
        rest = "/".join(pattern.split("/")[len(names) :])
        if not literal:
            return cls(folder, rest)
        return cls(posixpath.join("" if folder == "." else folder, literal), rest)


class WritePath(Wire, frozen=True, tag="write"):
    """Creates, changes or removes this file; relative to the agent's working directory."""

    path: str


class Contact(Wire, frozen=True, tag="contact"):
    """Contacts the host of this URL."""

    url: str


class Opaque(Wire, frozen=True, tag="opaque"):
    """Does something that can't be known beforehand; the reason says why."""

    reason: str


Effect: TypeAlias = Execute | ShellCommand | ReadPath | WritePath | Contact | Opaque
"""Any effect."""


def usual_effects(
    tool: str, arguments: Mapping[str, object], context: "AgentContext"
) -> tuple[Effect, ...]:
    """State what a call of a built-in tool would do; empty for other names.

    The tools use it, and so do permission rules that know only a tool's name. An input that the
    tool would refuse is `Opaque`, never an error.

    Example:
        >>> from greenroom.core.context import AgentContext
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
            context.workspace.absolute(value)  # raises if there is no such home
        return value

    try:
        match tool:
            case "Read":
                return (ReadPath(path("file_path")),)
            case "Write" | "Edit":
                return (WritePath(path("file_path")),)
            case "Glob" | "Grep":
                pattern = text("pattern" if tool == "Glob" else "glob", "")
                return (ReadPath.from_pattern(path("path", "."), pattern),)
            case "Bash":
                return (ShellCommand(text("command")),)
            case "WebFetch":
                return (Contact(text("url")),)
            case _:
                return ()
    except (ValueError, RuntimeError) as error:
        return (Opaque(str(error)),)


# Protected names: files that make programs run later, or change what an agent may do.
#
# Files like these decide what a shell, git or an editor does when it starts, so whoever may write
# one can run a program without permission. Sources, build files and workflows of a forge are not
# among them: to change those is an agent's work, and they run at a build, a commit or a release,
# which needs permission itself. Nothing here touches the disk.

Names: TypeAlias = tuple[str, ...]

CONFIGURATION_FOLDERS = frozenset({".git", ".greenroom", ".hg", ".svn", ".vscode", ".idea"})
"""Folders of a workspace that no command has to write; a sandbox even prevents their creation."""

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
"""Folders whose whole content is protected anywhere; a file of the name is too, as with `.git`."""

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
"""Files that are protected in every folder."""

_AT_HOME: tuple[Names, ...] = ((".config",), (".local", "bin"), ("bin",), ("library",))
_ABSOLUTE: tuple[Names, ...] = (("etc",), ("private", "etc"))
_OWN = frozenset(
    {
        *(".greenroom", "permissions.json", "trusted.json", "settings.json"),
        *("mcp.json", "mcp-logins", "mcp-definitions", "editor-servers.json", "tokens"),
    }
)
_OWN_FOLDER = "greenroom"
_FOLDED_FILES = frozenset(name.casefold() for name in PROTECTED_FILES)


@cache_short(4_096)
def protected_names(path: str, root: str, home: str) -> tuple[Names, ...]:
    """Find the protected names in a path, which need not exist; none means it is not protected.

    Names are compared without case, composed, and without invisible characters, as some disks do.
    Names above the workspace do not count within it: a project may lie in `~/.config`.

    Args:
        path: an absolute path without `..`.
        root: the workspace.
        home: the home folder.

    Returns:
        The folded names of each protection, in the path's order.

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


def is_own_file(names: Names) -> bool:
    """Whether protected names are those of Greenroom's own rules, settings and sessions."""
    return names[-1] in _OWN


def _find_protections(names: Names, home: Names) -> Iterator[tuple[int, Names]]:
    """Find every protection in a path, and the number of names up to its end."""
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


@cache_short(1_024)
def _fold(path: str) -> Names:
    folded = unicodedata.normalize("NFC", without_hidden(path)).casefold()
    return tuple(name for name in folded.split("/") if name not in ("", "."))
