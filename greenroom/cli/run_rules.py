"""The permission rules of a run: built in, the user's, the project's, the command line's."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import cast

import msgspec
import trio

from greenroom import permissions
from greenroom.agents._internal import is_trusted, user_rules_path
from greenroom.cli.modes import BYPASS, CYCLE, STRICT, ModeSwitch
from greenroom.cli.options import Options
from greenroom.cli.tool_names import (
    check_names,
    warn_of_narrow_denials,
    warn_of_unknown_names,
)
from greenroom.core import RuleDecision, RuleFileError
from greenroom.core._internal import compile_later
from greenroom.permissions import PermissionRule
from greenroom.permissions._internal import (
    PermissionMode,
    Sandboxed,
    ask_about_everything,
    check_mode,
    read_rules,
    tighten,
)

_WILDCARD = compile_later(r"[*?\[\]{}\\]")
_STRICT = ("plan", "deny")  # modes that allow nothing on their own


class RunRules(msgspec.Struct, frozen=True):
    """The permission manager of a run, and what the user should know about its rules.

    Attributes:
        manager: the manager.
        notes: what the user should know, a line each.
        warnings: what the user must know: a file that can't be used, a rule about a tool that does
            not exist, a mode that asks nothing.
        ignored: the rules that allow but don't count, since the project is not trusted.
        is_sound: whether every rule file can be used.
    """

    manager: permissions.PermissionManager
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    ignored: tuple[PermissionRule, ...] = ()
    is_sound: bool = True

    @property
    def modes(self) -> ModeSwitch:
        """Switches the manager's mode; while a file can't be used, to none that allows anything."""
        return ModeSwitch(self.manager, CYCLE if self.is_sound else STRICT)


def load_rules(
    workspace: Path,
    allow: Sequence[str] = (),
    deny: Sequence[str] = (),
    mode: str = "default",
    read_only: bool = True,
    sandboxed: Sandboxed = "ask",
    origins: Mapping[str, str] = MappingProxyType({}),
) -> RunRules:
    """Read the rule files and combine all rules of a run.

    Tools may read inside the workspace and in the user's own skills; with `read_only`, commands may
    as well. The user's own rule file counts whole. So does the project's as long as it holds only
    the user's own answers; otherwise it may come from anyone, and only its denials and questions
    count. A rule with a name gets the file's source as a prefix, such as "project/no-push". A
    denial on the command line comes before all files; an allowance there ranks with those in files,
    and overrides no denial and no question.

    A file that can't be used may have denied anything. Then no mode allows anything: every call
    that the other rules don't deny is asked about, and a warning names the file.

    `origins` says where rules come from that the command line did not give: the settings.

    Raises:
        RuleFileError: a rule of the command line can't be used, or names a tool that does not
            exist.
        ConfigurationError: there is no such mode.
    """
    check_mode(mode)
    parse = partial(_parse, origins)
    faults: list[RuleFileError] = []
    path = project_rules_path(workspace)
    project = _read(path, "project", faults)
    usable = project if _is_trusted(path, faults) else tighten(project)
    rules = [
        *_built_in(),
        *_read(user_rules_path(), "user", faults),
        *usable,
        *(parse(text, RuleDecision.ALLOW, permissions.RuleScope.GLOBAL) for text in allow),
        *(parse(text, RuleDecision.DENY, permissions.RuleScope.USER) for text in deny),
    ]
    about_names = warn_of_unknown_names(rules)
    if faults:
        mode = mode if mode in _STRICT else "default"
        manager = permissions.PermissionManager(
            ask_about_everything(rules),
            mode=cast("PermissionMode", mode),
            read_only=False,
        )
        about_files = map(_describe_fault, faults)
        return RunRules(manager, warnings=(*about_files, *about_names), is_sound=False)
    manager = permissions.PermissionManager(
        rules,
        mode=cast("PermissionMode", mode),
        sandboxed=sandboxed,
        read_only=read_only,
    )
    ignored = tuple(rule for rule in project if rule not in usable)
    about_ignored = (_ignored_note(workspace, len(ignored)),) if ignored else ()
    notes = (*about_ignored, *warn_of_narrow_denials(rules))
    about_mode = (BYPASS,) if mode == "bypass" else ()
    return RunRules(manager, notes, (*about_mode, *about_names), ignored)


async def load_run_rules(options: Options, workspace: Path) -> RunRules:
    """Load the rules of a run with these options, in a thread; it raises what `load_rules` does."""
    modes = (options.mode, options.read_only, options.sandboxed, options.origins)
    return await trio.to_thread.run_sync(load_rules, workspace, options.allow, options.deny, *modes)


def project_rules_path(workspace: Path) -> Path:
    """Return the project's rule file, which need not exist."""
    return workspace / ".greenroom" / "permissions.json"


def count_ignored_rules(path: Path) -> int:
    """Count the allow rules that are ignored because the project's file is not trusted.

    Raises:
        RuleFileError: it can't be read or used.
    """
    rules = read_rules(path)
    return 0 if is_trusted(path) else len(rules) - len(tighten(rules))


def is_foreign(path: Path) -> bool:
    """Whether answers remembered in this project's file would not count in later runs."""
    try:
        return path.exists() and not is_trusted(path)
    except RuleFileError:  # the trusted files can't be read, so none is trusted
        return True


def _built_in() -> Iterator[PermissionRule]:
    yield _allow_reading("**", "read-workspace", "reading inside the workspace")
    folder = user_rules_path().with_name("skills")
    # Wildcards in its name would match other folders.
    if folder.is_dir() and not _WILDCARD.search(str(folder)):
        yield _allow_reading(f"{folder}/**", "read-skills", "reading the user's own skills")


def _allow_reading(path: str, name: str, description: str) -> PermissionRule:
    return PermissionRule(
        decision=RuleDecision.ALLOW,
        matcher=permissions.RuleMatcher(category=("read",), path=(path,)),
        id=name,
        description=description,
        source="built in",
    )


def _read(path: Path, source: str, faults: list[RuleFileError]) -> list[PermissionRule]:
    """Read a rule file; prefix its rules' names, unique only within it, with the source."""
    try:
        rules = read_rules(path)
    except RuleFileError as error:
        if not isinstance(error.__cause__, (FileNotFoundError, NotADirectoryError)):
            faults.append(error)
        return []
    return [
        rule if rule.id == rule.generated_id else replace(rule, id=f"{source}/{rule.id}")
        for rule in rules
    ]


def _is_trusted(path: Path, faults: list[RuleFileError]) -> bool:
    try:
        return is_trusted(path)
    except RuleFileError as error:
        faults.append(error)
        return False


def _describe_fault(error: RuleFileError) -> str:
    hint = f" ({error.hint})" if error.hint else ""
    return f"{error.message}{hint}; until that is fixed, every call is asked about, or denied"


def _parse(
    origins: Mapping[str, str], text: str, decision: RuleDecision, scope: permissions.RuleScope
) -> PermissionRule:
    source = origins.get(text, "--allow" if decision is RuleDecision.ALLOW else "--deny")
    try:
        rule = check_names(PermissionRule.parse(text, decision, scope=scope))
        return replace(rule, source=source)
    except RuleFileError as error:
        raise RuleFileError(f"{source}: {error.message}", hint=error.hint) from error


def _ignored_note(workspace: Path, count: int) -> str:
    rules = "1 rule that allows is" if count == 1 else f"{count} rules that allow are"
    return (
        f"{project_rules_path(workspace)}: {rules} ignored, since a project may only deny and ask; "
        "greenroom permissions trust shows them, and lets them count"
    )
