"""The order of the rules, and how the verdicts on the facts of one call become one decision."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

from greenroom.core import PermissionPart, RuleDecision, visible
from greenroom.permissions.facts.fact import Change, Command, Fact, PathUse, Unknown
from greenroom.permissions.judging.call import Call
from greenroom.permissions.judging.likeness import covers, holds, touches
from greenroom.permissions.judging.operands import operands
from greenroom.permissions.judging.prefix import Likeness
from greenroom.permissions.judging.protection import protected
from greenroom.permissions.judging.rule_index import RuleIndex
from greenroom.permissions.rules.rule import PermissionRule

__all__ = ["STRICTNESS", "Verdict", "combine", "judge"]

STRICTNESS = {RuleDecision.ALLOW: 0, RuleDecision.ASK: 1, RuleDecision.DENY: 2}
_NOTHING = Unknown(reason="there is nothing to judge")
# Options by which a program writes a file.
_ONLY_WRITES = re.compile(r"--?(?:\w*[ioO]|in-?place|out\w*|delete|f?print\w*|remote-name)(?:=.*)?")
_UNFOLLOWED = Unknown(reason="it names files that can't all be looked up")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the rules say to one fact.

    Attributes:
        fact: the fact.
        decision: what they say.
        reason: why, in words.
        rule: the rule that said it, or None.
        doubt: a rule may deny the fact; whether it does can't be told.
    """

    fact: Fact
    decision: RuleDecision
    reason: str
    rule: PermissionRule | None = None
    doubt: bool = False

    @property
    def message(self) -> str:
        """What the model is told if this denies the call."""
        told, advice = self.rule.message if self.rule else "", _advice(self.fact)
        return f"{told} ({advice})" if told and advice else told or self.reason

    @property
    def part(self) -> PermissionPart:
        """The same in words, as prompts show it."""
        rule, source = (self.rule.id, self.rule.source) if self.rule else ("", "")
        return PermissionPart(str(self.fact), self.decision, self.reason, rule, source)


def combine(verdicts: Iterable[Verdict]) -> RuleDecision:
    """Deny if any part is denied, else ask if any is asked about, else allow."""
    return max((verdict.decision for verdict in verdicts), key=STRICTNESS.__getitem__)


def judge(call: Call, rules: RuleIndex) -> tuple[Verdict, ...]:
    """Judge each fact by the first rule that is about it.

    Facts that only guard (what a wrapper runs, what an operand names) appear where a rule denies
    or asks, or where they write what is protected.
    """
    known: dict[Fact, Verdict | None] = {}  # a text in ruins has thousands that say the same
    verdicts: list[Verdict | None] = []
    for fact in chain(call.facts, operands(call, rules)):
        if not isinstance(fact, Unknown | Change):
            verdicts.append(_judged(fact, call, rules))
            continue
        if fact not in known:
            known[fact] = _judged(fact, call, rules)
        verdicts.append(known[fact])
    if call.place.links.full:
        verdicts.append(_judged(_UNFOLLOWED, call, rules))
    if not any(verdicts):
        verdicts.append(_judged(_NOTHING, call, rules))
    return tuple(filter(None, verdicts))


def _judged(fact: Fact, call: Call, rules: RuleIndex) -> Verdict | None:
    """Judge a fact; None if it only guards, and nothing is to be said about it."""
    about = rules.about(fact)
    if fact.guard and not isinstance(fact, Command) and not any(map(_is_careful, about)):
        return None  # as of most operands; a command may write what is protected
    verdict = _verdict(fact, call, rules, about)
    return verdict if not fact.guard or _matters(verdict, call) else None


def _is_careful(rule: PermissionRule) -> bool:
    return rule.decision is not RuleDecision.ALLOW


def _matters(verdict: Verdict, call: Call) -> bool:
    """Tell whether a fact that only guards is denied or asked about for a reason."""
    if verdict.decision is RuleDecision.ALLOW or verdict.rule is not None:
        return verdict.decision is not RuleDecision.ALLOW
    fact = verdict.fact
    return isinstance(fact, Command) and bool(protected(fact, call))


