"""The evaluator: from the rules and the facts of one call to one decision.

How it works
============

A **fact** is the smallest thing that a rule can judge: one program with its words, one file that is
read or written, one host, one variable that is set, or `Unknown`, for what can't be told. A call is
a list of facts (`greenroom.permissions.call`): `Read` of a file is one, `cd src && make > log` is
three. None is left out because it is not understood.

Each fact is judged by itself. The rules come in the order of their scopes
(`greenroom.permissions.scopes`), and **the first rule that is about the fact decides**. When a rule
is about a fact depends on what it says (`greenroom.permissions.matching`):

- An allowance is about a fact only if it names exactly that: the words are known, a path matches as
  it is written and with links followed, and nothing in the words does more than the program's name
  says.
- A denial or a question is about a fact in any spelling that may mean the same. Where it depends on
  what is not known, the match is MAYBE, and the fact is asked about: it is *in doubt*.

Then the verdicts are combined: one denial denies the call, else one question asks, else it is
allowed.

Why nothing unknown is ever allowed: no allowance covers an `Unknown`; a call without facts has the
fact that it is a call of that tool; a list without verdicts is a question; and what is added later
(operands, guards) can only make the decision stricter. Where any rule denies, a command with words
that may run something else may hide just that: then not even an allowance of the whole tool covers
it.

Two kinds of facts only make a decision stricter. A **guard** is what a wrapper such as `sudo` runs,
or what a part that is asked about anyway would run: denials and questions are looked for, and
something else has to allow it. An **operand** is a file or a host that a word of a command may
name; it is looked for only if some rule denies or asks about files or hosts.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import chain

from greenroom.core import PermissionPart, RuleDecision, visible
from greenroom.permissions.call import Call, Fact, find_operands, find_protected
from greenroom.permissions.matching import Match, covers, meets_condition, touches
from greenroom.permissions.rule import PermissionRule
from greenroom.permissions.scopes import RuleIndex
from greenroom.shell import Command, PathUse, Unknown

STRICTNESS = {RuleDecision.ALLOW: 0, RuleDecision.ASK: 1, RuleDecision.DENY: 2}
# Options by which a program writes a file.
_ONLY_WRITES = re.compile(r"--?(?:\w*[ioO]|in-?place|out\w*|delete|f?print\w*|remote-name)(?:=.*)?")
_UNFOLLOWED = Unknown(reason="it names files that can't all be looked up")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the rules say to one fact.

    Attributes:
        fact: the fact.
        decision: what they say.
        why: in words; empty where no rule is about the fact.
        rule: the rule that said it, or None.
        doubt: a rule may deny the fact; whether it does can't be told.
        call: what the fact is part of, for the reason where no rule is about it.
    """

    fact: Fact
    decision: RuleDecision
    why: str = ""
    rule: PermissionRule | None = None
    doubt: bool = False
    call: Call | None = field(default=None, repr=False, compare=False)

    @property
    def reason(self) -> str:
        """Why, in words; few of those that are asked for a decision are asked for it."""
        return self.why or _open_reason(self.fact, self.call)

    @property
    def message(self) -> str:
        """What the model is told if this denies the call."""
        message = self.rule.message if self.rule else ""
        return message + _advice(self.fact) if message else self.reason

    @property
    def part(self) -> PermissionPart:
        """The same in words, as prompts show it."""
        rule, source = (self.rule.id, self.rule.source) if self.rule else ("", "")
        return PermissionPart(str(self.fact), self.decision, self.reason, rule, source)


_NOTHING = Verdict(Unknown(reason="nothing"), RuleDecision.ASK, "there is nothing to judge")


def combine(verdicts: Iterable[Verdict]) -> RuleDecision:
    """Deny if any part is denied, else ask if any is asked about, else allow."""
    return max((verdict.decision for verdict in verdicts), key=STRICTNESS.__getitem__)


def evaluate(call: Call, rules: RuleIndex) -> tuple[Verdict, ...]:
    """Judge each fact by the first rule that is about it.

    Facts that only guard (what a wrapper runs, what an operand names) appear where a rule denies
    or asks, or where they write what is protected.
    """
    facts = list(chain(call.facts, find_operands(call, rules.care)))
    if call.place.lookup.is_exhausted:
        facts.append(_UNFOLLOWED)
    verdicts = [each for fact in facts if (each := _judge_fact(fact, call, rules)) is not None]
    return tuple(verdicts) or (_NOTHING,)


