"""The evaluator: from the rules and the facts of one call to one decision.

How it works
============

A **fact** is the smallest thing that a rule can judge: one program with its words, one file that is
read or written, one host, one variable that is set, or an `Unknown`, for what can't be determined.
A call is a list of facts (`greenroom.permissions.call`): `Read` of a file is one fact, and
`cd src && make > log` is three. No fact is left out for not being understood.

Each fact is judged on its own. The rules are tried in the order of their scopes
(`greenroom.permissions.scopes`), and **the first rule that is about the fact decides**. Whether a
rule is about a fact depends on its decision:

- An allowance is about a fact only if it names exactly that: a path matches both as written and
  with links followed, and no word makes the program do more than its name says.
- A denial or a question is about a fact in any spelling that may mean the same. If it is unclear
  whether it means that, the match is MAYBE, and the fact is asked about: it is *in doubt*.

The rulings are then combined: one denial denies the call; otherwise, one question asks; otherwise,
the call is allowed.

Nothing unknown is ever allowed, with one exception: a text that is not plain is covered by a rule
for the whole tool, as long as nothing is denied, since the text may hide just that. The same goes
for a command whose words may run other programs, and a text that a command hands to a shell is
covered by such a rule or by one that names its words, but not by one for all calls. A call without
facts still has the fact that the tool was called; an empty list of rulings is a question; and what
is added later (operands, guards) can only make the decision stricter.

Two kinds of facts can only make a decision stricter. A **guard** is what a wrapper such as `sudo`
runs, or what a part seems to run that is asked about anyway: denials and questions apply to it, but
something else has to allow it. An **operand** is a file or a host that a word of a command may
name; operands are looked for only if some rule denies or asks about files or hosts.
"""

import logging
from collections.abc import Iterable
from enum import IntEnum
from functools import lru_cache
from itertools import chain, product

import msgspec
from msgspec.structs import replace

from greenroom.core import RuleDecision
from greenroom.core._internal import (
    PermissionPart,
    clip,
    describe_error,
    notice,
    protected_names,
    visible,
)
from greenroom.permissions.call import Call, Fact
from greenroom.permissions.matcher import RuleMatcher
from greenroom.permissions.operands import HostUse
from greenroom.permissions.rule import PermissionRule
from greenroom.permissions.scopes import RuleIndex
from greenroom.programs._internal import (
    RUNNERS,
    extract_words,
    fold_program,
    occurs_in,
    only_writes,
    resembles,
)
from greenroom.shell._internal import Change, Command, PathUse, Unknown

_logger = logging.getLogger("greenroom.permissions")

STRICTNESS = {RuleDecision.ALLOW: 0, RuleDecision.ASK: 1, RuleDecision.DENY: 2}
_UNFOLLOWED = Unknown(reason="it names files that can't all be looked up")
_CHANGED = "the tool's definition is no longer the one that was allowed"


class Ruling(msgspec.Struct, frozen=True):
    """What the rules decide about one fact.

    Attributes:
        fact: the fact.
        decision: allow, deny or ask.
        why: the reason in words; empty if no rule is about the fact.
        rule: the rule that decided, or None.
        doubt: whether it is unclear if a rule denies the fact.
        reads: whether it is allowed because it only reads.
        call: the call that the fact is part of, for the reason if no rule is about it.
    """

    fact: Fact
    decision: RuleDecision
    why: str = ""
    rule: PermissionRule | None = None
    doubt: bool = False
    reads: bool = False
    call: Call | None = None

    @property
    def reason(self) -> str:
        """The reason in words; computed on demand, since few callers need it."""
        return self.why or _explain_open(self.fact, self.call)

    @property
    def message(self) -> str:
        """What the model reads if this ruling denies the call."""
        message = self.rule.message if self.rule else ""
        return message + _advise(self.fact) if message else self.reason

    @property
    def part(self) -> PermissionPart:
        """The ruling in words, as prompts show it."""
        rule, source = (self.rule.id, self.rule.source) if self.rule else ("", "")
        return PermissionPart(str(self.fact), self.decision, self.reason, rule, source)


_NOTHING = Ruling(Unknown(reason="nothing"), RuleDecision.ASK, "there is nothing to judge")


