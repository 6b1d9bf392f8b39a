"""Permission modes: what a person has decided for a whole run."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

from greenroom.core import ConfigurationError, Execute, RuleDecision, ShellCommand
from greenroom.permissions.facts.fact import Command, PathUse
from greenroom.permissions.judging.call import Call
from greenroom.permissions.judging.evaluator import Verdict
from greenroom.permissions.judging.protection import (
    protected,
    writes_inside,
    writes_own_rules,
)
from greenroom.permissions.judging.reading import READS_ONLY, reads_input_inside, reads_only

__all__ = ["PermissionMode", "Sandboxed", "apply_mode", "check_mode"]

PermissionMode: TypeAlias = Literal["default", "accept-edits", "plan", "deny", "bypass"]
"""How open questions are settled.

- default: they are asked.
- accept-edits: tools of the category write may write in the workspace what is not protected.
- plan: only tools that read are allowed, and commands that do.
- deny: what would be asked is denied.
- bypass: what no rule denies is allowed. Where it can't be told whether a rule denies it, and before
  Greenroom's own rules are written, it is asked nevertheless.
"""

Sandboxed: TypeAlias = Literal["ask", "allow"]
"""How open questions about a command are settled that runs in a sandbox which holds files and network.

- ask: as those about others.
- allow: it needs no question, except where it names what is protected, or where it can't be told
  whether a rule denies it.
"""


def check_mode(mode: str, sandboxed: str = "ask") -> None:
    """Refuse a mode that does not exist, and another way to settle questions than there is.

    Raises:
        ConfigurationError: it names those that do.
    """
    modes, ways = get_args(PermissionMode), get_args(Sandboxed)
    for what, value, known in (("permission mode", mode, modes), ("sandboxed", sandboxed, ways)):
        if value not in known:
            raise ConfigurationError(f"no {what} {value!r}", hint=f"one of {', '.join(known)}")


def apply_mode(
    verdicts: Sequence[Verdict],
    call: Call,
    mode: PermissionMode,
    *,
    sandboxed: Sandboxed = "ask",
    read_only: bool = True,
    careful: bool = False,
) -> tuple[Verdict, ...]:
    """Settle what the rules left open: commands that only read, those that a sandbox holds, others.

    Args:
        verdicts: what the rules say.
        call: the call.
        mode: how what is left open then is settled.
        sandboxed: whether commands that a sandbox holds are allowed.
        read_only: whether commands are that only read, inside the workspace.
        careful: whether a rule denies or asks about files.
    """
    held = sandboxed == "allow" and _is_held(call)
    read_only = read_only and any(map(_is_open, verdicts)) and reads_input_inside(call)
    settled = (
        (_reading(each, call, careful=careful) for each in verdicts) if read_only else verdicts
    )
    return tuple(_settled(verdict, call, mode, held=held) for verdict in settled)


def _reading(verdict: Verdict, call: Call, *, careful: bool) -> Verdict:
    """Allow a command that only reads, if no rule says anything about it."""
    fact = verdict.fact
    reason = (
        reads_only(fact, call, careful=careful)
        if _is_open(verdict) and isinstance(fact, Command)
        else ""
    )
    return _as(verdict, RuleDecision.ALLOW, reason) if reason else verdict


def _is_open(verdict: Verdict) -> bool:
    return verdict.decision is RuleDecision.ASK and verdict.rule is None and not verdict.doubt


def _settled(verdict: Verdict, call: Call, mode: PermissionMode, *, held: bool) -> Verdict:
    asks = verdict.decision is RuleDecision.ASK
    if verdict.decision is RuleDecision.DENY:
        return verdict
    if asks and verdict.rule is None and call.unless_denied:
        return _as(verdict, RuleDecision.ALLOW, "this tool needs no permission")
    if verdict.decision is RuleDecision.ALLOW and verdict.reason == READS_ONLY:
        return verdict
    if mode == "plan" and call.category != "read" and not call.unless_denied:
        return _as(verdict, RuleDecision.DENY, "in the mode plan only reading is allowed")
    if not asks:
        return verdict
    if held and verdict.rule is None and not (verdict.doubt or protected(verdict.fact, call)):
        return _as(verdict, RuleDecision.ALLOW, "its sandbox holds files and network")
    if mode == "accept-edits" and verdict.rule is None and _is_edit(verdict, call):
        return _as(verdict, RuleDecision.ALLOW, "the mode accept-edits allows this")
    if mode == "bypass" and not (verdict.doubt or writes_own_rules(verdict.fact, call)):
        return _as(verdict, RuleDecision.ALLOW, "the mode bypass allows what no rule denies")
    if mode == "deny":
        return _as(verdict, RuleDecision.DENY, f"{verdict.reason}; the mode deny asks nobody")
    return verdict


def _as(verdict: Verdict, decision: RuleDecision, reason: str) -> Verdict:
    return replace(verdict, decision=decision, reason=reason)


def _is_held(call: Call) -> bool:
    """Tell whether all that the call does are commands, in a sandbox that was found to hold them."""
    is_command = all(isinstance(effect, ShellCommand | Execute) for effect in call.effects)
    held = call.sandbox.enforced if call.sandbox else {}
    is_whole = "files" in held and "network" in held
    return is_whole and is_command and bool(call.effects) and call.category == "execute"


def _is_edit(verdict: Verdict, call: Call) -> bool:
    fact = verdict.fact
    return isinstance(fact, PathUse) and call.category == "write" and writes_inside(fact, call)
