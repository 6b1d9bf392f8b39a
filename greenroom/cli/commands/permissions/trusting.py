"""`greenroom permissions trust`: let what the project says count: its rules, its texts for the model."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from greenroom.agents import ProjectText
from greenroom.cli.commands.sessions.row import counted, one_line
from greenroom.cli.drawing.page import Page
from greenroom.cli.questions.confirm import confirm
from greenroom.cli.run.folders import working_folder
from greenroom.cli.run.instructions import instructions_of_run
from greenroom.cli.run.rules import project_rules_path
from greenroom.core import ConfigurationError, exact, serde
from greenroom.permissions import (
    PermissionRule,
    is_trusted,
    read_rules,
    rules_digest,
    tighten,
    trust_rules,
)

if TYPE_CHECKING:
    from greenroom.cli.commands.permissions.arguments import PermissionsOptions

_REFUSED = 1


async def trust_project(options: "PermissionsOptions") -> int:
    """Show what the project's files say, one by one, and trust each if a person agrees.

    It counts as long as the file stays as it is. Only a person at a terminal can agree: no option
    does, so that no command that an agent runs can. The exit code is 1 where one is not trusted.

    Raises:
        ConfigurationError: there is nothing to trust, or nobody can be asked.
        RuleFileError: a file can't be used, or has changed while it was looked at.
    """
    workspace, page = working_folder(), Page()
    path = project_rules_path(workspace)
    # Before it is read: what is trusted is no other file than the one that is shown.
    digest = await trio.to_thread.run_sync(rules_digest, path)
    texts = (await trio.to_thread.run_sync(instructions_of_run, workspace)).from_project
    if digest is None and not texts:
        raise ConfigurationError(f"{path} can't be read", hint="there is nothing to trust here")
    agreed, said = dict[Path, bool](), dict[str, object]()
    if digest is not None:
        rules = await trio.to_thread.run_sync(read_rules, path)
        allowed = [rule for rule in rules if rule not in tighten(rules)]
        is_known = await trio.to_thread.run_sync(is_trusted, path)
        agreed[path] = is_known or await _ask(path, digest, _describe_rules(path, allowed), page)
        said = {"path": str(path), "trusted": agreed[path], "allowed": len(allowed)}
    for text in texts:
        agreed[text.path] = text.is_trusted or await _ask(
            text.path, text.digest, _describe_text(text), page
        )
    if options.json:
        others = [{"path": str(each.path), "trusted": agreed[each.path]} for each in texts]
        await page.line(serde.dumps(said | {"texts": others}))
    else:
        for each, is_agreed in agreed.items():
            await page.text(f"{each} is {'trusted' if is_agreed else 'not trusted'}")
    return 0 if all(agreed.values()) else _REFUSED


async def _ask(path: Path, digest: str, description: Iterable[str], page: Page) -> bool:
    for line in description:
        await page.text(line)
    agreed = await confirm("Trust it as long as it stays as it is?", hint="use a terminal")
    if agreed:
        await trio.to_thread.run_sync(trust_rules, path, digest)
    return agreed


def _describe_rules(path: Path, allowed: list[PermissionRule]) -> Iterable[str]:
    yield f"{path} holds {counted(len(allowed), 'rule')} that would count:"
    yield from (f"  {one_line(rule)}" for rule in allowed)


def _describe_text(text: ProjectText) -> Iterable[str]:
    yield f"{text.path} would count as what you tell the model:"
    yield from (f"  │ {line}" for line in exact(text.text.replace("\r\n", "\n")).split("\n"))