def combine(rulings: Iterable[Ruling]) -> RuleDecision:
    """Deny if any part is denied, else ask if any is asked about, else allow."""
    return max((ruling.decision for ruling in rulings), key=STRICTNESS.__getitem__)


def evaluate(call: Call, rules: RuleIndex) -> tuple[Ruling, ...]:
    """Judge each fact by the first rule that is about it.

    Facts that only guard (what a wrapper runs, what an operand names) appear only if a rule denies
    or asks about them, or if they write something protected.
    """
    facts = list(chain(call.facts, call.find_operands(rules.care)))
    if call.place.lookup.is_exhausted:
        facts.append(_UNFOLLOWED)
    rulings = [each for fact in facts if (each := _judge_fact(fact, call, rules)) is not None]
    return tuple(rulings) or (_NOTHING,)


def _judge_fact(fact: Fact, call: Call, rules: RuleIndex) -> Ruling | None:
    """Judge a fact; None if it is a guard that no rule objects to."""
    about = rules.find_rules(fact)
    if not fact.guard:
        return _apply_rules(fact, call, about, rules)
    if not isinstance(fact, Command) and all(rule.decision is RuleDecision.ALLOW for rule in about):
        return None  # as for most operands; a command may still write something protected
    ruling = _apply_rules(fact, call, about, rules)
    if isinstance(fact, Command) and fact.perhaps:
        return ruling if ruling.why else replace(ruling, why="the text may run this")
    matters = ruling.rule is not None or (isinstance(fact, Command) and call.find_protected(fact))
    return ruling if matters and ruling.decision is not RuleDecision.ALLOW else None


def _apply_rules(
    fact: Fact, call: Call, about: Iterable[PermissionRule], rules: RuleIndex
) -> Ruling:
    """Apply the rules in their order; rules that only tighten do not end the search."""
    if isinstance(fact, Unknown) and fact.too_large:
        return Ruling(fact, RuleDecision.DENY, fact.reason)
    may_hide = _may_hide(fact, rules)
    is_input = isinstance(fact, Command) and fact.takes_input
    rulings: list[Ruling] = []
    why = ""
    for rule in about:
        if not rule.matcher.fits_definition(call.definition_hash):
            why = why or (_CHANGED if rule.decision is RuleDecision.ALLOW else "")
            continue
        covers_all = rule.matcher.about_calls or is_input
        if may_hide and rule.decision is RuleDecision.ALLOW and covers_all:
            continue
        decision = None if rule.is_expired else _decide(rule, fact, call)
        if decision is None:
            continue
        doubt = rule.decision is RuleDecision.DENY is not decision
        rulings.append(Ruling(fact, decision, _explain(rule, decision, fact), rule, doubt))
        if not rule.tightens or decision is RuleDecision.DENY:
            break
    else:
        rulings.append(Ruling(fact, RuleDecision.ASK, why, doubt=may_hide, call=call))
    if len(rulings) == 1 or rulings[-1].decision is RuleDecision.DENY:
        return rulings[-1]
    return replace(rulings[0], doubt=any(each.doubt for each in rulings))


def _may_hide(fact: Fact, rules: RuleIndex) -> bool:
    """Return whether a fact may hide what a rule denies.

    A text that can't be read, or that a program runs, may be anything. Words that a program takes
    from its input may name files, or options of that program.
    """
    denials = [rule for rule in rules.denials if not rule.is_expired]
    if isinstance(fact, Unknown):
        return bool(denials)
    if not isinstance(fact, Command):
        return False
    words = (fact.argv[at] for at, _ in fact.risks if at < len(fact.argv))
    if not all(map(only_writes, words)):  # one lets it run something else
        return bool(denials)
    name = fold_program(fact.argv[0])
    return fact.takes_input and any(
        each.matcher.path
        or each.matcher.regex
        or name in (fold_program(words[0]) for words in each.matcher.commands)
        for each in denials
    )


def _decide(rule: PermissionRule, fact: Fact, call: Call) -> RuleDecision | None:
    """Return what the rule decides about the fact, or None if it is about something else."""
    matcher = rule.matcher
    if rule.decision is RuleDecision.ALLOW:
        is_covered = covers(matcher, fact, call) and meets_condition(rule, call) is Match.YES
        return RuleDecision.ALLOW if is_covered else None
    if match := touches(matcher, fact, call):
        match = min(match, meets_condition(rule, call))
    return (None, RuleDecision.ASK, rule.decision)[match]


