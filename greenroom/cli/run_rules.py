"""The permission rules of a run: built in, the user's, the project's, the command line's."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from greenroom import permissions
from greenroom.core import RuleDecision, RuleFileError
from greenroom.permissions import PermissionRule

_WILDCARD = re.compile(r"[*?\[\]{}\\]")
_STRICT = ("plan", "deny")  # modes that allow nothing by themselves
_BYPASS = (
    "the mode bypass asks about nothing: what no rule denies runs at once, and may change files"
)


@dataclass(frozen=True)
class RunRules:
    """The manager of a run, and what the user should know about its rules.

    Attributes:
        manager: the manager.
        notes: what should be known, a line each.
        warnings: what must be known: a file that can't be used, a mode that asks nothing.
        ignored: rules that allow and don't count, since the project is not trusted.
    """

    manager: permissions.PermissionManager
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    ignored: tuple[PermissionRule, ...] = ()


def load_rules(
    workspace: Path,
    allow: Sequence[str] = (),
    deny: Sequence[str] = (),
    mode: str = "default",
    read_only: bool = True,
    sandboxed: permissions.Sandboxed = "ask",
) -> RunRules:
    """Put the rules of a run together; it reads files.

    Reading inside the workspace is allowed, and reading the user's own skills; with `read_only` by
    commands as well. The user's own rule file counts whole; so does the
    project's while it has nothing but the user's own answers. Otherwise it may come from anyone,
    and only its denials and questions count. A rule that a file names has the file's source
    before its name, such as "project/no-push". A denial on the command line comes
    before all files; an allowance there ranks with those in files, so that it overrides no
    denial and no question.

    A file that can't be used may have denied anything. So nothing is allowed then, in no mode:
    every call is asked about that the other rules don't deny, and a warning says which file it is.

    Raises:
        RuleFileError: a rule of the command line that can't be used.
        ConfigurationError: no such mode.
    """
    permissions.check_mode(mode)
    faults: list[RuleFileError] = []
    path = project_rules_path(workspace)
    project = _read(path, "project", faults)
    usable = project if _is_trusted(path, faults) else permissions.tighten(project)
    rules = [
        *_built_in(),
        *_read(permissions.user_rules_path(), "user", faults),
        *usable,
        *(_parse(text, RuleDecision.ALLOW, permissions.RuleScope.GLOBAL) for text in allow),
        *(_parse(text, RuleDecision.DENY, permissions.RuleScope.USER) for text in deny),
    ]
    if faults:
        mode = mode if mode in _STRICT else "default"
        manager = permissions.PermissionManager(
            permissions.ask_about_everything(rules),
            mode=cast("permissions.PermissionMode", mode),
            read_only=False,
        )
        return RunRules(manager, warnings=tuple(map(_describe_fault, faults)))
    manager = permissions.PermissionManager(
        rules,
        mode=cast("permissions.PermissionMode", mode),
        sandboxed=sandboxed,
        read_only=read_only,
    )
    ignored = tuple(rule for rule in project if rule not in usable)
    notes = (_ignored_note(workspace, len(ignored)),) if ignored else ()
    return RunRules(manager, notes, (_BYPASS,) if mode == "bypass" else (), ignored)


def project_rules_path(workspace: Path) -> Path:
    """Return the project's rule file, which need not exist."""
    return workspace / ".greenroom" / "permissions.json"


def ignored_rules(path: Path) -> int:
    """Count the allow rules that are ignored because the project's file is not trusted.

    Raises:
        RuleFileError: it can't be read or used.
    """
    rules = permissions.read_rules(path)
    return 0 if permissions.is_trusted(path) else len(rules) - len(permissions.tighten(rules))


def is_foreign(path: Path) -> bool:
    """Whether what is remembered in this project's file would not count in later runs."""
    try:
        return path.exists() and not permissions.is_trusted(path)
    except RuleFileError:  # the trusted files can't be read, so none is trusted
        return True


def _built_in() -> Iterator[PermissionRule]:
    yield _allow_reading("**", "read-workspace", "reading inside the workspace")
    folder = permissions.user_rules_path().with_name("skills")
    # A name with signs of patterns would be about other folders.
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
    """Read a rule file; prefix rule names with the source, since they are unique only within a file."""
    try:
        rules = permissions.read_rules(path)
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
        return permissions.is_trusted(path)
    except RuleFileError as error:
        faults.append(error)
        return False


def _describe_fault(error: RuleFileError) -> str:
    hint = f" ({error.hint})" if error.hint else ""
    return f"{error.message}{hint}; until that is fixed, every call is asked about, or denied"


def _parse(text: str, decision: RuleDecision, scope: permissions.RuleScope) -> PermissionRule:
    option = "--allow" if decision is RuleDecision.ALLOW else "--deny"
    try:
        return replace(PermissionRule.parse(text, decision, scope=scope), source=option)
    except RuleFileError as error:
        raise RuleFileError(f"{option}: {error.message}", hint=error.hint) from error


def _ignored_note(workspace: Path, count: int) -> str:
    rules = "1 rule that allows is" if count == 1 else f"{count} rules that allow are"
    return (
        f"{project_rules_path(workspace)}: {rules} ignored, since a project may only deny and ask; "
        "greenroom permissions trust shows them, and lets them count"
    )
