"""Commands and agents in files: the user's, and those of a project that the user has agreed to.

Both are Markdown with front matter, as other coding agents have it: `commands/git/tidy.md` is the
command `/git:tidy`, `agents/reviewer.md` the agent `reviewer`. The folders are in the user's
configuration and in the project's `.greenroom`. Of two with one name the project's counts, once its
file is trusted; until then it is only named. A few commands come with Greenroom, and count last.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from greenroom.agents._internal import (
    FrontMatter,
    ProjectText,
    parse_front_matter,
    read_project_text,
    read_user_text,
    user_folder,
)
from greenroom.core import ConfigurationError, RuleDecision, RuleFileError
from greenroom.core._internal import compile_later
from greenroom.permissions import PermissionRule

_OURS = Path(__file__).parent / "own"
_MOST_FILES = 200  # of one folder
_MOST_NAMED = 5  # files in one line
_NAME = compile_later(r"[\w-]+(:[\w-]+)*")
_RULES = compile_later(r"""[^\s,\[\]"'()]+(?:\([^)]*\))?""")
_COMMAND_KEYS = ("description", "argument-hint", "model", "allowed-tools")
_AGENT_KEYS = ("name", "description", "tools", "model")
_SHELL = compile_later(r"!`([^`\n]+)`")
_ARGUMENT = compile_later(r"\$(ARGUMENTS|[1-9])")

_T = TypeVar("_T")


class FileCommand(msgspec.Struct, frozen=True):
    """A command in a file.

    Attributes:
        name: its name, such as "git:tidy".
        description: what it does, in one line.
        hint: what follows it.
        model: the model of its turn; empty for that of the run.
        allowed: rules that allow in its turn.
        body: its text.
        source: the file, and whose word it is.
    """

    name: str
    description: str
    hint: str
    model: str
    allowed: tuple[str, ...]
    body: str
    source: ProjectText

    def fill(self, words: str) -> str:
        """Put the words behind the command into its text.

        Words that the text has no place for follow it.
        """
        if not _ARGUMENT.search(self.body):
            return f"{self.body}\n\n{words}".rstrip()
        try:
            split = shlex.split(words)
        except ValueError:  # a quote without its end
            split = words.split()
        given = {str(at): each for at, each in enumerate(split, 1)} | {"ARGUMENTS": words}
        return _ARGUMENT.sub(lambda found: given.get(found[1], ""), self.body)


class FileAgent(msgspec.Struct, frozen=True):
    """An agent in a file.

    Attributes:
        name: its name.
        description: when to give it work.
        model: its model; empty for that of the run.
        tools: its tools and rules; empty for all of the parent's.
        body: its system prompt.
        source: the file, and whose word it is.
    """

    name: str
    description: str
    model: str
    tools: tuple[str, ...]
    body: str
    source: ProjectText