def _verdict(fact: Fact, call: Call, rules: RuleIndex, about: Iterable[PermissionRule]) -> Verdict:
    if isinstance(fact, Unknown) and fact.refused:
        return Verdict(fact, RuleDecision.DENY, fact.reason)
    # A text that can't be read, or that a program runs, may hold whatever a rule denies.
    is_opaque = isinstance(fact, Unknown) or (isinstance(fact, Command) and _runs_more(fact))
    doubt = is_opaque and any(not rule.expired for rule in rules.denials)
    if doubt and isinstance(fact, Command):
        about = [rule for rule in about if _is_careful(rule) or not rule.matcher.about_calls]
    held: Verdict | None = None
    for found in _found(fact, call, about):
        only_tightens = found.rule is not None and found.rule.tightens
        if not only_tightens or found.decision is RuleDecision.DENY:
            return _tightened(found, held)
        held = held or found
        held = replace(held, doubt=held.doubt or found.doubt)
    return _tightened(Verdict(fact, RuleDecision.ASK, _open_reason(fact, call), doubt=doubt), held)


def _runs_more(fact: Command) -> bool:
    """Tell whether a word lets a program run more than its name says, rather than write a file."""
    words = (fact.argv[at] for at, _ in fact.cautions if at < len(fact.argv))
    is_file = fact.argv[:1] and fact.argv[0].text in (".", "source")
    return not is_file and any(
        not word.unknown and not _ONLY_WRITES.fullmatch(word.text) for word in words
    )


def _found(fact: Fact, call: Call, rules: Iterable[PermissionRule]) -> Iterator[Verdict]:
    """Go through what the rules that may be about the fact say to it, in their order."""
    for rule in rules:
        decision = None if rule.expired else _decision(rule, fact, call)
        if decision is not None:
            doubt = rule.decision is RuleDecision.DENY is not decision
            yield Verdict(fact, decision, _reason(rule, decision, fact), rule, doubt)


def _tightened(found: Verdict, held: Verdict | None) -> Verdict:
    """Let a question of a rule that only tightens stand before all but a denial."""
    if held is None or found.decision is RuleDecision.DENY:
        return found
    return replace(held, doubt=held.doubt or found.doubt)


def _decision(rule: PermissionRule, fact: Fact, call: Call) -> RuleDecision | None:
    """Say what the rule decides on the fact, or None if it is not about it."""
    matcher = rule.matcher
    if rule.decision is RuleDecision.ALLOW:
        if covers(matcher, fact, call) and holds(matcher, call) is Likeness.YES:
            return RuleDecision.ALLOW
        return None
    likeness = touches(matcher, fact, call)
    if likeness:
        likeness = min(likeness, holds(matcher, call))
    if not likeness:
        return None
    return rule.decision if likeness is Likeness.YES else RuleDecision.ASK


def _reason(rule: PermissionRule, decision: RuleDecision, fact: Fact) -> str:
    if decision is not rule.decision:
        return f"it can't be told whether the rule {rule.id!r} is about this"
    verb = {"allow": "allows", "deny": "denies", "ask": "asks about"}[decision]
    because = rule.message or rule.description
    reason = f"the rule {rule.id!r} {verb} this" + (f": {because}" if because else "")
    advice = _advice(fact)
    return f"{reason} ({advice})" if advice else reason


def _advice(fact: Fact) -> str:
    """Say what to do where a pattern, and not a file, is what a rule is about."""
    if not (isinstance(fact, PathUse) and fact.stars in ("files", "search")):
        return ""
    text = fact.text.removeprefix("**/") if fact.stars == "search" else fact.text
    return f"{visible(text)} may stand for it: name the files that are meant"


def _open_reason(fact: Fact, call: Call) -> str:
    if isinstance(fact, Unknown):
        return fact.reason
    for at, names in protected(fact, call).items():
        name = fact.argv[at].text if isinstance(fact, Command) else "/".join(names[0])
        return f"{name} is protected: it makes programs run or rules change, and no rule names it"
    if isinstance(fact, Command) and fact.cautions:
        return f"no rule allows this: {fact.cautions[0][1]}"
    return "no rule is about this"
