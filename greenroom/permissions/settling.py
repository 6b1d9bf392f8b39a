"""How calls are settled that no rule decides: by the mode, by the sandbox, or by only reading.

The rules are applied first (`greenroom.permissions.evaluator`). What they deny stays denied in
every mode. A part that no rule is about is open, and the first of these settles it:

- the tool needs no permission;
- the part is a command that only reads inside the workspace;
- the mode plan denies everything but reading, even if a rule allows it;
- the command runs in a sandbox that holds files and network, if the user accepts that;
- the modes accept-edits and bypass allow, the mode deny denies.

Otherwise, it is asked about. A part is not open if a rule asks about it, or may deny it but that
can't be determined. Then only the modes plan and deny settle it, and bypass unless there is such
a doubt.
"""

import os
import posixpath
from collections.abc import Sequence

from msgspec.structs import replace

from greenroom.core import Execute, RuleDecision, ShellCommand
from greenroom.core._internal import visible
from greenroom.permissions.call import Call
from greenroom.permissions.evaluator import Ruling
from greenroom.permissions.modes import PermissionMode, Sandboxed
from greenroom.shell._internal import Command, PathUse, Place

_READS = "it only reads, inside the workspace"


def apply_mode(
    rulings: Sequence[Ruling],
    call: Call,
    mode: PermissionMode,
    *,
    sandboxed: Sandboxed = "ask",
    read_only: bool = True,
) -> tuple[Ruling, ...]:
    """Settle what the rules left open.

    Args:
        rulings: what the rules decided.
        call: the call.
        mode: how the rest is settled.
        sandboxed: whether commands that a sandbox holds are allowed.
        read_only: whether commands that only read inside the workspace are allowed.
    """
    confined = sandboxed == "allow" and _is_confined(call)
    inputs = (each for each in call.paths if each.kind == "read")
    read_only = read_only and all(map(call.is_inside, inputs))
    return tuple(
        _settle(ruling, call, mode, confined=confined, read_only=read_only) for ruling in rulings
    )


def _settle(
    ruling: Ruling, call: Call, mode: PermissionMode, *, confined: bool, read_only: bool
) -> Ruling:
    """Settle one part, or leave it as it is."""

    def settle(decision: RuleDecision, why: str) -> Ruling:
        return replace(ruling, decision=decision, why=why)

    fact, decision = ruling.fact, ruling.decision
    is_open = decision is RuleDecision.ASK and ruling.rule is None
    is_clear = is_open and not ruling.doubt
    if decision is RuleDecision.DENY:
        return ruling
    if is_open and call.unless_denied:
        return settle(RuleDecision.ALLOW, "this tool needs no permission")
    may_read = is_clear or (mode == "plan" and decision is RuleDecision.ALLOW)
    if may_read and read_only and isinstance(fact, Command):
        obstacle = find_obstacle(fact, call)
        if obstacle == "":
            return replace(settle(RuleDecision.ALLOW, _READS), reads=True)
        if obstacle and is_open:
            ruling = replace(ruling, why=f"no rule allows this, and {obstacle}")
    if mode == "plan" and call.category != "read" and not call.unless_denied:
        return settle(RuleDecision.DENY, "in the mode plan only reading is allowed")
    if decision is RuleDecision.ALLOW:
        return ruling
    if is_clear and confined and not call.find_protected(fact):
        return settle(RuleDecision.ALLOW, "its sandbox holds files and network")
    is_edit = isinstance(fact, PathUse) and call.category == "write" and call.writes_inside(fact)
    if mode == "accept-edits" and is_open and is_edit:
        return settle(RuleDecision.ALLOW, "the mode accept-edits allows this")
    if mode == "bypass" and not (ruling.doubt or call.writes_own_rules(fact)):
        return settle(RuleDecision.ALLOW, "the mode bypass allows what no rule denies")
    if mode == "deny":
        return settle(RuleDecision.DENY, f"{ruling.reason}; the mode deny does not ask")
    return ruling


def _is_confined(call: Call) -> bool:
    """Return whether the call only runs commands, in a sandbox that surely holds them."""
    is_command = all(isinstance(effect, ShellCommand | Execute) for effect in call.effects)
    confined = call.sandbox.enforced if call.sandbox else {}
    is_whole = "files" in confined and "network" in confined
    return is_whole and is_command and bool(call.effects) and call.category == "execute"


# Commands that need no rule, since they only read, and only inside the workspace. The tables in
# `greenroom.shell` say which programs those are, and with which options.


def find_obstacle(fact: Command, call: Call) -> str | None:
    """Say why a command needs a rule although its program only reads.

    Every file that its words name must lie in the workspace, both as written and with links
    followed. Files that it finds in folders are operands (`greenroom.permissions.operands`).

    Returns:
        The reason in words; empty if it needs no rule; None if the program may do more than read.
    """
    reading, place = fact.reading, fact.place
    if reading is None or fact.guard or fact.takes_input or "/" in fact.argv[0]:
        return None
    if place.is_lost or not os.path.isdir(call.place.root):
        return "its folder is not known"
    if visible(fact.text) != fact.text:
        return "it holds characters that can't be seen"
    if _is_shadowed(fact.file or "", place):
        return f"{fact.file} is not the system's own {fact.argv[0]}"
    if reading.folder:
        if why := _describe_file(reading.folder, place, call, may_be_folder=True):
            return why
        place = place.move(reading.folder)
    for file in reading.files:
        if why := _describe_file(file.path, place, call, may_be_folder=file.may_be_folder):
            return why
    if fact.argv[0] == "git":
        found = (call.ask_git(folder, fact.argv) for folder in place.folders)
        return next(filter(None, found), "")
    return ""


def _is_shadowed(file: str, place: Place) -> bool:
    """Return whether a program lies in the workspace.

    The shims of version managers count as well, since a project's files say what they run.
    """
    root = posixpath.join(place.lookup.resolve(place.root), "")
    return "/shims/" in file or place.lookup.resolve(file or "/").startswith(root)


def _describe_file(name: str, place: Place, call: Call, *, may_be_folder: bool) -> str:
    """Say why a file may not be read; empty if all that its name may mean is in the workspace."""
    if name in ("-", "/dev/null", ""):
        return ""
    use = place.use("read", name)
    if not isinstance(use, PathUse) or not call.is_inside(use):
        return f"{name[:80]} is outside of the workspace"
    if not may_be_folder and any(map(os.path.isdir, use.real)):
        return f"{name[:80]} is a folder"
    return ""
