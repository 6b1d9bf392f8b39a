"""Permission modes: what a person has decided for a whole run."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

from greenroom.core import ConfigurationError, Execute, RuleDecision, ShellCommand
from greenroom.permissions.facts.fact import Command, Fact, PathUse
from greenroom.permissions.judging.call import Call
from greenroom.permissions.judging.evaluator import Verdict
from greenroom.permissions.judging.protection import protected, writes_inside, writes_own_rules
from greenroom.permissions.judging.reading import reads_only

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
    inputs = (each for each in call.facts if isinstance(each, PathUse) and each.kind == "read")
    read_only = read_only and all(map(call.has, inputs))

    def reads(fact: Fact) -> bool:
        return read_only and isinstance(fact, Command) and reads_only(fact, call, careful=careful)

    settled = [_settle(each, call, mode, held=held, reads=reads) for each in verdicts]
    return tuple(
        replace(verdict, decision=new[0], said=new[1]) if new else verdict
        for verdict, new in zip(verdicts, settled, strict=True)
    )


def _settle(
    verdict: Verdict, call: Call, mode: PermissionMode, *, held: bool, reads: Callable[[Fact], bool]
) -> tuple[RuleDecision, str] | None:
    """Decide otherwise than the rules, and say why; None if what they say stands."""
    fact, decision = verdict.fact, verdict.decision
    is_open = decision is RuleDecision.ASK and verdict.rule is None
    is_sure = is_open and not verdict.doubt
    if decision is RuleDecision.DENY:
        return None
    if is_open and call.unless_denied:
        return RuleDecision.ALLOW, "this tool needs no permission"
    if is_sure and reads(fact):
        return RuleDecision.ALLOW, "it only reads, inside the workspace"
    if mode == "plan" and call.category != "read" and not call.unless_denied:
        return RuleDecision.DENY, "in the mode plan only reading is allowed"
    if decision is RuleDecision.ALLOW:
        return None
    if held and is_sure and not protected(fact, call):
        return RuleDecision.ALLOW, "its sandbox holds files and network"
    is_edit = isinstance(fact, PathUse) and call.category == "write" and writes_inside(fact, call)
    if mode == "accept-edits" and is_open and is_edit:
        return RuleDecision.ALLOW, "the mode accept-edits allows this"
    if mode == "bypass" and not (verdict.doubt or writes_own_rules(fact, call)):
        return RuleDecision.ALLOW, "the mode bypass allows what no rule denies"
    if mode == "deny":
        return RuleDecision.DENY, f"{verdict.reason}; the mode deny asks nobody"
    return None


def _is_held(call: Call) -> bool:
    """Tell whether all that the call does are commands, in a sandbox that was found to hold them."""
    is_command = all(isinstance(effect, ShellCommand | Execute) for effect in call.effects)
    held = call.sandbox.enforced if call.sandbox else {}
    is_whole = "files" in held and "network" in held
    return is_whole and is_command and bool(call.effects) and call.category == "execute"
