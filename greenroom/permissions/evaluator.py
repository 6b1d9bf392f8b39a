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

- An allowance is about a fact only if it names exactly that: every word is known, a path matches
  both as written and with links followed, and no word makes the program do more than its name says.
- A denial or a question is about a fact in any spelling that may mean the same. If that depends on
  something unknown, the match is MAYBE, and the fact is asked about: it is *in doubt*.

The rulings are then combined: one denial denies the call; otherwise, one question asks; otherwise,
the call is allowed.

Nothing unknown is ever allowed: no allowance covers an `Unknown`; a call without facts still has
the fact that the tool was called; an empty list of rulings is a question; and what is added later
(operands, guards) can only make the decision stricter. If any rule denies something, a command
whose words may run other programs may hide just that, so not even an allowance of the whole tool
covers it.

Two kinds of facts can only make a decision stricter. A **guard** is what a wrapper such as `sudo`
runs, or what a part would run that is asked about anyway: denials and questions apply to it, but
something else has to allow it. An **operand** is a file or a host that a word of a command may
name; operands are looked for only if some rule denies or asks about files or hosts.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import lru_cache
from itertools import chain, product

from greenroom.core import (
    PermissionPart,
    RuleDecision,
    clip,
    describe_error,
    notice,
    protected_names,
    visible,
)
from greenroom.permissions.call import Call, Fact, HostUse, find_operands, find_protected
from greenroom.permissions.matcher import RuleMatcher
from greenroom.permissions.rule import PermissionRule
from greenroom.permissions.scopes import RuleIndex, is_flag, program_name
from greenroom.shell import (
    RUNNERS,
    Change,
    Command,
    PathUse,
    Unknown,
    Word,
    extract_words,
    read_pattern,
)

_logger = logging.getLogger("greenroom.permissions")

