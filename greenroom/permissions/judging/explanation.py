"""Why a call is allowed, denied or asked about, and what exactly was judged."""

import hashlib
import os
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from operator import itemgetter

from greenroom.core import PermissionEffects, PermissionPart, RuleDecision
from greenroom.permissions.facts.fact import Command, PathUse
from greenroom.permissions.judging.call import Call
from greenroom.permissions.judging.fingerprint import fingerprint
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
        digest: SHA-256 over the tool, the input, the folder, and every byte of what the tool
            states and what follows from it, such as the words of a command and resolved paths; where
            a person is asked, over the files that commands name and the programs that they run as
            well. If it differs when the call runs, what was approved is not what runs.
        call: what was judged.
        remembers: the rules that an "always" would add, each for one part of the call; a part for
            which no narrow rule exists is asked about again. Empty if there is none at all.
        unremembered: why there is none, where that is not for want of a narrow rule.
        forbids: the rule that a "never" would add, or none if it can't be told what was meant.
        message: what the model is told when the call is denied.
        effects: what it would do beyond the workspace and itself, where a person is asked.
    """

    decision: RuleDecision
    reason: str
    rule: PermissionRule | None
    parts: tuple[PermissionPart, ...]
    digest: str
    call: Call = field(repr=False, compare=False)
    remembers: tuple[PermissionRule, ...] = ()
    forbids: tuple[PermissionRule, ...] = ()
    unremembered: str = ""
    message: str = ""
    effects: PermissionEffects = field(default_factory=PermissionEffects)

    @property
    def runs_commands(self) -> bool:
        """Whether the call runs commands, which may name files."""
        return any(isinstance(fact, Command) for fact in self.call.facts)

    def with_files(self) -> "Explanation":
        """Let the digest cover the files of commands, as they are now; reads them: call it in a thread.

        Where they are too many or too long to look at all of them, nothing is to be remembered.
        """
        if not self.runs_commands:
            return self
        files, excess = fingerprint(self.call)
        digest = hashlib.sha256(f"{self.digest} {files}".encode()).hexdigest()
        if not excess:
            return replace(self, digest=digest)
        why = f"it names {excess}, too much to tell whether they stay as they are"
        return replace(self, digest=digest, remembers=(), unremembered=why)


def digest_of(call: Call) -> str:
    """Hash what would run: equal digests mean the same call with the same meaning on this disk.

    What is meant follows from what is stated and from where the paths lead.
    """
    place = call.place
    where = (place.root, place.folder, os.path.realpath(place.folder))
    paths = [use for use in call.facts if isinstance(use, PathUse)]
    stated = (call.tool, _canonical(call.input), call.effects, where, paths)
    return hashlib.sha256(repr(stated).encode("utf-8", "backslashreplace")).hexdigest()


def _canonical(value: object) -> object:
    """Put what has no order into one; what JSON does not know is told apart by its repr."""
    if isinstance(value, Mapping):
        pairs = ((repr(key), _canonical(each)) for key, each in value.items())
        return "mapping", sorted(pairs, key=itemgetter(0))
    if isinstance(value, AbstractSet):
        return "set", sorted(repr(_canonical(each)) for each in value)
    if isinstance(value, list | tuple):
        return [_canonical(each) for each in value]
    return value