class Found(msgspec.Struct, Generic[_T], frozen=True):
    """What was found in the folders of one kind.

    Attributes:
        usable: what counts, by name.
        foreign: what does not count, since nobody has agreed to it.
        faults: files that can't be used, and why, a line each.
        unread: the keys of front matter that mean nothing here, by the files that have them.
    """

    usable: dict[str, _T]
    foreign: tuple[ProjectText, ...] = ()
    faults: tuple[str, ...] = ()
    unread: Mapping[Path, tuple[str, ...]] = msgspec.field(default_factory=dict)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know, a line each."""
        names = ", ".join(each.name for each in self.foreign)
        told = f"{names}: not used, since they come with the project; " if names else ""
        how = "greenroom permissions trust shows them, and lets them count"
        return (*((told + how,) if told else ()), *self.faults, *self._describe_unread())

    def _describe_unread(self) -> Iterator[str]:
        if self.unread:
            keys = dict.fromkeys(key for each in self.unread.values() for key in each)
            paths = [str(path) for path in self.unread]
            more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
            named = ", ".join(list(keys)[:_MOST_NAMED])
            yield f"{', '.join(paths[:_MOST_NAMED])}{more}: what stands under {named} has no effect"


def split_shell_lines(text: str) -> Sequence[str]:
    """Split a text at each !`command`: texts and commands alternate, a text is first.

    Example:
        >>> split_shell_lines("on !`git branch` now")
        ['on ', 'git branch', ' now']
    """
    return _SHELL.split(text)


def read_commands(workspace: Path) -> Found[FileCommand]:
    """Read the commands that count in a folder; it blocks."""
    return _read("commands", workspace, _COMMAND_KEYS, _read_command)


def read_agents(workspace: Path) -> Found[FileAgent]:
    """Read the agents that count in a folder; it blocks."""
    return _read("agents", workspace, _AGENT_KEYS, _read_agent)


def _read(
    kind: str,
    workspace: Path,
    keys: Sequence[str],
    read: Callable[[str, ProjectText, FrontMatter], tuple[str, _T]],
) -> Found[_T]:
    usable, foreign, faults = dict[str, _T](), list[ProjectText](), list[str]()
    unread = dict[Path, tuple[str, ...]]()
    theirs = partial(read_project_text, root=workspace)
    folders: Sequence[tuple[Path, Callable[[Path], ProjectText | None]]] = (
        (_OURS / kind, read_user_text),
        (user_folder() / kind, read_user_text),
        (workspace / ".greenroom" / kind, theirs),
    )
    for folder, open_text in folders:
        paths = list(islice(_list_files(folder), _MOST_FILES + 1))
        if len(paths) > _MOST_FILES:
            faults.append(f"{folder} has more than {_MOST_FILES} files; the others are not used")
        for path in paths[:_MOST_FILES]:
            try:
                text = open_text(path)
                if text is None:
                    continue
                if not text.is_trusted:
                    foreign.append(text)
                    continue
                head = parse_front_matter(text.text, keys)
                name, found = read(_name_of(path, folder), text, head)
            except (ConfigurationError, RuleFileError) as error:
                faults.append(f"{path} is not used: {error.message}")
            else:
                usable[name] = found
                unread |= {path: head.others} if head.others else {}
    return Found(usable, tuple(foreign), tuple(faults), unread)


def _list_files(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders.sort()
        yield from (Path(place, name) for name in sorted(names) if name.endswith(".md"))


def _name_of(path: Path, folder: Path) -> str:
    return ":".join(path.relative_to(folder).with_suffix("").parts).casefold()


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"{name!r} can't be a name: letters, digits, - and _ can")
    return name


def _read_command(name: str, text: ProjectText, head: FrontMatter) -> tuple[str, FileCommand]:
    values, body = head.values, head.body.strip()
    allowed = _read_rules(values.get("allowed-tools", ""))
    first = next(filter(None, map(str.strip, body.splitlines())), "")
    command = FileCommand(
        _check_name(name),
        " ".join((values.get("description") or first).split())[:200],
        values.get("argument-hint", ""),
        _read_model(values),
        allowed,
        body,
        text,
    )
    return name, command


def _read_agent(name: str, text: ProjectText, head: FrontMatter) -> tuple[str, FileAgent]:
    values, body = head.values, head.body.strip()
    name = _check_name((values.get("name") or name).casefold())
    tools = _read_rules(values.get("tools", ""))
    if values.get("tools") and not tools:
        raise ConfigurationError("it has an empty list of tools, and an agent needs one")
    tools = () if "*" in tools else tools
    description = " ".join(values.get("description", "").split())[:1000]
    if not description:
        raise ConfigurationError("it has no description, which says when to give it work")
    return name, FileAgent(name, description, _read_model(values), tools, body, text)


def _read_model(values: Mapping[str, str]) -> str:
    model = values.get("model", "")
    return "" if model == "inherit" else model


def _read_rules(text: str) -> tuple[str, ...]:
    """Read rules that stand one behind the other, or in a list.

    Raises:
        RuleFileError: one of them is no rule.
    """
    text = re.sub(r"(^|\s)-\s", " ", text)  # the dashes of a list
    text = re.sub(r"\(([^)]*)\)", lambda found: f"({found[1].strip()})", text)
    rules = tuple(_RULES.findall(text))
    for each in rules:
        PermissionRule.parse(each, RuleDecision.ALLOW)
    return rules
