"""The rules that an "always" would add: one for each open part, of the narrowest useful shape."""

import posixpath
from collections.abc import Sequence

from greenroom.core import AgentContext, Remember, RuleDecision, RuleFileError
from greenroom.permissions.answers.commands import command_matcher, path_text, runs_others
from greenroom.permissions.answers.grants import answered
from greenroom.permissions.facts.fact import Change, Command, Fact, HostUse, PathUse, Unknown, Whole
from greenroom.permissions.judging.call import Call
from greenroom.permissions.judging.evaluator import Verdict
from greenroom.permissions.judging.explanation import Explanation
from greenroom.permissions.judging.likeness import covers
from greenroom.permissions.judging.protection import protected, writes_inside, writes_own_rules
from greenroom.permissions.rules.matcher import RuleMatcher
from greenroom.permissions.rules.rule import PermissionRule

__all__ = ["forbid", "remembered", "suggest"]


def suggest(call: Call, verdicts: Sequence[Verdict]) -> tuple[PermissionRule, ...]:
    """Propose rules that would have allowed the open parts of a call, each for one of them.

    A part such as a download, for which no rule is narrow enough, gets none, and is asked about
    again. Nothing is proposed at all where a rule asks or may deny, or where a part can't be told
    beforehand, is wrapped in another, or writes to a file outside of the workspace.
    """
    open_parts = [each for each in verdicts if each.decision is RuleDecision.ASK]
    if any(each.rule is not None or _is_unclear(each.fact, call) for each in open_parts):
        return ()
    proposed = ((each.fact, _matcher(_subject(each.fact), call)) for each in open_parts)
    matchers = [each for fact, each in proposed if each and covers(each, fact, call)]
    return tuple(answered(RuleDecision.ALLOW, each) for each in dict.fromkeys(matchers))


def _subject(fact: Fact) -> Fact:
    """Return the command that a variable is set for, or that writes to a file; else the fact."""
    return fact.command or fact if isinstance(fact, Change | PathUse) else fact


def _is_unclear(fact: Fact, call: Call) -> bool:
    match fact:
        case Command():
            by_another = fact.outer is not None and not fact.outer.guard
            dynamic = any(word.dynamic for word in fact.argv)
            return by_another or dynamic or runs_others(fact, call)
        case PathUse() if any(isinstance(each, Command) for each in call.facts):
            return fact.command is None or not writes_inside(fact, call)
        case Change():
            return not (fact.command and fact.setting)
        case _:
            return isinstance(fact, Unknown)


def forbid(call: Call, verdicts: Sequence[Verdict]) -> tuple[PermissionRule, ...]:
    """Propose the rule that a remembered denial adds: as for an "always", else verb or words.

    A call with several open parts gives none, since it does not say which of them was meant.
    """
    open_facts = [each.fact for each in verdicts if each.decision is RuleDecision.ASK]
    open_parts = [_subject(fact) if isinstance(fact, Change) else fact for fact in open_facts]
    if not open_parts or any(each != open_parts[0] for each in open_parts):
        return ()
    fact = open_parts[0]
    while isinstance(fact, Command) and fact.outer is not None:
        fact = fact.outer  # what was asked about is all of it
    matcher = _matcher(fact, call, forbids=True)
    return (answered(RuleDecision.DENY, matcher),) if matcher else ()


def remembered(
    explanation: Explanation, decision: RuleDecision, lifetime: Remember, context: AgentContext
) -> tuple[PermissionRule, ...]:
    """Turn the proposed rules into those of an answer."""
    proposed = explanation.remembers if decision is RuleDecision.ALLOW else explanation.forbids
    session = context.session_id if lifetime == "session" else ""
    return tuple(answered(rule.decision, rule.matcher, session) for rule in proposed)


def _matcher(fact: Fact, call: Call, *, forbids: bool = False) -> RuleMatcher | None:
    if not forbids and writes_own_rules(fact, call):
        return None
    try:
        match fact:
            case Command():
                return command_matcher(fact, call, forbids=forbids)
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

    A hidden folder is never opened as a whole, nor is a protected one.
    """
    pattern = path_text(fact.lexical[0], call) if len(fact.lexical) == 1 else ""
    folder = posixpath.dirname(pattern)
    is_open = not pattern.startswith("/") and "/." not in f"/{folder}"
    if folder and is_open and not protected(fact, call):
        pattern = f"{folder}/**"
    return RuleMatcher(tool=(call.tool,), path=(pattern,)) if pattern else None
