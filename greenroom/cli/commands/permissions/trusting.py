"""`greenroom permissions trust`: let what the project's rule file allows count."""

from typing import TYPE_CHECKING

import trio

from greenroom.cli.commands.sessions.row import counted, one_line
from greenroom.cli.drawing.page import Page
from greenroom.cli.questions.confirm import confirm
from greenroom.cli.run.folders import working_folder
from greenroom.cli.run.rules import project_rules_path
from greenroom.core import ConfigurationError, serde
from greenroom.permissions import is_trusted, read_rules, rules_digest, tightening, trust_rules

if TYPE_CHECKING:
    from greenroom.cli.commands.permissions.arguments import PermissionsOptions

__all__ = ["trust_project"]

_REFUSED = 1


async def trust_project(options: "PermissionsOptions") -> int:
    """Show what the project's rule file allows, and trust the file if a person agrees.

    It counts as long as the file stays as it is. Only a person at a terminal can agree: no option
    does, so that no command that an agent runs can.

    Raises:
        ConfigurationError: there is no such file, or nobody can be asked.
        RuleFileError: it can't be used, or has changed while it was looked at.
    """
    path = project_rules_path(working_folder())
    # Before it is read: what is trusted is no other file than the one that is shown.
    digest = await trio.to_thread.run_sync(rules_digest, path)
    if digest is None:
        raise ConfigurationError(f"{path} can't be read", hint="there is nothing to trust here")
    rules = await trio.to_thread.run_sync(read_rules, path)
    allowed = [rule for rule in rules if rule not in tightening(rules)]
    page = Page()
    agreed = await trio.to_thread.run_sync(is_trusted, path)
    if not agreed:
        await page.text(f"{path} holds {counted(len(allowed), 'rule')} that would count:")
        for rule in allowed:
            await page.text(f"  {one_line(rule)}")
        agreed = await confirm("Trust it as long as it stays as it is?", hint="use a terminal")
        if agreed:
            await trio.to_thread.run_sync(trust_rules, path, digest)
    if options.json:
        await page.line(
            serde.dumps({"path": str(path), "trusted": agreed, "allowed": len(allowed)})
        )
    else:
        await page.text(f"{path} is {'trusted' if agreed else 'not trusted'}")
    return 0 if agreed else _REFUSED
