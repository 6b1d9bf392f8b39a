"""The rules that an "always" would add: one for each open part, of the narrowest useful shape."""

import posixpath
import re
from collections.abc import Sequence
from dataclasses import replace

from greenroom.core import AgentContext, Remember, RuleDecision, RuleFileError
from greenroom.permissions.answers.suggested_command import command_matcher
from greenroom.permissions.answers.verbs import verb_length, wraps
from greenroom.permissions.facts.fact import Change, Command, Fact, HostUse, PathUse, Unknown, Whole
from greenroom.permissions.judging.call import Call
from greenroom.permissions.judging.evaluator import Verdict
from greenroom.permissions.judging.explanation import Explanation
from greenroom.permissions.judging.likeness import covers
from greenroom.permissions.judging.protection import protects, writes_own_rules
from greenroom.permissions.rules.matcher import RuleMatcher, quoted_words
from greenroom.permissions.rules.rule import ANSWER, ANSWERED, PermissionRule, RuleScope

__all__ = ["forbid", "remembered", "suggest"]

_SPECIAL = re.compile(r"[*?\[\]{}\\]|^~")


def suggest(call: Call, verdicts: Sequence[Verdict]) -> tuple[PermissionRule, ...]:
    """Propose rules that would have allowed the open parts of a call, each for one of them.

    A part such as a download, for which no rule is narrow enough, gets none, and is asked about
    again. Nothing is proposed at all where a rule asks or may deny, or where a part can't be told
    beforehand, is wrapped in another, sets a variable, or redirects.
    """
    open_parts = [each for each in verdicts if each.decision is RuleDecision.ASK]
    if any(each.rule is not None or _is_unclear(each.fact) for each in open_parts):
        return ()
    proposed = ((each.fact, _matcher(each.fact, call)) for each in open_parts)
    matchers = [
        matcher for fact, matcher in proposed if matcher is not None and covers(matcher, fact, call)
    ]
    return tuple(
        PermissionRule(decision=RuleDecision.ALLOW, matcher=each, scope=RuleScope.USER)
        for each in dict.fromkeys(matchers)
    )


def _is_unclear(fact: Fact) -> bool:
    match fact:
        case Command():
            by_another = fact.outer is not None and not fact.outer.guard
            words = [word.text for word in fact.argv]
            return by_another or wraps(words) or any(word.dynamic for word in fact.argv)
        case PathUse():
            return fact.command is not None
        case _:
            return isinstance(fact, (Change, Unknown))


def forbid(call: Call, verdicts: Sequence[Verdict]) -> tuple[PermissionRule, ...]:
    """Propose the rule that a remembered denial adds: as for an "always", else verb or words.

    A call with several open parts gives none, since it does not say which of them was meant.
    """
    open_parts = [each for each in verdicts if each.decision is RuleDecision.ASK]
    if len(open_parts) != 1:
        return ()
    fact = open_parts[0].fact
    while isinstance(fact, Command) and fact.outer is not None:
        fact = fact.outer  # what was asked about is all of it
    matcher = _matcher(fact, call)
    if isinstance(fact, Command) and not (matcher and matcher.command_prefix):
        matcher = _forbidden(fact, call)
    if matcher is None:
        return ()
    return (PermissionRule(decision=RuleDecision.DENY, matcher=matcher, scope=RuleScope.USER),)


def remembered(
    explanation: Explanation, decision: RuleDecision, lifetime: Remember, context: AgentContext
) -> tuple[PermissionRule, ...]:
    """Turn the proposed rules into those of an answer."""
    proposed = explanation.remembers if decision is RuleDecision.ALLOW else explanation.forbids
    session = context.session_id if lifetime == "session" else ""
    return tuple(
        replace(rule, session=session, created_by=ANSWER, source=ANSWERED, id="")
        for rule in proposed
    )


def _forbidden(fact: Fact, call: Call) -> RuleMatcher | None:
    """Name the program and its verb, as for `git push`, else all of the words."""
    if not isinstance(fact, Command) or not all(word.static for word in fact.argv):
        return None
    words = tuple(word.text for word in fact.argv)
    length = verb_length(words)
    try:
        if length:
            return RuleMatcher(tool=(call.tool,), command_prefix=(quoted_words(words[:length]),))
        return RuleMatcher(tool=(call.tool,), argv_exact=words)
    except RuleFileError:
        return None


def _matcher(fact: Fact, call: Call) -> RuleMatcher | None:
    try:
        match fact:
            case Command() if writes_own_rules(fact, call):
                return None
            case Command():
                return command_matcher(fact, call.tool)
            case PathUse():
                return _path(fact, call)
            case HostUse() if fact.host.exact and not fact.guard:
                return RuleMatcher(tool=(call.tool,), domain=(fact.host.exact,))
            case Whole():
                return RuleMatcher(tool=(fact.tool,))
            case _:
                return None
    except RuleFileError:
        return None  # a name that no rule can hold, such as a path with a brace


def _path(fact: PathUse, call: Call) -> RuleMatcher | None:
    """Propose the file's folder within the workspace, else the file itself.

    A hidden folder is never opened as a whole, nor is the file itself where it holds our own rules.
    """
    if len(fact.lexical) != 1 or _SPECIAL.search(fact.lexical[0]) or writes_own_rules(fact, call):
        return None
    path = fact.lexical[0]
    root = posixpath.join(call.place.root, "")
    pattern = path
    if path.startswith(root):
        pattern = path.removeprefix(root)
        folder = posixpath.dirname(pattern)
        if folder and "/." not in f"/{folder}" and not protects(fact, call):
            pattern = f"{folder}/**"
    return RuleMatcher(tool=(call.tool,), path=(pattern,))
