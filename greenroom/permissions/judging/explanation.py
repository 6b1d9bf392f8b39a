"""Why a call is allowed, denied or asked about, and what exactly was judged."""

import hashlib
from dataclasses import dataclass

from greenroom.core import PermissionPart, RuleDecision, serde
from greenroom.permissions.facts.fact import Command, PathUse
from greenroom.permissions.judging.call import Call
from greenroom.permissions.rules.rule import PermissionRule

__all__ = ["Explanation", "digest_of"]


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A decision with everything that a prompt, a log and the model need to know of it.

    Attributes:
        decision: allow, deny or ask.
        reason: why, in words for people and models.
        rule: the rule that decided, or None.
        parts: the verdict on each part of the call.
        digest: SHA-256 over the tool, the input, the folder, the words of every command and the
            resolved paths; if it differs when the call runs, what was approved is not what runs.
        remembers: the rules that an "always" would add, or none if no narrow rule fits.
        forbids: the rule that a "never" would add, or none if it can't be told what was meant.
        message: what the model is told when the call is denied.
    """

    decision: RuleDecision
    reason: str
    rule: PermissionRule | None
    parts: tuple[PermissionPart, ...]
    digest: str
    remembers: tuple[PermissionRule, ...] = ()
    forbids: tuple[PermissionRule, ...] = ()
    message: str = ""


def digest_of(call: Call) -> str:
    """Hash what would run: equal digests mean the same call with the same meaning on this disk."""
    commands = [[word.text for word in f.argv] for f in call.facts if isinstance(f, Command)]
    paths = [list(fact.real) for fact in call.facts if isinstance(fact, PathUse)]
    judged = [call.tool, dict(call.input), call.place.folder, commands, paths]
    return hashlib.sha256(_canonical(judged)).hexdigest()


def _canonical(value: object) -> bytes:
    try:
        return serde.dumps(value, pretty=True)
    except serde.InvalidJSONError:
        # A programmer may pass values that JSON does not know; they are told apart by their repr.
        return repr(value).encode("utf-8", "backslashreplace")
