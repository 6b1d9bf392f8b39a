"""Rules that are added and removed, by `greenroom permissions` and by `/permissions`."""

from dataclasses import replace
from pathlib import Path

import trio

from greenroom.agents._internal import drop_rule, keep_rules, user_rules_path
from greenroom.cli.command_options import PermissionsOptions
from greenroom.cli.formatting import one_line
from greenroom.cli.mentions import agent_context
from greenroom.cli.options import DONE, FAILED
from greenroom.cli.run_rules import is_foreign, project_rules_path
from greenroom.cli.stdio import OutputWriter, confirm, tell
from greenroom.cli.stored_sessions import working_folder
from greenroom.cli.tool_names import check_names, warn_of_narrow_denials
from greenroom.core import ConfigurationError, RuleDecision
from greenroom.core._internal import Remember
from greenroom.permissions import PermissionRule
from greenroom.permissions._internal import read_rules

LIFETIMES: dict[Remember, str] = {
    "session": "in this session",
    "project": "in this project",
    "always": "in every project",
}
"""How long a rule counts, in words."""

_PREFIXES = {"project": "project", "always": "user"}  # of the names that rules have in a run


def rule_file(lifetime: Remember, folder: Path) -> Path | None:
    """Return the file of the rules that count so long; None for those of a session."""
    files = {"project": project_rules_path(folder), "always": user_rules_path()}
    return files.get(lifetime)


def read_rule(
    text: str, decision: RuleDecision, lifetime: Remember, folder: Path
) -> PermissionRule:
    """Read a rule that a person has typed.

    Raises:
        RuleFileError: it is none, or names a tool that does not exist.
    """
    rule = check_names(PermissionRule.parse(text, decision))
    return replace(rule, source=str(rule_file(lifetime, folder) or "/permissions"))


def keep_rule(rule: PermissionRule, lifetime: Remember, folder: Path) -> str:
    """Store a rule, and return a warning where it counts for nothing yet. It blocks.

    Raises:
        RuleFileError: the file can't be read or written; it is left as it is.
    """
    keep_rules([rule], lifetime, agent_context("", folder))
    path = project_rules_path(folder)
    if lifetime != "project" or rule.decision is not RuleDecision.ALLOW or not is_foreign(path):
        return ""
    return f"{path} has more than your answers; greenroom permissions trust lets it count"


def drop_kept_rule(rule: PermissionRule, folder: Path) -> bool:
    """Take a rule of a run out of its file; return whether it comes from one. It blocks.

    Raises:
        RuleFileError: the file can't be read or written; it is left as it is.
    """
    if rule.source not in map(str, (rule_file(each, folder) for each in LIFETIMES)):
        return False
    id_ = rule.id if rule.id == rule.generated_id else rule.id.partition("/")[2]
    return drop_rule(rule.source, id_)


async def add_rule(options: PermissionsOptions) -> int:
    """Add a rule to the user's file, or to the project's.

    What allows more needs a person at a terminal who agrees, so that no command that an agent runs
    can add it. The exit code is 1 if they don't.

    Raises:
        RuleFileError: it is not a rule, or the file can't be used.
        ConfigurationError: it allows something, and there is no terminal to ask at.
    """
    folder, lifetime = working_folder(), _lifetime(options)
    decision = RuleDecision(options.decision)
    rule = read_rule(options.rule, decision, lifetime, folder)
    if decision is RuleDecision.ALLOW and not await _agrees(f"Add {rule}", lifetime):
        return FAILED
    warning = await trio.to_thread.run_sync(keep_rule, rule, lifetime, folder)
    tell(*([f"it does not count yet: {warning}"] if warning else []))
    tell(*warn_of_narrow_denials([rule]))
    await OutputWriter().text(f"added {LIFETIMES[lifetime]}: {one_line(rule)}")
    return DONE


async def remove_rule(options: PermissionsOptions) -> int:
    """Remove a rule from the user's file, or from the project's.

    A rule that denies or asks is removed only if a person at a terminal agrees; the exit code is 1
    if they don't.

    Raises:
        ConfigurationError: the rule is not in the file, or there is no terminal to ask at.
        RuleFileError: the file can't be used.
    """
    lifetime = _lifetime(options)
    path = rule_file(lifetime, working_folder())
    assert path is not None  # no rule of the command line is a session's
    rules = await trio.to_thread.run_sync(read_rules, path) if path.exists() else []
    name = options.rule.removeprefix(f"{_PREFIXES[lifetime]}/")
    found = next((each for each in rules if name in (each.id, str(each), str(each.matcher))), None)
    if found is None:
        raise ConfigurationError(
            f"there is no rule {one_line(options.rule)!r} in {path}",
            hint="greenroom permissions list names them all, and --project is about the project's",
        )
    loosens = found.decision is not RuleDecision.ALLOW
    if loosens and not await _agrees(f"Remove {found}", lifetime):
        return FAILED
    await trio.to_thread.run_sync(drop_rule, path, found.id)
    await OutputWriter().text(f"removed {LIFETIMES[lifetime]}: {one_line(found)}")
    return DONE


def _lifetime(options: PermissionsOptions) -> Remember:
    return "project" if options.project else "always"


async def _agrees(what: str, lifetime: Remember) -> bool:
    return await confirm(f"{what} {LIFETIMES[lifetime]}?", hint="use a terminal")