def _judge_fact(fact: Fact, call: Call, rules: RuleIndex) -> Verdict | None:
    """Judge a fact; None if it only guards, and nothing is to be said about it."""
    about = rules.about(fact)
    if not fact.guard:
        return _apply_rules(fact, call, about, rules)
    if not isinstance(fact, Command) and all(rule.decision is RuleDecision.ALLOW for rule in about):
        return None  # as of most operands; a command may write what is protected
    verdict = _apply_rules(fact, call, about, rules)
    matters = verdict.rule is not None or (isinstance(fact, Command) and find_protected(fact, call))
    return verdict if matters and verdict.decision is not RuleDecision.ALLOW else None


def _apply_rules(
    fact: Fact, call: Call, about: Iterable[PermissionRule], rules: RuleIndex
) -> Verdict:
    """Find what the rules say, in their order; those that only tighten come before an allowance."""
    if isinstance(fact, Unknown) and fact.refused:
        return Verdict(fact, RuleDecision.DENY, fact.reason)
    # A text that can't be read, or that a program runs, may hold whatever a rule denies.
    is_opaque = isinstance(fact, Unknown) or (isinstance(fact, Command) and _runs_more(fact))
    may_hide = is_opaque and not all(map(_is_over, rules.denials))
    said: list[Verdict] = []
    for rule in about:
        if may_hide and rule.decision is RuleDecision.ALLOW and rule.matcher.about_calls:
            continue
        decision = None if _is_over(rule) else _decision(rule, fact, call)
        if decision is None:
            continue
        doubt = rule.decision is RuleDecision.DENY is not decision
        said.append(Verdict(fact, decision, _reason(rule, decision, fact), rule, doubt))
        if not rule.tightens or decision is RuleDecision.DENY:
            break
    else:
        said.append(Verdict(fact, RuleDecision.ASK, doubt=may_hide, call=call))
    if len(said) == 1 or said[-1].decision is RuleDecision.DENY:
        return said[-1]
    return replace(said[0], doubt=any(each.doubt for each in said))


def _is_over(rule: PermissionRule) -> bool:
    return rule.expires is not None and rule.expired


def _runs_more(fact: Command) -> bool:
    """Tell whether a word lets a program run more than its name says, rather than write a file."""
    words = (fact.argv[at] for at, _ in fact.risks if at < len(fact.argv))
    return fact.argv[0].text not in (".", "source") and any(
        not word.unknown and not _ONLY_WRITES.fullmatch(word.text) for word in words
    )


def _decision(rule: PermissionRule, fact: Fact, call: Call) -> RuleDecision | None:
    """Say what the rule decides on the fact, or None if it is not about it."""
    matcher = rule.matcher
    if rule.decision is RuleDecision.ALLOW:
        if covers(matcher, fact, call) and meets_condition(matcher, call) is Match.YES:
            return RuleDecision.ALLOW
        return None
    match = touches(matcher, fact, call)
    if match:
        match = min(match, meets_condition(matcher, call))
    if not match:
        return None
    return rule.decision if match is Match.YES else RuleDecision.ASK


def _reason(rule: PermissionRule, decision: RuleDecision, fact: Fact) -> str:
    if decision is not rule.decision:
        return f"it can't be told whether the rule {rule.id!r} is about this"
    verb = {"allow": "allows", "deny": "denies", "ask": "asks about"}[decision]
    because = rule.message or rule.description
    reason = f"the rule {rule.id!r} {verb} this" + (f": {because}" if because else "")
    return reason + _advice(fact)


def _advice(fact: Fact) -> str:
    """Say what to do where a pattern, and not a file, is what a rule is about."""
    if not (isinstance(fact, PathUse) and fact.stars in ("files", "search")):
        return ""
    text = fact.text.removeprefix("**/") if fact.stars == "search" else fact.text
    return f" ({visible(text)} may stand for it: name the files that are meant)"


def _open_reason(fact: Fact, call: Call | None) -> str:
    if isinstance(fact, Unknown):
        return fact.reason
    for at, names in find_protected(fact, call).items() if call else ():
        name = fact.argv[at].text if isinstance(fact, Command) else "/".join(names[0])
        return f"{name} is protected: it makes programs run or rules change, and no rule names it"
    if isinstance(fact, Command) and fact.risks:
        return f"no rule allows this: {fact.risks[0][1]}"
    return "no rule is about this"