def _explain(rule: PermissionRule, decision: RuleDecision, fact: Fact) -> str:
    if decision is not rule.decision:
        return f"it is unclear whether the rule {rule.id!r} is about this"
    verb = {"allow": "allows", "deny": "denies", "ask": "asks about"}[decision]
    because = rule.message or rule.description
    reason = f"the rule {rule.id!r} {verb} this" + (f": {because}" if because else "")
    return reason + _advise(fact)


def _advise(fact: Fact) -> str:
    """Add advice for the model if a rule is about a pattern rather than a file."""
    if not (isinstance(fact, PathUse) and fact.searches):
        return ""
    text = fact.text.removeprefix("**/")
    return f" ({visible(text)} may stand for it: name the files that are meant)"


def _explain_open(fact: Fact, call: Call | None) -> str:
    if isinstance(fact, Unknown):
        return fact.reason
    for at, names in call.find_protected(fact).items() if call else ():
        name = fact.argv[at] if isinstance(fact, Command) else "/".join(names[0])
        return f"{name} is protected: it makes programs run or rules change, and no rule names it"
    if isinstance(fact, Command) and fact.risks:
        return f"no rule allows this: {fact.risks[0][1]}"
    if isinstance(fact, Command) and fact.file is None:
        return f"no rule names these words, and there is no {fact.argv[0]} yet"
    return "no rule is about this"


class Match(IntEnum):
    """How far a rule is about a fact; `Match` of a truth value is MAYBE or NO."""

    NO = 0
    MAYBE = 1
    YES = 2


def meets_condition(rule: PermissionRule, call: Call) -> Match:
    """Evaluate the rule's predicate, if it has one; MAYBE means that it raised."""
    predicate = rule.matcher.predicate
    if predicate is None:
        return Match.YES
    try:
        return Match.YES if predicate(call.tool, call.input) else Match.NO
    except Exception as error:
        _logger.exception("the condition of the permission rule %r failed", rule.id)
        _warn_once(
            f"the condition of the permission rule {rule.id!r} failed, so calls of {call.tool} are "
            f"asked about unless another rule decides: {visible(clip(describe_error(error), 500))} "
            "(a condition takes the tool's name and the input)"
        )
        return Match.MAYBE


@lru_cache(maxsize=100)
def _warn_once(text: str) -> None:
    """Report a failed condition once: it is evaluated for every part of every call."""
    notice(_logger, text)


def covers(matcher: RuleMatcher, fact: Fact, call: Call) -> bool:
    """Return whether an allowance covers all of a fact; it has to name what is protected."""
    if isinstance(fact, Unknown):
        return bool(fact.text and matcher.tool and matcher.about_calls)
    if matcher.about_calls:
        is_text = isinstance(fact, Command) and fact.invocation.texts
        return bool(matcher.tool or not is_text) and not call.find_protected(fact)
    if isinstance(fact, Command):
        return _covers_command(matcher, fact, call)
    if isinstance(fact, PathUse):
        return _covers_path(matcher, fact, call)
    if isinstance(fact, Change):
        # A matcher that names the settings of a command names exactly those, this one included.
        named = matcher.settings and fact.setting and fact.command
        return bool(named and _count_named_words(matcher, named))
    return isinstance(fact, HostUse) and any(each.matches(fact.host) for each in matcher.hosts)


def _covers_command(matcher: RuleMatcher, fact: Command, call: Call) -> bool:
    named = 0 if fact.takes_input else _count_named_words(matcher, fact)
    outer, start = fact.outer, fact.start
    while outer is not None:  # a rule about a wrapper may name words of what it runs as well
        named = max(named, _count_named_words(matcher, outer) - start)
        start += outer.start
        outer = outer.outer
    if named <= 0:
        return False
    careful = [*(at for at, _ in fact.risks), *call.find_protected(fact)]
    if fact.file is None:  # what will run under this name is not known
        careful.append(len(fact.argv) - 1)
    return all(at < named for at in careful)


