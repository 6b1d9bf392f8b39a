"""The hooks of a run: which there are, and whether each is still what it was.

A hook is an entry of a settings file, and runs a shell command. What it runs is bound to its
content: to the entry, and to each file of the project that the command names. A project's hooks
count once the user has agreed to its settings; and whoever wrote the hook, a file of the project
that its command names has to be trusted as well. What has changed since the run began does not run.
"""

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path

import msgspec

from greenroom.agents._internal import rules_digest
from greenroom.cli.settings import (
    HookSettings,
    Settings,
    is_tool_names,
    read_settings,
    user_settings_path,
)
from greenroom.cli.settings_layers import is_trusted_here, project_settings_path
from greenroom.core import AgentContext, ConfigurationError, RuleDecision
from greenroom.core._internal import compile_later
from greenroom.permissions import PermissionManager, PermissionRule

_WORDS = compile_later(r"""[^\s;&|<>()'"`=]+""")
# What is only written is not run.
_WRITTEN = compile_later(r"""(?<![<>])>[>|]?\s*[^\s;&|<>()'"`]+""")
_PROJECT = compile_later(r"\$(?:\{(?:GREENROOM_PROJECT|PWD)\}|GREENROOM_PROJECT|PWD|\(pwd\))|`pwd`")
_QUOTED = compile_later(r"""'[^']*'|"(?:[^"\\]|\\.)*\"""")
_MOST_FILES = 200  # that a pattern in a command finds


class Hook(msgspec.Struct, frozen=True):
    """A hook that counts.

    Attributes:
        settings: what the file says.
        path: the settings file that it stands in.
        is_users: whether that is the user's own.
        workspace: the folder of the project.
        files: the files of the project that its command names, and their digests.
    """

    settings: HookSettings
    path: Path
    is_users: bool
    workspace: Path
    files: Mapping[Path, str]

    def matches(self, tool: str, given: Mapping[str, object], agent: AgentContext) -> bool:
        """Whether the hook is about this call; where that is unclear, it is."""
        matcher = self.settings.matcher
        if not matcher:
            return True
        if is_tool_names(matcher):
            return tool in matcher.split("|")
        rule = PermissionRule.parse(matcher, RuleDecision.DENY)
        manager = PermissionManager([rule], mode="bypass", read_only=False)
        return manager.check(tool, given, agent) is not RuleDecision.ALLOW

    def find_change(self) -> str:
        """Say why the hook must not run now; empty if it is what it was, and trusted. Blocks."""
        try:
            known = read_settings(self.path).hooks
        except ConfigurationError:
            known = ()
        if self.settings not in known or not (self.is_users or is_trusted_here(self.path)):
            return f"{self.path} has changed since the run began"
        files = find_files(self.settings.command, self.workspace)
        changed = [
            each for each in files.keys() | self.files if files.get(each) != self.files.get(each)
        ]
        if changed:
            return f"{min(changed)} has changed since the run began"
        return self.find_foreign()

    def find_foreign(self) -> str:
        """Say which file that the command names comes with the project, and is not trusted."""
        files = self.files.items()
        foreign = [each for each, digest in files if not is_trusted_here(each, digest)]
        return f"{min(foreign)} comes with the project, and is not trusted" if foreign else ""

    def __str__(self) -> str:
        """Name it by its event and its command."""
        return f"the {self.settings.event} hook {self.settings.command!r}"


def find_hooks(settings: Settings, workspace: Path) -> tuple[Hook, ...]:
    """Find the hooks that count: the user's, and those of a project that is trusted. Blocks."""
    mine = _read(settings.hooks, user_settings_path(), workspace, is_users=True)
    path = project_settings_path(workspace)
    theirs = read_settings(path).hooks if is_trusted_here(path) else ()
    return (*mine, *_read(theirs, path, workspace, is_users=False))


def _read(
    hooks: tuple[HookSettings, ...], path: Path, workspace: Path, *, is_users: bool
) -> Iterator[Hook]:
    for each in hooks:
        yield Hook(each, path, is_users, workspace, find_files(each.command, workspace))


def find_files(command: str, workspace: Path) -> dict[Path, str]:
    """Find the files of a project that a command names, and their digests. Blocks.

    Every word is tried, wherever it stands in the command, from the project's folder and from each
    folder that is named, except the files that output is redirected to.
    """
    from glob import iglob  # only where there are hooks

    found = dict[Path, str]()
    root = Path(os.path.realpath(workspace))
    command = _WRITTEN.sub(" ", _PROJECT.sub(lambda _: str(root), command))
    words = _list_words(command)
    folders = [root, *(root / each for each in words if (root / each).is_dir())]
    paths = [folder / word for word in words for folder in folders]
    for pattern in _list_patterns(command, words):
        for folder in folders:
            paths += map(Path, islice(iglob(str(folder / pattern)), _MOST_FILES))
    for path in paths:
        real = Path(os.path.realpath(path))
        inside = path.is_relative_to(root) or real.is_relative_to(root)
        if inside and path.is_file():
            found[path] = rules_digest(path) or "it can't be read"
    return found


def _list_words(command: str) -> list[str]:
    """List what may be a word of a command: with and without its quotes, variables, home."""
    words = _WORDS.findall(command)
    with suppress(ValueError):  # a quote without its end: then bash refuses it as well
        words += shlex.split(command)
    return [*dict.fromkeys(os.path.expanduser(os.path.expandvars(each)) for each in words)]


def _list_patterns(command: str, words: list[str]) -> list[str]:
    """List the words that may be a pattern for files; in quotes it is rather one for a text."""
    from glob import has_magic

    bare = _WORDS.findall(_QUOTED.sub(" ", command))
    return [each for each in words if has_magic(each) and ("/" in each or each in bare)]
