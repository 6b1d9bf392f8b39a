"""What a project's files claim for themselves, and what a person would agree to.

Each of them comes from the author of the project. It counts once the user has agreed to it, byte
for byte: `greenroom permissions trust` shows each claim, and asks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from greenroom.agents._internal import ProjectText, is_trusted, rules_digest
from greenroom.cli.formatting import one_line
from greenroom.cli.hook_files import find_files
from greenroom.cli.mcp_setup import list_commands, project_servers_path
from greenroom.cli.own_files import read_agents, read_commands
from greenroom.cli.run_rules import project_rules_path
from greenroom.cli.run_setup import read_instructions
from greenroom.cli.settings import parse_settings, read_settings
from greenroom.cli.settings_layers import project_settings_path
from greenroom.core._internal import exact, quantity
from greenroom.fs._internal import decode_text, read_beginning
from greenroom.permissions._internal import read_rules, tighten

_MAX_TEXT = 1 << 20


@dataclass(frozen=True)
class Claim:
    """A file of a project that a person can agree to.

    Attributes:
        path: the file.
        digest: the SHA-256 of its bytes, from before it was read.
        is_trusted: whether the user has agreed to it.
        description: what would count, a line each.
        allowed: how many rules it has that allow; None for a file that is not about rules.
    """

    path: Path
    digest: str
    is_trusted: bool
    description: tuple[str, ...]
    allowed: int | None = None


def find_claims(workspace: Path) -> tuple[Claim, ...]:
    """Find the files of a project that a person can agree to; it blocks.

    Raises:
        RuleFileError: the rule file can't be used.
        ConfigurationFileError: the settings can't be used.
    """
    return (
        *_about_rules(workspace),
        *_about_settings(workspace),
        *_about_servers(workspace),
        *_about_programs(workspace),
        *_about_texts(workspace),
        *_about_own_files(workspace),
    )


def _about_rules(workspace: Path) -> Iterator[Claim]:
    path = project_rules_path(workspace)
    # Taken before the file is read, so only the content that was shown is trusted.
    digest = rules_digest(path)
    if digest is not None:
        rules = read_rules(path)
        allowed = [rule for rule in rules if rule not in tighten(rules)]
        head = f"{path} has {quantity(len(allowed), 'rule')} that would count:"
        description = (head, *(f"  {one_line(rule)}" for rule in allowed))
        yield Claim(path, digest, is_trusted(path, digest), description, len(allowed))


def _about_settings(workspace: Path) -> Iterator[Claim]:
    path = project_settings_path(workspace)
    digest = rules_digest(path)
    if digest is not None:
        text = decode_text(read_beginning(path, _MAX_TEXT))
        parse_settings(text, str(path))
        head = f"{path} would count as the settings of this project:"
        yield Claim(path, digest, is_trusted(path, digest), (head, *_quote(text)))


def _about_servers(workspace: Path) -> Iterator[Claim]:
    path = project_servers_path(workspace)
    digest = rules_digest(path)
    if digest is not None:
        text = decode_text(read_beginning(path, _MAX_TEXT))
        head = f"{path} would start these servers of tools:"
        yield Claim(path, digest, is_trusted(path, digest), (head, *_quote(text)))


def _about_programs(workspace: Path) -> Iterator[Claim]:
    """Find the files of the project that commands of hooks and servers name, whoever wrote them."""
    settings = (read_settings(), read_settings(project_settings_path(workspace)))
    commands = dict.fromkeys(hook.command for each in settings for hook in each.hooks)
    commands |= dict.fromkeys(list_commands(workspace))
    files = {path: None for each in commands for path in find_files(each, workspace)}
    for path in files:
        digest = rules_digest(path)
        if digest is not None:
            text = decode_text(read_beginning(path, _MAX_TEXT))
            head = f"{path} would be run, or read, by a hook or a server:"
            yield Claim(path, digest, is_trusted(path, digest), (head, *_quote(text)))


def _about_texts(workspace: Path) -> Iterator[Claim]:
    for text in read_instructions(workspace).from_project:
        yield Claim(text.path, text.digest, text.is_trusted, tuple(_describe_text(text)))


def _about_own_files(workspace: Path) -> Iterator[Claim]:
    """Find the commands and agents that the project brings."""
    for kind, found in (("command", read_commands(workspace)), ("agent", read_agents(workspace))):
        used = [each.source for each in found.usable.values()]
        for text in (*found.foreign, *(each for each in used if not each.is_users)):
            head = f"{text.path} would count as a {kind} of yours:".replace("a agent", "an agent")
            yield Claim(text.path, text.digest, text.is_trusted, (head, *_quote(text.text)))


def _describe_text(text: ProjectText) -> Iterator[str]:
    yield f"{text.path} would count as what you tell the model:"
    yield from _quote(text.text)


def _quote(text: str) -> Iterator[str]:
    yield from (f"  │ {line}" for line in exact(text.replace("\r\n", "\n")).split("\n"))