def _count_named_words(matcher: RuleMatcher, fact: Command) -> int:
    """Count the words of a command that the matcher names; 0 if it is about other commands."""
    reaches = []
    if matcher.settings and matcher.settings != frozenset(fact.settings):
        return 0
    if matcher.prefixes:
        named = (len(each) for each in matcher.prefixes if fact.argv[: len(each)] == each)
        reaches.append(max(named, default=0))
    if matcher.exact:
        reaches.append(len(fact.argv) if fact.argv == matcher.exact else 0)
    if matcher.expressions and all(reaches):
        # An expression says nothing about single words, so it names the program alone.
        is_clear = not any(char.isspace() for char in fact.argv[0])
        is_match = is_clear and any(each.fullmatch(fact.text) for each in matcher.expressions)
        reaches.append(int(is_match))
    return max(reaches, default=0) if all(reaches) else 0


def _covers_path(matcher: RuleMatcher, fact: PathUse, call: Call) -> bool:
    patterns = matcher.paths
    if matcher.targets and fact.command is not None:
        patterns = matcher.targets if _count_named_words(matcher, fact.command) else ()
    folder = fact.kind == "read"
    return bool(patterns) and all(
        any(
            pattern.matches(path, anchors, folder=folder)
            and (folder or all(map(pattern.names, protected_names(path, *anchors.texts))))
            for pattern in patterns
        )
        for path, anchors in call.list_paths(fact)
    )


def touches(matcher: RuleMatcher, fact: Fact, call: Call) -> Match:
    """Return whether a denial or a question may be about this fact."""
    if matcher.about_calls:
        return Match.YES
    if isinstance(fact, Command) and matcher.about_commands:
        return _touches_command(matcher, fact, call)
    if isinstance(fact, PathUse) and matcher.paths:
        return _touches_path(matcher, fact, call)
    if isinstance(fact, Unknown) and fact.text:
        return Match(_may_be_in(matcher, fact.text))
    if isinstance(fact, HostUse) and any(each.touches(fact.host) for each in matcher.hosts):
        return Match.YES
    return Match.NO


def _touches_command(matcher: RuleMatcher, fact: Command, call: Call) -> Match:
    found = [Match.YES]
    if matcher.prefixes:
        found.append(max(_match_prefix(fact, each) for each in matcher.prefixes))
    if matcher.exact:
        is_same = len(matcher.exact) == len(fact.argv) and resembles(fact.argv, matcher.exact)
        may_be = fact.takes_input and resembles(fact.argv, matcher.exact[:1])
        found.append(Match.YES if is_same else Match(may_be))
    if matcher.expressions:
        hits = {each.search(text) for each in matcher.expressions for text in fact.spellings}
        found.append(Match.YES if True in hits else Match(None in hits))
    if not matcher.settings.issubset(fact.settings) and min(found):
        # The call may set the variable in another way than before the command.
        missing = matcher.settings.difference(fact.settings)
        own = (x for x in call.facts if isinstance(x, Change) and x.setting and x.command is fact)
        text = "\n".join(map(str, set(call.facts).difference(own)))
        found.append(Match(all(each.partition("=")[0] in text for each in missing)))
    return min(found)


def _may_be_in(matcher: RuleMatcher, text: str) -> bool:
    """Return whether a text that is not plain may run a command that a matcher is about."""
    words = extract_words(text)
    named = any(occurs_in(words, each) for each in matcher.commands)
    return named or any(each.search(text) is not False for each in matcher.expressions)


def _match_prefix(fact: Command, prefix: tuple[str, ...]) -> Match:
    """Return whether a command begins with a prefix, or may run one that does."""
    if resembles(fact.argv, prefix):
        return Match.YES
    if not occurs_in(fact.possible_words, prefix):
        return Match.NO
    own = fold_program(fact.argv[0]) in RUNNERS and occurs_in(extract_words(fact.text), prefix)
    return Match.YES if own else Match.MAYBE


def _touches_path(matcher: RuleMatcher, fact: PathUse, call: Call) -> Match:
    anchors = dict.fromkeys(call.anchors)
    named = product({*fact.lexical, *fact.real}, matcher.paths)
    # A search may find anything; to list what there is takes too long.
    looked_for = product(fact.lexical if fact.searches else (), anchors, matcher.paths)
    is_about = any(pattern.touches(path, *anchors) for path, pattern in named) or any(
        pattern.may_be_found_by(path, anchor) for path, anchor, pattern in looked_for
    )
    return Match.YES if is_about else Match.NO