STRICTNESS = {RuleDecision.ALLOW: 0, RuleDecision.ASK: 1, RuleDecision.DENY: 2}
# Options that make a program write a file.
_ONLY_WRITES = re.compile(r"--?(?:\w*[ioO]|in-?place|out\w*|delete|f?print\w*|remote-name)(?:=.*)?")
_UNFOLLOWED = Unknown(reason="it names files that can't all be looked up")
MAX_PLACES = 16  # where one program is looked for among the words
# Other spellings of the options that denials usually name.
_SPELLINGS = (
    *({"-r", "-R", "--recursive"}, {"-f", "--force"}, {"-i", "--in-place"}, {"-n", "--dry-run"}),
    *({"-o", "--output"}, {"-a", "--all"}, {"-d", "--delete"}, {"-D", "--delete"}),
)


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the rules decide about one fact.

    Attributes:
        fact: the fact.
        decision: allow, deny or ask.
        why: the reason in words; empty if no rule is about the fact.
        rule: the rule that decided, or None.
        doubt: whether it is unclear if a rule denies the fact.
        call: the call that the fact is part of, for the reason if no rule is about it.
    """

    fact: Fact
    decision: RuleDecision
    why: str = ""
    rule: PermissionRule | None = None
    doubt: bool = False
    call: Call | None = field(default=None, repr=False, compare=False)

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


@dataclass(frozen=True)
class Judgement:
    """The decision about a call; `explain` adds what a person needs to know to answer.

    Attributes:
        call: what was judged.
        decision: allow, deny or ask.
        rulings: what the rules and the mode say about each part.
    """

    call: Call
    decision: RuleDecision
    rulings: tuple[Ruling, ...] = field(repr=False)

    @property
    def digest(self) -> str:
        """A SHA-256 that identifies the call, without the files that its commands name."""
        return self.call.digest

    @property
    def _chief(self) -> Ruling:
        return next(each for each in self.rulings if each.decision is self.decision)

    @property
    def reason(self) -> str:
        """The reason, in words for people and models."""
        chief = self._chief
        is_named = len(self.rulings) == 1 or str(chief.fact) in chief.reason
        return chief.reason if is_named else f"{chief.fact}: {chief.reason}"

    @property
    def rule(self) -> PermissionRule | None:
        """The rule that decided, or None."""
        return self._chief.rule

    @property
    def parts(self) -> tuple[PermissionPart, ...]:
        """The ruling on each part of the call."""
        return tuple(ruling.part for ruling in self.rulings)

    @property
    def message(self) -> str:
        """What the model reads if the call is denied."""
        return self._chief.message


_NOTHING = Ruling(Unknown(reason="nothing"), RuleDecision.ASK, "there is nothing to judge")


def combine(rulings: Iterable[Ruling]) -> RuleDecision:
    """Deny if any part is denied, else ask if any is asked about, else allow."""
    return max((ruling.decision for ruling in rulings), key=STRICTNESS.__getitem__)


def evaluate(call: Call, rules: RuleIndex) -> tuple[Ruling, ...]:
    """Judge each fact by the first rule that is about it.

    Facts that only guard (what a wrapper runs, what an operand names) appear only if a rule denies
    or asks about them, or if they write something protected.
    """
    facts = list(chain(call.facts, find_operands(call, rules.care)))
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
    matters = ruling.rule is not None or (isinstance(fact, Command) and find_protected(fact, call))
    return ruling if matters and ruling.decision is not RuleDecision.ALLOW else None


def _apply_rules(
    fact: Fact, call: Call, about: Iterable[PermissionRule], rules: RuleIndex
) -> Ruling:
    """Apply the rules in their order; rules that only tighten do not end the search."""
    if isinstance(fact, Unknown) and fact.too_large:
        return Ruling(fact, RuleDecision.DENY, fact.reason)
    # A text that can't be read, or that a program runs, may hide whatever a rule denies.
    is_opaque = isinstance(fact, Unknown) or (isinstance(fact, Command) and _runs_more(fact))
    may_hide = is_opaque and not all(map(_is_over, rules.denials))
    rulings: list[Ruling] = []
    for rule in about:
        if may_hide and rule.decision is RuleDecision.ALLOW and rule.matcher.about_calls:
            continue
        decision = None if _is_over(rule) else _decide(rule, fact, call)
        if decision is None:
            continue
        doubt = rule.decision is RuleDecision.DENY is not decision
        rulings.append(Ruling(fact, decision, _explain(rule, decision, fact), rule, doubt))
        if not rule.tightens or decision is RuleDecision.DENY:
            break
    else:
        rulings.append(Ruling(fact, RuleDecision.ASK, doubt=may_hide, call=call))
    if len(rulings) == 1 or rulings[-1].decision is RuleDecision.DENY:
        return rulings[-1]
    return replace(rulings[0], doubt=any(each.doubt for each in rulings))


def _is_over(rule: PermissionRule) -> bool:
    return rule.expires is not None and rule.is_expired  # few rules have an expiry to look at


def _runs_more(fact: Command) -> bool:
    """Return whether a word lets the program run something else, rather than just write a file."""
    words = (fact.argv[at] for at, _ in fact.risks if at < len(fact.argv))
    return fact.argv[0].text not in (".", "source") and any(
        not word.unknown and not _ONLY_WRITES.fullmatch(word.text) for word in words
    )


def _decide(rule: PermissionRule, fact: Fact, call: Call) -> RuleDecision | None:
    """Return what the rule decides about the fact, or None if it is about something else."""
    matcher = rule.matcher
    if rule.decision is RuleDecision.ALLOW:
        if covers(matcher, fact, call) and meets_condition(rule, call) is Match.YES:
            return RuleDecision.ALLOW
        return None
    match = touches(matcher, fact, call)
    if match:
        match = min(match, meets_condition(rule, call))
    if not match:
        return None
    return rule.decision if match is Match.YES else RuleDecision.ASK


def _explain(rule: PermissionRule, decision: RuleDecision, fact: Fact) -> str:
    if decision is not rule.decision:
        return f"it is unclear whether the rule {rule.id!r} is about this"
    verb = {"allow": "allows", "deny": "denies", "ask": "asks about"}[decision]
    because = rule.message or rule.description
    reason = f"the rule {rule.id!r} {verb} this" + (f": {because}" if because else "")
    return reason + _advise(fact)


def _advise(fact: Fact) -> str:
    """Add advice for the model if a rule is about a pattern rather than a file."""
    if not (isinstance(fact, PathUse) and fact.stars in ("files", "search")):
        return ""
    text = fact.text.removeprefix("**/") if fact.stars == "search" else fact.text
    return f" ({visible(text)} may stand for it: name the files that are meant)"


def _explain_open(fact: Fact, call: Call | None) -> str:
    if isinstance(fact, Unknown):
        return fact.reason
    for at, names in find_protected(fact, call).items() if call else ():
        name = fact.argv[at].text if isinstance(fact, Command) else "/".join(names[0])
        return f"{name} is protected: it makes programs run or rules change, and no rule names it"
    if isinstance(fact, Command) and fact.risks:
        return f"no rule allows this: {fact.risks[0][1]}"
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
        return False
    if matcher.about_calls:
        return not find_protected(fact, call)
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
    reach = _count_named_words(matcher, fact)
    careful = [*(at for at, _ in fact.risks), *(find_protected(fact, call) if reach else ())]
    if reach and all(at < reach for at in careful):
        return True
    outer = fact.outer
    return outer is not None and _count_named_words(matcher, outer) > fact.start


def _count_named_words(matcher: RuleMatcher, fact: Command) -> int:
    """Count the words of a command that the matcher names; 0 if it is about other commands."""
    reaches = []
    if matcher.settings and matcher.settings != frozenset(fact.settings):
        return 0
    if matcher.prefixes:
        named = (len(each) for each in matcher.prefixes if begins_with(fact.argv, each))
        reaches.append(max(named, default=0))
    if matcher.exact:
        same = len(fact.argv) == len(matcher.exact) and begins_with(fact.argv, matcher.exact)
        reaches.append(len(fact.argv) if same else 0)
    if matcher.expressions and all(reaches):
        # An expression says nothing about single words, so it names the program alone.
        is_match = fact.is_plain and any(each.fullmatch(fact.text) for each in matcher.expressions)
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
    if isinstance(fact, HostUse) and any(each.touches(fact.host) for each in matcher.hosts):
        return Match.YES
    return Match.NO


def _touches_command(matcher: RuleMatcher, fact: Command, call: Call) -> Match:
    found = [Match.YES]
    if matcher.prefixes:
        found.append(max(_match_prefix(fact, each) for each in matcher.prefixes))
    if matcher.exact:
        found.append(_match_exactly(fact, matcher.exact))
    if matcher.expressions:
        hits = {each.search(text) for each in matcher.expressions for text in fact.spellings}
        found.append(Match.YES if True in hits else Match(None in hits))
    if not matcher.settings.issubset(fact.settings) and min(found):
        # The call may set the variable in another way than before the command.
        missing = matcher.settings.difference(fact.settings)
        own = {
            id(x) for x in call.facts if isinstance(x, Change) and x.command is fact and x.setting
        }
        text = "\n".join(str(each) for each in call.facts if id(each) not in own)
        found.append(Match(all(each.partition("=")[0] in text for each in missing)))
    return min(found)


def _match_prefix(fact: Command, prefix: tuple[str, ...]) -> Match:
    """Return whether a command begins with a prefix, or may run one that does."""
    found = resembles(fact.argv, prefix)
    if found or not (fact.loose and occurs_in(extract_words(fact.text), prefix)):
        return found
    return Match.YES if program_name(fact.argv[0].text) in RUNNERS else Match.MAYBE


def _match_exactly(fact: Command, wanted: tuple[str, ...]) -> Match:
    if len(wanted) == len(fact.argv):
        return resembles(fact.argv, wanted)
    return Match(any(word.split for word in fact.argv) and resembles(fact.argv, wanted[:1]) > 0)


def _touches_path(matcher: RuleMatcher, fact: PathUse, call: Call) -> Match:
    for path, anchors in product({*fact.lexical, *fact.real}, dict.fromkeys(call.anchors)):
        if any(pattern.touches(path, anchors) for pattern in matcher.paths):
            return Match.YES
    for path, anchors in product(fact.patterns, dict.fromkeys(call.anchors)):
        if fact.stars == "search":  # it may find anything; to list what there is takes too long
            if any(pattern.may_be_found_by(path, anchors) for pattern in matcher.paths):
                return Match.YES
        elif any(pattern.overlaps(path, anchors) for pattern in matcher.paths):
            return Match.MAYBE
    return Match.NO


def begins_with(argv: Sequence[Word], prefix: Sequence[str]) -> bool:
    """Return whether the first words are known and are exactly these."""
    if len(argv) < len(prefix):
        return False
    for word, wanted in zip(argv, prefix, strict=False):
        if word.text != wanted or not word.static:
            return False
    return True


def resembles(argv: Sequence[Word], prefix: Sequence[str]) -> Match:
    """Return whether a command begins with a prefix, in any spelling.

    The program may be named by its path or in another case; options may come before, between or
    after the words, apart or together, short or long. MAYBE means that it depends on words that
    are only known at run time.
    """
    if not argv or not argv[0].static or program_name(argv[0].text) != program_name(prefix[0]):
        return Match.NO
    rest = argv[1:]
    flags = [each for each in prefix[1:] if is_flag(each)]
    words = [each for each in prefix[1:] if not is_flag(each)]
    if _has_words(rest, words, surely=True):
        return _has_flags(rest, flags)
    return min(Match(_has_words(rest, words, surely=False)), _has_flags(rest, flags))


def _has_words(argv: Sequence[Word], words: Sequence[str], *, surely: bool) -> bool:
    """Look for the words in order, skipping options and one value of each."""
    places = {0}
    for wanted in words:
        places = {at + 1 for at in _list_places(argv, places) if _is_word(argv[at], wanted, surely)}
    return bool(places)


def _list_places(argv: Sequence[Word], places: set[int]) -> Iterator[int]:
    reached = set(places)
    for at in range(min(places, default=len(argv)), len(argv)):
        if at in reached:
            yield at
            word = argv[at]
            if word.text.startswith(("-", "+")) or word.dynamic:
                reached.add(at + 1)
                if "=" not in word.text and is_flag(word.text):
                    reached.add(at + 2)


def _is_word(word: Word, wanted: str, surely: bool) -> bool:
    if word.static or surely:
        return word.static and word.text == wanted
    return word.dynamic or read_pattern(word.text).fits(wanted)


def _has_flags(argv: Sequence[Word], flags: Sequence[str]) -> Match:
    ends = next((at for at, word in enumerate(argv) if word.text == "--"), len(argv))
    given = argv[:ends]
    wanted = [option for flag in flags for option in _single_flags(flag)]
    if all(any(turns_on(word.text, option) for word in given) for option in wanted):
        return Match.YES
    return Match(any(word.dynamic or (word.pattern and word.text[0] in "-*?[") for word in given))


def _single_flags(flag: str) -> list[str]:
    """Split a cluster such as -rf; a longer word such as -exec stays whole."""
    if flag.startswith("--") or len(flag) == 2 or len(flag) > 4 or not flag[1:].isalpha():
        return [flag]
    return [f"-{letter}" for letter in flag[1:]]


def turns_on(word: str, option: str) -> bool:
    """Return whether a word turns on an option: alone, clustered, abbreviated or with a value."""
    name = word.partition("=")[0]
    for each in {option}.union(*(group for group in _SPELLINGS if option in group)):
        if each in (word, name):
            return True
        if each.startswith("--"):
            found = len(name) > 3 and each.startswith(name)
        else:
            found = len(each) == 2 and word[:1] == "-" != word[1:2] and each[1] in word
        if found:
            return True
    return False


def occurs_in(words: Sequence[str], prefix: Sequence[str]) -> bool:
    """Return whether a command with this prefix occurs anywhere among the words, in any spelling.

    If the program is named very often, the answer is yes without a closer look.

    Example:
        >>> occurs_in("a b git -C x push c".split(), ["git", "push"])
        True
    """
    program = program_name(prefix[0])
    places = [at for at, word in enumerate(words) if program_name(word) == program]
    if len(places) > MAX_PLACES:
        return True
    argv = [Word(word) for word in words] if places else []
    return any(resembles(argv[at:], prefix) for at in places)
